// Named locks and schedules that several nodes change at once.
//
// Where the order of two transactions matters, one of them is stopped in the middle: its last
// operation needs a row that a connection of the test has locked.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <random>
#include <set>
#include <thread>

#include "env/clock.h"
#include "postgres/places.h"
#include "store_postgres/postgres_store.h"

namespace mainspring::pg_testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr auto kLimit = seconds(60);

// Some nodes of one store, on one clock.
class Nodes {
 public:
  explicit Nodes(int count) {
    for (int i = 0; i < count; ++i) {
      PostgresOptions mine = place_;
      mine.incarnation = fmt::format("node {}", i);
      stores_.push_back(must(open_postgres_store(mine, clock.now(), log_)));
    }
  }
  ~Nodes() {
    const auto report = stores_[0]->verify();
    if (!report) {
      FAIL_CHECK("verify failed: " << report.error().message);
      return;
    }
    for (const std::string& problem : report->problems) FAIL_CHECK("verify: " << problem);
  }
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  SharedStore& operator[](std::size_t node) { return *stores_[node]; }
  std::vector<OperationResult> apply(std::size_t node, const std::vector<Operation>& batch) {
    return must(stores_[node]->apply(batch, clock.now())).results;
  }
  template <class T>
  T one(std::size_t node, Operation operation) {
    OperationResult result = apply(node, {std::move(operation)})[0];
    if (const Error* error = std::get_if<Error>(&result)) FAIL(error->message);
    return std::get<T>(std::move(result));
  }
  ErrorCode refused(std::size_t node, Operation operation) {
    const OperationResult result = apply(node, {std::move(operation)})[0];
    REQUIRE(std::holds_alternative<Error>(result));
    return std::get<Error>(result).code;
  }
  // On another thread.
  std::future<std::vector<OperationResult>> begin(std::size_t node, std::vector<Operation> batch) {
    return std::async(std::launch::async,
                      [this, node, batch = std::move(batch)] { return apply(node, batch); });
  }
  void compare(std::size_t node) {  // now
    clock.advance(seconds(4));
    must(stores_[node]->refresh(clock.now()));
  }

  void put(const std::string& name, Overlap overlap = Overlap::skip, bool pauses = false) {
    Schedule s{.name = name, .every = minutes(1)};
    s.job.queue = "q";
    s.job.kind = "tick";
    s.job.max_attempts = 1;
    s.overlap = overlap;
    s.pause_on_failure = pauses;
    const WallTime next = clock.now().wall + minutes(1);
    one<PutScheduleResult>(0, PutSchedule{.schedule = s, .next = next, .next_fire = next});
  }
  static FireSchedule trigger(const std::string& name, std::optional<Overlap> overlap = {}) {
    FireSchedule fire{.name = name, .source = TickSource::trigger, .ticks = {Tick{}}};
    fire.overlap = overlap;
    return fire;
  }
  JobId fire(std::size_t node, const std::string& name, std::optional<Overlap> overlap = {}) {
    return one<FireResult>(node, trigger(name, overlap)).jobs.at(0);
  }
  ClaimedJob claim(std::size_t node) {
    auto jobs = one<ClaimResult>(node, Claim{.worker = "w", .queues = {"q"}, .max = 1}).jobs;
    REQUIRE(jobs.size() == 1);
    return jobs[0];
  }
  static Finish complete(const ClaimedJob& job) {
    Finish finish{.worker = "w"};
    finish.results.push_back({.id = job.id, .token = job.token, .outcome = Complete{}});
    return finish;
  }
  JobState state(JobId id) { return must(stores_[0]->get(id)).state; }

  PgConnection connect() { return must(PgConnection::open(place_.url.reveal())); }
  std::string table(const std::string& name) const { return place_.schema + "." + name; }
  // Until `count` transactions of this store wait for a lock.
  void await_waiting(int count) {
    auto look = connect();
    const auto until = SystemClock().now().instant + kLimit;
    for (int seen = 0; seen < count;) {
      if (SystemClock().now().instant >= until) FAIL(seen << " of " << count << " wait");
      const auto rows =
          must(look.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND "
                        "application_name LIKE 'mainspring node%'"));
      seen = std::stoi(rows.at(0).at(0));
    }
  }

  ManualClock clock;

 private:
  NullLog log_;
  PostgresOptions place_ = new_place();
  std::vector<std::unique_ptr<SharedStore>> stores_;
};

// While it lives, transactions that lock these rows wait.
class Held {
 public:
  Held(Nodes& nodes, const std::string& table, const std::string& which)
      : connection_(nodes.connect()) {
    must(connection_.sql(
        fmt::format("BEGIN; SELECT FROM {} WHERE {} FOR UPDATE", nodes.table(table), which)));
  }
  void release() { must(connection_.sql("COMMIT")); }

