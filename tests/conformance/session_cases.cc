// What sessions promise: jobs of one key run one at a time, in the order of their enqueue, with any
// outcomes.
#include "conformance/schedule_bench.h"
#include "conformance/session_bench.h"

namespace mainspring::conformance {
namespace {

using Ids = std::vector<JobId>;

TEST_SUITE("store: sessions") {
  TEST_CASE("ORD: jobs of a session run one at a time, in the order of their enqueue") {
    SessionBench b;
    const auto made = b.one<EnqueueResult>(Enqueue{.jobs = {b.in("s"), b.in("s"), b.in("s")}}).jobs;
    REQUIRE(made.size() == 3);
    CHECK(made[0].state == JobState::available);
    CHECK(made[1].state == JobState::waiting);
    CHECK(made[2].state == JobState::waiting);
    CHECK(b.lines() == "q ~");
    CHECK(b.count(JobState::waiting) == 2);
    CHECK(b.info("s").jobs == 3);
    CHECK(b.info("s").head == made[0].id);
    CHECK(b.info("s").changed_at == b.wall());
    for (const EnqueuedJob& job : made) {
      const auto claimed = b.claim(10);
      REQUIRE(ids(claimed) == Ids{job.id});
      CHECK(b.claim(10).empty());
      CHECK_FALSE(b.store->has_available("q"));
      b.complete(claimed[0]);
      CHECK(b.lines() == (job.id == made[2].id ? "" : "q ~"));
    }
    CHECK(b.gone("s"));
    CHECK(b.count(JobState::waiting) == 0);
  }

  TEST_CASE("ORD: later jobs of a session wait, too") {
    SessionBench b;
    const JobId first = b.put("s");
    const ClaimedJob running = b.start(first);
    const JobId second = b.put("s");
    CHECK(b.lines() == "");
    CHECK(b.state(second) == JobState::waiting);
    CHECK(b.claim(9).empty());
    b.complete(running);
    CHECK(b.state(second) == JobState::available);
    b.complete(b.start(second));
    const JobId third = b.put("s");
    CHECK(b.state(third) == JobState::available);
  }

  TEST_CASE("ORD: a claim after the end in the same batch gets the next job, and only that") {
    SessionBench b;
    const Ids all = b.put("s", 3);
    const ClaimedJob c = b.start(all[0]);
    const Operation done = Finish{.worker = "w1", .results = {{c.id, c.token, Complete{}}}};
    const Operation claim = Claim{.worker = "w2", .queues = {"q"}, .kinds = {}, .max = 5};
    const auto results = b.apply({claim, done, claim, claim});
    CHECK(std::get<ClaimResult>(results[0]).jobs.empty());
    CHECK(ids(std::get<ClaimResult>(results[2]).jobs) == Ids{all[1]});
    CHECK(std::get<ClaimResult>(results[3]).jobs.empty());
  }

  TEST_CASE("ORD: sessions run in parallel with each other and with jobs without a session") {
    SessionBench b;
    Ids heads;
    for (const char* key : {"a", "b", "c", "d", "e"}) {
      heads.push_back(b.put(key));
      b.put(key, 2);
      heads.push_back(b.enqueue());
    }
    const auto claimed = b.claim(100);
    CHECK(ids(claimed) == heads);
    Finish f{.worker = "w1", .results = {}};
    for (const ClaimedJob& c : claimed) f.results.push_back({c.id, c.token, Complete{}});
    b.one<FinishResult>(f);
    CHECK(b.count(JobState::available) == 5);
    CHECK(b.count(JobState::waiting) == 5);
    CHECK(b.claim(100).size() == 5);
  }

  TEST_CASE("ORD: a session belongs to one queue: the same key in two queues is two sessions") {
    SessionBench b;
    b.put("s");
    const JobId other = b.enqueue(b.in("s", "r"));
    CHECK(b.state(other) == JobState::available);
    CHECK(b.info("s", "r").head == other);
    CHECK(b.claim(9, {"q", "r"}).size() == 2);
  }

  TEST_CASE("ORD: priority orders sessions among each other, never the jobs of one session") {
    SessionBench b;
    const auto with = [&](const char* key, int priority) {
      NewJob n = b.in(key);
      n.priority = priority;
      return b.enqueue(n);
    };
    const JobId slow = with("slow", 9);
    const JobId behind = with("slow", 0);
    const JobId fast = with("fast", 1);
    CHECK(ids(b.claim(1)) == Ids{fast});
    const ClaimedJob c = b.start(slow);
    CHECK(b.claim(9).empty());
    b.complete(c);
    b.start(behind);
  }

  TEST_CASE("a job has its session, and a claim returns it") {
    SessionBench b;
    NewJob n = b.in("customer 7 äöü", OnDead::park);
    n.reply_to = "answers";
    n.reply_session = "r";
    const JobId id = b.enqueue(n);
    CHECK(b.get(id).session == "customer 7 äöü");
    CHECK(b.get(id).on_dead == OnDead::park);
    CHECK(b.get(id).reply_session == "r");
    const ClaimedJob c = b.start(id);
    CHECK(c.session == "customer 7 äöü");
    CHECK(c.session_state.empty());
    b.complete(c);
    CHECK(b.get(id).session == "customer 7 äöü");
    const ClaimedJob plain = b.start(b.enqueue());
    CHECK(plain.session.empty());
    CHECK(b.get(plain.id).session.empty());
  }
}

TEST_SUITE("store: the head of a session") {
  TEST_CASE("ORD: a scheduled job stays the head of its session") {
    SessionBench b;
    NewJob later = b.in("s");
    later.delay = minutes(10);
    const JobId first = b.enqueue(later);
    const JobId second = b.put("s");
    CHECK(b.state(first) == JobState::scheduled);
    CHECK(b.state(second) == JobState::waiting);
    CHECK(b.claim(9).empty());
    b.advance(minutes(10));
    CHECK(b.move_due() == 1);
    CHECK(b.lines() == "q ~");
    b.complete(b.start(first));
    b.start(second);
  }

  TEST_CASE("ORD: a job that becomes the head is scheduled before its run_at, else available") {
    SessionBench b;
    NewJob later = b.in("s");
    later.delay = minutes(10);
    const JobId first = b.put("s");
    const JobId second = b.enqueue(later);
    const JobId third = b.enqueue(later);
    const JobId fourth = b.put("s");
    CHECK(b.store->agenda().next_due == WallTime::never());
    b.complete(b.start(first));
    CHECK(b.state(second) == JobState::scheduled);
    CHECK(b.store->agenda().next_due == b.wall() + minutes(10));
    CHECK(b.lines() == "");
    b.advance(minutes(11));
    CHECK(b.move_due() == 1);
    b.complete(b.start(second));
    CHECK(b.state(third) == JobState::available);
    CHECK(b.get(third).run_at == b.wall() - minutes(1));
    CHECK(b.state(fourth) == JobState::waiting);
  }

  TEST_CASE("ORD: a job stays the head through its retries, snoozes and lost leases") {
    SessionBench b;
    const JobId first = b.put("s");
    const JobId second = b.put("s");
    b.finish(b.start(first), Retry{"again", seconds(10)});
    CHECK(b.state(first) == JobState::retryable);
    CHECK(b.claim(9).empty());
    b.advance(seconds(10));
    CHECK(b.move_due() == 1);
    b.finish(b.start(first), Retry{"at once", seconds(0)});
    b.finish(b.start(first), Snooze{});
    CHECK(b.lines() == "q ~");
    b.finish(b.start(first), Snooze{seconds(5)});
    CHECK(b.state(first) == JobState::scheduled);
    CHECK(b.claim(9).empty());
    b.advance(seconds(5));
    CHECK(b.move_due() == 1);
    b.start(first);
    b.advance(kDefaultLease);
    CHECK(b.rescue() == 1);
    CHECK(b.state(first) == JobState::retryable);
    CHECK(b.state(second) == JobState::waiting);
    CHECK(b.info("s").head == first);
    CHECK(b.info("s").jobs == 2);
  }

  TEST_CASE("ORD: a stale or repeated finish does not change the head") {
    SessionBench b;
    const Ids all = b.put("s", 3);
    const ClaimedJob first = b.start(all[0]);
    b.finish(first, Snooze{});
    const ClaimedJob c = b.start(all[0]);
    CHECK(b.finish(first, Complete{}) == FinishStatus::stale);
    CHECK(b.claim(9).empty());
    b.complete(c);
    const ClaimedJob next = b.start(all[1]);
    CHECK(b.finish(c, Complete{}) == FinishStatus::ok);
    CHECK(b.claim(9).empty());
    CHECK(b.info("s").head == next.id);
  }

  TEST_CASE("a cancelled waiting job leaves its session, and a cancelled head is replaced") {
    SessionBench b;
    const Ids all = b.put("s", 4);
    b.cancel(all[1]);
    CHECK(b.lines() == "");
    CHECK(b.state(all[1]) == JobState::cancelled);
    CHECK(b.info("s").jobs == 3);
    b.cancel(all[0]);
    CHECK(b.lines() == "q ~");
    CHECK(b.info("s").head == all[2]);
    const ClaimedJob c = b.start(all[2]);
    CHECK(b.cancel(all[2]).state == JobState::running);
    CHECK(b.state(all[3]) == JobState::waiting);
    b.finish(c, CancelJob{"as you wish"});
    b.complete(b.start(all[3]));
    CHECK(b.gone("s"));
  }

  TEST_CASE("an expired waiting job leaves its session, and an expired head is replaced") {
    SessionBench b;
    NewJob brief = b.in("s");
    brief.expires_in = minutes(1);
    const JobId first = b.enqueue(brief);
    const JobId second = b.enqueue(brief);
    const JobId third = b.put("s");
    CHECK(b.store->agenda().next_expiry == b.wall() + minutes(1));
    b.advance(minutes(1));
    CHECK(b.claim(9).empty());
    CHECK(b.expire() == 2);
    CHECK(b.get(first).reason == "expired");
    CHECK(b.get(second).reason == "expired");
    CHECK(b.lines() == "q ~");
    b.start(third);
    const JobId fourth = b.enqueue(brief);
    b.advance(minutes(1));
    CHECK(b.expire() == 1);
    CHECK(b.state(fourth) == JobState::cancelled);
    CHECK(b.info("s").jobs == 1);
  }

  TEST_CASE("a unique key is found in a session as elsewhere") {
    SessionBench b;
    b.put("s");
    NewJob n = b.in("s");
    n.unique = Unique{.key = "k"};
    const JobId id = b.enqueue(n);
    const auto again = b.one<EnqueueResult>(Enqueue{.jobs = {n, b.in("s")}}).jobs;
    CHECK(again[0].duplicate);
    CHECK(again[0].id == id);
    CHECK(again[0].state == JobState::waiting);
    CHECK(again[1].state == JobState::waiting);
    CHECK(b.info("s").jobs == 3);
    n.session = "other";
    CHECK(b.enqueue(n) == id);
    CHECK(b.gone("other"));
    CHECK(b.get(id).session == "s");
  }

  TEST_CASE("a job without a session that replaces or postpones one leaves it in its session") {
    SessionBench b;
    NewJob n = b.in("s");
    n.unique = Unique{.key = "head"};
    const JobId head = b.enqueue(n);
    n.unique = Unique{.key = "waits"};
    const JobId waits = b.enqueue(n);
    NewJob other = b.job();
    other.args = "7";
    other.unique = Unique{.key = "waits", .on_conflict = OnConflict::replace};
    CHECK(b.enqueue(other) == waits);
    CHECK(b.state(waits) == JobState::waiting);
    CHECK(b.get(waits).args == "7");
    CHECK(b.get(waits).session == "s");
    other.unique = Unique{.key = "waits", .on_conflict = OnConflict::postpone};
    other.delay = minutes(5);
    CHECK(b.enqueue(other) == waits);
    CHECK(b.state(waits) == JobState::waiting);
    other.unique = Unique{.key = "head", .on_conflict = OnConflict::postpone};
    CHECK(b.enqueue(other) == head);
    CHECK(b.state(head) == JobState::scheduled);
    CHECK(b.claim(9).empty());
    b.cancel(head);
    CHECK(b.state(waits) == JobState::scheduled);
    b.advance(minutes(5));
    CHECK(b.move_due() == 1);
    CHECK(b.start(waits).session == "s");
  }
}

TEST_SUITE("store: dead jobs of a session") {
  TEST_CASE("skip: the next job becomes the head") {
    SessionBench b;
    const JobId first = b.enqueue(b.in("s", OnDead::skip));
    const JobId second = b.put("s");
    b.die(first);
    CHECK(b.info("s").stop == SessionStop::none);
    b.complete(b.start(second));
    CHECK(b.gone("s"));
  }

  TEST_CASE("block: no job of the session runs until the dead job is retried") {
    SessionBench b;
    NewJob n = b.in("s", OnDead::block);
    n.max_attempts = 1;
    const JobId first = b.enqueue(n);
    const JobId second = b.put("s");
    b.finish(b.start(first), Retry{"boom", {}});
    CHECK(b.state(first) == JobState::dead);
    CHECK(b.lines() == "");
    CHECK(b.info("s").stop == SessionStop::blocked);
    CHECK(b.info("s").stopped_by == first);
    CHECK(b.info("s").head == 0);
    CHECK(b.info("s").jobs == 1);
    const JobId third = b.put("s");
    CHECK(b.state(third) == JobState::waiting);
    CHECK(b.claim(9).empty());
    CHECK(b.retry(first).state == JobState::available);
    CHECK(b.lines() == "q ~");
    CHECK(b.info("s").stop == SessionStop::none);
    CHECK(b.info("s").stopped_by == 0);
    for (const JobId id : {first, second, third}) b.complete(b.start(id));
  }

  TEST_CASE("block: a resumed session continues without the dead job, which may be retried") {
    SessionBench b;
    const JobId first = b.enqueue(b.in("s", OnDead::block));
    const Ids rest = b.put("s", 2);
    b.die(first);
    b.resume("s");
    CHECK(b.lines() == "q ~");
    CHECK(b.info("s").stop == SessionStop::none);
    const ClaimedJob c = b.start(rest[0]);
    CHECK(b.retry(first).state == JobState::waiting);
    CHECK(b.state(first) == JobState::waiting);
    CHECK(b.info("s").jobs == 3);
    b.complete(c);
    b.complete(b.start(first));  // by its id
    b.complete(b.start(rest[1]));
  }

  TEST_CASE("block: a job that did not block the session waits when it is retried") {
    SessionBench b;
    const JobId old = b.enqueue(b.in("s", OnDead::skip));
    const JobId blocking = b.enqueue(b.in("s", OnDead::block));
    b.die(old);
    b.die(blocking);
    CHECK(b.retry(old).state == JobState::waiting);
    CHECK(b.claim(9).empty());
    CHECK(b.retry(blocking).state == JobState::available);
    b.complete(b.start(blocking));
    b.complete(b.start(old));
  }

  TEST_CASE("block: a job that blocked, was retried and died again blocks again") {
    SessionBench b;
    const JobId first = b.enqueue(b.in("s", OnDead::block));
    b.put("s");
    b.die(first);
    b.retry(first);
    b.die(first);
    CHECK(b.info("s").stop == SessionStop::blocked);
    CHECK(b.claim(9).empty());
  }

  TEST_CASE("park: no job of the session runs until it is resumed, not even the retried dead job") {
    SessionBench b;
    const JobId first = b.enqueue(b.in("s", OnDead::park));
    const JobId second = b.put("s");
    b.die(first);
    CHECK(b.info("s").stop == SessionStop::parked);
    CHECK(b.info("s").stopped_by == first);
    CHECK(b.retry(first).state == JobState::waiting);
    CHECK(b.claim(9).empty());
    b.resume("s");
    b.complete(b.start(first));
    b.complete(b.start(second));
  }

  TEST_CASE("a stopped session is kept without jobs, and new jobs wait in it") {
    SessionBench b;
    b.die(b.enqueue(b.in("s", OnDead::park)));
    CHECK(b.info("s").jobs == 0);
    const JobId id = b.put("s");
    CHECK(b.state(id) == JobState::waiting);
    b.cancel(id);
    CHECK(b.info("s").stop == SessionStop::parked);
    b.resume("s");
    CHECK(b.gone("s"));
  }

  TEST_CASE("cancelled and expired jobs do not stop a session") {
    SessionBench b;
    NewJob n = b.in("s", OnDead::block);
    n.expires_in = minutes(1);
    const JobId first = b.enqueue(n);
    b.enqueue(n);
    const JobId third = b.put("s");
    b.cancel(first);
    b.advance(minutes(1));
    CHECK(b.expire() == 1);
    b.start(third);
  }

  TEST_CASE("a job that is dead by its expiry stops its session like any dead job") {
    SessionBench b;
    NewJob n = b.in("s", OnDead::block);
    n.expires_in = minutes(1);
    n.on_expiry = OnExpiry::dead;
    const JobId first = b.enqueue(n);
    const JobId second = b.put("s");
    b.advance(minutes(1));
    CHECK(b.expire() == 1);
    CHECK(b.info("s").stop == SessionStop::blocked);
    CHECK(b.info("s").stopped_by == first);
    CHECK(b.state(second) == JobState::waiting);
    b.retry(first);
    b.start(first);
  }

  TEST_CASE("resume: no effect on a session that is not stopped; an unknown session is not found") {
    SessionBench b;
    const Ids all = b.put("s", 2);
    b.resume("s");
    CHECK(b.lines() == "");
    CHECK(b.info("s").head == all[0]);
    CHECK(b.refused(ResumeSession{.session = b.key_of("t")}) == ErrorCode::not_found);
    CHECK(b.refused(ResumeSession{.session = b.key_of("s", "r")}) == ErrorCode::not_found);
    const auto scopes = std::make_shared<const Scopes>(*Scopes::parse("work=r"));
    CHECK(b.refused(ResumeSession{.session = b.key_of("s"), .within = {scopes, Verb::work}}) ==
          ErrorCode::not_found);
  }

  TEST_CASE("redrive puts dead jobs into their sessions by their ids") {
    SessionBench b;
    const Ids all = b.put("s", 4);
    for (int i = 0; i < 3; ++i) b.die(all[static_cast<std::size_t>(i)]);
    const ClaimedJob c = b.start(all[3]);
    CHECK(b.one<RedriveResult>(Redrive{}).redriven == 3);
    CHECK(b.count(JobState::waiting) == 3);
    b.complete(c);
    for (int i = 0; i < 3; ++i) b.complete(b.start(all[static_cast<std::size_t>(i)]));
    b.die(b.put("s"));
    b.die(b.put("s"));
    CHECK(b.gone("s"));
    CHECK(b.one<RedriveResult>(Redrive{}).redriven == 2);
    CHECK(b.count(JobState::available) == 1);
    CHECK(b.count(JobState::waiting) == 1);
  }

  TEST_CASE("retry of a waiting job is a conflict, of a head it is not") {
    SessionBench b;
    NewJob later = b.in("s");
    later.delay = minutes(10);
    const JobId first = b.enqueue(later);
    const JobId second = b.enqueue(later);
    CHECK(b.refused(RetryJob{second}) == ErrorCode::conflict);
    CHECK(b.state(second) == JobState::waiting);
    CHECK(b.retry(first).state == JobState::available);
    CHECK(b.lines() == "q ~");
    CHECK(b.retry(first).state == JobState::available);
    const ClaimedJob c = b.start(first);
    b.finish(c, Retry{"again", minutes(1)});
    CHECK(b.retry(first).state == JobState::available);
    b.complete(b.start(first));
    CHECK(b.state(second) == JobState::scheduled);
    CHECK(b.retry(second).state == JobState::available);
  }

  TEST_CASE("a retry of a cancelled job creates its session again") {
    SessionBench b;
    const JobId first = b.put("s");
    b.cancel(first);
    CHECK(b.gone("s"));
    CHECK(b.retry(first).state == JobState::available);
    CHECK(b.info("s").head == first);
    const JobId second = b.put("s");
    b.cancel(second);
    CHECK(b.retry(second).state == JobState::waiting);
    b.complete(b.start(first));
    b.complete(b.start(second));
  }
}

TEST_SUITE("store: the state of a session") {
  TEST_CASE("a finish leaves a state, and the next job reads it") {
    SessionBench b;
    const Ids all = b.put("s", 4);
    CHECK(b.finish_with(b.start(all[0]), Complete{}, R"({"n": 1})") == FinishStatus::ok);
    CHECK(b.info("s").state == R"({"n": 1})");
    CHECK(b.info("s").state_bytes == 8);
    const ClaimedJob second = b.start(all[1]);
    CHECK(second.session_state == R"({"n": 1})");
    CHECK(b.finish_with(second, Retry{"again", seconds(0)}, "2") == FinishStatus::ok);
    const ClaimedJob again = b.start(all[1]);
    CHECK(again.session_state == "2");
    b.complete(again);  // without a state
    CHECK(b.info("s").state == "2");
    CHECK(b.finish_with(b.start(all[2]), Dead{"x", ""}, "3") == FinishStatus::ok);
    const ClaimedJob last = b.start(all[3]);
    CHECK(last.session_state == "3");
    CHECK(b.finish_with(last, Complete{}, "") == FinishStatus::ok);
    CHECK(b.gone("s"));
  }

  TEST_CASE("a stale finish or a job without a session writes no session state") {
    SessionBench b;
    const JobId id = b.put("s");
    const ClaimedJob first = b.start(id);
    b.finish(first, Snooze{});
    const ClaimedJob c = b.start(id);
    CHECK(b.finish_with(first, Complete{}, "1") == FinishStatus::stale);
    CHECK(b.info("s").state.empty());
    CHECK(b.finish_with(c, Complete{}, "2") == FinishStatus::ok);
    CHECK(b.finish_with(c, Complete{}, "3") == FinishStatus::ok);  // repeated
    CHECK(b.info("s").state == "2");
    CHECK(b.finish_with(b.start(b.enqueue()), Complete{}, "4") == FinishStatus::ok);
  }

  TEST_CASE("a running job puts the state of its session, by its token") {
    SessionBench b;
    const Ids all = b.put("s", 2);
    CHECK(b.put_state_refused("s", 0) == ErrorCode::lease_lost);
    const ClaimedJob c = b.start(all[0]);
    b.put_state("s", c.token, "[1]");
    CHECK(b.info("s").state == "[1]");
    CHECK(b.put_state_refused("s", c.token + 1) == ErrorCode::lease_lost);
    CHECK(b.put_state_refused("t", c.token) == ErrorCode::lease_lost);
    b.finish(c, Snooze{});
    CHECK(b.put_state_refused("s", c.token) == ErrorCode::lease_lost);
    const ClaimedJob again = b.start(all[0]);
    CHECK(again.session_state == "[1]");
    CHECK(b.put_state_refused("s", c.token) == ErrorCode::lease_lost);
    b.put_state("s", again.token, "");
    CHECK(b.info("s").state.empty());
    b.complete(again);
    CHECK(b.put_state_refused("s", again.token) == ErrorCode::lease_lost);
  }

  TEST_CASE("a state over the bound is refused and changes nothing") {
    SessionBench b;
    const ClaimedJob c = b.start(b.put("s"));
    const std::string most(kMaxSessionStateBytes, '1');
    b.put_state("s", c.token, most);
    CHECK(b.put_state_refused("s", c.token, most + "1") == ErrorCode::too_large);
    CHECK(b.info("s").state == most);
    b.complete(c);
    CHECK(b.start(b.put("s")).session_state == most);
  }

  TEST_CASE("a session with a state outlives its jobs, and is pruned when it is forgotten") {
    StoreOptions options;
    options.retention_dead = hours(10);
    options.retention_completed = hours(1);
    SessionBench b(options);
    CHECK(b.finish_with(b.start(b.put("s")), Complete{}, "1") == FinishStatus::ok);
    b.advance(hours(2));
    CHECK(b.prune() == 1);
    CHECK(b.info("s").jobs == 0);
    CHECK(b.store->agenda().next_prune == b.wall() + hours(8));
    b.advance(hours(7));
    const ClaimedJob c = b.start(b.put("s"));
    CHECK(c.session_state == "1");
    b.advance(hours(7));
    b.complete(c);
    b.advance(hours(9));
    CHECK(b.prune() == 1);
    CHECK(b.info("s").state == "1");
    b.reopen();
    CHECK(b.info("s").state == "1");
    CHECK(b.store->agenda().next_prune == b.wall() + hours(1));
    b.advance(hours(1));
    CHECK(b.prune() == 0);
    CHECK(b.gone("s"));
    CHECK(b.store->agenda().next_prune == WallTime::never());
    CHECK(b.start(b.put("s")).session_state.empty());
  }
}

TEST_SUITE("store: sessions, all of them") {
  TEST_CASE("sessions are listed by queue and key, page by page, without their states") {
    SessionBench b;
    for (const char* key : {"c", "a", "b"}) b.put(key);
    b.enqueue(b.in("a", "p"));
    b.put_state("c", b.start(b.listed({.queue = "q"}).at(2)).token, "12345");
    const auto page = [&](const std::string& queue, const SessionKey& after, int limit) {
      auto got = b.store->sessions(queue, after, limit, b.clock.now().instant);
      REQUIRE(got.has_value());
      return *got;
    };
    const SessionPage all = page("", {}, 10);
    REQUIRE(all.sessions.size() == 4);
    CHECK(all.sessions[0].session == b.key_of("a", "p"));
    CHECK(all.sessions[1].session == b.key_of("a"));
    CHECK(all.sessions[3].session == b.key_of("c"));
    CHECK(all.sessions[1].jobs == 1);
    CHECK(all.sessions[3].state_bytes == 5);
    CHECK(all.sessions[3].state.empty());
    CHECK_FALSE(all.next.has_value());
    const SessionPage first = page("", {}, 2);
    REQUIRE(first.sessions.size() == 2);
    REQUIRE(first.next.has_value());
    const SessionPage second = page("", *first.next, 2);
    REQUIRE(second.sessions.size() == 2);
    CHECK(second.sessions[0].session.key == "b");
    CHECK_FALSE(second.next.has_value());
    CHECK(page("q", {}, 10).sessions.size() == 3);
    CHECK(page("q", b.key_of("a"), 10).sessions.size() == 2);
    CHECK(page("p", {}, 1).sessions.size() == 1);
    CHECK(page("unknown", {}, 10).sessions.empty());
  }

  TEST_CASE("replies and follow-ups go into the requested session") {
    SessionBench b;
    NewJob n = b.job();
    n.reply_to = "answers";
    n.reply_session = "caller";
    n.follow_ups = {{.queue = "next", .kind = "step", .session = "steps"}};
    const JobId first = b.enqueue(n);
    b.enqueue(n);
    CHECK(b.get(first).follow_ups == n.follow_ups);
    CHECK(b.get(first).reply_session == "caller");
    for (const ClaimedJob& c : b.claim(2)) b.complete(c);
    for (const char* queue : {"answers", "next"}) {
      const auto claimed = b.claim(5, {queue});
      REQUIRE(claimed.size() == 1);
      CHECK(claimed[0].session == (std::string(queue) == "next" ? "steps" : "caller"));
      b.complete(claimed[0]);
      CHECK(b.claim(5, {queue}).size() == 1);
    }
  }

  TEST_CASE("follow-ups on progress go into the requested session, in order") {
    SessionBench b;
    NewJob n = b.job();
    n.follow_ups = {
        {.queue = "next", .kind = "step", .on = FollowUp::kProgress, .session = "steps"}};
    b.enqueue(n);
    const ClaimedJob c = b.claim_one();
    for (const double value : {0.25, 0.5, 0.5, 0.75}) b.renew(c, Progress{value, ""});
    for (const char* value : {"0.25", "0.5", "0.75"}) {
      const auto claimed = b.claim(5, {"next"});
      REQUIRE(claimed.size() == 1);
      CHECK(claimed[0].session == "steps");
      CHECK(claimed[0].args.find(std::string("\"value\":") + value) != std::string::npos);
      b.complete(claimed[0]);
    }
    CHECK(b.claim(5, {"next"}).empty());
  }

  TEST_CASE("a follow-up into its own session waits for the earlier jobs") {
    SessionBench b;
    NewJob n = b.in("s");
    n.follow_ups = {{.queue = "q", .kind = "step", .session = "s"}};
    const JobId first = b.enqueue(n);
    const JobId second = b.put("s");
    b.complete(b.start(first));
    CHECK(b.info("s").jobs == 2);
    b.complete(b.start(second));
    b.complete(b.claim_one());
    CHECK(b.gone("s"));
  }

  TEST_CASE("a reopen keeps the order, the heads, stopped sessions and the states") {
    SessionBench b;
    const Ids all = b.put("s", 3);
    const JobId running = b.put("r");
    b.put("r");
    const JobId dead = b.enqueue(b.in("d", OnDead::block));
    const JobId behind = b.put("d");
    const auto claimed = b.claim(3);
    REQUIRE(claimed.size() == 3);
    b.put_state("r", claimed[1].token, "7");
    b.finish(claimed[2], Dead{"x", ""});
    b.complete(claimed[0]);
    b.reopen();
    CHECK(b.info("s").head == all[1]);
    CHECK(b.info("d").stop == SessionStop::blocked);
    CHECK(b.info("d").stopped_by == dead);
    CHECK(b.info("r").head == running);
    CHECK(ids(b.claim(9)) == Ids{all[1]});
    CHECK(b.finish_with(claimed[1], Complete{}, "8") == FinishStatus::ok);
    CHECK(b.claim_one().session_state == "8");
    b.retry(dead);
    b.reopen();
    b.complete(b.start(dead));
    b.start(behind);
    CHECK(b.state(all[2]) == JobState::waiting);
  }

  TEST_CASE("a repeated request returns the current states of its jobs") {
    SessionBench b;
    const Enqueue e{.jobs = {b.in("s"), b.in("s")}, .idempotency_key = "k", .fingerprint = "f"};
    b.one<EnqueueResult>(e);
    const auto again = b.one<EnqueueResult>(e);
    CHECK(again.replayed);
    CHECK(again.jobs[0].state == JobState::available);
    CHECK(again.jobs[1].state == JobState::waiting);
    CHECK(b.info("s").jobs == 2);
  }

  TEST_CASE("many sessions whose heads end in one batch each get their next head") {
    SessionBench b;
    constexpr int kSessions = 300;
    Enqueue e;
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < kSessions; ++i) e.jobs.push_back(b.in("s" + std::to_string(i)));
    }
    b.one<EnqueueResult>(e);
    for (int round = 0; round < 3; ++round) {
      const auto claimed = b.claim(1000);
      REQUIRE(claimed.size() == kSessions);
      CHECK(b.claim(1000).empty());
      Finish f{.worker = "w1", .results = {}};
      for (const ClaimedJob& c : claimed) f.results.push_back({c.id, c.token, Complete{}});
      b.one<FinishResult>(f);
    }
    CHECK(b.count(JobState::completed) == 3 * kSessions);
    CHECK(b.store->sessions("", {}, 10, b.clock.now().instant)->sessions.empty());
  }
}

}  // namespace
}  // namespace mainspring::conformance
