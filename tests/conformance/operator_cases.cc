// Promises to operators and the scheduler: cancel, retry, redrive, pause, retention, reads.
#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

TEST_SUITE("store: cancel") {
  TEST_CASE("a job that is not running is cancelled at once") {
    Bench b;
    const JobId available = b.enqueue();
    NewJob n = b.job();
    n.delay = hours(1);
    const JobId scheduled = b.enqueue(n);
    const JobId retryable = b.enqueue(b.job("r"));
    b.finish(b.claim(1, {"r"}).at(0), Retry{"e", hours(1)});
    for (const JobId id : {available, scheduled, retryable}) {
      const CancelResult r = b.cancel(id, "no need");
      CHECK(r.state == JobState::cancelled);
      CHECK_FALSE(r.cancel_requested);
      CHECK(b.state(id) == JobState::cancelled);
      CHECK(b.get(id).reason == "no need");
      CHECK(b.get(id).finished_at == b.wall());
    }
    b.advance(hours(2));
    CHECK(b.move_due() == 0);
    CHECK(b.claim(9, {"q", "r"}).empty());
    CHECK_FALSE(b.store->has_available("q"));
    CHECK(b.get(retryable).errors.size() == 1);
  }

  TEST_CASE("cancelling a running job notes a request that its worker gets with its next renewal") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob c = b.claim_one();
    const CancelResult r = b.cancel(id, "wrong file");
    CHECK(r.state == JobState::running);
    CHECK(r.cancel_requested);
    CHECK(r.worker == "w1");
    CHECK(b.get(id).cancel_requested);
    CHECK(b.state(id) == JobState::running);
    CHECK(b.renew(c).cancel == std::vector<JobId>{id});
    b.reopen();
    CHECK(b.get(id).cancel_requested);
    CHECK(b.renew(c).cancel == std::vector<JobId>{id});
    CHECK(b.finish(c, CancelJob{"stopped"}) == FinishStatus::ok);
    CHECK(b.state(id) == JobState::cancelled);
  }

  TEST_CASE("a job with a cancel request is not retried") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob c = b.claim_one();
    b.cancel(id);
    SUBCASE("when its worker is gone") {
      b.advance(kDefaultLease);
      CHECK(b.rescue() == 1);
    }
    SUBCASE("when its handler fails") {
      b.finish(c, Retry{"e", {}});
    }
    SUBCASE("when its handler snoozes") {
      b.finish(c, Snooze{});
    }
    SUBCASE("also after a reopen") {
      b.reopen();
      b.advance(kDefaultLease);
      CHECK(b.rescue() == 1);
    }
    CHECK(b.state(id) == JobState::cancelled);
  }

  TEST_CASE("cancel against complete: one wins, and both answers agree") {
    Bench b;
    SUBCASE("complete after the cancel request") {
      const JobId id = b.enqueue();
      const ClaimedJob c = b.claim_one();
      CHECK(b.cancel(id).cancel_requested);
      CHECK(b.finish(c, Complete{"[1]"}) == FinishStatus::ok);
      CHECK(b.state(id) == JobState::completed);
      CHECK(b.refused(Cancel{.id = id}) == ErrorCode::conflict);
    }
    SUBCASE("complete before") {
      const JobId id = b.enqueue();
      b.finish(b.claim_one(), Complete{"[1]"});
      CHECK(b.refused(Cancel{.id = id}) == ErrorCode::conflict);
      CHECK(b.state(id) == JobState::completed);
    }
    SUBCASE("both in one batch") {
      const JobId id = b.enqueue();
      const ClaimedJob c = b.claim_one();
      Finish f{.worker = "w1", .results = {}};
      f.results.push_back({id, c.token, Complete{}});
      const auto r = b.apply({f, Cancel{.id = id}});
      CHECK(std::get<FinishResult>(r[0]).results[0] == FinishStatus::ok);
      CHECK(std::get<Error>(r[1]).code == ErrorCode::conflict);
    }
  }

  TEST_CASE("cancel of a cancelled job is ok, of an ended one a conflict, of none not_found") {
    Bench b;
    const JobId id = b.enqueue();
    b.cancel(id, "first");
    CHECK(b.cancel(id, "second").state == JobState::cancelled);
    CHECK(b.get(id).reason == "first");
    const JobId dead = b.dead(b.job());
    CHECK(b.refused(Cancel{.id = dead}) == ErrorCode::conflict);
    CHECK(b.refused(Cancel{.id = 4711}) == ErrorCode::not_found);
    CHECK(b.refused(Cancel{.id = 0}) == ErrorCode::not_found);
    CHECK(b.refused(Cancel{.id = -5}) == ErrorCode::not_found);
    b.advance(hours(24 * 31));
    b.prune();
    CHECK(b.refused(Cancel{.id = id}) == ErrorCode::expired);
  }
}

