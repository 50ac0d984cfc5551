// Brokers of several nodes over one store: what one does, the others hear of; an outage is waited
// out.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <mutex>
#include <semaphore>
#include <set>
#include <thread>

#include "broker/broker.h"
#include "store_sqlite/sqlite_store.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

// One database, which can be away.
struct Database {
  std::unique_ptr<Store> store;
  bool away = false;
  std::function<void()> slow;  // called by each commit
  int tries = 0;               // asked while it was away
  std::mutex one;              // connection at a time: the store is for one thread
};

// What one node knows of it: which queues have work is a hint, made by its own batches, by what it
// hears, and by a refresh.
class NodeStore final : public SharedStore {
 public:
  explicit NodeStore(Database& database) : db_(database) {}

  Result<BatchReport> apply(std::span<const Operation> batch, Now now) override {
    if (db_.away) return unreachable();
    if (looks_at_nothing) {
      batches.fetch_add(1);
      if (slow) slow();
      BatchReport report;
      for (const Operation& operation : batch) {
        const std::size_t size = std::get<Finish>(operation).results.size();
        report.results.emplace_back(
            FinishResult{.results = std::vector<FinishStatus>(size, FinishStatus::stale)});
      }
      return report;
    }
    auto report = [&] {
      const std::lock_guard lock(db_.one);
      return store().apply(batch, now);
    }();
    if (!report) return report;
    if (db_.slow) db_.slow();
    batches.fetch_add(1);
    if (slow) slow();
    for (const Operation& operation : batch) {
      const auto* enqueue = std::get_if<Enqueue>(&operation);
      if (enqueue == nullptr) continue;
      for (const NewJob& job : enqueue->jobs) note(job.queue);
    }
    for (const std::string& queue : report->effects.available) note(queue);
    return report;
  }
  void heard(const Heard& what) override {
    known_.insert(what.queues.begin(), what.queues.end());
    released_.insert(what.released.begin(), what.released.end());
    due_ = std::min(due_, what.next_due);
  }
  Heard take_news() override { return std::exchange(news_, {}); }
  Result<Heard> refresh(Now) override {
    ++refreshes;
    if (db_.away) return unreachable();
    Heard found;
    const auto queues_now = *store().queues();
    for (const QueueStats& queue : queues_now) {
      if (store().has_available(queue.name) && known_.insert(queue.name).second)
        found.queues.push_back(queue.name);
    }
    return found;
  }
  std::int64_t node_number() const override { return 1; }
  Result<Durability> durability() const override { return Durability{}; }
  bool away() const override { return db_.away; }

