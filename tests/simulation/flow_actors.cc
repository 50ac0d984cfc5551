// The actions of the workflow clients.
#include "simulation/flow_actors.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace mainspring::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kJobLease = seconds(8);
// No retries later: the idempotency key may have been forgotten by then.
constexpr Duration kAsksFor = seconds(30);
constexpr int kMaxFlows = 1000;

// Numbers its jobs, and those of its children; adds their numbers to `jobs`.
// NOLINTNEXTLINE(misc-no-recursion): as deep as it was drawn
void give_args(WorkflowSpec& spec, int first, std::set<int>& jobs) {
  for (std::size_t i = 0; i < spec.steps.size(); ++i) {
    StepSpec& step = spec.steps[i];
    const int number = first + static_cast<int>(i);
    if (step.workflow) {
      WorkflowSpec child = *step.workflow;
      child.input = FlowInvariant::kInputOfChild;
      give_args(child, FlowInvariant::first_of_child(number), jobs);
      step.workflow = child;
    }
    if (!step.job) continue;
    step.job->args = FlowInvariant::step_args(number);
    step.undo->args = FlowInvariant::undo_args(number);
    jobs.insert(number);
  }
}

// By number: the steps after each.
std::vector<std::set<int>> followers(const WorkflowSpec& spec) {
  std::vector<std::set<int>> out(spec.steps.size());
  for (std::size_t i = 0; i < spec.steps.size(); ++i) {
    for (std::size_t parent = 0; parent < i; ++parent) {
      const auto& after = spec.steps[i].after;
      if (std::find(after.begin(), after.end(), spec.steps[parent].name) != after.end())
        out[parent].insert(static_cast<int>(i));
    }
  }
  return out;
}

}  // namespace

void FlowStarter::next() {
  world_.after(world_.between(seconds(2), seconds(12)), [this] {
    if (stopped_) return;
    next();
    world_.chance(4) ? change() : begin();
  });
}

StepSpec FlowStarter::draw_job(const std::string& name) {
  StepSpec step{.name = name};
  step.job = NewJob{.queue = kFlowQueue, .kind = "step"};
  step.job->max_attempts = 1 + static_cast<int>(world_.below(3));
  step.undo = NewJob{.queue = kFlowQueue, .kind = "undo"};
  step.undo->max_attempts = 1 + static_cast<int>(world_.below(3));
  return step;
}

// A job, followed by up to two jobs or workflows.
// NOLINTNEXTLINE(misc-no-recursion): two deep
WorkflowSpec FlowStarter::draw_child(int depth) {
  WorkflowSpec spec{.name = "child"};
  spec.steps.push_back(draw_job("s0"));
  for (auto left = world_.below(3); left > 0; --left) {
    const std::string name = fmt::format("s{}", spec.steps.size());
    if (depth < 2 && world_.chance(3)) {
      spec.steps.push_back({.name = name, .workflow = draw_child(depth + 1)});
    } else {
      spec.steps.push_back(draw_job(name));
    }
    spec.steps.back().after = {"s0"};
  }
  return spec;
}

// A few steps, each after one or two earlier ones. The last one is after all steps without a
// successor.
WorkflowSpec FlowStarter::draw() {
  WorkflowSpec spec{.name = "flow"};
  const auto n = 3 + world_.below(kMaxFlowSteps - 2);
  std::set<std::string> leaves;
  bool order = !world_.faults.wall_steps;
  for (std::uint64_t i = 0; i < n; ++i) {
    StepSpec step{.name = fmt::format("s{}", i)};
    std::set<std::string> after;
    if (i + 1 == n) {
      after = leaves;
    } else if (i > 0 && !world_.chance(5)) {
      after.insert(fmt::format("s{}", world_.chance(2) ? i - 1 : world_.below(i)));
      if (world_.chance(3)) after.insert(fmt::format("s{}", world_.below(i)));
    }
    for (const std::string& parent : after) leaves.erase(parent);
    leaves.insert(step.name);
    step.after.assign(after.begin(), after.end());
    if (i > 0 && world_.chance(7)) {
      step.sleep = world_.between(seconds(1), seconds(20));
    } else if (world_.faults.node_deaths && world_.chance(4)) {
      step.workflow = draw_child(1), order = false;
      if (world_.chance(5)) step.deadline = world_.between(seconds(2), seconds(40));
    } else {
      StepSpec drawn = draw_job(step.name);
      step.job = std::move(drawn.job), step.undo = std::move(drawn.undo);
      if (world_.chance(10)) step.deadline = world_.between(seconds(2), seconds(40)), order = false;
    }
    // Without a random draw: existing seeds keep their behaviour.
    const bool parks =
        step.job && !step.deadline && (invariant_.last() + std::ssize(spec.steps)) % 3 == 0;
    if (parks) step.on_failure = OnStepFailure::park;
    spec.steps.push_back(std::move(step));
  }
  if (world_.chance(4)) spec.undo_order = UndoOrder::parallel, order = false;
  FlowInvariant::Shape shape{.order = order, .times = !world_.faults.wall_steps};
  give_args(spec, 0, shape.jobs);
  for (std::size_t i = 0; i < spec.steps.size(); ++i) {
    if (spec.steps[i].on_failure == OnStepFailure::park) shape.parks.insert(static_cast<int>(i));
  }
  shape.followers = followers(spec);
  const std::int64_t flow = invariant_.next(std::move(shape));
  spec.key = FlowInvariant::key(flow);
  spec.input = FlowInvariant::input(flow);
  return spec;
}

