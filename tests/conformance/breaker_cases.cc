// Conformance: breakers that the limits of queues name.
#include <algorithm>

#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

const std::string kQueue = "q";

BreakerSettings settings(int failures = 2) {
  return {.failures = failures,
          .within = minutes(1),
          .open_for = seconds(30),
          .max_open_for = minutes(2),
          .probes = 1};
}
void put(Bench& b, BreakerSettings s = settings(), const std::string& name = "geocoder") {
  b.one<Done>(PutBreaker{name, s});
}
void depends(Bench& b, const std::string& queue = kQueue, const std::string& breaker = "geocoder") {
  b.one<Done>(SetQueueLimits{queue, {.concurrency = {}, .rate = {}, .breaker = breaker}});
}
BreakerInfo info(const Bench& b, const std::string& name = "geocoder") {
  const auto all = b.store->breakers(b.wall());
  REQUIRE(all.has_value());
  for (const BreakerInfo& one : *all) {
    if (one.name == name) return one;
  }
  FAIL("no breaker " << name);
  return {};
}
BreakerState state(const Bench& b) {
  return info(b).state;
}
void fill(Bench& b, int jobs, const std::string& queue = kQueue) {
  for (int i = 0; i < jobs; ++i) b.enqueue(b.job(queue));
}
int step(Bench& b) {
  return b.one<StepResult>(OpenQueues{}).changed;
}
Retry failed(std::optional<Duration> open_for = {}) {
  return {.error = "no answer", .after = hours(1), .open_breaker_for = open_for};
}
// `attempts` attempts fail, one after the other.
void fail(Bench& b, int attempts) {
  for (int i = 0; i < attempts; ++i) b.finish(b.claim_one(), failed());
}
// A breaker opened by two failures, and its queue with `jobs` more jobs.
void open_one(Bench& b, int jobs) {
  put(b);
  depends(b);
  fill(b, jobs + 2);
  fail(b, 2);
  REQUIRE(state(b) == BreakerState::open);
}

}  // namespace