TEST_SUITE("store: retry and redrive") {
  TEST_CASE("retry of a dead job makes it available with fresh attempts on top of those used") {
    Bench b;
    NewJob n = b.job();
    n.max_attempts = 2;
    const JobId id = b.enqueue(n);
    for (int i = 0; i < 2; ++i) {
      b.finish(b.claim_one(), Retry{"e", seconds(1)});
      b.advance(seconds(1));
      b.move_due();
    }
    CHECK(b.state(id) == JobState::dead);
    CHECK(b.retry(id).state == JobState::available);
    CHECK(b.became_available("q"));
    const Job j = b.get(id);
    CHECK(j.state == JobState::available);
    CHECK(j.max_attempts == 4);
    CHECK(j.errors.size() == 2);
    CHECK_FALSE(j.finished_at.has_value());
    CHECK(j.reason.empty());
    CHECK(b.count(JobState::dead) == 0);
    CHECK(b.stats().enqueued == 1);
    const ClaimedJob c = b.claim_one();
    CHECK(c.attempt == 3);
    CHECK(c.max_attempts == 4);
    b.finish(c, Complete{});
    CHECK(b.state(id) == JobState::completed);
  }

  TEST_CASE("retry of a cancelled job makes it available and drops the cancel request") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob c = b.claim_one();
    b.cancel(id);
    b.finish(c, CancelJob{"ok"});
    b.retry(id);
    CHECK_FALSE(b.get(id).cancel_requested);
    CHECK(b.get(id).reason.empty());
    const ClaimedJob again = b.claim_one();
    CHECK(b.renew(again).cancel.empty());
    b.finish(again, Retry{"e", seconds(1)});
    CHECK(b.state(id) == JobState::retryable);
  }

  TEST_CASE("retry of a scheduled or retryable job makes it available now") {
    Bench b;
    NewJob n = b.job();
    n.delay = hours(1);
    const JobId scheduled = b.enqueue(n);
    CHECK(b.retry(scheduled).state == JobState::available);
    CHECK(b.claim_one().id == scheduled);
    const JobId failed = b.enqueue();
    b.finish(b.claim_one(), Retry{"e", hours(1)});
    CHECK(b.retry(failed).state == JobState::available);
    CHECK(b.store->agenda().next_due == WallTime::never());
    CHECK(b.get(failed).max_attempts == 20);
    CHECK(b.claim_one().id == failed);
  }

  TEST_CASE("a running job is taken back: its token is stale, and the attempt does not count") {
    Bench b;
    const RetryJob take_back{.id = b.enqueue(), .take_back = true};
    CHECK(b.refused(take_back) == ErrorCode::conflict);
    const ClaimedJob old = b.claim_one();
    b.renew(old, Progress{0.5, "half"}, "[1]");
    CHECK(b.one<RetryResult>(take_back).state == JobState::available);
    CHECK(b.renew(old).lost == std::vector<JobId>{old.id});
    CHECK(b.finish(old, Complete{}) == FinishStatus::stale);
    b.reopen();
    CHECK(b.finish(old, Complete{}) == FinishStatus::stale);
    const ClaimedJob next = b.claim_one();
    CHECK(next.attempt == old.attempt);
    CHECK(next.checkpoint == "[1]");
    CHECK(next.token > old.token);
    CHECK(b.finish(old, Complete{}) == FinishStatus::stale);
    CHECK(b.finish(next, Complete{}) == FinishStatus::ok);
    CHECK(b.refused(take_back) == ErrorCode::conflict);
    CHECK(b.refused(RetryJob{.id = 4711, .take_back = true}) == ErrorCode::not_found);
  }

  TEST_CASE("a job that was to be cancelled is cancelled when it is taken back") {
    Bench b;
    const JobId id = b.enqueue();
    b.claim_one();
    b.cancel(id);
    CHECK(b.one<RetryResult>(RetryJob{.id = id, .take_back = true}).state == JobState::cancelled);
    CHECK(b.get(id).reason == "not needed");
  }

  TEST_CASE("retry of an available job is ok; of a running or completed one a conflict") {
    Bench b;
    const JobId id = b.enqueue();
    CHECK(b.retry(id).state == JobState::available);
    CHECK(b.claim_one().id == id);
    CHECK(b.refused(RetryJob{id}) == ErrorCode::conflict);
    const JobId done = b.completed(b.job("d"));
    CHECK(b.refused(RetryJob{done}) == ErrorCode::conflict);
    CHECK(b.refused(RetryJob{4711}) == ErrorCode::not_found);
    b.advance(hours(25));
    b.prune();
    CHECK(b.refused(RetryJob{done}) == ErrorCode::expired);
  }

  TEST_CASE("an expired job that is retried runs and does not expire again") {
    Bench b;
    NewJob n = b.job();
    n.expires_in = seconds(1);
    const JobId id = b.enqueue(n);
    b.advance(seconds(2));
    b.expire();
    CHECK(b.stats().expired == 1);
    b.retry(id);
    CHECK(b.stats().expired == 0);
    CHECK(b.expire() == 0);
    CHECK(b.claim_one().id == id);
  }

  TEST_CASE("redrive retries the dead that match, oldest first, page by page") {
    Bench b;
    std::vector<JobId> want;
    for (int i = 0; i < 7; ++i) {
      NewJob n = b.job(i % 2 == 0 ? "a" : "b");
      n.kind = "k";
      n.tags = {"t"};
      const JobId id = b.dead(n);
      if (i % 2 == 0) want.push_back(id);
    }
    NewJob other = b.job("a");
    other.kind = "other";
    const JobId other_kind = b.dead(other);
    NewJob untagged = b.job("a");
    untagged.kind = "k";
    const JobId no_tag = b.dead(untagged);
    Redrive r{.filter = {.queue = "a", .kind = "k", .tag = "t"}, .limit = 3, .after = 0};
    int redriven = 0;
    for (int page = 0; page < 100; ++page) {
      const auto got = b.one<RedriveResult>(r);
      redriven += got.redriven;
      CHECK(got.redriven <= 3);
      if (!got.next) break;
      CHECK(*got.next > r.after);
      r.after = *got.next;
    }
    CHECK(redriven == 4);
    for (const JobId id : want) CHECK(b.state(id) == JobState::available);
    CHECK(b.state(other_kind) == JobState::dead);
    CHECK(b.state(no_tag) == JobState::dead);
    CHECK(b.count(JobState::dead, "b") == 3);
    CHECK(b.one<RedriveResult>(Redrive{}).redriven == 5);
    CHECK(b.one<RedriveResult>(Redrive{}).redriven == 0);
  }

  TEST_CASE("a redrive returns the retried jobs, and none that it skipped") {
    Bench b;
    const JobId first = b.dead(b.job());
    NewJob keyed = b.job();
    keyed.unique = Unique{.key = "k"};
    const JobId replaced = b.dead(keyed);
    const JobId other_queue = b.dead(b.job("other"));
    const JobId last = b.dead(b.job());
    b.enqueue(keyed);  // has the key now
    const auto some = b.one<RedriveResult>(Redrive{.filter = {.queue = "q"}, .limit = 2});
    CHECK(some.ids == std::vector<JobId>{first});
    CHECK(some.next == replaced);
    const auto rest = b.one<RedriveResult>(Redrive{.filter = {}, .limit = 9, .after = *some.next});
    CHECK(rest.ids == std::vector<JobId>{other_queue, last});
    CHECK(rest.redriven == 2);
    CHECK(b.state(replaced) == JobState::dead);
  }
}

