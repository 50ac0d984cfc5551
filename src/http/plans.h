// Shared by the files of plans.
#pragma once

#include <algorithm>

#include "api/audit_images.h"
#include "http/routes.h"

namespace mainspring::http {

// The value of a query parameter; nullptr = not given.
const std::string* query_value(const Request& request, std::string_view name);
// queue, kind and tag of the query.
Result<JobFilter> parse_filter(const Request& request);
// Callers that may not read payloads may not search them. Errors: forbidden.
Result<void> check_payload_terms(const Caller& caller, const JobFilter& filter);
// A whole number from 1. Errors: invalid_argument.
Result<int> query_integer(const Request& request, std::string_view name, int fallback, int max);
// An instant; nullopt = not given. Errors: invalid_argument.
Result<std::optional<WallTime>> query_time(const Request& request, std::string_view name);
// "true" or "false"; `fallback` if it is not given. Errors: invalid_argument.
Result<bool> query_flag(const Request& request, std::string_view name, bool fallback);
// The "wait", at most kMaxClaimWait; 0 if it is not given.
Result<Duration> parse_wait(const Request& request);
// A whole number from 1: the {id} of a path. Errors: invalid_argument.
Result<std::int64_t> parse_id(std::string_view text);
// The "limit" of a list, 1 to 1000.
Result<int> parse_limit(const Request& request);
// Which payloads of a queue's jobs the caller may see.
Payload payload_for(const Caller& caller, std::string_view queue);
// The reply with a job as the caller may see it; nullopt: hidden from the caller. `own`: the caller
// enqueued it, so it always sees the job's state.
std::optional<Reply> job_reply(const Job& job, int status, const Caller& caller, bool own = false);
Reply no_job(JobId id);
Reply enqueue_reply(const EnqueueResult& result, bool single);
// Checks that the job's callback, if any, is allowed. `prefix` precedes the field.
Result<void> check_callback(const Services& services, const NewJob& job, const std::string& prefix);
// Checks every queue that a claim names.
Result<void> check_claim(const Caller& caller, const Services& services, const Claim& claim);
// See Broker::takes_worker_name(). Errors: forbidden.
Result<void> check_worker(const Caller& caller, const Services& services,
                          const std::string& worker);
// -- audit records; each follows the operation that it records

// For a change of an object in the store: "queue/NAME", "job/ID", "schedule/NAME", …
Audit audit_of(const Request& request, std::string object);
// For a request, whether or not it changed anything; `after` is JSON with details.
Audit audit_of_request(const Request& request, std::string object, std::string after);
// For enqueues, claims and finishes, if these are recorded.
std::optional<Audit> audit_of_enqueue(const Request& request, const Services& services,
                                      const Enqueue& enqueue);
std::optional<Audit> audit_of_claim(const Request& request, const Services& services,
                                    const Claim& claim);
std::optional<Audit> audit_of_finish(const Request& request, const Services& services,
                                     const Finish& finish);
// For a change outside the store that was made; waits for the commit: not on io threads.
Result<void> append_record(Services& services, Audit audit);

// A page of a list, and whether there may be more after it.
template <class T>
struct ShownPage {
  std::vector<T> items;
  bool more = false;
};
// Lists are read in parts of at most this many, so that memory is bounded by kPageBytes plus one
// part, whatever the size of the records.
inline constexpr int kReadAtOnce = 64;
// One page of the entries that `read(after, limit)` reads by name. Skips entries that `shown`
// refuses. Ends with the entry that reaches kPageBytes. `name` and `bytes` return the name and the
// size of an entry.
template <class T, class Read, class Shown, class Name, class Bytes>
Result<ShownPage<T>> read_shown(const std::string& after, int limit, Read read, Shown shown,
                                Name name, Bytes bytes) {
  ShownPage<T> out;
  std::string from = after;
  std::size_t all = 0;
  for (int asked = std::min(limit, kReadAtOnce);; asked = kReadAtOnce) {
    MS_TRY_ASSIGN(std::vector<T> page, read(from, asked));
    if (page.empty()) return out;
    from = name(page.back());
    for (T& one : page) {
      if (!shown(one)) continue;
      all += bytes(one);
      out.items.push_back(std::move(one));
      out.more = std::ssize(out.items) == limit || all >= kPageBytes;
      if (out.more) return out;
    }
    if (std::ssize(page) < asked) return out;
  }
}
// Size of the payloads in the job template of a schedule or trigger.
std::size_t payload_bytes(const NewJob& job);
// One page of jobs; limit and cursor from the query. With a fingerprint, only the matching jobs of
// the page.
Plan plan_page(const Request& request, Services& services, JobFilter filter,
               std::string fingerprint = "");

}  // namespace mainspring::http
