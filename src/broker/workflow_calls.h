// The rules of workflows at the door: of calls in this process, and of the HTTP server.
#pragma once

#include "store/workflow_operations.h"

namespace mainspring {

// A definition that makes a whole, for queues that are not the engine's. Errors: those of
// validate(); invalid_argument (a reserved queue).
Result<StartWorkflow> check_workflow(WorkflowSpec spec);
// Errors: invalid_argument (name, id, payload), too_large.
Result<void> validate(const SignalWorkflow& request);
// Errors: invalid_argument (step, key, input), too_large.
Result<void> validate(const ForkWorkflow& request);
Result<void> validate(const RetryWorkflow& request);

}  // namespace mainspring
