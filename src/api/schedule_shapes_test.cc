// The shapes of schedules: literal bodies in and out, every refusal with its field, round trips.
#include "api/schedule_shapes.h"

#include <doctest/doctest.h>

#include "api/json.h"
#include "api/shapes.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

template <class T>
std::string field_of(const Result<T>& result) {
  return result ? "accepted" : result.error().field;
}

Schedule full_schedule() {
  Schedule schedule;
  schedule.name = "nightly/eu";
  schedule.cron = "0 30 2 * * *";
  schedule.time_zone = "Europe/Berlin";
  schedule.job = {.queue = "reports",
                  .kind = "report",
                  .args = R"({"region": "eu"})",
                  .priority = 2,
                  .tags = {"a"},
                  .headers = R"({"x":"y"})"};
  schedule.misfire = Misfire::all;
  schedule.misfire_window = 1h;
  schedule.misfire_cap = 7;
  schedule.overlap = Overlap::buffer_one;
  schedule.jitter = 30s;
  schedule.start_at = *parse_wall_time("2026-01-01T00:00:00Z");
  schedule.end_at = *parse_wall_time("2027-01-01T00:00:00Z");
  schedule.max_runs = 3;
  schedule.pause_on_failure = true;
  schedule.continuous = Continuous{.timeout = 10min, .margin = 30s, .handoff = 0s};
  return schedule;
}

}  // namespace

TEST_CASE("a schedule is defined as DESIGN says") {
  auto schedule = decode_schedule(
      R"({"cron":"0 30 2 * * *","time_zone":"Europe/Berlin","job":{"queue":"reports",
          "kind":"report","args":{"region": "eu"},"priority":2,"tags":["a"],"headers":{"x":"y"}},
          "misfire":"all","misfire_window":"1h","misfire_cap":7,"overlap":"buffer_one",
          "jitter":"30s","start_at":"2026-01-01T00:00:00Z","end_at":"2027-01-01T00:00:00Z",
          "max_runs":3,"pause_on_failure":true,
          "continuous":{"timeout":"10m","margin":"30s","handoff":"0s"}})");
  REQUIRE_MESSAGE(schedule, schedule.error().message);
  schedule->name = "nightly/eu";
  CHECK(*schedule == full_schedule());
}

TEST_CASE("what is left out of a schedule has its default") {
  auto least = decode_schedule(R"({"every":"5m","job":{"kind":"k"},"cron":null,"at":null,
                                   "start_at":null,"end_at":null,"continuous":null})");
  REQUIRE_MESSAGE(least, least.error().message);
  Schedule expected;
  expected.every = 5min;
  expected.job.kind = "k";
  CHECK(*least == expected);
}

TEST_CASE("a definition is read back as it was written, byte for byte") {
  Schedule once;
  once.name = "once";
  once.at = *parse_wall_time("2026-06-01T12:00:00.5Z");
  once.job = {.kind = "k", .args = "[1, 2]"};
  for (const Schedule& schedule : {full_schedule(), once}) {
    std::string out;
    encode_schedule(schedule, out);
    CAPTURE(out);
    auto back = decode_schedule(out);
    REQUIRE(back);
    CHECK(*back == schedule);
    std::string again;
    encode_schedule(*back, again);
    CHECK(again == out);
  }
}

TEST_CASE("what has a bad form in a schedule is refused with its field") {
  const auto field = [](std::string_view member) {
    return field_of(
        decode_schedule(R"({"every":"5m","job":{"kind":"k"},)" + std::string(member) + "}"));
  };
  CHECK(field(R"("colour":1)") == "colour");
  CHECK(field(R"("every":"1m")") == "every");
  CHECK(field(R"("cron":5)") == "cron");
  CHECK(field(R"("misfire":"twice")") == "misfire");
  CHECK(field(R"("overlap":"never")") == "overlap");
  CHECK(field(R"("misfire_cap":0)") == "misfire_cap");
  CHECK(field(R"("misfire_cap":1001)") == "misfire_cap");
  CHECK(field(R"("max_runs":-1)") == "max_runs");
  CHECK(field(R"("at":"tomorrow")") == "at");
  CHECK(field(R"("jitter":"a bit")") == "jitter");
  CHECK(field(R"("continuous":{"timeout":"x"})") == "continuous.timeout");
  CHECK(field(R"("continuous":{"slots":3})") == "continuous.slots");
  CHECK(field_of(decode_schedule(R"({"job":{"queue":"q"}})")) == "job.kind");
  CHECK(field_of(decode_schedule(R"({"job":{"kind":"k","priority":12}})")) == "job.priority");
  CHECK(field_of(decode_schedule(R"({"job":{"kind":"k","fence":{}}})")) == "job.fence");
}
