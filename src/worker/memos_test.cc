// Steps of a handler run once over all attempts. Their results are saved before the handler
// continues, and only by the holder of the job.
#include <doctest/doctest.h>

#include <atomic>
#include <semaphore>

#include "worker/worker_rig.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

std::string kept(WorkerRig& rig, JobId id, const std::string& name) {
  return rig.jobs.with_lock([&] {
    const auto found = rig.jobs.kept[id].find(name);
    return found == rig.jobs.kept[id].end() ? std::string("nothing") : found->second;
  });
}

}  // namespace

TEST_CASE("a step's result is at the server before the step returns") {
  WorkerRig rig;
  rig.start([&](const ClaimedJob& job, Context& context) {
    const auto one = context.step("one", [] { return Result<std::string>("[1]"); });
    CHECK(one == "[1]");
    CHECK(kept(rig, job.id, "one") == "[1]");
    const auto again = context.step("one", []() -> Result<std::string> {
      FAIL("it is run again");
      return "";
    });
    CHECK(again == "[1]");
    return done(*one);
  });
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(1));
  CHECK(rig.jobs.outcome<Complete>(1).result == "[1]");
}

TEST_CASE("a step of an earlier attempt does not run again; without steps nothing is requested") {
  WorkerRig rig;
  rig.jobs.kept[1] = {{"pay", R"({"id":"c1"})"}};
  std::atomic<int> runs = 0;
  rig.start([&](const ClaimedJob& job, Context& context) {
    const auto run = [&]() -> Result<std::string> {
      ++runs;
      return "2";
    };
    const auto pay = context.step("pay", run);
    const auto ship = context.step("ship", run);
    CHECK(pay == (job.has_memos ? R"({"id":"c1"})" : "2"));
    CHECK(ship == "2");
    return done();
  });
  rig.jobs.add("k", "{}", [](ClaimedJob& job) { job.has_memos = true; });
  REQUIRE(rig.jobs.await_outcomes(1));
  CHECK(runs == 1);
  CHECK(kept(rig, 1, "ship") == "2");
  const int reads = rig.jobs.with_lock([&] { return rig.jobs.memo_reads; });
  CHECK(reads == 2);
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(2));
  CHECK(runs == 3);
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.memo_reads; }) == reads);
}

TEST_CASE("an invalid result of a step is not saved, and the next one is") {
  WorkerRig rig;
  rig.start([&](const ClaimedJob&, Context& context) {
    const auto answer = [](std::string text) {
      return [text] { return Result<std::string>(text); };
    };
    const Error broken{.code = ErrorCode::unavailable, .message = "the bank is closed"};
    CHECK(context.step("pay", [&] { return Result<std::string>(broken); }).error().message ==
          "the bank is closed");
    CHECK(context.step("pay", answer("nonsense")).error().code == ErrorCode::invalid_argument);
    const std::string large = "\"" + std::string(kMaxMemoBytes, 'x') + "\"";
    CHECK(context.step("pay", answer(large)).error().code == ErrorCode::too_large);
    CHECK(context.step("no name", answer("1")).error().field == "step");
    CHECK(context.step("", answer("1")).error().code == ErrorCode::invalid_argument);
    CHECK(context.step("pay", answer("1")) == "1");
    return done();
  });
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(1));
  CHECK(kept(rig, 1, "pay") == "1");
}

TEST_CASE("a step whose renewal has no response is saved by the next renewal") {
  WorkerRig rig;
  rig.options.lease = 1s;
  std::atomic<int> calls = 0;
  rig.jobs.on_renew = [&](const Renew& renew) -> Result<RenewResult> {
    if (++calls == 1) return Error{.code = ErrorCode::timeout, .message = "no answer"};
    return RenewResult{.renewed = {{1, renew.lease}}};
  };
  rig.start([&](const ClaimedJob&, Context& context) {
    CHECK(context.step("pay", [] { return Result<std::string>("1"); }) == "1");
    return done();
  });
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(1));
  CHECK(kept(rig, 1, "pay") == "1");
}

