// The history of a broker on a real store, stepped by hand.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "broker/broker.h"
#include "disk_sqlite/sqlite_store.h"

using namespace mainspring;

namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

struct HistoryBed {
  HistoryBed() {
    char name[] = "/tmp/mainspring_test_XXXXXX";
    directory = mkdtemp(name);
    open();
  }
  ~HistoryBed() {
    broker.reset();
    store.reset();
    std::filesystem::remove_all(directory);
  }
  void open() {
    broker.reset();
    store.reset();
    store = std::move(
        *open_sqlite_store({.directory = directory, .reserve_bytes = 0}, clock.now(), log));
    broker = std::make_unique<Broker>(*store, clock, log, registry);
  }
  template <class T>
  T apply(Operation operation) {
    std::optional<OperationResult> got;
    broker->submit(std::move(operation), [&](OperationResult r) { got = std::move(r); });
    broker->step(clock.now());
    REQUIRE(got);
    REQUIRE(std::holds_alternative<T>(*got));
    return std::get<T>(std::move(*got));
  }
  JobId enqueue(NewJob job) { return apply<EnqueueResult>(Enqueue{.jobs = {job}}).jobs.at(0).id; }
  JobId enqueue() { return enqueue({.queue = "q", .kind = "k"}); }
  ClaimedJob claim(const std::string& queue = "q") {
    auto got = apply<ClaimResult>(Claim{.worker = "w", .queues = {queue}, .lease = seconds(30)});
    REQUIRE(got.jobs.size() == 1);
    return got.jobs[0];
  }
  void finish(const ClaimedJob& job, Outcome outcome) {
    apply<FinishResult>(
        Finish{.worker = "w", .results = {{job.id, job.token, std::move(outcome)}}});
  }
  HistoryPoint total(HistoryFilter filter = {}) const {
    const auto history = broker->history(filter);
    REQUIRE_MESSAGE(history, history.error().message);
    return history->total;
  }
  Error refused(const HistoryFilter& filter) const {
    const auto history = broker->history(filter);
    REQUIRE_FALSE(history);
    CHECK(history.error().code == ErrorCode::invalid_argument);
    return history.error();
  }

  std::string directory;
  ManualClock clock;
  NullLog log;
  Registry registry;
  std::unique_ptr<Store> store;
  std::unique_ptr<Broker> broker;
};

// Percentiles are at most 10 % off.
bool about(Duration got, Duration wanted) {
  return got > wanted * 9 / 10 && got < wanted * 11 / 10;
}

}  // namespace

TEST_CASE_FIXTURE(HistoryBed,
                  "history: each stage of a job is counted, with its wait and run time") {
  enqueue();
  clock.advance(seconds(5));
  const ClaimedJob job = claim();
  clock.advance(milliseconds(200));
  finish(job, Complete{});
  finish(job, Complete{});  // repeated: it counts once
  const HistoryPoint all = total();
  CHECK(all.enqueued == 1);
  CHECK(all.started == 1);
  CHECK(all.completed == 1);
  CHECK(all.failed + all.dead + all.cancelled == 0);
  CHECK(all.wait.count == 1);
  CHECK(about(all.wait.p50, seconds(5)));
  CHECK(about(all.run.p99, milliseconds(200)));
  CHECK(total({.queue = "q", .kind = "k"}).completed == 1);
  CHECK(total({.queue = "q", .kind = "l"}).completed == 0);
  CHECK(total({.queue = "r"}).enqueued == 0);
}

TEST_CASE_FIXTURE(HistoryBed, "run times of a queue survive an idle day and a restart") {
  using Source = ServiceTime::Source;
  CHECK(broker->service_time("q")->source == Source::prior);
  enqueue();
  const ClaimedJob job = claim();
  clock.advance(seconds(2));
  finish(job, Complete{});
  clock.advance(seconds(3));  // callers share counts for two seconds
  CHECK(broker->service_time("q")->source == Source::recent);
  clock.advance(hours(24));
  enqueue();  // writes the history
  const auto usual = [&] {
    const auto time = broker->service_time("q");
    REQUIRE(time);
    CHECK(time->source == Source::history);
    CHECK(time->samples == 1);
    CHECK(about(time->mean, seconds(2)));
    const auto queues = broker->queues();
    REQUIRE(queues);
    CHECK(about(queues->front().backlog->service.value_or(Duration(0)), seconds(2)));
    CHECK(about(queues->front().backlog->drain.value_or(Duration(0)), seconds(2)));
  };
  usual();
  open();
  usual();
}

