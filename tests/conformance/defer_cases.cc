// Deferred jobs, and claims by job id.
#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

ClaimResult claim_named(Bench& b, JobId id, std::vector<std::string> queues = {"q"}) {
  return b.one<ClaimResult>(
      Claim{.worker = "w", .queues = std::move(queues), .kinds = {"other"}, .max = 7, .job = id});
}

ErrorCode refused_named(Bench& b, JobId id, std::vector<std::string> queues = {"q"}) {
  return b.refused(Claim{.worker = "w", .queues = std::move(queues), .job = id});
}

// A job that ran once and was deferred.
JobId deferred(Bench& b, NewJob job, std::string reason = "") {
  const std::string queue = job.queue;
  const JobId id = b.enqueue(std::move(job));
  CHECK(b.finish(b.claim(1, {queue}).at(0), Defer{std::move(reason)}) == FinishStatus::ok);
  return id;
}

}  // namespace

TEST_SUITE("defer") {
  TEST_CASE("a deferred job waits until it is claimed by its id, and keeps its checkpoint") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob first = b.claim_one();
    b.renew(first, Progress{0.5, "half"}, "[1]");
    CHECK(b.finish(first, Defer{"no answer yet"}) == FinishStatus::ok);
    CHECK_FALSE(b.became_available("q"));
    Job job = b.get(id);
    CHECK(job.state == JobState::waiting);
    CHECK(job.deferred);
    CHECK(job.reason == "no answer yet");
    CHECK(job.attempt == 0);
    CHECK(job.worker.empty());
    CHECK(b.count(JobState::waiting) == 1);
    CHECK(b.listed({.queue = "q", .state = JobState::waiting}) == std::vector<JobId>{id});
    CHECK(b.finish(first, Complete{}) == FinishStatus::stale);
    b.advance(hours(24 * 365));
    b.move_due(), b.rescue(), b.expire(), b.prune();
    CHECK(b.claim().empty());
    b.reopen();
    CHECK(b.claim().empty());

    const ClaimedJob again = claim_named(b, id).jobs.at(0);
    CHECK(again.id == id);
    CHECK(again.deferred);
    CHECK(again.token > first.token);
    CHECK(again.attempt == 1);
    CHECK(again.checkpoint == "[1]");
    job = b.get(id);
    CHECK(job.state == JobState::running);
    CHECK_FALSE(job.deferred);
    CHECK(job.reason.empty());
    CHECK(job.progress->text == "half");
    CHECK(b.renew(again).lost.empty());
    CHECK(b.finish(again, Complete{}) == FinishStatus::ok);
    CHECK(b.state(id) == JobState::completed);
  }

  TEST_CASE("a deferred job stays deferred over a restart, and does not expire") {
    Bench b;
    NewJob job = b.job();
    job.expires_in = seconds(30);
    job.max_attempts = 1;
    const JobId id = deferred(b, job, "later");
    b.advance(minutes(5));
    CHECK(b.expire() == 0);
    b.reopen();
    CHECK(b.get(id).deferred);
    CHECK(b.get(id).reason == "later");
    const ClaimedJob again = claim_named(b, id).jobs.at(0);
    b.reopen();
    CHECK(b.state(id) == JobState::running);
    CHECK(b.finish(again, Defer{}) == FinishStatus::ok);
    CHECK(b.finish(claim_named(b, id).jobs.at(0), Retry{"e", {}}) == FinishStatus::ok);
    CHECK(b.state(id) == JobState::dead);  // it was its only attempt
    CHECK(b.get(id).reason == "max_attempts");
  }

  TEST_CASE("an operator's retry makes a deferred job available, and a cancel cancels it") {
    Bench b;
    const JobId id = deferred(b, b.job(), "why");
    CHECK(b.retry(id).state == JobState::available);
    CHECK(b.became_available("q"));
    CHECK_FALSE(b.get(id).deferred);
    CHECK(b.get(id).reason.empty());
    CHECK(b.finish(b.claim_one(), Defer{"again"}) == FinishStatus::ok);
    CHECK(b.cancel(id, "").state == JobState::cancelled);
    const Job job = b.get(id);
    CHECK_FALSE(job.deferred);
    CHECK(job.reason.empty());
    CHECK(b.retry(id).state == JobState::available);
    CHECK(b.claim_one().id == id);
  }

  TEST_CASE("a job with a cancel request is cancelled instead of deferred") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob c = b.claim_one();
    b.cancel(id, "unwanted");
    CHECK(b.finish(c, Defer{"why"}) == FinishStatus::ok);
    CHECK(b.state(id) == JobState::cancelled);
    CHECK(b.get(id).reason == "unwanted");
    CHECK_FALSE(b.get(id).deferred);
  }

  TEST_CASE("an enqueue with the unique key of a deferred job leaves it as it is") {
    for (const OnConflict policy : {OnConflict::keep, OnConflict::replace, OnConflict::postpone}) {
      Bench b;
      NewJob job = b.job();
      job.unique = Unique{.key = "k", .on_conflict = policy};
      const JobId id = deferred(b, job, "why");
      job.args = "[2]";
      job.delay = seconds(1);
      const auto made = b.one<EnqueueResult>(Enqueue{.jobs = {job}}).jobs.at(0);
      CHECK(made.id == id);
      CHECK(made.duplicate);
      CHECK(made.state == JobState::waiting);
      CHECK(b.get(id).deferred);
      CHECK(b.get(id).args != "[2]");
    }
  }

  TEST_CASE("a job of a session is not deferred, and the whole request is refused") {
    Bench b;
    NewJob job = b.job();
    const JobId plain = b.enqueue(job);
    job.session = "s";
    const JobId ordered = b.enqueue(job);
    const auto jobs = b.claim(2);
    REQUIRE(ids(jobs) == std::vector<JobId>{plain, ordered});
    Finish both{.worker = "w",
                .results = {{plain, jobs[0].token, Complete{}}, {ordered, jobs[1].token, Defer{}}}};
    CHECK(b.refused(both) == ErrorCode::conflict);
    CHECK(b.state(plain) == JobState::running);
    CHECK(b.state(ordered) == JobState::running);
    // With another job's token there is nothing to refuse.
    CHECK(b.finish(ordered, jobs[0].token, Defer{}) == FinishStatus::stale);
    CHECK(b.finish(jobs[1], Complete{}) == FinishStatus::ok);
  }

  TEST_CASE("an attempt that fails after it was received by its id goes the usual way") {
    Bench b;
    const JobId id = deferred(b, b.job());
    CHECK(b.finish(claim_named(b, id).jobs.at(0), Retry{"e", seconds(0)}) == FinishStatus::ok);
    CHECK(b.claim_one().id == id);
    b.finish(id, b.get(id).token, Defer{});
    const ClaimedJob lost = claim_named(b, id).jobs.at(0);
    b.advance(seconds(1));
    b.renew(lost);
    b.advance(minutes(5));
    CHECK(b.rescue() == 1);
    CHECK(b.state(id) == JobState::retryable);
    CHECK(b.finish(lost, Complete{}) == FinishStatus::stale);
  }

  TEST_CASE("a deferred run blocks its schedule like a running one") {
    Bench b;
    Schedule s{.name = "s", .every = seconds(10), .job = b.job()};
    s.overlap = Overlap::buffer_one;
    b.one<PutScheduleResult>(PutSchedule{.schedule = s, .next = b.wall(), .next_fire = b.wall()});
    const auto fire = [&] {
      return b
          .one<FireResult>(FireSchedule{.name = "s",
                                        .version = b.store->schedule("s")->version,
                                        .source = TickSource::trigger,
                                        .ticks = {Tick{}}})
          .jobs.at(0);
    };
    const JobId first = fire();
    b.finish(b.claim_one(), Defer{});
    const JobId second = fire();
    CHECK(b.state(second) == JobState::waiting);
    CHECK_FALSE(b.get(second).deferred);
    CHECK(refused_named(b, second) == ErrorCode::conflict);  // the rate has no slot yet
    b.reopen();
    CHECK(b.claim().empty());
    b.finish(claim_named(b, first).jobs.at(0), Complete{});
    CHECK(b.claim_one().id == second);
  }
}

