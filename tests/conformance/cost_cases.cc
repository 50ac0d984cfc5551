// Conformance: costs of heavy kinds against the limits of queues and keys.
#include <algorithm>

#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

void limit(Bench& b, const QueueLimits& limits, const std::string& queue = "q") {
  b.one<Done>(SetQueueLimits{queue, limits});
}
// Jobs of kind "heavy" cost `cost`.
QueueLimits heavy(int cost) {
  QueueLimits limits;
  limits.costs = {{"heavy", cost}};
  return limits;
}
QueueLimits at_once(int slots, int cost) {
  QueueLimits limits = heavy(cost);
  limits.concurrency = slots;
  return limits;
}
QueueLimits rated(const RateLimit& rate, int cost) {
  QueueLimits limits = heavy(cost);
  limits.rate = rate;
  return limits;
}
JobId enqueue(Bench& b, const std::string& kind, const std::string& key = "", int priority = 5) {
  NewJob job = b.job();
  job.kind = kind;
  job.limit_key = key;
  job.priority = priority;
  return b.enqueue(job);
}
int open(Bench& b) {
  return b.one<StepResult>(OpenQueues{}).changed;
}
using Ids = std::vector<JobId>;

}  // namespace

TEST_SUITE("store: limits, costs") {
  TEST_CASE("a heavy job takes its cost of the concurrency; light jobs use the remaining slots") {
    Bench b;
    limit(b, at_once(6, 4));
    const JobId h1 = enqueue(b, "heavy"), l1 = enqueue(b, "light"), l2 = enqueue(b, "light");
    const JobId l3 = enqueue(b, "light");
    auto first = b.claim(9);
    CHECK(ids(first) == Ids{h1, l1, l2});
    CHECK(first[0].cost == 4);
    CHECK(first[1].cost == 1);
    CHECK(b.stats().slots_taken == 6);
    CHECK(b.claim(9).empty());
    CHECK_FALSE(b.store->has_available("q"));
    b.finish(first[1], Complete{});
    CHECK(b.became_available("q"));
    CHECK(ids(b.claim(9)) == Ids{l3});
    b.finish(first[0], Retry{"e", hours(1)});
    CHECK(b.stats().slots_taken == 2);
    CHECK(b.stats().limits == at_once(6, 4));
  }

  TEST_CASE("a job that does not fit waits, and light jobs after it do not overtake it") {
    Bench b;
    limit(b, at_once(6, 4));
    const JobId l1 = enqueue(b, "light"), l2 = enqueue(b, "light"), l3 = enqueue(b, "light");
    auto running = b.claim(9);
    CHECK(ids(running) == Ids{l1, l2, l3});
    const JobId h = enqueue(b, "heavy"), l4 = enqueue(b, "light");
    CHECK(b.claim(9).empty());
    const JobId urgent = enqueue(b, "light", "", 0);  // earlier in the ready queue
    CHECK(ids(b.claim(9)) == Ids{urgent});
    b.finish(running[0], Complete{});
    CHECK(b.claim(9).empty());
    b.finish(running[1], Complete{});
    CHECK(b.became_available("q"));
    CHECK(ids(b.claim(1)) == Ids{h});
    CHECK(b.claim(9).empty());
    b.finish(running[2], Complete{});
    CHECK(ids(b.claim(9)) == Ids{l4});
  }

  TEST_CASE("a job that does not fit does not block claims for other kinds or from other queues") {
    Bench b;
    limit(b, at_once(4, 4));
    enqueue(b, "light");
    b.claim(1);
    enqueue(b, "heavy");
    const JobId l = enqueue(b, "light");
    const JobId other = b.enqueue(b.job("other"));
    CHECK(ids(b.claim(9, {"q", "other"})) == Ids{other});
    const auto lights =
        b.one<ClaimResult>(Claim{.worker = "w", .queues = {"q"}, .kinds = {"light"}, .max = 9});
    CHECK(ids(lights.jobs) == Ids{l});
  }

  TEST_CASE("a job that costs more than the limit takes all slots and starts when no other runs") {
    Bench b;
    QueueLimits limits = at_once(3, 1000);
    limits.rate = RateLimit{2, seconds(10), RateKind::sliding, 0};
    limit(b, limits);
    const JobId l1 = enqueue(b, "light"), h = enqueue(b, "heavy"), l2 = enqueue(b, "light");
    const auto first = b.claim(9);
    CHECK(ids(first) == Ids{l1});
    b.advance(minutes(1));
    CHECK(b.claim(9).empty());
    b.finish(first[0], Complete{});
    const auto second = b.claim(9);
    CHECK(ids(second) == Ids{h});
    CHECK(b.stats().slots_taken == 3);
    b.finish(second[0], Complete{});
    CHECK(b.claim(9).empty());  // it took all of the rate too
    b.advance(minutes(1));
    CHECK(ids(b.claim(9)) == Ids{l2});
  }

  TEST_CASE("a rate counts the cost of a heavy job, for each kind of rate") {
    for (const RateKind kind : {RateKind::bucket, RateKind::sliding, RateKind::fixed}) {
      CAPTURE(to_string(kind));
      Bench b;
      limit(b, rated({6, hours(1), kind, 0}, 4));
      const JobId h = enqueue(b, "heavy"), l1 = enqueue(b, "light"), l2 = enqueue(b, "light");
      const JobId l3 = enqueue(b, "light");
      CHECK(ids(b.claim(9)) == Ids{h, l1, l2});
      CHECK(b.stats().opens_at);
      CHECK_FALSE(b.store->has_available("q"));
      b.advance(hours(2));
      CHECK(ids(b.claim(9)) == Ids{l3});
    }
  }

  TEST_CASE("a queue becomes available when its rate allows the cost of the next job") {
    Bench b;
    limit(b, rated({6, minutes(1), RateKind::bucket, 0}, 4));
    for (int i = 0; i < 3; ++i) enqueue(b, "light");
    CHECK(b.claim(9).size() == 3);
    const JobId h = enqueue(b, "heavy"), l = enqueue(b, "light");
    CHECK(b.claim(9).empty());
    CHECK_FALSE(b.stats().opens_at);  // it is not closed: a light one might begin
    CHECK(b.store->agenda().next_opening == b.wall() + seconds(10));
    b.reopen();
    CHECK(b.store->agenda().next_opening == b.wall() + seconds(10));
    CHECK(b.claim(9).empty());
    b.advance(seconds(10));
    CHECK(open(b) == 1);
    CHECK(b.became_available("q"));
    CHECK(ids(b.claim(9)) == Ids{h});
    CHECK(b.stats().opens_at == b.wall() + seconds(10));
    b.advance(seconds(10));
    CHECK(open(b) == 1);
    CHECK(ids(b.claim(9)) == Ids{l});
    b.advance(seconds(40));
    CHECK(open(b) == 1);  // enough for four
    CHECK(b.store->agenda().next_opening == WallTime::never());
  }

  TEST_CASE("new costs apply at once: running jobs count by them, and continue above the limit") {
    Bench b;
    QueueLimits limits;
    limits.concurrency = 4;
    limit(b, limits);
    for (int i = 0; i < 3; ++i) enqueue(b, "heavy");
    const auto running = b.claim(9);
    CHECK(running.size() == 3);
    limit(b, at_once(4, 3));
    CHECK(b.stats().slots_taken == 9);
    enqueue(b, "light");
    CHECK(b.claim(9).empty());
    b.finish(running[0], Complete{});
    b.finish(running[1], Complete{});
    CHECK(b.stats().slots_taken == 3);
    CHECK(b.claim(9).size() == 1);
    limit(b, at_once(5, 4));
    CHECK(b.stats().slots_taken == 5);
    enqueue(b, "light");
    CHECK(b.claim(9).empty());
    limit(b, limits);
    CHECK(b.became_available("q"));
    CHECK(b.claim(9).size() == 1);
    CHECK(b.stats().slots_taken == 3);
    CHECK(running[2].cost == 1);
  }

  TEST_CASE("running jobs keep their cost over a restart") {
    Bench b;
    limit(b, at_once(6, 4));
    enqueue(b, "heavy"), enqueue(b, "heavy");
    const auto running = b.claim(9);
    CHECK(running.size() == 1);
    b.reopen();
    CHECK(b.stats().slots_taken == 4);
    CHECK(b.claim(9).empty());
    b.finish(running[0], Snooze{hours(1)});
    CHECK(b.claim(9).size() == 1);
  }

  TEST_CASE("costs of a queue without limits are returned by claims but do not limit them") {
    Bench b;
    limit(b, heavy(4));
    for (int i = 0; i < 3; ++i) enqueue(b, "heavy");
    const auto running = b.claim(12);
    CHECK(running.size() == 3);
    CHECK(running[2].cost == 4);
    CHECK(b.stats().limits.costs.size() == 1);
  }

  TEST_CASE("a claim's max counts slots; its first job fits in any case") {
    Bench b;
    limit(b, heavy(4));
    const JobId h1 = enqueue(b, "heavy"), l1 = enqueue(b, "light"), h2 = enqueue(b, "heavy");
    const JobId l2 = enqueue(b, "light");
    CHECK(ids(b.claim(6)) == Ids{h1, l1});  // the next does not fit, and is not overtaken
    CHECK(b.store->has_available("q"));
    CHECK(ids(b.claim(2)) == Ids{h2});
    CHECK(ids(b.claim(2)) == Ids{l2});
  }

  TEST_CASE("limit key: a heavy job waits for its key, and so do later jobs of that key") {
    Bench b;
    QueueLimits limits = heavy(2);
    limits.per_key.concurrency = 3;
    limit(b, limits);
    const JobId a1 = enqueue(b, "light", "a"), a2 = enqueue(b, "light", "a");
    const auto running = b.claim(9);
    CHECK(ids(running) == Ids{a1, a2});
    const JobId heavy_a = enqueue(b, "heavy", "a"), a3 = enqueue(b, "light", "a");
    const JobId heavy_b = enqueue(b, "heavy", "b"), b1 = enqueue(b, "light", "b");
    const JobId b2 = enqueue(b, "light", "b"), free = enqueue(b, "light");
    CHECK(ids(b.claim(99)) == Ids{heavy_b, b1, free});
    CHECK(b.store->limit_key("q", "b")->slots_taken == 3);
    CHECK(b.store->limit_key("q", "b")->running == 2);
    CHECK(b.claim(99).empty());
    b.finish(running[0], Complete{});
    CHECK(b.became_available("q"));
    CHECK(ids(b.claim(99)) == Ids{heavy_a});
    b.finish(running[1], Complete{});
    CHECK(ids(b.claim(99)) == Ids{a3});
    CHECK(b.get(b2).state == JobState::available);
    CHECK(b.store->verify()->problems.empty());
  }

  TEST_CASE("the rate of a key counts costs, and keys open one after the other") {
    Bench b;
    QueueLimits limits = heavy(4);
    limits.per_key.rate = RateLimit{6, minutes(1), RateKind::bucket, 0};
    limit(b, limits);
    for (int i = 0; i < 6; ++i) enqueue(b, "light", "a");
    CHECK(b.claim(9).size() == 6);
    CHECK(b.store->limit_key("q", "a")->opens_at == b.wall() + seconds(10));
    const JobId h = enqueue(b, "heavy", "a"), l = enqueue(b, "light", "a");
    CHECK(b.store->agenda().next_opening == b.wall() + seconds(10));
    b.advance(seconds(10));
    open(b);
    CHECK(b.became_available("q"));
    CHECK(b.claim(9).empty());
    CHECK_FALSE(b.store->limit_key("q", "a")->opens_at);
    CHECK(b.store->agenda().next_opening == b.wall() + seconds(30));
    b.advance(seconds(30));
    open(b);
    CHECK(b.became_available("q"));
    CHECK(ids(b.claim(9)) == Ids{h});
    b.advance(seconds(10));
    open(b);
    CHECK(ids(b.claim(9)) == Ids{l});
  }

  TEST_CASE("a job that costs more than its key's limit takes all slots of the key") {
    Bench b;
    QueueLimits limits = heavy(50);
    limits.per_key.concurrency = 2;
    limits.per_key.rate = RateLimit{3, minutes(1), RateKind::sliding, 0};
    limit(b, limits);
    const JobId h = enqueue(b, "heavy", "a"), l = enqueue(b, "light", "a");
    const auto running = b.claim(99);
    CHECK(ids(running) == Ids{h});
    b.finish(running[0], Complete{});
    CHECK(b.claim(99).empty());
    b.advance(minutes(2));
    CHECK(ids(b.claim(99)) == Ids{l});
  }

  TEST_CASE("fair keys: costs count against the share of a key, and a heavy job is not skipped") {
    Bench b;
    QueueLimits limits = at_once(4, 3);
    limits.per_key.fair = true;
    limit(b, limits);
    const JobId heavy_a = enqueue(b, "heavy", "a"), a2 = enqueue(b, "light", "a");
    const JobId b1 = enqueue(b, "light", "b"), b2 = enqueue(b, "light", "b");
    const JobId b3 = enqueue(b, "light", "b"), b4 = enqueue(b, "light", "b");
    Ids order;
    while (true) {
      const auto got = b.claim(1);
      if (got.empty()) break;
      order.push_back(got[0].id);
      b.finish(got[0], Complete{});
    }
    CHECK(order == Ids{heavy_a, b1, b2, b3, a2, b4});
  }

  TEST_CASE("with ageing an old heavy job waits before the younger ones") {
    Bench b;
    QueueLimits limits = at_once(4, 4);
    limits.ageing = seconds(10);
    limit(b, limits);
    const JobId h = enqueue(b, "heavy", "", 9);
    b.advance(minutes(2));
    const JobId l = enqueue(b, "light", "", 0);
    const auto first = b.claim(9);
    CHECK(ids(first) == Ids{h});
    b.finish(first[0], Complete{});
    CHECK(ids(b.claim(9)) == Ids{l});
  }

  TEST_CASE("jobs of sessions count by their cost, claimed from any ready queue") {
    Bench b;
    limit(b, at_once(4, 3));
    NewJob job = b.job();
    job.kind = "heavy", job.session = "s";
    const JobId first = b.enqueue(job);
    job.session = "t";
    b.enqueue(job);
    const auto accept = [&] {
      return b.one<ClaimResult>(Claim{.worker = "w", .queues = {accept_queue("q")}, .kinds = {}});
    };
    const ClaimResult got = accept();
    CHECK(ids(got.jobs) == Ids{first});
    CHECK(got.jobs.at(0).cost == 3);
    CHECK(b.stats().slots_taken == 3);
    CHECK(accept().jobs.empty());
    CHECK(b.claim(9).empty());
    const JobId light = enqueue(b, "light", "", 0);
    CHECK(ids(b.claim(9)) == Ids{light});
    b.finish(got.jobs[0], Complete{});
    CHECK(ids(accept().jobs).size() == 1);
  }

  TEST_CASE("a claim by id of a heavy job is refused without room, and takes its cost") {
    Bench b;
    limit(b, at_once(4, 3));
    enqueue(b, "light"), enqueue(b, "light");
    const auto running = b.claim(2);
    const JobId h = enqueue(b, "heavy");
    const Claim named{.worker = "w", .queues = {"q"}, .kinds = {}, .job = h};
    CHECK(b.refused(named) == ErrorCode::conflict);
    b.finish(running[0], Complete{});
    CHECK(b.one<ClaimResult>(named).jobs.size() == 1);
    CHECK(b.stats().slots_taken == 4);
    enqueue(b, "light");
    CHECK(b.claim(9).empty());
  }

  TEST_CASE("cancelling a heavy job that waits makes the jobs after it available") {
    Bench b;
    limit(b, at_once(4, 4));
    enqueue(b, "light");
    b.claim(1);
    const JobId h = enqueue(b, "heavy"), l = enqueue(b, "light");
    CHECK(b.claim(9).empty());
    b.cancel(h);
    CHECK(b.became_available("q"));
    CHECK(ids(b.claim(9)) == Ids{l});
  }

  TEST_CASE("an expired heavy job does not block the jobs after it") {
    Bench b;
    limit(b, at_once(4, 4));
    enqueue(b, "light");
    b.claim(1);
    NewJob job = b.job();
    job.kind = "heavy";
    job.expires_in = seconds(5);
    b.enqueue(job);
    const JobId l = enqueue(b, "light");
    CHECK(b.claim(9).empty());
    b.advance(seconds(5));
    CHECK(ids(b.claim(9)) == Ids{l});
  }

  TEST_CASE("removing the cost of a kind applies to its running jobs at once") {
    Bench b;
    QueueLimits limits = at_once(6, 4);
    limits.costs["huge"] = 6;
    limit(b, limits);
    enqueue(b, "huge");
    const auto running = b.claim(9);
    CHECK(running.at(0).cost == 6);
    enqueue(b, "light");
    CHECK(b.claim(9).empty());
    limits.costs.erase("huge");
    limit(b, limits);
    CHECK(b.stats().slots_taken == 1);
    CHECK(b.claim(9).size() == 1);
    CHECK(b.store->verify()->problems.empty());
  }
}

}  // namespace mainspring::conformance
