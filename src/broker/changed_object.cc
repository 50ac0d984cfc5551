// Names the object that an operation changed.
#include "broker/changed_object.h"

#include <fmt/format.h>

#include "model/session.h"

namespace mainspring {
namespace {

using Changed = std::optional<ChangedObject>;

Changed named(std::string_view noun, const std::string& name, const std::string& queue = {}) {
  return ChangedObject{.object = fmt::format("{}/{}", noun, name), .queue = queue};
}
Changed of_queue(const std::string& queue) {
  return named("queue", queue, queue);
}
Changed of_session(const SessionKey& session) {
  return named("session", session.queue + "/" + session.key, session.queue);
}
Changed of_job(JobId id) {
  return ChangedObject{.object = fmt::format("job/{}", id), .job = id};
}
Changed of_workflow(WorkflowId id) {
  return ChangedObject{.object = fmt::format("workflow/{}", id), .workflow = id};
}
Changed of_started(const OperationResult& result) {
  const auto& started = std::get<WorkflowStarted>(result);
  return started.duplicate ? Changed() : of_workflow(started.id);
}

// The overload for everything else is last: an operation without an overload of its own shows
// nothing.
struct Visitor {
  const OperationResult& result;

  Changed operator()(const SetRetention& op) const { return of_queue(op.queue); }
  Changed operator()(const SetQueueLimits& op) const { return of_queue(op.queue); }
  Changed operator()(const RemoveQueue& op) const { return of_queue(op.queue); }
  Changed operator()(const EditJob& op) const { return of_job(op.id); }
  Changed operator()(const DeleteJob& op) const { return of_job(op.id); }
  Changed operator()(const PutSchedule& op) const {
    return named("schedule", op.schedule.name, op.schedule.job.queue);
  }
  Changed operator()(const RemoveSchedule& op) const { return named("schedule", op.name); }
  Changed operator()(const PauseSchedule& op) const { return named("schedule", op.name); }
  Changed operator()(const SetTimer& op) const { return named("schedule", op.name); }
  // Also a tick without a job, whose ledger row says why.
  Changed operator()(const FireSchedule& op) const { return named("schedule", op.name); }
  Changed operator()(const PutTrigger& op) const {
    return named("trigger", op.trigger.name, op.trigger.job.queue);
  }
  Changed operator()(const RemoveTrigger& op) const { return named("trigger", op.name); }
  Changed operator()(const PauseTrigger& op) const { return named("trigger", op.name); }
  Changed operator()(const FireTrigger& op) const { return named("trigger", op.name); }
  Changed operator()(const PutBreaker& op) const { return named("breaker", op.name); }
  Changed operator()(const RemoveBreaker& op) const { return named("breaker", op.name); }
  Changed operator()(const AddMark&) const {
    return named("mark", std::to_string(std::get<Mark>(result).id));
  }
  Changed operator()(const RemoveMark& op) const { return named("mark", std::to_string(op.id)); }
  Changed operator()(const PutView& op) const { return named("view", op.view.name); }
  Changed operator()(const RemoveView& op) const { return named("view", op.name); }
  Changed operator()(const CreateToken& op) const { return named("token", op.token.name); }
  Changed operator()(const RevokeToken& op) const { return named("token", op.name); }
  Changed operator()(const AcquireLease& op) const {
    if (std::get<LeaseGrant>(result).held) return {};  // repeated, or renewed
    return changed_lock(op.name);
  }
  Changed operator()(const AcceptSession& op) const {
    if (std::get<SessionGrant>(result).held) return {};
    return of_session(op.session);
  }
  Changed operator()(const ReleaseSession& op) const { return of_session(op.session); }
  Changed operator()(const PutSessionState& op) const { return of_session(op.session); }
  Changed operator()(const ResumeSession& op) const { return of_session(op.session); }
  // The effects of a batch name workflows whose state has changed. These requests may leave it.
  Changed operator()(const StartWorkflow&) const { return of_started(result); }
  Changed operator()(const ForkWorkflow&) const { return of_started(result); }
  Changed operator()(const SignalWorkflow& op) const { return of_workflow(op.id); }
  Changed operator()(const PauseWorkflow& op) const { return of_workflow(op.id); }
  Changed operator()(const RetryWorkflow& op) const { return of_workflow(op.id); }
  // The record of a change outside the store, such as a deployed job folder. Other events show a
  // new job, a fired trigger and a command for a worker.
  Changed operator()(const Audit& op) const {
    const auto is = [&](std::string_view kind) { return op.object.starts_with(kind); };
    if (!op.alone || op.object.empty()) return {};
    if (is("job/") || is("trigger/") || is("worker/")) return {};
    return ChangedObject{.object = op.object};
  }
  template <class Other>
  Changed operator()(const Other&) const {
    return {};
  }
};

}  // namespace

Changed changed_lock(const std::string& name) {
  if (name.starts_with(kReservedLeases)) return {};
  return named("lock", name);
}

Changed changed_object(const Operation& operation, const OperationResult& result) {
  if (std::holds_alternative<Error>(result)) return {};
  const OperationVariant& variant = operation;
  return std::visit(Visitor{result}, variant);
}

}  // namespace mainspring