TEST_SUITE("store: queues") {
  TEST_CASE("a paused queue gives no jobs, accepts new ones, and stays paused over a reopen") {
    Bench b;
    b.enqueue();
    b.one<Done>(PauseQueue{.queue = "q", .paused = true});
    CHECK(b.stats().paused);
    CHECK(b.claim(9).empty());
    b.enqueue();
    CHECK(b.claim(9).empty());
    b.reopen();
    CHECK(b.stats().paused);
    CHECK(b.claim(9).empty());
    CHECK_FALSE(b.store->has_available("q"));
    b.one<Done>(PauseQueue{.queue = "q", .paused = false});
    CHECK_FALSE(b.stats().paused);
    CHECK(b.claim(9).size() == 2);
    b.reopen();
    CHECK_FALSE(b.stats().paused);
  }

  TEST_CASE("pausing affects neither other queues nor running jobs") {
    Bench b;
    b.enqueue();
    const ClaimedJob c = b.claim_one();
    b.enqueue(b.job("other"));
    b.one<Done>(PauseQueue{.queue = "q", .paused = true});
    CHECK(b.renew(c).renewed.size() == 1);
    CHECK(b.finish(c, Complete{}) == FinishStatus::ok);
    CHECK(b.claim(9, {"q", "other"}).size() == 1);
  }

  TEST_CASE("a queue can be paused before its first job") {
    Bench b;
    b.one<Done>(PauseQueue{.queue = "new", .paused = true});
    CHECK(b.stats("new").paused);
    CHECK(b.stats("new").enqueued == 0);
    b.enqueue(b.job("new"));
    CHECK(b.claim(9, {"new"}).empty());
  }

  TEST_CASE("a change of a queue that does not exist is refused unless it may create the queue") {
    Bench b;
    for (const Operation& change :
         {Operation(PauseQueue{"typo", true, false}), Operation(PauseQueue{"typo", false, false}),
          Operation(SetRetention{.queue = "typo", .completed = {}, .dead = {}, .create = false}),
          Operation(SetQueueLimits{.queue = "typo", .limits = {}, .create = false})}) {
      CHECK(b.refused(change) == ErrorCode::not_found);
    }
    CHECK(b.store->queues()->empty());
    b.one<Done>(PauseQueue{"typo", true, true});
    CHECK(b.stats("typo").paused);
    b.one<Done>(PauseQueue{"typo", false, false});
    CHECK_FALSE(b.stats("typo").paused);
    b.one<Done>(RemoveQueue{"typo"});
    CHECK(b.refused(PauseQueue{"typo", true, false}) == ErrorCode::not_found);
  }

  TEST_CASE("counters cover every state, per queue, and the oldest available job") {
    Bench b;
    CHECK(b.store->queues()->empty());
    NewJob old = b.job();
    old.run_at = b.wall() - minutes(5);
    b.enqueue(old);
    b.enqueue();
    CHECK(b.stats().oldest_available == *old.run_at);
    b.finish(b.claim_one(), Retry{"e", hours(1)});
    CHECK(b.stats().oldest_available == b.wall());
    NewJob later = b.job();
    later.delay = hours(1);
    b.enqueue(later);
    b.completed(b.job("other"));
    b.cancel(b.enqueue(b.job("other")));
    b.dead(b.job("other"));
    b.enqueue(b.job("other"));
    b.claim(1, {"other"});
    const QueueStats s = b.stats();
    CHECK(s.enqueued == 3);
    CHECK(b.count(JobState::retryable) == 1);
    CHECK(b.count(JobState::available) == 1);
    CHECK(b.count(JobState::scheduled) == 1);
    CHECK(b.count(JobState::running, "other") == 1);
    CHECK(b.count(JobState::completed, "other") == 1);
    CHECK(b.count(JobState::cancelled, "other") == 1);
    CHECK(b.count(JobState::dead, "other") == 1);
    CHECK_FALSE(b.stats("other").oldest_available.has_value());
    b.reopen();
    CHECK(b.stats().counts == s.counts);
    CHECK(b.stats().enqueued == 3);
  }
}

