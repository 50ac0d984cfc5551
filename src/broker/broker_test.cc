// The broker batches, parks and wakes; on a real store, stepped by hand.
#include "broker/broker.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <thread>

#include "disk_sqlite/sqlite_store.h"
#include "model/schedule.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

// Receives the answer of a claim. Shared with the callback, which may outlive the test's scope.
struct Got {
  std::shared_ptr<std::optional<ClaimResult>> slot = std::make_shared<std::optional<ClaimResult>>();
  explicit operator bool() const { return slot->has_value(); }
  ClaimResult* operator->() const { return &**slot; }
};

struct Fixture {
  Fixture() {
    char name[] = "/tmp/mainspring_test_XXXXXX";
    directory = mkdtemp(name);
    store = std::move(
        *open_sqlite_store({.directory = directory, .reserve_bytes = 0}, clock.now(), log));
    broker = std::make_unique<Broker>(*store, clock, log, registry);
  }
  ~Fixture() {
    broker.reset();
    store.reset();
    std::filesystem::remove_all(directory);
  }
  Instant step() { return broker->step(clock.now()); }
  static Enqueue jobs(int count, std::string queue = "default", std::string kind = "work") {
    Enqueue enqueue;
    enqueue.jobs.assign(static_cast<std::size_t>(count),
                        NewJob{.queue = std::move(queue), .kind = std::move(kind)});
    return enqueue;
  }
  // Parks a claim; its jobs land in `got` when it is answered.
  Broker::ParkId park(std::string worker, Got& got, int max = 1,
                      std::vector<std::string> kinds = {}, Duration wait = 20s) {
    return broker->submit_claim(
        {.worker = std::move(worker), .queues = {"default"}, .kinds = std::move(kinds), .max = max},
        wait,
        [slot = got.slot](OperationResult r) { *slot = std::get<ClaimResult>(std::move(r)); });
  }
  std::string directory;
  ManualClock clock;
  NullLog log;
  Registry registry;
  std::unique_ptr<Store> store;
  std::unique_ptr<Broker> broker;
};

const auto ignore = [](OperationResult) {};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "requests that arrive together share one commit") {
  const auto before = store->commits();
  for (int i = 0; i < 50; ++i) broker->submit(jobs(2), ignore);
  step();
  CHECK(store->commits() == before + 1);
  CHECK(store->queues()->at(0).enqueued == 100);
}

TEST_CASE_FIXTURE(Fixture, "the engine's own claims are not counted as waiting claims") {
  const auto none = [](const OperationResult&) {};
  broker->submit_claim(Claim{.worker = "own", .queues = {"mainspring.callbacks"}}, 20s, none);
  broker->submit_claim(Claim{.worker = "w", .queues = {"q"}}, 20s, none);
  broker->step(clock.now());
  CHECK(broker->parked_claims() == 1);
  clock.advance(20s);
  broker->step(clock.now());
  CHECK(broker->parked_claims() == 0);
}

TEST_CASE_FIXTURE(Fixture, "a job that copies the headers of a step's job does not get its key") {
  const std::string copied = R"({"mainspring-idempotency-key":"ms-w1-1-ab","trace":"1"})";
  Got got;
  park("w", got);
  broker->submit(Enqueue{.jobs = {NewJob{.kind = "work", .headers = copied}}}, ignore);
  step();
  REQUIRE(got);
  CHECK(got->jobs.at(0).headers == R"({"trace":"1"})");
}

TEST_CASE_FIXTURE(Fixture, "a parked claim gets its job in the commit that enqueues it") {
  Got got;
  park("w", got);
  step();
  CHECK_FALSE(got);
  CHECK(broker->parked_claims() == 1);
  const auto before = store->commits();
  broker->submit(jobs(1), ignore);
  step();
  REQUIRE(got);
  CHECK(got->jobs.size() == 1);
  CHECK(store->commits() == before + 1);
}

TEST_CASE_FIXTURE(Fixture, "one parked claim wakes per job, the longest waiting first") {
  Got got[4];
  for (int i = 0; i < 4; ++i) park("w" + std::to_string(i), got[i]);
  step();
  broker->submit(jobs(2), ignore);
  while (step() == clock.now().instant) {
  }
  CHECK(got[0]->jobs.size() == 1);
  CHECK(got[1]->jobs.size() == 1);
  CHECK_FALSE(got[2]);
  CHECK_FALSE(got[3]);
}