  Agenda agenda() const override {
    const std::lock_guard lock(db_.one);
    Agenda agenda = store().agenda();
    agenda.next_due = std::min(agenda.next_due, due_);
    return agenda;
  }
  bool has_available(const std::string& queue) const override {
    const std::lock_guard lock(db_.one);
    return known_.contains(queue) && store().has_available(queue);
  }
  Instant lease_free_at(const std::string& name) const override {
    const std::lock_guard lock(db_.one);
    return released_.contains(name) ? Instant() : store().lease_free_at(name);
  }
  Result<Job> get(JobId id) const override { return store().get(id); }
  Result<JobPage> list(const JobFilter& filter, int limit, JobId before) const override {
    return store().list(filter, limit, before);
  }
  Result<std::vector<QueueStats>> queues() const override { return store().queues(); }
  Result<ScheduleInfo> schedule(const std::string& name) const override {
    return store().schedule(name);
  }
  Result<std::vector<ScheduleInfo>> schedules(const std::string& after, int limit) const override {
    return store().schedules(after, limit);
  }
  Result<std::vector<ScheduleInfo>> due_schedules(WallTime now, int limit) const override {
    return store().due_schedules(now, limit);
  }
  Result<LedgerPage> ledger(const std::string& name, int limit,
                            std::int64_t before) const override {
    return store().ledger(name, limit, before);
  }
  Result<LeaseInfo> lease(const std::string& name, Instant now) const override {
    return store().lease(name, now);
  }
  Result<std::vector<LeaseInfo>> leases(const std::string& after, int limit,
                                        Instant now) const override {
    return store().leases(after, limit, now);
  }
  Result<SessionInfo> session(const SessionKey& session, Instant now) const override {
    return store().session(session, now);
  }
  Result<SessionPage> sessions(const std::string& queue, const SessionKey& after, int limit,
                               Instant now) const override {
    return store().sessions(queue, after, limit, now);
  }
  Result<TriggerInfo> trigger(const std::string& name) const override {
    return store().trigger(name);
  }
  Result<std::vector<TriggerInfo>> triggers(const std::string& after, int limit) const override {
    return store().triggers(after, limit);
  }
  Result<TriggerEventPage> trigger_events(const std::string& name, int limit,
                                          std::int64_t before) const override {
    return store().trigger_events(name, limit, before);
  }
  Result<std::int64_t> ahead(const Job& job, std::int64_t limit) const override {
    return store().ahead(job, limit);
  }
  Result<std::int64_t> ahead_of_key(const Job& job, std::int64_t limit) const override {
    return store().ahead_of_key(job, limit);
  }
  Result<LimitKeyInfo> limit_key(const std::string& queue, const std::string& key) const override {
    return store().limit_key(queue, key);
  }
  Result<std::vector<BreakerInfo>> breakers(WallTime now) const override {
    return store().breakers(now);
  }
  Result<MemoPage> memos(JobId id, const std::string& from, int limit) const override {
    return store().memos(id, from, limit);
  }
  Result<WorkflowInfo> workflow(WorkflowId id) const override { return store().workflow(id); }
  Result<WorkflowPage> workflows(const WorkflowFilter& filter, int limit,
                                 WorkflowId before) const override {
    return store().workflows(filter, limit, before);
  }
  Result<WorkflowStepPage> workflow_steps(WorkflowId id, int after, int limit) const override {
    return store().workflow_steps(id, after, limit);
  }
  std::shared_ptr<const Tokens> tokens() const override { return store().tokens(); }
  std::int64_t tokens_version() const override { return store().tokens_version(); }
  Result<AuditPage> audit(const AuditFilter& filter, AuditOrder order, int limit,
                          std::int64_t from) const override {
    return store().audit(filter, order, limit, from);
  }
  AuditState audit_state() const override { return store().audit_state(); }
  Result<VerifyReport> verify() const override { return store().verify(); }
  Result<void> backup(const std::string& directory) const override {
    return store().backup(directory);
  }
  std::int64_t commits() const override { return store().commits(); }
  std::int64_t reads() const override { return store().reads(); }

  void let_go(const std::vector<std::pair<JobId, Token>>& completed) override {
    gone.insert(gone.end(), completed.begin(), completed.end());
  }

  int refreshes = 0;
  std::atomic<int> batches = 0;
  std::function<void()> slow;     // called by each of its commits
  bool looks_at_nothing = false;  // as a lane that finds no job as it was told
  std::vector<std::pair<JobId, Token>> gone;

 private:
  Store& store() const { return *db_.store; }
  void note(const std::string& queue) {
    known_.insert(queue);
    if (std::find(news_.queues.begin(), news_.queues.end(), queue) == news_.queues.end())
      news_.queues.push_back(queue);
  }
  Error unreachable() {
    ++db_.tries;
    return Error{.code = ErrorCode::unavailable,
                 .message = "the database cannot be reached",
                 .retry_after_ms = 1000};
  }
  Database& db_;
  std::set<std::string> known_, released_;
  WallTime due_ = WallTime::never();
  Heard news_;
};

struct Nodes {
  struct Node {
    Node(Database& database, const Clock& clock, Log& log) : store(database), random(7) {
      broker = std::make_unique<Broker>(store, clock, log, registry);
      broker->share(store, random, [this](const Heard& what) { told.push_back(what); });
    }
    NodeStore store;
    SeededRandom random;
    Registry registry;
    std::vector<Heard> told;
    std::unique_ptr<Broker> broker;
  };