 private:
  PgConnection connection_;
};

bool is_done(std::future<std::vector<OperationResult>>& batch) {
  return batch.wait_for(seconds(0)) == std::future_status::ready;
}

std::vector<OperationResult> end(std::future<std::vector<OperationResult>>& batch) {
  REQUIRE(batch.wait_for(kLimit) == std::future_status::ready);
  return batch.get();
}

AcquireLease acquire(const std::string& holder, Duration ttl = seconds(10)) {
  return {.name = "l", .holder = holder, .ttl = ttl};
}

TEST_SUITE("leases by name, of several nodes") {
  TEST_CASE("a lease granted at one node is refused, shown and waited for at another") {
    Nodes nodes(2);
    const Token token = nodes.one<LeaseGrant>(0, acquire("a")).token;
    CHECK(nodes.refused(1, acquire("b")) == ErrorCode::lease_held);
    CHECK(nodes[1].lease_free_at("l") == nodes.clock.now().instant + seconds(10));
    CHECK(nodes[1].lease("l", nodes.clock.now().instant)->holder == "a");
    nodes.clock.advance(seconds(9));
    nodes.one<LeaseGrant>(0, RenewLease{.name = "l", .holder = "a", .token = token, .value = "1"});
    nodes.clock.advance(seconds(9));
    CHECK(nodes.refused(1, acquire("b")) == ErrorCode::lease_held);
    nodes.clock.advance(seconds(1));
    const LeaseGrant next = nodes.one<LeaseGrant>(1, acquire("b"));
    CHECK(next.token > token);
    CHECK(next.value == "1");
    const RenewLease late{.name = "l", .holder = "a", .token = token};
    CHECK(nodes.refused(0, late) == ErrorCode::lease_lost);
    CHECK(nodes.refused(0, MoveDue{10, {"l", token}}) == ErrorCode::lease_lost);
    nodes.one<StepResult>(0, MoveDue{10, {"l", next.token}});
  }

  TEST_CASE("FENCE-3: what a fence let through is committed before there is another holder") {
    Nodes nodes(2);
    nodes.put("s");
    const Token token = nodes.one<LeaseGrant>(0, acquire("a")).token;
    FireSchedule fire = Nodes::trigger("s");
    fire.fence = {.lease = "l", .token = token};
    nodes.clock.advance(seconds(9));
    Held held(nodes, "schedules", "name = 's'");
    auto slow = nodes.begin(0, {fire});
    nodes.await_waiting(1);
    nodes.clock.advance(seconds(2));
    auto next = nodes.begin(1, {acquire("b")});
    nodes.await_waiting(2);
    CHECK_FALSE(is_done(next));
    held.release();
    CHECK(std::get<FireResult>(end(slow)[0]).fired == 1);
    CHECK(std::get<LeaseGrant>(end(next)[0]).token > token);
    CHECK(nodes.refused(0, fire) == ErrorCode::lease_lost);
  }

  TEST_CASE("one of many gets the lease each time, and no token is given twice") {
    Nodes nodes(3);
    std::set<Token> tokens;
    for (int round = 0; round < 20; ++round) {
      std::vector<std::future<std::vector<OperationResult>>> all;
      for (std::size_t node = 0; node < 3; ++node)
        all.push_back(nodes.begin(node, {acquire(fmt::format("{} {}", round, node))}));
      int granted = 0;
      for (auto& one : all) {
        const auto results = end(one);
        if (const auto* grant = std::get_if<LeaseGrant>(&results[0])) {
          ++granted;
          CHECK(tokens.insert(grant->token).second);
        } else {
          CHECK(std::get<Error>(results[0]).code == ErrorCode::lease_held);
        }
      }
      CHECK(granted == 1);
      nodes.clock.advance(seconds(round % 2 == 0 ? 10 : 60));
    }
  }
}

