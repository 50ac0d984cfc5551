// A client decodes the events and groups of dead jobs that a server encodes.
#include "api/event_shapes.h"

#include <doctest/doctest.h>

#include "api/dead_shapes.h"

using namespace mainspring;

TEST_CASE("an event decodes with all its fields") {
  const auto event = decode_event(
      R"({"id":"a1-7","type":"dead","at":"2026-01-31T09:00:00Z","job":42,"queue":"photos",)"
      R"("kind":"resize","tags":["night"],"attempt":3,"reason":"broken",)"
      R"("progress":{"value":0.5,"text":null},"of_tomorrow":[1]})");
  REQUIRE_MESSAGE(event.has_value(), event.error().message);
  REQUIRE(event->has_value());
  const EngineEvent& dead = **event;
  CHECK(dead.type == EventType::dead);
  CHECK(format_wall_time(dead.at) == "2026-01-31T09:00:00Z");
  CHECK(dead.job == 42);
  CHECK(dead.queue == "photos");
  CHECK(dead.kind == "resize");
  CHECK(dead.tags == std::vector<std::string>{"night"});
  CHECK(dead.attempt == 3);
  CHECK(dead.reason == "broken");
  CHECK(dead.progress == Progress{0.5, ""});
}

TEST_CASE("events decode without a job, and with a job that no longer exists") {
  const auto opened =
      decode_event(R"({"type":"breaker_opened","at":"2026-01-31T09:00:00Z","breaker":"geocoder",)"
                   R"("until":"2026-01-31T10:00:00Z"})");
  REQUIRE(opened->has_value());
  CHECK((*opened)->breaker == "geocoder");
  CHECK(format_wall_time(*(*opened)->until) == "2026-01-31T10:00:00Z");
  const auto changed =
      decode_event(R"({"type":"changed","at":"2026-01-31T09:00:00Z","object":"schedule/nightly"})");
  REQUIRE(changed->has_value());
  CHECK((*changed)->object == "schedule/nightly");
  const auto gone = decode_event(
      R"({"type":"completed","at":"2026-01-31T09:00:00Z","job":1,"queue":null,"kind":null})");
  REQUIRE(gone->has_value());
  CHECK((*gone)->queue.empty());
}

TEST_CASE("an event type of a newer server is ignored, an invalid event is an error") {
  const auto newer = decode_event(R"({"type":"teleported","at":"2026-01-31T09:00:00Z"})");
  REQUIRE(newer.has_value());
  CHECK_FALSE(newer->has_value());
  CHECK(decode_event("{}x").error().code == ErrorCode::internal);
  CHECK(decode_event(R"({"type":"dead","at":"yesterday"})").error().code == ErrorCode::internal);
}

TEST_CASE("groups of dead jobs decode to what was encoded") {
  DeadGroups groups{.groups = {}, .jobs = 7, .cut = true};
  groups.groups.push_back({.fingerprint = "0123456789abcdef",
                           .kind = "resize",
                           .reason = "broken",
                           .count = 4,
                           .first = 1,
                           .last = 9,
                           .first_at = WallTime::from_ms(1000),
                           .last_at = WallTime::from_ms(2000),
                           .message = "no \"disk\""});
  groups.groups.push_back(groups.groups.front());
  groups.groups.back().message.clear();
  groups.groups.back().masked = true;
  std::string body;
  encode_dead_groups(groups, body);
  CHECK(body.find(R"("message":null,"masked":true)") != std::string::npos);
  const auto read = decode_dead_groups(body);
  REQUIRE_MESSAGE(read.has_value(), read.error().message);
  CHECK(read->jobs == 7);
  CHECK(read->cut);
  REQUIRE(read->groups.size() == 2);
  CHECK(read->groups[0].message == "no \"disk\"");
  CHECK(read->groups[0].last_at == WallTime::from_ms(2000));
  CHECK(read->groups[1].masked);
  std::string again;
  encode_dead_groups(*read, again);
  CHECK(again == body);
}
