// Redrives run independently of the caller: at a rate, by canary, across restarts.
#include <doctest/doctest.h>

#include <atomic>
#include <latch>

#include "engine/engine_rig.h"
#include "model/callback.h"

using namespace mainspring;
using namespace mainspring::test;

namespace {

// Jobs that die until `yes` is set; after that, jobs above `upto` snooze.
struct RedriveFixed {
  std::atomic<bool> yes = false;
  std::atomic<int> upto = 1000;
  Handler handler() {
    return [this](const ClaimedJob& job, Context&) -> HandlerResult {
      if (!yes) return Outcome(Dead{"broken", job.args + " of the disk"});
      if (std::stoi(job.args) > upto) return Outcome(Snooze{10ms});
      return Outcome(Complete{});
    };
  }
};

// Starts the engine and makes `count` dead jobs of kind "resize" in queue "photos".
std::vector<JobId> die(Engine& engine, RedriveFixed& fixed, int count) {
  engine.on_kind("resize", fixed.handler(), {.queue = "photos"});
  REQUIRE(engine.start().has_value());
  std::vector<JobId> ids;
  for (int i = 1; i <= count; ++i)
    ids.push_back(engine.enqueue(job_of("photos", "resize", std::to_string(i)))->id);
  for (const JobId id : ids) REQUIRE(engine.wait(id, 60s)->state == JobState::dead);
  return ids;
}

}  // namespace

TEST_CASE("a redrive by canary retries all jobs once the cause is fixed") {
  const Folder folder;
  auto engine = folder.open();
  RedriveFixed fixed;
  const auto ids = die(*engine, fixed, 13);
  fixed.yes = true;
  const auto started = engine->dead().start_redrive({.queue = "photos"}, {.canary = true});
  REQUIRE_MESSAGE(started.has_value(), started.error().message);
  CHECK_FALSE(started->duplicate);
  const auto job = engine->wait(started->job, 60s);
  REQUIRE(job->state == JobState::completed);
  CHECK(job->queue == kRedriveQueue);
  CHECK(job->result ==
        R"({"redriven":13,"left":0,"end":"done","steps":[)"
        R"({"step":1,"redriven":1,"completed":1,"cancelled":0,"dead":0,"gone":0},)"
        R"({"step":2,"redriven":10,"completed":10,"cancelled":0,"dead":0,"gone":0},)"
        R"({"step":3,"redriven":2,"completed":2,"cancelled":0,"dead":0,"gone":0}]})");
  for (const JobId id : ids) CHECK(engine->get(id)->state == JobState::completed);
}

TEST_CASE("a redrive by canary stops at the first job that dies again and leaves the rest dead") {
  const Folder folder;
  auto engine = folder.open();
  RedriveFixed fixed;
  const auto ids = die(*engine, fixed, 5);
  const auto started = engine->dead().start_redrive({}, {.canary = true});
  const auto job = engine->wait(started->job, 60s);
  REQUIRE(job->state == JobState::completed);
  CHECK(job->result.find(R"("redriven":1,"left":4,"end":"died_again")") != std::string::npos);
  CHECK(job->result.find(R"("again":{"job":)" + std::to_string(ids[0])) != std::string::npos);
  for (const JobId id : ids) CHECK(engine->get(id)->state == JobState::dead);
  CHECK(engine->get(ids[0])->attempt == 2);
  CHECK(engine->get(ids[1])->attempt == 1);
}

TEST_CASE("a redrive of one group stops at its limit; a second one for the same jobs is the same") {
  const Folder folder;
  auto engine = folder.open();
  RedriveFixed fixed;
  const auto ids = die(*engine, fixed, 4);
  fixed.yes = true;
  EngineDead dead = engine->dead();
  CHECK(field_of(dead.start_redrive({.fingerprint = "x"})) == "fingerprint");
  CHECK(field_of(dead.start_redrive({}, {.rate = "fast"})) == "rate");
  CHECK(field_of(dead.start_redrive({}, {.limit = 0})) == "limit");
  const auto other = dead.start_redrive({.fingerprint = "0123456789abcdef"});
  CHECK(engine->wait(other->job, 60s)->result == R"({"redriven":0,"left":0,"end":"done"})");
  const std::string group = dead.groups()->groups.at(0).fingerprint;
  const auto some = dead.start_redrive({.fingerprint = group}, {.limit = 3});
  CHECK(engine->wait(some->job, 60s)->result == R"({"redriven":3,"left":0,"end":"done"})");
  CHECK(engine->wait(ids[2], 60s)->state == JobState::completed);
  CHECK(engine->get(ids[3])->state == JobState::dead);

  REQUIRE(engine->queues().pause(std::string(kRedriveQueue)).has_value());
  const auto first = dead.start_redrive({.queue = "photos"}, {.rate = "1/h"});
  const auto second = dead.start_redrive({.queue = "photos"}, {.canary = true});
  CHECK_FALSE(first->duplicate);
  CHECK(second->duplicate);
  CHECK(second->job == first->job);
}

TEST_CASE("a redrive continues after a restart, and a cancel ends it") {
  const Folder folder;
  RedriveFixed fixed;
  JobId redrive = 0;
  std::vector<JobId> ids;
  {
    EventLog heard;
    auto engine = folder.open();
    const auto events = engine->events({.types = {EventType::completed}}, heard.listener());
    ids = die(*engine, fixed, 14);
    fixed.yes = true;
    redrive = engine->dead().start_redrive({.queue = "photos"}, {.rate = "1/h"})->job;
    CHECK(heard.await(EventType::completed, ids[0]));
    engine->stop();
  }
  EventLog heard;
  auto engine = folder.open();
  const auto events = engine->events({.types = {EventType::completed}}, heard.listener());
  engine->on_kind("resize", fixed.handler(), {.queue = "photos"});
  REQUIRE(engine->start().has_value());
  CHECK(heard.await(EventType::completed, ids[1]));  // the first job is retried at once
  CHECK(engine->get(redrive)->attempt == 1);         // a server stop is not a failure
  REQUIRE(engine->cancel(redrive).has_value());
  CHECK(engine->wait(redrive, 60s)->state == JobState::cancelled);
  CHECK(engine->get(ids[2])->state == JobState::dead);
}

TEST_CASE("a canary is in the same step after a restart") {
  const Folder folder;
  RedriveFixed fixed;
  JobId redrive = 0;
  std::vector<JobId> ids;
  {
    EventLog heard;
    auto engine = folder.open();
    const auto events = engine->events({.types = {EventType::completed}}, heard.listener());
    ids = die(*engine, fixed, 13);
    fixed.upto = 1;  // the first step ends, and the second one does not
    fixed.yes = true;
    redrive = engine->dead().start_redrive({.queue = "photos"}, {.canary = true, .limit = 12})->job;
    CHECK(heard.await(EventType::completed, ids[0]));
    engine->stop();
  }
  fixed.upto = 1000;
  auto engine = folder.open();
  engine->on_kind("resize", fixed.handler(), {.queue = "photos"});
  REQUIRE(engine->start().has_value());
  const auto job = engine->wait(redrive, 60s);
  REQUIRE(job->state == JobState::completed);
  CHECK(job->result.find(R"({"redriven":12,"left":0,"end":"done","steps":[{"step":1,"redriven":1,)"
                         R"("completed":1,)") == 0);
  CHECK(job->result.find(R"({"step":2,"redriven":10,"completed":10,)") != std::string::npos);
  CHECK(job->result.find(R"({"step":3,"redriven":1,"completed":1,)") != std::string::npos);
  CHECK(engine->get(ids[12])->state == JobState::dead);
}
