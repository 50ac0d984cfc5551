// Events of an engine, passed to a callback as they happen.
#include <doctest/doctest.h>

#include <latch>

#include "engine/engine_rig.h"

using namespace mainspring;
using namespace mainspring::test;

TEST_CASE("a follower receives the events that match, in order, until it stops") {
  const Folder folder;
  auto engine = folder.open();
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message);
  EventLog heard;
  auto events = engine->events({.queues = {"photos"}}, heard.listener());
  REQUIRE_MESSAGE(events.has_value(), events.error().message);
  (void)engine->enqueue(job_of("films", "cut"));
  NewJob job = job_of("photos", "resize");
  job.tags = {"night"};
  const JobId id = engine->enqueue(job)->id;
  {
    auto held = engine->claim(id);
    REQUIRE_MESSAGE(held.has_value(), held.error().message);
    REQUIRE(held->finish(Dead{"broken", "no disk"}).has_value());
  }
  REQUIRE(engine->queues().pause("photos").has_value());
  REQUIRE(heard.await(EventType::queue_paused));
  const auto told = heard.events();
  std::vector<EventType> types;
  for (const EngineEvent& event : told) types.push_back(event.type);
  CHECK(types == std::vector<EventType>{EventType::enqueued, EventType::started, EventType::dead,
                                        EventType::queue_paused});
  REQUIRE(told.size() == 4);
  CHECK(told[0].job == id);
  CHECK(told[0].queue == "photos");
  CHECK(told[0].kind == "resize");
  CHECK(told[0].tags == std::vector<std::string>{"night"});
  CHECK(told[2].attempt == 1);
  CHECK(told[2].reason == "broken");
  CHECK(told[3].job == 0);
  CHECK(told[3].queue == "photos");
  CHECK_FALSE(events->error().has_value());
  events->stop();
  events->stop();
  REQUIRE(engine->queues().resume("photos").has_value());
  CHECK(heard.events().size() == 4);
}

TEST_CASE("filters of events are combined, and invalid ones are refused by field") {
  const Folder folder;
  auto engine = folder.open();
  EventLog breakers, tagged;
  const auto ignore = [](const EngineEvent&) {};
  const auto first = engine->events({.types = {EventType::breaker_opened}}, breakers.listener());
  const auto second = engine->events({.kinds = {"cut"}, .tags = {"night"}}, tagged.listener());
  REQUIRE(engine->breakers().put("geocoder").has_value());
  REQUIRE(engine->breakers().open("geocoder", 1h).has_value());
  REQUIRE(breakers.await(EventType::breaker_opened));
  CHECK(breakers.events().at(0).breaker == "geocoder");
  CHECK(breakers.events().at(0).until == engine->breakers().get("geocoder")->open_until);
  NewJob job = job_of("films", "cut");
  (void)engine->enqueue(job);
  job.tags = {"day", "night"};
  const JobId wanted = engine->enqueue(job)->id;
  REQUIRE(tagged.await(EventType::enqueued, wanted));
  CHECK(tagged.events().size() == 1);

  CHECK(field_of(engine->events({.queues = {"no name"}}, ignore)) == "queue");
  CHECK(field_of(engine->events({.jobs = {0}}, ignore)) == "job");
  CHECK(field_of(engine->events({.tags = std::vector<std::string>(101, "t")}, ignore)) == "tag");
}

TEST_CASE("a slow follower delays nothing and learns that events are missing") {
  const Folder folder;
  auto engine = folder.open();
  EventLog heard;
  std::latch first(1), go_on(1);
  const auto listen = heard.listener();
  const auto events = engine->events({}, [&](const EngineEvent& event) {
    if (event.job == 1) {
      first.count_down();
      go_on.wait();
    }
    listen(event);
  });
  REQUIRE(engine->enqueue(job_of("q", "k")).has_value());
  first.wait();
  // More than are kept for late followers.
  for (int i = 0; i < 2; ++i) {
    REQUIRE(engine->enqueue_many(std::vector<NewJob>(kMaxEnqueueJobs, job_of("q", "k"))));
  }
  const JobId last = engine->enqueue(job_of("q", "k"))->id;
  go_on.count_down();
  REQUIRE(heard.await(EventType::enqueued, last));
  const auto told = heard.events();
  CHECK(told.at(0).job == 1);
  CHECK(told.at(1).type == EventType::gap);
  CHECK(told.at(1).job == 0);
  CHECK(told.at(1).reason == "forgotten");
  CHECK(told.at(2).type == EventType::enqueued);
  CHECK(told.size() < 2 * kMaxEnqueueJobs);
}
