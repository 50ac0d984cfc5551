// Costs of heavy kinds over several nodes of one database, in copies, and nodes too old for them.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "postgres/copy_places.h"
#include "postgres/sql_place.h"

namespace mainspring::pg_testing {
namespace {

using std::chrono::seconds;

QueueLimits costs(int slots) {
  QueueLimits limits;
  limits.concurrency = slots;
  limits.costs = {{"heavy", 4}, {"middling", 2}};
  return limits;
}
NewJob of_kind(const std::string& kind, const std::string& key = "") {
  NewJob job{.queue = "q", .kind = kind};
  job.limit_key = key;
  return job;
}

// The observations of nodes that claim and complete at the same time.
struct Seen {
  std::atomic<int> slots{0}, most{0}, done{0};

  void begin(int cost) {
    const int now = slots += cost;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
  }
  void work(Store& store, int jobs, const Clock& clock) {
    while (done < jobs) {
      const auto given = claim(store, 8, clock);
      for (const ClaimedJob& job : given) begin(job.cost);
      for (const ClaimedJob& job : given) {
        slots -= job.cost;
        const Finish finish{.worker = "w", .results = {{job.id, job.token, Complete{}}}};
        apply<FinishResult>(store, finish, clock);
        ++done;
      }
    }
  }
};

}  // namespace

TEST_CASE("running jobs of three nodes never cost more than the queue's slots") {
  constexpr int kNodes = 3, kJobs = 210, kSlots = 6;
  Place place;
  const char* kinds[] = {"heavy", "light", "middling"};
  for (int i = 0; i < kJobs; ++i) place.enqueue(of_kind(kinds[i % 3]));
  place.apply<Done>(SetQueueLimits{"q", costs(kSlots)});
  Seen seen;
  {
    std::vector<std::jthread> nodes;
    for (int n = 0; n < kNodes; ++n) {
      nodes.emplace_back([&] {
        const auto store = place.open();
        seen.work(*store, kJobs, place.clock);
      });
    }
  }
  CHECK(seen.done == kJobs);
  CHECK(seen.most <= kSlots);
  place.check_invariants();
}

TEST_CASE("costs count what other nodes run, also what they claimed before they were set") {
  Place one;
  for (int i = 0; i < 2; ++i) one.enqueue(of_kind("heavy", "a"));
  const auto other = one.open();
  CHECK(claim(*other, 1, one.clock).size() == 1);
  QueueLimits limits = costs(7);
  limits.per_key.concurrency = 5;
  one.apply<Done>(SetQueueLimits{"q", limits});
  CHECK(must(one.store->queues()).at(0).slots_taken == 4);
  CHECK(must(other->limit_key("q", "a")).slots_taken == 4);
  CHECK(one.claim("q", 9).empty());
  one.apply<Done>(SetQueueLimits{"q", costs(8)});
  CHECK(claim(*other, 9, one.clock).empty());  // it does not know them yet
  other->heard({.queues = {"q"}, .catalog = true});
  CHECK(claim(*other, 9, one.clock).size() == 1);
  CHECK(one.sql("SELECT count(*) FROM ms.running_keys WHERE key = ''").at(0).at(0) == "2");
  one.apply<Done>(SetQueueLimits{"q", {}});
  CHECK(one.sql("SELECT count(*) FROM ms.running_keys").at(0).at(0) == "0");
  one.check_invariants();
}

TEST_CASE("costs of pruned jobs leave no rows") {
  Place place;
  place.apply<Done>(SetQueueLimits{"q", costs(8)});
  for (int i = 0; i < 2; ++i) place.enqueue(of_kind("heavy"));
  for (const ClaimedJob& job : place.claim("q", 9))
    place.apply<FinishResult>(Finish{.worker = "w", .results = {{job.id, job.token, Complete{}}}});
  place.clock.advance(std::chrono::hours(48));
  CHECK(place.apply<StepResult>(PruneJobs{}).changed == 2);
  CHECK(place.sql("SELECT count(*) FROM ms.running_keys").at(0).at(0) == "0");
  place.check_invariants();
}

TEST_CASE("costs, and what runs for them, go with a copy between all kinds of places") {
  const PlaceKind kinds[] = {PlaceKind::directory, PlaceKind::schema, PlaceKind::schema,
                             PlaceKind::directory};
  ManualClock clock;
  std::vector<std::unique_ptr<CopyPlace>> places;
  for (const PlaceKind kind : kinds) places.push_back(std::make_unique<CopyPlace>(kind));
  QueueLimits limits = costs(6);
  limits.rate = RateLimit{8, std::chrono::hours(1), RateKind::sliding, 0};
  {
    const auto store = must(places[0]->open(clock.now()));
    apply<Done>(*store, SetQueueLimits{"q", limits}, clock);
    apply<EnqueueResult>(
        *store, Enqueue{{of_kind("heavy"), of_kind("middling"), of_kind("middling")}}, clock);
    CHECK(claim(*store, 9, clock).size() == 2);
  }
  for (std::size_t i = 1; i < places.size(); ++i) {
    must_copy(*places[i - 1], *places[i], clock);
    const auto store = must(places[i]->open(clock.now()));
    const QueueStats queue = must(store->queues()).at(0);
    CHECK(queue.limits == limits);
    CHECK(queue.slots_taken == 6);
    CHECK(store->agenda().next_opening < clock.now().wall + std::chrono::hours(2));
    CHECK(claim(*store, 9, clock).empty());
  }
}

}  // namespace mainspring::pg_testing
