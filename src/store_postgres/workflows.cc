// Workflows: not in this store yet.
#include "store_postgres/store_impl.h"

namespace mainspring::pg {
namespace {

Error not_here() {
  return Error{ErrorCode::conflict, "a store in PostgreSQL has no workflows yet: SQLite has them"};
}

}  // namespace

OperationResult PostgresStore::operator()(const StartWorkflow&) {
  return not_here();
}
OperationResult PostgresStore::operator()(const SignalWorkflow&) {
  return not_here();
}
OperationResult PostgresStore::operator()(const CancelWorkflow&) {
  return not_here();
}
OperationResult PostgresStore::operator()(const PauseWorkflow&) {
  return not_here();
}
OperationResult PostgresStore::operator()(const RetryWorkflow&) {
  return not_here();
}
OperationResult PostgresStore::operator()(const WakeWorkflows&) {
  return StepResult{};
}

Result<WorkflowInfo> PostgresStore::workflow(WorkflowId) const {
  return not_here();
}
Result<WorkflowPage> PostgresStore::workflows(const WorkflowFilter&, int, WorkflowId) const {
  return not_here();
}
Result<WorkflowStepPage> PostgresStore::workflow_steps(WorkflowId, int, int) const {
  return not_here();
}

}  // namespace mainspring::pg