  Nodes() {
    char name[] = "/tmp/mainspring_test_XXXXXX";
    directory = mkdtemp(name);
    db.store = std::move(
        *open_sqlite_store({.directory = directory, .reserve_bytes = 0}, clock.now(), log));
    a = std::make_unique<Node>(db, clock, log);
    b = std::make_unique<Node>(db, clock, log);
    settle(*a);
    settle(*b);
  }
  ~Nodes() {
    a.reset();
    b.reset();
    db.store.reset();
    std::filesystem::remove_all(directory);
  }
  // Steps until it wants to wait; returns until when. A node that never does is a finding.
  Instant settle(Node& node) {
    for (int i = 0; i < 100; ++i) {
      const Instant next = node.broker->step(clock.now());
      if (next > clock.now().instant) return next;
    }
    FAIL("a step that never waits");
    return {};
  }
  void enqueue(Node& node, int count = 1) {
    Enqueue request;
    request.jobs.assign(static_cast<std::size_t>(count), NewJob{.queue = "q", .kind = "work"});
    node.broker->submit(std::move(request), [this](const OperationResult& result) {
      last = result;
      if (const auto* done = std::get_if<EnqueueResult>(&result)) job = done->jobs.front().id;
    });
    settle(node);
  }
  using Answered = std::shared_ptr<std::optional<OperationResult>>;
  Answered claim(Node& node, Duration wait = 20s) {
    auto slot = std::make_shared<std::optional<OperationResult>>();
    node.broker->submit_claim({.worker = "w", .queues = {"q"}, .max = 1}, wait,
                              [slot](OperationResult result) { *slot = std::move(result); });
    settle(node);
    return slot;
  }
  Answered acquire(Node& node, const std::string& holder, Duration wait = 20s) {
    auto slot = std::make_shared<std::optional<OperationResult>>();
    node.broker->submit_acquire({.name = "l", .holder = holder, .ttl = 1min}, wait,
                                [slot](OperationResult result) { *slot = std::move(result); });
    settle(node);
    return slot;
  }
  static std::size_t jobs(const Answered& answered) {
    REQUIRE(answered->has_value());
    return std::get<ClaimResult>(**answered).jobs.size();
  }
  // What a told b.
  void carry() {
    for (const Heard& what : std::exchange(a->told, {})) b->broker->hear(what);
    settle(*b);
  }
  std::string directory;
  ManualClock clock;
  NullLog log;
  Database db;
  std::unique_ptr<Node> a, b;
  std::optional<OperationResult> last;
  JobId job = 0;
};

}  // namespace

TEST_CASE_FIXTURE(Nodes, "a job enqueued on one node wakes a claim that is parked on another") {
  const auto got = claim(*b);
  CHECK_FALSE(got->has_value());
  enqueue(*a);
  REQUIRE(a->told.size() == 1);
  CHECK(a->told[0].queues == std::vector<std::string>{"q"});
  settle(*b);
  CHECK_FALSE(got->has_value());  // nobody told it
  carry();
  CHECK(jobs(got) == 1);
}

TEST_CASE_FIXTURE(Nodes, "an end that is heard of another node is told to those who listen here") {
  const auto listener = b->broker->events().listen(1);
  enqueue(*a);
  const auto got = claim(*a);
  const ClaimedJob running = std::get<ClaimResult>(**got).jobs.at(0);
  a->broker->submit(Finish{.worker = "w", .results = {{running.id, running.token, Complete{}}}},
                    [](const OperationResult&) {});
  settle(*a);
  CHECK(b->broker->events().newest() == 0);
  carry();
  const auto page = b->broker->events().read(0, 10);
  REQUIRE(page.events.size() == 1);
  CHECK(page.events[0]->type == EventType::completed);
  CHECK(page.events[0]->job == running.id);
  CHECK(page.events[0]->facts->queue == "q");
  CHECK(a->broker->events().recorded() == 0);  // nobody listens there
}

TEST_CASE_FIXTURE(Nodes, "a cancel on one node is told over the claim that is parked on another") {
  enqueue(*b);
  const auto running = claim(*b);
  REQUIRE(jobs(running) == 1);
  const JobId id = std::get<ClaimResult>(**running).jobs[0].id;
  const auto parked = claim(*b);
  CHECK_FALSE(parked->has_value());
  a->broker->submit(Cancel{.id = id, .reason = "enough"}, [](const OperationResult&) {});
  settle(*a);
  CHECK_FALSE(parked->has_value());
  carry();
  REQUIRE(parked->has_value());
  CHECK(std::get<ClaimResult>(**parked).cancel == std::vector<JobId>{id});
  // Whoever has no claim parked is told with the next one.
  a->broker->submit(Cancel{.id = id, .reason = "enough"}, [](const OperationResult&) {});
  settle(*a);
  carry();
  CHECK(std::get<ClaimResult>(**claim(*b)).cancel == std::vector<JobId>{id});
}

