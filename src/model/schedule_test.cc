// Times of ticks: zones, clock changes, limits; and refused schedules.
#include "model/schedule.h"

#include <doctest/doctest.h>

#include <vector>

#include "model/ticks.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

WallTime schedule_at(const std::string& text) {
  return *parse_wall_time(text);
}
Schedule schedule(const std::string& cron, const std::string& zone = "UTC") {
  Schedule out;
  out.name = "nightly";
  out.cron = cron;
  out.time_zone = zone;
  out.job.kind = "report";
  return out;
}
Schedule every(Duration length) {
  Schedule out = schedule("");
  out.every = length;
  return out;
}
// "time[ note], time[ note]"
std::string shown(const Schedule& definition, const std::string& from, int count) {
  std::string out;
  for (const PreviewTick& tick : preview(definition, schedule_at(from), count)) {
    out += (out.empty() ? "" : ", ") + format_wall_time(tick.nominal);
    if (!tick.note.empty()) out += " [" + tick.note + "]";
  }
  return out;
}
void refused(const Schedule& definition, const std::string& field, const std::string& rule) {
  const Result<void> checked = validate(definition);
  INFO(field, " ", rule);
  REQUIRE_FALSE(checked);
  CHECK(checked.error().field == field);
  CHECK_MESSAGE(checked.error().message.find(rule) != std::string::npos, checked.error().message);
}

TEST_CASE("a fixed time that does not exist runs once, right after the gap") {
  CHECK(shown(schedule("30 2 * * *", "Europe/Berlin"), "2026-03-28T00:00:00Z", 3) ==
        "2026-03-28T01:30:00Z, 2026-03-29T01:00:00Z [shifted: 02:30 does not exist], "
        "2026-03-30T00:30:00Z");
}

TEST_CASE("several fixed times in one gap become one tick") {
  CHECK(shown(schedule("*/15 2 * * *", "Europe/Berlin"), "2026-03-28T01:40:00Z", 3) ==
        "2026-03-28T01:45:00Z, 2026-03-29T01:00:00Z [shifted: 02:00 to 02:45 do not exist], "
        "2026-03-30T00:00:00Z");
  // Also with the time at the end of the gap itself.
  CHECK(shown(schedule("30 2-3 * * *", "Europe/Berlin"), "2026-03-28T02:30:00Z", 2) ==
        "2026-03-29T01:00:00Z [shifted: 02:30 does not exist], 2026-03-29T01:30:00Z");
  CHECK(shown(schedule("0,30 2-3 * * *", "Europe/Berlin"), "2026-03-28T02:30:00Z", 2) ==
        "2026-03-29T01:00:00Z [merged: 02:00 to 02:30 do not exist], 2026-03-29T01:30:00Z");
}

TEST_CASE("a fixed time that exists twice runs the first time only") {
  CHECK(shown(schedule("30 2 * * *", "Europe/Berlin"), "2026-10-24T12:00:00Z", 2) ==
        "2026-10-25T00:30:00Z [02:30 exists twice: the first time], 2026-10-26T01:30:00Z");
  CHECK(shown(schedule("0,30 1-3 * * *", "Europe/Berlin"), "2026-10-25T00:29:00Z", 2) ==
        "2026-10-25T00:30:00Z [02:30 exists twice: the first time], 2026-10-25T02:00:00Z");
  // Computed in the second of the two hours.
  CHECK(shown(schedule("30 2 * * *", "Europe/Berlin"), "2026-10-25T01:10:00Z", 1) ==
        "2026-10-26T01:30:00Z");
}