TEST_SUITE("schedules of several nodes") {
  TEST_CASE("SCHED-1: of two leaders with the same plan one is refused and refreshes its view") {
    Nodes nodes(2);
    nodes.put("s");
    nodes.compare(1);
    nodes.clock.advance(minutes(1));
    const ScheduleInfo known = *nodes[1].schedule("s");
    const FireSchedule plan{.name = "s",
                            .version = 1,
                            .expected_next = known.next,
                            .ticks = {{.nominal = known.next}},
                            .next = known.next + minutes(1),
                            .next_fire = known.next + minutes(1)};
    CHECK(nodes.one<FireResult>(0, plan).fired == 1);
    CHECK(nodes[1].schedule("s")->next == known.next);
    CHECK(nodes.refused(1, plan) == ErrorCode::conflict);
    CHECK(nodes[1].schedule("s")->next == plan.next);
    CHECK(nodes[1].agenda().next_schedule == plan.next);
  }

  TEST_CASE("the next comparison finds any change by other nodes") {
    Nodes nodes(2);
    nodes.put("a", Overlap::buffer_all);
    nodes.put("b");
    CHECK_FALSE(nodes[1].schedule("a").has_value());
    nodes.compare(1);
    CHECK(nodes[1].schedules("", 9)->size() == 2);
    const JobId first = nodes.fire(0, "a");
    nodes.fire(0, "a");
    nodes.one<Done>(0, PauseSchedule{"b", true, "for now"});
    nodes.compare(1);
    CHECK(nodes[1].schedule("a")->live == std::vector<JobId>{first});
    CHECK(nodes[1].schedule("a")->buffered == 1);
    CHECK(nodes[1].schedule("a")->fired == 2);
    CHECK(nodes[1].schedule("b")->paused_reason == "for now");
    CHECK(nodes[1].due_schedules(WallTime::never(), 9)->size() == 1);
    nodes.one<FinishResult>(0, Nodes::complete(nodes.claim(0)));
    nodes.one<Done>(0, RemoveSchedule{"b"});
    nodes.compare(1);
    CHECK(nodes[1].schedule("a")->live.size() == 1);
    CHECK(nodes[1].schedule("a")->live != std::vector<JobId>{first});
    CHECK(nodes[1].schedule("a")->buffered == 0);
    CHECK(nodes[1].schedule("b").error().code == ErrorCode::not_found);
    nodes.put("b", Overlap::allow);
    nodes.compare(1);
    CHECK(nodes[1].schedule("b")->version == 2);
    CHECK(nodes[1].agenda().next_schedule == nodes[0].agenda().next_schedule);
  }

  TEST_CASE("a job that begins to wait while the last one ends on another node begins then") {
    Nodes nodes(2);
    nodes.put("s", Overlap::buffer_one);
    nodes.put("z");
    nodes.fire(0, "s");
    const ClaimedJob last = nodes.claim(0);
    Held held(nodes, "schedules", "name = 'z'");
    auto ends = nodes.begin(0, {Nodes::complete(last), PauseSchedule{"z", true, ""}});
    nodes.await_waiting(1);
    auto waits = nodes.begin(1, {Nodes::trigger("s")});
    nodes.await_waiting(2);
    held.release();
    end(ends);
    const JobId job = std::get<FireResult>(end(waits)[0]).jobs.at(0);
    CHECK(nodes.state(job) == JobState::available);
  }

  TEST_CASE("a job that ends while another begins to wait on another node lets it begin") {
    Nodes nodes(2);
    nodes.put("s", Overlap::buffer_one);
    nodes.one<EnqueueResult>(0, Enqueue{.jobs = {NewJob{.queue = "other", .kind = "k"}}});
    nodes.fire(0, "s");
    const ClaimedJob last = nodes.claim(0);
    Held held(nodes, "queues", "name = 'other'");
    auto waits = nodes.begin(1, {Nodes::trigger("s"), PauseQueue{.queue = "other"}});
    nodes.await_waiting(1);
    auto ends = nodes.begin(0, {Nodes::complete(last)});
    nodes.await_waiting(2);
    held.release();
    const JobId job = std::get<FireResult>(end(waits)[0]).jobs.at(0);
    end(ends);
    CHECK(nodes.state(job) == JobState::available);
  }

  TEST_CASE("of the last two that end at once on two nodes, the second lets the next one begin") {
    Nodes nodes(2);
    nodes.put("s", Overlap::allow);
    nodes.put("z");
    nodes.fire(0, "s");
    nodes.fire(0, "s");
    const ClaimedJob one = nodes.claim(0), other = nodes.claim(0);
    const JobId job = nodes.fire(0, "s", Overlap::buffer_all);
    Held held(nodes, "schedules", "name = 'z'");
    auto first = nodes.begin(0, {Nodes::complete(one), PauseSchedule{"z", true, ""}});
    nodes.await_waiting(1);
    auto second = nodes.begin(1, {Nodes::complete(other)});
    nodes.await_waiting(2);
    CHECK_FALSE(is_done(second));
    held.release();
    end(first);
    end(second);
    CHECK(nodes.state(job) == JobState::available);
  }

  TEST_CASE("two nodes end jobs of a schedule without a waiting job and do not block each other") {
    Nodes nodes(2);
    nodes.put("s", Overlap::allow);
    nodes.put("z");
    nodes.fire(0, "s");
    nodes.fire(0, "s");
    const ClaimedJob one = nodes.claim(0), other = nodes.claim(0);
    Held held(nodes, "schedules", "name = 'z'");
    auto first = nodes.begin(0, {Nodes::complete(one), PauseSchedule{"z", true, ""}});
    nodes.await_waiting(1);
    nodes.one<FinishResult>(1, Nodes::complete(other));
    CHECK_FALSE(is_done(first));
    held.release();
    end(first);
    nodes.compare(0);
    CHECK(nodes[0].schedule("s")->live.empty());
  }

  TEST_CASE("a failure on one node pauses the schedule for all") {
    Nodes nodes(2);
    nodes.put("s", Overlap::skip, true);
    const JobId job = nodes.fire(0, "s");
    nodes.compare(1);  // it does not know the queue
    Finish finish = Nodes::complete(nodes.claim(1));
    finish.results[0].outcome = Dead{"r", ""};
    nodes.one<FinishResult>(1, finish);
    CHECK(nodes[1].schedule("s")->paused);
    nodes.compare(0);
    CHECK(nodes[0].schedule("s")->paused_reason == fmt::format("job {} is dead", job));
  }
}

