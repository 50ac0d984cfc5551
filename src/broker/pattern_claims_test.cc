// Claims of patterns of queues, such as "tenant/*".
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "broker/broker.h"
#include "disk_sqlite/sqlite_store.h"
#include "model/queue_pattern.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

struct Patterns {
  Patterns() {
    char name[] = "/tmp/mainspring_test_XXXXXX";
    directory = mkdtemp(name);
    store = std::move(
        *open_sqlite_store({.directory = directory, .reserve_bytes = 0}, clock.now(), log));
    broker = std::make_unique<Broker>(*store, clock, log, registry);
  }
  ~Patterns() {
    broker.reset();
    store.reset();
    std::filesystem::remove_all(directory);
  }
  void steps() {
    while (broker->step(clock.now()) <= clock.now().instant) {
    }
  }
  void add(int count, const std::string& queue, const std::string& kind = "work") {
    Enqueue enqueue;
    enqueue.jobs.assign(static_cast<std::size_t>(count), NewJob{.queue = queue, .kind = kind});
    broker->submit(std::move(enqueue), [](const OperationResult&) {});
    clock.advance(1ms);
    steps();
  }
  using Got = std::shared_ptr<std::optional<ClaimResult>>;
  Got claim(std::vector<std::string> queues, Duration wait = 0s, int max = 1,
            std::vector<std::string> kinds = {}) {
    auto got = std::make_shared<std::optional<ClaimResult>>();
    broker->submit_claim(
        {.worker = "w", .queues = std::move(queues), .kinds = std::move(kinds), .max = max}, wait,
        [got](OperationResult r) { *got = std::get<ClaimResult>(std::move(r)); });
    steps();
    return got;
  }
  // The queue of the one job; "" = none.
  static std::string queue_of(const Got& got) {
    if (!*got || (*got)->jobs.size() != 1) return "";
    return (*got)->jobs.front().queue;
  }
  std::string directory;
  ManualClock clock;
  NullLog log;
  Registry registry;
  std::unique_ptr<Store> store;
  std::unique_ptr<Broker> broker;
};

}  // namespace

TEST_CASE_FIXTURE(Patterns, "a claim of a pattern takes jobs of queues with the prefix only") {
  add(1, "other");
  add(1, "tenant");
  add(1, "tenant/a");
  CHECK(queue_of(claim({"tenant/*"})) == "tenant/a");
  const auto none = claim({"tenant/*"});
  REQUIRE(*none);
  CHECK((*none)->jobs.empty());
  CHECK(queue_of(claim({"tenant*"})) == "tenant");
  CHECK(queue_of(claim({"*"})) == "other");
}

TEST_CASE_FIXTURE(Patterns, "queues of a pattern take turns, so a full one starves no other") {
  add(500, "tenant/full");
  std::set<std::string> small;
  for (int i = 0; i < 10; ++i) {
    small.insert("tenant/" + std::to_string(i));
    add(1, "tenant/" + std::to_string(i));
  }
  std::map<std::string, int> taken;
  for (int i = 0; i < 11; ++i) ++taken[queue_of(claim({"tenant/*"}))];
  for (const std::string& queue : small) CHECK(taken[queue] == 1);
  CHECK(taken["tenant/full"] == 1);
  // The same for a worker with many free slots.
  for (const std::string& queue : small) add(1, queue);
  for (int i = 0; i < 11; ++i) {
    const auto got = claim({"tenant/*"}, 0s, 20);
    REQUIRE(*got);
    for (const ClaimedJob& job : (*got)->jobs) small.erase(job.queue);
  }
  CHECK(small.empty());
}

TEST_CASE_FIXTURE(Patterns, "a parked claim of a pattern gets a job of a queue that is new") {
  const auto got = claim({"tenant/*"}, 20s);
  CHECK(!*got);
  add(1, "tenantless");
  CHECK(!*got);
  CHECK(broker->parked_claims() == 1);
  const auto commits = store->commits();
  add(1, "tenant/new");
  CHECK(queue_of(got) == "tenant/new");
  CHECK(store->commits() == commits + 1);  // the commit that creates the job
  CHECK(broker->parked_claims() == 0);
}

