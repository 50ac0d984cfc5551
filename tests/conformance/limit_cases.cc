// Conformance: limits of queues.
#include <algorithm>

#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

void set_limits(Bench& b, QueueLimits limits, const std::string& queue = "q") {
  b.one<Done>(SetQueueLimits{queue, limits});
}
QueueLimits limit_at_once(int n) {
  return {.concurrency = n, .rate = {}};
}
QueueLimits rate(int count, Duration per, RateKind kind, int burst = 0) {
  return {.concurrency = {}, .rate = RateLimit{count, per, kind, burst}};
}
void fill_queue(Bench& b, int jobs, const std::string& queue = "q") {
  for (int i = 0; i < jobs; ++i) b.enqueue(b.job(queue));
}
int limit_open(Bench& b) {
  return b.one<StepResult>(OpenQueues{}).changed;
}

}  // namespace

TEST_SUITE("store: limits of queues") {
  TEST_CASE("no more jobs run at once than the limit; the end of one lets the next start") {
    Bench b;
    set_limits(b, limit_at_once(2));
    fill_queue(b, 5);
    const std::vector<ClaimedJob> first = b.claim(9);
    CHECK(first.size() == 2);
    CHECK(b.claim(9).empty());
    CHECK_FALSE(b.store->has_available("q"));
    b.reopen();
    CHECK(b.stats().limits == limit_at_once(2));
    CHECK_FALSE(b.store->has_available("q"));
    CHECK(b.claim(9).empty());
    b.finish(first[0], Complete{});
    CHECK(b.became_available("q"));
    CHECK(b.store->has_available("q"));
    CHECK(b.claim(9).size() == 1);
    b.finish(first[1], Retry{"e", seconds(5)});
    CHECK(b.became_available("q"));
    CHECK(b.claim(9).size() == 1);
  }

  TEST_CASE("a lease that expired counts until the job is rescued") {
    Bench b;
    set_limits(b, limit_at_once(1));
    fill_queue(b, 2);
    b.claim_one();
    b.advance(minutes(1));
    CHECK(b.claim(9).empty());
    CHECK(b.rescue() == 1);
    CHECK(b.became_available("q"));
    CHECK(b.claim(9).size() == 1);
  }

  TEST_CASE("other queues of the same claim still give their jobs, in order over all queues") {
    Bench b;
    set_limits(b, limit_at_once(1), "a");
    const JobId a1 = b.enqueue(b.job("a"));
    b.enqueue(b.job("a"));
    const JobId b1 = b.enqueue(b.job("b"));
    const JobId b2 = b.enqueue(b.job("b"));
    CHECK(ids(b.claim(3, {"a", "b"})) == std::vector<JobId>{a1, b1, b2});
    CHECK(b.claim(3, {"a", "b"}).empty());
  }

  TEST_CASE("a lowered limit does not stop running jobs; a removed limit opens the queue") {
    Bench b;
    fill_queue(b, 7);
    const auto running = b.claim(3);
    set_limits(b, limit_at_once(1));
    CHECK(b.renew(running[0]).lost.empty());
    b.finish(running[0], Complete{});
    CHECK_FALSE(b.became_available("q"));
    CHECK(b.claim(9).empty());
    b.finish(running[1], Complete{});
    b.finish(running[2], Complete{});
    CHECK(b.claim(9).size() == 1);
    set_limits(b, limit_at_once(3));
    CHECK(b.became_available("q"));
    CHECK(b.claim(9).size() == 2);
    set_limits(b, {});
    CHECK(b.became_available("q"));
    CHECK(b.claim(9).size() == 1);
    CHECK_FALSE(b.stats().limits.any());
  }

  TEST_CASE("a queue can be limited before its first job, and a paused one stays paused") {
    Bench b;
    set_limits(b, limit_at_once(1), "new");
    CHECK(b.stats("new").limits == limit_at_once(1));
    b.one<Done>(PauseQueue{"new", true});
    b.enqueue(b.job("new"));
    set_limits(b, limit_at_once(2), "new");
    CHECK_FALSE(b.became_available("new"));
    CHECK(b.claim(9, {"new"}).empty());
    b.one<Done>(PauseQueue{"new", false});
    CHECK(b.stats("new").limits == limit_at_once(2));
    CHECK(b.claim(9, {"new"}).size() == 1);
  }

  TEST_CASE("a bucket gives its burst at once, then one each interval") {
    Bench b;
    set_limits(b, rate(6, minutes(1), RateKind::bucket, 2));
    fill_queue(b, 6);
    CHECK(b.claim(9).size() == 2);
    CHECK_FALSE(b.store->has_available("q"));
    CHECK(b.stats().opens_at == b.wall() + seconds(10));
    CHECK(b.store->agenda().next_opening == b.wall() + seconds(10));
    CHECK(limit_open(b) == 0);
    b.reopen();
    CHECK(b.claim(9).empty());
    CHECK(b.store->agenda().next_opening == b.wall() + seconds(10));
    b.advance(seconds(10));
    CHECK(limit_open(b) == 1);
    CHECK(b.became_available("q"));
    CHECK(b.store->agenda().next_opening == WallTime::never());
    CHECK(b.store->has_available("q"));
    CHECK(b.claim(9).size() == 1);
    b.advance(minutes(1));
    CHECK(b.claim(9).size() == 2);  // even before an opening
    CHECK(b.claim(9).empty());
  }

  TEST_CASE("a claim that finds a queue open again opens it for waiting claims") {
    Bench b;
    set_limits(b, rate(6, minutes(1), RateKind::bucket, 2));
    fill_queue(b, 6);
    CHECK(b.claim(9).size() == 2);
    b.advance(seconds(20));
    CHECK(b.claim(1).size() == 1);  // before an opening
    CHECK(b.became_available("q"));
    CHECK(b.store->has_available("q"));
    CHECK(b.claim(1).size() == 1);
    CHECK_FALSE(b.became_available("q"));
    CHECK_FALSE(b.store->has_available("q"));
    b.advance(seconds(20));
    CHECK(b.claim(2).size() == 2);  // and leaves none to the others
    CHECK_FALSE(b.became_available("q"));
  }

  TEST_CASE("a fixed window gives its count and then nothing until the next") {
    Bench b;
    set_limits(b, rate(3, hours(1), RateKind::fixed));
    fill_queue(b, 9);
    const WallTime next = WallTime::from_us((b.wall().us() / 3'600'000'000 + 1) * 3'600'000'000);
    CHECK(b.claim(2).size() == 2);
    CHECK(b.store->has_available("q"));
    CHECK(b.claim(9).size() == 1);
    CHECK(b.stats().opens_at == next);
    b.advance(next - b.wall() - milliseconds(1));
    CHECK(b.claim(9).empty());
    b.advance(milliseconds(1));
    CHECK(b.claim(9).size() == 3);
  }

  TEST_CASE("a sliding rate never gives more than its count in any time of its length") {
    Bench b;
    set_limits(b, rate(4, seconds(50), RateKind::sliding));
    fill_queue(b, 40);
    std::vector<WallTime> started;
    for (int second = 0; second < 200; ++second) {
      for (std::size_t n = b.claim(9).size(); n > 0; --n) started.push_back(b.wall());
      b.advance(seconds(1));
    }
    CHECK(started.size() >= 14);
    for (std::size_t i = 4; i < started.size(); ++i)
      CHECK(started[i] - started[i - 4] >= seconds(50));
  }

  TEST_CASE("every attempt counts against the rate, and only a changed rate resets the count") {
    Bench b;
    set_limits(b, rate(2, minutes(1), RateKind::fixed));
    fill_queue(b, 1);
    b.finish(b.claim_one(), Snooze{});
    b.finish(b.claim_one(), Snooze{});
    CHECK(b.claim(9).empty());
    QueueLimits more = rate(2, minutes(1), RateKind::fixed);
    more.concurrency = 5;
    set_limits(b, more);
    CHECK(b.claim(9).empty());
    set_limits(b, rate(3, minutes(1), RateKind::fixed));  // a changed rate resets the count
    CHECK(b.claim(9).size() == 1);
  }

  TEST_CASE("after a large clock step back a claim gets the full rate again") {
    Bench b;
    for (const RateKind kind : {RateKind::bucket, RateKind::sliding, RateKind::fixed}) {
      set_limits(b, rate(1, minutes(1), kind));
      fill_queue(b, 3);
      CHECK(b.claim(9).size() == 1);
      b.clock.step_wall(-hours(5));
      b.advance(minutes(2));
      CHECK(b.claim(9).size() == 1);
    }
  }

  TEST_CASE("jobs of sessions and holders of sessions are limited too") {
    Bench b;
    set_limits(b, limit_at_once(1));
    for (const char* key : {"x", "x", "y"}) {
      NewJob n = b.job();
      n.session = key;
      b.enqueue(n);
    }
    const auto accept = [&] {
      return b.one<ClaimResult>(Claim{.worker = "w", .queues = {accept_queue("q")}, .kinds = {}});
    };
    const ClaimResult x = accept();
    REQUIRE(x.session);
    CHECK(accept().jobs.empty());
    CHECK_FALSE(b.store->has_available(accept_queue("q")));
    const JobId other = b.enqueue(b.job("other"));
    CHECK(b.claim(1, {"other"})[0].id == other);
    b.finish(x.jobs[0], Complete{});
    CHECK(b.became_available(accept_queue("q")));
    CHECK(b.became_available(session_queue({"q", "x"})));
    const ClaimResult y = accept();
    REQUIRE(y.session);
    CHECK(y.session->session.key == "y");
    const Claim of_x{.worker = "w",
                     .queues = {session_queue({"q", "x"})},
                     .kinds = {},
                     .session_token = x.session->token};
    CHECK(b.one<ClaimResult>(of_x).jobs.empty());
    b.finish(y.jobs[0], Complete{});
    CHECK(b.one<ClaimResult>(of_x).jobs.size() == 1);
  }

  TEST_CASE("audit records contain the limits") {
    Bench b;
    b.apply({SetQueueLimits{"q", limit_at_once(3)},
             Audit{.who = "ops", .from = "", .action = "limit", .object = "queue/q"}});
    const auto page = b.store->audit({}, AuditOrder::newest_first, 1, 0);
    REQUIRE(page);
    CHECK(page->records.at(0).after.find(R"("concurrency":3)") != std::string::npos);
  }

  TEST_CASE("OpenQueues of a former leader opens nothing") {
    Bench b;
    CHECK(b.refused(OpenQueues{.limit = 10, .fence = {"mainspring/leader", 77}}) ==
          ErrorCode::lease_lost);
  }
}

}  // namespace mainspring::conformance
