// Due jobs and due ticks as the leader handles them, on a real store and a manual clock.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "broker/broker.h"
#include "broker/schedule_plans.h"
#include "disk_sqlite/sqlite_store.h"
#include "env/time_zone.h"
#include "scheduler/scheduler.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

struct Timed {
  explicit Timed(SchedulerOptions options = {.batch = 3}) {
    char name[] = "/tmp/mainspring_test_XXXXXX";
    directory = mkdtemp(name);
    store = std::move(
        *open_sqlite_store({.directory = directory, .reserve_bytes = 0}, clock.now(), log));
    broker = std::make_unique<Broker>(*store, clock, log, registry);
    scheduler = std::make_unique<Scheduler>(*broker, clock, log, registry, std::move(options));
    settle();
  }
  ~Timed() {
    scheduler.reset();
    broker.reset();
    store.reset();
    std::filesystem::remove_all(directory);
  }
  Instant settle() {
    while (true) {
      const auto commits = store->commits();
      Instant next = Instant::never();
      for (int round = 0; round < 3; ++round)
        next = std::min(broker->step(clock.now()), scheduler->step(clock.now()));
      if (next > clock.now().instant && store->commits() == commits) return next;
    }
  }
  void run_for(Duration time) {
    const Instant end = clock.now().instant + time;
    while (clock.now().instant < end) {
      const Instant next = std::min(settle(), end);
      clock.advance(std::max(next - clock.now().instant, Duration(1)));
    }
    settle();
  }
  template <class T>
  T ask(Operation operation) {
    std::optional<OperationResult> result;
    broker->submit(std::move(operation), [&](OperationResult r) { result = std::move(r); });
    settle();
    REQUIRE(result);
    if (const auto* error = std::get_if<Error>(&*result)) FAIL(error->message);
    return std::get<T>(std::move(*result));
  }
  JobId enqueue(NewJob job) {
    return ask<EnqueueResult>(Enqueue{.jobs = {std::move(job)}}).jobs.at(0).id;
  }
  std::vector<ClaimedJob> claim(int max = 100, std::string worker = "w") {
    return ask<ClaimResult>(Claim{.worker = std::move(worker), .queues = {"default"}, .max = max})
        .jobs;
  }
  void complete(const ClaimedJob& job) {
    CHECK(ask<FinishResult>(Finish{.worker = "w", .results = {{job.id, job.token, Complete{}}}})
              .results.at(0) == FinishStatus::ok);
  }
  void put(Schedule schedule) {
    auto plan = plan_put(std::move(schedule), std::nullopt, clock.now().wall);
    if (!plan) FAIL(plan.error().message);
    ask<PutScheduleResult>(std::move(*plan));
  }
  static Schedule every(Duration period, std::string name = "tick") {
    Schedule schedule{.name = std::move(name), .every = period};
    schedule.job.kind = "work";
    return schedule;
  }
  std::vector<LedgerRow> ledger(const std::string& name = "tick") {
    auto rows = store->ledger(name, 1000, 0)->rows;
    std::reverse(rows.begin(), rows.end());
    return rows;
  }

  std::string directory;
  ManualClock clock;
  NullLog log;
  Registry registry;
  std::unique_ptr<Store> store;
  std::unique_ptr<Broker> broker;
  std::unique_ptr<Scheduler> scheduler;
};

std::vector<JobId> ids(const std::vector<ClaimedJob>& jobs) {
  std::vector<JobId> out;
  for (const ClaimedJob& job : jobs) out.push_back(job.id);
  return out;
}

}  // namespace

TEST_CASE_FIXTURE(Timed, "T1: jobs are added in any order of time; equal times do not collide") {
  const JobId c = enqueue({.kind = "work", .delay = 30s});
  const JobId a = enqueue({.kind = "work", .delay = 10s});
  const JobId b = enqueue({.kind = "work", .delay = 20s});
  const JobId b2 = enqueue({.kind = "work", .delay = 20s});
  run_for(30s);
  CHECK(ids(claim()) == std::vector<JobId>{a, b, b2, c});
}