TEST_CASE_FIXTURE(Fixture,
                  "a claim for another kind stays parked and does not delay the right one") {
  Got other, right;
  park("a", other, 1, {"mail"});
  park("b", right, 1, {"work"});
  step();
  broker->submit(jobs(1), ignore);
  while (step() == clock.now().instant) {
  }
  CHECK_FALSE(other);
  REQUIRE(right);
  CHECK(right->jobs.size() == 1);
}

TEST_CASE_FIXTURE(Fixture,
                  "a job that a failed attempt or a resume makes available wakes a parked claim") {
  Got first, second, third;
  park("a", first);
  broker->submit(jobs(1), ignore);
  step();
  REQUIRE(first);
  park("b", second);
  step();
  const auto& job = first->jobs.at(0);
  broker->submit(
      Finish{.worker = "a", .results = {{job.id, job.token, Retry{.error = "x", .after = 0s}}}},
      ignore);
  while (step() == clock.now().instant) {
  }
  REQUIRE(second);
  CHECK(second->jobs.at(0).attempt == 2);

  broker->submit(PauseQueue{.queue = "default", .paused = true}, ignore);
  broker->submit(jobs(1), ignore);
  step();
  park("c", third);
  step();
  CHECK_FALSE(third);
  broker->submit(PauseQueue{.queue = "default", .paused = false}, ignore);
  while (step() == clock.now().instant) {
  }
  REQUIRE(third);
  CHECK(third->jobs.size() == 1);
}

TEST_CASE_FIXTURE(Fixture,
                  "a parked claim ends empty when its wait is over, and when it is abandoned") {
  Got waited, abandoned;
  park("a", waited, 1, {}, 5s);
  const auto id = park("b", abandoned, 1, {}, 60s);
  CHECK(step() == clock.now().instant + 5s);
  clock.advance(5s);
  step();
  REQUIRE(waited);
  CHECK(waited->jobs.empty());
  broker->abandon(id);
  step();
  REQUIRE(abandoned);
  CHECK(broker->parked_claims() == 0);
}

TEST_CASE_FIXTURE(Fixture, "an idle broker with parked claims makes no store transactions") {
  Got got[100];
  for (auto& g : got) park("w", g, 1, {}, 60s);
  step();
  const auto before = store->commits();
  for (int i = 0; i < 50; ++i) {
    clock.advance(1s);
    step();
  }
  CHECK(store->commits() == before);
}

TEST_CASE_FIXTURE(Fixture,
                  "a worker learns from its parked claim that a running job is cancelled") {
  Got first, second;
  park("w", first);
  broker->submit(jobs(1), ignore);
  step();
  park("w", second);
  step();
  broker->submit(Cancel{.id = first->jobs.at(0).id, .reason = "no more"}, ignore);
  step();
  REQUIRE(second);
  CHECK(second->cancel == std::vector<JobId>{first->jobs[0].id});
}

TEST_CASE_FIXTURE(Fixture,
                  "metrics show outcomes and durations per queue, counts and the oldest age") {
  Got first;
  park("w", first, 2);
  broker->submit(jobs(3), ignore);
  step();
  REQUIRE(first->jobs.size() == 2);
  clock.advance(2s);
  const auto& a = first->jobs.at(0);
  const auto& b = first->jobs.at(1);
  broker->submit(
      Finish{.worker = "w",
             .results = {{a.id, a.token, Complete{}}, {b.id, b.token, Retry{.error = "x"}}}},
      ignore);
  step();
  const std::string text = registry.render();
  for (const char* line : {
           "mainspring_attempts_total{queue=\"default\",outcome=\"complete\"} 1\n",
           "mainspring_attempts_total{queue=\"default\",outcome=\"retry\"} 1\n",
           "mainspring_attempt_seconds_sum{queue=\"default\",outcome=\"complete\"} 2\n",
           "mainspring_queue_jobs{queue=\"default\",state=\"available\"} 1\n",
           "mainspring_queue_jobs{queue=\"default\",state=\"completed\"} 1\n",
           "mainspring_queue_oldest_available_seconds{queue=\"default\"} 2\n",
       }) {
    CHECK_MESSAGE(text.find(line) != std::string::npos, line);
  }
}

TEST_CASE("beyond its limits the broker refuses new work but accepts finishes") {
  Fixture f;
  Broker small(*f.store, f.clock, f.log, f.registry, {.max_waiting_jobs = 10});
  std::optional<OperationResult> refused, finished;
  small.submit(Fixture::jobs(10), ignore);
  small.submit(Fixture::jobs(1), [&](OperationResult r) { refused = std::move(r); });
  REQUIRE(refused);
  CHECK(std::get<Error>(*refused).code == ErrorCode::overloaded);
  CHECK(std::get<Error>(*refused).retry_after_ms > 0);
  small.submit(Finish{.worker = "w", .results = {{1, 1, Complete{}}}},
               [&](OperationResult r) { finished = std::move(r); });
  small.step(f.clock.now());
  REQUIRE(finished);
  CHECK(std::holds_alternative<FinishResult>(*finished));
}

