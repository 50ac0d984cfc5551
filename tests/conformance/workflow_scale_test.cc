// Workflows at scale over the SQLite store: the end of a step costs the same in a workflow of
// 10,000 steps and among 10,000 workflows, and the memory of open workflows is bounded.
#include <algorithm>
#include <fstream>

#include "conformance/scale_rig.h"

namespace mainspring {
namespace {

using namespace scale_testing;

constexpr int kSteps = static_cast<int>(kMaxWorkflowSteps);
constexpr int kWorkflows = 10'000;
constexpr int kAtOnce = 10;
// The memory bound of 10,000 small workflows with their 30,000 jobs.
constexpr std::int64_t kMaxGrowth = 96 << 20;

StepSpec step(int number, std::vector<std::string> after = {}) {
  StepSpec out{.name = fmt::format("s{}", number), .after = std::move(after)};
  out.job = NewJob{.queue = "q", .kind = "k", .args = R"({"some":"arguments of a job"})"};
  return out;
}

// A chain of steps.
WorkflowSpec chain(int steps) {
  WorkflowSpec spec{.name = "chain"};
  for (int i = 0; i < steps; ++i) {
    std::vector<std::string> after;
    if (i > 0) after.push_back(fmt::format("s{}", i - 1));
    spec.steps.push_back(step(i, std::move(after)));
  }
  return spec;
}

// Parallel steps, and one that waits for all of them.
WorkflowSpec fan(int steps) {
  WorkflowSpec spec{.name = "fan"};
  std::vector<std::string> all;
  for (int i = 0; i < steps - 1; ++i) {
    spec.steps.push_back(step(i));
    all.push_back(spec.steps.back().name);
  }
  spec.steps.push_back(step(steps - 1, std::move(all)));
  return spec;
}

WorkflowId start(Place& p, const WorkflowSpec& spec) {
  return p.one<WorkflowStarted>(StartWorkflow{spec}).id;
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0;
  file >> pages >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

WorkflowState state_of(Place& p, WorkflowId id) {
  const auto info = p.store().workflow(id);
  REQUIRE(info.has_value());
  return info->state;
}

// Ends `ends` jobs one after the other.
Counted ends_of(Meter& meter, Place& p, int ends) {
  return meter.during([&] {
    for (int i = 0; i < ends; ++i) {
      const auto jobs = p.claim(1);
      REQUIRE(jobs.size() == 1);
      p.complete(jobs);
    }
  });
}

void drain(Place& p) {
  for (auto jobs = p.claim(1000); !jobs.empty(); jobs = p.claim(1000)) p.complete(jobs);
}

TEST_CASE("the end of a step costs the same in a chain of 10,000 steps as in one of 100") {
  Meter meter;
  Place p("long_chain");
  const WorkflowId small = start(p, chain(100));
  (void)ends_of(meter, p, kAtOnce);  // prepares all statements
  const Counted few = ends_of(meter, p, kAtOnce);
  drain(p);
  CHECK(state_of(p, small) == WorkflowState::completed);
  const WorkflowId large = start(p, chain(kSteps));
  (void)ends_of(meter, p, kAtOnce);
  check_bounded({{"ends", few}}, {{"ends", ends_of(meter, p, kAtOnce)}});
  for (int i = 2 * kAtOnce; i < kSteps; ++i) (void)p.complete(p.claim(1));
  CHECK(state_of(p, large) == WorkflowState::completed);
}

TEST_CASE("10,000 parallel steps end, and the step that waits for all starts once") {
  Meter meter;
  Place p("wide_fan");
  const WorkflowId small = start(p, fan(100));
  (void)ends_of(meter, p, kAtOnce);
  const Counted few = ends_of(meter, p, kAtOnce);
  drain(p);
  CHECK(state_of(p, small) == WorkflowState::completed);
  const WorkflowId large = start(p, fan(kSteps));
  (void)ends_of(meter, p, kAtOnce);
  check_bounded({{"ends", few}}, {{"ends", ends_of(meter, p, kAtOnce)}});
  drain(p);
  CHECK(state_of(p, large) == WorkflowState::completed);
  const auto info = p.store().workflow(large);
  REQUIRE(info.has_value());
  CHECK(info->completed == kSteps);
}

TEST_CASE("10,000 workflows at once need bounded memory, and each ends") {
  Meter meter;
  Place p("many_workflows");
  const auto costs = [&] {
    return Costs{{"start", meter.during([&] { start(p, chain(3)); })},
                 {"ends", ends_of(meter, p, kAtOnce)}};
  };
  for (int i = 0; i < 100; ++i) start(p, chain(3));
  (void)costs();
  const Costs few = costs();
  const std::int64_t before = resident_bytes();
  for (int i = 0; i < kWorkflows; ++i) start(p, chain(3));
  const std::int64_t growth = resident_bytes() - before;
  MESSAGE(fmt::format("10,000 workflows of 3 steps: {:.1f} MiB more",
                      static_cast<double>(growth) / (1 << 20)));
  CHECK(growth < kMaxGrowth);
  check_bounded(few, costs());
  drain(p);
  const auto open = p.store().workflows({.name = {}, .state = WorkflowState::running}, 1, 0);
  REQUIRE(open.has_value());
  CHECK(open->workflows.empty());
}

}  // namespace
}  // namespace mainspring
