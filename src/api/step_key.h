// The idempotency key in the headers of a workflow's job.
//
// The id of a job is not enough for effects that must happen once in a workflow: a parked undo that
// is retried is another job. So the workflow gives every job of a step, and every job of its undo,
// the same key, in a header that every worker sees. No other job may have the key: if a job copied
// the headers, its work would look as if it had been done.
#pragma once

#include <string>
#include <string_view>

#include "store/operations.h"

namespace mainspring {

inline constexpr std::string_view kStepKeyHeader = "mainspring-idempotency-key";

// Headers are a JSON object of strings, "" = none. `key` needs no escaping.
std::string with_step_key(std::string headers, std::string_view key);
// Other headers stay byte for byte.
std::string without_step_key(std::string headers);
std::string step_key_of(const std::string& headers);  // "" = none

// Removes the key from all jobs that the operation creates.
void drop_step_keys(Operation& operation);

}  // namespace mainspring