TEST_SUITE("store: retention") {
  TEST_CASE("ended jobs stay readable for their retention, then are expired, not not_found") {
    Bench b;
    const JobId done = b.completed(b.job());
    const JobId dead = b.dead(b.job());
    const JobId cancelled = b.enqueue();
    b.cancel(cancelled);
    CHECK(b.store->agenda().next_prune <= b.wall() + hours(24));
    b.advance(hours(24) - Duration(1));
    CHECK(b.prune() == 0);
    CHECK(b.get(done).id == done);
    b.advance(Duration(1));
    CHECK(b.prune() == 2);
    CHECK(b.get_refused(done) == ErrorCode::expired);
    CHECK(b.get_refused(cancelled) == ErrorCode::expired);
    CHECK(b.get_refused(999) == ErrorCode::not_found);
    CHECK(b.get_refused(0) == ErrorCode::not_found);
    CHECK(b.get_refused(-1) == ErrorCode::not_found);
    CHECK(b.state(dead) == JobState::dead);
    CHECK(b.stats().pruned == 2);
    CHECK(b.stats().enqueued == 3);
    b.advance(hours(24 * 30));
    CHECK(b.prune() == 1);
    CHECK(b.get_refused(dead) == ErrorCode::expired);
    b.reopen();
    CHECK(b.get_refused(dead) == ErrorCode::expired);
    CHECK(b.get_refused(999) == ErrorCode::not_found);
    CHECK(b.stats().pruned == 3);
  }

  TEST_CASE("prune never removes a job that has not ended") {
    Bench b;
    b.enqueue();
    NewJob later = b.job();
    later.delay = hours(24 * 300);
    b.enqueue(later);
    b.enqueue(b.job("r"));
    b.claim(1, {"r"});
    b.advance(hours(24 * 100));
    CHECK(b.prune() == 0);
    CHECK(b.listed({}).size() == 3);
  }

  TEST_CASE("a retried job is not pruned for its earlier end") {
    Bench b;
    const JobId id = b.enqueue();
    b.cancel(id);
    b.retry(id);
    const JobId again = b.dead(b.job("r"));
    b.retry(again);
    const std::vector<ClaimedJob> running = b.claim(1, {"r"});
    b.advance(hours(24 * 40));
    CHECK(b.prune() == 0);
    CHECK(b.state(id) == JobState::available);
    CHECK(b.renew(running.at(0)).lost.size() == 1);
    CHECK(b.state(again) == JobState::running);
    CHECK(b.finish(running.at(0), Complete{}) == FinishStatus::ok);
  }

  TEST_CASE("a queue's own retention applies to jobs that finish later, also after a reopen") {
    Bench b;
    const JobId before = b.completed(b.job());
    b.one<Done>(SetRetention{.queue = "q", .completed = minutes(1), .dead = minutes(2)});
    CHECK(b.stats().retention_completed == minutes(1));
    CHECK(b.stats().retention_dead == minutes(2));
    b.reopen();
    const JobId done = b.completed(b.job());
    const JobId dead = b.dead(b.job());
    b.advance(minutes(1));
    CHECK(b.prune() == 1);
    CHECK(b.get_refused(done) == ErrorCode::expired);
    b.advance(minutes(1));
    CHECK(b.prune() == 1);
    CHECK(b.get_refused(dead) == ErrorCode::expired);
    CHECK(b.state(before) == JobState::completed);
    b.one<Done>(SetRetention{.queue = "q", .completed = {}, .dead = {}});
    CHECK_FALSE(b.stats().retention_completed.has_value());
    const JobId last = b.completed(b.job());
    b.advance(hours(23));
    b.prune();
    CHECK(b.state(last) == JobState::completed);
  }

  TEST_CASE("prune works in bounded steps") {
    Bench b;
    for (int i = 0; i < 5; ++i) b.completed(b.job());
    b.advance(hours(25));
    const auto first = b.one<StepResult>(PruneJobs{.limit = 2});
    CHECK(first.changed == 2);
    CHECK(first.more);
    CHECK(b.one<StepResult>(PruneJobs{.limit = 2}).changed == 2);
    CHECK(b.one<StepResult>(PruneJobs{.limit = 2}).changed == 1);
    CHECK_FALSE(b.one<StepResult>(PruneJobs{.limit = 2}).more);
  }

  TEST_CASE("over the bound by count the oldest ended jobs are pruned first") {
    Bench b(StoreOptions{.max_finished_jobs = 3});
    std::vector<JobId> done;
    for (int i = 0; i < 6; ++i) {
      done.push_back(b.completed(b.job()));
      b.advance(seconds(1));
    }
    CHECK(b.store->agenda().next_prune <= b.wall());
    int removed = 0;
    for (int i = 0; i < 10; ++i) removed += b.prune();
    CHECK(removed == 3);
    for (std::size_t i = 0; i < 3; ++i) CHECK(b.get_refused(done[i]) == ErrorCode::expired);
    for (std::size_t i = 3; i < 6; ++i) CHECK(b.state(done[i]) == JobState::completed);
    CHECK(b.store->agenda().next_prune > b.wall());
  }

  TEST_CASE("pruning a job keeps the counters of its queue") {
    Bench b;
    NewJob n = b.job();
    n.expires_in = seconds(1);
    b.enqueue(n);
    b.advance(seconds(1));
    b.expire();
    b.advance(hours(25));
    CHECK(b.prune() == 1);
    const QueueStats s = b.stats();
    CHECK(s.expired == 0);
    CHECK(s.pruned == 1);
    CHECK(s.enqueued == 1);
  }
}