TEST_CASE_FIXTURE(HistoryBed,
                  "history: failures, deaths and cancellations are counted separately") {
  SUBCASE("a failed attempt, and the last one") {
    enqueue({.queue = "q", .kind = "k", .max_attempts = 2});
    finish(claim(), Retry{"no", seconds(1)});
    clock.advance(seconds(1));
    apply<StepResult>(MoveDue{});
    finish(claim(), Retry{"no"});
    CHECK(total().started == 2);
    CHECK(total().failed == 2);
    CHECK(total().dead == 1);
    CHECK(total().run.count == 2);
  }
  SUBCASE("one worker reports dead, another cancelled") {
    enqueue(), enqueue();
    finish(claim(), Dead{"poison", ""});
    finish(claim(), CancelJob{"gone"});
    CHECK(total().failed == 1);
    CHECK(total().dead == 1);
    CHECK(total().cancelled == 1);
  }
  SUBCASE("a caller cancels") {
    const JobId id = enqueue();
    apply<CancelResult>(Cancel{.id = id, .reason = ""});
    apply<CancelResult>(Cancel{.id = id, .reason = ""});
    CHECK(total({.queue = "q", .kind = "k"}).cancelled == 1);
    CHECK(total().failed == 0);
  }
  SUBCASE("a job expires") {
    enqueue({.queue = "q", .kind = "k", .expires_in = seconds(10)});
    clock.advance(seconds(11));
    apply<StepResult>(ExpireJobs{});
    CHECK(total().cancelled == 1);
    CHECK(total().failed == 0);
  }
  SUBCASE("a worker is lost") {
    enqueue({.queue = "q", .kind = "k", .max_attempts = 2});
    const auto lose = [&] {
      const ClaimedJob job = claim();
      clock.advance(seconds(1));
      apply<RenewResult>(Renew{.worker = "w", .leases = {{job.id, job.token}}});
      clock.advance(seconds(31));
      apply<StepResult>(RescueExpired{});
    };
    lose();
    CHECK(total().failed == 1);
    CHECK(total().dead == 0);
    clock.advance(hours(1));
    apply<StepResult>(MoveDue{});
    lose();
    CHECK(total().failed == 2);
    CHECK(total().dead == 1);
  }
  SUBCASE("snoozed and deferred attempts and manual retries are not failures") {
    const JobId id = enqueue();
    finish(claim(), Snooze{seconds(1)});
    apply<RetryResult>(RetryJob{id});
    finish(claim(), Dead{"poison", ""});
    apply<RetryResult>(RetryJob{id});
    CHECK(total().started == 2);
    CHECK(total().failed == 1);
    CHECK(total().enqueued == 1);
  }
}

TEST_CASE_FIXTURE(HistoryBed, "history: follow-up jobs are counted") {
  NewJob first{.queue = "q", .kind = "k"};
  first.reply_to = "replies";
  enqueue(first);
  finish(claim(), Complete{});
  CHECK(total({.queue = "replies"}).enqueued == 1);
  finish(claim("replies"), Complete{});
  CHECK(total({.queue = "replies"}).enqueued == 1);
  CHECK(total({.queue = "replies"}).completed == 1);
  CHECK(total().enqueued == 2);
}

TEST_CASE_FIXTURE(HistoryBed, "history: jobs enqueued before a restart are counted when they end") {
  enqueue(), enqueue();
  const ClaimedJob one = claim(), other = claim();
  open();
  CHECK(total().enqueued == 2);
  CHECK(total().started == 2);
  clock.advance(seconds(2));
  finish(one, Complete{});
  finish(other, Retry{"no"});
  CHECK(total({.queue = "q", .kind = "k"}).completed == 1);
  CHECK(total({.queue = "q", .kind = "k"}).failed == 1);
}

TEST_CASE_FIXTURE(HistoryBed,
                  "history: counts are written with commits, at most once per second, and at a "
                  "clean stop; an idle system commits nothing") {
  const auto stored = [&] {
    const WallTime hour = step_start(clock.now().wall, kHistoryHour);
    return store->history({.from = hour, .to = hour + kHistoryHour}, clock.now().wall)
        ->at(0)
        .enqueued;
  };
  const auto before = store->commits();
  for (int i = 0; i < 10; ++i) enqueue();
  CHECK(store->commits() == before + 10);
  CHECK(stored() == 1);  // the records of the first, with the second
  clock.advance(seconds(1));
  enqueue();
  CHECK(stored() == 10);
  CHECK(total().enqueued == 11);
  const auto commits = store->commits(), reads = store->reads();
  for (int i = 0; i < 100; ++i) {
    clock.advance(minutes(1));
    broker->step(clock.now());
  }
  CHECK(store->commits() == commits);
  CHECK(store->reads() == reads);
  clock.advance(-minutes(100));
  broker->stop();
  CHECK(store->commits() == commits + 1);
  broker->stop();
  CHECK(store->commits() == commits + 1);
  CHECK(stored() == 11);
}

TEST_CASE_FIXTURE(HistoryBed,
                  "history: points are at multiples of the step and start where data starts") {
  enqueue();
  clock.advance(minutes(90));
  enqueue();
  auto history = broker->history({.step = hours(1)});
  REQUIRE(history);
  CHECK(history->from.us() % Duration(hours(1)).count() == 0);
  CHECK(history->points.size() == 25);
  CHECK(history->points.back().enqueued == 1);
  CHECK(history->points[23].enqueued == 1);
  CHECK(history->points[23].at == history->to - hours(2));
  history = broker->history({.from = clock.now().wall - hours(24 * 365)});
  REQUIRE(history);
  CHECK(history->step == hours(24 * 30));
  CHECK(history->from > clock.now().wall - hours(24 * 121));
  CHECK(history->total.enqueued == 2);
  history = broker->history({.from = clock.now().wall - minutes(10), .step = minutes(1)});
  REQUIRE(history);
  CHECK(history->total.enqueued == 1);
  history = broker->history({.to = clock.now().wall - hours(24 * 365)});
  REQUIRE(history);
  CHECK(history->points.empty());
}

TEST_CASE_FIXTURE(HistoryBed,
                  "history: an invalid request is refused with its field and the rule") {
  const WallTime now = clock.now().wall;
  CHECK(refused({.queue = "no spaces"}).field == "queue");
  CHECK(refused({.kind = "no spaces"}).field == "kind");
  CHECK(refused({.step = seconds(30)}).field == "step");
  CHECK(refused({.step = minutes(90)}).field == "step");
  CHECK(refused({.step = hours(24 * 31)}).field == "step");
  CHECK(refused({.from = now, .to = now}).field == "from");
  CHECK(refused({.from = now + hours(1)}).field == "from");
  const Error many = refused({.from = now - hours(47), .step = minutes(1)});
  CHECK(many.field == "step");
  CHECK(many.message.find("2821 points: must be at most 2000") != std::string::npos);
}