TEST_CASE_FIXTURE(Patterns, "a claim of a pattern that is woken in vain keeps waiting for all") {
  const auto got = claim({"tenant/*"}, 20s, 1, {"mail"});
  add(1, "tenant/a", "video");
  CHECK(!*got);
  add(1, "tenant/b", "mail");
  CHECK(queue_of(got) == "tenant/b");
}

TEST_CASE_FIXTURE(Patterns, "a claim of a pattern looks beyond queues without a job of its kinds") {
  for (int i = 0; i < 5; ++i) add(1, "tenant/" + std::to_string(i), "video");
  add(1, "tenant/z", "mail");
  CHECK(queue_of(claim({"tenant/*"}, 0s, 1, {"mail"})) == "tenant/z");
  CHECK(queue_of(claim({"tenant/*"}, 20s, 1, {"mail"})) == "");
  CHECK(broker->parked_claims() == 1);
}

TEST_CASE_FIXTURE(Patterns, "a claim may name queues and patterns; the engine's queues fit none") {
  add(1, "mail");
  const auto got = claim({"*"}, 0s);
  CHECK(queue_of(got) == "mail");
  add(1, "a");
  add(1, "tenant/b");
  std::set<std::string> queues{queue_of(claim({"a", "tenant/*"})),
                               queue_of(claim({"a", "tenant/*"}))};
  CHECK(queues == std::set<std::string>{"a", "tenant/b"});
  CHECK(!fits_pattern("*", "mainspring.callbacks"));
}

TEST_CASE_FIXTURE(Patterns, "a due job and a paused queue wake a claim of a pattern") {
  Enqueue later;
  later.jobs = {NewJob{.queue = "tenant/later", .kind = "work"}};
  later.jobs[0].delay = 30s;
  broker->submit(std::move(later), [](const OperationResult&) {});
  steps();
  const auto got = claim({"tenant/*"}, 50s);
  clock.advance(31s);
  broker->submit(MoveDue{.limit = 10}, [](const OperationResult&) {});
  steps();
  CHECK(queue_of(got) == "tenant/later");
  add(1, "tenant/p");
  broker->submit(PauseQueue{.queue = "tenant/p", .paused = true}, [](const OperationResult&) {});
  steps();
  const auto waits = claim({"tenant/*"}, 20s);
  CHECK(!*waits);
  broker->submit(PauseQueue{.queue = "tenant/p", .paused = false}, [](const OperationResult&) {});
  steps();
  CHECK(queue_of(waits) == "tenant/p");
}

TEST_CASE("the part of a pattern that scopes allow") {
  const auto within = [](std::string_view scopes) {
    return Within{std::make_shared<const Scopes>(*Scopes::parse(scopes)), Verb::work};
  };
  using Names = std::vector<std::string>;
  CHECK(allowed_part("tenant/*", Within()) == Names{"tenant/*"});
  CHECK(allowed_part("tenant/*", within("work")) == Names{"tenant/*"});
  CHECK(allowed_part("tenant/*", within("work=t*")) == Names{"tenant/*"});
  CHECK(allowed_part("tenant/*", within("work=tenant/a work=tenant/b* read=tenant/c work=x")) ==
        Names{"tenant/a", "tenant/b*"});
  CHECK(allowed_part("tenant/*", within("work=other read=tenant/*")).empty());
  CHECK(check_queue_or_pattern("queue", "tenant/*"));
  CHECK(check_queue_or_pattern("queue", "*"));
  for (const char* wrong : {"a*b", "**", "/*", "a**", ""})
    CHECK(!check_queue_or_pattern("queue", wrong));
  CHECK(overlap("a*", "ab*"));
  CHECK(overlap("ab", "a*"));
  CHECK(!overlap("b*", "a*"));
}
