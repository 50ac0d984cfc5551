// What enqueue promises: all or nothing, times, uniqueness, idempotency, expiry, bounds.
#include <array>

#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

TEST_SUITE("store: enqueue") {
  TEST_CASE("an enqueued job is stored byte for byte") {
    Bench b;
    NewJob n = b.job("photos");
    n.kind = "thumbnail";
    n.args = R"( {"b": 1.50, "a":"\u00e9" , "n":null} )";
    n.priority = 3;
    n.max_attempts = 7;
    n.timeout = seconds(90);
    n.tags = {"red", "größe"};
    n.headers = R"({"traceparent":"00-ab-cd-01"})";
    n.correlation_id = "c-1";
    n.reply_to = "answers";
    const JobId id = b.enqueue(n);
    const Job j = b.get(id);
    CHECK(j.id == id);
    CHECK(j.queue == "photos");
    CHECK(j.kind == "thumbnail");
    CHECK(j.args == n.args);
    CHECK(j.priority == 3);
    CHECK(j.max_attempts == 7);
    CHECK(j.timeout == seconds(90));
    CHECK(j.tags == n.tags);
    CHECK(j.headers == n.headers);
    CHECK(j.correlation_id == "c-1");
    CHECK(j.reply_to == "answers");
    CHECK(j.state == JobState::available);
    CHECK(j.attempt == 0);
    CHECK(j.token == 0);
    CHECK(j.created_at == b.wall());
    CHECK(j.run_at == b.wall());
    CHECK_FALSE(j.started_at.has_value());
    CHECK_FALSE(j.finished_at.has_value());
    CHECK(j.worker.empty());
    CHECK(j.result.empty());
    CHECK(j.errors.empty());
  }

  TEST_CASE("payloads with zero bytes, quotes and the largest size come back whole") {
    Bench b;
    NewJob n = b.job();
    n.args = "\"" + std::string(kMaxArgsBytes - 2, 'x') + "\"";
    n.correlation_id = std::string("a\0b'\";--", 8);
    const JobId id = b.enqueue(n);
    CHECK(b.get(id).args == n.args);
    CHECK(b.get(id).correlation_id == n.correlation_id);
    CHECK(b.claim_one().args == n.args);
  }

  TEST_CASE("a job without a time limit stays without one") {
    Bench b;
    NewJob n = b.job();
    n.timeout = kForever;
    b.enqueue(n);
    CHECK(b.claim_one().timeout == kForever);
  }

  TEST_CASE("ids start at 1 and increase in request order") {
    Bench b;
    CHECK(b.enqueue() == 1);
    Enqueue many;
    for (int i = 0; i < 100; ++i) many.jobs.push_back(b.job());
    const auto result = b.one<EnqueueResult>(many);
    REQUIRE(result.jobs.size() == 100);
    CHECK_FALSE(result.replayed);
    for (std::size_t i = 0; i < 100; ++i) {
      CHECK(result.jobs[i].id == static_cast<JobId>(i + 2));
      CHECK(result.jobs[i].state == JobState::available);
      CHECK_FALSE(result.jobs[i].duplicate);
    }
    CHECK(b.stats().enqueued == 101);
    CHECK(b.count(JobState::available) == 101);
  }

  TEST_CASE("beyond max_live_jobs an enqueue is overloaded, as a whole; ending jobs makes room") {
    Bench b(StoreOptions{.max_live_jobs = 3});
    b.enqueue();
    Enqueue three{.jobs = {b.job(), b.job(), b.job("other")}};
    CHECK(b.refused(three) == ErrorCode::overloaded);
    CHECK(b.listed({}).size() == 1);
    Enqueue two{.jobs = {b.job(), b.job()}};
    b.one<EnqueueResult>(two);
    CHECK(b.refused(Enqueue{.jobs = {b.job()}}) == ErrorCode::overloaded);
    CHECK(b.finish(b.claim_one(), Complete{}) == FinishStatus::ok);
    b.enqueue();
    b.reopen();
    CHECK(b.refused(Enqueue{.jobs = {b.job()}}) == ErrorCode::overloaded);
  }

  TEST_CASE("a full store accepts the engine's own jobs, and whatever ends or removes jobs") {
    Bench b(StoreOptions{.max_live_jobs = 3});
    const JobId first = b.enqueue(), second = b.enqueue();
    b.enqueue();
    CHECK(b.refused(Enqueue{.jobs = {b.job()}}) == ErrorCode::overloaded);
    NewJob own = b.job("mainspring.redrives");
    b.enqueue(own);
    CHECK(b.refused(Enqueue{.jobs = {own, b.job()}}) == ErrorCode::overloaded);
    b.cancel(first);
    b.one<Done>(DeleteJob{.id = first});
    CHECK(b.refused(Enqueue{.jobs = {b.job()}}) == ErrorCode::overloaded);
    CHECK(b.claim_one().id == second);
    b.cancel(second);
    CHECK(b.finish(second, b.get(second).token, CancelJob{}) == FinishStatus::ok);
    b.enqueue();
  }

  TEST_CASE("a refused operation changes nothing; the other operations of its batch take effect") {
    Bench b;
    const JobId id = b.enqueue();
    const auto results = b.apply({Enqueue{.jobs = {b.job("x")}}, Cancel{.id = 999}, RetryJob{999},
                                  Enqueue{.jobs = {b.job("y")}}, Cancel{.id = id, .reason = "r"}});
    CHECK(std::holds_alternative<EnqueueResult>(results[0]));
    CHECK(std::holds_alternative<Error>(results[1]));
    CHECK(std::holds_alternative<Error>(results[2]));
    CHECK(std::holds_alternative<EnqueueResult>(results[3]));
    CHECK(std::holds_alternative<CancelResult>(results[4]));
    CHECK(b.stats("x").enqueued == 1);
    CHECK(b.stats("y").enqueued == 1);
    CHECK(b.state(id) == JobState::cancelled);
  }

  TEST_CASE("operations of a batch see the effects of those before them") {
    Bench b;
    const Claim claim{.worker = "w1", .queues = {"q"}, .kinds = {}, .max = 10};
    const auto results = b.apply({claim, Enqueue{.jobs = {b.job(), b.job()}}, claim, claim});
    CHECK(std::get<ClaimResult>(results[0]).jobs.empty());
    CHECK(std::get<ClaimResult>(results[2]).jobs.size() == 2);
    CHECK(std::get<ClaimResult>(results[3]).jobs.empty());
  }

  TEST_CASE("a job with a future run_at is scheduled and becomes available at run_at, not before") {
    Bench b;
    NewJob n = b.job();
    n.run_at = b.wall() + seconds(10);
    const auto result = b.one<EnqueueResult>(Enqueue{.jobs = {n}});
    CHECK(result.jobs[0].state == JobState::scheduled);
    CHECK_FALSE(b.became_available("q"));
    CHECK(b.store->agenda().next_due == *n.run_at);
    b.advance(seconds(10) - Duration(1));
    CHECK(b.move_due() == 0);
    CHECK(b.claim().empty());
    b.advance(Duration(1));
    CHECK(b.move_due() == 1);
    CHECK(b.became_available("q"));
    CHECK(b.store->agenda().next_due == WallTime::never());
    CHECK(b.claim_one().run_at == *n.run_at);
  }

  TEST_CASE("a delay counts from now; a run_at that has passed is available at once") {
    Bench b;
    NewJob delayed = b.job();
    delayed.delay = minutes(2);
    const JobId id = b.enqueue(delayed);
    CHECK(b.state(id) == JobState::scheduled);
    CHECK(b.get(id).run_at == b.wall() + minutes(2));
    NewJob past = b.job();
    past.run_at = b.wall() - hours(1);
    const JobId due = b.enqueue(past);
    CHECK(b.state(due) == JobState::available);
    CHECK(ids(b.claim(5)) == std::vector<JobId>{due});
  }

  TEST_CASE("an idempotency key with the same body answers with the same jobs and adds none") {
    Bench b;
    Enqueue e{.jobs = {b.job(), b.job()}, .idempotency_key = "k", .fingerprint = "f"};
    const auto first = b.one<EnqueueResult>(e);
    CHECK_FALSE(first.replayed);
    const auto again = b.one<EnqueueResult>(e);
    CHECK(again.replayed);
    REQUIRE(again.jobs.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(again.jobs[i].id == first.jobs[i].id);
      CHECK(again.jobs[i].duplicate);
      CHECK(again.jobs[i].state == JobState::available);
    }
    CHECK(b.stats().enqueued == 2);
    const ClaimedJob running = b.claim_one();
    CHECK(b.one<EnqueueResult>(e).jobs[0].state == JobState::running);
    b.finish(running, Complete{});
    CHECK(b.one<EnqueueResult>(e).jobs[0].state == JobState::completed);
    CHECK(b.stats().enqueued == 2);
  }

  TEST_CASE("an idempotency key with another body is a conflict and changes nothing") {
    Bench b;
    b.one<EnqueueResult>(Enqueue{.jobs = {b.job()}, .idempotency_key = "k", .fingerprint = "f"});
    CHECK(b.refused(Enqueue{
              .jobs = {b.job(), b.job()}, .idempotency_key = "k", .fingerprint = "other"}) ==
          ErrorCode::conflict);
    CHECK(b.stats().enqueued == 1);
  }

  TEST_CASE("the same key twice in one batch is one enqueue") {
    Bench b;
    const Enqueue e{.jobs = {b.job()}, .idempotency_key = "k", .fingerprint = "f"};
    const auto results = b.apply({e, e});
    const auto first = std::get<EnqueueResult>(results[0]);
    const auto second = std::get<EnqueueResult>(results[1]);
    CHECK(first.jobs[0].id == second.jobs[0].id);
    CHECK(second.replayed);
    CHECK(b.stats().enqueued == 1);
  }

  TEST_CASE("an idempotency key is remembered over a reopen") {
    Bench b;
    const Enqueue e{.jobs = {b.job()}, .idempotency_key = "k", .fingerprint = "f"};
    const JobId id = b.one<EnqueueResult>(e).jobs[0].id;
    b.reopen();
    const auto again = b.one<EnqueueResult>(e);
    CHECK(again.replayed);
    CHECK(again.jobs[0].id == id);
    CHECK(b.refused(Enqueue{.jobs = {b.job()}, .idempotency_key = "k", .fingerprint = "x"}) ==
          ErrorCode::conflict);
  }

  TEST_CASE("an idempotency key is remembered for its window, prune or not, and then is new") {
    Bench b;
    const Enqueue e{.jobs = {b.job()}, .idempotency_key = "k", .fingerprint = "f"};
    const JobId id = b.one<EnqueueResult>(e).jobs[0].id;
    b.advance(kIdempotencyWindow - seconds(1));
    b.prune();
    CHECK(b.one<EnqueueResult>(e).jobs[0].id == id);
    b.advance(seconds(2));
    SUBCASE("pruned") {
      b.prune();
    }
    SUBCASE("not pruned") {}
    const auto second = b.one<EnqueueResult>(e);
    CHECK_FALSE(second.replayed);
    CHECK(second.jobs[0].id != id);
  }

  TEST_CASE("a refused enqueue does not use up its idempotency key") {
    Bench b(StoreOptions{.max_live_jobs = 1});
    b.enqueue();
    const Enqueue e{.jobs = {b.job()}, .idempotency_key = "k", .fingerprint = "f"};
    CHECK(b.refused(e) == ErrorCode::overloaded);
    b.finish(b.claim_one(), Complete{});
    CHECK_FALSE(b.one<EnqueueResult>(e).replayed);
  }

  TEST_CASE("a job that has not started by expires_in is cancelled with reason expired") {
    Bench b;
    NewJob n = b.job();
    n.expires_in = minutes(1);
    const JobId id = b.enqueue(n);
    CHECK(b.get(id).expires_at == b.wall() + minutes(1));
    CHECK(b.store->agenda().next_expiry == b.wall() + minutes(1));
    b.advance(minutes(1) - Duration(1));
    CHECK(b.expire() == 0);
    b.advance(Duration(1));
    CHECK(b.expire() == 1);
    const Job j = b.get(id);
    CHECK(j.state == JobState::cancelled);
    CHECK(j.reason == "expired");
    CHECK(j.finished_at == b.wall());
    CHECK(b.stats().expired == 1);
    CHECK(b.count(JobState::cancelled) == 0);
    CHECK(b.store->agenda().next_expiry == WallTime::never());
  }

  TEST_CASE("with on_expiry dead an expired job is dead, with follow-ups, and can be retried") {
    Bench b;
    NewJob n = b.job();
    n.expires_in = minutes(1);
    n.on_expiry = OnExpiry::dead;
    n.follow_ups = {{.queue = "after", .kind = "k", .on = FollowUp::kDead}};
    const JobId id = b.enqueue(n);
    b.advance(minutes(1));
    CHECK(b.claim(9).empty());
    CHECK(b.expire() == 1);
    CHECK(b.effects().ended == std::vector<JobId>{id});
    b.reopen();
    const Job j = b.get(id);
    CHECK(j.state == JobState::dead);
    CHECK(j.on_expiry == OnExpiry::dead);
    CHECK(j.reason == "expired");
    CHECK(j.attempt == 0);
    CHECK(j.errors.empty());
    CHECK(b.stats().expired == 0);
    CHECK(b.count(JobState::dead) == 1);
    CHECK(b.listed({.state = JobState::dead}) == std::vector<JobId>{id});
    CHECK(b.claim(9, {"after"}).size() == 1);
    CHECK(b.one<RedriveResult>(Redrive{}).ids == std::vector<JobId>{id});
    CHECK(b.expire() == 0);
    CHECK(b.claim_one().id == id);
  }

  TEST_CASE("a replacement brings its own on_expiry") {
    for (const OnExpiry last : {OnExpiry::cancel, OnExpiry::dead}) {
      Bench b;
      NewJob n = b.job();
      n.expires_in = minutes(1);
      n.unique = Unique{.key = "k", .on_conflict = OnConflict::replace};
      n.on_expiry = last == OnExpiry::dead ? OnExpiry::cancel : OnExpiry::dead;
      const JobId id = b.enqueue(n);
      n.on_expiry = last;
      CHECK(b.enqueue(n) == id);
      CHECK(b.get(id).on_expiry == last);
      b.advance(minutes(1));
      b.expire();
      CHECK(b.state(id) == (last == OnExpiry::dead ? JobState::dead : JobState::cancelled));
      CHECK(b.stats().expired == (last == OnExpiry::dead ? 0 : 1));
    }
  }

  TEST_CASE("an expired job is never handed out, also before ExpireJobs has run") {
    Bench b;
    NewJob n = b.job();
    n.expires_in = seconds(5);
    b.enqueue(n);
    const JobId other = b.enqueue();
    b.advance(seconds(6));
    CHECK(ids(b.claim(10)) == std::vector<JobId>{other});
  }

  TEST_CASE("a scheduled job expires too; one that has started does not") {
    Bench b;
    NewJob later = b.job();
    later.delay = hours(1);
    later.expires_in = minutes(1);
    const JobId id = b.enqueue(later);
    NewJob n = b.job();
    n.expires_in = minutes(1);
    const JobId started = b.enqueue(n);
    const ClaimedJob c = b.claim_one();
    CHECK(c.id == started);
    b.advance(minutes(2));
    CHECK(b.expire() == 1);
    CHECK(b.state(id) == JobState::cancelled);
    CHECK(b.state(started) == JobState::running);
    CHECK(b.finish(c, Complete{}) == FinishStatus::ok);
  }
}

