// Shared by the commands of the dead letter: selecting dead jobs.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "cli/command.h"
#include "client/client.h"
#include "redrive/found_dead.h"

namespace mainspring::cli {

// By --queue, --kind and --tag.
Result<JobFilter> filter_of(const Invocation& invocation);
// "&queue=…&kind=…": --queue, --kind, --tag and --fingerprint, for the API.
std::string dead_query_of(const Invocation& invocation);
// Dead jobs that match --queue, --kind, --tag and --fingerprint: of the newest kMaxFound the oldest
// `limit`, oldest first. Incomplete if `stop` is requested.
inline constexpr std::size_t kMaxFound = 1'000'000;
Result<std::vector<DeadJob>> find_dead(const Invocation& invocation, Client& client,
                                       std::int64_t limit, const std::stop_token& stop);

}  // namespace mainspring::cli