TEST_CASE("with repeated_hour twice a fixed time that exists twice runs both times") {
  Schedule definition = schedule("30 2 * * *", "Europe/Berlin");
  definition.repeated_hour = RepeatedHour::twice;
  CHECK(shown(definition, "2026-10-24T12:00:00Z", 3) ==
        "2026-10-25T00:30:00Z [02:30 exists twice: the first time], "
        "2026-10-25T01:30:00Z [02:30 exists twice: the second time], 2026-10-26T01:30:00Z");
  CHECK(shown(definition, "2026-10-25T00:45:00Z", 1) ==
        "2026-10-25T01:30:00Z [02:30 exists twice: the second time]");
  // The rule for a time that does not exist stays.
  CHECK(shown(definition, "2026-03-28T12:00:00Z", 2) ==
        "2026-03-29T01:00:00Z [shifted: 02:30 does not exist], 2026-03-30T00:30:00Z");
  definition.cron = "*/30 1-2 * * *";
  const Ticks ticks(definition);
  std::vector<WallTime> forwards, backwards;
  const WallTime end = schedule_at("2026-10-26T12:00:00Z");
  for (auto t = ticks.next_after(schedule_at("2026-10-24T12:00:00Z")); *t < end;
       t = ticks.next_after(*t)) {
    forwards.insert(forwards.begin(), *t);
  }
  for (auto t = ticks.last_until(end); *t > schedule_at("2026-10-24T12:00:00Z");
       t = ticks.last_until(*t - Duration(1))) {
    backwards.push_back(*t);
  }
  CHECK(forwards.size() == 10);
  CHECK(forwards == backwards);
}

TEST_CASE("if the hour field starts with *, every real hour runs and none is moved") {
  CHECK(shown(schedule("30 * * * *", "Europe/Berlin"), "2026-03-29T00:00:00Z", 2) ==
        "2026-03-29T00:30:00Z, 2026-03-29T01:30:00Z");
  CHECK(shown(schedule("30 * * * *", "Europe/Berlin"), "2026-10-25T00:00:00Z", 3) ==
        "2026-10-25T00:30:00Z, 2026-10-25T01:30:00Z, 2026-10-25T02:30:00Z");
  // Half an hour: 1:45 comes twice there.
  CHECK(shown(schedule("45 * * * *", "Australia/Lord_Howe"), "2026-04-04T14:00:00Z", 3) ==
        "2026-04-04T14:45:00Z, 2026-04-04T15:15:00Z, 2026-04-04T16:15:00Z");
  // The first instant after a gap, and after a repeat.
  CHECK(shown(schedule("0 * * * *", "Europe/Berlin"), "2026-03-29T00:00:00Z", 1) ==
        "2026-03-29T01:00:00Z");
  CHECK(shown(schedule("0 * * * *", "Europe/Berlin"), "2026-10-25T00:00:00Z", 2) ==
        "2026-10-25T01:00:00Z, 2026-10-25T02:00:00Z");
}

TEST_CASE("a tick on a day that does not exist runs at the start of the next day") {
  CHECK(shown(schedule("0 9 * * *", "Pacific/Apia"), "2011-12-29T12:00:00Z", 3) ==
        "2011-12-29T19:00:00Z, 2011-12-30T10:00:00Z [shifted: 2011-12-30 09:00 does not exist], "
        "2011-12-30T19:00:00Z");
}

TEST_CASE("the first and the last hours of the years 1970 to 9999 have their ticks in every zone") {
  CHECK(shown(schedule("0 * * * *", "America/New_York"), "1970-01-01T00:00:00Z", 2) ==
        "1970-01-01T01:00:00Z, 1970-01-01T02:00:00Z");
  CHECK(shown(schedule("0 20 * * *", "America/New_York"), "1970-01-01T00:00:00Z", 2) ==
        "1970-01-01T01:00:00Z, 1970-01-02T01:00:00Z");
  CHECK(shown(schedule("0 * * * *", "Asia/Tokyo"), "9999-12-31T22:00:00Z", 2) ==
        "9999-12-31T23:00:00Z");
  CHECK(shown(schedule("30 8 * * *", "Asia/Tokyo"), "9999-12-31T00:00:00Z", 2) ==
        "9999-12-31T23:30:00Z");
  // A time before 1970 is none.
  CHECK(shown(schedule("0 18 31 12 *", "America/New_York"), "1970-01-01T00:00:00Z", 1) ==
        "1970-12-31T23:00:00Z");
}