TEST_CASE_FIXTURE(Nodes, "words that look like a cancel and are none are passed over") {
  const auto parked = claim(*b);
  for (const char* word : {"mainspring/cancel/", "mainspring/cancel/x/w", "mainspring/cancel/7",
                           "mainspring/cancel/99999999999999999999/w", "mainspring/cancel/-/w"})
    b->broker->hear({.released = {word}});
  settle(*b);
  CHECK_FALSE(parked->has_value());
}

TEST_CASE_FIXTURE(Nodes, "a claim whose commit was slow has so much less of its lease left") {
  enqueue(*a, 3);
  const auto lease_left = [this] { return std::get<ClaimResult>(**claim(*a)).jobs.at(0).lease; };
  CHECK(lease_left() == kDefaultLease);
  db.slow = [this] { clock.advance(12s); };
  CHECK(lease_left() == kDefaultLease - 12s);
  db.slow = [this] { clock.advance(1h); };
  CHECK(lease_left() == 1ms);  // 0 would say that it is not known
}

TEST_CASE_FIXTURE(Nodes, "what a node hands over to its own claims is not told to others") {
  const auto got = claim(*a);
  enqueue(*a);
  CHECK(jobs(got) == 1);
  for (const Heard& told : a->told) CHECK(told.queues.empty());
}

TEST_CASE_FIXTURE(Nodes, "work that nobody told of is found by the poll, within 6 s") {
  const auto got = claim(*b);
  enqueue(*a);
  const Instant next = settle(*b);
  CHECK(next <= clock.now().instant + 6s);
  CHECK(next >= clock.now().instant + 3s);
  clock.advance(6s);
  settle(*b);
  CHECK(jobs(got) == 1);
}

TEST_CASE_FIXTURE(Nodes, "an idle node asks once in 4 to 6 s, however often it is stepped") {
  const int before = b->store.refreshes;
  for (int i = 0; i < 600; ++i) {
    clock.advance(100ms);
    settle(*b);
  }
  CHECK(b->store.refreshes - before >= 60 / 6);
  CHECK(b->store.refreshes - before <= 60 / 4);
}

TEST_CASE_FIXTURE(Nodes, "a bell for nothing leaves the claims parked") {
  const auto got = claim(*b);
  b->broker->hear({.queues = {"q", "elsewhere"}});
  settle(*b);
  CHECK_FALSE(got->has_value());
  CHECK(b->broker->parked_claims() == 1);
  enqueue(*a);
  carry();
  CHECK(jobs(got) == 1);
}

TEST_CASE_FIXTURE(Nodes, "of many parked claims few are tried until work is found, then the rest") {
  std::vector<Answered> parked;
  for (int i = 0; i < 40; ++i) parked.push_back(claim(*b));
  enqueue(*a, 40);
  carry();
  for (const Answered& one : parked) CHECK(jobs(one) == 1);
}

TEST_CASE_FIXTURE(Nodes, "a claim whose node hears that everything may have changed gets its job") {
  const auto got = claim(*b);
  enqueue(*a);
  clock.advance(1s);
  b->broker->hear({.everything = true});
  settle(*b);
  CHECK(jobs(got) == 1);
}

TEST_CASE_FIXTURE(Nodes,
                  "whoever shouts everything makes a node ask no more than ten times a second") {
  const int before = b->store.refreshes;
  for (int i = 0; i < 1000; ++i) {
    clock.advance(1ms);
    b->broker->hear({.everything = true});
    settle(*b);
  }
  CHECK(b->store.refreshes - before <= 11);
}

TEST_CASE_FIXTURE(Nodes, "a lease released on one node is had at once by who waits on another") {
  const auto first = acquire(*a, "a");
  REQUIRE(first->has_value());
  const Token token = std::get<LeaseGrant>(**first).token;
  const auto second = acquire(*b, "b");
  CHECK_FALSE(second->has_value());
  a->broker->submit(ReleaseLease{.name = "l", .holder = "a", .token = token},
                    [](const OperationResult&) {});
  settle(*a);
  CHECK_FALSE(second->has_value());
  carry();
  REQUIRE(second->has_value());
  CHECK(std::holds_alternative<LeaseGrant>(**second));
}

