// Due ticks: none lost, none duplicated, none visited one by one.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <rapidcheck.h>

#include <algorithm>
#include <vector>

#include "model/schedule.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

WallTime at(const std::string& text) {
  return *parse_wall_time(text);
}
// A schedule whose last tick was decided at `since`.
ScheduleInfo info_of(const std::string& cron, WallTime since) {
  ScheduleInfo info;
  info.schedule.name = "nightly";
  info.schedule.cron = cron;
  info.schedule.job.kind = "report";
  info.next = next_tick(info.schedule, since).nominal;
  info.next_fire = info.next;
  return info;
}
// One line per row: "HH:MM:SS[-HH:MM:SS xN] fire|late|reason".
std::string rows(const FiringPlan& plan) {
  std::string out;
  for (const Tick& tick : plan.ticks) {
    out += format_wall_time(tick.nominal).substr(11, 8);
    if (tick.until) {
      out += fmt::format("-{} x{}", format_wall_time(*tick.until).substr(11, 8), tick.count);
    }
    out += tick.fire ? (tick.past_due ? " late\n" : " fire\n") : " " + tick.reason + "\n";
  }
  return out;
}

TEST_CASE("a tick in time fires, and the next one follows") {
  const ScheduleInfo info = info_of("*/10 * * * *", at("2026-01-01T00:00:00Z"));
  const FiringPlan plan = plan_firing(info, at("2026-01-01T00:10:00.5Z"));
  CHECK(rows(plan) == "00:10:00 fire\n");
  CHECK(plan.next.nominal == at("2026-01-01T00:20:00Z"));
  CHECK(rows(plan_firing(info, at("2026-01-01T00:11:00Z"))) == "00:10:00 fire\n");  // the grace
  CHECK(rows(plan_firing(info, at("2026-01-01T00:11:00.000001Z"))) == "00:10:00 late\n");
}

TEST_CASE("nothing happens before a tick's time, or when the wall clock was set back") {
  const ScheduleInfo info = info_of("*/10 * * * *", at("2026-01-01T00:00:00Z"));
  const FiringPlan plan = plan_firing(info, at("2025-12-31T00:00:00Z"));
  CHECK(plan.ticks.empty());
  CHECK(plan.next.nominal == info.next);
  CHECK(plan.next.fires_at == info.next_fire);
}

TEST_CASE("missed ticks, policy once: the last of them fires for all") {
  const ScheduleInfo info = info_of("*/10 * * * *", at("2026-01-01T00:00:00Z"));
  CHECK(rows(plan_firing(info, at("2026-01-01T01:05:00Z"))) ==
        "00:10:00-00:50:00 x5 missed: folded into 2026-01-01T01:00:00Z\n01:00:00 late\n");
  // A tick that is in time fires too.
  CHECK(rows(plan_firing(info, at("2026-01-01T00:20:10Z"))) == "00:10:00 late\n00:20:00 fire\n");
}

TEST_CASE("missed ticks, policy skip: none fires") {
  ScheduleInfo info = info_of("*/10 * * * *", at("2026-01-01T00:00:00Z"));
  info.schedule.misfire = Misfire::skip;
  CHECK(rows(plan_firing(info, at("2026-01-01T00:30:10Z"))) ==
        "00:10:00-00:20:00 x2 missed: policy skip\n00:30:00 fire\n");
}

TEST_CASE("missed ticks, policy all: each fires, up to the last misfire_cap ticks") {
  ScheduleInfo info = info_of("*/10 * * * *", at("2026-01-01T00:00:00Z"));
  info.schedule.misfire = Misfire::all;
  info.schedule.misfire_cap = 2;
  CHECK(rows(plan_firing(info, at("2026-01-01T00:45:00Z"))) ==
        "00:10:00-00:20:00 x2 missed: over the cap of 2\n00:30:00 late\n00:40:00 late\n");
  info.schedule.misfire_cap = 4;
  CHECK(rows(plan_firing(info, at("2026-01-01T00:45:00Z"))) ==
        "00:10:00 late\n00:20:00 late\n00:30:00 late\n00:40:00 late\n");
}

TEST_CASE("a tick later than the window never fires, by any policy") {
  ScheduleInfo info = info_of("*/10 * * * *", at("2026-01-01T00:00:00Z"));
  info.schedule.misfire_window = 20min;
  CHECK(rows(plan_firing(info, at("2026-01-01T00:45:00Z"))) ==
        "00:10:00-00:20:00 x2 missed: later than 20m\n"
        "00:30:00 missed: folded into 2026-01-01T00:40:00Z\n00:40:00 late\n");
  info.schedule.misfire = Misfire::all;
  CHECK(rows(plan_firing(info, at("2026-01-01T00:45:00Z"))) ==
        "00:10:00-00:20:00 x2 missed: later than 20m\n00:30:00 late\n00:40:00 late\n");
  CHECK(rows(plan_firing(info, at("2026-01-01T01:01:10Z"))).find("00:40:00 missed") ==
        std::string::npos);
  info.schedule.cron = "0 0 * * *";
  info.next = info.next_fire = at("2026-01-02T00:00:00Z");
  CHECK(rows(plan_firing(info, at("2026-01-02T12:00:00Z"))) == "00:00:00 missed: later than 20m\n");
}

