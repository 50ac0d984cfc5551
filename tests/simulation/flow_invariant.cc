// Judges workflows by their jobs.
#include "simulation/flow_invariant.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulation/follow_invariant.h"

namespace mainspring::simulation {

std::int64_t FlowInvariant::next(Shape shape) {
  flows_[last() + 1].shape = std::move(shape);
  return last();
}

std::int64_t FlowInvariant::fork(std::int64_t of, int step) {
  const std::int64_t number = next(flows_.at(of).shape);
  flows_.at(number).fork_of = of;
  flows_.at(number).forked_from = step;
  return number;
}

std::string FlowInvariant::input(std::int64_t flow) {
  return fmt::format(R"({{"flow":{}}})", flow);
}

std::string FlowInvariant::step_args(int step) {
  return fmt::format(R"({{"flow":{{"$ref":"input.flow"}},"step":{}}})", step);
}

std::string FlowInvariant::undo_args(int step) {
  return fmt::format(R"({{"flow":{{"$ref":"input.flow"}},"undo":{}}})", step);
}

std::string FlowInvariant::key(std::int64_t flow) {
  return fmt::format("flow{}", flow);
}

void FlowInvariant::add(const Job& job) {
  if (job.queue != kFlowQueue) return;
  Flow& flow = flows_.at(number_after(job.args, "\"flow\":", 0));
  const auto step = static_cast<int>(number_after(job.args, "\"step\":", -1));
  const auto undo = static_cast<int>(number_after(job.args, "\"undo\":", -1));
  (step >= 0 ? flow.steps[step] : flow.undos[undo]).push_back(job);
}

void FlowInvariant::add(const WorkflowInfo& info) {
  by_id_[info.id] = info.state;
  if (info.parent) {
    parents_[info.id] = info.parent->workflow;
  } else {
    states_[info.key] = info.state;
  }
}

// True if each of them has a job with an undo.
std::string FlowInvariant::check_children() const {
  for (const auto& [child, parent] : parents_) {
    const auto of = by_id_.find(parent);
    if (of == by_id_.end()) continue;  // it is being removed, and its child is next
    const WorkflowState state = by_id_.at(child);
    const bool well = of->second == WorkflowState::completed;
    if (!is_terminal(state) || well != (state == WorkflowState::completed))
      return fmt::format("WF-6: child {} is {}, its parent {} is {}", child, to_string(state),
                         parent, to_string(of->second));
  }
  return "";
}

const Job* FlowInvariant::completed_of(const std::vector<Job>& jobs) {
  const auto found = std::find_if(jobs.begin(), jobs.end(),
                                  [](const Job& job) { return job.state == JobState::completed; });
  return found == jobs.end() ? nullptr : &*found;
}

namespace {

std::string one_behind_the_other(std::vector<Job> jobs) {
  std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.id < b.id; });
  for (std::size_t i = 1; i < jobs.size(); ++i) {
    if (jobs[i].created_at < jobs[i - 1].finished_at)
      return fmt::format("WF-1: job {} was made before job {} of its step had ended", jobs[i].id,
                         jobs[i - 1].id);
  }
  return "";
}

}  // namespace

std::string FlowInvariant::check_jobs(const Flow& flow) const {
  for (const auto& [step, jobs] : flow.steps) {
    if (jobs.size() > 1 && !flow.shape.parks.contains(step))
      return fmt::format("WF-1: step {} has {} jobs", step, jobs.size());
    if (jobs.size() < 2 || !flow.shape.times) continue;
    if (std::string why = one_behind_the_other(jobs); !why.empty()) return why;
  }
  for (const auto* part : {&flow.steps, &flow.undos}) {
    for (const auto& [step, jobs] : *part) {
      const auto done = std::count_if(jobs.begin(), jobs.end(), [](const Job& job) {
        return job.state == JobState::completed;
      });
      if (done > 1) return fmt::format("WF-1: an effect of step {} was taken {} times", step, done);
      for (const Job& job : jobs) {
        const auto told = accepted_.find(job.id);
        if (told == accepted_.end()) continue;
        if (told->second > 1 || job.state != JobState::completed)
          return fmt::format("WF-1: job {} was accepted {} times, and is {}", job.id, told->second,
                             to_string(job.state));
      }
    }
  }
  return "";
}

std::string FlowInvariant::check_undone(const Flow& flow) {
  for (const auto& [step, jobs] : flow.steps) {
    if (completed_of(jobs) == nullptr) continue;
    const auto undos = flow.undos.find(step);
    if (undos == flow.undos.end() || completed_of(undos->second) == nullptr)
      return fmt::format("WF-3: step {} is completed and was not undone", step);
  }
  for (const auto& [step, undos] : flow.undos) {
    if (!flow.steps.contains(step))
      return fmt::format("WF-3: step {} was undone and never began", step);
  }
  return "";
}

