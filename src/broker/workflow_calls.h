// Input checks for workflows: for calls in this process and for the HTTP server.
#pragma once

#include "store/workflow_operations.h"

namespace mainspring {

// Checks that the definition is complete and that its queues are not the engine's own. Errors:
// those of validate(); invalid_argument (a reserved queue).
Result<StartWorkflow> check_workflow(WorkflowSpec spec);
// Errors: invalid_argument (name, id, payload), too_large.
Result<void> validate(const SignalWorkflow& request);
// Errors: invalid_argument (step, key, input), too_large.
Result<void> validate(const ForkWorkflow& request);
Result<void> validate(const RetryWorkflow& request);

}  // namespace mainspring
