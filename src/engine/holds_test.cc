// Jobs held by a program, and dead jobs of an engine.
#include <doctest/doctest.h>

#include <atomic>
#include <latch>

#include "engine/engine_rig.h"

using namespace mainspring;
using namespace mainspring::test;

TEST_CASE("a deferred job is claimed by its id and finished once") {
  const Folder folder;
  auto engine = folder.open();
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message);
  EventLog heard;
  const auto events = engine->events({.types = {EventType::deferred}}, heard.listener());
  engine->on_kind("approve", [](const ClaimedJob&, Context&) -> HandlerResult {
    return Outcome(Defer{"waits for a signature"});
  });
  REQUIRE(engine->start().has_value());
  const JobId id = engine->enqueue(job_of("default", "approve", "7"))->id;
  REQUIRE(heard.await(EventType::deferred, id));
  CHECK(engine->why(id)->gate == Gate::deferred);
  CHECK(field_of(engine->claim(id, {.lease = 1ms})) == "lease");
  {
    const auto held = engine->claim(id);
    REQUIRE_MESSAGE(held.has_value(), held.error().message);
    CHECK(held->job().args == "7");
    CHECK(held->job().deferred);
    CHECK_FALSE(held->lost());
    CHECK(code_of(engine->claim(id)) == ErrorCode::conflict);
  }
  // Released unfinished, the job is unchanged.
  CHECK(engine->why(id)->gate == Gate::deferred);
  auto held = engine->claim(id);
  REQUIRE(held.has_value());
  CHECK(code_of(held->finish(Complete{"{no json"})) == ErrorCode::invalid_argument);
  CHECK(code_of(held->finish(Complete{R"(1,"outcome":"dead")"})) == ErrorCode::invalid_argument);
  REQUIRE(held->finish(Complete{R"({"by":"anna"})"}).has_value());
  CHECK(code_of(held->finish(Complete{})) == ErrorCode::conflict);
  const auto job = engine->get(id);
  CHECK(job->state == JobState::completed);
  CHECK(job->result == R"({"by":"anna"})");
  CHECK(code_of(engine->claim(id)) == ErrorCode::conflict);
  CHECK(code_of(engine->claim(99)) == ErrorCode::not_found);
  engine->stop();
}

TEST_CASE("the holder of a job learns that it was cancelled") {
  const Folder folder;
  auto engine = folder.open();
  const JobId id = engine->enqueue(job_of("q", "k"))->id;
  auto held = engine->claim(id, {.lease = 15s});  // learned with its next renewal
  REQUIRE_MESSAGE(held.has_value(), held.error().message);
  CHECK(*engine->cancel(id, "not needed") == JobState::running);
  std::latch told(1);
  const std::stop_callback wake(held->stop_token(), [&] { told.count_down(); });
  told.wait();
  CHECK(held->cancel_requested());
  CHECK_FALSE(held->lost());
  REQUIRE(held->finish(CancelJob{"stopped half way"}).has_value());
  CHECK(engine->get(id)->state == JobState::cancelled);
}

namespace {

// Jobs that die until `yes` is set.
struct Fixed {
  std::atomic<bool> yes = false;
  Handler handler() {
    return [this](const ClaimedJob& job, Context&) -> HandlerResult {
      if (yes) return Outcome(Complete{});
      return Outcome(Dead{"broken", job.args + " of the disk"});
    };
  }
};

}  // namespace

TEST_CASE("dead jobs are grouped by error and redriven by group and by filter") {
  const Folder folder;
  auto engine = folder.open();
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message);
  Fixed fixed;
  engine->on_kind("resize", fixed.handler(), {.queue = "photos"});
  engine->on_kind("cut", fixed.handler(), {.queue = "photos"});
  REQUIRE(engine->start().has_value());
  const auto jobs =
      engine->enqueue_many({job_of("photos", "resize", "1"), job_of("photos", "resize", "2"),
                            job_of("photos", "cut", "3")});
  for (const Enqueued& job : *jobs) CHECK(engine->wait(job.id, 60s)->state == JobState::dead);

  EngineDead dead = engine->dead();
  const auto groups = dead.groups();
  REQUIRE(groups.has_value());
  REQUIRE(groups->groups.size() == 2);
  CHECK(groups->jobs == 3);
  CHECK_FALSE(groups->cut);
  const DeadGroup& most = groups->groups.front();
  CHECK(most.kind == "resize");
  CHECK(most.reason == "broken");
  CHECK(most.count == 2);
  CHECK(most.first == jobs->at(0).id);
  CHECK(most.last == jobs->at(1).id);
  CHECK(most.message == "2 of the disk");
  CHECK(dead.groups({.kind = "cut"})->groups.size() == 1);
  CHECK(dead.list({.fingerprint = most.fingerprint})->jobs.size() == 2);
  CHECK(dead.list({}, 1)->next == jobs->at(2).id);

  fixed.yes = true;
  const auto one = dead.redrive({.fingerprint = most.fingerprint}, 1);
  REQUIRE_MESSAGE(one.has_value(), one.error().message);
  CHECK(one->ids == std::vector<JobId>{jobs->at(0).id});
  CHECK(one->next == jobs->at(0).id);
  const auto other = dead.redrive({.fingerprint = most.fingerprint}, 10, *one->next);
  CHECK(other->ids == std::vector<JobId>{jobs->at(1).id});
  CHECK_FALSE(other->next.has_value());
  CHECK(engine->wait(jobs->at(0).id, 60s)->state == JobState::completed);
  CHECK(engine->wait(jobs->at(1).id, 60s)->state == JobState::completed);
  CHECK(engine->get(jobs->at(2).id)->state == JobState::dead);
  const auto rest = dead.redrive({.queue = "photos", .kind = "cut"});
  CHECK(rest->redriven == 1);
  CHECK(engine->wait(jobs->at(2).id, 60s)->state == JobState::completed);
  CHECK(dead.list()->jobs.empty());
  engine->stop();
}

TEST_CASE("an invalid filter of dead jobs is refused by field") {
  const Folder folder;
  auto engine = folder.open();
  EngineDead dead = engine->dead();
  CHECK(field_of(dead.list({.queue = "no name"})) == "queue");
  CHECK(field_of(dead.list({}, 0)) == "limit");
  CHECK(field_of(dead.list({}, 1, -1)) == "before");
  CHECK(field_of(dead.groups({.kind = "no name"})) == "kind");
  CHECK(field_of(dead.groups({.fingerprint = "0123456789abcdef"})) == "fingerprint");
  CHECK(field_of(dead.redrive({.fingerprint = "none"})) == "fingerprint");
  CHECK(field_of(dead.redrive({}, 10'001)) == "limit");
}
