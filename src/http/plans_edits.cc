// The plans that edit, delete and clone single jobs.
#include <fmt/format.h>

#include "api/job_edit_shapes.h"
#include "api/json.h"
#include "broker/broker.h"
#include "http/plans.h"

namespace mainspring::http {
namespace {

// The job after a change, as the caller may see it.
Reply changed_job_reply(Services& services, JobId id, const Caller& caller) {
  const auto job = services.store.get(id);
  if (!job) return error_reply(job.error());
  if (auto reply = job_reply(*job, 200, caller)) return std::move(*reply);
  Reply reply;
  encode_retry_response(id, {.state = job->state}, reply.body);
  return reply;
}

// A clone has the original's payload: args, headers, data of its follow-ups.
Result<NewJob> may_clone(const Caller& caller, const Services& services, const Job& job,
                         const CloneJob& clone) {
  MS_TRY_ASSIGN(NewJob made, clone_of(job, clone));
  MS_TRY(check_may(caller, Verb::read_payload, job.queue));
  MS_TRY(check_may_make(caller, Verb::enqueue, made));
  MS_TRY(check_callback(services, made, ""));
  return made;
}

Reply clone_job(const Request& request, Services& services, const CloneJob& clone) {
  const auto job = services.store.get(clone.id);
  if (!job) return error_reply(job.error());
  const Caller& caller = *request.caller;
  if (!caller.may(Verb::read, job->queue) && !caller.may(Verb::read_payload, job->queue))
    return no_job(clone.id);
  auto made = may_clone(*request.caller, services, *job, clone);
  if (!made) return error_reply(made.error());
  Enqueue enqueue{.jobs = {std::move(*made)}};
  auto audit = audit_of_request(request, "", fmt::format(R"({{"cloned_from":{}}})", clone.id));
  const auto result = services.broker.enqueue(std::move(enqueue));
  if (!result) return error_reply(result.error());
  audit.object = fmt::format("job/{}", result->jobs.at(0).id);
  if (auto kept = append_record(services, std::move(audit)); !kept)
    return error_reply(kept.error());
  return enqueue_reply(*result, true);
}

}  // namespace

Plan plan_edit_job(const Request& request, Services& services) {
  auto id = parse_id(request.param);
  if (!id) return error_reply(id.error());
  auto edit = decode_edit_request(*id, request.body);
  if (!edit) return error_reply(edit.error());
  edit->within = request.caller->within(Verb::admin);
  Audit audit = audit_of(request, fmt::format("job/{}", *id));
  audit.always = true;  // also equal args are a change: the job loses its saved step results
  return DoWrite{
      std::move(*edit),
      [&services, id = *id, caller = request.caller](OperationResult&) {
        return DoRead{[&services, id, caller] { return changed_job_reply(services, id, *caller); }};
      },
      std::move(audit)};
}

Plan plan_delete_job(const Request& request, Services&) {
  auto id = parse_id(request.param);
  if (!id) return error_reply(id.error());
  return DoWrite{DeleteJob{.id = *id, .within = request.caller->within(Verb::admin)},
                 [](OperationResult&) { return Reply{.status = 204}; },
                 audit_of(request, fmt::format("job/{}", *id))};
}

Plan plan_clone_job(const Request& request, Services& services) {
  auto id = parse_id(request.param);
  if (!id) return error_reply(id.error());
  auto clone = decode_clone_request(*id, request.body);
  if (!clone) return error_reply(clone.error());
  Request kept = request;
  kept.body = {};
  kept.idempotency_key = {};
  return DoRead{[&services, clone = std::move(*clone), kept = std::move(kept)] {
    return clone_job(kept, services, clone);
  }};
}

}  // namespace mainspring::http