TEST_CASE_FIXTURE(Timed, "T2: due is run_at <= now, moved in due order, in bounded batches") {
  std::vector<JobId> want;
  for (int i = 9; i >= 0; --i)
    want.insert(want.begin(), enqueue({.kind = "work", .delay = 1s + i * 1ms}));
  clock.advance(1s + 3ms);
  // One operation of three at a time: an earlier job never comes after a later one.
  CHECK(settle() == clock.now().instant + 1ms);
  CHECK(ids(claim()) == std::vector<JobId>(want.begin(), want.begin() + 4));
  clock.advance(1s);
  settle();
  CHECK(ids(claim()) == std::vector<JobId>(want.begin() + 4, want.end()));
}

TEST_CASE_FIXTURE(Timed, "T5: every instance shares the jobs that one of them makes available") {
  for (int i = 0; i < 6; ++i) enqueue({.kind = "work", .delay = 1s});
  run_for(1s);
  std::size_t got = 0;
  for (const char* worker : {"w1", "w2", "w3"}) got += claim(2, worker).size();
  CHECK(got == 6);
}

TEST_CASE_FIXTURE(Timed, "T6: rescheduling a job neither loses nor duplicates it") {
  NewJob job{.kind = "work", .delay = 10s};
  job.unique = Unique{.key = "k", .on_conflict = OnConflict::postpone};
  const JobId first = enqueue(job);
  job.delay = 60s;
  CHECK(enqueue(job) == first);
  run_for(59s);
  CHECK(claim().empty());
  run_for(1s);
  CHECK(ids(claim()) == std::vector<JobId>{first});
  run_for(1h);
  CHECK(store->queues()->at(0).enqueued == 1);
}

TEST_CASE_FIXTURE(Timed, "T7: a recurring tick makes its job and its next time in one commit") {
  put(every(10s));
  const WallTime nominal = store->schedule("tick")->next;
  run_for(nominal - clock.now().wall - 1us);
  const auto before = store->commits();
  clock.advance(1us);
  settle();
  CHECK(store->commits() == before + 1);
  const ScheduleInfo info = *store->schedule("tick");
  CHECK(info.next == nominal + 10s);
  CHECK(info.fired == 1);
  const auto rows = ledger();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].nominal == nominal);
  CHECK(rows[0].state == TickState::fired);
  CHECK(rows[0].job == info.last_job);
  CHECK(store->get(info.last_job)->state == JobState::available);
}

TEST_CASE_FIXTURE(Timed, "T8: a delay at the enqueue also schedules a later start") {
  const JobId id = enqueue({.kind = "work", .delay = 5s});
  CHECK(store->get(id)->state == JobState::scheduled);
  run_for(5s);
  CHECK(store->get(id)->state == JobState::available);
}

TEST_CASE_FIXTURE(Timed, "B2: a tick during the run of its predecessor is skipped and recorded") {
  put(every(10s));
  run_for(11s);
  const auto running = claim();
  REQUIRE(running.size() == 1);
  run_for(10s);
  CHECK(claim().empty());
  complete(running[0]);
  run_for(10s);
  CHECK(claim().size() == 1);
  const auto rows = ledger();
  REQUIRE(rows.size() >= 3);
  CHECK(rows[0].state == TickState::fired);
  CHECK(rows[1].state == TickState::skipped);
  CHECK(rows[1].reason.find("overlap") == 0);
  CHECK(rows[2].state == TickState::fired);
}

TEST_CASE_FIXTURE(Timed, "a buffered tick starts in the transaction that ends its predecessor") {
  Schedule schedule = every(10s);
  schedule.overlap = Overlap::buffer_one;
  put(schedule);
  run_for(11s);
  const auto running = claim();
  REQUIRE(running.size() == 1);
  run_for(20s);
  CHECK(claim().empty());
  CHECK(store->schedule("tick")->buffered == 1);
  const auto before = store->commits();
  broker->submit(Finish{.worker = "w", .results = {{running[0].id, running[0].token, Complete{}}}},
                 [](OperationResult) {});
  broker->step(clock.now());
  CHECK(store->commits() == before + 1);
  CHECK(claim().size() == 1);
}

