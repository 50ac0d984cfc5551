// Singleton jobs: one at a time in the system; jobs that must wait cost little.
#include "worker/singletons.h"

#include <doctest/doctest.h>

#include <atomic>
#include <latch>
#include <semaphore>

#include "worker/fake_jobs.h"
#include "worker/worker.h"

using namespace mainspring;
using namespace std::chrono_literals;

TEST_CASE("a singleton's name comes from the args, different for different values") {
  const auto name = [](std::string_view pattern, const std::string& args) {
    const auto result = singleton_name(pattern, args);
    return result ? *result : "error: " + result.error().message;
  };
  CHECK(name("report", "[]") == "report");
  CHECK(name("report/{who}", R"({"x":{},"who":"Ann B"})") == "report/Ann:20B");
  CHECK(name("{a}/{b}", R"({"a":"x/y","b":7})") == "x:2fy/7");
  CHECK(name("{a}", R"({"a":1.50})") == "1.50");
  CHECK(name("{a}", R"({"b":1})").starts_with("error: args.a: must be a string or a number"));
  CHECK(name("{a}", R"({"a":[1]})").starts_with("error: args.a: must be"));
  CHECK(name("{a}", "7").starts_with("error: "));
  const std::string b200(200, 'b');
  const std::string longer = name("{a}", "{\"a\":\"" + b200 + "\"}");
  CHECK(longer.size() == kMaxNameBytes);
  CHECK(longer != name("{a}", "{\"a\":\"" + b200 + "c\"}"));
}

TEST_CASE("a pattern that gives no lease name is refused when the worker starts") {
  for (const char* good : {"a", "a/{b}", "{b}", "{a}{b}"}) CHECK(check_singleton(good).has_value());
  for (const char* bad : {"a b", "{", "a{}", "a}", "{{b}}", "/a"}) {
    CHECK_MESSAGE(!check_singleton(bad), bad);
  }
  FakeJobs jobs;
  SystemClock clock;
  SystemRandom random;
  NullLog log;
  WorkerRuntime worker(jobs, clock, random, log, {.queues = {"q"}});
  worker.on("k", [](const ClaimedJob&, Context&) -> HandlerResult { return Outcome(Complete{}); },
            {.singleton = "a b"});
  CHECK(worker.start().error().field == "singleton");
}

namespace {

struct SingletonsRig {
  explicit SingletonsRig(Duration lease_ = kDefaultLease) : lease(lease_) {}
  const Duration lease;
  FakeJobs jobs;
  SystemClock clock;
  SystemRandom random;
  NullLog log;
  WorkerRuntime worker{jobs, clock, random, log, {.queues = {"q"}, .slots = 4, .lease = lease}};
};

}  // namespace

TEST_CASE("one job of a singleton runs at a time, others are released without an attempt") {
  SingletonsRig rig;
  std::atomic<int> now = 0, most = 0;
  std::latch first(1), go(1);
  rig.worker.on("k",
                [&](const ClaimedJob&, Context&) -> HandlerResult {
                  most = std::max(most.load(), ++now);
                  if (first.try_wait()) {
                    --now;
                    return Outcome(Complete{});
                  }
                  first.count_down();
                  go.wait();
                  --now;
                  return Outcome(Complete{});
                },
                {.singleton = "one/{n}"});
  REQUIRE(rig.worker.start().has_value());
  rig.jobs.add("k", R"({"n":1})");
  first.wait();
  // One of them waits in its slot, the other two come back.
  for (int i = 0; i < 3; ++i) rig.jobs.add("k", R"({"n":1})");
  REQUIRE(rig.jobs.await_outcomes(2));
  for (const auto& [id, outcome] : rig.jobs.with_lock([&] { return rig.jobs.outcomes; })) {
    REQUIRE(std::holds_alternative<Snooze>(outcome));
    CHECK(std::get<Snooze>(outcome).after >= Duration(1s));
    CHECK(std::get<Snooze>(outcome).after <= kLongestSingletonPause);
  }
  // Another name is not delayed.
  const JobId other = rig.jobs.add("k", R"({"n":2})");
  REQUIRE(rig.jobs.await([&] { return rig.jobs.outcomes.contains(other); }));
  go.count_down();
  REQUIRE(rig.jobs.await_outcomes(5));
  CHECK(most <= 2);  // names 1 and 2
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.most_lease_waiters; }) == 1);
  rig.worker.stop();
}

TEST_CASE("args without the singleton's field make the job dead") {
  SingletonsRig rig;
  rig.worker.on("k",
                [&](const ClaimedJob&, Context&) -> HandlerResult { return Outcome(Complete{}); },
                {.singleton = "one/{n}"});
  REQUIRE(rig.worker.start().has_value());
  const JobId id = rig.jobs.add("k", "{}");
  REQUIRE(rig.jobs.await_outcomes(1));
  CHECK(rig.jobs.outcome<Dead>(id).reason == "singleton");
  rig.worker.stop();
}

TEST_CASE("a singleton learns that its lease is lost, and its failure uses no attempt") {
  SingletonsRig rig(1s);
  std::latch began(1);
  rig.worker.on("k",
                [&](const ClaimedJob&, Context& context) -> HandlerResult {
                  std::binary_semaphore told(0);
                  std::stop_callback wake(context.stop_token(), [&] { told.release(); });
                  began.count_down();
                  told.acquire();
                  CHECK(context.stop_reason() == StopReason::lease_lost);
                  return Error{.message = "stopped"};
                },
                {.singleton = "one"});
  rig.jobs.on_renew_lease = [](const RenewLease&) -> std::optional<Error> {
    return Error{.code = ErrorCode::lease_lost, .message = "gone"};
  };
  REQUIRE(rig.worker.start().has_value());
  const JobId id = rig.jobs.add("k");
  began.wait();
  REQUIRE(rig.jobs.await_outcomes(1));
  CHECK(rig.jobs.ended_as<Snooze>(id));
  rig.worker.stop();
}
