// Quarantine over several nodes of one database, and in copies.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "postgres/copy_places.h"
#include "postgres/sql_place.h"

namespace mainspring::pg_testing {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

int release(Store& store, const Clock& clock) {
  return apply<StepResult>(store, OpenQueues{}, clock).changed;
}
void complete(Store& store, const ClaimedJob& job, const Clock& clock) {
  const Finish finish{.worker = "w", .results = {{job.id, job.token, Complete{}}}};
  CHECK(apply<FinishResult>(store, finish, clock).results.at(0) == FinishStatus::ok);
}

// A claim whose jobs have started: they were renewed once, within the same lease.
std::vector<ClaimedJob> start(Store& store, ManualClock& clock) {
  std::vector<ClaimedJob> jobs = claim(store, 9, clock);
  Renew renew{.worker = "w", .leases = {}, .lease = kDefaultLease - seconds(1)};
  for (const ClaimedJob& job : jobs) renew.leases.push_back({.id = job.id, .token = job.token});
  CHECK(apply<RenewResult>(store, renew, clock).renewed.size() == jobs.size());
  return jobs;
}

// `jobs` jobs whose workers died twice.
std::vector<JobId> quarantine(Store& leader, ManualClock& clock, int jobs) {
  std::vector<JobId> ids;
  for (int i = 0; i < jobs; ++i) {
    const Enqueue one{.jobs = {NewJob{.queue = "q", .kind = "k"}}};
    ids.push_back(apply<EnqueueResult>(leader, one, clock).jobs.at(0).id);
  }
  for (int i = 0; i < 2; ++i) {
    CHECK(static_cast<int>(start(leader, clock).size()) == jobs);
    clock.advance(kDefaultLease + seconds(1));
    CHECK(apply<StepResult>(leader, RescueExpired{}, clock).changed == jobs);
    clock.advance(minutes(1));
    apply<StepResult>(leader, MoveDue{}, clock);
  }
  return ids;
}

}  // namespace

TEST_CASE("when a released job ends at another node, any leader releases the next one") {
  Place one;
  const auto two = one.open(), three = one.open();
  quarantine(*one.store, one.clock, 3);
  CHECK(claim(*three, 9, one.clock).empty());
  CHECK(release(*one.store, one.clock) == 1);
  three->heard(one.store->take_news());
  const auto first = claim(*three, 9, one.clock);
  REQUIRE(first.size() == 1);
  CHECK(release(*one.store, one.clock) == 0);
  CHECK(one.store->agenda().next_opening <= one.clock.now().wall + seconds(1));
  complete(*three, first[0], one.clock);
  CHECK(must(one.store->queues()).at(0).quarantined == 2);
  one.check_invariants();
  // The next leader knows of it from the versions of its copies, or from its start.
  const auto next = one.open();
  CHECK(next->agenda().next_opening <= one.clock.now().wall);
  (void)must(two->refresh(one.clock.now()));
  CHECK(two->agenda().next_opening <= one.clock.now().wall);
  CHECK(release(*two, one.clock) == 1);
  CHECK(release(*next, one.clock) == 0);
  one.store->heard(two->take_news());
  CHECK(claim(*one.store, 9, one.clock).size() == 1);
  CHECK(release(*one.store, one.clock) == 0);
  one.check_invariants();
}

TEST_CASE("of concurrent claims by id and a leader, exactly one releases a job") {
  Place one;
  const auto two = one.open(), three = one.open();
  for (int round = 0; round < 5; ++round) {
    const std::vector<JobId> jobs = quarantine(*one.store, one.clock, 3);
    std::atomic<int> granted{0};
    const auto name = [&](Store& store, JobId id) {
      const Operation named = Claim{.worker = "w", .queues = {"q"}, .job = id};
      const auto results = must(store.apply({&named, 1}, one.clock.now())).results;
      if (std::holds_alternative<ClaimResult>(results[0])) ++granted;
    };
    std::thread a([&] { name(*two, jobs[0]); });
    std::thread b([&] { name(*three, jobs[1]); });
    granted += release(*one.store, one.clock);
    a.join(), b.join();
    CHECK(granted >= 1);  // a job released by the leader may be claimed by id
    int released = 0;
    for (const JobId id : jobs) released += must(one.store->get(id)).quarantined->released ? 1 : 0;
    CHECK(released == 1);
    one.check_invariants();
    for (const JobId id : jobs) one.apply<CancelResult>(Cancel{id, "", {}});
    for (const ClaimedJob& job : claim(*one.store, 9, one.clock)) complete(*two, job, one.clock);
    one.clock.advance(minutes(1));
    one.apply<StepResult>(RescueExpired{});
    CHECK(must(one.store->queues()).at(0).quarantined == 0);
  }
}

TEST_CASE("claims need not lock a queue that sets nothing but quarantine_after") {
  Place place;
  place.apply<Done>(SetQueueLimits{"q", {.quarantine_after = 1}});
  CHECK(place.sql("SELECT limits IS NULL FROM ms.queues").at(0).at(0) == "t");
}

TEST_CASE("quarantine moves unchanged, with the released job and single losses") {
  for (const PlaceKind kind : {PlaceKind::directory, PlaceKind::schema}) {
    const CopyPlace from(kind),
        to(kind == PlaceKind::schema ? PlaceKind::directory : PlaceKind::schema);
    ManualClock clock(database_time());
    std::vector<Job> before;
    {
      const auto store = must(from.open(clock.now()));
      const auto ids = quarantine(*store, clock, 3);
      apply<Done>(*store, SetQueueLimits{"q", {.quarantine_after = 2}}, clock);
      CHECK(release(*store, clock) == 1);
      const Enqueue one{.jobs = {NewJob{.queue = "q", .kind = "k", .priority = 9}}};
      const JobId once = apply<EnqueueResult>(*store, one, clock).jobs.at(0).id;
      const auto claimed = start(*store, clock);
      REQUIRE(claimed.size() == 2);
      complete(*store, claimed[0], clock);
      clock.advance(kDefaultLease + seconds(1));
      CHECK(apply<StepResult>(*store, RescueExpired{}, clock).changed == 1);
      CHECK(release(*store, clock) == 1);
      for (const JobId id : ids) before.push_back(must(store->get(id)));
      before.push_back(must(store->get(once)));
    }
    must_copy(from, to, clock);
    const auto store = must(to.open(clock.now()));
    for (const Job& job : before) {
      const Job moved = must(store->get(job.id));
      CHECK(moved.state == job.state);
      CHECK(moved.quarantined == job.quarantined);
    }
    CHECK(must(store->queues()).at(0).quarantined == 2);
    CHECK(must(store->queues()).at(0).limits == QueueLimits{.quarantine_after = 2});
    CHECK(must(store->verify()).problems.empty());
    CHECK(release(*store, clock) == 0);
    const auto released = claim(*store, 9, clock);
    REQUIRE(released.size() == 1);
    complete(*store, released[0], clock);
    CHECK(release(*store, clock) == 1);
    clock.advance(minutes(1));
    CHECK(apply<StepResult>(*store, MoveDue{}, clock).changed == 1);
    CHECK(start(*store, clock).size() == 2);
    clock.advance(minutes(1));
    CHECK(apply<StepResult>(*store, RescueExpired{}, clock).changed == 2);
    CHECK(must(store->get(before.back().id)).quarantined->lost == 2);
  }
}

}  // namespace mainspring::pg_testing
