// A session held by a program: its jobs one by one, renewed while possible, released at the end.
#include "worker/held_session.h"

#include <doctest/doctest.h>

#include <semaphore>

#include "worker/fake_jobs.h"
#include "worker/stepped_clock.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

const SessionKey kSession{"orders", "customer/7"};
const Error kHeldSessionAway{.code = ErrorCode::unavailable, .message = "away"};

struct HeldSessionRig {
  FakeJobs jobs;
  SystemClock clock;
  SteppedClock stepped;  // the holder's, if jobs.time is set
  SystemRandom random;
  Result<HeldSession> hold(SessionOptions options) {
    return hold_session(jobs, jobs.time != nullptr ? *jobs.time : clock, random, kSession.queue,
                        std::move(options));
  }
  // Renewals of a session with a lease of 300 ms.
  void renew(int count) {
    const int before = jobs.with_lock([&] { return jobs.session_renews; });
    for (int i = 1; i <= count; ++i) {
      stepped.advance(100ms);
      REQUIRE(jobs.await([&] { return jobs.session_renews >= before + i; }));
    }
  }
};

}  // namespace

TEST_CASE("a held session is renewed until the end of the scope, which releases it") {
  HeldSessionRig rig;
  rig.jobs.time = &rig.stepped;
  {
    auto session = rig.hold({.key = kSession.key, .lease = 300ms});
    REQUIRE(session);
    CHECK(session->key() == kSession.key);
    rig.renew(5);  // longer than the lease
    rig.stepped.await_another_look();
    CHECK_FALSE(session->lost());
    HeldSession moved = std::move(*session);
    CHECK(moved.token() != 0);
  }
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.session_releases; }) == 1);
  CHECK(rig.hold({.key = kSession.key, .lease = 300ms}));
}

TEST_CASE("a session with another holder is refused") {
  HeldSessionRig rig;
  auto first = rig.hold({.key = kSession.key});
  REQUIRE(first);
  CHECK(rig.hold({.key = kSession.key}).error().code == ErrorCode::lease_held);
}

TEST_CASE("the jobs of a held session come one by one, and their ends carry the state") {
  HeldSessionRig rig;
  auto session = rig.hold({.key = kSession.key});
  REQUIRE(session);
  const JobId first =
      rig.jobs.add("k", "{}", [](ClaimedJob& job) { job.session_state = R"({"n":1})"; });
  auto job = session->next(20s);
  REQUIRE(job);
  REQUIRE(*job);
  CHECK((*job)->id == first);
  CHECK(session->state() == R"({"n":1})");
  CHECK(session->next().error().code == ErrorCode::conflict);
  CHECK(session->finish(**job, Complete{}, "{").error().field == "session_state");
  CHECK(session->finish(**job, Complete{}, R"({"n":2})"));
  CHECK(session->state() == R"({"n":2})");
  const Claim claim = rig.jobs.with_lock([&] { return rig.jobs.claims.back(); });
  CHECK(claim.queues == std::vector<std::string>{session_queue(kSession)});
  CHECK(claim.session_token == session->token());
  const Finish finish = rig.jobs.with_lock([&] { return rig.jobs.finishes.back(); });
  CHECK(finish.results.at(0).session_state == R"({"n":2})");
  job = session->next();
  REQUIRE(job);
  CHECK_FALSE(*job);
  CHECK(session->set_state("7"));
  CHECK(rig.jobs.get_session(kSession)->state == "7");
}

TEST_CASE("the next free session comes with its job, which is released if it is not taken") {
  HeldSessionRig rig;
  CHECK(rig.hold({}).error().code == ErrorCode::lease_held);
  rig.jobs.next_session = kSession;
  const JobId id = rig.jobs.add("k");
  {
    auto session = rig.hold({.wait = 20s});
    REQUIRE(session);
    CHECK(session->key() == kSession.key);
  }
  CHECK(rig.jobs.ended_as<Snooze>(id));
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.session_releases; }) == 1);
  const JobId next = rig.jobs.add("k");
  auto session = rig.hold({.wait = 20s});
  REQUIRE(session);
  const auto job = session->next();
  REQUIRE(job);
  REQUIRE(*job);
  CHECK((*job)->id == next);
}

TEST_CASE("a released session releases its unfinished job") {
  HeldSessionRig rig;
  auto session = rig.hold({.key = kSession.key});
  REQUIRE(session);
  const JobId id = rig.jobs.add("k");
  const auto job = session->next(20s);
  REQUIRE(job);
  REQUIRE(*job);
  CHECK(session->release());
  CHECK(rig.jobs.ended_as<Snooze>(id));
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.session_releases; }) == 1);
}

TEST_CASE("the job of a held session is renewed with it") {
  HeldSessionRig rig;
  rig.jobs.time = &rig.stepped;
  auto session = rig.hold({.key = kSession.key, .lease = 300ms});
  REQUIRE(session);
  const JobId id = rig.jobs.add("k");
  const auto job = session->next(20s);
  REQUIRE(job);
  rig.renew(3);
  CHECK(rig.jobs.with_lock(
      [&] { return !rig.jobs.renews.empty() && rig.jobs.renews.back().leases.at(0).id == id; }));
  CHECK(session->finish(**job, Complete{}));
}

TEST_CASE("a holder learns that its session is lost, at once or before the lease ends") {
  HeldSessionRig rig;
  for (const bool away : {false, true}) {
    CAPTURE(away);
    if (away) rig.jobs.on_renew_session = [](auto&) { return kHeldSessionAway; };
    auto session = rig.hold({.key = kSession.key, .lease = 300ms});
    REQUIRE(session);
    std::binary_semaphore told(0);
    const std::stop_callback on_lost(session->stop_token(), [&] { told.release(); });
    if (!away) rig.jobs.end_session(kSession);
    REQUIRE(told.try_acquire_for(20s));
    CHECK(session->lost());
    CHECK(session->next(20s).error().code == ErrorCode::lease_lost);
    CHECK(session->set_state("1").error().code == ErrorCode::lease_lost);
    CHECK(session->release().error().code == ErrorCode::lease_lost);
  }
}
