// Quarantine: jobs that kill their workers run one at a time.
#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

int quarantine_open(Bench& b) {
  return b.one<StepResult>(OpenQueues{}).changed;
}

// Claims all available jobs, and lets their leases expire.
std::vector<JobId> lose(Bench& b, std::vector<std::string> queues = {"q"}) {
  const auto lost = ids(b.claim(9, std::move(queues)));
  b.advance(kDefaultLease + seconds(1));
  CHECK(b.rescue() == static_cast<int>(lost.size()));
  return lost;
}

// All jobs, twice; then waits for the back-off.
void lose_twice(Bench& b, std::vector<std::string> queues = {"q"}) {
  for (int i = 0; i < 2; ++i) {
    CHECK_FALSE(lose(b, queues).empty());
    b.advance(minutes(1));
    b.move_due();
  }
}

JobId quarantined(Bench& b, NewJob job) {
  const std::string queue = job.queue;
  const JobId id = b.enqueue(std::move(job));
  lose_twice(b, {queue});
  CHECK(b.get(id).quarantined);
  return id;
}
JobId quarantined(Bench& b) {
  return quarantined(b, b.job());
}

void set_after(Bench& b, std::optional<int> lost) {
  b.one<Done>(SetQueueLimits{.queue = "q", .limits = {.quarantine_after = lost}});
}

ErrorCode quarantine_refused_named(Bench& b, JobId id) {
  return b.refused(Claim{.worker = "w", .queues = {"q"}, .job = id});
}

}  // namespace