TEST_SUITE("named claims") {
  TEST_CASE("a claim by id gets that job, at any place in the ready queue") {
    Bench b;
    NewJob low = b.job();
    low.priority = 9;
    b.enqueue();
    const JobId id = b.enqueue(low);
    b.enqueue();
    const auto got = claim_named(b, id).jobs;  // its kind is not among the requested ones
    REQUIRE(got.size() == 1);
    CHECK(got[0].id == id);
    CHECK_FALSE(got[0].deferred);
    CHECK(got[0].attempt == 1);
    CHECK(b.claim(5).size() == 2);
  }

  TEST_CASE("a claim by id starts a job before its run_at, and its failures count") {
    Bench b;
    NewJob job = b.job();
    job.delay = hours(1);
    const JobId id = b.enqueue(job);
    CHECK(b.finish(claim_named(b, id).jobs.at(0), Retry{"e", hours(1)}) == FinishStatus::ok);
    CHECK(b.state(id) == JobState::retryable);
    const ClaimedJob second = claim_named(b, id).jobs.at(0);
    CHECK(second.attempt == 2);
    b.advance(hours(2));
    CHECK(b.move_due() == 0);
    CHECK(b.finish(second, Complete{}) == FinishStatus::ok);  // not rescued yet
    CHECK(b.state(id) == JobState::completed);
  }

  TEST_CASE("a claim by id of a running or ended job is refused with its state") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob c = b.claim_one();
    CHECK(refused_named(b, id) == ErrorCode::conflict);
    CHECK(b.get(id).token == c.token);
    b.finish(c, Complete{});
    CHECK(refused_named(b, id) == ErrorCode::conflict);
    CHECK(refused_named(b, b.dead(b.job())) == ErrorCode::conflict);
    CHECK(refused_named(b, 9999) == ErrorCode::not_found);
  }

  TEST_CASE("a claim by id of a job of another queue is not found") {
    Bench b;
    const JobId id = b.enqueue(b.job("other"));
    CHECK(refused_named(b, id) == ErrorCode::not_found);
    CHECK(claim_named(b, id, {"q", "other"}).jobs.at(0).id == id);
  }

  TEST_CASE("a claim by id of a job of a session is refused") {
    Bench b;
    NewJob job = b.job();
    job.session = "s";
    const JobId first = b.enqueue(job), second = b.enqueue(job);
    CHECK(refused_named(b, first) == ErrorCode::conflict);
    CHECK(refused_named(b, second) == ErrorCode::conflict);
    CHECK(b.claim_one().id == first);
  }

  TEST_CASE("a claim by id of an expired job is refused") {
    Bench b;
    NewJob job = b.job();
    job.expires_in = seconds(5);
    const JobId id = b.enqueue(job);
    b.advance(seconds(5));
    CHECK(refused_named(b, id) == ErrorCode::conflict);
    CHECK(b.expire() == 1);
  }

  TEST_CASE("a claim by id from a paused queue is refused") {
    Bench b;
    const JobId id = deferred(b, b.job());
    const JobId there = b.enqueue();
    b.one<Done>(PauseQueue{"q", true});
    CHECK(refused_named(b, id) == ErrorCode::conflict);
    CHECK(refused_named(b, there) == ErrorCode::conflict);
    CHECK(b.get(id).deferred);
    b.one<Done>(PauseQueue{"q", false});
    CHECK(claim_named(b, id).jobs.size() == 1);
  }

  TEST_CASE("a claim by id counts against the limits of its queue") {
    Bench b;
    const JobId id = deferred(b, b.job());
    b.enqueue(), b.enqueue();
    b.one<Done>(SetQueueLimits{"q", {.concurrency = 1, .rate = {}, .per_key = {}}});
    const ClaimedJob other = b.claim_one();
    CHECK(refused_named(b, id) == ErrorCode::conflict);
    CHECK(b.get(id).deferred);
    b.finish(other, Complete{});
    const ClaimedJob named = claim_named(b, id).jobs.at(0);
    CHECK(b.claim().empty());
    b.finish(named, Complete{});
    CHECK(b.became_available("q"));
    CHECK(b.claim().size() == 1);
  }

  TEST_CASE("a claim by id counts against the rate of its queue") {
    Bench b;
    const JobId first = deferred(b, b.job()), second = deferred(b, b.job());
    b.one<Done>(SetQueueLimits{
        "q", {.concurrency = {}, .rate = RateLimit{.count = 1, .per = minutes(1)}, .per_key = {}}});
    CHECK(claim_named(b, first).jobs.size() == 1);
    CHECK(refused_named(b, second) == ErrorCode::conflict);
    b.advance(minutes(1));
    CHECK(claim_named(b, second).jobs.size() == 1);
  }

  TEST_CASE("a claim by id counts against the limit of its key") {
    Bench b;
    NewJob job = b.job();
    job.limit_key = "acme";
    const JobId aside = deferred(b, job);
    QueueLimits limits;
    limits.per_key.concurrency = 1;
    b.one<Done>(SetQueueLimits{"q", limits});
    const JobId first = b.enqueue(job), second = b.enqueue(job), third = b.enqueue(job);
    const ClaimedJob running = b.claim_one();
    CHECK(running.id == first);
    CHECK(b.claim().empty());  // jobs that wait for the key are not claimable
    CHECK(refused_named(b, aside) == ErrorCode::conflict);
    CHECK(refused_named(b, third) == ErrorCode::conflict);
    b.finish(running, Complete{});
    const ClaimedJob named = claim_named(b, third).jobs.at(0);
    CHECK(b.claim(5).empty());
    CHECK(b.store->limit_key("q", "acme")->running == 1);
    b.finish(named, Complete{});
    const ClaimedJob last = claim_named(b, aside).jobs.at(0);
    CHECK(b.claim(5).empty());
    b.reopen();
    CHECK(b.claim(5).empty());
    b.finish(last, Defer{});
    CHECK(b.claim_one().id == second);
  }
}

}  // namespace mainspring::conformance