TEST_CASE_FIXTURE(Nodes, "who waits for a job hears that it has ended on another node") {
  enqueue(*a);
  int woken = 0;
  b->broker->watch(job, [&] { ++woken; });
  a->broker->submit(Cancel{.id = job}, [](const OperationResult&) {});
  settle(*a);
  settle(*b);
  SUBCASE("it is told") {
    carry();
    CHECK(woken == 1);
  }
  SUBCASE("nobody told it: it looks") {
    CHECK(woken == 0);
    CHECK(settle(*b) <= clock.now().instant + 1s);
    clock.advance(1s);
    settle(*b);
    CHECK(woken == 1);
  }
}

TEST_CASE_FIXTURE(Nodes, "a node knows whether somebody waits for what others say") {
  int begun = 0;
  b->broker->on_wait([&] { ++begun; });
  const auto submit_claim = [&](const char* queue) {
    b->broker->submit_claim({.worker = "w", .queues = {queue}, .max = 1}, 20s,
                            [](const OperationResult&) {});
    settle(*b);
  };
  const auto submit_acquire = [&](const char* lease) {
    for (const char* holder : {"one", "two"}) {
      b->broker->submit_acquire({.name = lease, .holder = holder, .ttl = 1min}, 20s,
                                [](const OperationResult&) {});
      settle(*b);
    }
  };
  submit_claim("mainspring.own");
  submit_acquire("mainspring/own");
  CHECK_FALSE(b->broker->waits_for_news());
  begun = 0;
  SUBCASE("for a job") {
    submit_claim("q");
  }
  SUBCASE("for a lease") {
    submit_acquire("zz");
  }
  SUBCASE("for a lease whose name comes first") {
    submit_acquire("aa");
  }
  SUBCASE("for the end of a job") {
    b->broker->watch(1, [] {});
  }
  std::shared_ptr<void> listener;
  SUBCASE("for events") {
    listener = b->broker->events().listen(1);
    begun = 1;  // others hear of it by the word that asks for them
  }
  CHECK(b->broker->waits_for_news());
  CHECK(begun == 1);
}

TEST_CASE_FIXTURE(Nodes,
                  "a job due earlier on another node is heard by those who keep the agenda") {
  int changes = 0;
  b->broker->add_agenda_listener([&] { ++changes; });
  b->broker->hear({.next_due = clock.now().wall + 3s});
  settle(*b);
  CHECK(changes == 1);
  CHECK(b->broker->agenda().next_due == clock.now().wall + 3s);
}

TEST_CASE_FIXTURE(Nodes, "while the database is away callers are told when to come again") {
  db.away = true;
  enqueue(*a);
  REQUIRE(last.has_value());
  const auto* error = std::get_if<Error>(&*last);
  REQUIRE(error != nullptr);
  CHECK(error->code == ErrorCode::unavailable);
  CHECK(error->retry_after_ms == 1000);
  db.away = false;
  enqueue(*a);
  CHECK(std::holds_alternative<EnqueueResult>(*last));  // an outage is not fatal
}

TEST_CASE_FIXTURE(Nodes, "a parked claim waits an outage out, and gets its job when it is over") {
  enqueue(*a);
  b->broker->hear({.queues = {"q"}});
  settle(*b);
  db.away = true;
  const auto got = claim(*b, 30s);  // seems to have work: it is tried, and parks
  const auto impatient = claim(*b, 0s);
  CHECK_FALSE(got->has_value());
  REQUIRE(impatient->has_value());
  CHECK(std::get<Error>(**impatient).code == ErrorCode::unavailable);
  const int before = db.tries;
  for (int i = 0; i < 100; ++i) {
    clock.advance(100ms);
    settle(*b);
  }
  CHECK(db.tries - before <= 14);  // 10 s: about once per second, no more
  CHECK_FALSE(got->has_value());
  db.away = false;
  clock.advance(1200ms);
  settle(*b);
  CHECK(jobs(got) == 1);
}

TEST_CASE_FIXTURE(Nodes, "a claim parked all through an outage ends when its own wait does") {
  db.away = true;
  const auto got = claim(*b, 5s);
  clock.advance(5s);
  settle(*b);
  CHECK(jobs(got) == 0);
}

