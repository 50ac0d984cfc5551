// What holding a session promises: no other worker gets its jobs, including later ones, until it is
// released or its lease ends. Also: which ready queues a batch wakes.
#include "conformance/session_bench.h"

namespace mainspring::conformance {
namespace {

using Ids = std::vector<JobId>;

TEST_SUITE("store: holders of sessions") {
  TEST_CASE("ORD: the worker that accepts a session gets all its jobs, including later ones") {
    SessionBench b;
    const Ids all = b.put("s", 2);
    const SessionGrant g = b.accept("s");
    CHECK(g.session == b.key_of("s"));
    CHECK(g.lease == seconds(30));
    CHECK_FALSE(g.held);
    CHECK(b.info("s").worker == "h1");
    CHECK(b.info("s").token == g.token);
    CHECK(b.info("s").expires_in == seconds(30));
    CHECK(b.info("s").head == all[0]);
    CHECK(b.state(all[0]) == JobState::waiting);
    CHECK_FALSE(b.store->has_available("q"));
    CHECK_FALSE(b.has_next());
    CHECK(b.has_line("s"));
    CHECK(b.claim(9).empty());
    CHECK(b.accept_next("h2").jobs.empty());
    const ClaimedJob first = b.start_held(g, all[0]);
    CHECK(first.attempt == 1);
    CHECK(first.session == "s");
    CHECK(first.kind == "work");
    CHECK(first.token > g.token);
    CHECK(b.state(all[0]) == JobState::running);
    CHECK_FALSE(b.has_line("s"));
    CHECK(b.claim_held(g).empty());
    const JobId third = b.put("s");
    CHECK(b.claim(9).empty());
    b.complete(first);
    CHECK(b.claim(9).empty());
    b.complete(b.start_held(g, all[1]));
    b.complete(b.start_held(g, third));
    CHECK(b.claim_held(g).empty());
    CHECK(b.info("s").jobs == 0);
    const JobId later = b.put("s");
    CHECK(b.state(later) == JobState::waiting);
    CHECK(b.claim(9).empty());
    b.complete(b.start_held(g, later));
    b.release(g);
    CHECK(b.gone("s"));
  }

  TEST_CASE("ORD: jobs that wait in sessions and for holders keep waiting after a reopen") {
    SessionBench b;
    Ids free = b.put("free", 4);
    const Ids held = b.put("held", 2);
    const SessionGrant g = b.accept("held");
    b.one<CancelResult>(Cancel{free[2]});
    free.erase(free.begin() + 2);
    b.reopen();
    for (const JobId id : held) b.complete(b.start_held(g, id));
    const JobId late = b.put("free");
    for (const JobId id : free) b.complete(b.start(id));
    b.complete(b.start(late));
    CHECK(b.gone("free"));
  }

  TEST_CASE("ORD: a session stays held while many other sessions come and go") {
    SessionBench b;
    const Ids held = b.put("held", 2);
    const SessionGrant g = b.accept("held");
    for (int i = 0; i < 8; ++i) {
      const std::string key = "other " + std::to_string(i);
      const Ids two = b.put(key, 2);
      b.complete(b.start(two[0]));
      b.complete(b.start(two[1]));
      CHECK(b.gone(key));
      b.put("kept " + std::to_string(i));
      b.claim(1);
    }
    CHECK(b.info("held").token == g.token);
    for (const JobId id : held) b.complete(b.start_held(g, id));
  }

  TEST_CASE("a session may be held before it has jobs") {
    SessionBench b;
    const SessionGrant g = b.accept("s");
    CHECK(b.info("s").jobs == 0);
    CHECK(b.info("s").head == 0);
    const JobId id = b.put("s");
    const JobId other = b.put("t");
    CHECK(ids(b.claim(9)) == Ids{other});
    b.start_held(g, id);
  }

  TEST_CASE("ORD: accepting a session lets its running job finish before the next one") {
    SessionBench b;
    const Ids all = b.put("s", 2);
    const ClaimedJob running = b.start(all[0]);
    const SessionGrant g = b.accept("s");
    CHECK(b.state(all[0]) == JobState::running);
    CHECK(b.claim_held(g).empty());
    CHECK_FALSE(b.has_line("s"));
    b.put_state("s", running.token, "1");
    b.complete(running);
    CHECK(b.claim(9).empty());
    CHECK(b.start_held(g, all[1]).session_state == "1");
  }

  TEST_CASE("while a session is held, others are refused with the remaining time") {
    SessionBench b;
    const SessionGrant g = b.accept("s", "h1", seconds(10));
    b.advance(milliseconds(9'500));
    const auto answers = b.apply({b.accepting("s", "h2")});
    const Error error = std::get<Error>(answers[0]);
    CHECK(error.code == ErrorCode::lease_held);
    CHECK(error.retry_after_ms >= 500);
    CHECK(error.retry_after_ms <= 501);
    CHECK(b.info("s").worker == "h1");
    CHECK(b.info("s").expires_in == milliseconds(500));
    CHECK(b.accept("t", "h2").token > g.token);
  }

  TEST_CASE("a repeated accept of the holder renews its lease and keeps the token") {
    SessionBench b;
    b.put("s");
    const SessionGrant g = b.accept("s", "h1", seconds(10));
    b.put_state("s", g.token, "[7]");
    b.advance(seconds(8));
    const SessionGrant again = b.accept("s", "h1", seconds(20));
    CHECK(again.held);
    CHECK(again.token == g.token);
    CHECK(again.lease == seconds(20));
    CHECK(again.state == "[7]");
    CHECK(b.info("s").expires_in == seconds(20));
    b.advance(seconds(19));
    CHECK(b.refused(b.accepting("s", "h2")) == ErrorCode::lease_held);
  }

  TEST_CASE("a renewal extends the lease by the old or a requested length and returns the end") {
    SessionBench b;
    const SessionGrant g = b.accept("s", "h1", seconds(10));
    b.advance(seconds(9));
    CHECK(b.renew_hold(g).lease == seconds(10));
    b.advance(seconds(9));
    CHECK(b.renew_hold(g, seconds(40)).lease == seconds(40));
    b.advance(seconds(39));
    CHECK(b.info("s").expires_in == seconds(1));
    CHECK(b.renew_hold(g).lease == seconds(40));
    CHECK(b.renew_hold(g).token == g.token);
    CHECK(b.renew_hold(g).session == g.session);
  }

  TEST_CASE("a renewal of a session writes nothing, unless it is for longer than before") {
    SessionBench b;
    const SessionGrant g = b.accept("s", "h1", seconds(10));
    const auto commits = b.store->commits();
    b.renew_hold(g);
    b.renew_hold(g, seconds(5));
    CHECK(b.store->commits() == commits);
    b.renew_hold(g, seconds(50));
    b.reopen();
    CHECK(b.info("s").expires_in == seconds(50));
    b.advance(seconds(49));
    CHECK(b.renew_hold(g).token == g.token);
  }

  TEST_CASE("a renewal with a wrong token or session is reported as lost") {
    SessionBench b;
    const JobId id = b.put("s");
    const SessionGrant g = b.accept("s");
    SessionGrant wrong = g;
    ++wrong.token;
    CHECK(b.lost(wrong));
    wrong.token = 0;
    CHECK(b.lost(wrong));
    wrong = g;
    wrong.session.key = "t";
    CHECK(b.lost(wrong));
    wrong.session = b.key_of("s", "r");
    CHECK(b.lost(wrong));
    CHECK(b.info("s").worker == "h1");
    b.start_held(g, id);
  }

  TEST_CASE("a release gives the session's jobs back to all claims and ends the token") {
    SessionBench b;
    const Ids all = b.put("s", 2);
    const SessionGrant g = b.accept("s");
    b.put_state("s", g.token, "1");
    b.release(g);
    CHECK(b.lines() == "q ~");
    CHECK(b.info("s").worker.empty());
    CHECK(b.info("s").token == 0);
    CHECK(b.info("s").expires_in == Duration(0));
    CHECK(b.lost(g));
    CHECK(b.state(all[0]) == JobState::available);
    const ClaimedJob c = b.start(all[0]);
    CHECK(c.session_state == "1");
    const SessionGrant next = b.accept("s", "h1");
    CHECK_FALSE(next.held);
    CHECK(next.token > g.token);
    CHECK(b.lost(g));
  }

  TEST_CASE("a release leaves the holder its running job") {
    SessionBench b;
    const Ids all = b.put("s", 2);
    const SessionGrant g = b.accept("s");
    const ClaimedJob c = b.start_held(g, all[0]);
    b.release(g);
    CHECK(b.claim(9).empty());
    CHECK(b.renew(c).renewed.size() == 1);
    CHECK(b.finish_with(c, Complete{}, "2") == FinishStatus::ok);
    CHECK(b.start(all[1]).session_state == "2");
  }

  TEST_CASE("when the lease of a dead holder ends, its session is open to all claims") {
    SessionBench b;
    const Ids all = b.put("s", 2);
    const SessionGrant g = b.accept("s", "h1", seconds(20));
    CHECK(b.store->agenda().next_lease_expiry == b.clock.now().instant + seconds(20));
    const ClaimedJob c = b.start_held(g, all[0]);  // for 30 s
    b.advance(seconds(19));
    b.rescue();
    CHECK(b.info("s").worker == "h1");
    b.advance(seconds(1));
    CHECK(b.lost(g));
    CHECK(b.info("s").worker.empty());
    CHECK(b.rescue() == 0);  // of jobs none
    CHECK(b.lost(g));
    CHECK(b.store->agenda().next_lease_expiry == b.clock.now().instant + seconds(10));
    CHECK(b.claim(9).empty());
    b.advance(seconds(10));
    CHECK(b.rescue() == 1);
    CHECK(b.state(all[0]) == JobState::available);  // it was never renewed
    CHECK(b.finish(c, Complete{}) == FinishStatus::stale);
    CHECK(b.retry(all[0]).state == JobState::available);
    b.complete(b.start(all[0]));
    b.complete(b.start(all[1]));
    CHECK(b.gone("s"));
  }

  TEST_CASE("a rescue makes the head of the session available to all claims") {
    SessionBench b;
    const JobId id = b.put("s");
    b.accept("s", "h1", seconds(20));
    const SessionGrant empty = b.accept("t", "h1", seconds(20));
    b.advance(seconds(20));
    CHECK(b.claim(9).empty());
    b.rescue();
    CHECK(b.lines() == "q ~");
    CHECK(b.gone("t"));
    CHECK(b.lost(empty));
    CHECK(b.store->agenda().next_lease_expiry == Instant::never());
    b.start(id);
  }

  TEST_CASE("a rescue of few jobs ends the leases of all sessions") {
    SessionBench b;
    for (const char* key : {"a", "b", "c"}) {
      b.accept(key);
      b.put(key);
    }
    b.advance(seconds(31));
    CHECK_FALSE(b.one<StepResult>(RescueExpired{.limit = 1}).more);
    CHECK(b.claim(5).size() == 3);
  }

  TEST_CASE("a session whose lease has ended can be accepted at once, with a new token") {
    SessionBench b;
    const JobId id = b.put("s");
    const SessionGrant g = b.accept("s", "h1", seconds(20));
    b.advance(seconds(20));
    const SessionGrant next = b.accept("s", "h2", seconds(30));
    CHECK_FALSE(next.held);
    CHECK(next.token > g.token);
    CHECK(b.lost(g));
    b.rescue();
    CHECK(b.info("s").worker == "h2");
    b.start_held(next, id);
    b.advance(seconds(30));
    const SessionGrant own = b.accept("s", "h2", seconds(30));  // it was lost in between
    CHECK_FALSE(own.held);
    CHECK(own.token > next.token);
  }

  TEST_CASE("setting the wall clock does not change a holder's lease") {
    SessionBench b;
    const SessionGrant g = b.accept("s");
    b.clock.step_wall(hours(5));
    b.rescue();
    CHECK(b.renew_hold(g).token == g.token);
    b.clock.step_wall(-hours(9));
    CHECK(b.info("s").worker == "h1");
  }

  TEST_CASE("a reopen keeps holders: each lease restarts with its full length") {
    SessionBench b;
    const Ids all = b.put("s", 2);
    const SessionGrant g = b.accept("s", "h1", seconds(20));
    const SessionGrant running = b.accept("r");
    const JobId first = b.put("r");
    const ClaimedJob c = b.start_held(running, first);
    b.advance(seconds(19));
    b.reopen();
    CHECK(b.info("s").expires_in == seconds(20));
    CHECK(b.claim(9).empty());
    CHECK(b.refused(b.accepting("s", "h2")) == ErrorCode::lease_held);
    CHECK(b.has_line("s"));
    CHECK_FALSE(b.has_line("r"));
    b.advance(seconds(19));
    b.complete(b.start_held(g, all[0]));
    b.reopen();
    b.start_held(g, all[1]);
    b.complete(c);
    CHECK(b.claim_held(running).empty());
    b.advance(seconds(20));
    b.rescue();
    CHECK(b.info("s").worker.empty());
    CHECK(b.info("r").worker == "h1");
  }

  TEST_CASE("a holder puts the state of its session, also without a job") {
    SessionBench b;
    const SessionGrant g = b.accept("s");
    b.put_state("s", g.token, R"({"open":true})");
    CHECK(b.info("s").state == R"({"open":true})");
    CHECK(b.accept("s").state == R"({"open":true})");
    CHECK(b.start_held(g, b.put("s")).session_state == R"({"open":true})");
    b.put_state("s", g.token, "2");
    CHECK(b.put_state_refused("s", g.token, std::string(kMaxSessionStateBytes + 1, '1')) ==
          ErrorCode::too_large);
    b.release(g);
    CHECK(b.accept("s", "h2").state == "2");
  }
}

TEST_SUITE("store: the next free session") {
  TEST_CASE("a claim of the accept queue holds the next free session and gives its job") {
    SessionBench b;
    b.enqueue();
    const JobId held = b.put("held");
    const SessionGrant other = b.accept("held");
    NewJob urgent = b.in("urgent");
    urgent.priority = 1;
    const Ids second = b.put("s", 2);
    const JobId first = b.enqueue(urgent);
    b.put("urgent");
    CHECK(b.has_next());
    const ClaimResult got = b.one<ClaimResult>(Claim{.worker = "h2",
                                                     .queues = {accept_queue("q")},
                                                     .kinds = {"nothing"},
                                                     .max = 50,
                                                     .lease = seconds(40)});
    REQUIRE(ids(got.jobs) == Ids{first});
    REQUIRE(got.session.has_value());
    CHECK(got.session->session == b.key_of("urgent"));
    CHECK(got.session->lease == seconds(40));
    CHECK_FALSE(got.session->held);
    CHECK(got.session->token < got.jobs[0].token);
    CHECK(got.jobs[0].lease == seconds(40));
    CHECK(b.info("urgent").worker == "h2");
    CHECK(b.info("urgent").expires_in == seconds(40));
    const ClaimResult next = b.accept_next("h2");
    CHECK(ids(next.jobs) == Ids{second[0]});
    CHECK(next.session->session == b.key_of("s"));
    CHECK_FALSE(b.has_next());
    const ClaimResult none = b.accept_next("h3");
    CHECK(none.jobs.empty());
    CHECK_FALSE(none.session.has_value());
    CHECK(b.claim(9).size() == 1);  // the job without a session
    b.complete(next.jobs[0]);
    b.start_held(*next.session, second[1]);
    b.start_held(other, held);
  }

  TEST_CASE("after the head of a session expired the next job can be accepted") {
    SessionBench b;
    NewJob short_lived = b.in("s");
    short_lived.expires_in = seconds(20);
    b.enqueue(short_lived);
    const JobId next = b.put("s");
    b.advance(seconds(21));
    CHECK(b.accept_next().jobs.empty());
    b.one<StepResult>(ExpireJobs{});
    CHECK(b.lines() == "q ~");
    CHECK(b.has_next());
    CHECK(ids(b.accept_next().jobs) == std::vector<JobId>{next});
  }

  TEST_CASE("the next free session is given with its state, and only of that queue") {
    SessionBench b;
    CHECK(b.finish_with(b.start(b.put("s")), Complete{}, "9") == FinishStatus::ok);
    const JobId elsewhere = b.enqueue(b.in("r", "r"));
    CHECK(b.accept_next().jobs.empty());
    const JobId id = b.put("s");
    const ClaimResult got = b.accept_next();
    REQUIRE(ids(got.jobs) == Ids{id});
    CHECK(got.session->state == "9");
    CHECK(got.jobs[0].session_state == "9");
    CHECK(b.state(elsewhere) == JobState::available);
    CHECK(b.accept("s").token == got.session->token);
  }

  TEST_CASE("a session whose head runs, is scheduled or has expired is not the next free one") {
    SessionBench b;
    b.start(b.put("running"));
    NewJob later = b.in("later");
    later.delay = minutes(1);
    b.enqueue(later);
    NewJob brief = b.in("brief");
    brief.expires_in = seconds(5);
    b.enqueue(brief);
    b.advance(seconds(5));
    CHECK(b.accept_next().jobs.empty());
    CHECK_FALSE(b.accept_next().session.has_value());
    const JobId id = b.put("s");
    CHECK(ids(b.accept_next().jobs) == Ids{id});
  }

  TEST_CASE("sessions that are accepted one after the other in a batch are not given twice") {
    SessionBench b;
    const Ids all = {b.put("a"), b.put("b")};
    const Claim next{.worker = "h1", .queues = {accept_queue("q")}, .kinds = {}};
    const auto results = b.apply({next, next, next});
    CHECK(ids(std::get<ClaimResult>(results[0]).jobs) == Ids{all[0]});
    CHECK(ids(std::get<ClaimResult>(results[1]).jobs) == Ids{all[1]});
    CHECK(std::get<ClaimResult>(results[2]).jobs.empty());
  }
}

TEST_SUITE("store: the jobs of a held session") {
  TEST_CASE("ORD: every job that would become available waits for the holder instead") {
    SessionBench b;
    NewJob later = b.in("s");
    later.delay = minutes(1);
    const JobId id = b.enqueue(later);
    const SessionGrant g = b.accept("s", "h1", hours(1));
    CHECK(b.state(id) == JobState::scheduled);
    CHECK_FALSE(b.has_line("s"));
    b.advance(minutes(1));
    CHECK(b.move_due() == 1);
    CHECK(b.state(id) == JobState::waiting);
    CHECK(b.lines() == "s");
    b.finish(b.start_held(g, id), Snooze{});
    CHECK(b.lines() == "s");
    CHECK(b.state(id) == JobState::waiting);
    b.finish(b.start_held(g, id), Retry{"at once", seconds(0)});
    CHECK(b.lines() == "s");
    b.finish(b.start_held(g, id), Retry{"later", minutes(1)});
    CHECK(b.state(id) == JobState::retryable);
    CHECK(b.retry(id).state == JobState::waiting);
    CHECK(b.lines() == "s");
    CHECK(b.get(id).attempt == 2);
    const ClaimedJob held = b.start_held(g, id);
    b.advance(seconds(1));
    b.renew(held);
    b.advance(kDefaultLease);
    CHECK(b.rescue() == 1);
    CHECK(b.state(id) == JobState::retryable);
    CHECK(b.claim(9).empty());
    b.release(g);
    CHECK(b.state(id) == JobState::retryable);
    CHECK(b.lines() == "");
  }

  TEST_CASE("a held session gets its next head like other sessions") {
    SessionBench b;
    NewJob brief = b.in("s");
    brief.expires_in = minutes(1);
    NewJob later = b.in("s");
    later.delay = minutes(9);
    const JobId first = b.put("s");
    const JobId second = b.enqueue(brief);
    const JobId third = b.put("s");
    const JobId fourth = b.enqueue(later);
    const SessionGrant g = b.accept("s", "h1", hours(1));
    b.cancel(first);
    CHECK(b.lines() == "s");
    CHECK(b.info("s").head == second);
    CHECK(b.refused(RetryJob{third}) == ErrorCode::conflict);
    b.advance(minutes(1));
    CHECK(b.claim_held(g).empty());  // too late for it
    CHECK(b.expire() == 1);
    CHECK(b.lines() == "s");
    b.complete(b.start_held(g, third));
    CHECK(b.lines() == "");
    CHECK(b.state(fourth) == JobState::scheduled);
    b.release(g);
    CHECK(b.lines() == "");
    CHECK(b.state(fourth) == JobState::scheduled);
  }

  TEST_CASE("a held session that is blocked gives no jobs until it is resumed or retried") {
    SessionBench b;
    const JobId first = b.enqueue(b.in("s", OnDead::block));
    const JobId second = b.enqueue(b.in("s", OnDead::park));
    const JobId third = b.put("s");
    const SessionGrant g = b.accept("s");
    b.finish(b.start_held(g, first), Dead{"x", ""});
    CHECK(b.lines() == "");
    CHECK_FALSE(b.has_line("s"));
    CHECK(b.claim_held(g).empty());
    CHECK(b.retry(first).state == JobState::waiting);
    CHECK(b.lines() == "s");
    b.complete(b.start_held(g, first));
    b.finish(b.start_held(g, second), Dead{"x", ""});
    CHECK(b.claim_held(g).empty());
    b.release(g);
    CHECK(b.claim(9).empty());
    CHECK(b.lines() == "");
    const SessionGrant next = b.accept("s", "h2");
    CHECK(b.claim_held(next).empty());
    b.resume("s");
    CHECK(b.lines() == "s");
    b.start_held(next, third);
  }

  TEST_CASE("a session of a paused queue can be held, but gives no jobs") {
    SessionBench b;
    const JobId id = b.put("s");
    b.put("t");
    b.one<Done>(PauseQueue{.queue = "q", .paused = true});
    CHECK_FALSE(b.has_next());
    CHECK(b.accept_next().jobs.empty());
    const SessionGrant g = b.accept("s");
    b.accept("none");
    CHECK(b.lines() == "");
    CHECK_FALSE(b.has_line("s"));
    CHECK(b.claim_held(g).empty());
    b.one<Done>(PauseQueue{.queue = "q", .paused = false});
    CHECK(b.lines() == "q s ~");
    b.start_held(g, id);
  }

  TEST_CASE("a batch wakes exactly the ready queues in which claims may find new jobs") {
    SessionBench b;
    b.enqueue();
    CHECK(b.lines() == "q");
    const JobId first = b.put("s");
    CHECK(b.lines() == "q ~");
    b.put("s");
    CHECK(b.lines() == "");
    const SessionGrant g = b.accept("s");
    CHECK(b.lines() == "s");
    b.renew_hold(g);
    CHECK(b.lines() == "");
    b.put("s");
    CHECK(b.lines() == "");
    b.put_state("s", g.token, "1");
    CHECK(b.lines() == "");
    const ClaimedJob c = b.start_held(g, first);
    CHECK(b.lines() == "");
    b.complete(c);
    CHECK(b.lines() == "s");
    b.release(g);
    CHECK(b.lines() == "q ~");
    const ClaimResult next = b.accept_next();
    CHECK(b.lines() == "");
    b.release(*next.session);
    CHECK(b.lines() == "");
    b.complete(next.jobs[0]);
    CHECK(b.lines() == "q ~");
    // Made available and claimed in one batch: no job is left.
    const SessionGrant again = b.accept("s");
    const JobId last = b.info("s").head;
    const auto results = b.apply({ReleaseSession{.session = again.session, .token = again.token},
                                  Claim{.worker = "w1", .queues = {"q"}, .kinds = {}, .max = 9}});
    CHECK(std::get<ClaimResult>(results[1]).jobs.back().id == last);
    CHECK(b.lines() == "");
  }
}

}  // namespace
}  // namespace mainspring::conformance
