// The worker keeps its guarantees to handlers and to the server, whatever either does.
#include "worker/worker.h"

#include <doctest/doctest.h>

#include <atomic>
#include <latch>
#include <semaphore>
#include <stdexcept>

#include "worker/worker_rig.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

// Blocks until the context receives a stop; returns the reason.
StopReason wait_for_stop(const Context& context) {
  std::binary_semaphore told(0);
  std::stop_callback wake(context.stop_token(), [&] { told.release(); });
  told.acquire();
  return context.stop_reason();
}

}  // namespace

TEST_CASE("an exception of a handler is logged, with its job") {
  WorkerRig rig;
  rig.start([](const ClaimedJob& job, Context&) -> HandlerResult {
    if (job.args == "1") throw std::runtime_error("no disk");
    throw 8;
  });
  for (const char* n : {"1", "2"}) rig.jobs.add("k", n);
  REQUIRE(rig.jobs.await_outcomes(2));
  const std::string log = rig.log.text();
  for (const char* part : {"a handler threw an exception; the attempt failed job=1 queue=q kind=k "
                           "attempt=1 exception=no disk",
                           "job=2 queue=q kind=k attempt=1 exception=the handler threw an unknown"})
    CHECK_MESSAGE(log.find(part) != std::string::npos, log);
}

TEST_CASE("each outcome of a handler reaches the server unchanged") {
  WorkerRig rig;
  rig.start([](const ClaimedJob& job, Context&) -> HandlerResult {
    if (job.args == "1") return done("{\"n\":1}");
    if (job.args == "2") return Outcome(Retry{"later", 5s});
    if (job.args == "3") return Outcome(Snooze{1h});
    if (job.args == "4") return Outcome(CancelJob{"no need"});
    if (job.args == "5") return Outcome(Dead{"bad", "very bad"});
    if (job.args == "6") return Error{.message = "an error"};
    if (job.args == "7") throw std::runtime_error("thrown");
    if (job.args == "9") return Outcome(Defer{"no answer yet"});
    throw 8;
  });
  for (const char* n : {"1", "2", "3", "4", "5", "6", "7", "8", "9"}) rig.jobs.add("k", n);
  REQUIRE(rig.jobs.await_outcomes(9));
  CHECK(rig.jobs.outcome<Complete>(1).result == "{\"n\":1}");
  CHECK(rig.jobs.outcome<Retry>(2).error == "later");
  CHECK(rig.jobs.outcome<Retry>(2).after == Duration(5s));
  CHECK(rig.jobs.outcome<Snooze>(3).after == Duration(1h));
  CHECK(rig.jobs.outcome<CancelJob>(4).reason == "no need");
  CHECK(rig.jobs.outcome<Dead>(5).description == "very bad");
  CHECK(rig.jobs.outcome<Retry>(6).error == "an error");
  CHECK(rig.jobs.outcome<Retry>(6).after == std::nullopt);
  CHECK(rig.jobs.outcome<Retry>(7).error == "thrown");
  CHECK(rig.jobs.outcome<Retry>(8).error.find("unknown exception") != std::string::npos);
  CHECK(rig.jobs.outcome<Defer>(9).reason == "no answer yet");
  rig.worker->stop();
  const WorkerStats stats = rig.worker->stats();
  CHECK(stats.claimed == 9);
  CHECK(stats.completed == 1);
  CHECK(stats.failed == 4);
  CHECK(stats.snoozed == 1);
  CHECK(stats.deferred == 1);
  CHECK(stats.cancelled == 1);
  CHECK(stats.dead == 1);
}

