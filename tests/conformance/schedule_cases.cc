// What schedules promise: a tick is neither lost nor doubled, and the ledger records its outcome.
#include "conformance/schedule_bench.h"

namespace mainspring::conformance {
namespace {

TEST_SUITE("store: schedules") {
  TEST_CASE("a new schedule is at version 1, not paused, and due at its first tick") {
    ScheduleBench b;
    const PutScheduleResult put = b.put("a");
    CHECK(put.version == 1);
    CHECK(put.outcome == PutOutcome::created);
    const ScheduleInfo info = b.info("a");
    CHECK(info.schedule == b.definition("a"));
    CHECK_FALSE(info.paused);
    CHECK(info.next == b.wall() + minutes(1));
    CHECK_FALSE(info.remaining.has_value());
    CHECK(info.created_at == b.wall());
    CHECK(b.store->agenda().next_schedule == info.next_fire);
    CHECK(b.ledger("a").empty());
  }

  TEST_CASE("the same definition again changes nothing, also after a reopen") {
    ScheduleBench b;
    Schedule s = b.definition("a");
    s.cron = "0 30 2 * * *";
    s.every = Duration(0);
    s.time_zone = "Europe/Berlin";
    s.job.args = R"({"t":"ü","n":[1,2.5]})";
    s.job.tags = {"x", "y"};
    s.job.headers = R"({"h":"v"})";
    s.job.timeout = kForever;
    s.job.expires_in = milliseconds(1500);
    s.misfire = Misfire::all;
    s.misfire_window = seconds(90);
    s.misfire_cap = 7;
    s.repeated_hour = RepeatedHour::twice;
    s.overlap = Overlap::buffer_all;
    s.jitter = milliseconds(2500);
    s.start_at = WallTime::from_us(1'000'001);
    s.end_at = b.wall() + hours(1);
    s.max_runs = 9;
    s.pause_on_failure = true;
    s.continuous = Continuous{.timeout = minutes(3), .margin = seconds(7), .handoff = seconds(0)};
    b.put(s);
    const auto commits = b.store->commits();
    const ScheduleInfo before = b.info("a");
    b.advance(seconds(20));
    CHECK(b.put(s).outcome == PutOutcome::unchanged);
    CHECK(b.store->commits() == commits);
    b.reopen();
    CHECK(b.info("a").schedule == s);
    CHECK(b.put(s).outcome == PutOutcome::unchanged);
    CHECK(b.info("a").next == before.next);
    CHECK(b.info("a").updated_at == before.updated_at);
  }

  TEST_CASE("a put of the same definition pauses and resumes on request") {
    ScheduleBench b;
    b.put("a");
    PutSchedule put = b.planned(b.definition("a"));
    put.paused = true;
    CHECK(b.one<PutScheduleResult>(put).outcome == PutOutcome::unchanged);
    CHECK(b.info("a").paused);
    put.paused.reset();
    b.one<PutScheduleResult>(put);
    CHECK(b.info("a").paused);
    put.paused = false;
    b.one<PutScheduleResult>(put);
    CHECK_FALSE(b.info("a").paused);
  }

  TEST_CASE("schedules are listed by name, page by page, and read without the database") {
    ScheduleBench b;
    for (const char* name : {"c", "a", "d", "b"}) b.put(name);
    const auto reads = b.store->reads();
    const auto page = b.store->schedules("a", 2);
    REQUIRE(page->size() == 2);
    CHECK((*page)[0].schedule.name == "b");
    CHECK((*page)[1].schedule.name == "c");
    CHECK(b.store->schedules("d", 9)->empty());
    CHECK(b.store->due_schedules(b.wall() + hours(1), 3)->size() == 3);
    CHECK(b.store->reads() == reads);
    const auto none = b.store->schedule("x");
    REQUIRE_FALSE(none.has_value());
    CHECK(none.error().code == ErrorCode::not_found);
  }

  TEST_CASE("pausing keeps the reason; pausing a paused schedule changes nothing") {
    ScheduleBench b;
    b.put("a");
    b.one<Done>(PauseSchedule{"a", true, "holiday"});
    const auto commits = b.store->commits();
    b.one<Done>(PauseSchedule{"a", true, "other"});
    CHECK(b.store->commits() == commits);
    b.reopen();
    CHECK(b.info("a").paused_reason == "holiday");
    CHECK(b.store->agenda().next_schedule == WallTime::never());
    CHECK(b.store->due_schedules(WallTime::never(), 9)->empty());
    b.advance(minutes(3));
    b.one<Done>(PauseSchedule{"a", false, "ignored"});
    const ScheduleInfo info = b.info("a");
    CHECK(info.paused_reason.empty());
    CHECK(info.skip_before == b.wall());
    CHECK(info.skip_reason == "paused");
    CHECK(info.next == b.wall() - minutes(2));
    CHECK(b.refused(PauseSchedule{"x"}) == ErrorCode::not_found);
  }

  TEST_CASE("a timer's timeout is set and unset, of continuous schedules only") {
    ScheduleBench b;
    b.put("a");
    CHECK(b.refused(SetTimer{"a", seconds(5)}) == ErrorCode::conflict);
    CHECK(b.refused(SetTimer{"x", seconds(5)}) == ErrorCode::not_found);
    Schedule s = b.definition("t");
    s.continuous = Continuous{};
    b.put(s);
    b.one<Done>(SetTimer{"t", minutes(5)});
    b.reopen();
    CHECK(b.info("t").timeout_override == minutes(5));
    b.one<Done>(SetTimer{"t", {}});
    CHECK_FALSE(b.info("t").timeout_override.has_value());
  }
}

TEST_SUITE("store: ticks") {
  TEST_CASE("T1: two schedules due at one instant both fire, each its own tick") {
    ScheduleBench b;
    b.put("b");
    b.put("a");
    b.advance(minutes(1));
    const auto due = b.store->due_schedules(b.wall(), 10);
    REQUIRE(due->size() == 2);
    CHECK((*due)[0].schedule.name == "a");
    CHECK(b.fire("a") != b.fire("b"));
    CHECK(b.ledger("a").size() == 1);
    CHECK(b.ledger("b").size() == 1);
    b.reopen();
    CHECK(b.count(JobState::available) == 2);
  }

  TEST_CASE("T2: ticks due exactly now fire, earliest first, and none before its time") {
    ScheduleBench b;
    const WallTime start = b.wall();
    for (const int m : {3, 1, 2}) {
      PutSchedule put = b.planned(b.definition("s" + std::to_string(m)));
      put.next = start + minutes(m);
      put.next_fire = put.next + seconds(5);
      b.one<PutScheduleResult>(put);
    }
    CHECK(b.store->due_schedules(start + minutes(1) + milliseconds(4999), 9)->empty());
    const auto due = b.store->due_schedules(start + minutes(2) + seconds(5), 9);
    REQUIRE(due->size() == 2);
    CHECK((*due)[0].schedule.name == "s1");
    CHECK((*due)[1].schedule.name == "s2");
    CHECK(b.store->due_schedules(start + hours(1), 1)->size() == 1);
    CHECK(b.store->agenda().next_schedule == start + minutes(1) + seconds(5));
    b.reopen();
    CHECK(b.store->agenda().next_schedule == start + minutes(1) + seconds(5));
    CHECK(b.store->due_schedules(start + minutes(2) + seconds(5), 9)->size() == 2);
  }

  TEST_CASE("T4: the job and the ledger row are one transaction") {
    ScheduleBench b;
    b.put("a");
    b.advance(minutes(1));
    const WallTime nominal = b.info("a").next;
    const auto commits = b.store->commits();
    const JobId id = b.fire("a");
    CHECK(b.store->commits() == commits + 1);
    for (int round = 0; round < 2; ++round, b.reopen()) {
      const Job job = b.get(id);
      CHECK(job.state == JobState::available);
      CHECK(job.kind == "tick");
      CHECK(job.run_at == nominal);
      CHECK(job.headers == tick_headers(b.definition("a"), nominal, false));
      const LedgerRow row = b.ledger("a").at(0);
      CHECK(row.nominal == nominal);
      CHECK(row.state == TickState::fired);
      CHECK(row.source == TickSource::schedule);
      CHECK(row.job == id);
      CHECK(row.job_state == JobState::available);
      const ScheduleInfo info = b.info("a");
      CHECK(info.live == std::vector<JobId>{id});
      CHECK(info.fired == 1);
      CHECK(info.last_fired == nominal);
      CHECK(info.last_job == id);
    }
  }

  TEST_CASE("T6: a changed definition loses no tick and doubles none") {
    ScheduleBench b;
    b.put("a");
    b.advance(minutes(1));
    const FireSchedule plan = b.plan("a");
    Schedule changed = b.definition("a");
    changed.every = minutes(5);
    const PutScheduleResult put = b.put(changed);
    CHECK(put.outcome == PutOutcome::replaced);
    CHECK(put.version == 2);
    CHECK(b.refused(plan) == ErrorCode::conflict);
    b.reopen();
    const auto rows = b.ledger("a");
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].reason == "replaced");
    CHECK(rows[0].version == 1);
    CHECK(rows[0].nominal == plan.expected_next);
    CHECK(rows[0].until == b.wall());
    CHECK(rows[0].count == 0);
    CHECK(b.info("a").schedule == changed);
    CHECK(b.store->queues()->empty());
  }

