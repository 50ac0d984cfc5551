// Pauses of queues, sets of schedules and the next hours as JSON.
#include "api/pause_shapes.h"

#include <doctest/doctest.h>

#include "api/pool_window_shapes.h"
#include "api/schedule_shapes.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

const WallTime kPauseNow = *parse_wall_time("2026-01-31T09:00:00Z");

std::string pause_field(std::string_view body) {
  const auto read = decode_pause_queue("q", body, kPauseNow);
  REQUIRE_FALSE(read);
  return read.error().field;
}

}  // namespace

TEST_CASE("a pause of a queue has a reason and an end, as an instant or a time from now") {
  CHECK(decode_pause_queue("q", "", kPauseNow)->paused);
  CHECK_FALSE(decode_pause_queue("q", "{}", kPauseNow)->until);
  const auto lasting = decode_pause_queue("q", R"({"reason":"r","for":"2h"})", kPauseNow);
  REQUIRE(lasting);
  CHECK(lasting->queue == "q");
  CHECK(lasting->reason == "r");
  CHECK(lasting->until == kPauseNow + 2h);
  const auto until = decode_pause_queue("q", R"({"until":"2026-02-01T00:00:00Z"})", kPauseNow);
  CHECK(until->until == parse_wall_time("2026-02-01T00:00:00Z"));
  std::string text;
  encode_pause_queue(*lasting, text);
  CHECK(decode_pause_queue("q", text, kPauseNow)->until == lasting->until);
}

TEST_CASE("an invalid pause is refused with its field") {
  CHECK(pause_field(R"({"until":"2026-01-31T09:00:00Z"})") == "until");
  CHECK(pause_field(R"({"until":"2020-01-01T00:00:00Z"})") == "until");
  CHECK(pause_field(R"({"until":"2036-01-01T00:00:00Z"})") == "until");
  CHECK(pause_field(R"({"until":"tomorrow"})") == "until");
  CHECK(pause_field(R"({"for":"0s"})") == "for");
  CHECK(pause_field(R"({"for":"1000d"})") == "for");
  CHECK(pause_field(R"({"for":"1h","until":"2026-02-01T00:00:00Z"})") == "for");
  CHECK(pause_field(R"({"reason":")" + std::string(1025, 'r') + R"("})") == "reason");
  CHECK(pause_field(R"({"why":"r"})") == "why");
}

TEST_CASE("the stored text of a pause decodes to what was encoded") {
  CHECK(pause_text(std::nullopt).empty());
  CHECK(*parse_pause("") == std::nullopt);
  const QueuePause pause{"disk is full", "ops", kPauseNow + 1us, kPauseNow + 1h};
  CHECK(*parse_pause(pause_text(pause)) == pause);
  const QueuePause open_end{"", "", kPauseNow, {}};
  CHECK(*parse_pause(pause_text(open_end)) == open_end);
  CHECK_FALSE(parse_pause("{\"at\":1}"));
}

TEST_CASE("a set of schedules is exactly one of names, prefix and all") {
  CHECK(decode_schedule_set(R"({"names":["a","b"]})")->which.names.size() == 2);
  CHECK(decode_schedule_set(R"({"prefix":"night"})")->which.prefix == "night");
  const auto all = decode_schedule_set(R"({"all":true,"reason":"r"})");
  CHECK(all->which.prefix == "");
  CHECK(all->reason == "r");
  for (const std::string_view bad :
       {R"({})", R"({"all":false})", R"({"names":[]})", R"({"names":["a"],"all":true})",
        R"({"names":["a"],"prefix":"b"})", R"({"prefix":"a","all":true})"}) {
    CHECK_MESSAGE(decode_schedule_set(bad).error().field == "names", bad);
  }
  CHECK(decode_schedule_set(R"({"prefix":""})").error().field == "prefix");
  std::string text;
  encode_schedule_set(*all, text);
  CHECK(decode_schedule_set(text)->which.prefix == "");
}

TEST_CASE("the next hours decode to what was encoded") {
  const UpcomingAnswer upcoming{{.from = kPauseNow,
                                 .to = kPauseNow + 24h,
                                 .ticks = {{"nightly", kPauseNow + 1h, "shifted"}},
                                 .truncated = true,
                                 .cut = {"often"},
                                 .due = {{kPauseNow, 12}}},
                                {{"mail", 4, std::nullopt, kPauseNow, kPauseNow + 1h}}};
  std::string text;
  encode_upcoming(upcoming, text);
  const auto read = decode_upcoming_answer(text);
  REQUIRE(read);
  CHECK(read->to == upcoming.to);
  REQUIRE(read->ticks.size() == 1);
  CHECK(read->ticks[0].schedule == "nightly");
  CHECK(read->ticks[0].note == "shifted");
  CHECK(read->truncated);
  CHECK(read->cut == upcoming.cut);
  CHECK(read->due == upcoming.due);
  REQUIRE(read->windows.size() == 1);
  CHECK(read->windows[0].pool == "mail");
  CHECK(read->windows[0].min == 4);
  CHECK_FALSE(read->windows[0].max);
  CHECK(read->windows[0].to == kPauseNow + 1h);
}
