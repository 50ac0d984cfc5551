// What a SQLite store has of workflows: statements on the rows below them, jobs of steps, and what
// the rules ask for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store_sqlite/database.h"
#include "workflow/rows.h"

namespace mainspring::sqlite {

// These stand in workflow_texts, the others in workflow_rows: the end of a step then changes pages
// without definitions of steps, which are large.
inline bool is_written_once(WorkflowRow kind) {
  return kind == WorkflowRow::text || kind == WorkflowRow::spec || kind == WorkflowRow::result ||
         kind == WorkflowRow::item;
}

// Of one of the two tables.
struct WorkflowRowStatements {
  WorkflowRowStatements(Database& db, bool once);
  Statement row, put, remove, rows_up, rows_down, prune;
};

// The job of a step, which ended.
struct EndedStep {
  JobId job = 0;
  int flags = 0;
  std::optional<std::string> result{};  // of one that was completed; nullopt = its row says how
};

class SqliteStore;
struct WorkflowStatements;

// What the rules of workflows ask of this store.
class SqliteWorkflowRows final : public WorkflowRows {
 public:
  explicit SqliteWorkflowRows(SqliteStore& store) : store_(store) {}
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
  bool hears(JobId job);  // its end will come back

 private:
  WorkflowStatements& sql();
  WorkflowRowStatements& sql(WorkflowRow kind);
  SqliteStore& store_;
};

}  // namespace mainspring::sqlite
