// TestControl over a real store: the clock, namespaces, drains, faults and resets.
#include "test_server/test_control.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "disk_sqlite/sqlite_store.h"

namespace mainspring {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class TestServerRig {
 public:
  TestServerRig() {
    std::string pattern = (fs::temp_directory_path() / "mainspring-control-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
    fs::create_directory(directory_ + "/store");  // without its files that guard it
    open();
  }
  ~TestServerRig() {
    close();
    fs::remove_all(directory_);
  }

  void open() {
    auto opened = open_sqlite_store({.directory = directory_ + "/store",
                                     .guard_files = false,
                                     .close_in_order = false,
                                     .synced = false,
                                     .full = [full = full_] { return full->load(); }},
                                    clock.now(), log);
    REQUIRE(opened);
    store = std::move(*opened);
    broker = std::make_unique<Broker>(*store, clock, log, registry);
    scheduler = std::make_unique<Scheduler>(*broker, clock, log, registry,
                                            SchedulerOptions{.prune_interval = 1ms});
    control = std::make_unique<TestControl>(
        TestControl::Parts{*broker, *scheduler, *store, clock, random, log},
        TestOptions{.directory = directory_ + "/store",
                    .state_file = directory_ + "/state.json",
                    .seed = 5,
                    .crash = [this] { crashed = true; },
                    .full = full_});
    broker->start();
    scheduler->start();
    control->start();
  }
  void close() {
    control->stop();
    scheduler->stop();
    broker->stop();
    control.reset();
    scheduler.reset();
    broker.reset();
    store.reset();
  }

  JobId enqueue(NewJob job) {
    if (job.kind.empty()) job.kind = "work";
    auto done = broker->enqueue({.jobs = {std::move(job)}});
    REQUIRE(done);
    return done->jobs.front().id;
  }
  ClaimResult claim(const std::string& queue, const std::string& worker = "w", Duration wait = 5s) {
    auto claimed = broker->claim({.worker = worker, .queues = {queue}}, wait, {});
    REQUIRE(claimed);
    return *claimed;
  }
  FinishStatus finish(const ClaimedJob& job, Outcome outcome, const std::string& worker = "w") {
    auto done = broker->finish({.worker = worker, .results = {{job.id, job.token, outcome}}});
    REQUIRE(done);
    return done->results.front();
  }
  std::string clock_to(std::string_view body) {
    auto answer = control->clock(body);
    REQUIRE_MESSAGE(answer, (answer ? "" : answer.error().message));
    return *answer;
  }
  JobState state(JobId id) { return broker->get(id)->state; }

  SystemClock system;
  VirtualClock clock{system};
  SystemRandom random;
  NullLog log;
  Registry registry;
  std::atomic<bool> crashed{false};
  std::unique_ptr<Store> store;
  std::unique_ptr<Broker> broker;
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<TestControl> control;

 private:
  std::string directory_;
  std::shared_ptr<std::atomic<bool>> full_ = std::make_shared<std::atomic<bool>>(false);
};

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != text.npos;
}

// Whether both exist and `first` is before `second`.
bool in_order(const std::string& text, std::string_view first, std::string_view second) {
  const auto a = text.find(first), b = text.find(second);
  return a != text.npos && b != text.npos && a < b;
}

}  // namespace

TEST_CASE("an advance makes jobs available at their time, in order, and lists what fired") {
  TestServerRig rig;
  const JobId late = rig.enqueue({.queue = "a", .delay = 3h});
  const JobId early = rig.enqueue({.queue = "a", .delay = 1h});
  const JobId beyond = rig.enqueue({.queue = "a", .delay = 30h});
  const JobId expires = rig.enqueue({.queue = "b", .expires_in = 2h});
  const std::string fired = rig.clock_to(R"({"advance":"25h"})");
  const auto job = [](JobId id) { return "\"job\":" + std::to_string(id) + ","; };
  CHECK(in_order(fired, job(early), job(expires)));
  CHECK(in_order(fired, job(expires), job(late)));
  CHECK_FALSE(has(fired, job(beyond)));
  CHECK(has(fired, R"("what":"scheduled")"));
  CHECK(has(fired, R"("what":"expiry")"));
  CHECK(has(fired, R"("count":3,"complete":true)"));
  CHECK(rig.state(late) == JobState::available);
  CHECK(rig.state(expires) == JobState::cancelled);
  CHECK(rig.state(beyond) == JobState::scheduled);
}

