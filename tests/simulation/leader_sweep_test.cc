// Kills the leader at every batch with a write of its duties: before the store sees the batch, or
// after the commit and before the answer. Each time another leader continues, no job is lost and no
// tick is doubled.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <set>

#include "broker/broker.h"
#include "broker/schedule_plans.h"
#include "disk_sqlite/sqlite_store.h"
#include "env/clock.h"
#include "scheduler/scheduler.h"
#include "simulation/sim_vfs.h"

using namespace mainspring;
using namespace mainspring::simulation;
using namespace std::chrono_literals;

namespace {

// The fence of an operation of the duties, or nullptr.
const Fence* fence_of(const Operation& operation) {
  return std::visit(
      [](const auto& op) -> const Fence* {
        if constexpr (requires { op.limit, op.fence; }) return &op.fence;
        if constexpr (std::is_same_v<std::decay_t<decltype(op)>, FireSchedule>) return &op.fence;
        return nullptr;
      },
      operation);
}

enum class Moment : std::uint8_t { before_the_store, after_the_commit };

// A store that counts the batches with duties, and loses the duties of one batch.
class Sluice final : public Store {
 public:
  Sluice(std::unique_ptr<Store> real, std::int64_t kill_at, Moment moment)
      : real_(std::move(real)), kill_at_(kill_at), moment_(moment) {}

  Result<BatchReport> apply(std::span<const Operation> batch, Now now) override {
    std::vector<Operation> kept;
    std::vector<bool> is_duty;
    for (const Operation& operation : batch) {
      const Fence* fence = fence_of(operation);
      is_duty.push_back(fence != nullptr && !fence->lease.empty());
    }
    const bool works = std::find(is_duty.begin(), is_duty.end(), true) != is_duty.end();
    works_ += works ? 1 : 0;
    const bool now_it_dies = works && works_ == kill_at_;
    killed_ = killed_ || now_it_dies;
    if (!now_it_dies || moment_ == Moment::after_the_commit) return real_->apply(batch, now);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (!is_duty[i]) kept.push_back(batch[i]);
    }
    auto report = real_->apply(kept, now);
    if (!report) return report;
    std::vector<OperationResult> results;
    for (std::size_t i = 0, next = 0; i < batch.size(); ++i) {
      if (is_duty[i]) {  // lost: the caller is dead
        results.emplace_back(Error{.code = ErrorCode::unavailable, .message = "lost"});
      } else {
        results.push_back(std::move(report->results[next++]));
      }
    }
    report->results = std::move(results);
    return report;
  }
  bool killed() const { return killed_; }

