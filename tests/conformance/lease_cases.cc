// What claim, renew, rescue and finish promise: order, leases, fencing, attempts, the five
// outcomes.
#include <set>

#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

TEST_SUITE("store: claim") {
  TEST_CASE("a claim gives the lowest priority, run_at, id first over all its queues") {
    Bench b;
    const auto add = [&](const char* queue, int priority, int ago) {
      NewJob n = b.job(queue);
      n.priority = priority;
      n.run_at = b.wall() - seconds(ago);
      return b.enqueue(n);
    };
    const JobId e = add("a", 5, 1);
    const JobId d = add("b", 5, 2);
    const JobId c = add("c", 1, 0);
    const JobId a = add("b", 0, 0);
    const JobId f = add("c", 9, 100);
    const JobId b2 = add("a", 0, 0);
    const JobId g = add("c", 9, 100);
    CHECK(ids(b.claim(100, {"a", "b", "c"})) == std::vector<JobId>{a, b2, c, d, e, f, g});
  }

  TEST_CASE("single claims give the same order as one large claim") {
    Bench b;
    std::vector<JobId> want;
    for (int p = 9; p >= 0; --p) {
      NewJob n = b.job(p % 2 == 0 ? "even" : "odd");
      n.priority = p;
      want.insert(want.begin(), b.enqueue(n));
    }
    std::vector<JobId> got;
    for (int i = 0; i < 10; ++i) got.push_back(b.claim(1, {"odd", "even"}).at(0).id);
    CHECK(got == want);
  }

  TEST_CASE("a claim gives at most max, and only of its queues") {
    Bench b;
    for (int i = 0; i < 5; ++i) b.enqueue();
    b.enqueue(b.job("other"));
    CHECK(b.claim(3).size() == 3);
    CHECK(b.claim(100).size() == 2);
    CHECK(b.claim(100).empty());
    CHECK(b.claim(100, {"unknown"}).empty());
    CHECK(b.claim(100, {"unknown", "other", "other"}).size() == 1);
  }

  TEST_CASE("a claim with kinds gives only those kinds, however many others are before them") {
    Bench b;
    for (int i = 0; i < 50; ++i) b.enqueue();
    NewJob n = b.job();
    n.kind = "rare";
    n.priority = 9;
    const JobId rare = b.enqueue(n);
    const auto got = b.one<ClaimResult>(
        Claim{.worker = "w1", .queues = {"q"}, .kinds = {"none", "rare"}, .max = 10});
    CHECK(ids(got.jobs) == std::vector<JobId>{rare});
    CHECK(b.claim(100).size() == 50);
  }

  TEST_CASE("a claim returns the whole job and stores it as running with its holder") {
    Bench b;
    NewJob n = b.job();
    n.args = "[1]";
    n.priority = 2;
    n.max_attempts = 4;
    n.timeout = minutes(3);
    n.headers = R"({"h":"1"})";
    n.tags = {"t"};
    n.correlation_id = "c";
    n.reply_to = "r";
    const JobId id = b.enqueue(n);
    b.advance(seconds(1));
    const auto got = b.one<ClaimResult>(Claim{
        .worker = "incarnation-1", .queues = {"q"}, .kinds = {}, .max = 1, .lease = seconds(20)});
    REQUIRE(got.jobs.size() == 1);
    const ClaimedJob c = got.jobs[0];
    CHECK(c.id == id);
    CHECK(c.token > 0);
    CHECK(c.attempt == 1);
    CHECK(c.max_attempts == 4);
    CHECK(c.queue == "q");
    CHECK(c.kind == "work");
    CHECK(c.args == "[1]");
    CHECK(c.priority == 2);
    CHECK(c.timeout == minutes(3));
    CHECK(c.lease == seconds(20));
    CHECK(c.checkpoint.empty());
    CHECK(c.headers == n.headers);
    CHECK(c.tags == n.tags);
    CHECK(c.correlation_id == "c");
    CHECK(c.reply_to == "r");
    const Job j = b.get(id);
    CHECK(j.state == JobState::running);
    CHECK(j.worker == "incarnation-1");
    CHECK(j.token == c.token);
    CHECK(j.attempt == 1);
    CHECK(j.started_at == b.wall());
    CHECK(b.store->agenda().next_lease_expiry == b.clock.now().instant + seconds(20));
  }

  TEST_CASE("tokens grow with every claim and never repeat, also after a reopen") {
    Bench b;
    Token last = 0;
    JobId last_id = 0;
    for (int round = 0; round < 4; ++round) {
      const JobId id = b.enqueue();
      CHECK(id > last_id);
      last_id = id;
      for (int i = 0; i < 3; ++i) {
        const ClaimedJob c = b.claim_one();
        CHECK(c.token > last);
        last = c.token;
        CHECK(b.finish(c, Snooze{}) == FinishStatus::ok);
      }
      const ClaimedJob c = b.claim_one();
      CHECK(c.token > last);
      last = c.token;
      b.finish(c, Complete{});
      b.advance(hours(25));
      b.prune();  // no row is left with the highest id or token
      CHECK(b.listed({}).empty());
      b.reopen();
    }
  }

  TEST_CASE("has_available is true exactly when a claim would find a job") {
    Bench b;
    CHECK_FALSE(b.store->has_available("q"));
    NewJob later = b.job();
    later.delay = seconds(5);
    b.enqueue(later);
    CHECK_FALSE(b.store->has_available("q"));
    b.enqueue();
    CHECK(b.store->has_available("q"));
    b.one<Done>(PauseQueue{.queue = "q", .paused = true});
    CHECK_FALSE(b.store->has_available("q"));
    b.one<Done>(PauseQueue{.queue = "q", .paused = false});
    CHECK(b.store->has_available("q"));
    b.claim_one();
    CHECK_FALSE(b.store->has_available("q"));
    b.advance(seconds(5));
    b.move_due();
    CHECK(b.store->has_available("q"));
  }

  TEST_CASE("the effects of a batch name the queues that may now give a job") {
    Bench b;
    b.enqueue(b.job("a"));
    CHECK(b.became_available("a"));
    CHECK_FALSE(b.became_available("q"));
    const ClaimedJob c = b.claim(1, {"a"}).at(0);
    CHECK_FALSE(b.became_available("a"));
    b.finish(c, Snooze{});
    CHECK(b.became_available("a"));
    const ClaimedJob again = b.claim(1, {"a"}).at(0);
    b.finish(again, Dead{"r", "d"});
    CHECK_FALSE(b.became_available("a"));
    b.retry(again.id);
    CHECK(b.became_available("a"));
    b.one<Done>(PauseQueue{.queue = "a", .paused = true});
    CHECK_FALSE(b.became_available("a"));
    b.one<Done>(PauseQueue{.queue = "a", .paused = false});
    CHECK(b.became_available("a"));
  }
}

