// The broker's calls that edit, delete and clone jobs, and batches of changes.
#include <deque>

#include "api/job_edit_shapes.h"
#include "broker/sync_call.h"

namespace mainspring {
namespace {

Result<void> done_with(const OperationResult& result) {
  if (const auto* error = std::get_if<Error>(&result)) return *error;
  return {};
}

}  // namespace

Result<EditResult> Broker::edit(EditJob request) {
  MS_TRY(validate(request));
  return call<EditResult>(std::move(request));
}

Result<void> Broker::delete_job(DeleteJob request) {
  MS_TRY(call<Done>(std::move(request)));
  return {};
}

Result<EnqueuedJob> Broker::clone(CloneJob request) {
  MS_TRY_ASSIGN(const Job job, store_.get(request.id));
  MS_TRY_ASSIGN(NewJob made, clone_of(job, request));
  MS_TRY_ASSIGN(const EnqueueResult result, enqueue(Enqueue{.jobs = {std::move(made)}}));
  return result.jobs.at(0);
}

// Submitted together, so that one commit can serve them all.
std::vector<Result<void>> Broker::change(std::vector<JobChange> changes) {
  std::deque<SyncCall> calls;  // a deque, as their addresses must not change
  for (JobChange& change : changes) {
    Operation operation = std::visit([](auto& one) { return Operation(std::move(one)); }, change);
    submit({std::move(operation), calls.emplace_back().answer(), std::nullopt}, Wake::none);
  }
  std::vector<Result<void>> answers;
  answers.reserve(calls.size());
  for (SyncCall& one : calls) {
    wait_for(one);
    MutexLock lock(one.mutex);
    answers.push_back(done_with(*one.result));
  }
  return answers;
}

}  // namespace mainspring