TEST_CASE("ticks that passed while it was paused get one row, then the policy holds") {
  ScheduleInfo info = info_of("*/10 * * * *", at("2026-01-01T00:00:00Z"));
  info.skip_before = at("2026-01-01T00:30:00Z");
  info.skip_reason = "paused";
  CHECK(rows(plan_firing(info, at("2026-01-01T00:40:00Z"))) ==
        "00:10:00-00:20:00 x2 paused\n00:30:00 late\n00:40:00 fire\n");
  info.skip_before = at("2026-01-01T00:05:00Z");
  CHECK(rows(plan_firing(info, at("2026-01-01T00:10:00Z"))) == "00:10:00 fire\n");
}

TEST_CASE("jitter makes each tick fire later, not late") {
  ScheduleInfo info = info_of("0 * * * *", at("2026-01-01T00:00:00Z"));
  info.schedule.jitter = 24h;
  const Duration part = jitter_of(info.schedule);
  REQUIRE(part > 2min);
  info.next_fire = info.next + part;
  CHECK(plan_firing(info, info.next_fire - Duration(1)).ticks.empty());
  const FiringPlan plan = plan_firing(info, info.next_fire);
  CHECK(rows(plan) == "01:00:00 fire\n");
  CHECK(plan.next.nominal == at("2026-01-01T02:00:00Z"));
  CHECK(plan.next.fires_at == plan.next.nominal + part);
}

TEST_CASE("after end_at there is no next tick, and ticks due before it are still decided") {
  ScheduleInfo info = info_of("*/10 * * * *", at("2026-01-01T00:00:00Z"));
  info.schedule.end_at = at("2026-01-01T00:20:00Z");
  const FiringPlan plan = plan_firing(info, at("2026-01-01T05:00:00Z"));
  CHECK(rows(plan) == "00:10:00 late\n");
  CHECK(plan.next.nominal == WallTime::never());
  info.next = info.next_fire = WallTime::never();
  CHECK(plan_firing(info, at("2026-01-01T05:00:00Z")).ticks.empty());
}

TEST_CASE("`at` fires once, late or not") {
  ScheduleInfo info = info_of("", at("2026-01-01T00:00:00Z"));
  info.schedule.at = at("2026-01-01T00:10:00Z");
  info.next = info.next_fire = *info.schedule.at;
  const FiringPlan plan = plan_firing(info, at("2026-01-01T00:15:00Z"));
  CHECK(rows(plan) == "00:10:00 late\n");
  CHECK(plan.next.nominal == WallTime::never());
}

TEST_CASE("a missing time zone decides nothing and is retried") {
  ScheduleInfo info = info_of("0 * * * *", at("2026-01-01T00:00:00Z"));
  info.schedule.time_zone = "Europe/Atlantis";
  const WallTime now = at("2026-01-01T05:00:00Z");
  const FiringPlan plan = plan_firing(info, now);
  CHECK(plan.ticks.empty());
  CHECK(plan.next.nominal == info.next);
  CHECK(plan.next.fires_at == now + kUnknownZoneRetry);
  CHECK(plan.next.note.find("Europe/Atlantis") != std::string::npos);
  CHECK(schedule_problem(info.schedule) == plan.next.note);
  info.schedule.time_zone = "Europe/Berlin";
  CHECK(schedule_problem(info.schedule).empty());
}

