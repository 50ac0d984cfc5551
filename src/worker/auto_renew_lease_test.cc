// A lease held by a program: renewed while possible, and its holder learns of its end first.
#include "worker/auto_renew_lease.h"
#include "worker/renewing.h"

#include <doctest/doctest.h>

#include <atomic>
#include <latch>
#include <semaphore>
#include <thread>

#include "worker/fake_jobs.h"
#include "worker/stepped_clock.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

const Error kAway{.code = ErrorCode::unavailable, .message = "away"};

struct Rig {
  FakeJobs jobs;
  SystemClock clock;
  SystemRandom random;
  Result<AutoRenewLease> get(LeaseOptions options) {
    return acquire(jobs, jobs.time != nullptr ? *jobs.time : clock, random, "l",
                   std::move(options));
  }
  Result<Once> once(const LeaseAction& action) {
    return do_once(jobs, clock, random, "once", action, {.wait = kForever});
  }
};

}  // namespace

TEST_CASE("a lease is renewed until it is released, and released once") {
  SteppedClock time;
  Rig rig;
  rig.jobs.time = &time;
  {
    auto lease = rig.get({.ttl = 300ms});
    REQUIRE(lease.has_value());
    for (int i = 1; i <= 5; ++i) {
      time.advance(100ms);
      REQUIRE(rig.jobs.await([&] { return rig.jobs.lease_renews >= i; }));
    }
    time.await_another_look();
    CHECK_FALSE(lease->lost());
    CHECK(lease->release().has_value());
    CHECK(lease->release().has_value());
    CHECK_FALSE(lease->stop_token().stop_requested());
  }
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.releases; }) == 1);
}

TEST_CASE("the end of the scope releases the lease, and the next holder has a larger token") {
  Rig rig;
  Token first = 0;
  {
    auto lease = rig.get({.ttl = 60s});
    REQUIRE(lease.has_value());
    first = lease->token();
    AutoRenewLease moved = std::move(*lease);
    CHECK(moved.token() == first);
  }
  auto next = rig.get({.ttl = 60s});
  REQUIRE(next.has_value());
  CHECK(next->token() > first);
}

TEST_CASE("a lease with another holder is refused at once, or waited for up to a limit") {
  Rig rig;
  auto lease = rig.get({.ttl = 60s});
  REQUIRE(lease.has_value());
  CHECK(rig.get({.ttl = 60s}).error().code == ErrorCode::lease_held);
  CHECK(rig.get({.ttl = 60s, .wait = 50ms}).error().code == ErrorCode::lease_held);
  std::stop_source stop;
  std::jthread stopper([&] {
    rig.jobs.await([&] { return rig.jobs.acquires >= 4; });
    stop.request_stop();
  });
  CHECK(rig.get({.ttl = 60s, .wait = kForever, .stop = stop.get_token()}).error().code ==
        ErrorCode::lease_held);
  stopper.join();
  std::jthread releaser([&] {
    rig.jobs.await([&] { return rig.jobs.acquires >= 5; });
    (void)lease->release();
  });
  CHECK(rig.get({.ttl = 60s, .wait = 20s}).has_value());
}

TEST_CASE("the holder learns of the loss before the lease ends, once, although a call hangs") {
  SteppedClock time;
  Rig rig;
  rig.jobs.time = &time;
  std::binary_semaphore hang(0);
  Instant sent;
  std::atomic<int> calls = 0;
  rig.jobs.on_renew_lease = [&](const RenewLease&) -> std::optional<Error> {
    // The first renewal is answered after a fifth of the lease. The second one hangs.
    if (calls == 0) {
      sent = time.now().instant;
      time.advance(240ms);
      rig.jobs.with_lock([&] { ++calls; });
      return std::nullopt;
    }
    rig.jobs.with_lock([&] { ++calls; });
    hang.acquire();
    return kAway;
  };
  std::atomic<int> told = 0;
  std::binary_semaphore heard(0);
  Instant at;
  auto lease = rig.get({.ttl = 1200ms, .on_lost = [&] {
                          ++told;
                          at = time.now().instant;
                          heard.release();
                        }});
  REQUIRE(lease.has_value());
  time.advance(400ms);  // a third of the lease
  REQUIRE(rig.jobs.await([&] { return calls == 1; }));
  time.advance(160ms);
  REQUIRE(rig.jobs.await([&] { return calls == 2; }));
  time.advance(590ms);
  time.await_another_look();
  CHECK(told == 0);
  time.advance(10ms);
  REQUIRE(heard.try_acquire_for(60s));
  CHECK(lease->lost());
  CHECK(lease->stop_token().stop_requested());
  CHECK(at - sent == Duration(1200ms - lease_margin(1200ms)));
  hang.release(10);
  CHECK(lease->set_value("{}").error().code == ErrorCode::lease_lost);
  CHECK(lease->release().error().code == ErrorCode::lease_lost);
  CHECK(lease->release().has_value());
  CHECK(told == 1);
}

