// The terms of a search that match payloads.
#pragma once

#include <cstddef>

#include "model/job_query.h"

namespace mainspring {

// Returns whether the terms on args, result and errors match. `job` is a whole record.
bool matches_payload(const JobQuery& query, const Job& job);
// How many bytes these terms have to read.
std::size_t searched_bytes(const Job& job);

}  // namespace mainspring
