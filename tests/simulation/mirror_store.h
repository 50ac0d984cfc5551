// MirrorStore: runs the store under test and the model in parallel. Every batch goes to both, and
// every answer is compared. After a crash the store must equal the model before or after the batch
// in progress (DUR-4).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "conformance/model_store.h"
#include "simulation/sim_vfs.h"
#include "store/store.h"

namespace mainspring::simulation {

// The state that survives a reopen: the model, and the batch whose outcome a crash left unknown.
struct MirrorMemory {
  std::shared_ptr<ModelDisk> model = make_model_disk();
  std::vector<Operation> open_batch;
  Now open_at{};
  std::map<JobId, Job> pruned;  // in their last state
};

class MirrorStore final : public Store {
 public:
  // `memory`, `disk` outlive it. `broken` receives each difference.
  MirrorStore(std::unique_ptr<Store> real, MirrorMemory& memory, const SimDisk& disk,
              const StoreOptions& options, Now now, std::function<void(std::string)> broken,
              std::function<void(const std::string&)> trace);

  Result<BatchReport> apply(std::span<const Operation> batch, Now now) override;
  Agenda agenda() const override { return real_->agenda(); }
  bool has_available(const std::string& queue) const override {
    return real_->has_available(queue);
  }
  std::vector<std::string> available_queues(std::string_view prefix, std::string_view after,
                                            std::size_t limit) const override {
    return real_->available_queues(prefix, after, limit);
  }
  std::vector<std::pair<std::string, int>> due_queues(WallTime now, int limit) const override {
    return real_->due_queues(now, limit);
  }
  Instant lease_free_at(const std::string& name) const override {
    return real_->lease_free_at(name);
  }
  Result<ScheduleInfo> schedule(const std::string& name) const override {
    return real_->schedule(name);
  }
  Result<std::vector<ScheduleInfo>> schedules(const std::string& after, int limit) const override {
    return real_->schedules(after, limit);
  }
  Result<DueHours> due_by_hour(WallTime from, WallTime to, const Within& within) const override {
    return real_->due_by_hour(from, to, within);
  }
  Result<std::vector<ScheduleInfo>> due_schedules(WallTime now, int limit) const override {
    return real_->due_schedules(now, limit);
  }
  Result<LedgerPage> ledger(const std::string& name, int limit,
                            std::int64_t before) const override {
    return real_->ledger(name, limit, before);
  }
  Result<LeaseInfo> lease(const std::string& name, Instant now) const override {
    return real_->lease(name, now);
  }
  Result<std::vector<LeaseInfo>> leases(const std::string& after, int limit,
                                        Instant now) const override {
    return real_->leases(after, limit, now);
  }
  Result<Job> get(JobId id) const override { return real_->get(id); }
  Result<JobPage> list(const JobFilter& filter, int limit, JobId before) const override {
    return real_->list(filter, limit, before);
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
  Result<AuditPage> audit(const AuditFilter& filter, AuditOrder order, int limit,
                          std::int64_t from) const override {
    return real_->audit(filter, order, limit, from);
  }
  AuditState audit_state() const override { return real_->audit_state(); }
  Result<VerifyReport> verify() const override { return real_->verify(); }
  Result<void> backup(const std::string& directory) const override {
    return real_->backup(directory);
  }
  std::int64_t commits() const override { return real_->commits(); }
  std::int64_t reads() const override { return real_->reads(); }

  // The process is gone: later batches fail and change nothing.
  void die() { dead_ = true; }
  std::int64_t batches() const { return batches_; }
  // Called after each batch with its answers, or nullptr if its outcome is unknown.
  using Observer = std::function<void(std::span<const Operation>, const BatchReport*, Now)>;
  void observe(Observer observer) { observer_ = std::move(observer); }
  // Compares everything and verifies.
  void look() const;
  const Store& model() const { return *model_; }

 private:
  void open_model(Now now, ModelOpening how) {
    model_ = open_model_store(memory_.model, options_, now, how);
  }
  void recover(Now now);
  void note_pruned(const Store& before, const Store& after);
  bool ask_keys(Store& after, Now now, bool& is_after);
  Agenda model_agenda(WallTime now) const;
  // "" or the difference.
  std::string follow(std::span<const Operation> batch, const BatchReport& report, Now now);

  std::unique_ptr<Store> real_;
  MirrorMemory& memory_;
  const SimDisk& disk_;
  StoreOptions options_;
  std::function<void(std::string)> broken_;
  std::function<void(const std::string&)> trace_;
  Observer observer_ = [](std::span<const Operation>, const BatchReport*, Now) {};
  std::unique_ptr<Store> model_;
  bool dead_ = false;
  std::int64_t batches_ = 0;
};

}  // namespace mainspring::simulation
