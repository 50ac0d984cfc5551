// The actions of nodes on workflows.
#include "postgres/fleet_flows.h"

#include <fmt/format.h>

#include <algorithm>

namespace mainspring::pg_testing {

using simulation::FlowInvariant;
using simulation::kFlowQueue;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr std::size_t kMaxHeldSteps = 6;
constexpr int kTended = 30;  // in one round: a batch has a second to complete
constexpr int kPage = 500;
constexpr int kMaxPages = 1000;

}  // namespace

std::int64_t Flows::next(std::set<int> jobs) {
  MutexLock lock(mutex_);
  return invariant_.next({.jobs = std::move(jobs)});
}

void Flows::started(WorkflowId id) {
  MutexLock lock(mutex_);
  started_.push_back(id);
}

WorkflowId Flows::some(std::uint64_t dice) const {
  constexpr std::size_t kNewest = 20;
  MutexLock lock(mutex_);
  const std::size_t n = std::min(started_.size(), kNewest);
  return n == 0 ? 0 : started_[started_.size() - 1 - dice % n];
}

void Flows::accepted(JobId id) {
  MutexLock lock(mutex_);
  invariant_.accepted(id);
}

void Flows::claimed(JobId id) {
  MutexLock lock(mutex_);
  claimed_.insert(id);
}

bool Flows::has_claimed(JobId id) const {
  MutexLock lock(mutex_);
  return claimed_.contains(id);
}

FlowInvariant::Verdict Flows::judge(const Store& store) {
  MutexLock lock(mutex_);
  JobId before = 0;
  for (int page = 0; page < kMaxPages; ++page) {
    const auto jobs = store.list({.queue = kFlowQueue}, kPage, before);
    if (!jobs) return {.broken = jobs.error().message};
    for (const Job& listed : jobs->jobs) {
      const auto job = store.get(listed.id);
      if (!job) return {.broken = job.error().message};
      invariant_.add(*job);
    }
    if (!jobs->next) break;
    before = *jobs->next;
  }
  before = 0;
  for (int page = 0; page < kMaxPages; ++page) {
    const auto workflows = store.workflows({}, kPage, before);
    if (!workflows) return {.broken = workflows.error().message};
    for (const WorkflowInfo& info : workflows->workflows) invariant_.add(info);
    if (!workflows->next) break;
    before = *workflows->next;
  }
  return invariant_.check();
}

// -- a node's part --------------------------------------------------------------------------------

void FlowSide::turn(const Store& store, const std::string& worker, bool storm, Now now) {
  if (storm) {
    if (chance_.percent(2)) start();
    if (chance_.percent(10)) change();
  } else if (chance_.percent(10)) {
    tend(store);
  }
  if (!again_.empty() && (!storm || chance_.percent(20))) {
    const WorkflowSpec spec = std::move(again_.back());
    again_.pop_back();
    send(spec);
  }
  if (store.agenda().next_workflow <= now.wall) tell(WakeWorkflows{});
  for (auto& [id, mine] : held_) {
    if (mine.until <= now.instant || !storm) finish(id, mine, worker, storm);
  }
  if (held_.size() < kMaxHeldSteps && store.has_available(kFlowQueue)) claim(worker, storm, now);
}

// `step`: its number in the flow, by which it is judged.
void FlowSide::give_job(StepSpec& of, int step) {
  of.job = NewJob{.queue = kFlowQueue, .kind = "step"};
  of.job->args = FlowInvariant::step_args(step);
  of.job->max_attempts = static_cast<int>(chance_.between(1, 3));
  of.undo = NewJob{.queue = kFlowQueue, .kind = "undo"};
  of.undo->args = FlowInvariant::undo_args(step);
  of.undo->max_attempts = static_cast<int>(chance_.between(1, 3));
}

// A chain of jobs.
WorkflowSpec FlowSide::draw_child(int first, int jobs) {
  WorkflowSpec spec{.name = "child", .input = FlowInvariant::kInputOfChild};
  for (int i = 0; i < jobs; ++i) {
    StepSpec step{.name = fmt::format("s{}", i)};
    if (i > 0) step.after = {fmt::format("s{}", i - 1)};
    give_job(step, first + i);
    spec.steps.push_back(std::move(step));
  }
  return spec;
}

// A few steps, each after one or two earlier ones. The last one is after all steps without a
// successor.
WorkflowSpec FlowSide::draw() {
  WorkflowSpec spec{.name = "flow"};
  const auto n = chance_.between(2, 5);
  std::set<std::string> leaves;
  std::set<int> jobs;
  std::map<std::int64_t, int> children;  // and how many jobs they have
  for (std::int64_t i = 0; i < n; ++i) {
    StepSpec step{.name = fmt::format("s{}", i)};
    std::set<std::string> after;
    if (i + 1 == n) {
      after = leaves;
    } else if (i > 0 && chance_.percent(80)) {
      after.insert(fmt::format("s{}", chance_.between(0, i - 1)));
      if (chance_.percent(30)) after.insert(fmt::format("s{}", chance_.between(0, i - 1)));
    }
    for (const std::string& parent : after) leaves.erase(parent);
    leaves.insert(step.name);
    step.after.assign(after.begin(), after.end());
    if (i > 0 && chance_.percent(10)) {
      step.sleep = milliseconds(chance_.between(1, 400));
    } else if (i > 0 && chance_.percent(10)) {
      step.signal = "go";
    } else if (chance_.percent(15)) {
      children[i] = static_cast<int>(chance_.between(1, 3));
    } else {
      jobs.insert(static_cast<int>(i));
    }
    spec.steps.push_back(std::move(step));
  }
  if (chance_.percent(25)) spec.undo_order = UndoOrder::parallel;
  for (const int i : jobs) {
    StepSpec& step = spec.steps[static_cast<std::size_t>(i)];
    give_job(step, i);
    if (chance_.percent(10)) step.deadline = milliseconds(chance_.between(20, 1500));
  }
  for (const auto& [i, count] : children) {
    StepSpec& step = spec.steps[static_cast<std::size_t>(i)];
    const int first = FlowInvariant::first_of_child(static_cast<int>(i));
    step.workflow = draw_child(first, count);
    for (int job = 0; job < count; ++job) jobs.insert(first + job);
    if (chance_.percent(10)) step.deadline = milliseconds(chance_.between(20, 1500));
  }
  const std::int64_t flow = flows_.next(std::move(jobs));
  spec.key = FlowInvariant::key(flow);
  spec.input = FlowInvariant::input(flow);
  return spec;
}