TEST_SUITE("store: steps") {
  TEST_CASE("due jobs move in due order, in bounded steps") {
    Bench b;
    std::vector<JobId> by_due;
    for (int i = 5; i >= 1; --i) {
      NewJob n = b.job();
      n.delay = seconds(i);
      by_due.insert(by_due.begin(), b.enqueue(n));
    }
    CHECK(b.store->agenda().next_due == b.wall() + seconds(1));
    b.advance(minutes(1));
    const auto first = b.one<StepResult>(MoveDue{.limit = 2});
    CHECK(first.changed == 2);
    CHECK(first.more);
    CHECK(ids(b.claim(9)) == std::vector<JobId>{by_due[0], by_due[1]});
    CHECK(b.one<StepResult>(MoveDue{.limit = 10}).changed == 3);
    CHECK_FALSE(b.one<StepResult>(MoveDue{.limit = 10}).more);
    CHECK(ids(b.claim(9)) == std::vector<JobId>{by_due[2], by_due[3], by_due[4]});
  }

  TEST_CASE("jobs expire in bounded steps") {
    Bench b;
    for (int i = 0; i < 5; ++i) {
      NewJob n = b.job();
      n.expires_in = seconds(1);
      b.enqueue(n);
    }
    b.advance(seconds(1));
    const auto first = b.one<StepResult>(ExpireJobs{.limit = 2});
    CHECK(first.changed == 2);
    CHECK(first.more);
    CHECK(b.one<StepResult>(ExpireJobs{.limit = 10}).changed == 3);
  }

  TEST_CASE("an empty store has an empty agenda, and an ended job adds only its pruning") {
    Bench b;
    Agenda a = b.store->agenda();
    CHECK(a.next_due == WallTime::never());
    CHECK(a.next_lease_expiry == Instant::never());
    CHECK(a.next_expiry == WallTime::never());
    NewJob n = b.job();
    n.delay = seconds(1);
    n.expires_in = hours(1);
    b.enqueue(n);
    b.advance(seconds(1));
    b.move_due();
    b.finish(b.claim_one(), Complete{});
    b.advance(hours(1));
    b.expire();  // one superfluous call is allowed, a loop is not
    a = b.store->agenda();
    CHECK(a.next_due == WallTime::never());
    CHECK(a.next_lease_expiry == Instant::never());
    CHECK(a.next_expiry == WallTime::never());
    CHECK(a.next_prune > b.wall());
    CHECK(a.next_prune <= b.wall() + hours(24));
  }

  TEST_CASE("the agenda is the same after a reopen") {
    Bench b;
    NewJob n = b.job();
    n.delay = minutes(7);
    n.expires_in = minutes(9);
    b.enqueue(n);
    b.enqueue(b.job("r"));
    b.claim_silently(1, {"r"});
    b.completed(b.job("d"));
    const Agenda before = b.store->agenda();
    b.reopen();
    const Agenda after = b.store->agenda();
    CHECK(after.next_due == before.next_due);
    CHECK(after.next_expiry == before.next_expiry);
    CHECK(after.next_lease_expiry == before.next_lease_expiry);
    CHECK(after.next_prune <= b.wall() + hours(24));
  }
}

