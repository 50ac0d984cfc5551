// What people read of a workflow.
#include "workflow/reads.h"

#include <fmt/format.h>

#include <algorithm>

namespace mainspring::workflow {

WorkflowInfo read_info(const WorkflowRecord& record, const ReadRow& read) {
  WorkflowInfo out = info_of(record);
  if (auto input = read(WorkflowRow::text, kTextInput)) out.input = std::move(*input);
  if (auto result = read(WorkflowRow::text, kTextResult)) out.result = std::move(*result);
  std::string_view queues;
  const auto lines = read(WorkflowRow::text, kTextQueues);
  for (queues = lines ? *lines : std::string_view(); !queues.empty();) {
    const auto end = queues.find('\n');
    out.queues.emplace_back(queues.substr(0, end));
    queues = queues.substr(std::min(end, queues.size() - 1) + 1);
  }
  return out;
}

namespace {

// Parts of a step with `each` have one each.
void add_deadline(WorkflowStep& step, const StepSpec& spec) {
  const bool lives = step.state == StepState::running && step.started_at;
  if (lives && spec.deadline && (spec.each.empty() || step.of != 0))
    step.complete_by = *step.started_at + *spec.deadline;
}

// 0 = it has none.
JobId live_job(const WorkflowStep& step) {
  if (step.state == StepState::running) return step.job;
  return step.state == StepState::undoing ? step.undo_job : 0;
}

}  // namespace

Result<WorkflowStepPage> read_steps(const WorkflowRecord& record,
                                    const std::vector<WorkflowRows::Row>& states, int limit,
                                    const ReadRow& read) {
  WorkflowStepPage page;
  MS_TRY_ASSIGN(const Summary summary, decode_summary(record.data));
  const bool forward = goes_forward(record.state, summary);
  std::map<int, StepDefinition> definitions;
  for (const auto& [number, text] : states) {
    if (static_cast<int>(page.steps.size()) == limit) {
      page.next = page.steps.back().number;
      break;
    }
    MS_TRY_ASSIGN(const StepStatus status, decode_status(text));
    const int step = static_cast<int>(number);
    const int of = status.of != 0 ? status.of : step;
    auto found = definitions.find(of);
    if (found == definitions.end()) {
      const auto row = read(WorkflowRow::spec, of);
      if (!row) {
        return Error{
            ErrorCode::internal,
            fmt::format("the store is damaged: workflow {} has no step {}", record.id, of)};
      }
      MS_TRY_ASSIGN(StepDefinition definition, decode_definition(*row));
      found = definitions.emplace(of, std::move(definition)).first;
    }
    page.steps.push_back(step_of(step, status, found->second, forward));
    add_deadline(page.steps.back(), found->second.spec);
    if (auto result = read(WorkflowRow::result, step)) page.steps.back().result = *result;
  }
  return page;
}

std::vector<JobId> live_jobs(const WorkflowStepPage& page) {
  std::vector<JobId> out;
  for (const WorkflowStep& step : page.steps) {
    if (const JobId job = live_job(step); job != 0) out.push_back(job);
  }
  return out;
}

void add_jobs(WorkflowStepPage& page, const std::map<JobId, Job>& jobs) {
  for (WorkflowStep& step : page.steps) {
    const auto found = jobs.find(live_job(step));
    if (found == jobs.end()) continue;
    const Job& job = found->second;
    step.job_state = job.state;
    step.attempt = job.attempt;
    step.max_attempts = job.max_attempts;
    if (job.state != JobState::running) continue;
    step.worker = job.worker;
    if (!job.started_at || job.timeout == kForever) continue;
    const WallTime limit = *job.started_at + job.timeout;
    step.complete_by = std::min(step.complete_by.value_or(limit), limit);
  }
}

WorkflowPage page_of(const WorkflowFilter& filter, int limit,
                     const std::vector<WorkflowRecord>& records,
                     const std::function<std::optional<std::string>(WorkflowId)>& queues) {
  WorkflowPage page;
  for (const WorkflowRecord& record : records) {
    if (static_cast<int>(page.workflows.size()) == limit) return page;
    page.next = record.id;
    if (!filter.name.empty() && record.name != filter.name) continue;
    if (filter.state && record.state != *filter.state) continue;
    if (filter.within.scopes != nullptr &&
        !may_touch(queues(record.id).value_or(""), filter.within))
      continue;
    page.workflows.push_back(info_of(record));
  }
  if (static_cast<int>(records.size()) < limit * kExaminedForOne) page.next.reset();
  return page;
}

}  // namespace mainspring::workflow
