// The pace of queues, and the estimated start of jobs.
#include "broker/pace.h"

#include <doctest/doctest.h>

#include "broker/why.h"

namespace mainspring {
namespace {

using namespace std::chrono_literals;

const WallTime kWall = WallTime::from_us(1'800'000'000'000'000);

QueueStats queue_with(std::int64_t completed, std::int64_t pruned = 0) {
  QueueStats queue{.name = "q"};
  queue.counts[static_cast<std::size_t>(JobState::completed)] = completed;
  queue.pruned = pruned;
  return queue;
}

Instant at(Duration t) {
  return Instant() + t;
}

}  // namespace

TEST_CASE("a pace counts the jobs that ended between two samples, including pruned ones") {
  Pace pace;
  pace.note(std::vector{queue_with(100)}, at(10s));
  CHECK_FALSE(pace.of(queue_with(100), at(11s)));  // too soon to say
  const auto seen = pace.of(queue_with(150, 10), at(20s));
  REQUIRE(seen);
  CHECK(seen->ended == 60);
  CHECK(seen->in == 10s);
  CHECK_FALSE(pace.of(queue_with(1000), at(10min)));  // too long ago
  CHECK_FALSE(pace.of(QueueStats{.name = "other"}, at(20s)));
}

TEST_CASE("samples in quick succession do not shorten the measured time") {
  Pace pace;
  for (int s = 0; s <= 70; ++s) pace.note(std::vector{queue_with(s)}, at(std::chrono::seconds(s)));
  const auto seen = pace.of(queue_with(70), at(70s));
  REQUIRE(seen);
  CHECK(seen->in == 40s);
  CHECK(seen->ended == 40);
}

TEST_CASE("a job is estimated to start after the jobs before it, at the pace of its queue") {
  const QueueStats queue = queue_with(0);
  Why why{Gate::busy_workers, "busy", {}};
  add_estimate(why, queue, 119, Pace::Seen{60, 30s}, kWall);
  CHECK(why.ahead == 119);
  CHECK(why.estimated_start == kWall + 60s);
  CHECK(why.text == "busy; 119 are before it; estimated start " + format_wall_time(kWall + 60s) +
                        " at the pace of the last 30s");
  SUBCASE("there is no estimate if no job has ended") {
    Why still{Gate::busy_workers, "busy", {}};
    add_estimate(still, queue, 1, Pace::Seen{0, 30s}, kWall);
    CHECK(still.text == "busy; 1 is before it");
    CHECK_FALSE(still.estimated_start);
  }
  SUBCASE("nor if more jobs wait than are counted") {
    Why far{Gate::busy_workers, "busy", {}};
    add_estimate(far, queue, kMaxAhead, Pace::Seen{60, 30s}, kWall);
    CHECK(far.text == "busy; at least 10000 are before it");
    CHECK_FALSE(far.estimated_start);
  }
}

TEST_CASE("a rate alone determines when a job starts") {
  QueueStats queue = queue_with(0);
  queue.limits.rate = RateLimit{.count = 10, .per = 60s};
  Why why{Gate::rate, "closed", kWall + 6s};
  add_estimate(why, queue, 20, {}, kWall);
  CHECK(why.estimated_start == kWall + 126s);
}

TEST_CASE("the rate of its key and the earlier jobs of the key determine when a job starts") {
  QueueStats queue = queue_with(0);
  queue.limits.per_key.rate = RateLimit{.count = 1, .per = 10s};
  Why why{Gate::key_rate, "closed", kWall + 6s};
  add_estimate(why, queue, 2, {}, kWall);
  CHECK(why.estimated_start == kWall + 26s);
  CHECK(why.text.starts_with("closed; 2 with its limit_key are before it; estimated start "));
}

TEST_CASE("a key's share of the pace is its share of the running jobs") {
  QueueStats queue = queue_with(0);
  queue.counts[static_cast<std::size_t>(JobState::running)] = 8;
  Why why{Gate::key_concurrency, "full", {}};
  add_estimate(why, queue, 4, Pace::Seen{60, 30s}, kWall, {.running = 2, .opens_at = {}});
  CHECK(why.estimated_start == kWall + 10s);
  CHECK(why.text.ends_with(" at its key's share of the pace of the last 30s"));
}

TEST_CASE("at an open breaker the first job starts when it is half open, others at the pace") {
  const QueueStats queue = queue_with(0);
  Why first{Gate::breaker, "open", kWall + 20s};
  add_estimate(first, queue, 0, {}, kWall);
  CHECK(first.estimated_start == kWall + 20s);
  Why other{Gate::breaker, "open", kWall + 20s};
  add_estimate(other, queue, 10, Pace::Seen{60, 30s}, kWall);
  CHECK(other.estimated_start == kWall + 25s);
  Why unknown{Gate::breaker, "open", kWall + 20s};
  add_estimate(unknown, queue, 10, {}, kWall);
  CHECK_FALSE(unknown.estimated_start);
}

}  // namespace mainspring
