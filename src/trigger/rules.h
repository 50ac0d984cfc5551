// The rules of triggers, the same for every store, over rows that a store keeps.
//
// A store keeps one row for each trigger, and numbered rows below it, the ledger, found by their
// number and by the event's id.
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

// What a store looks at when a job ends: the triggers on ends, by name.
struct TriggerWatch {
  std::string name;
  EndedSource source;
};
// Nothing: the trigger is not on ends, or its row cannot be read.
std::optional<TriggerWatch> watch_of(const TriggerRecord& record);

class TriggerRows {
 public:
  virtual ~TriggerRows() = default;

  // Also locks it, against other nodes, to the end of the transaction.
  virtual std::optional<TriggerRecord> load(const std::string& name) = 0;
  virtual std::int64_t count() = 0;
  // False: somebody else has made one of that name since it was looked for.
  virtual bool insert(const TriggerRecord& record) = 0;
  virtual void save(const TriggerRecord& record) = 0;
  virtual void save_state(const std::string& name, const std::string& state) = 0;
  virtual void remove(const std::string& name) = 0;  // with its ledger

  virtual std::optional<TriggerEvent> find_event(const std::string& name,
                                                 const std::string& event) = 0;
  virtual void add_event(const std::string& name, const TriggerEvent& event) = 0;
  // Rows up to `seq` go; answers the latest made_at of them, if one has it.
  virtual std::optional<WallTime> forget(const std::string& name, std::int64_t seq) = 0;

  // As Enqueue: an EnqueueResult or an Error.
  virtual OperationResult enqueue(const NewJob& job) = 0;

  // For the ends of jobs. Those of `events` that have a row:
  virtual std::set<std::string> known_events(const std::string& name,
                                             const std::vector<std::string>& events);
  // Makes them; no bound of new jobs is asked. One for each, in order.
  virtual std::vector<EnqueuedJob> make(const std::vector<NewJob>& jobs) = 0;
  // As workflow::resolve, which stands on the same floor as these rules. Errors: invalid_argument,
  // too_large.
  using Names = std::function<std::optional<std::string>(std::string_view name)>;
  virtual Result<std::string> resolve(std::string_view json, const Names& names) = 0;
};

// What a store has of one. Errors: internal (the store is damaged).
Result<TriggerInfo> read_trigger(const TriggerRecord& record);
Error no_trigger(const std::string& name);

// `fence` of a FireTrigger is the store's to look at.
class TriggerRules {
 public:
  TriggerRules(TriggerRows& rows, WallTime now) : rows_(rows), now_(now) {}
  // An error of code internal: the store is damaged.
  OperationResult run(const PutTrigger& op);
  OperationResult run(const RemoveTrigger& op);
  OperationResult run(const PauseTrigger& op);
  OperationResult run(const FireTrigger& op);
  // The job that the last run() made; 0 = none.
  JobId made() const { return made_; }

  // What the ends of jobs fire, of a whole batch: `watches` by name, `ends` in their order, each as
  // it was when it ended. Nothing of it is refused: what cannot be made is a row of the ledger with
  // the reason. Answers the jobs that were made. Errors: internal.
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
