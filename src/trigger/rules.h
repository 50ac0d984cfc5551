// The rules of triggers, the same for every store, over rows that a store keeps.
//
// A store keeps one row for each trigger, and numbered rows below it, the ledger, indexed by number
// and by event id.
//
// Threads: those of Store::apply().
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "api/follow_ups.h"
#include "store/operations.h"

namespace mainspring {

// The row of a trigger; the texts as api/trigger_shapes.h encodes them.
struct TriggerRecord {
  std::string name;
  std::string definition, state;
  std::string secret;  // "" = none
  friend bool operator==(const TriggerRecord&, const TriggerRecord&) = default;
};

// What a store checks when a job ends: the triggers on ends, by name.
struct TriggerWatch {
  std::string name;
  EndedSource source;
};
// nullopt: the trigger is not on ends, or its row is unreadable.
std::optional<TriggerWatch> watch_of(const TriggerRecord& record);

class TriggerRows {
 public:
  virtual ~TriggerRows() = default;

  // Also locks it against other nodes, to the end of the transaction.
  virtual std::optional<TriggerRecord> load(const std::string& name) = 0;
  virtual std::int64_t count() = 0;
  // Returns false if another caller has created one of that name since the look-up.
  virtual bool insert(const TriggerRecord& record) = 0;
  virtual void save(const TriggerRecord& record) = 0;
  virtual void save_state(const std::string& name, const std::string& state) = 0;
  virtual void remove(const std::string& name) = 0;  // with its ledger

  virtual std::optional<TriggerEvent> find_event(const std::string& name,
                                                 const std::string& event) = 0;
  virtual void add_event(const std::string& name, const TriggerEvent& event) = 0;
  // Removes rows up to `seq`; returns the latest made_at among them, if any.
  virtual std::optional<WallTime> forget(const std::string& name, std::int64_t seq) = 0;

  // As Enqueue: an EnqueueResult or an Error.
  virtual OperationResult enqueue(const NewJob& job) = 0;

  // For the ends of jobs: the ones of `events` that have a row.
  virtual std::set<std::string> known_events(const std::string& name,
                                             const std::vector<std::string>& events);
  // Creates the jobs, without limits on open jobs. Returns one entry each, in order.
  virtual std::vector<EnqueuedJob> make(const std::vector<NewJob>& jobs) = 0;
  // Like workflow::resolve, which is on the same level as these rules. Errors: invalid_argument,
  // too_large.
  using Names = std::function<std::optional<std::string>(std::string_view name)>;
  virtual Result<std::string> resolve(std::string_view json, const Names& names) = 0;
};

// Reads a store's record. Errors: internal (the store is damaged).
Result<TriggerInfo> read_trigger(const TriggerRecord& record);
Error no_trigger(const std::string& name);

// The store checks the `fence` of a FireTrigger.
class TriggerRules {
 public:
  TriggerRules(TriggerRows& rows, WallTime now) : rows_(rows), now_(now) {}
  // An error of code internal: the store is damaged.
  OperationResult run(const PutTrigger& op);
  OperationResult run(const RemoveTrigger& op);
  OperationResult run(const PauseTrigger& op);
  OperationResult run(const FireTrigger& op);
  // The job that the last run() created; 0 = none.
  JobId made() const { return made_; }

  // Fires triggers for the job ends of a whole batch: `watches` by name, `ends` in order, each job
  // as it was at its end. Nothing is refused: if a job cannot be created, the ledger gets a row
  // with the reason. Returns the created jobs. Errors: internal.
  Result<std::vector<JobId>> run(std::span<const TriggerWatch> watches,
                                 std::span<const EndedJob> ends);

 private:
  std::optional<OperationResult> create(const PutTrigger& op);
  OperationResult replace(TriggerRecord record, const PutTrigger& op);
  void remember(const std::string& name, TriggerEvent event, TriggerInfo& info,
                std::int64_t& next_seq);
  Result<void> run_ends(const std::string& name, std::span<const EndedJob> ends,
                        std::vector<JobId>& made);

  TriggerRows& rows_;
  WallTime now_;
  JobId made_ = 0;
};

}  // namespace mainspring
