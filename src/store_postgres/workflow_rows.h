// What the rules of workflows ask of this store: rows that a transaction has locked and read, and
// what it changes of them, which goes to the database with flush(), by arrays and without waiting.
//
// A row that was put and removed in one transaction never gets there; a row that was read is not
// asked for again; of ranges a prefix (or a suffix) is known, and grows by pages.
#pragma once

#include <array>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "store_postgres/connection.h"
#include "workflow/in_hand.h"

namespace mainspring::pg {

class PostgresStore;
struct JobRow;

// Of a row with the columns id, name, key, state, wake_at, finished_at, data.
WorkflowRecord read_workflow(const Rows& rows, int row);

class PostgresWorkflowRows final : public WorkflowRows {
 public:
  explicit PostgresWorkflowRows(PostgresStore& store) : store_(store) {}

  // -- the transaction
  void clear();
  void flush();
  // Locks them, those that are not in hand, in the order of their ids. `jobs`: of steps; theirs.
  void lock(const std::vector<WorkflowId>& ids, const std::vector<JobId>& jobs);
  // As lock(), and what the ends of these jobs and so many new workflows will ask for, with the
  // next answers.
  void look_ahead(const std::vector<WorkflowId>& ids, const std::vector<JobId>& jobs, int starts);
  // Whose steps they are, into `of`; those that nobody waits for any more are taken out. Locks
  // their workflows, all at once, and reads what the rules will ask for.
  void take_ended(std::vector<StepEnd>& ends);
  bool has(WorkflowId id) const { return held_.contains(id); }
  // Longer than the transaction: of any node.
  workflow::KeptStarts& starts() { return starts_; }

  // -- for the rules
  WorkflowId new_workflow() override;
  bool may_pack() override;
  std::optional<WorkflowRecord> load(WorkflowId id) override;
  std::optional<WorkflowId> by_key(const std::string& name, const std::string& key) override;
  void save(const WorkflowRecord& record, bool is_new) override;
  std::optional<std::string> row(WorkflowId id, WorkflowRow kind, std::int64_t number) override;
  void put(WorkflowId id, WorkflowRow kind, std::int64_t number, std::string_view text) override;
  void remove(WorkflowId id, WorkflowRow kind, std::int64_t number) override;
  std::vector<Row> rows(WorkflowId id, WorkflowRow kind, Order order, int limit) override;
  JobId make_job(const NewJob& job, const StepJob& of) override;
  void cancel_job(JobId job, const std::string& reason) override;
  void forget_job(JobId job) override;
  // The completion of a step's job that its workflow has given up.
  bool is_late(const JobRow& job, const Outcome& outcome);

 private:
  enum class There : std::uint8_t { no, yes, unknown };  // in the database
  struct Cell {
    std::optional<std::string> text{};  // as it is to be; nullopt = no row
    There there = There::unknown;
    bool dirty = false;
  };
  struct Kind {
    std::map<std::int64_t, Cell> cells{};  // those that are known
    // All rows up to `up` are known, and all down to `down`.
    std::int64_t up = INT64_MIN, down = INT64_MAX;
    bool whole = false;
  };
  struct Held {
    std::optional<WorkflowRecord> record{};  // nullopt = there is none
    WallTime wakes_at = WallTime::never();   // in the database
    bool fresh = false;                      // nothing of it is in the database
    bool touched = false;
    std::array<Kind, kWorkflowRowKinds> kinds{};
  };
  using Place = std::tuple<WorkflowId, WorkflowRow, std::int64_t>;

  Held& held(WorkflowId id);  // locked, if it is there
  Kind& kind_of(WorkflowId id, WorkflowRow kind);
  Cell& cell(WorkflowId id, WorkflowRow kind, std::int64_t number);  // to be written
  void keep_records(const Rows& rows);
  void keep_row(WorkflowId id, WorkflowRow kind, std::int64_t number,
                std::optional<std::string> text);
  void fetch(const std::set<Place>& places);  // those that are not known
  void later_look_up(const Ints& jobs, const Ints& ids);
  bool hears(JobId job);                                            // its end will come back
  void keep_jobs(const Ints& asked, const Rows& rows, int column);  // job, workflow, step, undo
  void later_ids(std::size_t ends, int starts);
  void prefetch(const std::vector<StepEnd>& ends);
  void fetch_own(const std::vector<StepEnd>& ends);
  void keep_start(WorkflowId id);
  void add_refs_behind(WorkflowId id, int step, workflow::Start& start, std::int64_t ends,
                       std::set<Place>& to);
  bool waits_for_more(WorkflowId id, int step, std::int64_t ends);
  const std::string* known(const Place& place);  // nullptr = not known, or not there
  void read_more(WorkflowId id, WorkflowRow kind, Order order, int limit);
  void lock_live_of_failed(const std::vector<StepEnd>& ends);
  void flush_records();
  void flush_records(bool fresh);
  void flush_rows();

  PostgresStore& store_;
  workflow::KeptStarts starts_;
  std::map<WorkflowId, Held> held_;
  std::map<JobId, StepJob> new_jobs_;  // not in the database yet
  std::map<JobId, StepJob> known_;     // of those that are; looked up
  std::set<JobId> looked_up_;
  std::vector<WorkflowId> spare_ids_;  // for new ones of this transaction; the last is the next
  std::set<JobId> forgotten_;          // of those that are
  std::size_t ids_at_once_ = 1;        // reserved for new jobs
};

}  // namespace mainspring::pg