TEST_CASE("an advance fires each tick of a schedule once, and a worker runs each before the next") {
  TestServerRig rig;
  Schedule schedule{.name = "hourly", .every = 1h};
  schedule.job = {.queue = "ticks", .kind = "tick"};
  REQUIRE(rig.broker->put_schedule(schedule, std::nullopt));
  std::atomic<int> done = 0;
  std::jthread worker([&](std::stop_token stop) {
    while (!stop.stop_requested()) {
      auto claimed = rig.broker->claim({.worker = "w", .queues = {"ticks"}}, 20s, stop);
      if (!claimed || claimed->jobs.empty()) continue;
      const std::int64_t running =
          rig.store->queues()->front().counts[static_cast<std::size_t>(JobState::available)];
      CHECK(running == 0);  // no earlier tick remains
      rig.finish(claimed->jobs.front(), Complete{});
      ++done;
    }
  });
  const std::string fired = rig.clock_to(R"({"advance":"6h"})");
  CHECK(has(fired, R"("what":"schedule","schedule":"hourly")"));
  CHECK(has(fired, R"("count":6,)"));
  worker.request_stop();
  worker.join();  // counts the last one
  CHECK(done == 6);
}

TEST_CASE("a waiting claim outlasts an advance and gets the retry that became due") {
  TestServerRig rig;
  const JobId id = rig.enqueue({.queue = "a"});
  rig.finish(rig.claim("a").jobs.front(), Retry{.error = "no", .after = 1h});
  std::optional<ClaimResult> got;
  std::jthread waits([&] { got = rig.claim("a", "other", 20s); });
  while (rig.broker->parked_claims() == 0) std::this_thread::yield();
  const std::string fired = rig.clock_to(R"({"advance":"2h","settle":"0s"})");
  CHECK(has(fired, R"("what":"retry")"));
  waits.join();
  REQUIRE(got->jobs.size() == 1);
  CHECK(got->jobs.front().id == id);
  CHECK(got->jobs.front().attempt == 2);
}

TEST_CASE("a lease that was not renewed is lost when an advance passes its end") {
  TestServerRig rig;
  const JobId id = rig.enqueue({.queue = "a"});
  const ClaimedJob job = rig.claim("a").jobs.front();
  CHECK_FALSE(has(rig.clock_to(R"({"advance":"20s","settle":"0s"})"), "lease"));
  CHECK(rig.state(id) == JobState::running);
  const std::string fired = rig.clock_to(R"({"advance":"20s","settle":"0s"})");
  CHECK(has(fired, R"("what":"lease","job":)" + std::to_string(id) + R"(,"queue":"a")"));
  CHECK(rig.state(id) == JobState::available);
  CHECK(rig.finish(job, Complete{}) == FinishStatus::stale);
}

TEST_CASE("leases of live workers outlast an advance: renewed ones, and those of waiting workers") {
  TestServerRig rig;
  for (int i = 0; i < 2; ++i) rig.enqueue({.queue = "a"});
  const ClaimedJob renewed = rig.claim("a", "renews").jobs.front();
  const ClaimedJob parked = rig.claim("a", "waits").jobs.front();
  Renew renew{.worker = "renews"};
  renew.leases.push_back({.id = renewed.id, .token = renewed.token});
  REQUIRE(rig.broker->renew(renew));
  std::jthread waits([&](std::stop_token stop) {
    (void)rig.broker->claim({.worker = "waits", .queues = {"b"}}, 20s, stop);
  });
  while (rig.broker->parked_claims() == 0) std::this_thread::yield();
  CHECK_FALSE(has(rig.clock_to(R"({"advance":"25h","settle":"0s"})"), "lease"));
  CHECK(rig.finish(renewed, Complete{}, "renews") == FinishStatus::ok);
  CHECK(has(rig.clock_to(R"({"advance":"1m","settle":"0s","leases":"lose"})"), "lease"));
  CHECK(rig.finish(parked, Complete{}, "waits") == FinishStatus::stale);
}