TEST_CASE("the state of a session goes with an outcome, and not with a failed attempt") {
  WorkerRig rig;
  std::atomic<int> refused = 0;
  rig.start([&](const ClaimedJob& job, Context& context) -> HandlerResult {
    if (!context.set_session_state("{").has_value()) ++refused;
    const auto large = context.set_session_state("\"" + std::string(256 << 10, 'x') + "\"");
    if (!large && large.error().code == ErrorCode::too_large) ++refused;
    CHECK(context.session_state() == "1");
    CHECK(context.set_session_state("2").has_value());
    CHECK(context.set_session_state(job.args == "3" ? "" : "7").has_value());
    if (job.args == "4") return Error{.message = "an error"};
    if (job.args == "5") return Outcome(Retry{"later", 5s});
    if (job.args == "2") return Outcome(Dead{"bad", ""});
    return done();
  });
  for (const char* n : {"1", "2", "3", "4", "5"}) {
    rig.jobs.add("k", n, [](ClaimedJob& job) {
      job.session = "s";
      job.session_state = "1";
    });
  }
  REQUIRE(rig.jobs.await_outcomes(5));
  rig.worker->stop();
  CHECK(refused == 10);
  std::map<JobId, std::optional<std::string>> states;
  for (const Finish& finish : rig.jobs.finishes) {
    for (const JobOutcome& one : finish.results) states[one.id] = one.session_state;
  }
  CHECK(states[1] == "7");
  CHECK(states[2] == "7");
  CHECK(states[3] == "");
  CHECK(states[4] == std::nullopt);
  CHECK(states[5] == std::nullopt);
}

TEST_CASE("a job without a session has no state to set") {
  WorkerRig rig;
  rig.start([](const ClaimedJob&, Context& context) -> HandlerResult {
    const auto set = context.set_session_state("1");
    return done(!set && set.error().code == ErrorCode::conflict ? "1" : "0");
  });
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(1));
  CHECK(rig.jobs.outcome<Complete>(1).result == "1");
}

TEST_CASE("results that no server accepts are dead letters with the reason") {
  WorkerRig rig;
  rig.start([](const ClaimedJob& job, Context&) {
    return done(job.args == "1" ? "{not json" : "\"" + std::string(kMaxResultBytes, 'x') + "\"");
  });
  rig.jobs.add("k", "1");
  rig.jobs.add("k", "2");
  REQUIRE(rig.jobs.await_outcomes(2));
  CHECK(rig.jobs.outcome<Dead>(1).reason == "bad_result");
  CHECK(rig.jobs.outcome<Dead>(2).reason == "result_too_large");
}

TEST_CASE("claims ask for as many jobs as there are idle slots, and for none when there are none") {
  WorkerRig rig;
  std::counting_semaphore<> go(0);
  std::atomic<int> at_once = 0, most = 0;
  rig.start([&](const ClaimedJob&, Context&) {
    most = std::max(most.load(), ++at_once);
    go.acquire();
    --at_once;
    return done();
  });
  REQUIRE(rig.jobs.await([&] { return rig.jobs.parked == 1; }));
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.claims.back().max; }) == 4);
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.claims.back().worker; }) ==
        rig.worker->incarnation());
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await([&] { return rig.jobs.parked == 1 && rig.jobs.claims.back().max == 3; }));
  for (int i = 0; i < 5; ++i) rig.jobs.add("k");
  REQUIRE(rig.jobs.await([&] { return rig.jobs.parked == 0; }));
  go.release();
  REQUIRE(rig.jobs.await_outcomes(1));
  go.release(5);
  REQUIRE(rig.jobs.await_outcomes(6));
  CHECK(most <= 4);
}

TEST_CASE("leases are renewed while every handler is busy") {
  SteppedClock time;
  WorkerRig rig;
  rig.time = &time;
  rig.jobs.lease = 1s;
  rig.options.lease = 1s;
  std::counting_semaphore<> go(0);
  int running = 0;
  rig.start([&](const ClaimedJob&, Context&) {
    rig.jobs.with_lock([&] { ++running; });
    go.acquire();
    return done();
  });
  for (int i = 0; i < 4; ++i) rig.jobs.add("k");
  REQUIRE(rig.jobs.await([&] { return running == 4; }));
  for (std::size_t i = 1; i <= 6; ++i) {  // longer than the lease
    time.advance(340ms);
    REQUIRE(rig.jobs.await([&] { return rig.jobs.renews.size() >= i; }));
    CHECK(rig.jobs.with_lock([&] { return rig.jobs.renews.back().leases.size(); }) == 4);
  }
  go.release(4);
  REQUIRE(rig.jobs.await_outcomes(4));
  rig.worker->stop();
  CHECK(rig.worker->stats().completed == 4);
  CHECK(rig.worker->stats().lease_lost == 0);
}

