// Reads of workflows, assembled from their rows.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "store/workflow_operations.h"
#include "workflow/step_rows.h"

namespace mainspring::workflow {

// A row of the workflow in the reader's snapshot; nullopt = none.
using ReadRow = std::function<std::optional<std::string>(WorkflowRow kind, std::int64_t number)>;

// With input, result and queues.
WorkflowInfo read_info(const WorkflowRecord& record, const ReadRow& read);
// Steps with numbers above `after`, with their results. `states`: their rows of WorkflowRow::state
// by number, one more than `limit` if there are more. Errors: internal (the store is damaged).
Result<WorkflowStepPage> read_steps(const WorkflowRecord& record,
                                    const std::vector<WorkflowRows::Row>& states, int after,
                                    int limit, const ReadRow& read);
// The jobs of the page's steps that have not ended; and a setter of their current state, attempt,
// max_attempts, worker, started_at and timeout.
std::vector<JobId> live_jobs(const WorkflowStepPage& page);
void add_jobs(WorkflowStepPage& page, const std::map<JobId, Job>& jobs);

// The workflows of `records` that match the filter, newest first, at most `limit`. `queues`: the
// row kTextQueues of a workflow that is not packed. A store passes limit * kExaminedForOne records,
// or all that exist.
inline constexpr int kExaminedForOne = 10;
WorkflowPage page_of(const WorkflowFilter& filter, int limit,
                     const std::vector<WorkflowRecord>& records,
                     const std::function<std::optional<std::string>(WorkflowId)>& queues);

}  // namespace mainspring::workflow
