// Leases and schedules by the client's calls, against a real server: the same as by the broker's.
#include <atomic>
#include <latch>
#include <map>
#include <mutex>
#include <thread>

#include "api/schedule_shapes.h"
#include "broker/broker.h"
#include "client/client.h"
#include "server.h"
#include "worker/worker.h"

using namespace mainspring;
using mainspring::test::Server;
using namespace std::chrono_literals;

namespace {

struct TimingRig {
  Server server;
  SystemRandom random;
  std::unique_ptr<Client> client = make();

  std::unique_ptr<Client> make() {
    auto opened = Client::open(server.client_options(), random);
    REQUIRE(opened.has_value());
    return std::move(*opened);
  }
};

Schedule yearly(std::string name) {
  Schedule schedule;
  schedule.name = std::move(name);
  schedule.cron = "0 0 1 1 *";
  schedule.job = {.queue = "q", .kind = "k"};
  return schedule;
}

std::string text_of(const Result<ScheduleInfo>& info) {
  REQUIRE(info);
  std::string out;
  encode_schedule_info(*info, out);
  return out;
}

}  // namespace

TEST_CASE("a lease by the client's calls, and over a restart of the server") {
  TimingRig rig;
  const auto other = rig.make();
  const auto grant = rig.client->acquire_lease({.name = "a/b", .holder = "one", .ttl = 1h}, 0s, {});
  REQUIRE(grant);
  CHECK(grant->ttl == 1h);
  CHECK(other->acquire_lease({.name = "a/b", .holder = "two"}, 0s, {}).error().code ==
        ErrorCode::lease_held);
  CHECK(rig.client->renew_lease(
      {.name = "a/b", .holder = "one", .token = grant->token, .value = R"({"n":1})"}));

  rig.server.stop();
  rig.server.start();
  const auto kept = rig.client->get_lease("a/b");
  REQUIRE(kept);
  CHECK(kept->holder == "one");
  CHECK(kept->token == grant->token);
  CHECK(kept->value == R"({"n":1})");
  CHECK(rig.client->leases("", 10)->size() >= 1);

  std::latch waiting(1);
  std::jthread waiter([&] {
    waiting.count_down();
    const auto next = other->acquire_lease({.name = "a/b", .holder = "two"}, 30s, {});
    REQUIRE(next);
    CHECK(next->token > grant->token);
    CHECK(next->value == R"({"n":1})");
  });
  waiting.wait();
  CHECK(rig.client->release_lease({.name = "a/b", .holder = "one", .token = grant->token}));
  waiter.join();
  CHECK(rig.client->renew_lease({.name = "a/b", .holder = "one", .token = grant->token})
            .error()
            .code == ErrorCode::lease_lost);
  CHECK(rig.client->acquire_lease({.name = "mainspring/x", .holder = "h"}, 0s, {}).error().code ==
        ErrorCode::invalid_argument);
}

TEST_CASE("the client reports a schedule as the broker does, field by field") {
  TimingRig rig;
  Jobs& here = rig.server.node->broker();
  Schedule schedule = yearly("s/1");
  schedule.job.args = R"({"x": [1, 2]})";
  schedule.job.tags = {"t"};
  schedule.jitter = 10s;
  schedule.max_runs = 9;
  const auto put = rig.client->put_schedule(schedule, std::nullopt);
  REQUIRE(put);
  CHECK(put->outcome == PutOutcome::created);
  CHECK(here.put_schedule(schedule, std::nullopt)->outcome == PutOutcome::unchanged);
  CHECK(rig.client->put_schedule(schedule, std::nullopt)->outcome == PutOutcome::unchanged);
  CHECK(rig.client->get_schedule("s/1")->schedule == schedule);
  CHECK(text_of(rig.client->get_schedule("s/1")) == text_of(here.get_schedule("s/1")));

  const auto fired = rig.client->trigger_schedule("s/1", TickSource::trigger, std::nullopt);
  REQUIRE(fired);
  CHECK(fired->fired == 1);
  const auto skipped = rig.client->trigger_schedule("s/1", TickSource::trigger, std::nullopt);
  REQUIRE(skipped);
  CHECK(skipped->skipped == 1);
  CHECK(skipped->jobs == here.trigger_schedule("s/1", TickSource::trigger, std::nullopt)->jobs);
  CHECK(text_of(rig.client->get_schedule("s/1")) == text_of(here.get_schedule("s/1")));

  const auto rows = rig.client->ledger("s/1", 10, 0);
  const auto same = here.ledger("s/1", 10, 0);
  REQUIRE(rows);
  REQUIRE(rows->rows.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    std::string a, b;
    encode_ledger_row(rows->rows[i], a);
    encode_ledger_row(same->rows[i], b);
    CHECK(a == b);
  }
  CHECK(rig.client->pause_schedule({.name = "s/1", .paused = true, .reason = "r"}));
  CHECK(here.get_schedule("s/1")->paused_reason == "r");
  const WallTime from = *parse_wall_time("2026-01-15T00:00:00Z");
  const auto ticks = rig.client->preview_schedule("s/1", from, 2);
  REQUIRE(ticks);
  CHECK(ticks->at(1).nominal == here.preview_schedule("s/1", from, 2)->at(1).nominal);
  CHECK(ticks->at(0).fires_at == here.preview_schedule("s/1", from, 2)->at(0).fires_at);
  CHECK(rig.client->schedules("", 10)->size() == 1);
  CHECK(rig.client->remove_schedule("s/1"));
  CHECK(here.get_schedule("s/1").error().code == ErrorCode::not_found);
}