TEST_SUITE("store: reads") {
  TEST_CASE("list pages through all jobs, newest first, each once, by every filter") {
    Bench b;
    std::vector<JobId> all;
    std::vector<JobId> red;
    std::vector<JobId> kind_b;
    for (int i = 0; i < 11; ++i) {
      NewJob n = b.job(i % 2 == 0 ? "even" : "odd");
      n.kind = i % 3 == 0 ? "b" : "a";
      n.tags =
          i % 4 == 0 ? std::vector<std::string>{"x", "red"} : std::vector<std::string>{"redder"};
      const JobId id = b.enqueue(n);
      all.insert(all.begin(), id);
      if (i % 4 == 0) red.insert(red.begin(), id);
      if (i % 3 == 0) kind_b.insert(kind_b.begin(), id);
    }
    CHECK(b.listed({}) == all);
    CHECK(b.listed({.tag = "red"}) == red);
    CHECK(b.listed({.kind = "b"}) == kind_b);
    CHECK(b.listed({.queue = "even"}).size() == 6);
    CHECK(b.listed({.queue = "none"}).empty());
    b.cancel(all[0]);
    CHECK(b.listed({.state = JobState::cancelled}) == std::vector<JobId>{all[0]});
    CHECK(b.listed({.queue = "even", .state = JobState::available}).size() == 5);
    CHECK(b.listed({.queue = "odd", .state = JobState::cancelled}).empty());
    CHECK(b.listed({.queue = "odd", .kind = "b", .tag = "redder"}).size() == 2);
  }

  TEST_CASE("a page has no errors, result and checkpoint; get has them") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob c = b.claim_one();
    b.renew(c, {}, "[1]");
    b.finish(c, Complete{"[2]"});
    const auto page = b.store->list({}, 10, 0);
    REQUIRE(page.has_value());
    REQUIRE(page->jobs.size() == 1);
    CHECK(page->jobs[0].result.empty());
    CHECK(page->jobs[0].checkpoint.empty());
    CHECK(page->jobs[0].errors.empty());
    CHECK(b.get(id).result == "[2]");
  }

  TEST_CASE("a batch that changes nothing does not commit") {
    Bench b;
    NewJob n = b.job();
    const Enqueue e{.jobs = {n}, .idempotency_key = "k", .fingerprint = "f"};
    b.one<EnqueueResult>(e);
    const ClaimedJob c = b.claim_one();
    const std::int64_t before = b.store->commits();
    b.apply({});
    b.claim(10);
    b.claim(10, {"unknown"});
    b.move_due();
    b.rescue();
    b.expire();
    b.prune();
    b.finish(c.id, c.token + 1, Complete{});
    b.renew({.id = c.id, .token = c.token + 1});
    b.refused(Cancel{.id = 99});
    b.one<RedriveResult>(Redrive{});
    b.one<EnqueueResult>(e);
    CHECK(b.store->commits() == before);
  }

  TEST_CASE("a renewal without progress and checkpoint does not commit; with them it does") {
    Bench b;
    b.enqueue();
    const ClaimedJob c = b.claim_one();
    const std::int64_t before = b.store->commits();
    for (int i = 0; i < 10; ++i) {
      b.advance(seconds(10));
      CHECK(b.renew(c).renewed.size() == 1);
    }
    CHECK(b.store->commits() == before);
    b.renew(c, Progress{0.1, ""});
    CHECK(b.store->commits() == before + 1);
  }

  TEST_CASE("a batch of many operations is one commit") {
    Bench b;
    std::vector<Operation> batch;
    const std::int64_t before = b.store->commits();
    for (int i = 0; i < 50; ++i) batch.push_back(Enqueue{.jobs = {b.job()}});
    batch.push_back(Claim{.worker = "w1", .queues = {"q"}, .kinds = {}, .max = 20});
    b.apply(batch);
    CHECK(b.store->commits() == before + 1);
  }

  TEST_CASE("reopen keeps everything") {
    Bench b;
    const JobId done = b.completed(b.job("a"));
    const JobId dead = b.dead(b.job("b"));
    NewJob n = b.job("c");
    n.delay = hours(1);
    n.tags = {"t"};
    n.expires_in = hours(3);
    const JobId scheduled = b.enqueue(n);
    b.enqueue(b.job("d"));
    const ClaimedJob running = b.claim(1, {"d"}).at(0);
    b.renew(running, Progress{0.5, "half"}, "[9]");
    std::vector<Job> before;
    for (const JobId id : {done, dead, scheduled, running.id}) before.push_back(b.get(id));
    b.reopen();
    for (const Job& old : before) {
      const Job now = b.get(old.id);
      CHECK(now.state == old.state);
      CHECK(now.version == old.version);
      CHECK(now.run_at == old.run_at);
      CHECK(now.token == old.token);
      CHECK(now.attempt == old.attempt);
      CHECK(now.worker == old.worker);
      CHECK(now.created_at == old.created_at);
      CHECK(now.started_at == old.started_at);
      CHECK(now.finished_at == old.finished_at);
      CHECK(now.expires_at == old.expires_at);
      CHECK(now.progress == old.progress);
      CHECK(now.checkpoint == old.checkpoint);
      CHECK(now.tags == old.tags);
      CHECK(now.errors == old.errors);
      CHECK(now.reason == old.reason);
      CHECK(now.description == old.description);
    }
    CHECK(b.finish(running, Complete{}) == FinishStatus::ok);
    CHECK(b.store->verify()->jobs == 4);
  }

  TEST_CASE("ahead of an available job are the jobs of its queue that are claimed sooner") {
    Bench b;
    const auto with = [&](int priority, Duration delay, const std::string& queue = "q") {
      NewJob job = b.job(queue);
      job.priority = priority;
      if (delay.count() > 0) job.delay = delay;
      return b.enqueue(job);
    };
    const JobId first = with(5, Duration(0));
    const JobId running = with(1, Duration(0));
    CHECK(b.claim_one().id == running);
    with(5, Duration(0), "other");
    with(5, hours(1));  // scheduled
    const JobId second = with(5, Duration(0));
    const JobId urgent = with(2, Duration(0));
    const JobId last = with(9, Duration(0));
    const auto ahead = [&](JobId id, std::int64_t limit = 100) {
      return b.store->ahead(b.get(id), limit).value();
    };
    CHECK(ahead(urgent) == 0);
    CHECK(ahead(first) == 1);
    CHECK(ahead(second) == 2);
    CHECK(ahead(last) == 3);
    CHECK(ahead(last, 2) == 2);
    b.claim(2);  // the urgent one, and the first
    CHECK(ahead(second) == 0);
    CHECK(ahead(last) == 1);
  }
}

}  // namespace
}  // namespace mainspring::conformance
