// Single redrives: the canary's steps, what stops it, the rate, and skipped jobs.
#include "redrive/redriver.h"

#include <doctest/doctest.h>

#include "model/fingerprint.h"
#include "worker/fake_jobs.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

const Job kDied{.kind = "k",
                .state = JobState::dead,
                .attempt = 3,
                .reason = "max_attempts",
                .description = "no disk"};

// A retried job: it died in attempt 3, and attempt 4 failed.
Job failed_with(const std::string& message) {
  Job job{.kind = "k", .state = JobState::retryable, .attempt = 4, .max_attempts = 6};
  for (int attempt = 1; attempt <= 3; ++attempt)
    job.errors.push_back({.attempt = attempt, .message = "no disk"});
  job.errors.push_back({.attempt = 4, .message = message});
  return job;
}

// A server on which every retried job has ended when the redrive waits for it.
class Server : public FakeJobs {
 public:
  std::map<JobId, Job> ends;  // else completed
  std::map<JobId, ErrorCode> refused;
  std::vector<JobId> waited;
  std::function<void(JobId)> on_wait;

  Result<RetryResult> retry(RetryJob request) override {
    if (refused.contains(request.id)) return Error{refused.at(request.id), "refused"};
    return FakeJobs::retry(request);
  }
  Result<Job> wait(JobId id, Duration, std::stop_token) override {
    waited.push_back(id);
    REQUIRE(waited.size() < 1000);
    if (on_wait) on_wait(id);
    Job job = ends.contains(id) ? ends.at(id) : Job{.state = JobState::completed};
    job.id = id;
    return job;
  }
};

struct Rig {
  Server server;
  ManualClock clock;
  std::stop_source stop;
  std::vector<RedriveStep> steps;
  RedriveReport report;
  RedriveState from, kept;
  int turns = 0;
  Duration paused{0};
  std::vector<std::pair<JobId, JobId>> tried_at_pause;  // kept for certain, and in truth
  JobId kept_tried = 0;

  Result<void> run(int count, RedriveOptions::Canary canary, Duration between = Duration(0)) {
    std::vector<DeadJob> found;
    for (JobId id = from.after + 1; id <= count; ++id)
      found.push_back({id, fingerprint_of(kDied), kDied.attempt});
    Redriver redriver(server, clock,
                      {.canary = canary,
                       .between = between,
                       .stop = stop.get_token(),
                       .pause =
                           [&](Duration length) {
                             paused += length;
                             tried_at_pause.emplace_back(kept_tried, server.retried.size());
                             clock.advance(length);
                           },
                       .on_step = [&](const RedriveStep& step) { steps.push_back(step); },
                       .progress = [](const std::string&) {},
                       .keep =
                           [&](const RedriveState& state, RedriveOptions::Turn turn) {
                             kept = state;
                             if (turn == RedriveOptions::Turn::no) return;
                             kept_tried = state.tried;
                             ++turns;
                           }},
                      from);
    auto done = redriver.run(found);
    report = redriver.report();
    return done;
  }
};
constexpr auto kCanary = RedriveOptions::Canary::yes;
constexpr auto kAll = RedriveOptions::Canary::no;
using End = RedriveReport::End;

}  // namespace

TEST_CASE("a canary retries 1, 10, then the rest, each step after the end of the one before") {
  Rig rig;
  rig.server.on_wait = [&](JobId) {
    const std::size_t n = rig.server.retried.size();
    CHECK((n == 1 || n == 11 || n == 30));
  };
  REQUIRE(rig.run(30, kCanary));
  REQUIRE(rig.steps.size() == 3);
  CHECK(rig.steps[0].redriven == 1);
  CHECK(rig.steps[1].redriven == 10);
  CHECK(rig.steps[2].redriven == 19);
  CHECK(rig.steps[2].completed == 19);
  CHECK(rig.server.waited == rig.server.retried);
  CHECK(rig.report.redriven == 30);
  CHECK(rig.report.left == 0);
  CHECK(rig.report.end == End::done);
}