TEST_CASE("a handler learns that its lease is lost before the lease ends, although renew hangs") {
  SteppedClock time;
  WorkerRig rig;
  rig.time = &time;
  rig.jobs.lease = 1s;
  rig.options.lease = 1s;
  bool hangs = false, running = false;
  std::binary_semaphore renew_may_end(0);
  rig.jobs.on_renew = [&](const Renew&) -> Result<RenewResult> {
    rig.jobs.with_lock([&] { hangs = true; });
    renew_may_end.acquire();
    renew_may_end.release();
    return Error{.code = ErrorCode::timeout, .message = "no answer"};
  };
  rig.start([&](const ClaimedJob&, Context& context) -> HandlerResult {
    rig.jobs.with_lock([&] { running = true; });
    CHECK(wait_for_stop(context) == StopReason::lease_lost);
    renew_may_end.release();
    return Error{.message = "gave up"};
  });
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await([&] { return running; }));
  time.advance(340ms);
  REQUIRE(rig.jobs.await([&] { return hangs; }));
  time.advance(500ms);  // less than the lease
  REQUIRE(rig.jobs.await_outcomes(1));
  CHECK(rig.jobs.ended_as<Snooze>(1));  // a lost server does not use up the attempt
  rig.worker->stop();
  CHECK(rig.worker->stats().lease_lost == 1);
}

TEST_CASE("a job whose lease is almost over when it is claimed is released, not started") {
  WorkerRig rig;
  std::atomic<int> started = 0;
  rig.start([&](const ClaimedJob&, Context&) {
    ++started;
    return done();
  });
  const JobId late = rig.jobs.add("k", "{}", [](ClaimedJob& job) { job.lease = 4s; });
  REQUIRE(rig.jobs.await_outcomes(1));
  CHECK(rig.jobs.ended_as<Snooze>(late));
  CHECK(started == 0);
  const JobId early = rig.jobs.add("k", "{}", [](ClaimedJob& job) { job.lease = 20s; });
  REQUIRE(rig.jobs.await_outcomes(2));
  CHECK(rig.jobs.ended_as<Complete>(early));
}

TEST_CASE("a job that the server reports as lost is stopped, and its outcome is not sent") {
  WorkerRig rig;
  rig.options.lease = 1s;  // it renews that often, and loses nothing by the clock
  rig.jobs.lease = 1h;
  rig.jobs.on_renew = [&](const Renew& renew) -> Result<RenewResult> {
    RenewResult result;
    for (const Renewal& one : renew.leases) {
      if (one.id == 1) {
        result.lost.push_back(1);
      } else {
        result.renewed.push_back({one.id, 1h});
      }
    }
    return result;
  };
  rig.start([&](const ClaimedJob& job, Context& context) {
    if (job.id == 1) CHECK(wait_for_stop(context) == StopReason::lease_lost);
    return done();
  });
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await([&] { return !rig.jobs.renews.empty(); }));
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(1));
  rig.worker->stop();
  CHECK_FALSE(rig.jobs.ended_as<Complete>(1));
  CHECK(rig.jobs.ended_as<Complete>(2));
  CHECK(rig.worker->stats().stale == 1);
}

TEST_CASE("a cancel reaches the handler by the parked claim, and a failure after it is a cancel") {
  WorkerRig rig;
  rig.start([&](const ClaimedJob&, Context& context) -> HandlerResult {
    CHECK(wait_for_stop(context) == StopReason::cancelled);
    throw std::runtime_error("interrupted");
  });
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await([&] { return rig.jobs.parked == 1 && rig.jobs.claims.back().max == 3; }));
  rig.jobs.tell_cancel(1);
  REQUIRE(rig.jobs.await_outcomes(1));
  CHECK(rig.jobs.ended_as<CancelJob>(1));
}

