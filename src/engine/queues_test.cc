// Queues, breakers and quarantine of an engine: each setting holds jobs, and releases them.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <latch>

#include "engine/engine_rig.h"
#include "store/operations.h"

using namespace mainspring;
using namespace mainspring::test;

TEST_CASE("a limit holds jobs beyond it, why names it, and removing it releases them") {
  const Folder folder;
  auto engine = folder.open();
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message);
  std::latch first(1), second(1);
  engine->on_kind("send",
                  [&](const ClaimedJob& job, Context&) -> HandlerResult {
                    if (job.args == "1") {
                      first.count_down();
                      second.wait();  // finally both run at once
                    } else {
                      second.count_down();
                    }
                    return Outcome(Complete{});
                  },
                  {.queue = "mails"});
  EngineQueues queues = engine->queues();
  CHECK(code_of(queues.get("mails")) == ErrorCode::not_found);
  REQUIRE(queues.set_limits("mails", {.concurrency = 1}).has_value());
  REQUIRE(engine->start().has_value());
  const JobId runs = engine->enqueue(job_of("mails", "send", "1"))->id;
  first.wait();
  const JobId waits = engine->enqueue(job_of("mails", "send", "2"))->id;
  const auto why = engine->why(waits);
  REQUIRE(why.has_value());
  CHECK(why->gate == Gate::concurrency);
  CHECK(why->ahead == 0);
  CHECK(engine->why(runs)->gate == Gate::running);
  const auto status = queues.get("mails");
  CHECK(status->count(JobState::running) == 1);
  CHECK(status->count(JobState::available) == 1);
  CHECK(status->slots_taken == 1);

  QueueLimits limits = status->limits;
  CHECK(limits.concurrency == 1);
  limits.concurrency = 2;
  limits.quarantine_after = 5;
  REQUIRE(queues.set_limits("mails", limits).has_value());
  CHECK(engine->wait(waits, 60s)->state == JobState::completed);
  CHECK(engine->wait(runs, 60s)->state == JobState::completed);
  CHECK(queues.get("mails")->limits == limits);
  CHECK(queues.list()->size() == 1);
  engine->stop();
}

TEST_CASE("invalid limits are refused by field") {
  const Folder folder;
  auto engine = folder.open();
  EngineQueues queues = engine->queues();
  CHECK(field_of(queues.set_limits("mails", {.concurrency = 0})) == "concurrency");
  CHECK(field_of(queues.set_limits("mails", {.rate = RateLimit{.count = 0}})) == "rate.count");
  CHECK(field_of(queues.set_limits("no name", {})) == "queue");
  CHECK(code_of(queues.set_limits("mails", {.breaker = "unknown"})) == ErrorCode::invalid_argument);
  CHECK(field_of(queues.pause("")) == "queue");
  CHECK(field_of(queues.get("no name")) == "queue");
  CHECK(queues.list()->empty());
}

TEST_CASE("a paused queue returns no job, also not by id, until it is resumed") {
  const Folder folder;
  auto engine = folder.open();
  EngineQueues queues = engine->queues();
  CHECK(code_of(queues.pause("mails")) == ErrorCode::not_found);
  CHECK(code_of(queues.resume("mails")) == ErrorCode::not_found);
  CHECK(queues.list()->empty());
  REQUIRE(queues.set_limits("mails", {}).has_value());
  REQUIRE(queues.pause("mails").has_value());
  const JobId id = engine->enqueue(job_of("mails", "send"))->id;
  CHECK(queues.get("mails")->paused);
  CHECK(engine->why(id)->gate == Gate::queue_paused);
  CHECK(code_of(engine->claim(id)) == ErrorCode::conflict);
  REQUIRE(queues.resume("mails").has_value());
  CHECK_FALSE(queues.get("mails")->paused);
  auto held = engine->claim(id);
  REQUIRE_MESSAGE(held.has_value(), held.error().message);
  REQUIRE(held->finish(Complete{}).has_value());
  CHECK(engine->get(id)->state == JobState::completed);
  CHECK(code_of(engine->why(99)) == ErrorCode::not_found);
}