TEST_CASE("a canary that dies again of the same error stops the rest and is named") {
  Rig rig;
  Job same = kDied;
  same.description = "no disk";
  rig.server.ends = {{5, same}};
  REQUIRE(rig.run(30, kCanary));
  REQUIRE(rig.steps.size() == 2);
  REQUIRE(rig.steps[1].again);
  CHECK(rig.steps[1].again->id == 5);
  CHECK(rig.report.end == End::died_again);
  CHECK(rig.report.redriven == 11);
  CHECK(rig.report.left == 19);
  CHECK(rig.server.retried.size() == 11);
}

TEST_CASE(
    "a canary that fails again of the same error stops the rest, although it will be retried") {
  for (const JobState state : {JobState::retryable, JobState::available, JobState::running}) {
    CAPTURE(to_string(state));
    Rig rig;
    for (JobId id = 2; id <= 11; ++id) {  // the jobs before it are retried because of another error
      rig.server.ends[id] = failed_with(id == 7 ? "no disk" : "no memory");
      rig.server.ends[id].state = state;
    }
    REQUIRE(rig.run(30, kCanary));
    REQUIRE(rig.steps.size() == 2);
    REQUIRE(rig.steps[1].again);
    CHECK(rig.steps[1].again->id == 7);
    CHECK(rig.steps[1].again->attempt == 4);
    CHECK(rig.steps[1].again->description == "no disk");
    CHECK(fingerprint_of(*rig.steps[1].again) == fingerprint_of(kDied));
    CHECK(rig.steps[1].dead == 0);
    CHECK(rig.report.end == End::failed_again);
    CHECK(rig.report.left == 19);
    CHECK(rig.server.waited.size() == 7);
  }
}

TEST_CASE("a canary that has not failed yet, or of another error, is awaited") {
  Rig rig;
  Job waits = failed_with("no memory");
  SUBCASE("it failed of another error") {}
  SUBCASE("it has not run yet") {
    waits.errors.pop_back(), waits.attempt = 3;
  }
  rig.server.ends = {{1, waits}};
  rig.server.on_wait = [&](JobId) {
    if (rig.steps.empty()) CHECK(rig.server.retried.size() == 1);
    if (rig.server.waited.size() == 5) rig.server.ends.clear();
  };
  REQUIRE(rig.run(3, kCanary));
  CHECK(rig.report.end == End::done);
  CHECK(rig.steps.at(0).completed == 1);
}

TEST_CASE("a canary that dies of another error, is cancelled or is pruned stops nothing") {
  Rig rig;
  Job other = kDied;
  other.description = "no memory";
  rig.server.ends = {{2, other}, {3, Job{.state = JobState::cancelled}}};
  REQUIRE(rig.run(12, kCanary));
  CHECK(rig.report.end == End::done);
  CHECK(rig.steps[1].dead == 1);
  CHECK(rig.steps[1].cancelled == 1);
  CHECK(rig.steps[1].completed == 8);
}

TEST_CASE("jobs that cannot be retried are skipped, and other errors end it") {
  Rig rig;
  rig.server.refused = {
      {1, ErrorCode::conflict}, {3, ErrorCode::expired}, {4, ErrorCode::not_found}};
  REQUIRE(rig.run(5, kCanary));
  CHECK(rig.server.retried == std::vector<JobId>{2, 5});
  CHECK(rig.report.redriven == 2);
  CHECK(rig.report.left == 0);
  Rig broken;
  broken.server.refused = {{3, ErrorCode::unavailable}};
  const auto done = broken.run(5, kAll);
  REQUIRE_FALSE(done);
  CHECK(done.error().code == ErrorCode::unavailable);
  CHECK(broken.report.redriven == 2);
  CHECK(broken.report.left == 3);
}