TEST_CASE("a cancel reaches the handler by a renewal") {
  WorkerRig rig;
  rig.options.lease = 1s;  // it renews that often, and loses nothing by the clock
  rig.options.slots = 1;
  rig.jobs.lease = 1h;
  rig.jobs.on_renew = [](const Renew&) -> Result<RenewResult> {
    return RenewResult{.renewed = {{1, 1h}}, .cancel = {1}};
  };
  rig.start([&](const ClaimedJob&, Context& context) -> HandlerResult {
    CHECK(wait_for_stop(context) == StopReason::cancelled);
    return done();  // it was done nevertheless
  });
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(1));
  CHECK(rig.jobs.ended_as<Complete>(1));
}

TEST_CASE("the shorter of the job's and the kind's time limit stops the handler") {
  WorkerRig rig;
  const auto handler = [](const ClaimedJob&, Context& context) -> HandlerResult {
    CHECK(wait_for_stop(context) == StopReason::timeout);
    return Error{.message = "stopped"};
  };
  rig.start(handler, {.timeout = 50ms});
  rig.jobs.add("k", "{}", [](ClaimedJob& job) { job.timeout = 20ms; });
  rig.jobs.add("k", "{}", [](ClaimedJob& job) { job.timeout = kForever; });
  REQUIRE(rig.jobs.await_outcomes(2));
  CHECK(rig.jobs.outcome<Retry>(1).error == "over its time limit of 20ms: stopped");
  CHECK(rig.jobs.outcome<Retry>(2).error == "over its time limit of 50ms: stopped");
}

TEST_CASE("progress and checkpoint go with one prompt renewal, and before the failure") {
  WorkerRig rig;
  // The first renewal ends when all reports after it have been made, so they go with the next.
  std::latch renews(1), reported(1);
  rig.jobs.on_renew = [&](const Renew& renew) -> Result<RenewResult> {
    if (!renews.try_wait()) {
      renews.count_down();
      reported.wait();
    }
    return RenewResult{.renewed = {{renew.leases.at(0).id, renew.lease}}};
  };
  rig.start([&](const ClaimedJob& job, Context& context) -> HandlerResult {
    if (job.id == 1) {
      context.progress(0.1, "started");
      renews.wait();
      context.progress(0.25, "a quarter");
      context.progress(7, "half");
      CHECK(context.checkpoint("{\"at\":1}").has_value());
      CHECK(context.checkpoint("{\"at\":2}").has_value());
      reported.count_down();
      CHECK(context.flush().has_value());
      return done();
    }
    CHECK(context.checkpoint("nonsense").error().code == ErrorCode::invalid_argument);
    CHECK(context.checkpoint("\"" + std::string(kMaxCheckpointBytes, 'x') + "\"").error().code ==
          ErrorCode::too_large);
    CHECK(context.checkpoint("[2]").has_value());
    return Error{.message = "failed"};
  });
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(1));
  REQUIRE(rig.jobs.with_lock([&] { return rig.jobs.renews.size(); }) == 2);
  const Renewal first = rig.jobs.with_lock([&] { return rig.jobs.renews.at(1).leases.at(0); });
  CHECK(first.progress == Progress{1, "half"});
  CHECK(first.checkpoint == "{\"at\":2}");
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(2));
  // It arrived with the failure, not a lease later: it was sent before.
  const Renewal second = rig.jobs.with_lock([&] { return rig.jobs.renews.back().leases.at(0); });
  CHECK(second.id == 2);
  CHECK(second.checkpoint == "[2]");
}

TEST_CASE("a checkpoint is sent again after a renewal that failed, with a pause between") {
  WorkerRig rig;
  std::atomic<int> calls = 0;
  rig.jobs.on_renew = [&](const Renew& renew) -> Result<RenewResult> {
    if (++calls <= 2) return Error{.code = ErrorCode::unavailable, .message = "away"};
    return RenewResult{.renewed = {{1, renew.lease}}};
  };
  rig.start([&](const ClaimedJob&, Context& context) {
    CHECK(context.checkpoint("[1]").has_value());
    CHECK(context.flush().has_value());
    CHECK(calls == 3);
    return done();
  });
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(1));
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.renews.back().leases.at(0).checkpoint; }) ==
        "[1]");
}