TEST_CASE_FIXTURE(Timed,
                  "a clock set forward catches up by policy; a clock set back fires nothing") {
  put(every(1min));
  run_for(2min);
  const auto fired = store->schedule("tick")->fired;
  for (const ClaimedJob& job : claim()) complete(job);
  clock.step_wall(10h);
  run_for(61s);  // it reads the wall clock once a minute
  const auto rows = ledger();
  const LedgerRow* caught_up = nullptr;
  for (const LedgerRow& row : rows) caught_up = row.past_due ? &row : caught_up;
  REQUIRE(caught_up != nullptr);
  CHECK(caught_up->state == TickState::fired);
  const WallTime next = store->schedule("tick")->next;
  CHECK(store->schedule("tick")->fired <= fired + 3);
  const auto count = ledger().size();
  clock.step_wall(-1h);
  run_for(30min);
  CHECK(store->schedule("tick")->next >= next);
  CHECK(ledger().size() <= count + 1);
}

TEST_CASE_FIXTURE(Timed, "after a forward glitch of the clock a schedule runs at its real times") {
  put(every(1h));
  Schedule once = every(1h, "once");
  once.every = Duration(0);
  once.at = clock.now().wall + 30h;
  put(once);
  run_for(61min);
  for (const ClaimedJob& job : claim()) complete(job);
  const WallTime next = store->schedule("tick")->next;
  const auto fired = store->schedule("tick")->fired;
  clock.step_wall(48h);
  run_for(4s);
  scheduler->clock_moved();
  settle();
  CHECK(store->schedule("tick")->next > next + 47h);
  CHECK(store->schedule("once")->fired == 1);
  clock.step_wall(-48h);
  run_for(31s);
  CHECK(store->schedule("tick")->next == next);
  CHECK(ledger().back().reason.starts_with("planned again: the clock was ahead; the next run was"));
  CHECK(registry.render().find("mainspring_schedules_replanned_total 2") != std::string::npos);
  const auto after = store->schedule("tick")->fired;
  CHECK(after == fired + 1);  // by the misfire policy, while the clock was ahead
  for (const ClaimedJob& job : claim()) complete(job);
  run_for(1h);
  CHECK(store->schedule("tick")->fired == after + 1);
  run_for(30h);
  CHECK(store->schedule("once")->fired == 1);  // nothing runs twice
}

TEST_CASE_FIXTURE(Timed, "a glitch of the clock is found after an earlier jump that stayed") {
  put(every(1h));
  run_for(61min);
  clock.step_wall(2h);
  run_for(4s);
  scheduler->clock_moved();
  settle();
  const WallTime next = store->schedule("tick")->next;
  clock.step_wall(48h);
  run_for(4s);
  scheduler->clock_moved();
  settle();
  CHECK(store->schedule("tick")->next > next + 47h);
  clock.step_wall(-48h);
  run_for(31s);
  CHECK(store->schedule("tick")->next == next);
}

// A zone of its own, whose rules can change.
struct Zoned : Timed {
  Zoned() { std::filesystem::create_directories(database / "Europe"); }
  ~Zoned() { TimeZone::read_from("/usr/share/zoneinfo/"); }
  void give_berlin_rules_of(const char* name) {
    const auto fresh = database / "fresh";
    std::filesystem::copy_file(std::filesystem::path("/usr/share/zoneinfo") / name, fresh);
    std::filesystem::rename(fresh, database / "Europe/Berlin");
  }
  void noon_by(const char* rules) {
    give_berlin_rules_of(rules);
    TimeZone::read_from(database.string() + "/");
    run_for(31s);
    Schedule daily{.name = "tick", .cron = "0 12 * * *", .time_zone = "Europe/Berlin"};
    daily.job.kind = "work";
    put(daily);
  }
  // Another process: it has not seen the earlier rules.
  void restart_by(const char* rules) {
    scheduler.reset();
    give_berlin_rules_of(rules);
    scheduler =
        std::make_unique<Scheduler>(*broker, clock, log, registry, SchedulerOptions{.batch = 3});
    run_for(1min);
  }
  std::string next() { return format_wall_time(store->schedule("tick")->next); }
  // It was planned again once.
  void check_notes() {
    const auto rows = ledger();
    CHECK(std::count_if(rows.begin(), rows.end(), [](const LedgerRow& row) {
            return row.reason.starts_with("planned again: the rules of Europe/Berlin have changed");
          }) == 1);
    CHECK(registry.render().find("mainspring_schedules_replanned_total 1") != std::string::npos);
  }

