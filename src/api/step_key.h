// The idempotency key that a job of a workflow carries in its headers.
//
// The id of a job is no key for what a workflow wants done once: a parked undo that is tried again
// is another job. So the rules of workflows give each job that they make for a step, or for its
// undo, one key, and it goes where every worker sees it. Nobody else gives it to a job: a copy of a
// job's headers would make the other job's work look as if it had been done.
#pragma once

#include <string>
#include <string_view>

#include "store/operations.h"

namespace mainspring {

inline constexpr std::string_view kStepKeyHeader = "mainspring-idempotency-key";

// Headers are a JSON object of strings, "" = none. `key` needs no escaping.
std::string with_step_key(std::string headers, std::string_view key);
// Others are left byte for byte as they are.
std::string without_step_key(std::string headers);
std::string step_key_of(const std::string& headers);  // "" = none

// From all jobs that it asks for.
void drop_step_keys(Operation& operation);

}  // namespace mainspring