void FlowStarter::begin() {
  WorkflowSpec spec = draw();
  send(StartWorkflow{std::move(spec)}, invariant_.last(), world_.now());
}

void FlowStarter::send(const Operation& operation, std::int64_t flow, Duration first_sent) {
  world_.call(operation, World::Delivery::repeatable, Duration(0),
              [this, operation, flow, first_sent](const std::optional<OperationResult>& result) {
                if (result) {
                  if (const auto* r = std::get_if<WorkflowStarted>(&*result))
                    known_.push_back({r->id, flow});
                  return;
                }
                if (world_.now() < first_sent + kAsksFor) send(operation, flow, first_sent);
              });
}

// Most are refused: the workflow has not ended, or its earlier steps are pruned.
void FlowStarter::fork() {
  const Known& of = known_[world_.below(known_.size())];
  const auto step = static_cast<int>(world_.below(kMaxFlowSteps));
  const std::int64_t flow = invariant_.fork(of.flow, step);
  send(ForkWorkflow{.id = of.id,
                    .step = fmt::format("s{}", step),
                    .input = FlowInvariant::input(flow),
                    .key = FlowInvariant::key(flow)},
       flow, world_.now());
}

void FlowStarter::change() {
  if (known_.empty()) return;
  if (world_.chance(3)) return fork();
  const WorkflowId id =
      known_[known_.size() - 1 - world_.below(std::min<std::size_t>(known_.size(), 5))].id;
  Operation operation = CancelWorkflow{id, "unwanted", {}};
  const auto dice = world_.below(3);
  if (dice != 0) operation = PauseWorkflow{id, dice == 1, {}};
  const auto parked = [&] {
    const auto now = world_.store().workflow(id);
    return now && now->state == WorkflowState::parked;
  };
  if (dice != 0 && world_.serves() && parked()) operation = RetryWorkflow{.id = id};
  world_.call(std::move(operation), World::Delivery::repeatable, Duration(0),
              [](const std::optional<OperationResult>&) {});
}

FlowWorker::FlowWorker(World& world, FlowInvariant& invariant, KeyInvariant& keys, int number)
    : world_(world),
      invariant_(invariant),
      keys_(keys),
      loop_(world,
            {.worker = fmt::format("flower{}", number),
             .queues = {kFlowQueue},
             .max = 4,
             .wait = seconds(10),
             .lease = kJobLease,
             .work = seconds(4),
             .late_one_in = 15,
             .rest = milliseconds(500)},
            [this](const ClaimedJob& job) { finish(job); }) {}

void FlowWorker::finish(const ClaimedJob& job) {
  // Early retention prunes workflows, and a late request starts one again, with other keys.
  if (!world_.faults.prunes || !world_.faults.wall_steps) {
    if (std::string why = keys_.begins(job); !why.empty()) return world_.broken(why);
  }
  const bool undoes = job.kind == "undo";
  Outcome outcome = Complete{R"({"ok":1})"};
  if (!world_.healed() && world_.chance(8))
    outcome = Retry{.error = "no", .after = seconds(world_.below(5))};
  if (!world_.healed() && world_.chance(undoes ? 12 : 15)) outcome = Dead{.reason = "broken"};
  const bool completes = std::holds_alternative<Complete>(outcome);
  world_.call(Finish{.worker = loop_.worker(), .results = {{job.id, job.token, outcome}}},
              World::Delivery::prompt, Duration(0),
              [this, id = job.id, completes](const std::optional<OperationResult>& result) {
                const auto* r = result ? std::get_if<FinishResult>(&*result) : nullptr;
                if (completes && r != nullptr && r->results.at(0) == FinishStatus::ok)
                  invariant_.accepted(id);
              });
}

bool tend_workflows(World& world) {
  const auto page = world.store().workflows({}, kMaxFlows, 0);
  bool ended = true;
  for (const WorkflowInfo& info : page ? page->workflows : std::vector<WorkflowInfo>{}) {
    if (is_terminal(info.state)) continue;
    ended = false;
    const auto send = [&](Operation operation) {
      world.call(std::move(operation), World::Delivery::sure, Duration(0),
                 [](const std::optional<OperationResult>&) {});
    };
    if (info.state == WorkflowState::parked) send(RetryWorkflow{info.id, "", false, {}});
    if (info.paused) send(PauseWorkflow{info.id, false, {}});
  }
  return ended;
}

}  // namespace mainspring::simulation