TEST_CASE("an open breaker holds the jobs of the queues that name it") {
  const Folder folder;
  auto engine = folder.open();
  EngineBreakers breakers = engine->breakers();
  EngineQueues queues = engine->queues();
  REQUIRE(breakers.put("geocoder", {.failures = 3}).has_value());
  REQUIRE(queues.set_limits("addresses", {.breaker = "geocoder"}).has_value());
  const JobId id = engine->enqueue(job_of("addresses", "locate"))->id;
  REQUIRE(breakers.open("geocoder", 1h).has_value());
  const auto why = engine->why(id);
  CHECK(why->gate == Gate::breaker);
  CHECK(why->until == breakers.get("geocoder")->open_until);
  CHECK(breakers.get("geocoder")->state == BreakerState::open);
  CHECK(code_of(engine->claim(id)) == ErrorCode::conflict);
  CHECK(code_of(breakers.remove("geocoder")) == ErrorCode::conflict);
  REQUIRE(breakers.close("geocoder").has_value());
  CHECK(engine->claim(id).has_value());
  const auto all = breakers.list();
  REQUIRE(all->size() == 1);
  CHECK(all->front().queues == std::vector<std::string>{"addresses"});
  CHECK(all->front().settings.failures == 3);
  REQUIRE(queues.set_limits("addresses", {}).has_value());
  REQUIRE(breakers.remove("geocoder").has_value());
  CHECK(code_of(breakers.get("geocoder")) == ErrorCode::not_found);
  CHECK(code_of(breakers.open("geocoder")) == ErrorCode::not_found);
  CHECK(field_of(breakers.open("geocoder", 1ms)) == "for");
  CHECK(field_of(breakers.put("geocoder", {.failures = 0})) == "failures");
  CHECK(field_of(breakers.close("no name")) == "name");
}

namespace {

// A process that claims the job and dies while it runs.
void die_with_a_job(const Folder& folder) {
  const pid_t child = fork();
  if (child == 0) {
    auto engine = folder.open();
    if (!engine || !engine->queues().set_limits("photos", {.quarantine_after = 1})) _exit(1);
    NewJob job = job_of("photos", "resize");
    job.unique = Unique{.key = "the one"};
    const auto made = engine->enqueue(job);
    if (!made) _exit(2);
    const auto held = engine->claim(made->id, {.lease = 1s});
    _exit(held ? 0 : 3);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
}

}  // namespace

TEST_CASE("a job whose worker was lost goes into quarantine and is released by hand") {
  const Folder folder;
  die_with_a_job(folder);  // counts: the engine has restarted since the claim
  EventLog heard;
  auto engine = folder.open();
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message);
  const auto events = engine->events({.types = {EventType::quarantined}}, heard.listener());
  REQUIRE(events.has_value());
  if (engine->queues().get("photos")->quarantined == 0) {
    REQUIRE(heard.await(EventType::quarantined));
  }
  EngineQuarantine quarantine = engine->quarantine();
  const auto jobs = quarantine.list();
  REQUIRE(jobs.has_value());
  REQUIRE(jobs->size() == 1);
  const JobId id = jobs->front().id;
  CHECK(jobs->front().quarantined->lost == 1);
  CHECK(quarantine.list("photos")->size() == 1);
  CHECK(quarantine.list("films")->empty());
  CHECK(engine->why(id)->gate == Gate::quarantine);
  CHECK(*quarantine.release(id) == JobState::available);
  CHECK(quarantine.list()->empty());
  CHECK(code_of(quarantine.release(id)) == ErrorCode::conflict);
  CHECK(code_of(quarantine.release(99)) == ErrorCode::not_found);
  CHECK(field_of(quarantine.list("no name")) == "queue");
}
