// Parts of workflows in SQLite: statements on their rows, jobs of steps, and the interface that the
// workflow rules need.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sql_store/disk.h"
#include "workflow/rows.h"

namespace mainspring::sql {

// These rows are in workflow_texts, the others in workflow_rows. So the end of a step changes only
// pages without step definitions, which are large.
inline bool is_written_once(WorkflowRow kind) {
  return kind == WorkflowRow::text || kind == WorkflowRow::spec || kind == WorkflowRow::result ||
         kind == WorkflowRow::item;
}

// Statements on one of the two tables.
struct WorkflowRowStatements {
  WorkflowRowStatements(Connection& db, bool once);
  Statement row, put, remove, rows_up, rows_down, prune;
};

// An ended job of a step.
struct EndedStep {
  JobId job = 0;
  int flags = 0;
  std::optional<std::string> result{};  // of a completed job; nullopt = its row has the end
};

class SqlStore;
struct WorkflowStatements;

// The interface that the workflow rules need, on SQLite.
class SqlWorkflowRows final : public WorkflowRows {
 public:
  explicit SqlWorkflowRows(SqlStore& store) : store_(store) {}
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
  bool hears(JobId job);  // whether its end is reported

 private:
  WorkflowStatements& sql();
  WorkflowRowStatements& sql(WorkflowRow kind);
  SqlStore& store_;
};

}  // namespace mainspring::sql