TEST_SUITE("store: leases") {
  TEST_CASE("a crashed worker's job is rescued when its lease is over, and burns an attempt") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob c = b.claim_one();
    b.advance(seconds(1));
    b.renew(c);
    b.advance(kDefaultLease - Duration(1));
    CHECK(b.rescue() == 0);
    b.advance(Duration(1));
    CHECK(b.rescue() == 1);
    const Job j = b.get(id);
    CHECK(j.state == JobState::retryable);
    CHECK(j.attempt == 1);
    CHECK(j.worker.empty());
    CHECK(j.run_at == b.wall() + default_back_off(id, 1));
    REQUIRE(j.errors.size() == 1);
    CHECK(j.errors[0].attempt == 1);
    CHECK(j.errors[0].worker == "w1");
    CHECK(j.errors[0].at == b.wall());
    CHECK(j.errors[0].ran_for == kDefaultLease + seconds(1));
    CHECK_FALSE(j.errors[0].message.empty());
    CHECK(b.store->agenda().next_due == j.run_at);
    CHECK(b.store->agenda().next_lease_expiry == Instant::never());
    CHECK(b.finish(c, Complete{}) == FinishStatus::stale);
    b.advance(default_back_off(id, 1) - Duration(1));
    CHECK(b.move_due() == 0);
    b.advance(Duration(1));
    CHECK(b.move_due() == 1);
    CHECK(b.claim_one().attempt == 2);
  }

  TEST_CASE("crashes exhaust the attempts: the job is dead, once, with every error") {
    Bench b;
    NewJob n = b.job();
    n.max_attempts = 3;
    n.args = "[42]";
    const JobId id = b.enqueue(n);
    for (int attempt = 1; attempt <= 3; ++attempt) {
      CHECK(b.claim_one().attempt == attempt);
      b.advance(kDefaultLease);
      CHECK(b.rescue() == 1);
      b.advance(hours(7));
      CHECK(b.move_due() + b.one<StepResult>(OpenQueues{}).changed == (attempt < 3 ? 1 : 0));
    }
    const Job j = b.get(id);
    CHECK(j.state == JobState::dead);
    CHECK(j.reason == "max_attempts");
    CHECK(j.args == "[42]");
    CHECK(j.finished_at.has_value());
    REQUIRE(j.errors.size() == 3);
    for (int i = 0; i < 3; ++i) CHECK(j.errors[static_cast<std::size_t>(i)].attempt == i + 1);
    CHECK(b.count(JobState::dead) == 1);
    CHECK(b.claim(9).empty());
  }

  TEST_CASE("rescue works in bounded steps, oldest lease first") {
    Bench b;
    for (int i = 0; i < 5; ++i) {
      b.enqueue();
      b.claim_one();
      b.advance(seconds(1));
    }
    b.advance(kDefaultLease);
    const auto step = b.one<StepResult>(RescueExpired{.limit = 3});
    CHECK(step.changed == 3);
    CHECK(step.more);
    CHECK(b.state(1) == JobState::retryable);
    CHECK(b.state(3) == JobState::retryable);
    CHECK(b.state(4) == JobState::running);
    CHECK(b.one<StepResult>(RescueExpired{.limit = 3}).changed == 2);
  }

  TEST_CASE("setting the wall clock does not end a lease") {
    Bench b;
    b.enqueue();
    const ClaimedJob c = b.claim_one();
    b.clock.step_wall(hours(5));
    CHECK(b.rescue() == 0);
    CHECK(b.finish(c, Complete{}) == FinishStatus::ok);
  }

  TEST_CASE("a renewal extends the lease from now; no rescue before its new end") {
    Bench b;
    b.enqueue();
    const ClaimedJob c = b.claim_one();
    for (int i = 0; i < 5; ++i) {
      b.advance(seconds(20));
      const RenewResult r = b.renew(c);
      REQUIRE(r.renewed.size() == 1);
      CHECK(r.renewed[0].id == c.id);
      CHECK(r.renewed[0].lease == kDefaultLease);
      CHECK(r.lost.empty());
      CHECK(r.cancel.empty());
      CHECK(b.rescue() == 0);
      CHECK(b.store->agenda().next_lease_expiry == b.clock.now().instant + kDefaultLease);
    }
    b.advance(kDefaultLease - Duration(1));
    CHECK(b.rescue() == 0);
    b.advance(Duration(1));
    CHECK(b.rescue() == 1);
  }

  TEST_CASE("a renewal never extends beyond the job's time limit plus the grace") {
    Bench b;
    NewJob n = b.job();
    n.timeout = seconds(10);
    b.enqueue(n);
    const ClaimedJob c = b.claim_one();
    b.advance(seconds(20));
    CHECK(b.renew(c).renewed.at(0).lease == kTimeoutGrace - seconds(10));
    b.advance(kTimeoutGrace - seconds(10));
    CHECK(b.rescue() == 1);
    CHECK(b.renew(c).lost == std::vector<JobId>{c.id});
  }

  TEST_CASE("the last warning about ignored remarks is kept with the job, also when it ends") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob c = b.claim_one();
    const auto report = [&](std::string text) {
      Renew r{.worker = "w", .leases = {{.id = c.id, .token = c.token}}, .lease = kDefaultLease};
      r.leases[0].warning = IgnoredRemarks{.text = std::move(text)};
      CHECK(b.one<RenewResult>(std::move(r)).renewed.size() == 1);
    };
    CHECK(b.get(id).warning == "");
    report("first");
    CHECK(b.get(id).warning == "first");
    report("first (and 2 more)");
    b.renew(c, Progress{0.5, "half"});
    CHECK(b.get(id).warning == "first (and 2 more)");
    CHECK(b.finish(c, Complete{"1"}) == FinishStatus::ok);
    CHECK(b.get(id).warning == "first (and 2 more)");
    CHECK(b.get(id).result == "1");
  }

  TEST_CASE("progress and checkpoint are kept, and the checkpoint goes to the next attempt") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob c = b.claim_one();
    b.renew(c, Progress{0.25, "a quarter"}, R"({"row":100})");
    CHECK(b.get(id).progress == Progress{0.25, "a quarter"});
    CHECK(b.get(id).checkpoint == R"({"row":100})");
    b.renew(c, Progress{0.5, "half"});
    CHECK(b.get(id).progress == Progress{0.5, "half"});
    CHECK(b.get(id).checkpoint == R"({"row":100})");
    b.renew(c, std::nullopt, R"({"row":200})");
    CHECK(b.get(id).checkpoint == R"({"row":200})");
    SUBCASE("after a crash") {
      b.advance(kDefaultLease);
      b.rescue();
      b.advance(hours(1));
      b.move_due();
    }
    SUBCASE("after a snooze") {
      b.finish(c, Snooze{});
    }
    SUBCASE("after a retry and a reopen") {
      b.finish(c, Retry{"e", seconds(1)});
      b.reopen();
      b.advance(seconds(1));
      b.move_due();
    }
    SUBCASE("after a restart of the store in the middle, and a crash") {
      b.reopen();
      b.advance(kDefaultLease);
      b.rescue();
      b.advance(hours(1));
      b.move_due();
    }
    CHECK(b.claim_one().checkpoint == R"({"row":200})");
  }

  TEST_CASE("a renewal with a stale token is lost and changes nothing") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob old = b.claim_one();
    b.finish(old, Snooze{});
    const ClaimedJob now = b.claim_one();
    const Job before = b.get(id);
    const RenewResult r = b.renew(old, Progress{0.9, "zombie"}, "[6]");
    CHECK(r.lost == std::vector<JobId>{id});
    CHECK(r.renewed.empty());
    CHECK(b.get(id).version == before.version);
    CHECK_FALSE(b.get(id).progress.has_value());
    CHECK(b.get(id).checkpoint.empty());
    CHECK(b.renew({.id = 12345, .token = 1}).lost == std::vector<JobId>{12345});
    CHECK(b.renew({.id = id, .token = now.token + 1}).lost == std::vector<JobId>{id});
    b.finish(now, Complete{});
    CHECK(b.renew(now).lost == std::vector<JobId>{id});
  }

  TEST_CASE("a stale renewal does not extend the new holder's lease") {
    Bench b;
    b.enqueue();
    const ClaimedJob old = b.claim_one();
    b.finish(old, Snooze{});
    b.claim_one();
    b.advance(kDefaultLease - seconds(1));
    b.renew(old);
    b.advance(seconds(1));
    CHECK(b.rescue() == 1);
  }

  TEST_CASE("a batch of renewals has an answer for each") {
    Bench b;
    for (int i = 0; i < 3; ++i) b.enqueue();
    const auto jobs = b.claim(3);
    b.cancel(jobs[1].id);
    b.finish(jobs[2], Complete{});
    Renew r{.worker = "w1", .leases = {}};
    for (const ClaimedJob& c : jobs) r.leases.push_back({c.id, c.token, {}, {}});
    const auto answer = b.one<RenewResult>(r);
    REQUIRE(answer.renewed.size() == 2);
    CHECK(answer.renewed[0].id == jobs[0].id);
    CHECK(answer.renewed[1].id == jobs[1].id);
    CHECK(answer.lost == std::vector<JobId>{jobs[2].id});
    CHECK(answer.cancel == std::vector<JobId>{jobs[1].id});
  }

  TEST_CASE("a renewal without a length renews for as long as was claimed") {
    Bench b;
    b.enqueue();
    const auto jobs = b.one<ClaimResult>(
        Claim{.worker = "w1", .queues = {"q"}, .kinds = {}, .max = 1, .lease = seconds(5)});
    const ClaimedJob& c = jobs.jobs.at(0);
    b.advance(seconds(3));
    Renew r{.worker = "w1", .leases = {{c.id, c.token, {}, {}}}, .lease = Duration(0)};
    CHECK(b.one<RenewResult>(r).renewed.at(0).lease == seconds(5));
    b.advance(seconds(5));
    CHECK(b.rescue() == 1);
  }

  TEST_CASE("a reopen restarts every lease") {
    Bench b;
    b.enqueue();
    const ClaimedJob c = b.claim_one();
    b.advance(kDefaultLease * 4);  // the machine was off
    b.reopen();
    CHECK(b.rescue() == 0);
    CHECK(b.renew(c).renewed.size() == 1);
    b.advance(kDefaultLease - Duration(1));
    CHECK(b.rescue() == 0);
    b.advance(Duration(1));
    CHECK(b.rescue() == 1);
  }

  TEST_CASE("a reopen restarts a lease with the longest length it was renewed for") {
    Bench b;
    b.enqueue();
    const auto jobs = b.one<ClaimResult>(
        Claim{.worker = "w1", .queues = {"q"}, .kinds = {}, .max = 1, .lease = seconds(3)});
    CHECK(b.renew(jobs.jobs.at(0)).renewed.at(0).lease == kDefaultLease);
    b.reopen();
    b.advance(kDefaultLease - Duration(1));
    CHECK(b.rescue() == 0);
    b.advance(Duration(1));
    CHECK(b.rescue() == 1);
  }

  TEST_CASE("a renewal after the lease's end is lost, whether or not the job was rescued yet") {
    Bench b;
    b.enqueue();
    const ClaimedJob c = b.claim_one();
    b.advance(kDefaultLease);
    CHECK(b.renew(c, Progress{0.5, ""}).lost == std::vector<JobId>{c.id});
    CHECK_FALSE(b.get(c.id).progress.has_value());
    CHECK(b.rescue() == 1);
  }

  TEST_CASE("only the token of the last claim of a job is valid") {
    Bench b;
    const JobId id = b.enqueue();
    std::set<Token> tokens;
    for (int i = 0; i < 10; ++i) {
      const ClaimedJob c = b.claim_one();
      CHECK(c.id == id);
      CHECK(tokens.insert(c.token).second);
      for (const Token old : tokens) {
        if (old != c.token) {
          CHECK(b.finish(id, old, Complete{}) == FinishStatus::stale);
        }
      }
      CHECK(b.finish(c, Snooze{}) == FinishStatus::ok);
      CHECK(b.finish(c, Complete{}) == FinishStatus::stale);
    }
  }
}

