// The terms of a search that look into payloads.
#pragma once

#include <cstddef>

#include "model/job_query.h"

namespace mainspring {

// Whether the terms hold that look into args, result and errors. `job` is a whole record.
bool matches_payload(const JobQuery& query, const Job& job);
// What these terms have to read of it.
std::size_t searched_bytes(const Job& job);

}  // namespace mainspring
