// Backlogs: rates over the last minutes, and the time to drain.
#include "broker/backlog.h"

#include <doctest/doctest.h>

namespace mainspring {
namespace {

using namespace std::chrono_literals;

const WallTime kNow = WallTime::from_us(1'800'000'000'000'000);  // the start of a minute

QueueStats backlog_queue(std::int64_t available, Duration oldest = 3s) {
  QueueStats queue{.name = "q"};
  queue.counts[static_cast<std::size_t>(JobState::available)] = available;
  if (available > 0) queue.oldest_available = kNow - oldest;
  return queue;
}

RecentCount counted(Duration ago, std::int64_t enqueued, std::int64_t completed) {
  RecentCount recent;
  recent.add(kNow - ago, {.enqueued = enqueued, .completed = completed});
  return recent;
}

}  // namespace

TEST_CASE("a backlog drains at the rate at which jobs completed in the last five minutes") {
  RecentCount recent = counted(5min, 300, 150);
  recent.counts.dead = 150;
  recent.counts.run.add(100ms);
  const QueueBacklog backlog =
      backlog_of(backlog_queue(50), &recent,
                 service_time_of(recent.counts.run, ServiceTime::Source::recent), kNow);
  CHECK(backlog.jobs == 50);
  CHECK(backlog.arrivals_per_second == doctest::Approx(1));
  CHECK(backlog.completions_per_second == doctest::Approx(1));
  CHECK(backlog.drain == Duration(50s));
  CHECK(backlog.oldest == Duration(3s));
  REQUIRE(backlog.service);
  CHECK(*backlog.service > 90ms);
  CHECK(*backlog.service < 110ms);
}

TEST_CASE("an idle queue is measured since its first minute, over at least one minute") {
  CHECK(backlog_of(backlog_queue(10), nullptr, {}, kNow).arrivals_per_second == 0);
  const RecentCount two = counted(2min, 0, 120);
  CHECK(backlog_of(backlog_queue(10), &two, {}, kNow).completions_per_second == doctest::Approx(1));
  const RecentCount just_now = counted(Duration(0), 0, 120);
  CHECK(backlog_of(backlog_queue(10), &just_now, {}, kNow).completions_per_second ==
        doctest::Approx(2));
}

TEST_CASE("a drain time is zero when no job waits, and unknown when none completes") {
  const RecentCount busy = counted(5min, 10, 300), stuck = counted(5min, 300, 0);
  CHECK(backlog_of(backlog_queue(0), nullptr, {}, kNow).drain == Duration(0));
  CHECK(backlog_of(backlog_queue(0), &busy, {}, kNow).oldest == std::nullopt);
  CHECK(backlog_of(backlog_queue(5), nullptr, {}, kNow).drain == std::nullopt);
  CHECK(backlog_of(backlog_queue(5), &stuck, {}, kNow).drain == std::nullopt);
  QueueStats paused = backlog_queue(5);
  CHECK(backlog_of(paused, &busy, {}, kNow).drain == Duration(5s));
  paused.paused = true;
  CHECK(backlog_of(paused, &busy, {}, kNow).drain == std::nullopt);
}

TEST_CASE("a backlog tolerates a clock that was set back, and the first minutes of the epoch") {
  CHECK(backlog_of(backlog_queue(1, -5s), nullptr, {}, kNow).oldest == Duration(0));
  CHECK(backlog_from(WallTime::from_us(1)) == WallTime());
  const RecentCount ahead = counted(-2min, 60, 60);
  CHECK(backlog_of(backlog_queue(1), &ahead, {}, kNow).completions_per_second ==
        doctest::Approx(1));
}

TEST_CASE(
    "without completions a backlog drains at the usual run time of the running jobs, or of one") {
  const ServiceTime usual{.p50 = 2s, .samples = 9, .source = ServiceTime::Source::history};
  QueueStats queue = backlog_queue(45);
  CHECK(backlog_of(queue, nullptr, usual, kNow).service == Duration(2s));
  CHECK(backlog_of(queue, nullptr, usual, kNow).drain == Duration(90s));
  queue.counts[static_cast<std::size_t>(JobState::running)] = 9;
  CHECK(backlog_of(queue, nullptr, usual, kNow).drain == Duration(10s));
  queue.paused = true;
  CHECK(backlog_of(queue, nullptr, usual, kNow).drain == std::nullopt);
}

TEST_CASE("the mean run time counts the few long attempts that a median leaves out") {
  TimeSketch run;
  for (int i = 0; i < 90; ++i) run.add(100ms);
  for (int i = 0; i < 10; ++i) run.add(10s);
  const ServiceTime time = service_time_of(run, ServiceTime::Source::recent);
  CHECK(time.samples == 100);
  CHECK(time.p50 < 110ms);
  CHECK(time.p95 > 9s);
  CHECK(time.mean > 950ms);  // 1.09 s
  CHECK(time.mean < 1200ms);
}

}  // namespace mainspring