  TEST_CASE("T7: a recurring schedule's next tick is set in the step that fires this one") {
    ScheduleBench b;
    b.put("a");
    for (int tick = 1; tick <= 3; ++tick) {
      b.advance(minutes(1));
      const WallTime due = b.info("a").next;
      b.end(b.fire("a"));
      CHECK(b.info("a").next == due + minutes(1));
      CHECK(b.store->agenda().next_schedule == due + minutes(1));
      b.reopen();
      CHECK(b.info("a").next == due + minutes(1));
      CHECK(b.info("a").fired == tick);
    }
  }

  TEST_CASE("SCHED-1: a plan is executed once: a repetition is refused and changes nothing") {
    ScheduleBench b;
    b.put("a");
    b.advance(minutes(1));
    const FireSchedule plan = b.plan("a");
    b.one<FireResult>(plan);
    CHECK(b.refused(plan) == ErrorCode::conflict);
    b.reopen();
    CHECK(b.refused(plan) == ErrorCode::conflict);
    CHECK(b.ledger("a").size() == 1);
    CHECK(b.stats().enqueued == 1);
  }

  TEST_CASE("SCHED-1: a plan for another version or next tick, or a paused schedule, is refused") {
    ScheduleBench b;
    b.put("a");
    b.advance(minutes(1));
    FireSchedule plan = b.plan("a");
    plan.version = 2;
    CHECK(b.refused(plan) == ErrorCode::conflict);
    plan = b.plan("a");
    plan.expected_next = plan.expected_next + seconds(1);
    CHECK(b.refused(plan) == ErrorCode::conflict);
    plan = b.plan("a");
    b.one<Done>(PauseSchedule{"a", true, ""});
    CHECK(b.refused(plan) == ErrorCode::conflict);
    plan.name = "x";
    CHECK(b.refused(plan) == ErrorCode::not_found);
    plan.name = "a";
    plan.ticks.resize(kMaxFireTicks + 1);
    plan.source = TickSource::backfill;
    CHECK(b.refused(plan) == ErrorCode::too_large);
    CHECK(b.ledger("a").empty());
  }

