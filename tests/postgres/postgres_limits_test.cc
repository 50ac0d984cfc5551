// Limits of queues over several nodes of one database, and nodes too old for limits or steps.
#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "postgres/copy_places.h"
#include "postgres/sql_place.h"

namespace mainspring::pg_testing {
namespace {

using std::chrono::seconds;

QueueLimits at_once(int n) {
  return {.concurrency = n, .rate = {}};
}
QueueLimits of_each_key(int n) {
  QueueLimits limits;
  limits.per_key.concurrency = n;
  return limits;
}
QueueLimits rate_of_each_key(int count, Duration per) {
  QueueLimits limits;
  limits.per_key.rate = RateLimit{count, per, RateKind::bucket, 0};
  return limits;
}
QueueLimits bucket(int count, Duration per, int burst) {
  return {.concurrency = {}, .rate = RateLimit{count, per, RateKind::bucket, burst}};
}

void fill(Place& place, int jobs) {
  for (int i = 0; i < jobs; ++i) place.enqueue(NewJob{.queue = "q", .kind = "k"});
}
NewJob keyed(const std::string& key) {
  NewJob job{.queue = "q", .kind = "k"};
  job.limit_key = key;
  return job;
}

// The running jobs of each key, as workers see them, and the maximum so far.
class KeyCounts {
 public:
  void begin(const std::string& key) {
    const std::lock_guard lock(mutex_);
    most_ = std::max(most_, ++running_[key]);
  }
  void end(const std::string& key) {
    const std::lock_guard lock(mutex_);
    --running_[key];
  }
  int most() {
    const std::lock_guard lock(mutex_);
    return most_;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, int> running_;
  int most_ = 0;
};

}  // namespace

TEST_CASE("a node that does not know a new limit gives nothing, then no more than the limit") {
  Place one;
  fill(one, 5);
  const auto other = one.open();
  one.apply<Done>(SetQueueLimits{"q", at_once(2)});
  CHECK(claim(*other, 5, one.clock).empty());
  other->heard({.queues = {"q"}, .catalog = true});
  CHECK(claim(*other, 5, one.clock).size() == 2);
  CHECK(one.claim("q", 5).empty());
}

TEST_CASE("nodes that claim and complete at the same time never run more than the limit says") {
  constexpr int kNodes = 3, kJobs = 240, kLimit = 2;
  Place place;
  fill(place, kJobs);
  place.apply<Done>(SetQueueLimits{"q", at_once(kLimit)});
  std::atomic<int> running{0}, most{0}, done{0};
  {
    std::vector<std::jthread> nodes;
    for (int n = 0; n < kNodes; ++n) {
      nodes.emplace_back([&] {
        const auto store = place.open();
        while (done < kJobs) {
          const auto jobs = claim(*store, 3, place.clock);
          const int now = running += static_cast<int>(jobs.size());
          for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
          }
          for (const ClaimedJob& job : jobs) {
            --running;
            const Finish finish{.worker = "w", .results = {{job.id, job.token, Complete{}}}};
            apply<FinishResult>(*store, finish, place.clock);
            ++done;
          }
        }
      });
    }
  }
  CHECK(done == kJobs);
  CHECK(most <= kLimit);
  place.check_invariants();
}

TEST_CASE("nodes that claim and complete at the same time never run more of a key than its bound") {
  constexpr int kNodes = 3, kKeys = 4, kJobs = 200, kLimit = 2;
  Place place;
  place.apply<Done>(SetQueueLimits{"q", of_each_key(kLimit)});
  std::map<JobId, std::string> key_of;
  for (int i = 0; i < kJobs; ++i) {
    const std::string key = "customer " + std::to_string(i % kKeys);
    key_of[place.enqueue(keyed(key))] = key;
  }
  KeyCounts counts;
  std::atomic<int> done{0};
  {
    std::vector<std::jthread> nodes;
    for (int n = 0; n < kNodes; ++n) {
      nodes.emplace_back([&] {
        const auto store = place.open();
        while (done < kJobs) {
          const auto jobs = claim(*store, 5, place.clock);
          for (const ClaimedJob& job : jobs) counts.begin(key_of.at(job.id));
          for (const ClaimedJob& job : jobs) {
            counts.end(key_of.at(job.id));
            const Finish finish{.worker = "w", .results = {{job.id, job.token, Complete{}}}};
            apply<FinishResult>(*store, finish, place.clock);
            ++done;
          }
        }
      });
    }
  }
  CHECK(done == kJobs);
  CHECK(counts.most() == kLimit);
  place.check_invariants();
}

TEST_CASE("nodes that claim at the same time start no more of a key than its rate") {
  constexpr int kNodes = 3, kKeys = 4, kJobs = 100, kRate = 5, kRounds = 3;
  Place place;
  place.apply<Done>(SetQueueLimits{"q", rate_of_each_key(kRate, std::chrono::hours(1))});
  std::map<JobId, std::string> key_of;
  for (int i = 0; i < kJobs; ++i) {
    const std::string key = "customer " + std::to_string(i % kKeys);
    key_of[place.enqueue(keyed(key))] = key;
  }
  std::map<std::string, int> started;
  std::mutex mutex;
  for (int round = 1; round <= kRounds; ++round) {
    {
      std::vector<std::jthread> nodes;
      for (int n = 0; n < kNodes; ++n) {
        nodes.emplace_back([&] {
          const auto store = place.open();
          for (auto jobs = claim(*store, 2, place.clock); !jobs.empty();
               jobs = claim(*store, 2, place.clock)) {
            const std::lock_guard lock(mutex);
            for (const ClaimedJob& job : jobs) ++started[key_of.at(job.id)];
          }
        });
      }
    }
    CHECK(started.size() == kKeys);
    for (const auto& one : started) CHECK_MESSAGE(one.second == round * kRate, one.first);
    place.clock.advance(std::chrono::hours(2));
  }
  place.check_invariants();
}

TEST_CASE("the leader learns from other nodes when a key opens, and wakes waiting claims") {
  Place one;
  one.apply<Done>(SetQueueLimits{"q", rate_of_each_key(1, seconds(10))});
  for (int i = 0; i < 3; ++i) one.enqueue(keyed("a"));
  const auto leader = one.open();
  CHECK(one.claim("q", 9).size() == 1);
  leader->heard({.queues = {}, .catalog = true});
  CHECK(apply<StepResult>(*leader, OpenQueues{}, one.clock).changed == 0);
  CHECK(leader->agenda().next_opening == one.clock.now().wall + seconds(10));
  one.clock.advance(seconds(10));
  const Operation step = OpenQueues{};
  const auto report = must(leader->apply({&step, 1}, one.clock.now()));
  CHECK(report.effects.available == std::vector<std::string>{"q"});
  CHECK(claim(*leader, 9, one.clock).size() == 1);
  CHECK(one.claim("q", 9).empty());
  one.check_invariants();
}

TEST_CASE("only a queue with a rate per key has rows for its keys, and they go when they are old") {
  Place place;
  place.apply<Done>(SetQueueLimits{"q", of_each_key(5)});
  for (const char* key : {"a", "b"}) place.enqueue(keyed(key));
  CHECK(place.claim("q", 9).size() == 2);
  CHECK(place.sql("SELECT count(*) FROM ms.key_meters").at(0).at(0) == "0");
  place.apply<Done>(SetQueueLimits{"q", rate_of_each_key(1, seconds(10))});
  for (const char* key : {"a", "b", "c"}) place.enqueue(keyed(key));
  CHECK(place.claim("q", 9).size() == 3);
  CHECK(place.sql("SELECT count(*) FROM ms.key_meters").at(0).at(0) == "3");
  place.clock.advance(std::chrono::minutes(11));
  place.enqueue(keyed("a"));
  CHECK(place.claim("q", 9).size() == 1);
  CHECK(place.sql("SELECT key FROM ms.key_meters").at(0).at(0) == "a");
  place.apply<Done>(SetQueueLimits{"q", {}});
  CHECK(place.sql("SELECT count(*) FROM ms.key_meters").at(0).at(0) == "0");
  place.check_invariants();
}

TEST_CASE("a limit per key counts what other nodes run, also what they claimed before it was set") {
  Place one;
  const auto other = one.open();
  for (int i = 0; i < 4; ++i) one.enqueue(keyed("a"));
  other->heard({.queues = {"q"}, .catalog = true});
  const auto first = claim(*other, 1, one.clock);
  REQUIRE(first.size() == 1);
  one.apply<Done>(SetQueueLimits{"q", of_each_key(2)});
  CHECK(must(other->limit_key("q", "a")).running == 1);
  CHECK(one.claim("q", 9).size() == 1);
  CHECK(claim(*other, 9, one.clock).empty());
  const Finish finish{.worker = "w", .results = {{first[0].id, first[0].token, Complete{}}}};
  other->heard({.queues = {}, .catalog = true});
  apply<FinishResult>(*other, finish, one.clock);
  CHECK(claim(*other, 9, one.clock).size() == 1);
  CHECK(one.claim("q", 9).empty());
  one.check_invariants();
}

TEST_CASE("a claim moves jobs of a full key out of the way, so the next claim does not read them") {
  Place place;
  place.apply<Done>(SetQueueLimits{"q", of_each_key(1)});
  for (int i = 0; i < 300; ++i) place.enqueue(keyed("a"));
  const JobId other = place.enqueue(keyed("b"));
  CHECK(place.claim("q", 1).size() == 1);
  const auto next = place.claim("q", 1);
  REQUIRE(next.size() == 1);
  CHECK(next[0].id == other);
  CHECK(place.sql("SELECT count(*) FROM ms.ready").at(0).at(0) == "0");
  CHECK(place.sql("SELECT count(*) FROM ms.held_back").at(0).at(0) == "299");
  place.apply<Done>(SetQueueLimits{"q", {}});
  CHECK(place.sql("SELECT count(*) FROM ms.ready").at(0).at(0) == "299");
  CHECK(place
            .sql("SELECT (SELECT count(*) FROM ms.held_back) + (SELECT count(*) FROM "
                 "ms.running_keys)")
            .at(0)
            .at(0) == "0");
  place.check_invariants();
}

TEST_CASE("fair keys are served over all nodes, and what waits is found by its key") {
  Place place;
  QueueLimits limits;
  limits.per_key.fair = true;
  limits.per_key.weights = {{"b", 3}};
  place.apply<Done>(SetQueueLimits{"q", limits});
  std::map<JobId, std::string> key_of;
  for (int i = 0; i < 60; ++i) {
    for (const std::string key : {"a", "b"}) key_of[place.enqueue(keyed(key))] = key;
  }
  const auto other = place.open();
  int of_a = 0;
  for (int n = 1; n <= 60; ++n) {
    const auto jobs = n % 2 == 0 ? place.claim("q", 1) : claim(*other, 1, place.clock);
    REQUIRE(jobs.size() == 1);
    of_a += key_of.at(jobs[0].id) == "a" ? 1 : 0;
    REQUIRE(std::abs(4 * of_a - n) <= 4);
  }
  CHECK(of_a == 15);
  CHECK(place.sql("SELECT count(*) FROM ms.held_back").at(0).at(0) == "60");
  place.check_invariants();
  place.apply<Done>(SetQueueLimits{"q", {}});
  CHECK(place.sql("SELECT count(*) FROM ms.ready").at(0).at(0) == "60");
  CHECK(place.sql("SELECT count(*) FROM ms.fair_keys").at(0).at(0) == "0");
  place.check_invariants();
}

TEST_CASE("ageing and fair keys go with a copy") {
  const CopyPlace from(PlaceKind::directory), to(PlaceKind::schema);
  const ManualClock clock;
  QueueLimits limits;
  limits.per_key.fair = true;
  limits.per_key.weights = {{"acme", 2.5}};
  apply<Done>(*must(from.open(clock.now())), SetQueueLimits{"q", limits}, clock);
  must_copy(from, to, clock);
  CHECK(must(must(to.open(clock.now()))->queues()).at(0).limits == limits);
}

TEST_CASE("keys of pruned jobs leave no rows") {
  Place place;
  place.apply<Done>(SetQueueLimits{"q", of_each_key(1)});
  const JobId cancelled = place.enqueue(keyed("b"));
  place.enqueue(keyed("b"));
  for (int i = 0; i < 5; ++i) place.enqueue(keyed("a" + std::to_string(i)));
  place.apply<CancelResult>(Cancel{cancelled, "", {}});
  for (const ClaimedJob& job : place.claim("q", 9)) {
    place.apply<FinishResult>(Finish{.worker = "w", .results = {{job.id, job.token, Complete{}}}});
  }
  place.clock.advance(std::chrono::hours(24 * 60));
  CHECK(place.apply<StepResult>(PruneJobs{}).changed == 7);
  CHECK(place
            .sql("SELECT (SELECT count(*) FROM ms.held_back) + (SELECT count(*) FROM "
                 "ms.running_keys)")
            .at(0)
            .at(0) == "0");
}

TEST_CASE("jobs started at one node count against the rate at the others") {
  Place one;
  fill(one, 9);
  one.apply<Done>(SetQueueLimits{"q", bucket(6, std::chrono::minutes(1), 3)});
  const auto other = one.open();
  CHECK(one.claim("q", 2).size() == 2);
  CHECK(claim(*other, 9, one.clock).size() == 1);
  CHECK(one.claim("q", 9).empty());
  one.clock.advance(seconds(10));
  CHECK(one.claim("q", 9).size() == 1);
  CHECK(claim(*other, 9, one.clock).empty());
}

TEST_CASE("an opening that another node has made already does not keep the leader busy") {
  Place one;
  fill(one, 9);
  one.apply<Done>(SetQueueLimits{"q", bucket(60, std::chrono::minutes(1), 3)});
  const auto leader = one.open();
  CHECK(claim(*leader, 9, one.clock).size() == 3);
  CHECK(leader->agenda().next_opening == one.clock.now().wall + seconds(1));
  one.clock.advance(seconds(3));
  CHECK(one.claim("q", 1).size() == 1);  // which leaves a slot
  CHECK(apply<StepResult>(*leader, OpenQueues{}, one.clock).changed == 0);
  CHECK(leader->agenda().next_opening == WallTime::never());
  CHECK(leader->has_available("q"));
}

TEST_CASE("limits go with a copy") {
  const CopyPlace from(PlaceKind::directory), to(PlaceKind::schema);
  const ManualClock clock;
  {
    const auto store = must(from.open(clock.now()));
    apply<Done>(*store, SetQueueLimits{"q", at_once(1)}, clock);
  }
  must_copy(from, to, clock);
  CHECK(must(must(to.open(clock.now()))->queues()).at(0).limits == at_once(1));
}

TEST_CASE("the jobs started per key move with a copy, between all kinds of places") {
  const PlaceKind kinds[] = {PlaceKind::directory, PlaceKind::schema, PlaceKind::directory};
  ManualClock clock;
  std::vector<std::unique_ptr<CopyPlace>> places;
  for (const PlaceKind kind : kinds) places.push_back(std::make_unique<CopyPlace>(kind));
  {
    const auto store = must(places[0]->open(clock.now()));
    apply<Done>(*store, SetQueueLimits{"q", rate_of_each_key(1, std::chrono::hours(1))}, clock);
    apply<EnqueueResult>(*store, Enqueue{{keyed("a"), keyed("a"), keyed("b")}}, clock);
    CHECK(claim(*store, 1, clock).size() == 1);
  }
  for (std::size_t i = 1; i < places.size(); ++i) {
    must_copy(*places[i - 1], *places[i], clock);
    const auto store = must(places[i]->open(clock.now()));
    CHECK(must(store->limit_key("q", "a")).opens_at.has_value());
    CHECK(store->agenda().next_opening < clock.now().wall + std::chrono::hours(2));
    if (i == 1) continue;
    CHECK(claim(*store, 9, clock).size() == 1);  // of b
    clock.advance(std::chrono::hours(2));
    CHECK(claim(*store, 9, clock).size() == 1);
  }
}

}  // namespace mainspring::pg_testing
