// Shared by the routes of job folders: /v1/host and the WebJobs API.
#pragma once

#include "host/control.h"
#include "http/plans.h"

namespace mainspring::http {

// A plan that changes the host and writes an audit record: `work(host, audit)` fills in the state
// before and after. `refusal` converts an error to a reply.
template <class F>
Plan change_host(const Request& request, Services& services, std::string object,
                 Reply (*refusal)(const Error&), F work) {
  return DoRead{[&services, audit = audit_of(request, std::move(object)), refusal,
                 work = std::move(work)]() -> Reply {
                  Audit record = audit;
                  Result<Reply> reply = work(*services.host, record);
                  if (!reply) return refusal(reply.error());
                  if (reply->status >= 400) return std::move(*reply);
                  auto kept = append_record(services, std::move(record));
                  return kept ? std::move(*reply) : refusal(kept.error());
                },
                Pool::host};
}
inline std::string folder_object(JobType type, std::string_view name) {
  return std::string("folder/").append(to_string(type)).append("/").append(name);
}
// The 404 of a server without job folders.
Reply no_host();
// Checks a name that becomes part of a path, as read_job_folder() does. Errors: invalid_argument.
Result<void> check_job_name(std::string_view name);
// Errors: not_found.
Result<void> check_run_id(std::string_view id);
// The file name of a Content-Disposition: "attachment; filename=run.sh", with or without quotes, or
// filename*=UTF-8''run.sh; without directories. "" = none.
std::string disposition_file_name(std::string_view value);
// Returns whether this Content-Type is that of a zip.
bool is_zip_type(std::string_view content_type);
// "External - curl/7.88.1", from the User-Agent.
std::string external_trigger(const HeaderFields& headers);
// The jobs that the caller may see. Settings are removed if the caller may not see payloads.
std::vector<JobView> shown_jobs(std::vector<JobView> jobs, const Caller& caller);
JobView shown_job(JobView job, const Caller& caller);
inline constexpr std::size_t kMaxArgumentsBytes = 64 << 10;  // of a run

}  // namespace mainspring::http