std::string FlowInvariant::check_order(const Flow& flow) {
  for (const auto& [first, first_jobs] : flow.steps) {
    for (const auto& [last, last_jobs] : flow.steps) {
      const Job* a = completed_of(first_jobs);
      const Job* b = completed_of(last_jobs);
      if (a == nullptr || b == nullptr || *a->finished_at >= *b->finished_at) continue;
      const Job* undo_a = completed_of(flow.undos.at(first));
      const Job* undo_b = completed_of(flow.undos.at(last));
      if (*undo_b->finished_at <= undo_a->created_at) continue;
      return fmt::format(
          "WF-4: step {} ended before step {}, and its undo began before that had "
          "been undone",
          first, last);
    }
  }
  return "";
}

// The restarted steps of a fork, as far as its jobs show, and all steps after them.
std::set<int> FlowInvariant::started_over(const Flow& flow) {
  std::set<int> restarted = {flow.forked_from};
  for (const auto& [job, jobs] : flow.steps) {
    int step = job;
    while (step >= kNumbers) step = step / kNumbers - 1;
    restarted.insert(step);
  }
  std::vector<int> next(restarted.begin(), restarted.end());
  while (!next.empty()) {
    const int step = next.back();
    next.pop_back();
    for (const int follower : flow.shape.followers.at(static_cast<std::size_t>(step))) {
      if (restarted.insert(follower).second) next.push_back(follower);
    }
  }
  return restarted;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as forks of forks were made
bool FlowInvariant::stands(const Flow& flow, int job) const {
  const auto own = flow.steps.find(job);
  if (own != flow.steps.end())
    return completed_of(own->second) != nullptr && !flow.undos.contains(job);
  return flow.fork_of != 0 && stands(flows_.at(flow.fork_of), job);
}

std::string FlowInvariant::check_fork(const Flow& flow, bool ended_well) const {
  const Flow& source = flows_.at(flow.fork_of);
  const std::set<int> restarted = started_over(flow);
  for (const int job : ended_well ? flow.shape.jobs : std::set<int>{}) {
    int step = job;
    while (step >= kNumbers) step = step / kNumbers - 1;
    if (restarted.contains(step) && !flow.steps.contains(job))
      return fmt::format("WF-7: job {} was taken over, and what it waits for was not", job);
    if (!stands(flow, job)) return fmt::format("WF-7: job {} was taken over, and is not done", job);
  }
  if (!flow.shape.times) return "";
  for (const auto* part : {&source.steps, &source.undos}) {
    for (const auto& [step, jobs] : *part) {
      for (const Job& old : jobs) {
        for (const auto& [number, mine] : flow.steps) {
          if (mine.front().created_at < old.finished_at.value_or(WallTime::never()))
            return fmt::format("WF-7: its job {} began before job {} had ended", mine.front().id,
                               old.id);
        }
      }
    }
  }
  return "";
}

FlowInvariant::Verdict FlowInvariant::check() const {
  Verdict verdict{.children = std::ssize(parents_), .broken = check_children()};
  for (const auto& [number, flow] : flows_) {
    if (flow.steps.empty()) continue;  // it was refused, or ended before any step began
    const auto done = std::count_if(flow.steps.begin(), flow.steps.end(), [](const auto& step) {
      return completed_of(step.second) != nullptr;
    });
    const bool is_fork = flow.fork_of != 0;
    const bool whole = flow.undos.empty() && (is_fork ? done == std::ssize(flow.steps)
                                                      : done == std::ssize(flow.shape.jobs));
    const auto state = states_.find(key(number));
    std::string why = check_jobs(flow);
    if (why.empty() && state != states_.end() && !is_terminal(state->second))
      why = fmt::format("WF-5: it is {} in the end", to_string(state->second));
    // The jobs of a pruned workflow show its state.
    const bool ended_well =
        state == states_.end() ? whole : state->second == WorkflowState::completed;
    if (why.empty() && ended_well && !whole)
      why = fmt::format("WF-2: it is completed, {} of its {} jobs are, and {} steps were undone",
                        done, flow.shape.jobs.size(), flow.undos.size());
    if (why.empty() && !ended_well) why = check_undone(flow);
    if (why.empty() && !ended_well && flow.shape.order) why = check_order(flow);
    if (why.empty() && is_fork) why = check_fork(flow, ended_well);
    if (is_fork) ++verdict.forks;
    verdict.tried_again += std::count_if(flow.steps.begin(), flow.steps.end(),
                                         [](const auto& step) { return step.second.size() > 1; });
    ++(ended_well ? verdict.completed : verdict.undone);
    if (!why.empty()) verdict.broken = fmt::format("workflow {}: {}", key(number), why);
  }
  return verdict;
}

}  // namespace mainspring::simulation