// The messages of all renewals, each with its number.
std::string sent_to(FakeJobs& jobs) {
  return jobs.with_lock([&] {
    std::string all;
    for (const Renew& renew : jobs.renews) {
      for (const Renewal& one : renew.leases) {
        std::int64_t seq = one.first_seq;
        for (const std::string& message : one.messages) {
          all += std::to_string(seq++);
          all += ":" + message + " ";
        }
      }
    }
    return all;
  });
}

TEST_CASE("messages are sent in order, each once, and before the job's outcome") {
  WorkerRig rig;
  std::atomic<int> sent_then = -1;
  rig.jobs.on_finish = [&](const Finish&) -> Result<FinishResult> {
    sent_then = static_cast<int>(sent_to(rig.jobs).size());
    return FinishResult{.results = {FinishStatus::ok}};
  };
  rig.start([&](const ClaimedJob&, Context& context) {
    CHECK(context.send("nonsense").error().code == ErrorCode::invalid_argument);
    CHECK(context.send("\"" + std::string(kMaxMessageBytes, 'x') + "\"").error().code ==
          ErrorCode::too_large);
    for (int i = 1; i <= 40; ++i) CHECK(context.send(std::to_string(100 + i)).has_value());
    CHECK(context.flush().has_value());
    CHECK(context.send("\"last\"").has_value());
    return done();
  });
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(1));
  std::string all;
  for (int i = 1; i <= 40; ++i) all += std::to_string(i) + ":" + std::to_string(100 + i) + " ";
  all += "41:\"last\" ";
  CHECK(sent_to(rig.jobs) == all);
  CHECK(sent_then == static_cast<int>(all.size()));
  rig.jobs.with_lock([&] {
    for (const Renew& renew : rig.jobs.renews) {
      CHECK(renew.leases.at(0).messages.size() <= kMaxMessages);
    }
  });
}

TEST_CASE("messages without an answer are sent again, with the same numbers") {
  WorkerRig rig;
  std::atomic<int> calls = 0;
  rig.jobs.on_renew = [&](const Renew& renew) -> Result<RenewResult> {
    if (++calls == 1) return Error{.code = ErrorCode::timeout, .message = "no answer"};
    return RenewResult{.renewed = {{1, renew.lease}}};
  };
  rig.start([&](const ClaimedJob&, Context& context) {
    CHECK(context.send("1").has_value());
    CHECK(context.send("2").has_value());
    return done();
  });
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(1));
  const std::string all = sent_to(rig.jobs);  // the first renewal contained one of them, or both
  const bool again = all == "1:1 1:1 2:2 " || all == "1:1 2:2 1:1 2:2 ";
  CHECK_MESSAGE(again, all);
  CHECK(rig.jobs.ended_as<Complete>(1));
}

TEST_CASE("without room for messages the lease is renewed first, and the messages come later") {
  WorkerRig rig;
  std::atomic<int> refused = 0, without = 0;
  rig.jobs.on_renew = [&](const Renew& renew) -> Result<RenewResult> {
    const bool has = !renew.leases.at(0).messages.empty();
    if (has && ++refused <= 1) return Error{.code = ErrorCode::overloaded, .message = "full"};
    if (!has) ++without;
    return RenewResult{.renewed = {{1, renew.lease}}};
  };
  rig.start([&](const ClaimedJob&, Context& context) {
    CHECK(context.send("1").has_value());
    CHECK(context.flush().has_value());
    CHECK(refused == 2);
    CHECK(without >= 1);
    return done();
  });
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(1));
  CHECK(sent_to(rig.jobs) == "1:1 1:1 ");
}

TEST_CASE("a job whose message the server refuses fails, whatever its handler returns") {
  WorkerRig rig;
  rig.jobs.on_renew = [&](const Renew& renew) -> Result<RenewResult> {
    if (!renew.leases.at(0).messages.empty())
      return Error{.code = ErrorCode::invalid_argument, .message = "unknown field"};
    return RenewResult{.renewed = {{1, renew.lease}}};
  };
  rig.start([&](const ClaimedJob&, Context& context) {
    CHECK(context.send("1").has_value());
    CHECK(context.flush().error().code == ErrorCode::invalid_argument);
    CHECK(context.send("2").error().code == ErrorCode::invalid_argument);
    return done();
  });
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(1));
  CHECK(rig.jobs.outcome<Retry>(1).error == "a message could not be sent: unknown field");
}