  const std::filesystem::path database = std::filesystem::path(directory) / "zoneinfo";
};

TEST_CASE_FIXTURE(Zoned,
                  "new rules of a time zone count within a minute; no tick is lost or doubled") {
  SUBCASE("its local time is later now: it runs once, then") {
    noon_by("Asia/Kolkata");
    CHECK(next() == "2026-01-01T06:30:00Z");
    give_berlin_rules_of("Europe/Paris");
    run_for(1min);
    CHECK(next() == "2026-01-01T11:00:00Z");
    run_for(23h);
    CHECK(store->schedule("tick")->fired == 1);
  }
  SUBCASE("its local time has passed: it runs late") {
    noon_by("America/New_York");
    CHECK(next() == "2026-01-01T17:00:00Z");
    run_for(16h);
    give_berlin_rules_of("Europe/Paris");
    run_for(1min);
    CHECK(store->schedule("tick")->fired == 1);
    CHECK(ledger().back().past_due);
    CHECK(next() == "2026-01-02T11:00:00Z");
  }
  SUBCASE("it has run today: it does not run again, although its local time comes again") {
    noon_by("Asia/Kolkata");
    run_for(8h);
    CHECK(store->schedule("tick")->fired == 1);
    give_berlin_rules_of("Europe/Paris");
    run_for(1min);
    CHECK(next() == "2026-01-02T11:00:00Z");
    run_for(15h);
    CHECK(store->schedule("tick")->fired == 1);
  }
  check_notes();
}

TEST_CASE_FIXTURE(
    Zoned, "new rules count for a schedule that no server planned, or that was paused, meanwhile") {
  SUBCASE("no server ran during the change, and its local time is later now") {
    noon_by("Asia/Kolkata");
    restart_by("Europe/Paris");
    CHECK(next() == "2026-01-01T11:00:00Z");
    run_for(23h);
    CHECK(store->schedule("tick")->fired == 1);
  }
  SUBCASE("no server ran during the change, and its local time has passed: it runs late") {
    noon_by("America/New_York");
    run_for(16h);
    restart_by("Europe/Paris");
    CHECK(store->schedule("tick")->fired == 1);
    CHECK(ledger().back().past_due);
    CHECK(next() == "2026-01-02T11:00:00Z");
  }
  SUBCASE("no server ran during the change, and it has run today") {
    noon_by("Asia/Kolkata");
    run_for(8h);
    restart_by("Europe/Paris");
    CHECK(next() == "2026-01-02T11:00:00Z");
    run_for(15h);
    CHECK(store->schedule("tick")->fired == 1);
  }
  SUBCASE("a paused schedule is planned by the new rules when it resumes") {
    noon_by("Asia/Kolkata");
    ask<Done>(PauseSchedule{.name = "tick", .paused = true});
    give_berlin_rules_of("Europe/Paris");
    run_for(1min);
    ask<Done>(PauseSchedule{.name = "tick", .paused = false});
    CHECK(next() == "2026-01-01T11:00:00Z");
    run_for(10h);
    CHECK(store->schedule("tick")->fired == 0);
    run_for(2h);
    CHECK(store->schedule("tick")->fired == 1);
  }
  check_notes();
}

