// Brokers of two nodes over one database, for their tests.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <semaphore>
#include <set>
#include <thread>

#include "base/mutex.h"
#include "broker/broker.h"
#include "disk_sqlite/sqlite_store.h"

namespace mainspring {

using namespace std::chrono_literals;

// A clock that only moves when it is set; thread-safe.
class SharedClock final : public Clock {
 public:
  Now now() const override {
    const MutexLock lock(mutex_);
    return clock_.now();
  }
  void advance(Duration d) {
    const MutexLock lock(mutex_);
    clock_.advance(d);
  }

 private:
  mutable Mutex mutex_;
  ManualClock clock_ MS_GUARDED_BY(mutex_);
};

// One database, which can be unreachable.
struct Database {
  std::unique_ptr<Store> store;
  bool away = false;
  std::function<void()> slow;  // called by each commit
  int tries = 0;               // accesses while it was unreachable
  Mutex one;                   // one connection at a time: the store is not thread-safe
};

// A node's view of the database. Which queues have work is a hint, from its own batches, from other
// nodes, and from a refresh.
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
    blocked_ = std::any_of(batch.begin(), batch.end(), [this](const Operation& operation) {
      const auto* enqueue = std::get_if<Enqueue>(&operation);
      return enqueue != nullptr && !enqueue->jobs.empty() &&
             enqueue->jobs.front().queue == locked_queue;
    });
    if (blocked_) return Error{.code = ErrorCode::unavailable, .message = "locked"};
    auto report = [&] {
      const MutexLock lock(db_.one);
      return store().apply(batch, now);
    }();
    if (!report || batch.empty()) return report;  // only counts, by a poll or a stop
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
  void heard(const ChangeHints& what) override {
    known_.insert(what.queues.begin(), what.queues.end());
    released_.insert(what.released.begin(), what.released.end());
    due_ = std::min(due_, what.next_due);
  }
  ChangeHints take_news() override { return std::exchange(news_, {}); }
  Result<ChangeHints> refresh(Now) override {
    ++refreshes;
    if (db_.away) return unreachable();
    ChangeHints found;
    found.fold_failed = fold_failed;
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
  bool blocked() const override { return blocked_; }
  std::string fold_failed;
  std::string locked_queue = "~none";  // by a transaction of another client

  Agenda agenda() const override {
    const MutexLock lock(db_.one);
    Agenda agenda = store().agenda();
    agenda.next_due = std::min(agenda.next_due, due_);
    return agenda;
  }
  bool has_available(const std::string& queue) const override {
    const MutexLock lock(db_.one);
    return known_.contains(queue) && store().has_available(queue);
  }
  std::vector<std::string> available_queues(std::string_view prefix, std::string_view after,
                                            std::size_t limit) const override {
    const MutexLock lock(db_.one);
    std::vector<std::string> out = store().available_queues(prefix, after, limit);
    std::erase_if(out, [&](const std::string& queue) { return !known_.contains(queue); });
    return out;
  }
  Instant lease_free_at(const std::string& name) const override {
    const MutexLock lock(db_.one);
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
  Result<DueHours> due_by_hour(WallTime from, WallTime to, const Within& within) const override {
    return store().due_by_hour(from, to, within);
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
  void offer_history(HistoryRowsPtr rows, HistoryWrite when) override {
    const MutexLock lock(db_.one);
    store().offer_history(std::move(rows), when);
  }
  Result<std::vector<HistoryCounts>> history(const HistoryRead& read, WallTime now) const override {
    return store().history(read, now);
  }
  Result<RecentCounts> recent(WallTime from) const override { return store().recent(from); }
  Result<MarkPage> marks(const MarkFilter& filter) const override { return store().marks(filter); }
  Result<std::vector<SavedView>> views() const override { return store().views(); }
  Result<std::vector<JobFact>> facts(const std::vector<JobId>& ids) const override {
    return store().facts(ids);
  }
  Result<VerifyReport> verify() const override { return store().verify(); }
  Result<void> backup(const std::string& directory) const override {
    return store().backup(directory);
  }
  std::int64_t commits() const override { return store().commits(); }
  std::int64_t reads() const override { return store().reads(); }

  void forget_claims(const std::vector<std::pair<JobId, Token>>& completed) override {
    gone.insert(gone.end(), completed.begin(), completed.end());
  }

  int refreshes = 0;
  std::atomic<int> batches = 0;
  std::function<void()> slow;     // called by each of its commits
  bool looks_at_nothing = false;  // as a writer that does not find the given job
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
  bool blocked_ = false;
  std::set<std::string> known_, released_;
  WallTime due_ = WallTime::never();
  ChangeHints news_;
};

struct Nodes {
  struct Node {
    Node(Database& database, const Clock& clock, Log& log) : store(database), random(7) {
      broker = std::make_unique<Broker>(store, clock, log, registry);
      broker->share(store, random, [this](const ChangeHints& what) { notified.push_back(what); });
    }
    NodeStore store;
    SeededRandom random;
    Registry registry;
    std::vector<ChangeHints> notified;
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
  // Steps until it wants to wait; returns until when. Fails if it never waits.
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
  // Passes the hints of a to b.
  void carry() {
    for (const ChangeHints& what : std::exchange(a->notified, {})) b->broker->hear(what);
    settle(*b);
  }
  std::string directory;
  SharedClock clock;
  NullLog log;
  Database db;
  std::unique_ptr<Node> a, b;
  std::optional<OperationResult> last;
  JobId job = 0;
};

}  // namespace mainspring