TEST_SUITE("quarantine") {
  TEST_CASE("a job whose last two attempts were lost waits in quarantine until it is released") {
    Bench b;
    const JobId id = b.enqueue();
    CHECK(lose(b) == std::vector<JobId>{id});
    CHECK_FALSE(b.get(id).quarantined);
    b.advance(minutes(1));
    CHECK(b.move_due() == 1);
    CHECK(lose(b) == std::vector<JobId>{id});
    Job job = b.get(id);
    CHECK(job.state == JobState::retryable);
    CHECK(job.quarantined == Quarantine{.since = b.wall(), .lost = 2, .released = false});
    CHECK(b.stats().quarantined == 1);
    CHECK(b.count(JobState::retryable) == 1);
    CHECK(b.listed({.queue = "q", .state = JobState::retryable}) == std::vector<JobId>{id});
    CHECK(b.store->agenda().next_due == WallTime::never());
    CHECK(b.store->agenda().next_opening == job.run_at);
    CHECK(quarantine_open(b) == 0);

    b.advance(minutes(1));
    CHECK(b.move_due() == 0);
    CHECK(b.claim().empty());
    b.reopen();
    CHECK(b.claim().empty());
    CHECK(b.store->agenda().next_opening <= b.wall());
    CHECK(quarantine_open(b) == 1);
    CHECK(b.became_available("q"));
    CHECK(b.store->agenda().next_opening == WallTime::never());
    CHECK(b.state(id) == JobState::available);
    CHECK(b.get(id).quarantined->released);
    CHECK(quarantine_open(b) == 0);
    b.reopen();
    const ClaimedJob claimed = b.claim_one();
    CHECK(claimed.id == id);
    CHECK(claimed.attempt == 3);
    CHECK(b.get(id).quarantined->released);
    CHECK(b.stats().quarantined == 1);
    CHECK(b.finish(claimed, Complete{}) == FinishStatus::ok);
    CHECK_FALSE(b.get(id).quarantined);
    CHECK(b.stats().quarantined == 0);
    CHECK(quarantine_open(b) == 0);
  }

  TEST_CASE("a lease that was never renewed costs no attempt, a limited number of times") {
    Bench b;
    NewJob n = b.job();
    n.max_attempts = 2;
    const JobId id = b.enqueue(n);
    const auto lose_silently = [&] {
      const auto jobs = b.claim_silently();
      REQUIRE(jobs.size() == 1);
      b.advance(kDefaultLease);
      CHECK(b.rescue() == 1);
      return jobs[0];
    };
    Token last = 0;
    for (int i = 0; i < kMaxUnstartedLosses; ++i) {
      const ClaimedJob lost = lose_silently();
      CHECK(lost.attempt == 1);
      CHECK(lost.token > last);
      CHECK(b.finish(lost, Complete{}) == FinishStatus::stale);
      CHECK(b.state(id) == JobState::available);
      b.reopen();  // between the attempts
      last = lost.token;
    }
    CHECK(b.get(id).errors.empty());
    CHECK(lose_silently().attempt == 1);
    CHECK(b.state(id) == JobState::retryable);
    CHECK_FALSE(b.get(id).quarantined);
    b.advance(minutes(1));
    b.move_due();
    CHECK(lose_silently().attempt == 2);
    CHECK(b.state(id) == JobState::dead);
    CHECK(b.get(id).errors.size() == 2);
  }

  TEST_CASE("the loss of a renewed lease counts, also after a restart or if its end did not move") {
    Bench b;
    NewJob n = b.job();
    n.max_attempts = 1;
    const JobId restarted = b.enqueue(n);
    (void)b.claim_one();
    b.reopen();
    b.advance(kDefaultLease);
    CHECK(b.rescue() == 1);
    CHECK(b.state(restarted) == JobState::dead);

    const JobId same_end = b.enqueue(n);
    const auto held = b.claim_silently();
    REQUIRE(held.size() == 1);
    b.advance(seconds(10));
    Renew renew{.worker = "w1", .leases = {{.id = held[0].id, .token = held[0].token}}};
    renew.lease = kDefaultLease - seconds(10);
    CHECK(b.one<RenewResult>(renew).renewed.size() == 1);
    b.advance(kDefaultLease - seconds(10));
    CHECK(b.rescue() == 1);
    CHECK(b.state(same_end) == JobState::dead);
  }

  TEST_CASE("a lease without a renewal counts if its job is over its time limit") {
    Bench b;
    NewJob n = b.job();
    n.max_attempts = 1, n.timeout = seconds(10);
    const JobId id = b.enqueue(n);
    const Claim claim{.worker = "w1", .queues = {"q"}, .kinds = {}, .max = 1, .lease = seconds(60)};
    REQUIRE(b.one<ClaimResult>(claim).jobs.size() == 1);
    b.advance(seconds(60));
    CHECK(b.rescue() == 1);
    CHECK(b.state(id) == JobState::dead);
  }

  TEST_CASE("a stop and a standstill do not make an attempt count that was never renewed") {
    Bench b;
    const JobId id = b.enqueue();
    REQUIRE(b.claim_silently().size() == 1);
    b.advance(seconds(10));
    (void)b.one<Done>(AllowRestart{.allowance = minutes(2)});
    (void)b.one<Done>(ExtendLeases{.gap = seconds(5)});
    b.advance(minutes(2));
    CHECK(b.rescue() == 1);
    CHECK(b.state(id) == JobState::available);
    CHECK(b.get(id).attempt == 0);
  }

  TEST_CASE("losses without a renewal count again after a report, and neither quarantines") {
    Bench b;
    const JobId id = b.enqueue();
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < kMaxUnstartedLosses; ++i) {
        REQUIRE(b.claim_silently().size() == 1);
        b.advance(kDefaultLease);
        CHECK(b.rescue() == 1);
        CHECK(b.state(id) == JobState::available);
      }
      CHECK(b.finish(b.claim_one(), Snooze{}) == FinishStatus::ok);
    }
    CHECK(b.get(id).attempt == 0);
    REQUIRE(b.claim_silently().size() == 1);
    b.cancel(id);
    b.advance(kDefaultLease);
    CHECK(b.rescue() == 1);
    CHECK(b.state(id) == JobState::cancelled);
  }

  TEST_CASE("one quarantined job at a time is released per queue") {
    Bench b;
    NewJob first = b.job();
    first.priority = 1;
    const JobId a = b.enqueue(), c = b.enqueue(), urgent = b.enqueue(first);
    const JobId other = b.enqueue(b.job("other"));
    lose_twice(b, {"q", "other"});
    CHECK(b.stats().quarantined == 3);
    const JobId next = b.get(a).run_at < b.get(c).run_at ? a : c, last = next == a ? c : a;
    CHECK(b.store->ahead(b.get(urgent), 9) == 0);
    CHECK(b.store->ahead(b.get(last), 9) == 2);
    CHECK(b.store->ahead(b.get(last), 1) == 1);

    CHECK(b.one<StepResult>(OpenQueues{.limit = 1, .fence = {}}).more);
    CHECK(quarantine_open(b) == 1);
    CHECK(b.get(other).quarantined->released);
    CHECK(b.get(urgent).quarantined->released);
    CHECK(b.store->ahead(b.get(last), 9) == 2);
    CHECK(quarantine_open(b) == 0);
    b.reopen();
    CHECK(quarantine_open(b) == 0);
    const auto claimed = b.claim(9);
    CHECK(ids(claimed) == std::vector<JobId>{urgent});
    CHECK(quarantine_open(b) == 0);
    CHECK(b.finish(claimed[0], Snooze{hours(1)}) == FinishStatus::ok);
    CHECK(quarantine_open(b) == 1);
    CHECK(ids(b.claim(9)) == std::vector<JobId>{next});
    CHECK(quarantine_open(b) == 0);
    CHECK(b.store->ahead(b.get(last), 9) == 1);
  }

  TEST_CASE("jobs in quarantine can be listed alone, in one page, also after many other jobs") {
    Bench b;
    NewJob tagged = b.job();
    tagged.tags = {"t"};
    const JobId a = b.enqueue(tagged), other = b.enqueue(b.job("other"));
    lose_twice(b, {"q", "other"});
    const JobId done = quarantined(b);
    b.retry(done);
    b.finish(b.claim_one(), Complete{});
    for (int i = 0; i < 3; ++i) {
      Enqueue many;
      many.jobs.assign(7000, b.job("many"));
      b.one<EnqueueResult>(many);
    }
    using Ids = std::vector<JobId>;
    const auto page = [&](JobFilter filter, int limit = 10, JobId before = 0) {
      filter.quarantined = true;
      const auto got = b.store->list(filter, limit, before);
      REQUIRE(got);
      Ids found;
      for (const Job& job : got->jobs) found.push_back(job.id);
      return found;
    };
    CHECK(page({}) == Ids{other, a});
    CHECK(page({.queue = "q"}) == Ids{a});
    CHECK(page({.tag = "t"}) == Ids{a});
    CHECK(page({.kind = "none"}).empty());
    CHECK(page({.state = JobState::retryable}) == Ids{other, a});
    CHECK(page({.state = JobState::running}).empty());
    CHECK(quarantine_open(b) == 2);
    CHECK(b.claim_one().id == a);
    CHECK(page({.state = JobState::retryable}).empty());
    CHECK(page({.state = JobState::available}) == Ids{other});
    CHECK(page({.state = JobState::running}) == Ids{a});
    b.reopen();
    CHECK(page({}) == Ids{other, a});
    CHECK(page({}, 1) == Ids{other});
    CHECK(page({}, 1, other) == Ids{a});
    CHECK(b.listed({.quarantined = true}) == Ids{other, a});
  }

  TEST_CASE("a released job that is lost again goes back, and the waiting ones come first") {
    Bench b;
    const JobId a = b.enqueue(), c = b.enqueue();
    lose_twice(b);
    const WallTime since = b.get(a).quarantined->since;
    CHECK(quarantine_open(b) == 1);
    const auto first = lose(b);
    REQUIRE(first.size() == 1);
    const Job back = b.get(first[0]);
    CHECK(back.state == JobState::retryable);
    CHECK(back.quarantined == Quarantine{.since = since, .lost = 3, .released = false});
    CHECK(quarantine_open(b) == 1);
    const auto second = b.claim(9);
    CHECK(ids(second) == std::vector<JobId>{first[0] == a ? c : a});
    b.advance(seconds(10));
    CHECK(b.finish(second[0], Complete{}) == FinishStatus::ok);
    CHECK(quarantine_open(b) == 0);  // its back-off is not over
    b.advance(minutes(3));
    CHECK(quarantine_open(b) == 1);
    CHECK(ids(b.claim(9)) == first);
  }

  TEST_CASE("any outcome takes a job out of quarantine and resets the count") {
    const std::vector<Outcome> outcomes = {Retry{"no", Duration(0)}, Retry{"no", minutes(1)},
                                           Snooze{}, Snooze{minutes(1)}, Defer{}};
    for (const Outcome& outcome : outcomes) {
      Bench b;
      const JobId id = quarantined(b), next = quarantined(b);
      CHECK(quarantine_open(b) == 1);
      CHECK(b.finish(b.claim_one(), outcome) == FinishStatus::ok);
      CHECK_FALSE(b.get(id).quarantined);
      CHECK(b.stats().quarantined == 1);
      if (std::holds_alternative<Defer>(outcome)) b.retry(id);
      b.advance(minutes(1));
      b.move_due();
      b.reopen();
      CHECK(lose(b) == std::vector<JobId>{id});
      CHECK_FALSE(b.get(id).quarantined);
      CHECK(quarantine_open(b) == 1);
      CHECK(b.get(next).quarantined->released);
    }
  }

  TEST_CASE("only lost attempts in a row count; an outcome in between resets the count") {
    Bench b;
    const JobId id = b.enqueue();
    for (const Outcome& outcome : {Outcome(Retry{"no", Duration(0)}), Outcome(Snooze{})}) {
      lose(b);
      b.advance(minutes(10));
      b.move_due();
      CHECK(b.finish(b.claim_one(), outcome) == FinishStatus::ok);
    }
    lose(b);
    CHECK_FALSE(b.get(id).quarantined);
    b.advance(minutes(20));
    b.move_due();
    b.reopen();
    lose(b);
    CHECK(b.get(id).quarantined->lost == 2);
  }

  TEST_CASE("max_attempts and a cancel request still end the job, and the next one is released") {
    Bench b;
    NewJob job = b.job();
    job.max_attempts = 3;
    const JobId id = quarantined(b, job), wished = quarantined(b), last = quarantined(b);
    CHECK(quarantine_open(b) == 1);
    CHECK(lose(b) == std::vector<JobId>{id});
    CHECK(b.state(id) == JobState::dead);
    CHECK_FALSE(b.get(id).quarantined);
    CHECK(b.get(id).errors.size() == 3);
    CHECK(quarantine_open(b) == 1);
    b.claim_one();
    b.cancel(wished);
    b.advance(kDefaultLease + seconds(1));
    CHECK(b.rescue() == 1);
    CHECK(b.state(wished) == JobState::cancelled);
    CHECK_FALSE(b.get(wished).quarantined);
    CHECK(b.stats().quarantined == 1);
    CHECK(quarantine_open(b) == 1);
    CHECK(b.get(last).quarantined->released);
    CHECK(b.retry(id).state == JobState::available);
    CHECK(b.retry(wished).state == JobState::available);
    CHECK(b.claim(9).size() == 3);
    b.advance(kDefaultLease + seconds(1));
    CHECK(b.rescue() == 3);
    CHECK(b.stats().quarantined == 1);
  }

  TEST_CASE("quarantine_after of the queue sets the number of lost attempts") {
    Bench b;
    const JobId id = b.enqueue();
    set_after(b, 0);
    b.reopen();
    CHECK(b.stats().limits == QueueLimits{.quarantine_after = 0});
    for (int i = 0; i < 4; ++i) {
      CHECK(lose(b).size() == 1);
      CHECK_FALSE(b.get(id).quarantined);
      b.advance(hours(1));
      CHECK(b.move_due() == 1);
    }
    set_after(b, 6);
    CHECK(lose(b).size() == 1);
    CHECK_FALSE(b.get(id).quarantined);
    b.advance(hours(1));
    CHECK(b.move_due() == 1);
    CHECK(lose(b).size() == 1);
    CHECK(b.get(id).quarantined->lost == 6);

    set_after(b, 1);
    const JobId other = b.enqueue();
    CHECK(lose(b) == std::vector<JobId>{other});
    CHECK(b.get(other).quarantined->lost == 1);
    CHECK(b.stats().quarantined == 2);
    b.advance(hours(1));
    CHECK(quarantine_open(b) == 1);
    set_after(b, 0);  // no new jobs enter; the present ones are still released in order
    const auto released = lose(b);
    REQUIRE(released.size() == 1);
    CHECK_FALSE(b.get(released[0]).quarantined);
    CHECK(b.stats().quarantined == 1);
    CHECK(quarantine_open(b) == 1);
    set_after(b, std::nullopt);
    CHECK(b.stats().limits == QueueLimits{});
  }

  TEST_CASE("an operator's retry takes the released job out of quarantine and resets the count") {
    Bench b;
    const JobId id = quarantined(b), next = quarantined(b);
    CHECK(quarantine_open(b) == 1);
    CHECK(b.get(id).quarantined->released);
    CHECK(b.retry(id).state == JobState::available);
    CHECK_FALSE(b.get(id).quarantined);
    CHECK(b.stats().quarantined == 1);
    CHECK(quarantine_open(b) == 1);
    CHECK(b.get(next).quarantined->released);
    b.reopen();
    CHECK(b.claim(9).size() == 2);
  }

  TEST_CASE("an operator's retry of an available job resets the count") {
    Bench b;
    const JobId id = b.enqueue();
    CHECK(lose(b) == std::vector<JobId>{id});
    b.advance(minutes(1));
    CHECK(b.move_due() == 1);
    const auto version = b.get(id).version;
    CHECK(b.retry(id).state == JobState::available);
    CHECK(b.get(id).version == version + 1);
    CHECK(b.retry(id).state == JobState::available);
    CHECK(b.get(id).version == version + 1);
    CHECK(lose(b) == std::vector<JobId>{id});
    CHECK_FALSE(b.get(id).quarantined);
  }

  TEST_CASE("an operator's retry makes a quarantined job available; a cancel ends it") {
    Bench b;
    const JobId id = quarantined(b), gone = quarantined(b), next = quarantined(b);
    CHECK(b.retry(id).state == JobState::available);
    CHECK_FALSE(b.get(id).quarantined);
    b.cancel(gone);
    CHECK(b.state(gone) == JobState::cancelled);
    CHECK_FALSE(b.get(gone).quarantined);
    CHECK(b.stats().quarantined == 1);
    CHECK(quarantine_open(b) == 1);
    CHECK(b.get(next).quarantined->released);
    b.cancel(next);
    CHECK(b.stats().quarantined == 0);
    CHECK(lose(b) == std::vector<JobId>{id});
    CHECK_FALSE(b.get(id).quarantined);
  }

  TEST_CASE("an enqueue with the unique key of a quarantined job leaves it as it is") {
    for (const OnConflict policy : {OnConflict::replace, OnConflict::postpone}) {
      Bench b;
      NewJob job = b.job();
      job.unique = Unique{.key = "k", .on_conflict = policy};
      const JobId id = quarantined(b, job);
      const Job before = b.get(id);
      job.args = "[7]";
      CHECK(b.enqueue(job) == id);
      CHECK(b.get(id).version == before.version);
      CHECK(b.get(id).quarantined == before.quarantined);
    }
  }

  TEST_CASE("a claim by id gets a quarantined job while no other one is released") {
    Bench b;
    const JobId id = quarantined(b), other = quarantined(b);
    const auto named = b.one<ClaimResult>(Claim{.worker = "w", .queues = {"q"}, .job = other});
    REQUIRE(named.jobs.size() == 1);
    CHECK(b.get(other).quarantined->released);
    CHECK(quarantine_open(b) == 0);
    CHECK(quarantine_refused_named(b, id) == ErrorCode::conflict);
    CHECK(b.finish(named.jobs[0], Complete{}) == FinishStatus::ok);
    CHECK(quarantine_open(b) == 1);
    CHECK(b.one<ClaimResult>(Claim{.worker = "w", .queues = {"q"}, .job = id}).jobs.size() == 1);
    CHECK(b.stats().quarantined == 1);
  }

  TEST_CASE("a quarantined job stays the head of its session") {
    Bench b;
    NewJob job = b.job();
    job.session = "s";
    const JobId id = quarantined(b, job);
    const JobId behind = b.enqueue(job);
    CHECK(b.claim().empty());
    CHECK(quarantine_open(b) == 1);
    const ClaimedJob claimed = b.claim_one();
    CHECK(claimed.id == id);
    CHECK(b.claim().empty());
    CHECK(b.finish(claimed, Complete{}) == FinishStatus::ok);
    CHECK(b.claim_one().id == behind);
  }

  TEST_CASE("a paused queue releases and gives nothing; OpenQueues of no leader releases none") {
    Bench b;
    const JobId id = quarantined(b);
    CHECK(b.refused(OpenQueues{.limit = 10, .fence = {"mainspring/leader", 77}}) ==
          ErrorCode::lease_lost);
    b.one<Done>(PauseQueue{"q", true});
    CHECK(quarantine_open(b) == 1);
    CHECK(b.claim().empty());
    b.one<Done>(PauseQueue{"q", false});
    CHECK(b.claim_one().id == id);
  }

  TEST_CASE("a quarantined job that ended is pruned like any other") {
    Bench b;
    const JobId id = quarantined(b);
    CHECK(quarantine_open(b) == 1);
    CHECK(b.finish(b.claim_one(), Complete{}) == FinishStatus::ok);
    b.advance(hours(24 * 400));
    CHECK(b.prune() == 1);
    CHECK(b.get_refused(id) == ErrorCode::expired);
    const JobId next = quarantined(b);
    CHECK(quarantine_open(b) == 1);
    CHECK(b.claim_one().id == next);
  }
}

}  // namespace mainspring::conformance