  TEST_CASE("a plan that decides no tick moves the next one, also of a paused schedule") {
    ScheduleBench b;
    b.put("a");
    b.one<Done>(PauseSchedule{"a", true, ""});
    FireSchedule plan = b.plan("a");
    plan.ticks = {{.nominal = b.wall(), .count = 0, .fire = false, .reason = "planned again"}};
    plan.next = plan.next_fire = b.wall() + hours(5);
    CHECK(b.one<FireResult>(plan).fired == 0);
    b.reopen();
    CHECK(b.info("a").next == b.wall() + hours(5));
    CHECK(b.info("a").paused);
    CHECK(b.last_row("a").reason == "planned again");
  }

  TEST_CASE("SCHED-1: a tick that a backfill ran never runs again, by the clock or a backfill") {
    ScheduleBench b;
    b.put(b.definition("a", Overlap::allow));
    b.advance(minutes(1));
    const WallTime nominal = b.info("a").next;
    FireSchedule fill{.name = "a", .source = TickSource::backfill, .ticks = {{.nominal = nominal}}};
    const JobId id = b.one<FireResult>(fill).jobs.at(0);
    CHECK(id != 0);
    b.reopen();
    CHECK(b.one<FireResult>(fill).jobs == std::vector<JobId>{0});
    CHECK(b.fire("a") == 0);
    CHECK(b.last_row("a").reason == "has run as job " + std::to_string(id));
    Schedule changed = b.definition("a", Overlap::skip);
    b.put(changed);
    CHECK(b.one<FireResult>(fill).skipped == 1);
    CHECK(b.stats().enqueued == 1);
  }