TEST_CASE("a handler that sends too many messages waits for room, but not after a stop") {
  WorkerRig rig;
  std::binary_semaphore go(0);
  rig.jobs.on_renew = [&](const Renew& renew) -> Result<RenewResult> {
    go.acquire();
    go.release();
    return RenewResult{.renewed = {{1, renew.lease}}};
  };
  rig.start(
      [&](const ClaimedJob&, Context& context) -> HandlerResult {
        int fitted = 0;
        Result<void> said;
        while ((said = context.send("1"))) ++fitted;
        CHECK(fitted == static_cast<int>(Context::kMaxUnsentMessages));
        CHECK(said.error().code == ErrorCode::conflict);
        CHECK(context.stop_reason() == StopReason::timeout);
        go.release();
        CHECK(context.flush().has_value());
        return Error{.message = "stopped"};
      },
      {.timeout = 100ms});
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(1));
  CHECK(rig.jobs.ended_as<Retry>(1));
}

TEST_CASE("a report that no server accepts does not cost the lease") {
  WorkerRig rig;
  rig.jobs.on_renew = [&](const Renew& renew) -> Result<RenewResult> {
    if (renew.leases.at(0).checkpoint) {
      return Error{.code = ErrorCode::too_large, .message = "no"};
    }
    return RenewResult{.renewed = {{1, renew.lease}}};
  };
  rig.start([&](const ClaimedJob&, Context& context) {
    CHECK(context.checkpoint("[1]").has_value());
    CHECK(context.flush().error().code == ErrorCode::too_large);
    CHECK_FALSE(context.stop_requested());
    return done();
  });
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(1));
  CHECK(rig.jobs.ended_as<Complete>(1));
}

TEST_CASE("the handler sees the job, the last checkpoint, and a key that stays the same") {
  WorkerRig rig;
  std::vector<std::string> keys;
  rig.options.slots = 1;
  rig.start([&](const ClaimedJob& job, Context& context) {
    CHECK(&context.job() == &job);
    CHECK(job.checkpoint == "{\"page\":3}");
    keys.push_back(context.idempotency_key());
    return done();
  });
  const auto as = [](JobId id, Token token) {
    return [=](ClaimedJob& job) {
      job.id = id;
      job.token = token;
      job.checkpoint = "{\"page\":3}";
    };
  };
  rig.jobs.add("k", "{\"a\":1}", as(7, 1));
  rig.jobs.add("k", "{\"a\":1}", as(8, 2));
  REQUIRE(rig.jobs.await_outcomes(2));
  rig.jobs.with_lock([&] { rig.jobs.outcomes.clear(); });
  rig.jobs.add("k", "{\"a\":1}", as(7, 3));
  REQUIRE(rig.jobs.await_outcomes(1));
  // For a step of a workflow, the workflow sets it.
  rig.jobs.add("k", "{}", [&](ClaimedJob& job) {
    as(9, 4)(job);
    job.headers = R"({"mainspring-idempotency-key":"ms-w7-1-ab-undo"})";
  });
  REQUIRE(rig.jobs.await_outcomes(2));
  rig.worker->stop();
  REQUIRE(keys.size() == 4);
  CHECK(keys[0] == keys[2]);
  CHECK(keys[0] != keys[1]);
  CHECK(keys[0].starts_with("ms-7-"));
  CHECK(keys[3] == "ms-w7-1-ab-undo");
}

TEST_CASE(
    "how a program ended goes to the server, also at the last attempt, without invalid parts") {
  WorkerRig rig;
  KindOptions kind;
  kind.retry.max_attempts = 2;
  const ProgramEnd killed{.signal = 9, .oom = true, .peak_memory = 1000};
  rig.start(
      [&](const ClaimedJob& job, Context&) -> HandlerResult {
        ProgramEnd program = killed;
        if (job.id == 3) program.peak_memory = -1;
        return Outcome(Retry{.error = "no", .after = {}, .program = program});
      },
      kind);
  rig.jobs.add("k");
  rig.jobs.add("k", "{}", [](ClaimedJob& job) { job.attempt = 2; });
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(3));
  CHECK(rig.jobs.outcome<Retry>(1).program == killed);
  CHECK(rig.jobs.outcome<Dead>(2).program == killed);
  CHECK(rig.jobs.outcome<Retry>(3).program == ProgramEnd{.signal = 9, .oom = true});
}