TEST_SUITE("store: breakers") {
  TEST_CASE("enough failures open a breaker; while it is open no job is given and none is lost") {
    Bench b;
    put(b);
    depends(b);
    fill(b, 6);
    const auto running = b.claim(2);
    fail(b, 1);
    CHECK(state(b) == BreakerState::closed);
    CHECK(info(b).failures == 1);
    b.finish(running[0], failed());
    CHECK(state(b) == BreakerState::open);
    CHECK(info(b).open_until == b.wall() + seconds(30));
    CHECK(info(b).opened == 1);
    CHECK(b.effects().breakers.size() == 1);
    CHECK(b.claim(9).empty());
    CHECK_FALSE(b.store->has_available(kQueue));
    CHECK(b.count(JobState::available) == 3);
    CHECK(b.renew(running[1]).lost.empty());
    b.finish(running[1], Complete{});  // started earlier: it does not count
    CHECK(state(b) == BreakerState::open);
    b.reopen();
    CHECK(state(b) == BreakerState::open);
    CHECK(b.claim(9).empty());
    CHECK(b.store->agenda().next_opening == *info(b).open_until);
  }

  TEST_CASE("old failures do not count, and changed settings keep the state") {
    Bench b;
    put(b);
    depends(b);
    fill(b, 9);
    fail(b, 1);
    b.advance(seconds(61));
    CHECK(info(b).failures == 0);
    fail(b, 1);
    CHECK(state(b) == BreakerState::closed);
    put(b, settings(5));
    CHECK(info(b).failures == 1);
    fail(b, 1);
    CHECK(state(b) == BreakerState::closed);
    fail(b, 3);
    CHECK(state(b) == BreakerState::open);
    put(b, settings(2));
    CHECK(state(b) == BreakerState::open);
    CHECK(info(b).settings == settings(2));
  }

  TEST_CASE("only an attempt that is reported as failed counts") {
    Bench b;
    put(b, settings(1));
    depends(b);
    fill(b, 5);
    b.finish(b.claim_one(), Snooze{hours(1)});
    b.finish(b.claim_one(), CancelJob{"not wanted"});
    b.finish(b.claim_one(), Dead{"poison", "cannot be read"});
    b.claim_one();
    b.advance(minutes(1));
    CHECK(b.rescue() == 1);
    CHECK(state(b) == BreakerState::closed);
    CHECK(info(b).failures == 0);
  }

  TEST_CASE("the last attempt of a job counts too") {
    Bench b;
    put(b, settings(1));
    depends(b);
    NewJob job = b.job();
    job.max_attempts = 1;
    const JobId id = b.enqueue(job);
    fail(b, 1);
    CHECK(b.state(id) == JobState::dead);
    CHECK(state(b) == BreakerState::open);
  }

  TEST_CASE("after its open time a breaker lets only its probes start") {
    Bench b;
    open_one(b, 5);
    b.advance(seconds(29));
    CHECK(step(b) == 0);
    CHECK(b.claim(9).empty());
    b.advance(seconds(1));
    CHECK(step(b) == 1);
    CHECK(b.became_available(kQueue));
    CHECK(state(b) == BreakerState::half_open);
    CHECK(info(b).room == 1);
    const auto probe = b.claim(9);
    REQUIRE(probe.size() == 1);
    CHECK(probe[0].attempt == 1);
    CHECK(info(b).probes == 1);
    CHECK(b.claim(9).empty());
    CHECK_FALSE(b.store->has_available(kQueue));
    b.reopen();
    CHECK(b.claim(9).empty());
    CHECK(state(b) == BreakerState::half_open);
  }

  TEST_CASE("a claim finds a breaker half open once its time is over, without another operation") {
    Bench b;
    open_one(b, 3);
    b.advance(seconds(31));
    CHECK(b.claim(9).size() == 1);
    CHECK(state(b) == BreakerState::half_open);
    CHECK(step(b) == 0);
  }

  TEST_CASE("probes that succeed double the room until it is closed") {
    Bench b;
    open_one(b, 60);
    b.advance(seconds(30));
    for (int room = 1; room < kBreakerFullRoom; room *= 2) {
      const auto probes = b.claim(60);
      REQUIRE(std::ssize(probes) == room);
      CHECK(info(b).room == room);
      for (const ClaimedJob& probe : probes) {
        CHECK(state(b) == BreakerState::half_open);
        b.finish(probe, Complete{});
        CHECK(b.became_available(kQueue));
      }
    }
    CHECK(state(b) == BreakerState::closed);
    CHECK(b.store->has_available(kQueue));
    CHECK(b.claim(60).size() == 29);
    CHECK(b.store->agenda().next_opening == WallTime::never());
  }

  TEST_CASE("a probe that fails opens it again, for twice as long, up to a bound") {
    Bench b;
    open_one(b, 9);
    Duration time = seconds(30);
    for (const Duration next : {seconds(60), seconds(120), seconds(120)}) {
      b.advance(time);
      fail(b, 1);
      CHECK(state(b) == BreakerState::open);
      CHECK(info(b).open_until == b.wall() + next);
      CHECK(b.claim(9).empty());
      time = next;
    }
    CHECK(info(b).opened == 4);
  }

  TEST_CASE("outcomes of jobs started before the breaker was half open do not count") {
    Bench b;
    put(b);
    depends(b);
    fill(b, 6);
    const auto early = b.claim(2);
    fail(b, 2);
    b.advance(seconds(30));
    const ClaimedJob probe = b.claim_one();
    b.finish(early[0], Complete{});
    CHECK(info(b).room == 1);
    b.finish(early[1], failed());
    CHECK(state(b) == BreakerState::half_open);
    CHECK(b.claim(9).empty());
    b.finish(probe, Complete{});
    CHECK(info(b).room == 2);
  }

  TEST_CASE("a probe without a verdict frees its place for another one") {
    Bench b;
    open_one(b, 5);
    b.advance(seconds(30));
    b.finish(b.claim_one(), Snooze{hours(1)});
    CHECK(b.became_available(kQueue));
    b.finish(b.claim_one(), CancelJob{"not wanted"});
    b.claim_one();
    CHECK(b.claim(9).empty());
    b.advance(minutes(1));  // its worker is gone
    CHECK(b.rescue() == 1);
    CHECK(b.became_available(kQueue));
    CHECK(state(b) == BreakerState::half_open);
    CHECK(info(b).probes == 0);
    CHECK(b.claim(9).size() == 1);
  }

  TEST_CASE("queues that share a breaker are open and half open together") {
    Bench b;
    put(b);
    depends(b, "a");
    depends(b, "b");
    fill(b, 4, "a");
    fill(b, 4, "b");
    fill(b, 2, "free");
    b.finish(b.claim(1, {"a"})[0], failed());
    b.finish(b.claim(1, {"b"})[0], failed());
    CHECK(info(b).queues == std::vector<std::string>{"a", "b"});
    CHECK(b.claim(9, {"a", "b", "free"}).size() == 2);
    b.advance(seconds(30));
    const auto probe = b.claim(9, {"a", "b"});
    REQUIRE(probe.size() == 1);
    CHECK(probe[0].queue == "a");
    CHECK(b.claim(9, {"b"}).empty());
    b.finish(probe[0], Complete{});
    CHECK(b.became_available("b"));
    CHECK(b.claim(9, {"b", "a"}).size() == 2);
    CHECK(b.claim(9, {"a"}).empty());
  }

  TEST_CASE("a handler may open a breaker up to its maximum, and never shorten its open time") {
    Bench b;
    put(b, settings(50));
    depends(b);
    fill(b, 6);
    const auto running = b.claim(4);
    b.finish(running[0], failed(minutes(1)));
    CHECK(state(b) == BreakerState::open);
    CHECK(info(b).open_until == b.wall() + minutes(1));
    b.finish(running[1], Snooze{seconds(5), seconds(20)});
    CHECK(info(b).open_until == b.wall() + minutes(1));
    b.finish(running[2], Snooze{seconds(5), hours(24)});
    CHECK(info(b).open_until == b.wall() + minutes(2));  // max_open_for
    CHECK(info(b).opened == 1);
    CHECK(b.claim(9).empty());
    b.advance(minutes(2));
    CHECK(b.claim(9).size() == 1);
  }

  TEST_CASE("without a breaker a handler's open request has no effect") {
    Bench b;
    fill(b, 2);
    b.finish(b.claim_one(), failed(minutes(5)));
    CHECK(b.claim(9).size() == 1);
  }

  TEST_CASE("an operator can open a breaker for a time, and close it") {
    Bench b;
    put(b);
    depends(b);
    fill(b, 3);
    b.one<Done>(OpenBreaker{"geocoder", minutes(10)});
    CHECK(info(b).open_until == b.wall() + minutes(10));
    CHECK(b.claim(9).empty());
    b.one<Done>(OpenBreaker{"geocoder"});
    CHECK(info(b).open_until == b.wall() + seconds(30));
    b.one<Done>(CloseBreaker{"geocoder"});
    CHECK(b.became_available(kQueue));
    CHECK(state(b) == BreakerState::closed);
    CHECK(b.claim(9).size() == 3);
    CHECK(b.refused(OpenBreaker{"unknown"}) == ErrorCode::not_found);
    CHECK(b.refused(CloseBreaker{"unknown"}) == ErrorCode::not_found);
  }

  TEST_CASE("a queue can only name an existing breaker, which then cannot be removed") {
    Bench b;
    const SetQueueLimits limits{kQueue, {.concurrency = {}, .rate = {}, .breaker = "geocoder"}};
    CHECK(b.refused(limits) == ErrorCode::invalid_argument);
    put(b);
    b.one<Done>(limits);
    CHECK(b.stats().limits.breaker == "geocoder");
    CHECK(b.refused(RemoveBreaker{"geocoder"}) == ErrorCode::conflict);
    b.reopen();
    CHECK(b.stats().limits.breaker == "geocoder");
    CHECK(info(b).queues == std::vector<std::string>{kQueue});
    b.one<Done>(SetQueueLimits{kQueue, {}});
    b.one<Done>(RemoveBreaker{"geocoder"});
    CHECK(b.store->breakers(b.wall())->empty());
    CHECK(b.refused(RemoveBreaker{"geocoder"}) == ErrorCode::not_found);
    b.reopen();
    CHECK(b.store->breakers(b.wall())->empty());
  }

  TEST_CASE("a queue that drops its breaker is not held back, and its probes free their places") {
    Bench b;
    open_one(b, 4);
    depends(b, "other");
    fill(b, 2, "other");
    b.advance(seconds(30));
    CHECK(b.claim(9).size() == 1);
    CHECK(b.claim(9, {"other"}).empty());
    b.one<Done>(SetQueueLimits{kQueue, {}});
    CHECK(b.became_available(kQueue));
    CHECK(b.claim(9).size() == 3);
    CHECK(info(b).probes == 0);
    CHECK(b.claim(9, {"other"}).size() == 1);
  }

  TEST_CASE("a breaker applies together with the queue's other limits") {
    Bench b;
    put(b);
    b.one<Done>(SetQueueLimits{
        kQueue,
        {.concurrency = 1, .rate = {}, .per_key = {.concurrency = 1}, .breaker = "geocoder"}});
    NewJob job = b.job();
    job.limit_key = "acme";
    for (int i = 0; i < 5; ++i) b.enqueue(job);
    CHECK(b.claim(9).size() == 1);
    b.advance(minutes(1));
    b.rescue();
    fail(b, 2);
    CHECK(b.claim(9).empty());
    b.advance(seconds(30));
    fail(b, 1);
    CHECK(state(b) == BreakerState::open);
    b.advance(minutes(1));
    CHECK(b.claim(9).size() == 1);
    CHECK(b.claim(9).empty());
  }

  TEST_CASE("jobs of sessions and of their holders are held back too") {
    Bench b;
    put(b, settings(1));
    depends(b);
    NewJob job = b.job();
    for (const char* session : {"a", "b", "c"}) job.session = session, b.enqueue(job);
    fail(b, 1);
    CHECK(b.one<ClaimResult>(Claim{.worker = "w", .queues = {accept_queue(kQueue)}}).jobs.empty());
    b.advance(seconds(30));
    const auto held = b.one<ClaimResult>(Claim{.worker = "w", .queues = {accept_queue(kQueue)}});
    REQUIRE(held.jobs.size() == 1);
    CHECK(b.one<ClaimResult>(Claim{.worker = "w", .queues = {accept_queue(kQueue)}}).jobs.empty());
    b.finish(held.jobs[0], Complete{});
    CHECK(info(b).room == 2);
  }

  TEST_CASE("the scheduler's step is bounded, and continues with the rest later") {
    Bench b;
    for (const char* name : {"x", "y", "z"}) {
      put(b, settings(), name);
      b.one<Done>(OpenBreaker{name, seconds(1)});
    }
    CHECK(b.store->agenda().next_opening == b.wall() + seconds(1));
    b.advance(seconds(1));
    const auto first = b.one<StepResult>(OpenQueues{.limit = 2, .fence = {}});
    CHECK(first.changed == 2);
    CHECK(first.more);
    CHECK(b.one<StepResult>(OpenQueues{.limit = 2, .fence = {}}).changed == 1);
  }
}

}  // namespace mainspring::conformance