  TEST_CASE("SCHED-1: versions never repeat, also not after a removal") {
    ScheduleBench b;
    b.put("a");
    b.put(b.definition("a", Overlap::allow));
    b.one<Done>(RemoveSchedule{"a"});
    b.reopen();
    const PutScheduleResult again = b.put("a");
    CHECK(again.version == 3);
    CHECK(again.outcome == PutOutcome::created);
    b.one<Done>(RemoveSchedule{"a"});
    CHECK(b.put("a").version == 4);
    CHECK(b.info("a").fired == 0);
  }

  TEST_CASE("SCHED-2: a skipped tick has its reason, a run of them one row") {
    ScheduleBench b;
    b.put("a");
    b.advance(minutes(10));
    FireSchedule plan = b.plan("a");
    const WallTime first = plan.expected_next;
    plan.ticks = {{.nominal = first,
                   .until = first + minutes(8),
                   .count = 9,
                   .fire = false,
                   .reason = "missed: folded into the last"},
                  {.nominal = first + minutes(9), .past_due = true, .note = "shifted"}};
    const FireResult fired = b.one<FireResult>(plan);
    CHECK(fired.fired == 1);
    CHECK(fired.skipped == 1);
    CHECK(fired.jobs.at(0) == 0);
    b.reopen();
    const auto rows = b.ledger("a");
    REQUIRE(rows.size() == 2);
    CHECK(rows[1].seq < rows[0].seq);
    CHECK(rows[1].state == TickState::skipped);
    CHECK(rows[1].count == 9);
    CHECK(rows[1].until == first + minutes(8));
    CHECK(rows[1].reason == "missed: folded into the last");
    CHECK(rows[1].job == 0);
    CHECK_FALSE(rows[1].job_state.has_value());
    CHECK(rows[0].past_due);
    CHECK(rows[0].note == "shifted");
    CHECK(rows[0].decided_at == b.wall());
    CHECK(b.get(fired.jobs.at(1)).headers.find("past-due") != std::string::npos);
  }

  TEST_CASE("SCHED-2: a replaced one-shot that was due has one row of one tick") {
    ScheduleBench b;
    Schedule s = b.definition("a");
    s.every = Duration(0);
    s.at = b.wall() + minutes(1);
    b.put(s);
    b.advance(minutes(2));
    s.at = b.wall() + minutes(1);
    b.put(s);
    const LedgerRow row = b.last_row("a");
    CHECK(row.reason == "replaced");
    CHECK(row.count == 1);
    CHECK_FALSE(row.until.has_value());
  }

  TEST_CASE("SCHED-2: the last run leaves no next tick, and a trigger is skipped with a reason") {
    ScheduleBench b;
    Schedule s = b.definition("a", Overlap::allow);
    s.max_runs = 2;
    b.put(s);
    b.advance(minutes(3));
    FireSchedule plan = b.plan("a");
    plan.ticks.push_back({.nominal = plan.expected_next + minutes(1)});
    plan.ticks.push_back({.nominal = plan.expected_next + minutes(2)});
    const FireResult fired = b.one<FireResult>(plan);
    CHECK(fired.fired == 2);
    CHECK(b.last_row("a").reason == "no runs remain");
    b.reopen();
    CHECK(b.info("a").remaining == 0);
    CHECK(b.info("a").next == WallTime::never());
    CHECK(b.store->agenda().next_schedule == WallTime::never());
    CHECK(b.trigger("a") == 0);
    CHECK(b.last_row("a").source == TickSource::trigger);
    CHECK(b.last_row("a").reason == "no runs remain");
  }

