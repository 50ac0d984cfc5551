// The worker of redrives: the outcome of jobs of its queue, and their state after a stop.
#include "redrive/redrives.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "model/callback.h"
#include "model/fingerprint.h"
#include "redrive/redrive_json.h"
#include "telemetry/keeping_log.h"
#include "worker/fake_jobs.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

Job dead_one(JobId id) {
  Job job;
  job.id = id;
  job.kind = "k";
  job.state = JobState::dead;
  job.attempt = 3;
  job.reason = "max_attempts";
  job.description = "no disk";
  return job;
}

// A server with five dead jobs. The test sets their outcome after a retry.
class RedrivesServer final : public FakeJobs {
 public:
  std::optional<Error> on_list;  // set before use
  Job end = [] {
    Job job;
    job.state = JobState::completed;
    return job;
  }();

  JobId add_redrive(const std::string& args, const std::string& checkpoint = "") {
    return add(std::string(kRedriveKind), args, [&](ClaimedJob& job) {
      job.queue = kRedriveQueue;
      job.checkpoint = checkpoint;
      job.attempt = 1;
      job.max_attempts = 1000;
      job.timeout = kForever;
    });
  }
  Result<JobPage> list(const JobFilter& filter, int, JobId) override {
    if (on_list) return *on_list;
    CHECK(filter.state == JobState::dead);
    JobPage page;
    for (JobId id = 5; id >= 1; --id) page.jobs.push_back(dead_one(id));
    return page;
  }
  Result<Job> wait(JobId id, Duration, std::stop_token) override {
    Job job = end;
    job.id = id;
    return job;
  }
};

struct Fixture {
  SystemClock clock;
  SeededRandom random{7};
  KeepingLog log;
  RedrivesServer server;
  Redrives redrives{2, server, clock, random, log};
};

}  // namespace

TEST_CASE("a job of the queue redrives, and its result has the end") {
  Fixture f;
  f.redrives.start();
  const JobId id = f.server.add_redrive(R"({"limit":3})");
  REQUIRE(f.server.await_outcomes(1));
  CHECK(f.server.outcome<Complete>(id).result == R"({"redriven":3,"left":0,"end":"done"})");
  CHECK(f.server.with_lock([&] { return f.server.retried; }) == std::vector<JobId>{1, 2, 3});
}

TEST_CASE("a canary that stops ends the redrive with a warning") {
  Fixture f;
  f.server.end = dead_one(1);
  f.redrives.start();
  const JobId id = f.server.add_redrive(R"({"canary":true})");
  REQUIRE(f.server.await_outcomes(1));
  const std::string result = f.server.outcome<Complete>(id).result;
  CHECK(result.find(R"("redriven":1,"left":4,"end":"died_again")") != std::string::npos);
  CHECK(f.log.text().find(fmt::format("warn a redrive has stopped: a job failed with the same "
                                      "error redrive={} job=1 fingerprint={} redriven=1 left=4",
                                      id, fingerprint_of(dead_one(1)))) != std::string::npos);
}

TEST_CASE("an unreadable redrive is dead, and an unavailable server is retried") {
  Fixture f;
  f.server.on_list = Error{.code = ErrorCode::unavailable, .message = "it is away"};
  f.redrives.start();
  const JobId args = f.server.add_redrive(R"({"rate":"fast"})");
  const JobId checkpoint = f.server.add_redrive("{}", R"({"after":-1})");
  const JobId away = f.server.add_redrive("{}");
  REQUIRE(f.server.await_outcomes(3));
  CHECK(f.server.outcome<Dead>(args).reason == "bad_redrive");
  CHECK(f.server.outcome<Dead>(args).description.find("rate") != std::string::npos);
  CHECK(f.server.outcome<Dead>(checkpoint).reason == "bad_redrive");
  CHECK(f.server.outcome<Retry>(away).error.find("it is away") != std::string::npos);
}

TEST_CASE("a stop saves the position and releases the job") {
  Fixture f;
  f.redrives.start();
  const JobId id = f.server.add_redrive(R"({"rate":"1/h"})");
  REQUIRE(f.server.await([&] { return f.server.retried.size() == 1; }));
  f.redrives.stop();
  CHECK(f.server.ended_as<Snooze>(id));
  std::string kept;
  for (const Renew& renew : f.server.renews) {
    for (const Renewal& one : renew.leases) {
      if (one.checkpoint) kept = *one.checkpoint;
    }
  }
  const auto state = state_of(kept);
  REQUIRE(state);
  CHECK(state->after == 1);
  CHECK(state->redriven == 1);

  // Another instance continues from there.
  Redrives other(1, f.server, f.clock, f.random, f.log);
  other.start();
  f.server.add_redrive(R"({"rate":"1/h"})", kept);
  REQUIRE(f.server.await([&] { return f.server.retried.size() == 2; }));
  CHECK(f.server.with_lock([&] { return f.server.retried; }) == std::vector<JobId>{1, 2});
}