TEST_CASE_FIXTURE(Fixture,
                  "while changes are refused, leases are renewed but messages are not accepted") {
  NewJob job{.kind = "work"};
  job.reply_to = "answers";
  broker->submit(Enqueue{.jobs = {job}}, ignore);
  Got got;
  park("w", got);
  step();
  REQUIRE(got);
  Renewal renewal{.id = got->jobs.at(0).id, .token = got->jobs.at(0).token};
  const auto renew = [&] {
    std::optional<OperationResult> answer;
    broker->submit(Renew{.worker = "w", .leases = {renewal}},
                   [&](OperationResult result) { answer = std::move(result); });
    step();
    REQUIRE(answer);
    return *answer;
  };
  renewal.messages = {"1"};
  CHECK(std::get<RenewResult>(renew()).renewed.size() == 1);
  CHECK(store->has_available("answers"));
  broker->hold("a standby is away");
  CHECK(std::get<Error>(renew()).code == ErrorCode::unavailable);
  renewal.messages.clear();
  CHECK(std::get<RenewResult>(renew()).renewed.size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "blocking calls from many threads are all answered") {
  SystemClock real;
  Broker live(*store, real, log, registry);
  live.start();
  std::vector<std::jthread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) REQUIRE(live.enqueue(jobs(1)));
    });
  }
  threads.clear();
  CHECK(store->queues()->at(0).enqueued == 1600);
  auto got = live.claim({.worker = "w", .queues = {"default"}, .max = 1000}, 0s, {});
  REQUIRE(got);
  CHECK(got->jobs.size() == 1000);
  std::stop_source source;
  source.request_stop();
  CHECK(live.claim({.worker = "w", .queues = {"empty"}}, 60s, source.get_token())->jobs.empty());
  live.stop();
  live.stop();
  CHECK(live.enqueue(jobs(1)).error().code == ErrorCode::unavailable);
}

TEST_CASE_FIXTURE(Fixture, "waiting for a job ends when it becomes terminal") {
  SystemClock real;
  Broker live(*store, real, log, registry);
  live.start();
  const JobId id = live.enqueue(jobs(1))->jobs.at(0).id;
  std::jthread worker([&] {
    auto got = live.claim({.worker = "w", .queues = {"default"}}, 10s, {});
    REQUIRE(live.finish({.worker = "w", .results = {{id, got->jobs.at(0).token, Complete{"7"}}}}));
  });
  auto job = live.wait(id, 60s, {});
  REQUIRE(job);
  CHECK(job->state == JobState::completed);
  CHECK(job->result == "7");
}

TEST_CASE_FIXTURE(Fixture, "the end of a watched job is reported") {
  SystemClock real;
  Broker live(*store, real, log, registry);
  live.start();
  const JobId id = live.enqueue(jobs(1))->jobs.at(0).id;
  std::promise<void> ended;
  live.watch(id, [&] { ended.set_value(); });
  const auto got = live.claim({.worker = "w", .queues = {"default"}}, 10s, {});
  REQUIRE(live.finish({.worker = "w", .results = {{id, got->jobs.at(0).token, Complete{"7"}}}}));
  CHECK(ended.get_future().wait_for(30s) == std::future_status::ready);
  CHECK(live.watches() == 0);
}

TEST_CASE_FIXTURE(Fixture, "a finish and the claim that follows it are one commit") {
  constexpr int kJobs = 300;
  SystemClock real;
  Broker live(*store, real, log, registry);
  live.start();
  REQUIRE(live.enqueue(jobs(kJobs + 1)));
  const Claim one{.worker = "w", .queues = {"default"}, .max = 1};
  auto got = live.claim(one, 0s, {});
  REQUIRE(got);
  ClaimedJob job = got->jobs.at(0);
  const auto before = store->commits();
  for (int i = 0; i < kJobs; ++i) {
    std::promise<ClaimResult> next;
    live.submit_with_claim(
        Broker::Submission{
            .operation = Finish{.worker = "w", .results = {{job.id, job.token, Complete{}}}},
            .answer = ignore},
        one, 0s, {.answer = [&](OperationResult result) {
          next.set_value(std::get<ClaimResult>(std::move(result)));
        }});
    job = next.get_future().get().jobs.at(0);
  }
  CHECK(store->commits() - before == kJobs);
  live.stop();
}

