// Reads of workflows.
#include "workflow/reads.h"

#include <fmt/format.h>

#include <algorithm>

namespace mainspring::workflow {

WorkflowInfo read_info(const WorkflowRecord& record, const ReadRow& read) {
  WorkflowInfo out = info_of(record);
  const auto summary = decode_summary(record.data);
  const bool packed = summary && summary->packed();
  if (packed) {
    const auto text = read(WorkflowRow::text, kTextStart);
    if (auto start = decode_start(text.value_or(""))) out.input = std::move(start->input);
  }
  if (out.input.empty()) {
    if (auto input = read(WorkflowRow::text, kTextInput)) out.input = std::move(*input);
  }
  if (auto result = read(WorkflowRow::text, kTextResult)) out.result = std::move(*result);
  std::string_view queues;
  const auto lines = packed ? std::optional(summary->queues) : read(WorkflowRow::text, kTextQueues);
  for (queues = lines ? *lines : std::string_view(); !queues.empty();) {
    const auto end = queues.find('\n');
    out.queues.emplace_back(queues.substr(0, end));
    queues = queues.substr(std::min(end, queues.size() - 1) + 1);
  }
  return out;
}

namespace {

// The jobs of a step with `each` have a deadline each.
void add_deadline(WorkflowStep& step, const StepSpec& spec) {
  const bool lives = step.state == StepState::running && step.started_at;
  if (lives && spec.deadline && (spec.each.empty() || step.of != 0))
    step.complete_by = *step.started_at + *spec.deadline;
}

// 0 = no live job.
JobId live_job(const WorkflowStep& step) {
  if (step.state == StepState::running) return step.job;
  return step.state == StepState::undoing ? step.undo_job : 0;
}

}  // namespace

namespace {

// The texts of step definitions.
class SpecTexts {
 public:
  SpecTexts(WorkflowId id, bool packed, const ReadRow& read) : id_(id), read_(read) {
    if (!packed) return;
    if (auto start = decode_start(read(WorkflowRow::text, kTextStart).value_or("")))
      packed_ = std::move(start->specs);
  }

  Result<StepDefinition> of(int step) const {
    std::optional<std::string> text;
    if (step <= std::ssize(packed_))
      text = packed_[static_cast<std::size_t>(step) - 1];
    else
      text = read_(WorkflowRow::spec, step);
    if (text) return decode_definition(*text);
    return Error{ErrorCode::internal,
                 fmt::format("the store is damaged: workflow {} has no step {}", id_, step)};
  }

 private:
  WorkflowId id_;
  const ReadRow& read_;
  std::vector<std::string> packed_;
};

// The states of steps with numbers above `after`, including packed ones.
Result<std::vector<std::pair<int, StepStatus>>> all_states(
    const Summary& summary, const std::vector<WorkflowRows::Row>& rows, int after) {
  std::vector<std::pair<int, StepStatus>> out;
  for (auto i = static_cast<std::size_t>(after); i < summary.states.size(); ++i)
    out.emplace_back(static_cast<int>(i) + 1, summary.states[i]);
  for (const auto& [number, text] : rows) {
    MS_TRY_ASSIGN(StepStatus status, decode_status(text));
    out.emplace_back(static_cast<int>(number), std::move(status));
  }
  return out;
}

}  // namespace

Result<WorkflowStepPage> read_steps(const WorkflowRecord& record,
                                    const std::vector<WorkflowRows::Row>& states, int after,
                                    int limit, const ReadRow& read) {
  WorkflowStepPage page;
  MS_TRY_ASSIGN(const Summary summary, decode_summary(record.data));
  const bool forward = goes_forward(record.state, summary);
  const SpecTexts specs(record.id, summary.packed(), read);
  std::map<int, StepDefinition> definitions;
  MS_TRY_ASSIGN(const auto steps, all_states(summary, states, after));
  for (const auto& [step, status] : steps) {
    if (static_cast<int>(page.steps.size()) == limit) {
      page.next = page.steps.back().number;
      break;
    }
    const int of = status.of != 0 ? status.of : step;
    auto found = definitions.find(of);
    if (found == definitions.end()) {
      MS_TRY_ASSIGN(StepDefinition definition, specs.of(of));
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
    if (is_removed(record.data)) continue;
    if (!filter.name.empty() && record.name != filter.name) continue;
    if (filter.state && record.state != *filter.state) continue;
    if (filter.within.scopes != nullptr) {
      const auto summary = decode_summary(record.data);
      const std::string named =
          summary && summary->packed() ? summary->queues : queues(record.id).value_or("");
      if (!may_touch(named, filter.within)) continue;
    }
    page.workflows.push_back(info_of(record));
  }
  if (static_cast<int>(records.size()) < limit * kExaminedForOne) page.next.reset();
  return page;
}

}  // namespace mainspring::workflow