TEST_CASE("leases are renewed while the server saves no steps, and the step waits until it does") {
  WorkerRig rig;
  rig.options.lease = 1s;  // it renews that often, and loses nothing by the clock
  std::atomic<int> refused = 0, bare = 0;
  rig.jobs.on_renew = [&](const Renew& renew) -> Result<RenewResult> {
    if (renew.leases.at(0).memos.empty()) {
      ++bare;
    } else if (bare < 2) {
      ++refused;
      return Error{.code = ErrorCode::unavailable, .message = "no changes for now"};
    }
    return RenewResult{.renewed = {{1, 1h}}};
  };
  rig.start([&](const ClaimedJob&, Context& context) {
    CHECK(context.step("pay", [] { return Result<std::string>("1"); }) == "1");
    return done();
  });
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(1));
  CHECK(refused >= 1);
  CHECK(kept(rig, 1, "pay") == "1");
}

TEST_CASE("a step of a lost job returns an error and starts nothing") {
  WorkerRig rig;
  rig.jobs.on_renew = [](const Renew& renew) -> Result<RenewResult> {
    return RenewResult{.renewed = {}, .lost = {renew.leases.at(0).id}};
  };
  std::atomic<int> runs = 0;
  std::atomic<bool> ended = false;
  rig.start([&](const ClaimedJob&, Context& context) {
    const auto run = [&]() -> Result<std::string> {
      ++runs;
      return "1";
    };
    CHECK(context.step("one", run).error().code == ErrorCode::conflict);
    CHECK(context.step("two", run).error().code == ErrorCode::conflict);
    rig.jobs.with_lock([&] { ended = true; });
    return done();
  });
  rig.jobs.add("k");
  CHECK(rig.jobs.await([&] { return ended.load(); }));
  CHECK(runs == 1);
}

TEST_CASE("a job with too many step results gets an error") {
  WorkerRig rig;
  rig.jobs.on_renew = [](const Renew& renew) -> Result<RenewResult> {
    return RenewResult{.renewed = {{1, renew.lease}}, .memos_full = {1}};
  };
  rig.start([&](const ClaimedJob&, Context& context) {
    CHECK(context.step("one", [] { return Result<std::string>("1"); }).error().code ==
          ErrorCode::too_large);
    return done();
  });
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await_outcomes(1));
}

TEST_CASE("a handler that must stop starts no step, and finds saved step results") {
  WorkerRig rig;
  rig.jobs.kept[1] = {{"one", "1"}};
  std::atomic<bool> began = false;
  rig.start([&](const ClaimedJob&, Context& context) {
    rig.jobs.with_lock([&] { began = true; });
    std::binary_semaphore told(0);
    std::stop_callback wake(context.stop_token(), [&] { told.release(); });
    told.acquire();
    const auto run = [] { return Result<std::string>("2"); };
    CHECK(context.step("one", run) == "1");
    CHECK(context.step("two", run).error().code == ErrorCode::conflict);
    return done();
  });
  rig.jobs.add("k", "{}", [](ClaimedJob& job) { job.has_memos = true; });
  REQUIRE(rig.jobs.await([&] { return began.load(); }));
  rig.jobs.tell_cancel(1);
  REQUIRE(rig.jobs.await_outcomes(1));
}

TEST_CASE("saved step results are requested again until the server answers") {
  WorkerRig rig;
  rig.jobs.kept[1] = {{"one", "1"}};
  int asked = 0;
  rig.jobs.on_memos = [&]() -> std::optional<Error> {
    if (++asked > 2) return std::nullopt;
    return Error{.code = ErrorCode::unavailable, .message = "away"};
  };
  rig.start([&](const ClaimedJob&, Context& context) {
    CHECK(context.step("one", [] { return Result<std::string>("2"); }) == "1");
    return done();
  });
  rig.jobs.add("k", "{}", [](ClaimedJob& job) { job.has_memos = true; });
  REQUIRE(rig.jobs.await_outcomes(1));
  CHECK(asked == 3);
}