// An empty claim has three steps: look, park, wait. A job that arrives between any two of them,
// in the same batch as the claim or in its own, goes to the claim.
TEST_CASE_FIXTURE(Fixture,
                  "W3: a job that arrives between an empty claim and its parking is found") {
  enum Act : int { claims, enqueues, steps };
  std::vector<int> acts = {claims, enqueues, steps, steps, steps};
  int orders = 0;
  do {
    Got got;
    for (const int act : acts) {
      if (act == claims) park("w", got);
      if (act == enqueues) broker->submit(jobs(1), ignore);
      if (act == steps) step();
    }
    while (step() <= clock.now().instant) {
    }
    CAPTURE(acts);
    REQUIRE(got);
    REQUIRE(got->jobs.size() == 1);
    CHECK(broker->parked_claims() == 0);
    broker->submit(
        Finish{.worker = "w", .results = {{got->jobs[0].id, got->jobs[0].token, Complete{}}}},
        ignore);
    step();
    ++orders;
  } while (std::next_permutation(acts.begin(), acts.end()));
  CHECK(orders == 20);
}

TEST_CASE_FIXTURE(Fixture, "a parked claim gets a due job in the commit that moves it") {
  Enqueue later = jobs(1);
  later.jobs[0].delay = 10s;
  broker->submit(later, ignore);
  step();
  Got got;
  park("w", got);
  step();
  clock.advance(10s);
  const auto before = store->commits();
  broker->submit(MoveDue{}, ignore);
  step();
  REQUIRE(got);
  CHECK(got->jobs.size() == 1);
  CHECK(store->commits() == before + 1);
}

TEST_CASE_FIXTURE(Fixture, "an empty claim gets the jobs that the end of its batch makes") {
  Trigger after{.name = "after", .ended = EndedSource{.queue = "source"}};
  after.job = NewJob{.queue = "default", .kind = "after"};
  broker->submit(PutTrigger{.trigger = after}, ignore);
  Enqueue keyed = jobs(1);
  keyed.idempotency_key = "once";
  broker->submit(keyed, ignore);
  broker->submit(jobs(1, "source"), ignore);
  std::optional<ClaimResult> source;
  broker->submit_claim({.worker = "s", .queues = {"source", "default"}, .max = 2}, 20s,
                       [&](OperationResult r) { source = std::get<ClaimResult>(std::move(r)); });
  step();
  REQUIRE(source);
  REQUIRE(source->jobs.size() == 2);
  Got got;
  park("w", got);
  step();
  REQUIRE(broker->parked_claims() == 1);

  // The repeat wakes the claim without a job. The trigger fires after all operations.
  const ClaimedJob& job = source->jobs[source->jobs[0].queue == "source" ? 0 : 1];
  broker->submit(Finish{.worker = "s", .results = {{job.id, job.token, Complete{}}}}, ignore);
  broker->submit(keyed, ignore);
  while (step() == clock.now().instant) {
  }
  REQUIRE(got);
  REQUIRE(got->jobs.size() == 1);
  CHECK(got->jobs[0].kind == "after");
}

TEST_CASE_FIXTURE(Fixture, "a worker's details are kept between claims and replaced by new ones") {
  const auto facts = std::make_shared<const WorkerFacts>(
      WorkerFacts{.host = "web-7", .pid = 11, .version = "v1", .language = "C++", .slots = 4});
  Claim claim{.worker = "w", .queues = {"default"}};
  claim.facts = facts;
  broker->submit(claim, ignore);
  step();
  REQUIRE(broker->workers()->size() == 1);
  CHECK(broker->workers()->at(0).facts == *facts);
  claim.facts = nullptr;
  broker->submit(claim, ignore);
  step();
  CHECK(broker->workers()->at(0).facts == *facts);
  claim.facts = std::make_shared<const WorkerFacts>(WorkerFacts{.version = "v2"});
  broker->submit(claim, ignore);
  step();
  CHECK(broker->workers()->at(0).facts.version == "v2");
  CHECK(broker->workers()->at(0).facts.host.empty());
}

TEST_CASE_FIXTURE(Fixture, "a worker with a long lease stays listed until the lease is over") {
  broker->submit(jobs(1), ignore);
  step();
  broker->submit(Claim{.worker = "long", .queues = {"default"}, .lease = 2h}, ignore);
  broker->submit(Claim{.worker = "idle", .queues = {"other"}}, ignore);
  step();
  CHECK(broker->workers()->size() == 2);
  clock.advance(30min);
  step();
  REQUIRE(broker->workers()->size() == 1);
  CHECK(broker->workers()->at(0).id == "long");
  CHECK(broker->workers()->at(0).running == 1);
  clock.advance(91min);
  step();
  CHECK(broker->workers()->empty());
}

