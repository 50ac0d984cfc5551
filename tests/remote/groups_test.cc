// The groups of an engine against a server: the same calls, over real sockets.
#include <doctest/doctest.h>

#include "engine/engine_rig.h"
#include "server.h"

using namespace mainspring;
using namespace mainspring::test;

namespace {

struct GroupsRig {
  Server server;
  std::optional<Engine> engine;
  GroupsRig() {
    EngineOptions options = server.engine_options();
    options.log = [](std::string_view, std::string_view) {};
    auto opened = Engine::open(server.url(), std::move(options));
    REQUIRE_MESSAGE(opened.has_value(), opened.error().message);
    engine.emplace(std::move(*opened));
  }
  JobId add(std::string queue, std::string kind) {
    const auto made = engine->enqueue(job_of(std::move(queue), std::move(kind)));
    REQUIRE_MESSAGE(made.has_value(), made.error().message);
    return made->id;
  }
  void end(JobId id, Outcome outcome) {
    auto held = engine->claim(id);
    REQUIRE_MESSAGE(held.has_value(), held.error().message);
    REQUIRE(held->finish(std::move(outcome)).has_value());
  }
};

}  // namespace

TEST_CASE("a remote engine limits, pauses and asks why, with the same errors") {
  GroupsRig rig;
  EngineQueues queues = rig.engine->queues();
  CHECK(code_of(queues.get("mails")) == ErrorCode::not_found);
  REQUIRE(queues.set_limits("mails", {.concurrency = 5}).has_value());
  REQUIRE(queues.pause("mails").has_value());
  CHECK(queues.get("mails")->limits.concurrency == 5);
  const JobId id = rig.add("mails", "send");
  CHECK(rig.engine->why(id)->gate == Gate::queue_paused);
  CHECK(code_of(rig.engine->claim(id)) == ErrorCode::conflict);
  CHECK(field_of(queues.set_limits("mails", {.concurrency = 0})) == "concurrency");
  CHECK(code_of(rig.engine->why(99)) == ErrorCode::not_found);
  CHECK(rig.engine->quarantine().list()->empty());
  CHECK(rig.engine->breakers().list()->empty());
  CHECK(rig.engine->triggers().list()->empty());
  CHECK(rig.engine->workflows().list()->workflows.empty());
  CHECK(rig.engine->sessions().list("mails")->sessions.empty());
  CHECK(rig.engine->schedules().list()->empty());
}

TEST_CASE("a remote engine groups and redrives the dead") {
  GroupsRig rig;
  const JobId first = rig.add("photos", "resize");
  rig.end(first, Dead{"broken", "disk 7 is full"});
  const JobId other = rig.add("photos", "resize");
  rig.end(other, Dead{"broken", "disk 8 is full"});
  rig.end(rig.add("photos", "cut"), Dead{"broken", "no knife"});
  EngineDead dead = rig.engine->dead();
  const auto groups = dead.groups({.queue = "photos"});
  REQUIRE_MESSAGE(groups.has_value(), groups.error().message);
  REQUIRE(groups->groups.size() == 2);
  CHECK(groups->groups[0].count == 2);
  CHECK(groups->groups[0].first == first);
  CHECK(groups->groups[0].last == other);
  CHECK(groups->groups[0].message == "disk 8 is full");
  CHECK(groups->groups[0].last_at >= groups->groups[0].first_at);
  CHECK(dead.groups({}, groups->groups[0].first_at)->jobs > 0);
  CHECK(dead.groups({.tag = "none"}, groups->groups[0].first_at)->groups.empty());
  CHECK(dead.groups({}, groups->groups[0].last_at + 24h)->groups.empty());
  const auto again = dead.redrive({.fingerprint = groups->groups[0].fingerprint});
  REQUIRE_MESSAGE(again.has_value(), again.error().message);
  CHECK(again->ids == std::vector<JobId>{first, other});
  CHECK(dead.redrive({.queue = "photos"})->redriven == 1);
  CHECK(dead.groups()->groups.empty());
  CHECK(field_of(dead.start_redrive({}, {.rate = "fast"})) == "rate");
  rig.end(first, Dead{"broken", "disk 7 is full"});  // the canary, whose end the redrive waits for
  const auto started = dead.start_redrive({.queue = "photos"}, {.rate = "20/s", .canary = true});
  REQUIRE_MESSAGE(started.has_value(), started.error().message);
  CHECK_FALSE(started->duplicate);
  CHECK(rig.engine->get(started->job)->args == R"({"queue":"photos","rate":"20/s","canary":true})");
  CHECK(dead.start_redrive({.queue = "photos"})->duplicate);
}

TEST_CASE("a remote engine follows events, and learns of a gap when the server comes back") {
  GroupsRig rig;
  EventLog heard;
  auto events = rig.engine->events({.queues = {"photos"}}, heard.listener());
  REQUIRE_MESSAGE(events.has_value(), events.error().message);
  rig.add("films", "cut");
  const JobId id = rig.add("photos", "resize");
  REQUIRE(heard.await(EventType::enqueued, id));
  rig.end(id, Complete{});
  REQUIRE(heard.await(EventType::completed, id));
  CHECK(heard.events().front().kind == "resize");
  rig.server.stop();
  rig.server.start();
  REQUIRE(heard.await(EventType::gap));
  const JobId later = rig.add("photos", "resize");
  CHECK(heard.await(EventType::enqueued, later));
  events->stop();
  CHECK_FALSE(events->error().has_value());
}