  TEST_CASE("what has run has run: a new definition repeats neither an instant nor max_runs") {
    ScheduleBench b;
    const auto again = [&](Schedule s, RunCount runs) {
      PutSchedule put = b.planned(std::move(s));
      put.runs = runs;
      CHECK(b.one<PutScheduleResult>(put).outcome == PutOutcome::replaced);
    };
    Schedule once = b.definition("once", Overlap::allow);
    once.every = Duration(0);
    once.at = b.wall() + minutes(1);
    b.put(once);
    b.advance(minutes(1));
    CHECK(b.fire("once") != 0);
    for (int deployment = 0; deployment < 3; ++deployment) {
      once.job.args = std::to_string(deployment);
      CHECK(b.trigger("once") != 0);  // another nominal time
      again(once, RunCount::keep);
      CHECK(b.info("once").next == WallTime::never());
      b.reopen();
    }
    again(once, RunCount::restart);  // the same definition
    b.advance(minutes(1));
    CHECK(b.fire("once") != 0);

    Schedule twice = b.definition("twice", Overlap::allow);
    b.put(twice);
    CHECK(b.trigger("twice") != 0);
    twice.max_runs = 3;
    again(twice, RunCount::keep);
    CHECK(b.info("twice").remaining == 2);
    CHECK(b.trigger("twice") != 0);
    twice.max_runs = 2;
    again(twice, RunCount::keep);
    CHECK(b.info("twice").remaining == 0);
    CHECK(b.info("twice").next == WallTime::never());
    CHECK(b.trigger("twice") == 0);
    again(twice, RunCount::restart);
    CHECK(b.info("twice").remaining == 2);
    CHECK(b.info("twice").next != WallTime::never());
  }

  TEST_CASE("SCHED-3: run_at is the fire time with the jitter, and never later than now") {
    ScheduleBench b;
    PutSchedule put = b.planned(b.definition("a", Overlap::allow));
    put.next_fire = put.next + seconds(7);
    b.one<PutScheduleResult>(put);
    b.advance(minutes(1) + seconds(9));
    CHECK(b.get(b.fire("a")).run_at == put.next + seconds(7));
    b.advance(seconds(54));  // 3 s after the nominal time, 4 s before the fire time
    const Job early = b.get(b.fire("a"));
    CHECK(early.run_at == b.wall());
    CHECK(early.state == JobState::available);
    CHECK(b.get(b.trigger("a")).run_at == b.wall());
  }

  TEST_CASE("SCHED-3: a scheduler whose clock is ahead of the store's fires nothing early") {
    ScheduleBench b;
    b.put("a");
    b.advance(minutes(1) - milliseconds(1));
    FireSchedule plan = b.plan("a");
    CHECK(b.refused(plan) == ErrorCode::unavailable);
    CHECK(b.ledger("a").empty());
    CHECK(b.info("a").next == plan.expected_next);
    plan.ticks[0].fire = false;
    plan.ticks[0].reason = "missed";
    CHECK(b.refused(plan) == ErrorCode::unavailable);
    b.advance(milliseconds(1));
    CHECK(b.one<FireResult>(b.plan("a")).fired == 1);
  }

  TEST_CASE("a trigger, a wake and a backfill keep the next tick; only a wake respects the pause") {
    ScheduleBench b;
    b.put(b.definition("a", Overlap::allow));
    const WallTime next = b.info("a").next;
    b.one<Done>(PauseSchedule{"a", true, "for now"});
    b.advance(seconds(10));
    const JobId triggered = b.trigger("a");
    CHECK(triggered != 0);
    CHECK(b.last_row("a").nominal == b.wall());
    CHECK(b.last_row("a").source == TickSource::trigger);
    FireSchedule wake{.name = "a", .source = TickSource::wake, .ticks = {Tick{}}};
    CHECK(b.one<FireResult>(wake).skipped == 1);
    CHECK(b.last_row("a").reason == "paused");
    FireSchedule fill{.name = "a", .source = TickSource::backfill, .ticks = {{.nominal = next}}};
    CHECK(b.one<FireResult>(fill).fired == 1);
    CHECK(b.info("a").next == next);
    CHECK(b.info("a").paused);
  }