TEST_CASE("renewals that fail are tried again until the lease is at its end") {
  SteppedClock time;
  Rig rig;
  rig.jobs.time = &time;
  int calls = 0, read = 0;
  std::thread::id renewer;
  rig.jobs.on_renew_lease = [&](const RenewLease&) -> std::optional<Error> {
    renewer = std::this_thread::get_id();
    read = time.reads(renewer);
    const int n = rig.jobs.with_lock([&] { return ++calls; });
    return n % 3 != 0 ? std::optional(kAway) : std::nullopt;
  };
  auto lease = rig.get({.ttl = 900ms});
  REQUIRE(lease.has_value());
  for (int i = 1; i <= 9; ++i) {
    // A third of the lease after a renewal, a twelfth after a failure.
    time.advance(i % 3 == 1 ? 300ms : 75ms);
    REQUIRE(rig.jobs.await([&] { return calls >= i; }));
    time.await_reads(renewer, read + 2);  // it waits for the next one
  }
  time.await_another_look();
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.lease_renews; }) == 3);
  CHECK_FALSE(lease->lost());
}

TEST_CASE("a lease that the server reports as lost is lost at once") {
  Rig rig;
  std::binary_semaphore heard(0);
  auto lease = rig.get({.ttl = 600ms, .on_lost = [&] { heard.release(); }});
  REQUIRE(lease.has_value());
  rig.jobs.steal_lease("l");
  CHECK(lease->set_value("{}").error().code == ErrorCode::lease_lost);
  heard.acquire();
  CHECK(lease->release().error().code == ErrorCode::lease_lost);
}

TEST_CASE("a value is handed from holder to holder") {
  Rig rig;
  {
    auto lease = rig.get({.ttl = 60s});
    REQUIRE(lease.has_value());
    CHECK(lease->value().empty());
    REQUIRE(lease->set_value("{\"n\":1}").has_value());
    CHECK(lease->value() == "{\"n\":1}");
  }
  auto next = rig.get({.ttl = 60s});
  REQUIRE(next.has_value());
  CHECK(next->value() == "{\"n\":1}");
}

TEST_CASE("do_once runs the action once for all callers; the others wait until it is done") {
  Rig rig;
  std::atomic<int> runs = 0, ran = 0, before = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        const auto result = rig.once([&](const AutoRenewLease&) -> Result<void> {
          ++runs;
          return {};
        });
        if (result) ++(*result == Once::ran ? ran : before);
      });
    }
  }
  CHECK(runs == 1);
  CHECK(ran == 1);
  CHECK(before == 3);
}

TEST_CASE("an action of do_once that failed is left undone for the next") {
  Rig rig;
  const auto fail = [](const AutoRenewLease&) -> Result<void> { return Error{.message = "no"}; };
  CHECK(rig.once(fail).error().message == "no");
  CHECK_THROWS(
      (void)rig.once([](const AutoRenewLease&) -> Result<void> { throw std::runtime_error("x"); }));
  const auto good = rig.once([](const AutoRenewLease&) -> Result<void> { return {}; });
  CHECK(good.value() == Once::ran);
  CHECK(rig.once(fail).value() == Once::done_before);
}

TEST_CASE("do_once records its end although the server is unavailable for a moment") {
  Rig rig;
  std::atomic<int> calls = 0;
  rig.jobs.on_renew_lease = [&](const RenewLease& request) -> std::optional<Error> {
    return request.value && ++calls == 1 ? std::optional(kAway) : std::nullopt;
  };
  CHECK(rig.once([](const AutoRenewLease&) -> Result<void> { return {}; }).value() == Once::ran);
  CHECK(rig.jobs.lease_value("once") == R"({"state":"done"})");
}

TEST_CASE("do_every runs when it is due, not at every start") {
  Rig rig;
  std::stop_source stop;
  int runs = 0;
  const auto action = [&](const AutoRenewLease&) -> Result<void> {
    if (++runs == 3) stop.request_stop();
    return {};
  };
  const LeaseOptions options{.wait = kForever, .stop = stop.get_token()};
  const Instant begin = rig.clock.now().instant;
  CHECK(do_every(rig.jobs, rig.clock, rig.random, "e", 100ms, action, options).has_value());
  CHECK(runs == 3);
  CHECK(rig.clock.now().instant - begin >= Duration(200ms));
  // Another process, with an interval of an hour: the last run is stored.
  std::stop_source again;
  std::jthread stopper([&] {
    rig.jobs.await([&] { return rig.jobs.grants >= 2; });
    again.request_stop();
  });
  const LeaseOptions later{.wait = kForever, .stop = again.get_token()};
  CHECK(do_every(rig.jobs, rig.clock, rig.random, "e", 1h, action, later).has_value());
  CHECK(runs == 3);
}

TEST_CASE("do_every: an error ends it, and a failed run is due at once") {
  Rig rig;
  const auto fail = [](const AutoRenewLease&) -> Result<void> { return Error{.message = "no"}; };
  const LeaseOptions options{.wait = kForever};
  CHECK(do_every(rig.jobs, rig.clock, rig.random, "e", 1h, fail, options).error().message == "no");
  CHECK(rig.jobs.lease_value("e").empty());
  CHECK(do_every(rig.jobs, rig.clock, rig.random, "e", 0s, fail, options).error().field ==
        "interval");
}