TEST_CASE_FIXTURE(Timed, "ten years without a scheduler cost a few rows, not one per tick") {
  put(every(1s));
  run_for(2s);
  clock.advance(24h * 3650);
  settle();
  CHECK(ledger().size() < 70);
  CHECK(store->schedule("tick")->next > clock.now().wall);
}

TEST_CASE_FIXTURE(Timed, "a schedule without remaining runs is idle") {
  Schedule schedule = every(10s);
  schedule.max_runs = 3;
  schedule.overlap = Overlap::allow;
  put(schedule);
  run_for(10min);
  CHECK(store->schedule("tick")->fired == 3);
  CHECK(store->schedule("tick")->next == WallTime::never());
}

TEST_CASE_FIXTURE(Timed, "a thousand schedules of one minute share commits") {
  for (int i = 0; i < 1000; ++i) {
    auto plan = plan_put(every(1min, "s" + std::to_string(i)), std::nullopt, clock.now().wall);
    REQUIRE(plan);
    broker->submit(std::move(*plan), [](OperationResult) {});
  }
  settle();
  const auto before = store->commits();
  run_for(1min);
  CHECK(store->queues()->at(0).enqueued == 1000);
  CHECK(store->commits() - before <= 6);
}

TEST_CASE_FIXTURE(Timed, "idle schedules make no store transactions") {
  put(every(24h));
  settle();
  const auto commits = store->commits();
  run_for(10min);
  CHECK(store->commits() == commits);
}

TEST_CASE_FIXTURE(Timed, "W4: a hundred queues with a parked worker each make no transactions") {
  constexpr int kQueues = 100;
  const auto answered = std::make_shared<int>(0);  // the last ones are due after the test
  const auto park = [&](int queue) {
    broker->submit_claim(
        {.worker = "w" + std::to_string(queue), .queues = {"queue-" + std::to_string(queue)}}, 60s,
        [answered](OperationResult) { ++*answered; });
  };
  for (int i = 0; i < kQueues; ++i) park(i);
  settle();
  const auto commits = store->commits();
  const auto reads = store->reads();
  for (int minute = 0; minute < 10; ++minute) {  // each claim repeats when its wait is over
    run_for(1min);
    CHECK(*answered == kQueues * (minute + 1));
    for (int i = 0; i < kQueues; ++i) park(i);
    settle();
  }
  CHECK(store->commits() == commits);
  CHECK(store->reads() == reads);
  const std::string metrics = registry.render();  // reads the backlogs of queues from the store
  CHECK(metrics.find("mainspring_store_commits_total " + std::to_string(commits)) !=
        std::string::npos);
  CHECK(metrics.find("mainspring_store_reads_total " + std::to_string(store->reads())) !=
        std::string::npos);
}

TEST_CASE("the leader adds each mark at its time, once, also after it leads again") {
  SchedulerOptions options{.batch = 3};
  ManualClock times;  // starts where the clock of Timed starts
  const WallTime start = times.now().wall;
  const std::vector<std::pair<WallTime, std::string>> planned = {
      {start - 2h, "too early"}, {start - 30min, "recent"}, {start + 1h, "a"}, {start + 1h, "b"}};
  options.next_mark = [&](WallTime after, const std::string& text) -> std::optional<AddMark> {
    for (const auto& one : planned) {
      if (one > std::pair(after, text))
        return AddMark{
            .text = one.second, .at = one.first, .by = "calendar", .source = MarkSource::worker};
    }
    return std::nullopt;
  };
  Timed s(options);
  const auto texts = [&] {
    std::string out;
    const auto page = s.broker->marks({});
    REQUIRE(page);
    for (const Mark& mark : page->marks) out = mark.text + " " + out;
    return out;
  };
  CHECK(texts() == "recent ");
  s.run_for(59min);
  CHECK(texts() == "recent ");
  s.run_for(1min);
  CHECK(texts() == "recent a b ");
  s.scheduler.reset();
  s.scheduler = std::make_unique<Scheduler>(*s.broker, s.clock, s.log, s.registry, options);
  s.run_for(1min);
  CHECK(texts() == "recent a b ");
}