void FlowSide::start() {
  send(draw());
}

void FlowSide::send(const WorkflowSpec& spec) {
  add_(StartWorkflow{spec}, [this, spec](const OperationResult* result, bool) {
    if (result == nullptr) return again_.push_back(spec);
    if (const auto* r = std::get_if<WorkflowStarted>(result)) flows_.started(r->id);
  });
}

void FlowSide::tell(Operation operation) {
  add_(std::move(operation), [](const OperationResult*, bool) {});
}

void FlowSide::change() {
  const WorkflowId id = flows_.some(chance_.next());
  if (id == 0) return;
  const auto dice = chance_.between(0, 99);
  if (dice < 15) return tell(CancelWorkflow{id, "unwanted", {}});
  if (dice < 30) return tell(PauseWorkflow{id, true, {}});
  if (dice < 50) return tell(PauseWorkflow{id, false, {}});
  if (dice < 60) return tell(RetryWorkflow{id, "", false, {}});
  if (dice < 70 && !held_.empty()) return tell(Cancel{held_.begin()->first, "unwanted"});
  tell(SignalWorkflow{id, "go", fmt::format("g{}", chance_.between(0, 1)), "true", {}});
}

// Retries parked workflows and resumes paused ones.
void FlowSide::tend(const Store& store) {
  int tended = 0;
  WorkflowId before = 0;
  for (int page = 0; page < kMaxPages; ++page) {
    const auto listed = store.workflows({}, kPage, before);
    if (!listed) return;
    for (const WorkflowInfo& info : listed->workflows) {
      if (is_terminal(info.state)) continue;
      if (++tended > kTended) return;
      if (info.state == WorkflowState::parked) tell(RetryWorkflow{info.id, "", false, {}});
      if (info.paused) tell(PauseWorkflow{info.id, false, {}});
      if (info.state != WorkflowState::running) continue;
      tell(SignalWorkflow{info.id, "go", fmt::format("t{}", chance_.next()), "true", {}});
    }
    if (!listed->next) return;
    before = *listed->next;
  }
}

void FlowSide::claim(const std::string& worker, bool storm, Now now) {
  const Duration lease = storm ? milliseconds(chance_.between(250, 1500)) : seconds(5);
  Claim request{.worker = worker, .queues = {kFlowQueue}, .kinds = {}};
  request.max = static_cast<int>(chance_.between(1, 4));
  request.lease = lease;
  add_(std::move(request), [this, storm, now](const OperationResult* result, bool) {
    const auto* got = result == nullptr ? nullptr : std::get_if<ClaimResult>(result);
    for (const ClaimedJob& job : got ? got->jobs : std::vector<ClaimedJob>{}) {
      flows_.claimed(job.id);
      if (storm && chance_.percent(8)) continue;  // its worker dies
      const bool late = storm && chance_.percent(8);
      held_[job.id] = {.token = job.token,
                       .until = now.instant + milliseconds(chance_.between(0, late ? 2500 : 60)),
                       .undoes = job.kind == "undo"};
    }
  });
}

Outcome FlowSide::draw_outcome(bool undoes, bool storm) {
  const auto dice = storm ? chance_.between(0, 99) : 99;
  if (dice < 8) return Retry{"no", milliseconds(chance_.between(0, 200))};
  if (dice < (undoes ? 16 : 14)) return Dead{"broken", ""};
  if (dice < 16) return CancelJob{"told to stop"};
  return Complete{R"({"ok":1})"};
}

void FlowSide::finish(JobId id, Held& mine, const std::string& worker, bool storm) {
  if (!mine.said) mine.said = draw_outcome(mine.undoes, storm);
  const bool completes = std::holds_alternative<Complete>(*mine.said);
  add_(Finish{.worker = worker, .results = {{id, mine.token, *mine.said}}},
       [this, id, token = mine.token, completes](const OperationResult* result, bool sure) {
         const auto now_held = held_.find(id);
         const bool still = now_held != held_.end() && now_held->second.token == token;
         if (result == nullptr) {
           if (still && sure) now_held->second.said.reset();
           return;
         }
         const auto* r = std::get_if<FinishResult>(result);
         if (completes && r != nullptr && r->results.at(0) == FinishStatus::ok) flows_.accepted(id);
         if (still) held_.erase(now_held);
       });
}

}  // namespace mainspring::pg_testing