  TEST_CASE("C10: a wake overlaps at most one live job, with any policy") {
    ScheduleBench b;
    b.put(b.definition("a", Overlap::skip));
    FireSchedule wake{.name = "a", .source = TickSource::wake, .ticks = {Tick{}}};
    const JobId first = b.one<FireResult>(wake).jobs.at(0);
    const JobId standby = b.one<FireResult>(wake).jobs.at(0);
    CHECK(b.state(standby) == JobState::available);
    CHECK(b.one<FireResult>(wake).jobs.at(0) == 0);
    CHECK(b.last_row("a").reason == "the next run is already queued");
    b.reopen();
    CHECK(b.one<FireResult>(wake).jobs.at(0) == 0);
    b.end(first);
    CHECK(b.one<FireResult>(wake).jobs.at(0) != 0);
  }

  TEST_CASE("the ledger is read page by page, with the current state of each job") {
    ScheduleBench b;
    b.put(b.definition("a", Overlap::allow));
    std::vector<JobId> made;
    for (int i = 0; i < 5; ++i) {
      b.advance(minutes(1));
      made.push_back(b.fire("a"));
    }
    b.end(made[0]);
    const ClaimedJob running = b.claim_one();
    b.cancel(made[2]);
    const auto reads = b.store->reads();
    const auto page = b.store->ledger("a", 3, 0);
    CHECK(b.store->reads() >= reads);
    REQUIRE(page->rows.size() == 3);
    REQUIRE(page->next.has_value());
    CHECK(page->rows[2].job == made[2]);
    CHECK(page->rows[2].job_state == JobState::cancelled);
    const auto rest = b.store->ledger("a", 3, *page->next);
    REQUIRE(rest->rows.size() == 2);
    CHECK_FALSE(rest->next.has_value());
    CHECK(rest->rows[0].job == running.id);
    CHECK(rest->rows[0].job_state == JobState::running);
    CHECK(rest->rows[1].job_state == JobState::completed);
    b.advance(hours(25));
    b.prune();
    CHECK_FALSE(b.ledger("a").back().job_state.has_value());
    CHECK(b.ledger("a").back().job == made[0]);
    CHECK(b.store->ledger("x", 3, 0).error().code == ErrorCode::not_found);
  }

  TEST_CASE("the ledger keeps the newest rows of each schedule, and no more") {
    ScheduleBench b;
    b.put("a");
    b.put("b");
    b.trigger("b");
    FireSchedule plan{.name = "a", .source = TickSource::backfill};
    for (std::size_t i = 0; i < kMaxFireTicks; ++i)
      plan.ticks.push_back({.nominal = b.wall(), .fire = false, .reason = "test"});
    std::int64_t rows = 0;
    for (; rows < kLedgerRows + 1; rows += static_cast<std::int64_t>(kMaxFireTicks))
      b.one<FireResult>(plan);
    b.reopen();
    const auto all = b.ledger("a");
    CHECK(static_cast<std::int64_t>(all.size()) == kLedgerRows);
    CHECK(all.front().seq == rows);
    CHECK(b.ledger("b").size() == 1);
  }

  TEST_CASE("ticks fire even while max_live_jobs refuses enqueues") {
    StoreOptions few;
    few.max_live_jobs = 2;
    ScheduleBench b(few);
    b.put(b.definition("a", Overlap::allow));
    b.enqueue();
    b.enqueue();
    CHECK(b.trigger("a") != 0);
    CHECK(b.refused(Enqueue{.jobs = {b.job()}}) == ErrorCode::overloaded);
  }
}

}  // namespace
}  // namespace mainspring::conformance