TEST_CASE("`every` runs at multiples since 1970 or since start_at, whatever the zone") {
  Schedule definition = every(90min);
  definition.time_zone = "Europe/Berlin";
  CHECK(shown(definition, "2026-03-28T23:00:00Z", 3) ==
        "2026-03-29T00:00:00Z, 2026-03-29T01:30:00Z, 2026-03-29T03:00:00Z");
  definition.start_at = schedule_at("2026-03-29T00:10:00Z");
  CHECK(shown(definition, "2026-03-28T00:00:00Z", 2) ==
        "2026-03-29T00:10:00Z, 2026-03-29T01:40:00Z");
}

TEST_CASE("`every` may be less than a second") {
  CHECK(shown(every(250ms), "2026-01-01T00:00:00.3Z", 3) ==
        "2026-01-01T00:00:00.500Z, 2026-01-01T00:00:00.750Z, 2026-01-01T00:00:01Z");
}

TEST_CASE("`at` is one tick; a new definition has it even if it has passed") {
  Schedule definition = schedule("");
  definition.at = schedule_at("2026-01-01T12:00:00Z");
  CHECK(shown(definition, "2026-01-01T00:00:00Z", 5) == "2026-01-01T12:00:00Z");
  CHECK(next_tick(definition, *definition.at).nominal == WallTime::never());
  CHECK(first_tick(definition, schedule_at("2027-01-01T00:00:00Z")).nominal == *definition.at);
}

TEST_CASE("no tick before start_at, none at or after end_at") {
  Schedule definition = schedule("0 * * * *");
  definition.start_at = schedule_at("2026-01-01T02:00:00Z");
  definition.end_at = schedule_at("2026-01-01T04:00:00Z");
  CHECK(shown(definition, "2020-01-01T00:00:00Z", 9) ==
        "2026-01-01T02:00:00Z, 2026-01-01T03:00:00Z");
  CHECK(first_tick(definition, schedule_at("2026-01-01T03:00:00Z")).nominal == WallTime::never());
}

TEST_CASE("jitter is one fixed part per name, within its bound") {
  Schedule definition = schedule("0 * * * *");
  CHECK(jitter_of(definition) == Duration(0));
  definition.jitter = 10min;
  const Duration part = jitter_of(definition);
  CHECK(part <= 10min);
  CHECK(jitter_of(definition) == part);
  Duration least = 10min, most = 0min;
  for (int i = 0; i < 100; ++i) {
    definition.name = "s" + std::to_string(i);
    least = std::min(least, jitter_of(definition));
    most = std::max(most, jitter_of(definition));
  }
  CHECK(least < 1min);
  CHECK(most > 9min);
  const NextTick next = next_tick(definition, schedule_at("2026-01-01T00:00:00Z"));
  CHECK(next.fires_at - next.nominal == jitter_of(definition));
}

TEST_CASE("the ticks of a range start at its start, end before its end, and can be continued") {
  const Schedule definition = schedule("0 * * * *");
  TickRange range = ticks_between(definition, schedule_at("2026-01-01T00:00:00Z"),
                                  schedule_at("2026-01-01T03:00:00Z"), 2);
  REQUIRE(range.ticks.size() == 2);
  CHECK(range.ticks[0].nominal == schedule_at("2026-01-01T00:00:00Z"));
  CHECK(range.ticks[0].fire);
  REQUIRE(range.next);
  range = ticks_between(definition, *range.next, schedule_at("2026-01-01T03:00:00Z"), 2);
  REQUIRE(range.ticks.size() == 1);
  CHECK(range.ticks[0].nominal == schedule_at("2026-01-01T02:00:00Z"));
  CHECK_FALSE(range.next);
}