TEST_CASE_FIXTURE(Fixture, "a worker that was killed has no running jobs after their lease") {
  broker->submit(jobs(1), ignore);
  step();
  broker->submit(Claim{.worker = "killed", .queues = {"default"}, .lease = 30s}, ignore);
  step();
  clock.advance(29s);
  CHECK(broker->workers()->at(0).running == 1);
  clock.advance(1s);
  CHECK(broker->workers()->at(0).running == 0);
}

TEST_CASE_FIXTURE(Fixture, "a job that a renewal reports as lost no longer counts as running") {
  broker->submit(jobs(2), ignore);
  step();
  Got got;
  park("w", got, 2);
  step();
  REQUIRE(got);
  REQUIRE(got->jobs.size() == 2);
  const ClaimedJob &kept = got->jobs[0], &lost = got->jobs[1];
  CHECK(broker->workers()->at(0).running == 2);
  broker->submit(Renew{.worker = "w", .leases = {{kept.id, kept.token}, {lost.id, lost.token + 9}}},
                 ignore);
  step();
  CHECK(broker->workers()->at(0).running == 1);
}

TEST_CASE_FIXTURE(Fixture,
                  "next ticks leave out paused schedules and those without remaining runs") {
  const auto put = [&](const std::string& name, Duration every) {
    Schedule schedule{.name = name};
    schedule.every = every;
    schedule.job = NewJob{.queue = name, .kind = "k"};
    return schedule;
  };
  Schedule twice = put("twice", 1h);
  twice.max_runs = 2;
  REQUIRE(broker->put_schedule(twice, std::nullopt));
  REQUIRE(broker->put_schedule(put("paused", 1h), true));
  REQUIRE(broker->put_schedule(put("hourly", 1h), std::nullopt));
  const auto upcoming = broker->upcoming(6h, 100, {});
  REQUIRE(upcoming);
  CHECK_FALSE(upcoming->truncated);
  const auto of = [&](std::string_view name) {
    return std::count_if(upcoming->ticks.begin(), upcoming->ticks.end(),
                         [&](const UpcomingTick& tick) { return tick.schedule == name; });
  };
  CHECK(of("twice") == 2);
  CHECK(of("paused") == 0);
  CHECK(of("hourly") >= 5);
  const auto scopes = std::make_shared<const Scopes>(*Scopes::parse("read=hourly"));
  const auto visible = broker->upcoming(6h, 100, {scopes, Verb::read});
  REQUIRE(visible);
  for (const UpcomingTick& tick : visible->ticks) CHECK(tick.schedule == "hourly");
  CHECK(broker->upcoming(6h, 3, {})->truncated);
  CHECK(broker->upcoming(8 * 24h, 3, {}).error().field == "within");
  CHECK(broker->upcoming(1h, 0, {}).error().field == "limit");
}

TEST_CASE_FIXTURE(Fixture, "next ticks are those that fire in the time, with their jitter") {
  Schedule schedule{.name = "late"};
  schedule.cron = "0 * * * *";
  schedule.jitter = 59min;
  schedule.job = NewJob{.queue = "q", .kind = "k"};
  const Duration jitter = jitter_of(schedule);
  REQUIRE(jitter > 2min);
  REQUIRE(jitter < 58min);
  REQUIRE(broker->put_schedule(schedule, std::nullopt));
  const WallTime tick = next_tick(schedule, clock.now().wall).nominal;
  const auto shown = [&](Duration within) {
    std::vector<WallTime> nominal;
    const auto upcoming = broker->upcoming(within, 100, {});
    REQUIRE(upcoming);
    for (const UpcomingTick& one : upcoming->ticks) nominal.push_back(one.nominal);
    return nominal;
  };
  using Ticks = std::vector<WallTime>;
  clock.advance(tick + 1min - clock.now().wall);  // it is pending until its jitter is over
  CHECK(shown(1h) == Ticks{tick});
  CHECK(shown(2h) == Ticks{tick, tick + 1h});
  CHECK(shown(jitter - 1min).empty());  // the window ends just before it fires
  CHECK(shown(jitter - 1min + 1s) == Ticks{tick});
  REQUIRE(broker->pause_schedule({"late", true, ""}));
  CHECK(shown(1h).empty());
  REQUIRE(broker->pause_schedule({"late", false, ""}));
  CHECK(shown(1h).empty());  // the tick passed during the pause
  CHECK(shown(2h) == Ticks{tick + 1h});
}