TEST_CASE("leases can be kept, and locks end like leases of jobs") {
  TestServerRig rig;
  rig.enqueue({.queue = "a"});
  const ClaimedJob job = rig.claim("a").jobs.front();
  REQUIRE(rig.broker->acquire_lease({.name = "lock", .holder = "h", .ttl = 10min}, 0s, {}));
  CHECK_FALSE(has(rig.clock_to(R"({"advance":"1h","settle":"0s","leases":"keep"})"), "lease"));
  CHECK(rig.finish(job, Complete{}) == FinishStatus::ok);
  CHECK(has(rig.clock_to(R"({"advance":"11m"})"), R"("what":"lease","lock":"lock")"));
  CHECK(rig.broker->acquire_lease({.name = "lock", .holder = "other", .ttl = 10min}, 0s, {}));
}

TEST_CASE("a clock request that breaks a rule is refused by field and rule") {
  TestServerRig rig;
  const auto refused = [&](std::string_view body) {
    const auto bad = rig.control->clock(body);
    return bad ? "accepted" : bad.error().field;
  };
  CHECK(refused("{}") == "advance");
  CHECK(refused(R"({"advance":"1h","to":"2030-01-01T00:00:00Z"})") == "advance");
  CHECK(refused(R"({"advance":"one hour"})") == "advance");
  CHECK(refused(R"({"advance":"-1h"})") == "advance");
  CHECK(refused(R"({"advance":"400000h"})") == "advance");
  CHECK(refused(R"({"to":"1999-01-01T00:00:00Z"})") == "to");
  CHECK(refused(R"({"to":"9999-01-01T00:00:00Z"})") == "to");
  CHECK(refused(R"({"advance":"1h","leases":"maybe"})") == "leases");
  CHECK(refused(R"({"advance":"1h","settle":"1h"})") == "settle");
  CHECK(refused(R"({"advance":"1h","fast":true})") == "fast");
}

TEST_CASE("namespaces are numbered or named, and a name is used once") {
  TestServerRig rig;
  CHECK(*rig.control->add_namespace("") == R"({"namespace":"t1","prefix":"t1."})");
  CHECK(*rig.control->add_namespace(R"({"name":"mine"})") ==
        R"({"namespace":"mine","prefix":"mine."})");
  CHECK(rig.control->add_namespace(R"({"name":"mine"})").error().code == ErrorCode::conflict);
  CHECK(rig.control->add_namespace(R"({"name":"no/good"})").error().field == "name");
  CHECK(rig.control->add_namespace(R"({"name":7})").error().field == "name");
}

TEST_CASE("a drain waits for the jobs of its namespace alone") {
  TestServerRig rig;
  REQUIRE(rig.control->add_namespace(""));
  rig.enqueue({.queue = "t1.a"});
  rig.enqueue({.queue = "elsewhere"});
  rig.enqueue({.queue = "t1.a", .delay = 1h});
  CHECK(*rig.control->drain(R"({"namespace":"t1","timeout":"0s"})") ==
        R"({"drained":false,"left":1})");
  std::jthread worker([&] { rig.finish(rig.claim("t1.a").jobs.front(), Complete{}); });
  CHECK(*rig.control->drain(R"({"namespace":"t1"})") == R"({"drained":true,"left":0})");
  CHECK(*rig.control->drain(R"({"queue":"elsewhere","timeout":"0s"})") ==
        R"({"drained":false,"left":1})");
  CHECK(rig.control->drain(R"({"namespace":"nowhere"})").error().code == ErrorCode::not_found);
  CHECK(rig.control->drain(R"({"timeout":"1h"})").error().field == "timeout");
}

TEST_CASE("await returns when the state is reached, cannot be reached, or time is over") {
  TestServerRig rig;
  const JobId id = rig.enqueue({.queue = "a"});
  CHECK(rig.control->await(id, JobState::completed, 0s).error().code == ErrorCode::request_timeout);
  std::jthread worker([&] { rig.finish(rig.claim("a").jobs.front(), Complete{.result = "1"}); });
  const auto done = rig.control->await(id, JobState::completed, 10s);
  REQUIRE(done);
  CHECK(done->result == "1");
  CHECK(rig.control->await(id, JobState::running, 0s));  // it ran
  CHECK(rig.control->await(id, JobState::dead, 10s).error().code == ErrorCode::conflict);
  CHECK(rig.control->await(999, JobState::dead, 10s).error().code == ErrorCode::not_found);
}