TEST_SUITE("store: finish") {
  TEST_CASE("complete keeps the result and ends the job") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob c = b.claim_one();
    b.advance(seconds(3));
    CHECK(b.finish(c, Complete{R"({"size": 12})"}) == FinishStatus::ok);
    Job j = b.get(id);
    CHECK(j.state == JobState::completed);
    CHECK(j.result == R"({"size": 12})");
    CHECK(j.finished_at == b.wall());
    CHECK(j.worker.empty());
    CHECK(b.count(JobState::completed) == 1);
    CHECK(b.count(JobState::running) == 0);
    b.reopen();
    CHECK(b.get(id).result == R"({"size": 12})");
    CHECK(b.get(id).state == JobState::completed);
  }

  TEST_CASE("retry keeps the error and waits as long as asked") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob c = b.claim_one();
    b.advance(seconds(2));
    CHECK(b.finish(c, Retry{"disk on fire", seconds(77)}) == FinishStatus::ok);
    const Job j = b.get(id);
    CHECK(j.state == JobState::retryable);
    CHECK(j.run_at == b.wall() + seconds(77));
    CHECK(j.attempt == 1);
    REQUIRE(j.errors.size() == 1);
    CHECK(j.errors[0].message == "disk on fire");
    CHECK(j.errors[0].worker == "w1");
    CHECK(j.errors[0].ran_for == seconds(2));
    CHECK(j.errors[0].at == b.wall());
    b.advance(seconds(77) - Duration(1));
    CHECK(b.move_due() == 0);
    b.advance(Duration(1));
    CHECK(b.move_due() == 1);
    CHECK(b.claim_one().attempt == 2);
  }

  TEST_CASE("how a program ended is kept with the error of its attempt, and with no other") {
    Bench b;
    NewJob n = b.job();
    n.max_attempts = 3;
    const JobId id = b.enqueue(n);
    const ProgramEnd killed{.signal = 9, .oom = true, .peak_memory = std::int64_t{50} << 20};
    b.finish(b.claim_one(), Retry{.error = "e", .after = seconds(0), .program = killed});
    b.finish(b.claim_one(), Snooze{});
    b.finish(b.claim_one(), Retry{"nothing is known", seconds(0)});
    const ProgramEnd last{.exit_code = 65, .peak_memory = kMaxPeakMemoryBytes};
    b.finish(b.claim_one(), Dead{"poison", "cannot be read", last});
    const JobId lost = b.enqueue();
    b.claim_one();
    b.advance(kDefaultLease);
    CHECK(b.rescue() == 1);
    for (const bool again : {false, true}) {
      if (again) b.reopen();
      const Job j = b.get(id);
      REQUIRE(j.errors.size() == 3);
      CHECK(j.errors[0].program == killed);
      CHECK(j.errors[1].program.empty());
      CHECK(j.errors[2].message == "cannot be read");
      CHECK(j.errors[2].program == last);
      REQUIRE(b.get(lost).errors.size() == 1);
      CHECK(b.get(lost).errors[0].program.empty());
    }
  }

  TEST_CASE("retry without a time waits for the default back-off of its attempt") {
    Bench b;
    const JobId id = b.enqueue();
    for (int attempt = 1; attempt <= 5; ++attempt) {
      b.finish(b.claim_one(), Retry{"e", {}});
      CHECK(b.get(id).run_at == b.wall() + default_back_off(id, attempt));
      b.advance(default_back_off(id, attempt));
      CHECK(b.move_due() == 1);
    }
  }

  TEST_CASE("the last attempt's retry goes to the dead letter with every error kept") {
    Bench b;
    NewJob n = b.job();
    n.max_attempts = 2;
    const JobId id = b.enqueue(n);
    b.finish(b.claim_one(), Retry{"first", seconds(1)});
    b.advance(seconds(1));
    b.move_due();
    b.finish(b.claim_one(), Retry{"second", seconds(1)});
    const Job j = b.get(id);
    CHECK(j.state == JobState::dead);
    CHECK(j.reason == "max_attempts");
    REQUIRE(j.errors.size() == 2);
    CHECK(j.errors[0].message == "first");
    CHECK(j.errors[1].message == "second");
    CHECK(j.finished_at == b.wall());
    b.reopen();
    CHECK(b.get(id).errors.size() == 2);
  }

  TEST_CASE("snooze is not a failure: the attempt is refunded") {
    Bench b;
    NewJob n = b.job();
    n.max_attempts = 1;
    const JobId id = b.enqueue(n);
    for (int i = 0; i < 5; ++i) {
      const ClaimedJob c = b.claim_one();
      CHECK(c.attempt == 1);
      CHECK(b.finish(c, Snooze{seconds(10)}) == FinishStatus::ok);
      CHECK(b.get(id).attempt == 0);
      CHECK(b.get(id).errors.empty());
      CHECK(b.state(id) == JobState::scheduled);
      CHECK(b.get(id).run_at == b.wall() + seconds(10));
      CHECK(b.claim(1).empty());
      b.advance(seconds(10));
      CHECK(b.move_due() == 1);
    }
  }

  TEST_CASE("a snooze of zero makes the job available at once") {
    Bench b;
    const JobId id = b.enqueue();
    b.finish(b.claim_one(), Snooze{});
    CHECK(b.state(id) == JobState::available);
    CHECK(b.became_available("q"));
    CHECK(b.claim_one().id == id);
  }

  TEST_CASE("cancel by the handler ends the job with its reason") {
    Bench b;
    const JobId id = b.enqueue();
    b.finish(b.claim_one(), CancelJob{"obsolete"});
    CHECK(b.state(id) == JobState::cancelled);
    CHECK(b.get(id).reason == "obsolete");
    CHECK(b.stats().expired == 0);
  }

  TEST_CASE("a handler's cancel with the reason \"expired\" counts once in the counters' sum") {
    Bench b;
    b.enqueue();
    b.finish(b.claim_one(), CancelJob{"expired"});
    CHECK(b.stats().expired + b.count(JobState::cancelled) == 1);
  }

  TEST_CASE("dead by the handler goes to the dead letter with reason and description") {
    Bench b;
    const JobId id = b.enqueue();
    b.finish(b.claim_one(), Dead{"bad_input", "the file is not a photograph"});
    const Job j = b.get(id);
    CHECK(j.state == JobState::dead);
    CHECK(j.reason == "bad_input");
    CHECK(j.description == "the file is not a photograph");
    CHECK(j.finished_at == b.wall());
    CHECK(b.count(JobState::dead) == 1);
  }

  TEST_CASE("a stale token is refused with every outcome and changes nothing") {
    const std::vector<Outcome> outcomes = {Complete{"[1]"}, Retry{"e", {}}, Snooze{},
                                           CancelJob{"r"}, Dead{"r", "d"}};
    for (const Outcome& outcome : outcomes) {
      Bench b;
      const JobId id = b.enqueue();
      const ClaimedJob old = b.claim_one();
      b.advance(kDefaultLease);
      b.rescue();
      CHECK(b.finish(old, outcome) == FinishStatus::stale);
      b.advance(hours(1));
      b.move_due();
      CHECK(b.finish(old, outcome) == FinishStatus::stale);
      const ClaimedJob now = b.claim_one();
      const Job before = b.get(id);
      CHECK(b.finish(old, outcome) == FinishStatus::stale);
      CHECK(b.finish(id, now.token + 1, outcome) == FinishStatus::stale);
      CHECK(b.get(id).version == before.version);
      CHECK(b.finish(now, outcome) == FinishStatus::ok);
      const Job ended = b.get(id);
      const bool complete = std::holds_alternative<Complete>(outcome);
      CHECK(b.finish(now, outcome) == (complete ? FinishStatus::ok : FinishStatus::stale));
      CHECK(b.finish(id, now.token, CancelJob{"late"}) == FinishStatus::stale);
      CHECK(b.finish(old, outcome) == FinishStatus::stale);
      CHECK(b.get(id).version == ended.version);
    }
  }

  TEST_CASE("finishing an unknown job is not_found, and the others are answered in order") {
    Bench b;
    b.enqueue();
    b.enqueue();
    const auto jobs = b.claim(2);
    Finish f{.worker = "w1", .results = {}};
    f.results.push_back({777, 1, Complete{}});
    f.results.push_back({jobs[1].id, jobs[1].token, Complete{}});
    f.results.push_back({jobs[1].id, jobs[1].token, Retry{"e", {}}});
    f.results.push_back({jobs[0].id, jobs[0].token, Dead{"r", "d"}});
    const auto r = b.one<FinishResult>(f);
    CHECK(r.results == std::vector<FinishStatus>{FinishStatus::not_found, FinishStatus::ok,
                                                 FinishStatus::stale, FinishStatus::ok});
  }

  TEST_CASE("finishing a job that has been pruned is not_found") {
    Bench b;
    b.enqueue();
    const ClaimedJob c = b.claim_one();
    b.finish(c, Complete{});
    b.advance(hours(25));
    b.prune();
    CHECK(b.finish(c, Complete{}) == FinishStatus::not_found);
  }

  TEST_CASE("a late finish counts as long as the job was not rescued") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob c = b.claim_one();
    b.advance(kDefaultLease * 3);
    CHECK(b.finish(c, Complete{}) == FinishStatus::ok);
    CHECK(b.rescue() == 0);
    CHECK(b.state(id) == JobState::completed);
  }

  TEST_CASE("the version of a job grows with every change") {
    Bench b;
    const JobId id = b.enqueue();
    std::int64_t last = b.get(id).version;
    CHECK(last >= 1);
    const auto grew = [&] {
      const std::int64_t now = b.get(id).version;
      CHECK(now > last);
      last = now;
    };
    const ClaimedJob c = b.claim_one();
    grew();
    b.renew(c, Progress{0.1, ""});
    grew();
    b.cancel(id);
    grew();
    b.finish(c, Dead{"r", "d"});
    grew();
    b.retry(id);
    grew();
    b.cancel(id);
    grew();
  }
}

}  // namespace
}  // namespace mainspring::conformance
