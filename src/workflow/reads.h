// What people read of a workflow, put together from its rows.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "store/workflow_operations.h"
#include "workflow/step_rows.h"

namespace mainspring::workflow {

// A row below the workflow as a reader's snapshot has it; nullopt = there is none.
using ReadRow = std::function<std::optional<std::string>(WorkflowRow kind, std::int64_t number)>;

// With input, result and queues.
WorkflowInfo read_info(const WorkflowRecord& record, const ReadRow& read);
// Those with numbers above `after`. `states`: their rows of WorkflowRow::state by number, one more
// than `limit` if there are more. With their results. Errors: internal (the store is damaged).
Result<WorkflowStepPage> read_steps(const WorkflowRecord& record,
                                    const std::vector<WorkflowRows::Row>& states, int after,
                                    int limit, const ReadRow& read);
// The jobs of its steps that have not ended; and what they say now: their state, attempt,
// max_attempts, worker, started_at and timeout.
std::vector<JobId> live_jobs(const WorkflowStepPage& page);
void add_jobs(WorkflowStepPage& page, const std::map<JobId, Job>& jobs);

// Of `records`, newest first, those that the filter lets through, at most `limit`. `queues`: the
// row kTextQueues of one that is not packed. A store gives limit * kExaminedForOne records, or all
// that there are.
inline constexpr int kExaminedForOne = 10;
WorkflowPage page_of(const WorkflowFilter& filter, int limit,
                     const std::vector<WorkflowRecord>& records,
                     const std::function<std::optional<std::string>(WorkflowId)>& queues);

}  // namespace mainspring::workflow