TEST_CASE("a kind's retry policy decides when, and when no more") {
  WorkerRig rig;
  KindOptions kind;
  kind.retry.first_delay = 10s;
  kind.retry.factor = 3;
  kind.retry.max_attempts = 3;
  rig.start([](const ClaimedJob&, Context&) -> HandlerResult { return Error{.message = "no"}; },
            kind);
  rig.jobs.add("k");
  rig.jobs.add("k", "{}", [](ClaimedJob& job) { job.attempt = 2; });
  rig.jobs.add("k", "{}", [](ClaimedJob& job) { job.attempt = 3; });
  REQUIRE(rig.jobs.await_outcomes(3));
  const auto within = [](std::optional<Duration> d, Duration base) {
    return d && *d >= base * 8 / 10 && *d <= base * 12 / 10;
  };
  CHECK(within(rig.jobs.outcome<Retry>(1).after, 10s));
  CHECK(within(rig.jobs.outcome<Retry>(2).after, 30s));
  CHECK(rig.jobs.outcome<Dead>(3).reason == "max_attempts");
  CHECK(rig.jobs.outcome<Dead>(3).description == "no");
}

TEST_CASE("outcomes are retried until the server answers, and then go as one batch") {
  WorkerRig rig;
  std::atomic<int> calls = 0;
  rig.jobs.on_finish = [&](const Finish& finish) -> Result<FinishResult> {
    if (++calls <= 2) return Error{.code = ErrorCode::unavailable, .message = "away"};
    return FinishResult{std::vector(finish.results.size(), FinishStatus::ok)};
  };
  std::latch all(4);
  rig.start([&](const ClaimedJob&, Context&) {
    all.arrive_and_wait();
    return done();
  });
  for (int i = 0; i < 4; ++i) rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(4));
  rig.worker->stop();
  CHECK(rig.worker->stats().completed == 4);
  CHECK(rig.worker->stats().finishes <= 6);
}

TEST_CASE("an outcome that is refused for good does not delay the others") {
  WorkerRig rig;
  std::latch all(3);
  rig.jobs.on_finish = [&](const Finish& finish) -> Result<FinishResult> {
    for (const JobOutcome& one : finish.results) {
      if (one.id == 2) return Error{.code = ErrorCode::too_large, .message = "no"};
    }
    return FinishResult{std::vector(finish.results.size(), FinishStatus::ok)};
  };
  rig.start([&](const ClaimedJob&, Context&) {
    all.arrive_and_wait();
    return done();
  });
  for (int i = 0; i < 3; ++i) rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(2));
  CHECK(rig.jobs.ended_as<Complete>(1));
  CHECK(rig.jobs.ended_as<Complete>(3));
}

TEST_CASE("stale outcomes are counted and dropped") {
  WorkerRig rig;
  rig.jobs.on_finish = [&](const Finish& finish) -> Result<FinishResult> {
    return FinishResult{std::vector(finish.results.size(), FinishStatus::stale)};
  };
  rig.start([](const ClaimedJob&, Context&) { return done(); });
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await([&] { return rig.jobs.finishes.size() == 1; }));
  rig.worker->stop();
  CHECK(rig.worker->stats().stale == 1);
  CHECK(rig.worker->stats().completed == 0);
}

TEST_CASE("claims continue after the server was unavailable") {
  WorkerRig rig;
  std::atomic<int> failures = 3;
  rig.jobs.on_claim = [&]() -> std::optional<Error> {
    if (failures-- > 0) return Error{.code = ErrorCode::unavailable, .message = "away"};
    return std::nullopt;
  };
  rig.start([](const ClaimedJob&, Context&) { return done(); });
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(1));
}

