// Costs in a worker: a heavy job takes several slots.
#include <algorithm>
#include <semaphore>

#include "worker/worker_rig.h"

namespace mainspring {
namespace {

// A worker of four slots. Its handlers run until the test lets them finish, one by one.
struct Slots {
  WorkerRig rig;
  std::counting_semaphore<> go{0};
  int light = 0, heavy = 0, slots = 0, most = 0;  // read under the lock of rig.jobs

  explicit Slots(int cost) {
    rig.options.lease = std::chrono::seconds(1);  // it renews that often
    rig.jobs.lease = std::chrono::hours(1);       // and loses nothing by the clock
    rig.jobs.granted = rig.jobs.lease;
    rig.make().on("heavy", [this, cost](const ClaimedJob&, Context&) { return run(heavy, cost); });
    rig.worker->on("light", [this](const ClaimedJob&, Context&) { return run(light, 1); });
    REQUIRE(rig.worker->start().has_value());
  }
  ~Slots() { go.release(100); }
  HandlerResult run(int& which, int cost) {
    rig.jobs.with_lock([&] { ++which, most = std::max(most, slots += cost); });
    go.acquire();
    rig.jobs.with_lock([&] { --which, slots -= cost; });
    return done();
  }
  JobId add_heavy(int cost) {
    return rig.jobs.add("heavy", "{}", [cost](ClaimedJob& job) { job.cost = cost; });
  }
  bool await(const std::function<bool()>& done) { return rig.jobs.await(done); }
  // A renewal contains the job a third of a lease after its claim. A worker that would start it
  // at once has done so by then, also on a slow machine.
  bool await_renewed(JobId id) {
    return await([&] {
      const auto names = [&](const Renew& renew) {
        return std::any_of(renew.leases.begin(), renew.leases.end(),
                           [&](const Renewal& one) { return one.id == id; });
      };
      return std::any_of(rig.jobs.renews.begin(), rig.jobs.renews.end(), names);
    });
  }
  int seen(const int& what) {
    return rig.jobs.with_lock([&] { return what; });
  }
};

TEST_CASE("a heavy job takes its cost in slots, and the remaining slots are claimed for") {
  Slots s(3);
  s.add_heavy(3);
  REQUIRE(s.await([&] { return s.heavy == 1 && s.rig.jobs.parked == 1; }));
  CHECK(s.rig.jobs.with_lock([&] { return s.rig.jobs.claims.back().max; }) == 1);
  s.rig.jobs.add("light");
  REQUIRE(s.await([&] { return s.light == 1 && s.rig.jobs.parked == 0; }));
  s.go.release(2);
  REQUIRE(s.rig.jobs.await_outcomes(2));
}

TEST_CASE("a job that does not fit yet waits in the worker, and light ones do not overtake it") {
  Slots s(3);
  for (int i = 0; i < 2; ++i) s.rig.jobs.add("light");
  REQUIRE(s.await([&] { return s.light == 2 && s.rig.jobs.parked == 1; }));
  const JobId heavy = s.add_heavy(3);  // the server returns it for the two free slots
  REQUIRE(s.await_renewed(heavy));
  CHECK(s.seen(s.heavy) == 0);
  for (int i = 0; i < 2; ++i) s.rig.jobs.add("light");
  s.go.release();
  REQUIRE(s.await([&] { return s.heavy == 1; }));  // it starts with three free slots
  CHECK(s.seen(s.light) == 1);
  s.go.release(9);
  REQUIRE(s.rig.jobs.await_outcomes(5));
  CHECK(s.seen(s.most) == 4);
}

TEST_CASE("a job that costs more than the worker has takes all of its slots") {
  Slots s(4);
  s.rig.jobs.add("light");
  REQUIRE(s.await([&] { return s.light == 1 && s.rig.jobs.parked == 1; }));
  REQUIRE(s.await_renewed(s.add_heavy(1000)));
  CHECK(s.seen(s.heavy) == 0);
  s.go.release();
  REQUIRE(s.await([&] { return s.heavy == 1; }));
  s.rig.jobs.add("light");
  s.go.release(2);
  REQUIRE(s.rig.jobs.await_outcomes(3));
  CHECK(s.seen(s.most) == 4);
}

TEST_CASE("the lease of a job that waits for slots is renewed, and a stop releases the job") {
  Slots s(4);
  s.rig.jobs.add("light");
  REQUIRE(s.await([&] { return s.light == 1 && s.rig.jobs.parked == 1; }));
  const JobId heavy = s.add_heavy(4);
  REQUIRE(s.await_renewed(heavy));
  CHECK(s.seen(s.heavy) == 0);
  s.rig.worker->request_stop();
  s.go.release(5);
  s.rig.worker->stop();
  CHECK(s.rig.jobs.ended_as<Snooze>(heavy));
}

TEST_CASE(
    "a worker with fewer slots claims fewer jobs and stops none, and more slots claim at once") {
  Slots s(1);
  for (int i = 0; i < 3; ++i) s.rig.jobs.add("light");
  REQUIRE(s.await([&] { return s.light == 3 && s.rig.jobs.parked == 1; }));
  s.rig.worker->set_slots(2);
  REQUIRE(s.await([&] { return s.rig.jobs.parked == 0; }));  // the claim for a fourth job ends
  for (int i = 0; i < 3; ++i) s.rig.jobs.add("light");
  CHECK(s.seen(s.light) == 3);
  s.go.release(2);
  REQUIRE(s.rig.jobs.await_outcomes(2));
  REQUIRE(s.await([&] { return s.light == 2; }));
  s.rig.worker->set_slots(4);
  REQUIRE(s.await([&] { return s.light == 4; }));
  CHECK(s.seen(s.most) == 4);
  s.go.release(9);
  REQUIRE(s.rig.jobs.await_outcomes(6));
  CHECK(std::none_of(s.rig.jobs.outcomes.begin(), s.rig.jobs.outcomes.end(), [](const auto& one) {
    return !std::holds_alternative<Complete>(one.second);
  }));
}

}  // namespace
}  // namespace mainspring
