// What a SQLite store has of workflows: statements on the rows below them, and jobs of steps.
#pragma once

#include <optional>
#include <string>

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

}  // namespace mainspring::sqlite