TEST_CASE("a bad schedule is refused with the field and the rule") {
  CHECK(validate(schedule("0 * * * *", "Europe/Berlin")));
  CHECK(validate(every(100ms)));
  Schedule bad = schedule("");
  refused(bad, "cron", "cron, every, at: 0 are given: must be exactly one");
  bad = every(1min);
  bad.at = schedule_at("2026-01-01T00:00:00Z");
  refused(bad, "cron", "2 are given");
  refused(every(99ms), "every", "must be 100ms to");
  refused(every(-1s), "every", "must be 100ms to");
  refused(every(kForever), "every", "must be 100ms to");
  refused(schedule("60 * * * *"), "cron", "0 to 59");
  refused(schedule("0 * * * *", "Mars/Olympus"), "time_zone", "IANA");
  const auto with = [](auto change) {
    Schedule out = schedule("0 * * * *");
    change(out);
    return out;
  };
  refused(with([](Schedule& s) { s.name = "-"; }), "name", "must be");
  refused(with([](Schedule& s) { s.job.kind = ""; }), "job.kind", "must be");
  refused(with([](Schedule& s) { s.job.run_at = WallTime::from_us(1); }), "job.run_at", "must not");
  refused(with([](Schedule& s) { s.job.delay = 1s; }), "job.delay", "must not");
  refused(with([](Schedule& s) { s.job.unique = Unique{.key = "k"}; }), "job.unique", "overlap");
  refused(with([](Schedule& s) { s.misfire_cap = 0; }), "misfire_cap", "1 to 1000");
  refused(with([](Schedule& s) { s.misfire_cap = 1001; }), "misfire_cap", "1 to 1000");
  refused(with([](Schedule& s) { s.misfire_window = 0s; }), "misfire_window", "more than 0");
  refused(with([](Schedule& s) { s.jitter = 25h; }), "jitter", "0s to");
  refused(with([](Schedule& s) { s.jitter = -1s; }), "jitter", "0s to");
  refused(with([](Schedule& s) { s.max_runs = -1; }), "max_runs", "negative");
  refused(with([](Schedule& s) {
            s.start_at = schedule_at("2026-01-02T00:00:00Z");
            s.end_at = schedule_at("2026-01-02T00:00:00Z");
          }),
          "end_at", "after start_at");
  refused(with([](Schedule& s) {
            s.continuous = Continuous{.timeout = 90s, .margin = 60s, .handoff = 30s};
          }),
          "continuous.timeout", "more than margin and handoff together, which are");
  refused(with([](Schedule& s) { s.continuous = Continuous{.margin = -1s}; }), "continuous.margin",
          "negative");
  refused(with([](Schedule& s) { s.continuous = Continuous{.handoff = -1s}; }),
          "continuous.handoff", "negative");
  refused(with([](Schedule& s) {
            s.continuous = Continuous{};
            s.overlap = Overlap::allow;
          }),
          "overlap", "must be skip");
  refused(with([](Schedule& s) {
            s.cron = "";
            s.at = schedule_at("2026-01-02T00:00:00Z");
            s.continuous = Continuous{};
          }),
          "continuous", "fallback");
}

TEST_CASE("the headers of a tick's job have the schedule, its time and whether it is late") {
  Schedule definition = schedule("0 * * * *");
  CHECK(tick_headers(definition, schedule_at("2026-01-01T00:00:00Z"), false) ==
        R"({"mainspring-schedule":"nightly","mainspring-nominal":"2026-01-01T00:00:00Z"})");
  definition.job.headers = R"({"a":"b"})";
  CHECK(tick_headers(definition, schedule_at("2026-01-01T00:00:00Z"), true) ==
        R"({"mainspring-schedule":"nightly","mainspring-nominal":"2026-01-01T00:00:00Z",)"
        R"("mainspring-past-due":"true","a":"b"})");
}

}  // namespace