TEST_CASE("a duplicate delivery hands a job to another worker while the first still runs it") {
  TestServerRig rig;
  const auto set = rig.control->set_faults(R"({"seed":1,"duplicate_delivery":1})");
  REQUIRE(set);
  CHECK(has(*set, R"("seed":1)"));
  const JobId id = rig.enqueue({.queue = "a", .max_attempts = 2});
  const ClaimedJob first = rig.claim("a", "one").jobs.front();
  const ClaimedJob second = rig.claim("a", "two").jobs.front();
  CHECK(second.id == id);
  CHECK(second.token > first.token);
  CHECK(rig.finish(first, Complete{}, "one") == FinishStatus::stale);
  CHECK(rig.finish(second, Complete{}, "two") == FinishStatus::ok);  // its last attempt
}

TEST_CASE("a lost lease is lost before the finish that it makes stale") {
  TestServerRig rig;
  REQUIRE(rig.control->set_faults(R"({"lost_lease":1})"));
  rig.enqueue({.queue = "a", .max_attempts = 2});
  const ClaimedJob job = rig.claim("a").jobs.front();
  const Finish finish{.worker = "w", .results = {{job.id, job.token, Complete{}}}};
  const auto fault = rig.control->meet(finish);
  CHECK_FALSE(fault.lose_request);
  CHECK(rig.broker->finish(finish)->results.front() == FinishStatus::stale);
  CHECK(rig.claim("a").jobs.front().attempt == 2);
}

TEST_CASE("a finish is lost once: its retry arrives") {
  TestServerRig rig;
  REQUIRE(rig.control->set_faults(R"({"lost_finish":1})"));
  bool lost = false, answer_lost = false;
  for (int i = 0; i < 50; ++i) {
    rig.enqueue({.queue = "a", .args = std::to_string(i)});
    const ClaimedJob job = rig.claim("a").jobs.front();
    const Finish finish{.worker = "w", .results = {{job.id, job.token, Complete{}}}};
    const auto fault = rig.control->meet(finish);
    CHECK(fault.lose_request != fault.lose_answer);
    (fault.lose_request ? lost : answer_lost) = true;
    const auto again = rig.control->meet(finish);
    CHECK_FALSE((again.lose_request || again.lose_answer));
    const FinishStatus status = rig.broker->finish(finish)->results.front();
    CHECK(status == (fault.lose_request ? FinishStatus::stale : FinishStatus::ok));
    if (!fault.lose_request) continue;
    REQUIRE(rig.control->clear_faults(""));
    rig.finish(rig.claim("a").jobs.front(), Complete{});
    REQUIRE(rig.control->set_faults(R"({"lost_finish":1})"));
  }
  CHECK((lost && answer_lost));
}

TEST_CASE("faults of a namespace meet its jobs alone") {
  TestServerRig rig;
  REQUIRE(rig.control->add_namespace(""));
  REQUIRE(
      rig.control->set_faults(R"({"namespace":"t1","lost_finish":1,"lost_finish_of":"request"})"));
  const auto lost = [&](const std::string& queue) {
    rig.enqueue({.queue = queue});
    const ClaimedJob job = rig.claim(queue).jobs.front();
    return rig.control->meet(Finish{.worker = "w", .results = {{job.id, job.token, Complete{}}}})
        .lose_request;
  };
  CHECK(lost("t1.a"));
  CHECK_FALSE(lost("a"));
  REQUIRE(rig.control->clear_faults("t1"));
  CHECK_FALSE(lost("t1.b"));
  const auto refused = [&](std::string_view body) {
    const auto bad = rig.control->set_faults(body);
    return bad ? ErrorCode::internal : bad.error().code;
  };
  CHECK(refused(R"({"namespace":"t2"})") == ErrorCode::not_found);
  CHECK(refused(R"({"namespace":"t1","store_full":true})") == ErrorCode::invalid_argument);
  CHECK(refused(R"({"lost_finish_of":"all"})") == ErrorCode::invalid_argument);
}

TEST_CASE("a full store refuses new jobs and takes finishes, until the fault is cleared") {
  TestServerRig rig;
  rig.enqueue({.queue = "a"});
  REQUIRE(rig.control->set_faults(R"({"store_full":true})"));
  const auto refused = rig.broker->enqueue({.jobs = {{.queue = "a", .kind = "k"}}});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::storage_full);
  CHECK(rig.finish(rig.claim("a").jobs.front(), Complete{}) == FinishStatus::ok);
  REQUIRE(rig.control->clear_faults(""));
  rig.enqueue({.queue = "a"});
}