// -- all at once ----------------------------------------------------------------------------------

const std::vector<std::string> kNames = {"skip", "one", "all", "cancel", "terminate", "allow"};

// A random next operation of a node, with jobs that it has claimed.
std::vector<Operation> any_batch(std::mt19937_64& random, std::vector<ClaimedJob>& mine,
                                 JobId newest) {
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::vector<Operation> batch;
  for (std::uint64_t i = 0, size = 1 + below(4); i < size; ++i) {
    const auto dice = below(20);
    const std::string& name = kNames[below(kNames.size())];
    if (dice < 8) {
      batch.emplace_back(Nodes::trigger(name));
    } else if (dice < 11) {
      batch.emplace_back(Claim{.worker = "w", .queues = {"q"}, .max = 3});
    } else if (dice < 17 && !mine.empty()) {
      Finish finish = Nodes::complete(mine.back());
      if (below(6) == 0) finish.results[0].outcome = Dead{"r", ""};
      mine.pop_back();
      batch.emplace_back(std::move(finish));
    } else if (dice == 17 && newest > 0) {
      batch.emplace_back(Cancel{.id = newest - static_cast<JobId>(below(5)), .reason = "test"});
    } else if (dice == 18 && newest > 0) {
      batch.emplace_back(RetryJob{newest - static_cast<JobId>(below(5))});
    } else if (below(8) == 0) {
      batch.emplace_back(RemoveSchedule{name});
    } else {
      batch.emplace_back(PauseSchedule{name, below(2) == 0, ""});
    }
  }
  return batch;
}

TEST_CASE("with any concurrent operations of nodes no job waits forever, and each tick has a row") {
  constexpr int kNodes = 3, kBatches = 150;
  // Random batches lock the same rows in every order: rolled back batches are repeated.
  must(the_cluster().set("deadlock_timeout", "10ms"));
  Nodes nodes(kNodes);
  const auto put_all = [&] {
    for (std::size_t i = 0; i < kNames.size(); ++i)
      nodes.put(kNames[i], static_cast<Overlap>(i), i % 2 == 0);
  };
  put_all();
  std::vector<std::jthread> threads;
  std::vector<std::vector<ClaimedJob>> claimed(kNodes);
  std::atomic<JobId> newest{0};
  std::atomic<int> failed{0};
  for (std::size_t node = 0; node < kNodes; ++node) {
    threads.emplace_back([&, node] {
      std::mt19937_64 random(7 + node);
      for (int i = 0; i < kBatches; ++i) {
        auto report =
            nodes[node].apply(any_batch(random, claimed[node], newest), nodes.clock.now());
        if (!report) {
          ++failed;
          continue;
        }
        for (const OperationResult& result : report->results) {
          if (const auto* fired = std::get_if<FireResult>(&result))
            newest = std::max(newest.load(), fired->jobs.at(0));
          if (const auto* found = std::get_if<ClaimResult>(&result))
            claimed[node].insert(claimed[node].end(), found->jobs.begin(), found->jobs.end());
        }
      }
    });
  }
  threads.clear();
  CHECK(failed == 0);
  for (const auto& mine : claimed) {
    for (const ClaimedJob& job : mine) nodes.one<FinishResult>(0, Nodes::complete(job));
  }
  for (int i = 0; i < 10'000; ++i) {
    auto jobs = nodes.one<ClaimResult>(1, Claim{.worker = "w", .queues = {"q"}, .max = 50}).jobs;
    if (jobs.empty()) break;
    for (const ClaimedJob& job : jobs) nodes.one<FinishResult>(2, Nodes::complete(job));
  }
  const auto queues = must(nodes[0].queues());
  REQUIRE(queues.size() == 1);
  for (const JobState live : {JobState::waiting, JobState::available, JobState::running})
    CHECK(queues[0].counts[static_cast<std::size_t>(live)] == 0);
  nodes.compare(0);
  const auto left = must(nodes[0].schedules("", 99));
  for (const ScheduleInfo& info : left) {
    CHECK(info.live.empty());
    CHECK(info.buffered == 0);
  }
}

}  // namespace
}  // namespace mainspring::pg_testing