// -- uniqueness -----------------------------------------------------------------------------------

NewJob unique_job(const Bench& b, OnConflict policy, Duration window = Duration(0)) {
  NewJob n = b.job();
  n.unique = Unique{.key = "customer-7", .window = window, .on_conflict = policy};
  return n;
}

EnqueuedJob add(Bench& b, NewJob n) {
  const auto result = b.one<EnqueueResult>(Enqueue{.jobs = {std::move(n)}});
  REQUIRE(result.jobs.size() == 1);
  return result.jobs[0];
}

// Brings a new unique job into `state`.
JobId bring(Bench& b, JobState state, Duration window) {
  NewJob n = unique_job(b, OnConflict::keep, window);
  if (state == JobState::scheduled) n.delay = hours(1);
  const JobId id = add(b, n).id;
  if (state == JobState::scheduled || state == JobState::available) return id;
  if (state == JobState::cancelled) {
    b.cancel(id);
    return id;
  }
  const ClaimedJob c = b.claim_one();
  if (state == JobState::completed) b.finish(c, Complete{});
  if (state == JobState::dead) b.finish(c, Dead{"r", "d"});
  if (state == JobState::retryable) b.finish(c, Retry{"e", hours(1)});
  CHECK(b.state(id) == state);
  return id;
}