TEST_CASE("a reset of a namespace ends and deletes its jobs and leaves the rest") {
  TestServerRig rig;
  REQUIRE(rig.control->add_namespace(""));
  Schedule schedule{.name = "t1.hourly", .every = 1h};
  schedule.job = {.queue = "t1.a", .kind = "tick"};
  REQUIRE(rig.broker->put_schedule(schedule, std::nullopt));
  const JobId running = rig.enqueue({.queue = "t1.a"});
  const ClaimedJob held = rig.claim("t1.a").jobs.front();
  const JobId waiting = rig.enqueue({.queue = "t1.a"});
  const JobId other = rig.enqueue({.queue = "other"});
  const JobId ended = rig.enqueue({.queue = "t1.done"});
  rig.finish(rig.claim("t1.done").jobs.front(), Complete{});
  REQUIRE(rig.state(ended) == JobState::completed);
  REQUIRE(rig.broker->pause_queue({.queue = "t1.a"}));
  REQUIRE(rig.control->reset(R"({"namespace":"t1"})"));
  for (const JobId gone : {running, waiting, ended}) CHECK_FALSE(rig.broker->get(gone));
  CHECK(rig.state(other) == JobState::available);
  CHECK(rig.finish(held, Complete{}) == FinishStatus::not_found);
  CHECK(rig.broker->get_schedule("t1.hourly").error().code == ErrorCode::not_found);
  CHECK(rig.control->reset(R"({"namespace":"t1"})").error().code == ErrorCode::not_found);
  CHECK(rig.control->reset(R"({"namespace":""})").error().field == "namespace");
  CHECK(rig.control->drain(R"({"namespace":""})").error().field == "namespace");
}

TEST_CASE("a reset of the server removes every job and returns to real time without faults") {
  TestServerRig rig;
  REQUIRE(rig.control->add_namespace(""));
  REQUIRE(rig.control->set_faults(R"({"lost_finish":1,"store_full":true})"));
  REQUIRE(rig.control->clear_faults(""));
  const JobId done = rig.enqueue({.queue = "a"});
  rig.finish(rig.claim("a").jobs.front(), Complete{});
  rig.enqueue({.queue = "a", .delay = 1h});
  rig.clock_to(R"({"advance":"30m"})");
  REQUIRE(rig.control->reset(""));
  CHECK(rig.broker->get(done).error().code == ErrorCode::expired);
  CHECK(rig.broker->list({}, 100, 0)->jobs.empty());
  CHECK(rig.clock.ahead() == Duration(0));
  CHECK(rig.control->faults("")->find("\"lost_finish\":0") != std::string::npos);
  CHECK(*rig.control->add_namespace(R"({"name":"t1"})") != "");
  rig.enqueue({.queue = "a"});
}

TEST_CASE("the clock, the namespaces and the faults outlive a crash") {
  TestServerRig rig;
  REQUIRE(rig.control->add_namespace(""));
  rig.enqueue({.queue = "t1.a", .delay = 2h});
  rig.clock_to(R"({"advance":"1h"})");
  const auto set = rig.control->set_faults(R"({"seed":77,"lost_lease":0.5,"crash":true})");
  REQUIRE(set);
  while (!rig.crashed) std::this_thread::yield();
  rig.close();
  rig.open();
  CHECK(rig.clock.ahead() >= 1h - 1min);
  CHECK(*rig.control->faults("") == *set);
  CHECK(rig.control->add_namespace(R"({"name":"t1"})").error().code == ErrorCode::conflict);
  CHECK(has(rig.clock_to(R"({"advance":"1h"})"), R"("count":1)"));
}

TEST_CASE("stop ends waits at once") {
  TestServerRig rig;
  const JobId id = rig.enqueue({.queue = "a"});
  std::jthread waits([&] { (void)rig.control->await(id, JobState::completed, 10min); });
  std::jthread drains([&] { (void)rig.control->drain(R"({"timeout":"10m"})"); });
  rig.control->stop();
}

}  // namespace mainspring
