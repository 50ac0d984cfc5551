// Mutual exclusion on a real engine: leases, singletons, time slots.
#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <latch>
#include <semaphore>
#include <thread>

#include "mainspring/engine.h"

namespace {

using namespace mainspring;
using namespace std::chrono_literals;

struct AloneFolder {
  std::filesystem::path path;
  AloneFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "alone-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~AloneFolder() { std::filesystem::remove_all(path); }
  Result<Engine> open(EngineOptions options = {}) const {
    return Engine::open((path / "jobs").string(), std::move(options));
  }
};

NewJob job(std::string args) {
  NewJob out;
  out.kind = "k";
  out.args = std::move(args);
  return out;
}

}  // namespace

TEST_CASE("a lease has one holder, and its value and tokens outlive the process") {
  AloneFolder folder;
  Token last = 0;
  {
    auto engine = folder.open();
    REQUIRE(engine.has_value());
    auto lease = engine->lock("a/b", {.ttl = 60s});
    REQUIRE(lease.has_value());
    CHECK(engine->lock("a/b").error().code == ErrorCode::lease_held);
    CHECK(engine->lock("mainspring/leader").error().code == ErrorCode::invalid_argument);
    CHECK(engine->lock("a", {.ttl = 1ms}).error().code == ErrorCode::invalid_argument);
    REQUIRE(lease->set_value("{\"n\":1}").has_value());
    CHECK_FALSE(lease->set_value("{").has_value());
    last = lease->token();
  }
  auto engine = folder.open();
  REQUIRE(engine.has_value());
  auto lease = engine->lock("a/b");
  REQUIRE(lease.has_value());
  CHECK(lease->token() > last);
  CHECK(lease->value() == "{\"n\":1}");
}

TEST_CASE("a waiter gets a lease at its release") {
  AloneFolder folder;
  auto engine = folder.open();
  REQUIRE(engine.has_value());
  auto first = engine->lock("a", {.ttl = 60s});
  REQUIRE(first.has_value());
  std::latch waiting(1);
  Result<AutoRenewLease> second = Error{};
  std::jthread other([&] {
    waiting.count_down();
    second = engine->lock("a", {.ttl = 60s, .wait = 20s});
  });
  waiting.wait();
  const Token token = first->token();
  REQUIRE(first->release().has_value());
  other.join();
  REQUIRE(second.has_value());
  CHECK(second->token() > token);
}

TEST_CASE("an enqueue with a lock makes its job only while the lock is held") {
  AloneFolder folder;
  auto engine = folder.open();
  REQUIRE(engine.has_value());
  auto lease = engine->lock("report", {.ttl = 60s});
  REQUIRE(lease.has_value());
  const LeaseFence fence = *lease;
  CHECK(engine->enqueue(job("1"), "", fence).has_value());
  CHECK(engine->enqueue(job("1"), "", {"report", fence.token + 1}).error().code ==
        ErrorCode::lease_lost);
  REQUIRE(lease->release().has_value());
  CHECK(engine->enqueue(job("2"), "", fence).error().code == ErrorCode::lease_lost);
  CHECK(engine->enqueue(job("2"), "", {"no name", 1}).error().field == "fence.lease");
  CHECK(engine->queues().get("default")->enqueued == 1);
}

TEST_CASE("an empty batch makes no request, and one that is too large is refused as a whole") {
  AloneFolder folder;
  auto engine = folder.open();
  REQUIRE(engine.has_value());
  CHECK(engine->enqueue_many(std::vector<NewJob>())->empty());
  const std::vector<NewJob> many(kMaxEnqueueJobs + 1, job("1"));
  CHECK(engine->enqueue_many(many).error().code == ErrorCode::too_large);
  CHECK(engine->queues().list()->empty());
}

TEST_CASE("do_once survives restarts, and a failed action runs again") {
  AloneFolder folder;
  int runs = 0;
  for (int start = 0; start < 3; ++start) {
    auto engine = folder.open();
    REQUIRE(engine.has_value());
    const auto once = engine->do_once("tables", [&](const AutoRenewLease&) -> Result<void> {
      if (++runs == 1) return Error{.message = "no"};
      return {};
    });
    CHECK(once.has_value() == (start > 0));
  }
  CHECK(runs == 2);
}

TEST_CASE("jobs of one singleton follow each other, those of others run beside them") {
  AloneFolder folder;
  EngineOptions options;
  options.worker.slots = 8;
  auto engine = folder.open(options);
  REQUIRE(engine.has_value());
  std::atomic<int> running[2] = {0, 0};
  std::atomic<int> most = 0;
  HandlerOptions handler;
  handler.singleton = "s/{n}";
  engine->on_kind(
      "k",
      [&](const ClaimedJob& one, Context&) -> HandlerResult {
        std::atomic<int>& now = running[one.args == R"({"n":1})" ? 1 : 0];
        const int n = ++now;
        if (n > most) most = n;
        std::this_thread::yield();
        --now;
        return Outcome(Complete{});
      },
      handler);
  REQUIRE(engine->start().has_value());
  std::vector<NewJob> jobs;
  for (int i = 0; i < 12; ++i) jobs.push_back(job(i % 2 == 1 ? R"({"n":1})" : R"({"n":2})"));
  const auto all = engine->enqueue_many(jobs);
  REQUIRE(all.has_value());
  for (const Enqueued& one : *all) {
    const auto ended = engine->wait(one.id, 60s);
    REQUIRE(ended.has_value());
    CHECK(ended->state == JobState::completed);
    CHECK(ended->errors.empty());  // released, not failed
  }
  CHECK(most == 1);
}

TEST_CASE("a time slot runs jobs one after another and passes its estimates to the next slot") {
  AloneFolder folder;
  auto engine = folder.open();
  REQUIRE(engine.has_value());
  std::atomic<int> running = 0, most = 0;
  engine->on_kind("k", [&](const ClaimedJob&, Context&) -> HandlerResult {
    const int n = ++running;
    if (n > most) most = n;
    --running;
    return Outcome(Complete{});
  });
  SlotOptions slot{.name = "s", .length = 1s, .estimate = 50ms};
  int slots = 0;
  for (int round = 0; round < 2; ++round) {
    std::vector<NewJob> jobs(30, job("{}"));
    REQUIRE(engine->enqueue_many(jobs).has_value());
    // A machine that stalls can use up a slot. Then the next one runs the remaining jobs.
    for (int left = 30; left > 0;) {
      REQUIRE(++slots <= 20);
      const auto done = engine->run_slot(slot);
      REQUIRE(done.has_value());
      CHECK(done->worker.completed == done->handled);
      CHECK(done->end == SlotEnd::full);
      left -= done->handled;
      CHECK(left >= 0);
    }
  }
  CHECK(most == 1);
  const auto lease = engine->lock("slot/s");
  REQUIRE(lease.has_value());
  CHECK(lease->value().find("\"k\":{\"n\":") != std::string::npos);
}