TEST_CASE("ten years of ten ticks per second are skipped in a limited number of rows") {
  ScheduleInfo info = info_of("* * * * *", at("2026-01-01T00:00:00Z"));
  info.schedule.cron = "";
  info.schedule.every = kMinEvery;
  for (const Misfire policy : {Misfire::skip, Misfire::once, Misfire::all}) {
    info.schedule.misfire = policy;
    info.schedule.misfire_cap = kMaxMisfires;
    const FiringPlan plan = plan_firing(info, at("2036-01-01T00:00:00Z"));
    CHECK(plan.ticks.size() <= 2 * kMaxMisfires);
    CHECK(plan.steps < 10'000);
    CHECK(plan.next.nominal == at("2036-01-01T00:00:00.1Z"));
  }
}

TEST_CASE("ten years of a tick per second are skipped in a limited number of steps") {
  constexpr std::int64_t kMostSteps = 1500;  // counting up to 100, and at most 61 in time
  for (const char* cron : {"* * * * * *", "* * * * *", "0 0 29 2 *", "30 2 * * *"}) {
    for (const Misfire policy : {Misfire::skip, Misfire::once, Misfire::all}) {
      for (const bool every : {false, true}) {
        ScheduleInfo info = info_of(cron, at("2026-01-01T00:00:00Z"));
        info.schedule.time_zone = "Europe/Berlin";
        if (every) {
          info.schedule.cron = "";
          info.schedule.every = 1s;
        }
        info.schedule.misfire = policy;
        info.skip_before = at("2027-01-01T00:00:00Z");
        info.skip_reason = "paused";
        const WallTime now = at("2036-01-01T00:00:00Z");
        const FiringPlan plan = plan_firing(info, now);
        CHECK_MESSAGE(plan.steps < kMostSteps, std::string(cron));
        CHECK(plan.ticks.size() <= 170);
        CHECK(plan.next.nominal > now);
      }
    }
  }
}

struct Case {
  Schedule schedule;
  WallTime from;
};
const auto kAnyCase = rc::gen::exec([] {
  const std::vector<std::string> crons = {"*/7 * * * *",  "30 2 * * *",     "*/15 1-3 * * *",
                                          "0 */2 * * *",  "0 0 * * *",      "0 3 * * 0",
                                          "0 30 2 * * *", "*/20 * 2 * * *", "15 0,2,3 * * *"};
  const std::vector<std::string> zones = {"UTC", "Europe/Berlin", "America/New_York",
                                          "Australia/Lord_Howe", "Pacific/Apia"};
  Case out;
  out.schedule.name = "s";
  out.schedule.job.kind = "k";
  if (*rc::gen::inRange(0, 4) == 0) {
    out.schedule.every = std::chrono::seconds(*rc::gen::inRange(60, 20'000));
  } else {
    out.schedule.cron = *rc::gen::elementOf(crons);
  }
  out.schedule.time_zone = *rc::gen::elementOf(zones);
  out.schedule.misfire = *rc::gen::element(Misfire::skip, Misfire::once, Misfire::all);
  out.schedule.misfire_cap = *rc::gen::inRange(1, 20);
  out.schedule.misfire_window = std::chrono::minutes(*rc::gen::inRange(1, 2000));
  out.schedule.jitter = std::chrono::seconds(*rc::gen::inRange(0, 2) * 900);
  // Around the changes of 2026, and of Apia's missing day.
  const WallTime around = *rc::gen::element(at("2026-03-29T01:00:00Z"), at("2026-10-25T01:00:00Z"),
                                            at("2026-03-08T07:00:00Z"), at("2026-11-01T06:00:00Z"),
                                            at("2026-04-04T15:00:00Z"), at("2011-12-30T10:00:00Z"));
  out.from = around - std::chrono::minutes(*rc::gen::inRange(0, 3000));
  return out;
});

// SCHED-1 (times never go back), SCHED-2 (each tick is in exactly one row), SCHED-3 (none before
// its time).
TEST_CASE("rows of successive plans cover every tick exactly once and none of the future") {
  CHECK(rc::check([] {
    const Case one = *kAnyCase;
    const Duration jitter = jitter_of(one.schedule);
    ScheduleInfo info;
    info.schedule = one.schedule;
    info.next = next_tick(one.schedule, one.from).nominal;
    info.next_fire = info.next + jitter;
    WallTime now = one.from;
    std::vector<WallTime> covered;
    for (int round = 0; round < 12; ++round) {
      now = now + std::chrono::minutes(*rc::gen::inRange(-30, 900));
      info.skip_before =
          *rc::gen::inRange(0, 3) == 0 ? now : WallTime::from_us(0);  // it was paused until now
      const FiringPlan plan = plan_firing(info, now);
      RC_ASSERT(plan.ticks.size() <= 2 * kMaxMisfires);
      for (const Tick& tick : plan.ticks) {
        const WallTime last = tick.until.value_or(tick.nominal);
        RC_ASSERT(last + jitter <= now);
        RC_ASSERT((covered.empty() || covered.back() < tick.nominal));
        RC_ASSERT(tick.fire == tick.reason.empty());
        std::int64_t n = 0;
        for (WallTime t = tick.nominal; t <= last; t = next_tick(one.schedule, t).nominal, ++n) {
          covered.push_back(t);
        }
        RC_ASSERT(covered.back() == last);
        RC_ASSERT(tick.count == n || tick.count == 0);
      }
      RC_ASSERT(plan.next.nominal >= info.next);
      RC_ASSERT(plan.next.fires_at > now);
      info.next = plan.next.nominal;
      info.next_fire = plan.next.fires_at;
    }
    std::vector<WallTime> expected;
    for (WallTime t = next_tick(one.schedule, one.from).nominal; t < info.next;
         t = next_tick(one.schedule, t).nominal) {
      expected.push_back(t);
    }
    RC_ASSERT(covered == expected);
  }));
}

}  // namespace