  Agenda agenda() const override { return real_->agenda(); }
  bool has_available(const std::string& q) const override { return real_->has_available(q); }
  std::vector<std::pair<std::string, int>> due_queues(WallTime now, int limit) const override {
    return real_->due_queues(now, limit);
  }
  Instant lease_free_at(const std::string& n) const override { return real_->lease_free_at(n); }
  Result<ScheduleInfo> schedule(const std::string& n) const override { return real_->schedule(n); }
  Result<std::vector<ScheduleInfo>> schedules(const std::string& a, int l) const override {
    return real_->schedules(a, l);
  }
  Result<DueHours> due_by_hour(WallTime from, WallTime to, const Within& within) const override {
    return real_->due_by_hour(from, to, within);
  }
  Result<std::vector<ScheduleInfo>> due_schedules(WallTime now, int limit) const override {
    return real_->due_schedules(now, limit);
  }
  Result<LedgerPage> ledger(const std::string& n, int l, std::int64_t b) const override {
    return real_->ledger(n, l, b);
  }
  Result<LeaseInfo> lease(const std::string& n, Instant now) const override {
    return real_->lease(n, now);
  }
  Result<std::vector<LeaseInfo>> leases(const std::string& a, int l, Instant now) const override {
    return real_->leases(a, l, now);
  }
  Result<Job> get(JobId id) const override { return real_->get(id); }
  Result<JobPage> list(const JobFilter& f, int l, JobId b) const override {
    return real_->list(f, l, b);
  }
  Result<std::vector<QueueStats>> queues() const override { return real_->queues(); }
  Result<SessionInfo> session(const SessionKey& session, Instant now) const override {
    return real_->session(session, now);
  }
  Result<SessionPage> sessions(const std::string& queue, const SessionKey& after, int limit,
                               Instant now) const override {
    return real_->sessions(queue, after, limit, now);
  }
  Result<TriggerInfo> trigger(const std::string& name) const override {
    return real_->trigger(name);
  }
  Result<std::vector<TriggerInfo>> triggers(const std::string& after, int limit) const override {
    return real_->triggers(after, limit);
  }
  Result<TriggerEventPage> trigger_events(const std::string& name, int limit,
                                          std::int64_t before) const override {
    return real_->trigger_events(name, limit, before);
  }
  Result<WorkflowInfo> workflow(WorkflowId id) const override { return real_->workflow(id); }
  Result<WorkflowPage> workflows(const WorkflowFilter& filter, int limit,
                                 WorkflowId before) const override {
    return real_->workflows(filter, limit, before);
  }
  Result<WorkflowStepPage> workflow_steps(WorkflowId id, int after, int limit) const override {
    return real_->workflow_steps(id, after, limit);
  }
  Result<std::int64_t> ahead(const Job& job, std::int64_t limit) const override {
    return real_->ahead(job, limit);
  }
  Result<std::int64_t> ahead_of_key(const Job& job, std::int64_t limit) const override {
    return real_->ahead_of_key(job, limit);
  }
  Result<LimitKeyInfo> limit_key(const std::string& queue, const std::string& key) const override {
    return real_->limit_key(queue, key);
  }
  Result<std::vector<BreakerInfo>> breakers(WallTime now) const override {
    return real_->breakers(now);
  }
  Result<MemoPage> memos(JobId id, const std::string& from, int limit) const override {
    return real_->memos(id, from, limit);
  }
  std::shared_ptr<const Tokens> tokens() const override { return real_->tokens(); }
  std::int64_t tokens_version() const override { return real_->tokens_version(); }
  Result<AuditPage> audit(const AuditFilter& f, AuditOrder o, int l,
                          std::int64_t from) const override {
    return real_->audit(f, o, l, from);
  }
  AuditState audit_state() const override { return real_->audit_state(); }
  Result<VerifyReport> verify() const override { return real_->verify(); }
  Result<void> backup(const std::string& d) const override { return real_->backup(d); }
  std::int64_t commits() const override { return real_->commits(); }
  std::int64_t reads() const override { return real_->reads(); }

 private:
  std::unique_ptr<Store> real_;
  const std::int64_t kill_at_;
  const Moment moment_;
  std::int64_t works_ = 0;
  bool killed_ = false;
};

constexpr int kJobs = 12;
constexpr Duration kRun = 40s;