namespace {

// A node with lanes, whose runner can be held in the middle of a commit.
struct Laned : Nodes {
  Laned() : enqueues(db), completions(db) {
    a->broker->add_lane(enqueues, Broker::LaneFor::enqueues);
    a->broker->add_lane(completions, Broker::LaneFor::completions);
    enqueue(*a);
    const auto got = claim(*a);
    claimed = std::get<ClaimResult>(**got).jobs.at(0);
    a->broker->start();
  }
  ~Laned() {
    go_on();
    a->broker->stop();
  }
  // The runner has committed and does not return.
  void hold_the_runner() {
    db.slow = [this, first = std::make_shared<std::atomic<bool>>(true)] {
      if (!first->exchange(false)) return;
      held.release();
      on.acquire();
    };
    a->broker->submit(PauseQueue{.queue = "other"}, [](const OperationResult&) {});
    REQUIRE(held.try_acquire_for(30s));
    holding = true;
  }
  void go_on() {
    if (std::exchange(holding, false)) on.release();
  }
  void finish(std::optional<std::string> session_state = std::nullopt) {
    a->broker->submit(Finish{.worker = "w",
                             .results = {{.id = claimed.id,
                                          .token = claimed.token,
                                          .outcome = Complete{},
                                          .session_state = std::move(session_state)}}},
                      [this](OperationResult result) {
                        answer = std::move(result);
                        answered.release();
                      });
  }
  void enqueue_many(std::binary_semaphore& done) {
    Enqueue request;
    request.jobs.assign(100, NewJob{.queue = "q", .kind = "work"});
    a->broker->submit(std::move(request), [&done](const OperationResult&) { done.release(); });
  }
  NodeStore enqueues, completions;
  ClaimedJob claimed;
  std::binary_semaphore held{0}, on{0}, answered{0};
  bool holding = false;
  std::optional<OperationResult> answer;
};

}  // namespace

TEST_CASE_FIXTURE(Laned, "a job is completed while the runner commits, and its watchers are told") {
  hold_the_runner();
  std::binary_semaphore ended{0};
  a->broker->watch(claimed.id, [&] { ended.release(); });
  finish();
  REQUIRE(answered.try_acquire_for(30s));
  CHECK(std::get<FinishResult>(*answer).results.at(0) == FinishStatus::ok);
  REQUIRE(ended.try_acquire_for(30s));
  go_on();
  a->broker->stop();
  CHECK(a->store.gone == std::vector<std::pair<JobId, Token>>{{claimed.id, claimed.token}});
}

TEST_CASE_FIXTURE(Laned, "a completion that its lane does not do is done by the runner") {
  completions.looks_at_nothing = true;
  hold_the_runner();
  finish();
  CHECK_FALSE(answered.try_acquire());
  go_on();
  REQUIRE(answered.try_acquire_for(30s));
  CHECK(std::get<FinishResult>(*answer).results.at(0) == FinishStatus::ok);
  CHECK(db.store->get(claimed.id)->state == JobState::completed);
}

TEST_CASE_FIXTURE(Laned, "what a lane could not do of a worker's is the runner's for a while") {
  std::counting_semaphore<> tried{0};
  completions.looks_at_nothing = true;
  completions.slow = [&] { tried.release(); };
  hold_the_runner();
  finish();
  REQUIRE(tried.try_acquire_for(30s));
  go_on();
  REQUIRE(answered.try_acquire_for(30s));
  hold_the_runner();
  finish();
  go_on();
  REQUIRE(answered.try_acquire_for(30s));
  CHECK(completions.batches == 1);
  clock.advance(10s);
  hold_the_runner();
  finish();
  REQUIRE(tried.try_acquire_for(30s));
  go_on();
  REQUIRE(answered.try_acquire_for(30s));
}

TEST_CASE_FIXTURE(Laned, "a completion that leaves a state for its session is the runner's") {
  hold_the_runner();
  finish("{}");
  CHECK_FALSE(answered.try_acquire_for(50ms));
  go_on();
  REQUIRE(answered.try_acquire_for(30s));
}

TEST_CASE_FIXTURE(Laned, "a job is enqueued while the runner commits") {
  hold_the_runner();
  a->broker->submit(Enqueue{.jobs = {NewJob{.queue = "q", .kind = "work"}}},
                    [this](OperationResult result) {
                      answer = std::move(result);
                      answered.release();
                    });
  REQUIRE(answered.try_acquire_for(30s));
  CHECK(std::holds_alternative<EnqueueResult>(*answer));
}

