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
  const QueueBacklog backlog = backlog_of(backlog_queue(50), &recent, kNow);
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
  CHECK(backlog_of(backlog_queue(10), nullptr, kNow).arrivals_per_second == 0);
  const RecentCount two = counted(2min, 0, 120);
  CHECK(backlog_of(backlog_queue(10), &two, kNow).completions_per_second == doctest::Approx(1));
  const RecentCount just_now = counted(Duration(0), 0, 120);
  CHECK(backlog_of(backlog_queue(10), &just_now, kNow).completions_per_second ==
        doctest::Approx(2));
}

TEST_CASE("a drain time is zero when no job waits, and unknown when none completes") {
  const RecentCount busy = counted(5min, 10, 300), stuck = counted(5min, 300, 0);
  CHECK(backlog_of(backlog_queue(0), nullptr, kNow).drain == Duration(0));
  CHECK(backlog_of(backlog_queue(0), &busy, kNow).oldest == std::nullopt);
  CHECK(backlog_of(backlog_queue(5), nullptr, kNow).drain == std::nullopt);
  CHECK(backlog_of(backlog_queue(5), &stuck, kNow).drain == std::nullopt);
  QueueStats paused = backlog_queue(5);
  CHECK(backlog_of(paused, &busy, kNow).drain == Duration(5s));
  paused.paused = true;
  CHECK(backlog_of(paused, &busy, kNow).drain == std::nullopt);
}

TEST_CASE("a backlog tolerates a clock that was set back, and the first minutes of the epoch") {
  CHECK(backlog_of(backlog_queue(1, -5s), nullptr, kNow).oldest == Duration(0));
  CHECK(backlog_from(WallTime::from_us(1)) == WallTime());
  const RecentCount ahead = counted(-2min, 60, 60);
  CHECK(backlog_of(backlog_queue(1), &ahead, kNow).completions_per_second == doctest::Approx(1));
}

}  // namespace mainspring