struct Run {
  Run(std::int64_t kill_at, Moment moment) {
    static int count = 0;
    disk = std::make_unique<SimDisk>(fmt::format("leader{}", ++count), 1);
    SqliteOptions options{.directory = "/sim", .vfs = disk->vfs()};
    options.guard_files = false;
    auto real = open_sqlite_store(options, clock.now(), log);
    REQUIRE(real.has_value());
    store = std::make_unique<Sluice>(std::move(*real), kill_at, moment);
    broker = std::make_unique<Broker>(*store, clock, log, registry);
    for (int i = 0; i < 2; ++i) {
      nodes.push_back(std::make_unique<Scheduler>(
          *broker, clock, log, registry,
          SchedulerOptions{.incarnation = fmt::format("node{}", i), .batch = 2}));
    }
  }
  ~Run() {
    broker->stop();
    nodes.clear();
    broker.reset();
    store.reset();
  }
  Instant settle() {
    constexpr int kMaxRounds = 1000;
    for (int round = 0; round < kMaxRounds; ++round) {
      const auto commits = store->commits();
      Instant next = Instant::never();
      for (int i = 0; i < 2; ++i) {
        for (std::size_t n = 0; n < nodes.size(); ++n) {
          if (n != dead) next = std::min(next, nodes[n]->step(clock.now()));
          const bool killed = store->killed();
          const std::size_t leader = leading();
          next = std::min(next, broker->step(clock.now()));
          if (!killed && store->killed()) dead = leader;
        }
      }
      if (next > clock.now().instant && store->commits() == commits) return next;
    }
    FAIL("broker and schedulers do not come to rest");
    return Instant::never();
  }
  std::size_t leading() const {
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if (n != dead && nodes[n]->leads(clock.now().instant)) return n;
    }
    return kNobody;
  }
  void run_for(Duration time) {
    const Instant end = clock.now().instant + time;
    while (clock.now().instant < end) {
      const Instant next = std::min(settle(), end);
      clock.advance(std::max(next - clock.now().instant, Duration(1)));
    }
    settle();
  }
  void submit(Operation operation) {
    broker->submit(std::move(operation),
                   [](OperationResult r) { CHECK_FALSE(std::holds_alternative<Error>(r)); });
    settle();
  }

  static constexpr std::size_t kNobody = 99;
  std::size_t dead = kNobody;
  ManualClock clock;
  NullLog log;
  Registry registry;
  std::unique_ptr<SimDisk> disk;
  std::unique_ptr<Sluice> store;
  std::unique_ptr<Broker> broker;
  std::vector<std::unique_ptr<Scheduler>> nodes;
};

void put_work(Run& run) {
  for (int i = 0; i < kJobs; ++i) {
    Enqueue request;
    request.jobs = {NewJob{.queue = "due", .kind = "work", .delay = i * 3s}};
    run.submit(std::move(request));
  }
  Schedule schedule{.name = "tick", .every = 5s};
  schedule.job.queue = "ticks";
  schedule.job.kind = "work";
  schedule.overlap = Overlap::allow;
  schedule.misfire = Misfire::all;
  auto put = plan_put(schedule, std::nullopt, run.clock.now().wall);
  REQUIRE(put.has_value());
  run.submit(std::move(*put));
}

void check_all(Run& run, std::int64_t made_by) {
  std::map<std::string, QueueStats> queues;
  const auto all = run.store->queues();
  REQUIRE(all.has_value());
  for (const QueueStats& queue : *all) queues[queue.name] = queue;
  const auto available = static_cast<std::size_t>(JobState::available);
  CHECK(queues["due"].counts[available] == kJobs);
  const auto page = run.store->ledger("tick", 1000, 0);
  REQUIRE(page.has_value());
  std::set<std::int64_t> nominals;
  for (const LedgerRow& row : page->rows) {
    CHECK(row.state == TickState::fired);
    CHECK(nominals.insert(row.nominal.us()).second);
  }
  CHECK(static_cast<std::int64_t>(nominals.size()) == made_by);
  CHECK(queues["ticks"].counts[available] == made_by);
  if (!nominals.empty())
    CHECK(*nominals.rbegin() - *nominals.begin() == (made_by - 1) * Duration(5s).count());
  CHECK(run.store->verify()->problems.empty());
}

}  // namespace

TEST_CASE("T4: the leader dies at any write of its duties: nothing is lost, no tick is doubled") {
  for (const Moment moment : {Moment::before_the_store, Moment::after_the_commit}) {
    bool killed = true;
    int deaths = 0;
    for (std::int64_t k = 1; killed; ++k) {
      CAPTURE(k);
      Run run(k, moment);
      run.settle();
      put_work(run);
      run.run_for(kRun);
      killed = run.store->killed();
      deaths += killed ? 1 : 0;
      run.run_for(15s);  // a takeover at the very end
      check_all(run, (kRun + 15s) / 5s);
    }
    CHECK(deaths >= 15);
  }
}