TEST_CASE("a rate leaves its time between two jobs; without a rate there is no pause") {
  Rig rig;
  REQUIRE(rig.run(5, kAll, 250ms));
  CHECK(rig.paused == 1s);
  CHECK(rig.report.redriven == 5);
  Rig at_once;
  REQUIRE(at_once.run(5, kAll));
  CHECK(at_once.paused == 0s);
}

TEST_CASE("the state that readers see during a long pause counts every job so far") {
  Rig rig;
  REQUIRE(rig.run(4, kAll, 1min));
  CHECK(rig.paused == 3min);
  CHECK(rig.tried_at_pause == std::vector<std::pair<JobId, JobId>>{{1, 1}, {2, 2}, {3, 3}});
}

TEST_CASE("a stop ends it between two jobs and reports its position") {
  Rig rig;
  rig.server.on_wait = [&](JobId) { rig.stop.request_stop(); };
  REQUIRE(rig.run(30, kCanary));
  CHECK(rig.report.end == End::interrupted);
  CHECK(rig.report.redriven == 1);
  CHECK(rig.report.left == 29);
  CHECK(rig.steps.empty());
}

TEST_CASE("an interrupted redrive resumes from its saved state and redrives no job twice") {
  Rig first;
  first.server.on_wait = [&](JobId id) {  // in the second step, with two of it done
    if (first.steps.size() == 1 && id == 4) first.stop.request_stop();
  };
  REQUIRE(first.run(30, kCanary));
  CHECK(first.report.end == End::interrupted);
  CHECK(first.report.redriven == 11);
  CHECK(first.kept.after == 11);
  CHECK(first.kept.tried == 11);
  CHECK(first.kept.step.number == 2);
  CHECK(first.kept.step.completed == 2);
  CHECK(first.kept.live.size() == 8);
  CHECK(first.turns == 4);  // it started, one step ran and ended, and another one ran

  Rig second;
  second.from = first.kept;
  REQUIRE(second.run(30, kCanary));
  CHECK(second.report.end == End::done);
  CHECK(second.report.redriven == 30);
  REQUIRE(second.server.retried.size() == 19);
  CHECK(second.server.retried.front() == 12);
  CHECK(second.server.waited.front() == 4);  // the rest of the step comes first
  REQUIRE(second.steps.size() == 2);
  CHECK(second.steps[0].number == 2);
  CHECK(second.steps[0].redriven == 10);
  CHECK(second.steps[0].completed == 10);
  CHECK(second.steps[1].number == 3);
  CHECK(second.kept.steps.size() == 3);
}

TEST_CASE("a resumed redrive knows its initial errors and stops if an earlier job fails again") {
  Rig rig;
  rig.from = {.after = 11, .tried = 11, .redriven = 11};
  rig.from.steps = {{.number = 1, .redriven = 1}};
  rig.from.step = {.number = 2, .redriven = 10, .completed = 9};
  rig.from.live = {{.id = 7, .fingerprint = "", .attempt = 3}};
  Job other = failed_with("no light");
  other.errors.back().message = "no light";
  rig.server.ends = {{7, other}};
  Job before = kDied;
  before.description = "no light";
  rig.from.known = {fingerprint_of(before)};
  REQUIRE(rig.run(30, kCanary));
  CHECK(rig.report.end == End::failed_again);
  CHECK(rig.report.left == 19);
  CHECK(rig.server.retried.empty());
}

TEST_CASE("a step that was interrupted resumes until it reaches its number of jobs") {
  Rig rig;
  rig.from = {.after = 5, .tried = 5, .redriven = 5};
  rig.from.steps = {{.number = 1, .redriven = 1}};
  rig.from.step = {.number = 2, .redriven = 4};
  rig.server.on_wait = [&](JobId) {
    if (rig.steps.empty()) CHECK(rig.server.retried.size() == 6);
  };
  REQUIRE(rig.run(30, kCanary));
  CHECK(rig.steps.at(0).redriven == 10);
  CHECK(rig.report.redriven == 30);
}
