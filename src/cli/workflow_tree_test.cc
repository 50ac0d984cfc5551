// The text view of a workflow's steps.
#include "cli/workflow_tree.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace mainspring;
using namespace mainspring::cli;
using namespace std::chrono_literals;

namespace {

WorkflowStep step(int number, std::string name, StepState state,
                  std::vector<std::string> after = {}) {
  WorkflowStep out;
  out.number = number;
  out.name = std::move(name);
  out.state = state;
  out.after = std::move(after);
  return out;
}

}  // namespace

TEST_CASE("steps are listed below the steps they wait for, with a mark of their state") {
  WorkflowStep charge = step(1, "charge", StepState::completed);
  charge.job = 4;
  charge.started_at = WallTime::from_us(1'000'000);
  charge.ended_at = WallTime::from_us(6'000'000);
  WorkflowStep ship = step(4, "ship", StepState::failed, {"pack", "label"});
  ship.reason = "dead: no parcel\x1b[2J";
  const std::string tree = workflow_tree(
      {charge, step(2, "pack", StepState::completed, {"charge"}),
       step(3, "label", StepState::running, {"charge"}), ship, step(5, "news", StepState::waiting)},
      WallTime::from_us(9'000'000), Io{});
  CHECK(tree ==
        "✓ charge  completed  job 4  5.0s\n"
        "  ✓ pack  completed\n"
        "  ▸ label  running\n"
        "    ✗ ship  failed  after pack, label  dead: no parcel\\x1b[2J\n"
        "· news  waiting\n");
}

TEST_CASE("jobs of each step are counted, and the first failed ones are named") {
  std::vector<WorkflowStep> steps = {step(1, "resize", StepState::running)};
  for (int i = 0; i < 2000; ++i) {
    const StepState state = i % 400 == 7 ? StepState::failed : StepState::completed;
    WorkflowStep one = step(i + 2, fmt::format("resize[{}]", i), state);
    one.of = 1;
    one.index = i;
    steps.push_back(one);
  }
  CHECK(workflow_tree(steps, WallTime::from_us(0), Io{}) ==
        "▸ resize  running  2,000 jobs: 1,995 completed, 5 failed\n"
        "    ✗ resize[7]  failed\n"
        "    ✗ resize[407]  failed\n"
        "    ✗ resize[807]  failed\n");
}

TEST_CASE("a child workflow's steps are listed below its step; a missing child is only named") {
  WorkflowStep pay = step(1, "pay", StepState::running), ship = step(2, "ship", StepState::waiting);
  pay.workflow = 7;
  ship.after = {"pay"};
  WorkflowStep deep = step(2, "deep", StepState::running, {"charge"});
  deep.workflow = 9;
  ShownChildren children;
  children[7] = {.info = {.id = 7, .steps = 2, .completed = 1},
                 .steps = {step(1, "charge", StepState::completed), deep}};
  CHECK(workflow_tree({pay, ship}, WallTime::from_us(0), Io{}, children) ==
        "▸ pay  running  workflow 7: 1 of 2\n"
        "    ✓ charge  completed\n"
        "      ▸ deep  running  workflow 9\n"
        "  · ship  waiting\n");
}

TEST_CASE("a step with a live job shows its worker, its attempt and its time limit") {
  WorkflowStep pay = step(1, "pay", StepState::undoing), ship = step(2, "ship", StepState::running);
  pay.job = 3, pay.undo_job = 7;
  pay.job_state = JobState::running;
  pay.attempt = 2, pay.max_attempts = 5, pay.worker = "w\x1b[2J";
  pay.complete_by = WallTime::from_us(200'000'000);
  ship.job_state = JobState::available;
  WorkflowStep sign = step(3, "sign", StepState::running);
  sign.complete_by = WallTime::from_us(1'000'000);
  CHECK(workflow_tree({pay, ship, sign}, WallTime::from_us(80'000'000), Io{}) ==
        "↶ pay  undoing  job 3  undo job 7  running on w\\x1b[2J, attempt 2 of 5, 2m left\n"
        "▸ ship  running  available\n"
        "▸ sign  running  late\n");
}

TEST_CASE("a chain of ten thousand steps is truncated with a note") {
  std::vector<WorkflowStep> steps = {step(1, "s1", StepState::waiting)};
  for (int i = 2; i <= 10'000; ++i)
    steps.push_back(
        step(i, fmt::format("s{}", i), StepState::waiting, {fmt::format("s{}", i - 1)}));
  const std::string tree = workflow_tree(steps, WallTime::from_us(0), Io{});
  CHECK(tree.ends_with("· s1000  waiting\n… and 9,000 steps more; --json shows all\n"));
}
