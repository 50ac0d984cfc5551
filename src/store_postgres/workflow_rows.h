// The interface that the workflow rules need: rows that a transaction has locked and read, and
// their changes. flush() writes the changes by arrays and without waiting.
//
// A row that is put and removed in one transaction is never written. A row that was read is not
// read again. Of ranges, a prefix (or a suffix) is known, and grows by pages.
#pragma once

#include <array>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "store_postgres/connection.h"
#include "workflow/loaded_workflows.h"

namespace mainspring::pg {

class PostgresStore;
struct JobRow;

// Reads a row with the columns id, name, key, state, wake_at, finished_at, data.
WorkflowRecord read_workflow(const Rows& rows, int row);

class PostgresWorkflowRows final : public WorkflowRows {
 public:
  explicit PostgresWorkflowRows(PostgresStore& store) : store_(store) {}

  // -- the transaction
  void clear();
  void flush();
  // Locks workflows that are not loaded, in the order of their ids. `jobs`: of steps; locks their
  // workflows.
  void lock(const std::vector<WorkflowId>& ids, const std::vector<JobId>& jobs);
  // Like lock(), and also reads, with the next answers, what the ends of these jobs and this number
  // of new workflows will need.
  void look_ahead(const std::vector<WorkflowId>& ids, const std::vector<JobId>& jobs, int starts);
  // Sets `of` for each step job, and removes jobs that no workflow waits for any more. Locks their
  // workflows, all at once, and reads what the rules will need.
  void take_ended(std::vector<StepEnd>& ends);
  bool has(WorkflowId id) const { return held_.contains(id); }
  // Lives longer than the transaction; valid for workflows of any node.
  workflow::KeptStarts& starts() { return starts_; }

  // -- for the rules
  WorkflowId new_workflow() override;
  bool may_pack() override;
  std::optional<WorkflowRecord> load(WorkflowId id) override;
  std::vector<WorkflowRecord> by_key(const std::string& name, const std::string& key) override;
  void save(const WorkflowRecord& record, bool is_new) override;
  std::optional<std::string> row(WorkflowId id, WorkflowRow kind, std::int64_t number) override;
  void put(WorkflowId id, WorkflowRow kind, std::int64_t number, std::string_view text) override;
  void remove(WorkflowId id, WorkflowRow kind, std::int64_t number) override;
  std::vector<Row> rows(WorkflowId id, WorkflowRow kind, Order order, int limit) override;
  JobId make_job(const NewJob& job, const StepJob& of) override;
  void cancel_job(JobId job, const std::string& reason) override;
  void forget_job(JobId job) override;
  // Whether this completes a job of a step that its workflow no longer waits for.
  bool is_late(const JobRow& job, const Outcome& outcome);

 private:
  enum class There : std::uint8_t { no, yes, unknown };  // in the database
  struct Cell {
    std::optional<std::string> text{};  // the new text; nullopt = no row
    There there = There::unknown;
    bool dirty = false;
  };
  struct Kind {
    std::map<std::int64_t, Cell> cells{};  // the known ones
    // All rows up to `up` are known, and all from `down` on.
    std::int64_t up = INT64_MIN, down = INT64_MAX;
    bool whole = false;
  };
  struct Held {
    std::optional<WorkflowRecord> record{};  // nullopt = none
    WallTime wakes_at = WallTime::never();   // in the database
    bool fresh = false;                      // not in the database yet
    bool touched = false;
    std::array<Kind, kWorkflowRowKinds> kinds{};
  };
  using Place = std::tuple<WorkflowId, WorkflowRow, std::int64_t>;

  Held& held(WorkflowId id);  // locked, if it exists
  Kind& kind_of(WorkflowId id, WorkflowRow kind);
  Cell& cell(WorkflowId id, WorkflowRow kind, std::int64_t number);  // marks the row to be written
  void keep_records(const Rows& rows);
  void keep_row(WorkflowId id, WorkflowRow kind, std::int64_t number,
                std::optional<std::string> text);
  void fetch(const std::set<Place>& places);  // reads the unknown ones
  void later_look_up(const Ints& jobs, const Ints& ids);
  bool hears(JobId job);                                            // whether its end is reported
  void keep_jobs(const Ints& asked, const Rows& rows, int column);  // job, workflow, step, undo
  void later_ids(std::size_t ends, int starts);
  void prefetch(const std::vector<StepEnd>& ends);
  void fetch_own(const std::vector<StepEnd>& ends);
  void keep_start(WorkflowId id);
  void add_later_refs(WorkflowId id, int step, workflow::Start& start, std::int64_t ends,
                      std::set<Place>& to);
  bool waits_for_more(WorkflowId id, int step, std::int64_t ends);
  const std::string* known(const Place& place);  // nullptr = unknown or missing
  void read_more(WorkflowId id, WorkflowRow kind, Order order, int limit);
  void lock_live_of_failed(const std::vector<StepEnd>& ends);
  void flush_records();
  void flush_records(bool fresh);
  void flush_rows();

  PostgresStore& store_;
  workflow::KeptStarts starts_;
  std::map<WorkflowId, Held> held_;
  std::map<JobId, StepJob> new_jobs_;  // not in the database yet
  std::map<JobId, StepJob> known_;     // jobs that are; looked up
  std::set<JobId> looked_up_;
  std::vector<WorkflowId> spare_ids_;  // for new ones of this transaction, last first
  std::set<JobId> forgotten_;          // known jobs whose ends are ignored
  std::size_t ids_at_once_ = 1;        // reserved for new jobs
};

}  // namespace mainspring::pg
