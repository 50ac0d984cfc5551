// What schedules promise about their jobs: overlap, waiting jobs, failures, and operators' actions.
#include "conformance/schedule_bench.h"

namespace mainspring::conformance {
namespace {

std::string text(JobId id) {
  return std::to_string(id);
}

TEST_SUITE("store: overlap") {
  TEST_CASE("skip: no tick fires while a job of an earlier tick is live, in any state") {
    ScheduleBench b;
    b.put(b.definition("a", Overlap::skip));
    const JobId first = b.trigger("a");
    CHECK(b.trigger("a") == 0);
    const ClaimedJob running = b.start(first);
    CHECK(b.trigger("a") == 0);
    b.finish(running, Retry{"e", seconds(100)});
    b.reopen();
    CHECK(b.trigger("a") == 0);
    CHECK(b.last_row("a").reason == "overlap: job " + text(first) + " has not ended");
    CHECK(b.info("a").live == std::vector<JobId>{first});
    b.cancel(first);
    CHECK(b.info("a").live.empty());
    CHECK(b.trigger("a") != 0);
  }

  TEST_CASE("buffer_one: one job waits, and starts in the transaction that ends the other") {
    ScheduleBench b;
    b.put(b.definition("a", Overlap::buffer_one));
    const JobId first = b.trigger("a");
    const JobId second = b.trigger("a");
    CHECK(b.state(second) == JobState::waiting);
    CHECK(b.trigger("a") == 0);
    CHECK(b.last_row("a").reason == "overlap: job " + text(second) + " already waits");
    CHECK(b.info("a").buffered == 1);
    CHECK(b.count(JobState::waiting) == 1);
    b.reopen();
    CHECK(b.info("a").buffered == 1);
    CHECK(b.claim(5).size() == 1);
    const Job job = b.get(first);
    b.finish(first, job.token, Complete{});
    CHECK(b.became_available("q"));
    CHECK(b.state(second) == JobState::available);
    CHECK(b.info("a").live == std::vector<JobId>{second});
    CHECK(b.info("a").buffered == 0);
    CHECK(b.state(b.trigger("a")) == JobState::waiting);
  }

  TEST_CASE("buffer_all: jobs start one by one, in the order of their ticks") {
    ScheduleBench b;
    b.put(b.definition("a", Overlap::buffer_all));
    FireSchedule fill{.name = "a", .source = TickSource::backfill};
    for (int i = 0; i < 4; ++i) fill.ticks.push_back({.nominal = b.wall() - minutes(10 - i)});
    const std::vector<JobId> made = b.one<FireResult>(fill).jobs;
    CHECK(b.info("a").buffered == 3);
    for (const JobId id : made) {
      CHECK(b.claim_one().id == id);
      CHECK(b.claim(9).empty());
      b.finish(id, b.get(id).token, Complete{});
      b.reopen();
    }
    CHECK(b.info("a").live.empty());
  }

  TEST_CASE("buffer_all: at most kMaxBuffered wait") {
    ScheduleBench b;
    b.put(b.definition("a", Overlap::buffer_all));
    FireSchedule fill{.name = "a", .source = TickSource::backfill};
    for (int i = 0; i < kMaxBuffered + 3; ++i)
      fill.ticks.push_back({.nominal = b.wall() - minutes(i + 1)});
    const FireResult fired = b.one<FireResult>(fill);
    CHECK(fired.fired == kMaxBuffered + 1);
    CHECK(fired.skipped == 2);
    CHECK(b.last_row("a").reason == "overlap: " + text(kMaxBuffered) + " jobs wait");
    CHECK(b.info("a").buffered == kMaxBuffered);
  }

  TEST_CASE("cancel_other: other jobs get a cancel request, and the new one waits for their end") {
    ScheduleBench b;
    b.put(b.definition("a", Overlap::allow));
    const JobId running = b.trigger("a");
    const ClaimedJob claimed = b.start(running);
    const JobId idle = b.trigger("a");
    const JobId waits = b.trigger("a", Overlap::buffer_all);
    const JobId next = b.trigger("a", Overlap::cancel_other);
    CHECK(b.state(idle) == JobState::cancelled);
    CHECK(b.get(idle).reason == "cancelled by schedule a");
    CHECK(b.state(waits) == JobState::cancelled);
    CHECK(b.get(running).cancel_requested);
    CHECK(b.state(next) == JobState::waiting);
    CHECK(b.renew(claimed).cancel == std::vector<JobId>{running});
    b.reopen();
    CHECK(b.finish(claimed, CancelJob{}) == FinishStatus::ok);
    CHECK(b.get(running).reason == "cancelled by schedule a");
    CHECK(b.state(next) == JobState::available);
    CHECK(b.info("a").live == std::vector<JobId>{next});
  }

  TEST_CASE("cancel_other: without a running job the new one starts at once") {
    ScheduleBench b;
    b.put(b.definition("a", Overlap::cancel_other));
    const JobId first = b.trigger("a");
    const JobId second = b.trigger("a");
    CHECK(b.state(first) == JobState::cancelled);
    CHECK(b.state(second) == JobState::available);
  }

  TEST_CASE("terminate_other: the leases of other jobs end at once, and the new one starts") {
    ScheduleBench b;
    b.put(b.definition("a", Overlap::terminate_other));
    const JobId first = b.trigger("a");
    const ClaimedJob claimed = b.start(first);
    const JobId waits = b.trigger("a", Overlap::buffer_all);
    const JobId next = b.trigger("a");
    CHECK(b.effects().ended == std::vector<JobId>{waits, first});
    CHECK(b.state(next) == JobState::available);
    for (int round = 0; round < 2; ++round, b.reopen()) {
      CHECK(b.get(first).state == JobState::cancelled);
      CHECK(b.get(first).reason == "terminated by schedule a");
      CHECK(b.get(waits).reason == "terminated by schedule a");
      CHECK(b.renew(claimed).lost == std::vector<JobId>{first});
      CHECK(b.finish(claimed, Complete{}) == FinishStatus::stale);
      CHECK(b.info("a").live == std::vector<JobId>{next});
      CHECK(b.info("a").buffered == 0);
    }
  }

  TEST_CASE("allow: jobs run in parallel; an operation may ask for another policy") {
    ScheduleBench b;
    b.put(b.definition("a", Overlap::allow));
    CHECK(b.trigger("a") != 0);
    CHECK(b.trigger("a") != 0);
    CHECK(b.trigger("a", Overlap::skip) == 0);
    CHECK(b.info("a").live.size() == 2);
    CHECK(b.count(JobState::available) == 2);
  }

  TEST_CASE("jobs of other schedules or of no schedule do not block a schedule") {
    ScheduleBench b;
    b.put("a");
    b.put("b");
    b.enqueue();
    b.trigger("a");
    CHECK(b.trigger("b") != 0);
  }
}

TEST_SUITE("store: jobs of schedules") {
  TEST_CASE("pause_on_failure: the schedule pauses in the transaction in which its job is dead") {
    ScheduleBench b;
    Schedule s = b.definition("a", Overlap::buffer_one);
    s.pause_on_failure = true;
    s.job.max_attempts = 1;
    b.put(s);
    b.end(b.trigger("a"));
    CHECK_FALSE(b.info("a").paused);
    const JobId fails = b.trigger("a");
    const JobId waits = b.trigger("a");
    b.end(fails, Retry{"e", {}});
    CHECK(b.info("a").paused);
    CHECK(b.info("a").paused_reason == "job " + text(fails) + " is dead");
    CHECK(b.store->agenda().next_schedule == WallTime::never());
    CHECK(b.state(waits) == JobState::available);
    b.reopen();
    CHECK(b.info("a").paused);
    b.one<Done>(PauseSchedule{"a", false, ""});
    b.start(waits);
    b.advance(minutes(1));
    b.rescue();
    CHECK(b.info("a").paused);
    CHECK(b.info("a").paused_reason == "job " + text(waits) + " is dead");
  }

  TEST_CASE("pause_on_failure: a job that dies of expiry while it waits pauses the schedule too") {
    ScheduleBench b;
    Schedule s = b.definition("a", Overlap::buffer_one);
    s.pause_on_failure = true;
    s.job.expires_in = seconds(20);
    s.job.on_expiry = OnExpiry::dead;
    b.put(s);
    const ClaimedJob running = b.start(b.trigger("a"));
    const JobId waits = b.trigger("a");
    CHECK(b.state(waits) == JobState::waiting);
    b.advance(seconds(21));
    CHECK(b.expire() == 1);
    CHECK(b.state(running.id) == JobState::running);
    CHECK(b.state(waits) == JobState::dead);
    for (int round = 0; round < 2; ++round, b.reopen()) {
      CHECK(b.info("a").paused);
      CHECK(b.info("a").paused_reason == "job " + text(waits) + " is dead");
      CHECK(b.info("a").buffered == 0);
      CHECK(b.info("a").live == std::vector<JobId>{running.id});
    }
  }

  TEST_CASE("a waiting job that an operator cancels is skipped, and the next one starts") {
    ScheduleBench b;
    b.put(b.definition("a", Overlap::buffer_all));
    const JobId first = b.trigger("a");
    const JobId second = b.trigger("a");
    const JobId third = b.trigger("a");
    CHECK(b.cancel(second).state == JobState::cancelled);
    CHECK(b.info("a").buffered == 1);
    b.reopen();
    b.end(first);
    CHECK(b.state(third) == JobState::available);
    CHECK(b.count(JobState::waiting) == 0);
  }

  TEST_CASE("a waiting job that an operator retries starts now, in parallel to the other") {
    ScheduleBench b;
    b.put(b.definition("a", Overlap::buffer_all));
    const JobId first = b.trigger("a");
    const JobId second = b.trigger("a");
    b.retry(second);
    CHECK(b.info("a").live == std::vector<JobId>{first, second});
    CHECK(b.info("a").buffered == 0);
    CHECK(b.claim(9).size() == 2);
  }

  TEST_CASE("a dead job that an operator retries is live again and blocks the next ticks") {
    ScheduleBench b;
    b.put(b.definition("a", Overlap::skip));
    const JobId id = b.trigger("a");
    b.end(id, Dead{"r", ""});
    CHECK(b.info("a").live.empty());
    b.reopen();
    b.retry(id);
    CHECK(b.info("a").live == std::vector<JobId>{id});
    CHECK(b.trigger("a") == 0);
    b.reopen();
    CHECK(b.trigger("a") == 0);
    b.end(id, Dead{"r", ""});
    CHECK(b.one<RedriveResult>(Redrive{}).redriven == 1);
    CHECK(b.trigger("a") == 0);
    b.end(id);
    CHECK(b.trigger("a") != 0);
  }

  TEST_CASE("a waiting job expires like any that has not started") {
    ScheduleBench b;
    Schedule s = b.definition("a", Overlap::buffer_all);
    s.job.expires_in = seconds(30);
    b.put(s);
    const JobId first = b.trigger("a");
    b.start(first);
    const JobId second = b.trigger("a");
    b.advance(seconds(30));
    b.reopen();
    CHECK(b.expire() == 1);
    CHECK(b.state(second) == JobState::cancelled);
    CHECK(b.stats().expired == 1);
    CHECK(b.info("a").buffered == 0);
  }

  TEST_CASE("ended jobs of a schedule are pruned and leave only the ledger") {
    ScheduleBench b;
    b.put(b.definition("a", Overlap::skip));
    const JobId id = b.trigger("a");
    b.end(id);
    b.advance(hours(25));
    CHECK(b.prune() == 1);
    b.reopen();
    CHECK(b.get_refused(id) == ErrorCode::expired);
    CHECK(b.last_row("a").job == id);
    CHECK(b.trigger("a") != 0);
  }

  TEST_CASE("jobs of a removed schedule stay: waiting ones start, and they are independent") {
    ScheduleBench b;
    b.put(b.definition("a", Overlap::buffer_all));
    const JobId first = b.trigger("a");
    const JobId second = b.trigger("a");
    const JobId third = b.trigger("a");
    b.one<Done>(RemoveSchedule{"a"});
    CHECK(b.refused(RemoveSchedule{"a"}) == ErrorCode::not_found);
    CHECK(b.store->agenda().next_schedule == WallTime::never());
    b.reopen();
    CHECK(b.store->ledger("a", 1, 0).error().code == ErrorCode::not_found);
    CHECK(ids(b.claim(9)) == std::vector<JobId>{first, second, third});
    b.finish(first, b.get(first).token, Dead{"r", ""});
    b.put(b.definition("a", Overlap::skip));
    b.retry(first);
    CHECK(b.info("a").live.empty());
    CHECK(b.trigger("a") != 0);
  }

  TEST_CASE("a schedule removed and put again in one batch has no link to earlier jobs") {
    ScheduleBench b;
    b.put(b.definition("a", Overlap::allow));
    const FireSchedule fire{.name = "a", .source = TickSource::trigger, .ticks = {Tick{}}};
    const auto answers =
        b.apply({fire, RemoveSchedule{"a"}, b.planned(b.definition("a", Overlap::skip)), fire});
    const JobId first = std::get<FireResult>(answers[0]).jobs.at(0);
    const JobId second = std::get<FireResult>(answers[3]).jobs.at(0);
    CHECK(first != 0);
    CHECK(second != 0);
    CHECK(b.info("a").live == std::vector<JobId>{second});
    CHECK(b.info("a").version == 2);
  }
}

}  // namespace
}  // namespace mainspring::conformance