TEST_CASE_FIXTURE(Laned, "what a lane commits is told of, once, whoever does it in the end") {
  SUBCASE("the lane") {}
  SUBCASE("the runner") {
    completions.looks_at_nothing = true;
  }
  Events& events = a->broker->events();
  const auto listener = events.listen(1);
  std::binary_semaphore enqueued{0}, paused{0};
  hold_the_runner();
  a->broker->submit(Enqueue{.jobs = {NewJob{.queue = "r", .kind = "work"}}},
                    [&](const OperationResult&) { enqueued.release(); });
  REQUIRE(enqueued.try_acquire_for(30s));
  CHECK(events.newest() == 1);
  finish();
  go_on();
  REQUIRE(answered.try_acquire_for(30s));
  a->broker->submit(PauseQueue{.queue = "last"}, [&](const OperationResult&) { paused.release(); });
  REQUIRE(paused.try_acquire_for(30s));
  std::multiset<std::string> told;
  for (const EventPtr& event : events.read(0, 100).events) {
    const std::string& queue = event->facts->queue;
    told.insert(std::string(to_string(event->type)) + " " + queue);
  }
  CHECK(told == std::multiset<std::string>{"completed q", "enqueued r", "queue_paused last",
                                           "queue_paused other"});
}

TEST_CASE_FIXTURE(Laned, "a hundred jobs are enqueued by the lane although the runner is free") {
  const int before = a->store.batches;
  enqueue_many(answered);
  REQUIRE(answered.try_acquire_for(30s));
  CHECK(enqueues.batches == 1);
  CHECK(a->store.batches == before);
}

TEST_CASE_FIXTURE(Laned, "claims that wait for such jobs get them in the commit that makes them") {
  std::binary_semaphore got{0};
  std::vector<ClaimedJob> jobs;
  a->broker->submit_claim({.worker = "w", .queues = {"q"}, .max = 7}, 20s,
                          [&](OperationResult result) {
                            jobs = std::get<ClaimResult>(result).jobs;
                            got.release();
                          });
  a->broker->agenda();  // behind the step that parks it
  while (a->broker->parked_claims() == 0) std::this_thread::yield();
  const int before = a->store.batches;
  enqueue_many(answered);
  REQUIRE(got.try_acquire_for(30s));
  CHECK(jobs.size() == 7);
  CHECK(enqueues.batches == 0);
  CHECK(a->store.batches == before + 1);
}

TEST_CASE_FIXTURE(Laned, "a hundred completions are done by the lane although the runner is free") {
  enqueue_many(answered);
  REQUIRE(answered.try_acquire_for(30s));
  std::binary_semaphore got{0};
  Finish finish{.worker = "w", .results = {}};
  a->broker->submit_claim({.worker = "w", .queues = {"q"}, .max = 100}, 20s,
                          [&](OperationResult result) {
                            for (const ClaimedJob& one : std::get<ClaimResult>(result).jobs)
                              finish.results.push_back({one.id, one.token, Complete{}});
                            got.release();
                          });
  REQUIRE(got.try_acquire_for(30s));
  REQUIRE(finish.results.size() == 100);
  const int before = a->store.batches;
  a->broker->submit(std::move(finish), [&](OperationResult result) {
    answer = std::move(result);
    answered.release();
  });
  REQUIRE(answered.try_acquire_for(30s));
  CHECK(std::get<FinishResult>(*answer).results ==
        std::vector<FinishStatus>(100, FinishStatus::ok));
  CHECK(completions.batches == 1);
  CHECK(a->store.batches == before);
}

TEST_CASE_FIXTURE(Laned, "a lane that does not come back is not waited for") {
  std::binary_semaphore held_lane{0}, second{0};
  std::atomic<bool> first = true;
  enqueues.slow = [&] {
    if (!first.exchange(false)) return;
    held_lane.release();
    on.acquire();
  };
  enqueue_many(answered);
  REQUIRE(held_lane.try_acquire_for(30s));
  holding = true;
  enqueue_many(second);
  clock.advance(1s);
  CHECK(second.try_acquire_for(30s));
  CHECK(enqueues.batches == 1);
  go_on();
  REQUIRE(answered.try_acquire_for(30s));
}
