// What the files of plans share.
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
// "true" or "false"; `fallback` if it is not given. Errors: invalid_argument.
Result<bool> query_flag(const Request& request, std::string_view name, bool fallback);
// The "wait", at most kMaxClaimWait; 0 if it is not given.
Result<Duration> parse_wait(const Request& request);
// A whole number from 1: the {id} of a path. Errors: invalid_argument.
Result<std::int64_t> parse_id(std::string_view text);
// The "limit" of a list, 1 to 1000.
Result<int> parse_limit(const Request& request);
// What the caller is shown of what a queue's jobs carry.
Payload payload_for(const Caller& caller, std::string_view queue);
// As the caller may see it; nullopt: the job is not there for them. `own`: they enqueued it, so
// that they see its state in any case.
std::optional<Reply> job_reply(const Job& job, int status, const Caller& caller, bool own = false);
Reply no_job(JobId id);
Reply enqueue_reply(const EnqueueResult& result, bool single);
// May the job's callback, if it has one, be made? `prefix` stands before the field.
Result<void> check_callback(const Services& services, const NewJob& job, const std::string& prefix);
// Every queue that a claim names.
Result<void> check_claim(const Caller& caller, const Claim& claim);
// -- records in the audit, behind the operation that they are about

// Of a change of an object that the store knows: "queue/NAME", "job/ID", "schedule/NAME", …
Audit audit_of(const Request& request, std::string object);
// Of what was asked, whether or not anything is different then; `after` is JSON that tells more.
Audit audit_of_request(const Request& request, std::string object, std::string after);
// Of work, where that is recorded at all.
std::optional<Audit> audit_of_enqueue(const Request& request, const Services& services,
                                      const Enqueue& enqueue);
std::optional<Audit> audit_of_claim(const Request& request, const Services& services,
                                    const Claim& claim);
std::optional<Audit> audit_of_finish(const Request& request, const Services& services,
                                     const Finish& finish);
// Of something outside the store that has been done; waits for the commit: not on io threads.
Result<void> append_record(Services& services, Audit audit);

// A page of a list, and whether there may be more after it.
template <class T>
struct ShownPage {
  std::vector<T> items;
  bool more = false;
};
// Lists are read in parts of at most this many, so that what is in memory is bounded by kPageBytes
// and one part, however large the records are.
inline constexpr int kReadAtOnce = 64;
// One page of what `read(after, limit)` reads by name: only what `shown` lets through, the next
// ones in its place. It ends with the one that brings it to kPageBytes. `name` and `bytes` are
// those of one.
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
// Of the payloads of the jobs that a schedule or a trigger makes.
std::size_t payload_bytes(const NewJob& job);
// One page of jobs; limit and cursor from the query. With a fingerprint, only those of the page
// that have it.
Plan plan_page(const Request& request, Services& services, JobFilter filter,
               std::string fingerprint = "");

}  // namespace mainspring::http
