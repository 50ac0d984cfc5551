// Packed ready entries: jobs enqueued together share one entry. Packs here have at most three jobs,
// and a claim for two takes a part: see new_place().
#include <future>

#include "postgres/sql_place.h"

namespace mainspring::pg_testing {
namespace {

std::vector<JobId> enqueue_many(Place& place, int count, int priority = NewJob{}.priority) {
  Enqueue op;
  op.jobs.assign(static_cast<std::size_t>(count),
                 NewJob{.queue = "q", .kind = "k", .priority = priority});
  std::vector<JobId> ids;
  for (const EnqueuedJob& job : place.apply<EnqueueResult>(op).jobs) ids.push_back(job.id);
  return ids;
}

std::vector<JobId> claim_ids(Place& place, int max) {
  std::vector<JobId> ids;
  for (const ClaimedJob& job : place.claim("q", max)) ids.push_back(job.id);
  return ids;
}

std::vector<JobId> part(const std::vector<JobId>& ids, std::size_t from, std::size_t to) {
  return {ids.begin() + static_cast<std::ptrdiff_t>(from),
          ids.begin() + static_cast<std::ptrdiff_t>(to)};
}

std::string packs(Place& place) {
  return place.sql("SELECT count(*) FROM ms.packs").at(0).at(0);
}
std::string entries(Place& place) {
  return place.sql("SELECT count(*) FROM ms.ready").at(0).at(0);
}

void wait_for_refresh(Place& place) {
  place.clock.advance(std::chrono::seconds(4));
}

}  // namespace

TEST_CASE("jobs enqueued together are one entry; a large claim takes whole entries and parts") {
  Place place;
  const std::vector<JobId> ids = enqueue_many(place, 8);
  CHECK(packs(place) == "3");
  CHECK(entries(place) == "0");
  CHECK(claim_ids(place, 4) == part(ids, 0, 4));
  CHECK(packs(place) == "2");
  place.check_invariants();
  CHECK(claim_ids(place, 10) == part(ids, 4, 8));
  CHECK(packs(place) == "0");
  place.check_invariants();
}

TEST_CASE("jobs enqueued one by one are separate entries") {
  Place place;
  enqueue_many(place, 1);
  const NewJob job{.queue = "q", .kind = "k"};
  const std::vector<Operation> batch(4, Enqueue{.jobs = {job}});
  must(place.store->apply(batch, place.clock.now()));
  CHECK(packs(place) == "0");
  CHECK(entries(place) == "5");
}

TEST_CASE("claims of few take the jobs of a pack in their order") {
  Place place;
  const std::vector<JobId> ids = enqueue_many(place, 5);
  for (const JobId id : ids) CHECK(claim_ids(place, 1) == std::vector{id});
  CHECK(claim_ids(place, 1).empty());
  CHECK(packs(place) == "0");
  place.check_invariants();
}

TEST_CASE("packs and other entries form one ready queue, by priority and arrival") {
  Place place;
  const std::vector<JobId> first = enqueue_many(place, 3);
  place.clock.advance(std::chrono::milliseconds(1));
  const JobId alone = place.enqueue(NewJob{.queue = "q", .kind = "k"});
  place.clock.advance(std::chrono::milliseconds(1));
  const std::vector<JobId> last = enqueue_many(place, 3);
  const std::vector<JobId> urgent = enqueue_many(place, 2, 1);
  std::vector<JobId> line = urgent;
  line.insert(line.end(), first.begin(), first.end());
  line.push_back(alone);
  line.insert(line.end(), last.begin(), last.end());
  CHECK(must(place.store->ahead(must(place.store->get(alone)), 100)) == 5);
  CHECK(must(place.store->ahead(must(place.store->get(last[1])), 100)) == 7);
  CHECK(claim_ids(place, 7) == part(line, 0, 7));
  CHECK(claim_ids(place, 7) == part(line, 7, 9));
  place.check_invariants();
}

TEST_CASE("a job that left a pack is not claimed with it, and returns as a separate entry") {
  Place place;
  const std::vector<JobId> ids = enqueue_many(place, 6);
  place.apply<CancelResult>(Cancel{.id = ids[0], .reason = ""});
  place.apply<CancelResult>(Cancel{.id = ids[4], .reason = ""});
  place.check_invariants();
  place.clock.advance(std::chrono::milliseconds(1));
  place.apply<RetryResult>(RetryJob{.id = ids[4]});
  place.check_invariants();
  CHECK(claim_ids(place, 10) == std::vector{ids[1], ids[2], ids[3], ids[5], ids[4]});
  CHECK(claim_ids(place, 10).empty());
  CHECK(packs(place) == "0");
  place.check_invariants();
}

TEST_CASE("a job of a pack is claimed by its id") {
  Place place;
  const std::vector<JobId> ids = enqueue_many(place, 3);
  const Claim op{.worker = "w", .queues = {"q"}, .kinds = {}, .job = ids[1]};
  CHECK(place.apply<ClaimResult>(op).jobs.at(0).id == ids[1]);
  place.check_invariants();
  CHECK(claim_ids(place, 10) == std::vector{ids[0], ids[2]});
  place.check_invariants();
}

TEST_CASE("a pack without remaining jobs does not block the jobs after it") {
  Place place;
  for (const JobId id : enqueue_many(place, 9))
    place.apply<CancelResult>(Cancel{.id = id, .reason = ""});
  const std::vector<JobId> ids = enqueue_many(place, 3);
  CHECK(claim_ids(place, 2) == part(ids, 0, 2));
  CHECK(claim_ids(place, 2) == part(ids, 2, 3));
  CHECK(packs(place) == "0");
  const QueueStats stats = must(place.store->queues()).at(0);
  CHECK(!stats.oldest_available);
  place.check_invariants();
}

TEST_CASE("a claim skips a locked job of a pack, and that job is not lost") {
  Place place;
  const std::vector<JobId> ids = enqueue_many(place, 6);
  PgConnection other = Place::connect();
  must(other.sql("BEGIN"));
  must(other.sql(
      place.named("SELECT id FROM ms.jobs WHERE id = " + std::to_string(ids[1]) + " FOR UPDATE")));
  CHECK(claim_ids(place, 10) == std::vector{ids[0], ids[2], ids[3], ids[4], ids[5]});
  place.check_invariants();
  must(other.sql("ROLLBACK"));
  wait_for_refresh(place);
  must(place.store->refresh(place.clock.now()));
  CHECK(claim_ids(place, 10) == std::vector{ids[1]});
  place.check_invariants();
}

TEST_CASE("touched jobs of a pack before the read position of claims are found again") {
  Place place;
  const std::vector<JobId> ids = enqueue_many(place, 3);
  place.sql("SELECT id FROM ms.jobs WHERE id = " + std::to_string(ids[0]) + " FOR UPDATE");
  place.clock.advance(std::chrono::seconds(1));
  const std::vector<JobId> later = enqueue_many(place, 9);
  place.clock.advance(std::chrono::seconds(1));
  CHECK(claim_ids(place, 4) == std::vector{ids[0], ids[1], ids[2], later[0]});
  CHECK(claim_ids(place, 20) == part(later, 1, 9));
  CHECK(packs(place) == "0");
  place.check_invariants();
}

TEST_CASE("a pack goes with its last job, although another one left it before") {
  Place place;
  const std::vector<JobId> ids = enqueue_many(place, 3);
  place.apply<CancelResult>(Cancel{.id = ids[1], .reason = ""});
  place.apply<RetryResult>(RetryJob{.id = ids[1]});
  CHECK(claim_ids(place, 10).size() == 3);
  CHECK(packs(place) == "0");
  place.check_invariants();
}

TEST_CASE("a job of a pack that was touched and released keeps its place in the ready queue") {
  Place place;
  const std::vector<JobId> ids = enqueue_many(place, 6);
  place.sql("SELECT id FROM ms.jobs WHERE id = " + std::to_string(ids[1]) + " FOR UPDATE");
  CHECK(claim_ids(place, 3) == part(ids, 0, 3));
  place.check_invariants();
  CHECK(claim_ids(place, 10) == part(ids, 3, 6));
  CHECK(packs(place) == "0");
  place.check_invariants();
}

TEST_CASE("a claim passes over a pack that another node takes from, and comes back for the rest") {
  Place place;
  const std::vector<JobId> ids = enqueue_many(place, 6);
  PgConnection other = Place::connect();
  must(other.sql("BEGIN"));
  must(other.sql(place.named("SELECT 1 FROM ms.packs WHERE first = " + std::to_string(ids[0]) +
                             " FOR UPDATE")));
  CHECK(claim_ids(place, 10) == part(ids, 3, 6));
  CHECK(claim_ids(place, 1).empty());
  must(other.sql("ROLLBACK"));
  wait_for_refresh(place);
  const ChangeHints heard = must(place.store->refresh(place.clock.now()));
  CHECK(heard.queues == std::vector<std::string>{"q"});
  CHECK(claim_ids(place, 10) == part(ids, 0, 3));
  place.check_invariants();
}

TEST_CASE("a transaction that names a job of a pack blocks claims until it ends, then notifies") {
  Place place;
  const std::vector<JobId> ids = enqueue_many(place, 3);
  PgConnection other = Place::connect();
  must(other.sql("BEGIN"));
  must(other.sql(
      place.named("SELECT id FROM ms.jobs WHERE id = " + std::to_string(ids[1]) + " FOR UPDATE")));
  const auto canceller = place.open();
  auto cancelled = std::async(std::launch::async, [&] {
    return apply<CancelResult>(*canceller, Cancel{.id = ids[1], .reason = ""}, place.clock).state;
  });
  await_waiting_for_a_lock();
  CHECK(claim_ids(place, 10).empty());
  must(other.sql("ROLLBACK"));
  CHECK(cancelled.get() == JobState::cancelled);
  const ChangeHints news = canceller->take_news();
  CHECK(news.queues == std::vector<std::string>{"q"});
  place.store->heard(news);
  CHECK(claim_ids(place, 10) == std::vector{ids[0], ids[2]});
  place.check_invariants();
}

TEST_CASE("a claim that takes part of a pack notifies nodes that may have skipped it") {
  Place place;
  enqueue_many(place, 3);
  place.store->take_news();
  place.claim("q", 2);
  CHECK(place.store->take_news().queues == std::vector<std::string>{"q"});
  place.claim("q", 2);
  CHECK(place.store->take_news().queues.empty());
}

TEST_CASE("another node claims jobs from packs, of several queues too") {
  Place place;
  const std::vector<JobId> ids = enqueue_many(place, 4);
  const auto other = place.open();
  CHECK(claim(*other, 3, place.clock, {"q", "elsewhere"}).size() == 3);
  CHECK(claim(*other, 3, place.clock).size() == 1);
  place.check_invariants();
}

TEST_CASE("a new limit of a queue applies to jobs in packs and keeps their order") {
  Place place;
  const std::vector<JobId> ids = enqueue_many(place, 7);
  place.apply<Done>(SetQueueLimits{.queue = "q", .limits = {.concurrency = 2}});
  CHECK(claim_ids(place, 10) == part(ids, 0, 2));
  CHECK(claim_ids(place, 10).empty());
  place.apply<Done>(SetQueueLimits{.queue = "q", .limits = {}});
  CHECK(claim_ids(place, 10) == part(ids, 2, 7));
  place.check_invariants();
}

TEST_CASE("verify reports a job that is in the ready queue twice, and one that is missing") {
  Place place;
  const std::vector<JobId> ids = enqueue_many(place, 2);
  place.sql(
      "INSERT INTO ms.ready (queue, priority, kind, run_at, id, expires_at) SELECT queue, "
      "priority, kind, run_at, id, 0 FROM ms.jobs WHERE id = " +
      std::to_string(ids[0]));
  CHECK(must(place.store->verify()).problems.size() == 1);
  place.sql("DELETE FROM ms.packs");
  CHECK(must(place.store->verify()).problems.size() == 1);
  place.sql("DELETE FROM ms.ready");
  CHECK(must(place.store->verify()).problems.size() == 1);
}

}  // namespace mainspring::pg_testing