TEST_CASE("B1: a job at a time: a schedule of one instant fires once, not before, and has ended") {
  TimingRig rig;
  Schedule schedule = yearly("once");
  schedule.cron.clear();
  schedule.at = rig.server.clock.now().wall + 100ms;
  REQUIRE(rig.client->put_schedule(schedule, std::nullopt));
  const auto claimed = rig.client->claim({.worker = "w", .queues = {"q"}}, 30s, {});
  REQUIRE(claimed);
  REQUIRE(claimed->jobs.size() == 1);
  CHECK(rig.server.clock.now().wall >= *schedule.at);
  const auto info = rig.client->get_schedule("once");
  REQUIRE(info);
  CHECK(info->next == WallTime::never());
  CHECK(info->fired == 1);
  CHECK(rig.client->ledger("once", 10, 0)->rows.size() == 1);
}

TEST_CASE("T8: a delay of the enqueue itself is the other way to run later") {
  TimingRig rig;
  Enqueue enqueue;
  enqueue.jobs.push_back({.queue = "q", .kind = "k"});
  enqueue.jobs[0].delay = 100ms;
  const WallTime before = rig.server.clock.now().wall;
  REQUIRE(rig.client->enqueue(enqueue));
  const auto claimed = rig.client->claim({.worker = "w", .queues = {"q"}}, 30s, {});
  REQUIRE(claimed);
  REQUIRE(claimed->jobs.size() == 1);
  CHECK(rig.server.clock.now().wall >= before + 100ms);
}

TEST_CASE("T5: all consumers share the jobs of a schedule, and each job runs once") {
  TimingRig rig;
  NullLog log;
  Schedule schedule = yearly("s");
  schedule.cron.clear();
  schedule.every = 1h;
  REQUIRE(rig.client->put_schedule(schedule, true));
  const WallTime from = *parse_wall_time("2026-01-01T00:00:00Z");
  constexpr int kTicks = 200;
  const auto filled =
      rig.client->backfill_schedule({"s", from, from + kTicks * 1h, Overlap::allow});
  REQUIRE(filled);
  CHECK(filled->fired == kTicks);

  std::mutex mutex;
  std::map<JobId, int> runs;
  std::latch done(kTicks);
  std::latch both(2);
  const auto second = rig.make();
  WorkerOptions options;
  options.queues = {"q"};
  options.slots = 1;
  std::vector<std::unique_ptr<WorkerRuntime>> workers;
  for (Client* client : {rig.client.get(), second.get()}) {
    workers.push_back(
        std::make_unique<WorkerRuntime>(*client, rig.server.clock, rig.random, log, options));
    workers.back()->on("k",
                       [&, first = std::make_shared<std::once_flag>()](const ClaimedJob& job,
                                                                       Context&) -> HandlerResult {
                         std::call_once(*first,
                                        [&] { both.arrive_and_wait(); });  // neither runs all alone
                         {
                           std::lock_guard lock(mutex);
                           ++runs[job.id];
                         }
                         done.count_down();
                         return Outcome(Complete{});
                       });
    REQUIRE(workers.back()->start().has_value());
  }
  done.wait();
  for (const auto& worker : workers) worker->stop();
  CHECK(runs.size() == kTicks);
  for (const auto& [id, n] : runs) CHECK(n == 1);
}
