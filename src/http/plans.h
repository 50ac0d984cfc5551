// What the files of plans share.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

// The value of a query parameter; nullptr = not given.
const std::string* query_value(const Request& request, std::string_view name);
// queue, state, kind and tag of the query.
Result<JobFilter> parse_filter(const Request& request);
// A whole number from 1. Errors: invalid_argument.
Result<int> query_integer(const Request& request, std::string_view name, int fallback, int max);
// The "wait", at most kMaxClaimWait; 0 if it is not given.
Result<Duration> parse_wait(const Request& request);
// The "limit" of a list, 1 to 1000.
Result<int> parse_limit(const Request& request);
// One page of jobs; limit and cursor from the query.
Plan plan_page(const Request& request, Services& services, JobFilter filter);
Reply job_reply(const Job& job, int status);

}  // namespace mainspring::http