constexpr JobState kReachable[] = {JobState::scheduled, JobState::available, JobState::running,
                                   JobState::completed, JobState::retryable, JobState::cancelled,
                                   JobState::dead};
constexpr OnConflict kPolicies[] = {OnConflict::keep, OnConflict::replace, OnConflict::postpone};

TEST_SUITE("store: unique") {
  TEST_CASE("one job per key and queue while the first is not terminal; after it, a new one") {
    for (const JobState state : kReachable) {
      for (const OnConflict policy : kPolicies) {
        CAPTURE(to_string(state));
        CAPTURE(to_string(policy));
        Bench b;
        const JobId first = bring(b, state, Duration(0));
        const EnqueuedJob second = add(b, unique_job(b, policy));
        CHECK(second.duplicate == !is_terminal(state));
        CHECK((second.id == first) == !is_terminal(state));
        CHECK(second.state == b.state(second.id));
        CHECK(b.stats().enqueued == (is_terminal(state) ? 2 : 1));
      }
    }
  }

  TEST_CASE("a unique key with a window is taken in every state until the window is over") {
    for (const JobState state : kReachable) {
      for (const OnConflict policy : kPolicies) {
        CAPTURE(to_string(state));
        CAPTURE(to_string(policy));
        Bench b;
        const JobId first = bring(b, state, hours(2));
        b.advance(minutes(1));
        const Job before = b.get(first);
        const EnqueuedJob second = add(b, unique_job(b, policy));
        CHECK(second.duplicate);
        CHECK(second.id == first);
        if (is_terminal(state)) {
          const Job after = b.get(first);  // an ended job is left as it is
          CHECK(after.state == state);
          CHECK(after.run_at == before.run_at);
          CHECK(after.version == before.version);
          b.advance(hours(2));
          CHECK_FALSE(add(b, unique_job(b, policy)).duplicate);
        }
      }
    }
  }

  TEST_CASE(
      "a unique key without a window is free when its job ends, also with the clock set back") {
    Bench b;
    const JobId first = bring(b, JobState::completed, Duration(0));
    b.clock.step_wall(-hours(3));
    const EnqueuedJob second = add(b, unique_job(b, OnConflict::keep));
    CHECK_FALSE(second.duplicate);
    CHECK(second.id != first);
  }

  TEST_CASE("keep leaves the old job as it is") {
    Bench b;
    const JobId id = add(b, unique_job(b, OnConflict::keep)).id;
    const Job before = b.get(id);
    NewJob n = unique_job(b, OnConflict::keep);
    n.args = "[2]";
    n.priority = 0;
    n.delay = hours(1);
    CHECK(add(b, n).duplicate);
    const Job after = b.get(id);
    CHECK(after.args == before.args);
    CHECK(after.priority == before.priority);
    CHECK(after.run_at == before.run_at);
    CHECK(after.version == before.version);
  }

  TEST_CASE("replace gives the old job the new args, priority, run_at and the rest") {
    for (int i = 0; i < 6; ++i) {
      const JobState state = std::array{JobState::scheduled, JobState::available,
                                        JobState::retryable}[static_cast<std::size_t>(i) % 3];
      const bool later = i < 3;
      CAPTURE(to_string(state));
      CAPTURE(later);
      Bench b;
      const JobId id = bring(b, state, Duration(0));
      const Job before = b.get(id);
      b.advance(seconds(1));
      NewJob n = unique_job(b, OnConflict::replace);
      n.kind = "other";
      n.args = "[2]";
      n.priority = 1;
      n.max_attempts = 3;
      n.timeout = seconds(5);
      n.tags = {"new"};
      n.headers = R"({"a":"b"})";
      n.correlation_id = "c2";
      n.reply_to = "r2";
      if (later) n.run_at = b.wall() + minutes(5);
      CHECK(add(b, n).state == (later ? JobState::scheduled : JobState::available));
      CHECK(b.get(id).run_at == (later ? *n.run_at : b.wall()));
      CHECK(ids(b.claim(9)) == (later ? std::vector<JobId>{} : std::vector<JobId>{id}));
      const Job after = b.get(id);
      CHECK(after.kind == "other");
      CHECK(after.args == "[2]");
      CHECK(after.priority == 1);
      CHECK(after.max_attempts == 3);
      CHECK(after.timeout == seconds(5));
      CHECK(after.tags == n.tags);
      CHECK(after.headers == n.headers);
      CHECK(after.correlation_id == "c2");
      CHECK(after.reply_to == "r2");
      CHECK(after.version > before.version);
      CHECK(b.stats().enqueued == 1);
    }
  }

  TEST_CASE("a replaced job has nothing left of the attempts with its old args") {
    Bench b;
    NewJob old = unique_job(b, OnConflict::keep);
    old.max_attempts = 3;
    const JobId id = add(b, old).id;
    for (int i = 0; i < 2; ++i) {
      const ClaimedJob c = b.claim_one();
      Renewal renewal{.id = id, .token = c.token, .progress = Progress{0.5, "half"}};
      renewal.checkpoint = "[1]";
      renewal.memos = {{"charge", "[2]"}};
      b.one<RenewResult>(Renew{.worker = "w1", .leases = {renewal}});
      b.finish(c, Retry{"e", Duration(0)});
    }
    NewJob n = unique_job(b, OnConflict::replace);
    n.args = "[2]";
    n.max_attempts = 3;
    n.expires_in = minutes(1);
    add(b, n);
    b.reopen();
    const Job replaced = b.get(id);
    CHECK(replaced.attempt == 0);
    CHECK_FALSE(replaced.progress);
    CHECK(replaced.errors.size() == 2);
    const ClaimedJob c = b.claim_one();
    CHECK(c.attempt == 1);
    CHECK(c.max_attempts == 3);
    CHECK(c.checkpoint.empty());
    CHECK_FALSE(c.has_memos);
    CHECK(c.token > replaced.token);
    b.finish(c, Retry{"e", Duration(0)});
    add(b, n);
    b.advance(minutes(1));
    CHECK(b.expire() == 1);  // the new args have not started
    CHECK(b.state(id) == JobState::cancelled);
  }

  TEST_CASE("a postponed job's expiry moves with it") {
    Bench b;
    NewJob n = unique_job(b, OnConflict::postpone);
    n.delay = seconds(4);
    n.expires_in = seconds(7);
    const JobId id = add(b, n).id;
    for (int i = 0; i < 4; ++i) {
      b.advance(seconds(3));
      CHECK(b.expire() == 0);
      // Without its own expiry the request keeps the time between run_at and expiry.
      n.expires_in = i % 2 == 0 ? std::optional<Duration>() : std::optional<Duration>(seconds(7));
      CHECK(add(b, n).state == JobState::scheduled);
      CHECK(b.get(id).expires_at == b.wall() + seconds(7));
    }
    b.reopen();
    b.advance(seconds(4));
    CHECK(b.expire() == 0);
    b.move_due();
    b.advance(seconds(3));
    CHECK(b.expire() == 1);
    CHECK(b.get(id).reason == "expired");
  }

  TEST_CASE("a postponed job takes the expiry that the request asks for") {
    Bench b;
    const JobId id = add(b, unique_job(b, OnConflict::keep)).id;
    NewJob n = unique_job(b, OnConflict::postpone);
    n.expires_in = minutes(1);
    n.on_expiry = OnExpiry::dead;
    add(b, n);
    b.advance(minutes(1));
    CHECK(b.expire() == 1);
    CHECK(b.state(id) == JobState::dead);
  }

  TEST_CASE("postpone gives the old job the new run_at and nothing else") {
    for (const JobState state : {JobState::scheduled, JobState::available, JobState::retryable}) {
      CAPTURE(to_string(state));
      Bench b;
      const JobId id = bring(b, state, Duration(0));
      const Job before = b.get(id);
      NewJob n = unique_job(b, OnConflict::postpone);
      n.args = "[2]";
      n.delay = hours(3);
      CHECK(add(b, n).duplicate);
      const Job after = b.get(id);
      CHECK(after.args == before.args);
      CHECK(after.run_at == b.wall() + hours(3));
      CHECK(after.version > before.version);
      CHECK(b.claim(9).empty());
      b.advance(hours(3));
      CHECK(b.move_due() == 1);
      CHECK(ids(b.claim(9)) == std::vector<JobId>{id});
    }
  }

  TEST_CASE("a running job is not replaced and not postponed") {
    for (const OnConflict policy : {OnConflict::replace, OnConflict::postpone}) {
      Bench b;
      const JobId id = bring(b, JobState::running, Duration(0));
      const Job before = b.get(id);
      NewJob n = unique_job(b, policy);
      n.args = "[2]";
      n.delay = hours(1);
      CHECK(add(b, n).state == JobState::running);
      const Job after = b.get(id);
      CHECK(after.args == before.args);
      CHECK(after.run_at == before.run_at);
      CHECK(after.state == JobState::running);
    }
  }

  TEST_CASE("the same key in another queue is another job") {
    Bench b;
    const JobId first = add(b, unique_job(b, OnConflict::keep)).id;
    NewJob n = unique_job(b, OnConflict::keep);
    n.queue = "other";
    const EnqueuedJob second = add(b, n);
    CHECK_FALSE(second.duplicate);
    CHECK(second.id != first);
  }

  TEST_CASE("the same key twice in one enqueue is one job") {
    Bench b;
    const auto result = b.one<EnqueueResult>(Enqueue{
        .jobs = {unique_job(b, OnConflict::keep), unique_job(b, OnConflict::keep), b.job()}});
    CHECK(result.jobs[0].id == result.jobs[1].id);
    CHECK(result.jobs[1].duplicate);
    CHECK_FALSE(result.jobs[2].duplicate);
    CHECK(b.stats().enqueued == 2);
  }

  TEST_CASE("a unique key is kept over a reopen") {
    Bench b;
    const JobId first = bring(b, JobState::completed, hours(2));
    b.reopen();
    CHECK(add(b, unique_job(b, OnConflict::keep)).id == first);
    CHECK(b.get(first).unique_key == "customer-7");
  }

  TEST_CASE("a window lasts to its end even if its job was pruned long before") {
    for (const JobState end : {JobState::completed, JobState::cancelled, JobState::dead}) {
      for (const OnConflict policy : kPolicies) {
        CAPTURE(to_string(end));
        CAPTURE(to_string(policy));
        Bench b(StoreOptions{.retention_completed = minutes(10), .retention_dead = minutes(20)});
        const WallTime until = b.wall() + hours(24 * 7);
        const JobId first = bring(b, end, hours(24 * 7));
        const auto again = [&] {
          const EnqueuedJob is = add(b, unique_job(b, policy));
          return is.duplicate && is.id == first && is.state == end;
        };
        b.advance(hours(1));
        CHECK(b.prune() == 1);
        CHECK(b.get_refused(first) == ErrorCode::expired);
        CHECK(b.store->agenda().next_prune == until);  // no work until then
        CHECK(again());
        b.reopen();
        CHECK(b.store->agenda().next_prune == until);
        CHECK(again());
        b.advance(until - b.wall() - seconds(1));
        CHECK(b.prune() == 0);
        CHECK(again());
        CHECK(b.stats().enqueued == 1);
      }
    }
  }

  TEST_CASE("after the window of a pruned job its key is free and leaves no rows") {
    for (const bool pruned : {false, true}) {
      CAPTURE(pruned);
      Bench b(StoreOptions{.retention_completed = minutes(10)});
      const JobId first = bring(b, JobState::completed, hours(2));
      b.advance(hours(1));
      CHECK(b.prune() == 1);
      b.advance(hours(1));
      CHECK(b.store->agenda().next_prune == b.wall());
      if (pruned) {
        CHECK(b.prune() == 0);
        CHECK(b.store->agenda().next_prune == WallTime::never());
        b.reopen();
        CHECK(b.store->agenda().next_prune == WallTime::never());
      }
      const EnqueuedJob second = add(b, unique_job(b, OnConflict::keep));
      CHECK_FALSE(second.duplicate);
      CHECK(second.id != first);
      b.prune();
      CHECK(b.store->agenda().next_prune == WallTime::never());
      CHECK(add(b, unique_job(b, OnConflict::keep)).id == second.id);
    }
  }

  TEST_CASE("a window lasts even if the bound of ended jobs prunes its job at once") {
    Bench b(StoreOptions{.max_finished_jobs = 0});
    const JobId first = bring(b, JobState::completed, minutes(1));
    b.prune();
    CHECK(b.get_refused(first) == ErrorCode::expired);
    const EnqueuedJob second = add(b, unique_job(b, OnConflict::replace, hours(1)));
    CHECK(second.id == first);
    CHECK(second.state == JobState::completed);
    b.advance(minutes(1));  // a duplicate has not made the window longer
    CHECK_FALSE(add(b, unique_job(b, OnConflict::keep)).duplicate);
  }

  TEST_CASE("windows that are over are forgotten in bounded steps, the others not") {
    Bench b(StoreOptions{.retention_completed = seconds(1)});
    const auto keyed = [&](int i, Duration window) {
      NewJob n = b.job();
      n.unique = Unique{.key = "k" + std::to_string(i), .window = window};
      return n;
    };
    for (int i = 0; i < 5; ++i) b.completed(keyed(i, minutes(5)));
    b.completed(keyed(5, hours(5)));
    const WallTime last = b.wall() + hours(5);
    b.advance(minutes(1));
    CHECK(b.prune() == 6);
    b.advance(minutes(9));
    for (const bool more : {true, true, false}) {
      const auto step = b.one<StepResult>(PruneJobs{.limit = 2});
      CHECK(step.changed == 0);  // no jobs
      CHECK(step.more == more);
    }
    CHECK(b.store->agenda().next_prune == last);
    CHECK_FALSE(add(b, keyed(0, Duration(0))).duplicate);
    CHECK(add(b, keyed(5, Duration(0))).duplicate);
  }

  TEST_CASE("a retried dead job gets its unique key back if its later owner is gone") {
    Bench b(StoreOptions{.retention_completed = minutes(1)});
    const JobId first = bring(b, JobState::dead, Duration(0));
    const JobId second = bring(b, JobState::completed, hours(2));
    CHECK(second != first);
    b.advance(hours(1));
    CHECK(b.prune() == 1);
    CHECK(add(b, unique_job(b, OnConflict::keep)).id == second);
    CHECK(b.retry(first).state == JobState::available);
    CHECK(add(b, unique_job(b, OnConflict::keep)).id == first);
    b.finish(b.claim_one(), Complete{});
    CHECK(add(b, unique_job(b, OnConflict::keep)).id == first);
    b.advance(hours(1));
    CHECK_FALSE(add(b, unique_job(b, OnConflict::keep)).duplicate);
  }

  TEST_CASE("a dead job cannot be retried while another one has its unique key") {
    Bench b;
    const JobId first = bring(b, JobState::dead, Duration(0));
    const JobId second = add(b, unique_job(b, OnConflict::keep)).id;
    CHECK(second != first);
    CHECK(b.refused(RetryJob{first}) == ErrorCode::conflict);
    CHECK(b.state(first) == JobState::dead);
    b.finish(b.claim_one(), Complete{});
    CHECK(b.retry(first).state == JobState::available);
  }
}

}  // namespace
}  // namespace mainspring::conformance