TEST_CASE("a refused worker logs that once, and not when the server is only unavailable") {
  WorkerRig rig;
  std::atomic<int> claims = 0, told = 0;
  rig.jobs.on_claim = [&]() -> std::optional<Error> {
    const int n = ++claims;
    if (n == 1) return Error{.code = ErrorCode::unavailable, .message = "away"};
    if (n <= 3) return Error{.code = ErrorCode::forbidden, .message = "needs work=q"};
    return std::nullopt;
  };
  rig.make().on("k", [](const ClaimedJob&, Context&) { return done(); });
  rig.worker->on_refused([&](const Error& error) {
    CHECK(error.message == "needs work=q");
    CHECK(claims == 2);
    ++told;
  });
  REQUIRE(rig.worker->start().has_value());
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(1));
  CHECK(told == 1);
}

TEST_CASE("stop lets handlers finish and claims nothing more") {
  WorkerRig rig;
  std::latch running(2);
  std::counting_semaphore<> go(0);
  rig.options.slots = 2;
  rig.start([&](const ClaimedJob&, Context&) {
    running.count_down();
    go.acquire();
    return done();
  });
  rig.jobs.add("k");
  rig.jobs.add("k");
  running.wait();
  rig.worker->request_stop();
  rig.jobs.add("k");
  std::thread stopper([&] { rig.worker->stop(); });
  go.release(2);
  stopper.join();
  rig.worker->stop();
  CHECK(rig.jobs.ended_as<Complete>(1));
  CHECK(rig.jobs.ended_as<Complete>(2));
  CHECK_FALSE(rig.jobs.ended_as<Complete>(3));
  CHECK(rig.worker->stats().claimed == 2);
}

TEST_CASE("handlers that exceed the grace period are stopped, and their attempts are refunded") {
  WorkerRig rig;
  std::latch running(1);
  rig.options.graceful_stop = 100ms;
  rig.start([&](const ClaimedJob&, Context& context) -> HandlerResult {
    running.count_down();
    CHECK(wait_for_stop(context) == StopReason::shutdown);
    throw std::runtime_error("interrupted");
  });
  rig.jobs.add("k");
  running.wait();
  rig.worker->stop();
  CHECK(rig.jobs.ended_as<Snooze>(1));
  CHECK(rig.jobs.outcome<Snooze>(1).after == Duration(0));
}

TEST_CASE("stop before start, twice, and without a server that answers") {
  WorkerRig rig;
  rig.make().on("k", [](const ClaimedJob&, Context&) { return done(); });
  rig.worker->stop();
  rig.worker->stop();
  CHECK(rig.worker->start().has_value());

  WorkerRig lost;
  lost.options.graceful_stop = 50ms;
  lost.jobs.on_finish = [](const Finish&) -> Result<FinishResult> {
    return Error{.code = ErrorCode::unavailable, .message = "away"};
  };
  std::latch ran(1);
  lost.start([&](const ClaimedJob&, Context&) {
    ran.count_down();
    return done();
  });
  lost.jobs.add("k");
  ran.wait();
  lost.worker->stop();  // does not wait forever
  CHECK(lost.worker->start().error().code == ErrorCode::conflict);
}

TEST_CASE("jobs for short handlers are claimed in large batches") {
  WorkerRig rig;
  rig.options.slots = 2;
  for (int i = 0; i < 20'000; ++i) rig.jobs.add("k");
  rig.start([](const ClaimedJob&, Context&) { return done(); });
  REQUIRE(rig.jobs.await_outcomes(20'000));
  rig.worker->stop();
  const WorkerStats stats = rig.worker->stats();
  CHECK(stats.completed == 20'000);
  CHECK(stats.claims < 2'000);
  CHECK(stats.finishes < 2'000);
}

TEST_CASE("all errors in the options are named at once") {
  WorkerOptions options;
  options.slots = 0;
  options.lease = 1ms;
  options.queues = {"ok", "not ok"};
  const std::vector<Error> errors = options.validate();
  REQUIRE(errors.size() == 3);
  CHECK(errors[0].field == "queues[1]");
  CHECK(errors[1].message == "slots: 0, must be 1 to 1024");
  CHECK(errors[2].field == "lease");

  WorkerRig rig;
  rig.options.queues = {};
  CHECK(rig.make().start().error().field == "queues");
  rig.options.queues = {"q"};
  CHECK(rig.make().start().error().field == "kinds");
}
