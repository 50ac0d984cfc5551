// Prepared statements by what they are about: memos, triggers, and reads of workflows, sessions,
// the audit, the history and marks.
#pragma once

#include "store_sqlite/database.h"

namespace mainspring::sqlite {

// Those of memos.
struct MemoStatements {
  explicit MemoStatements(Database& db);
  Statement insert, overwrite, known, count, remove;
};
struct MemoReads {
  explicit MemoReads(Database& db);
  Statement page;
};

// Reads of workflows.
struct WorkflowReads {
  explicit WorkflowReads(Database& db);
  Statement one, list, row, text, states;
};

// Those of triggers, and reads of them.
struct TriggerStatements {
  explicit TriggerStatements(Database& db);
  Statement load, count, insert, state, remove, remove_events, event, add_event, latest, forget;
};
struct TriggerReads {
  explicit TriggerReads(Database& db);
  Statement one, list, events;
};

// Reads of sessions.
struct SessionReads {
  explicit SessionReads(Database& db);
  Statement one, of_queue, queues;
};

// Reads of the audit.
struct AuditStatements {
  explicit AuditStatements(Database& db);
  Statement oldest_first, newest_first, newest, oldest;
};

// Those of the history, and reads of it.
struct HistoryStatements {
  explicit HistoryStatements(Database& db);
  Statement series, insert_series, touch_series, drop_series, one, put, first, drop;
};
struct HistoryReads {
  explicit HistoryReads(Database& db);
  Statement series, one, fact, recent;
};

// Those of marks and saved views, and reads of them.
struct MarkStatements {
  explicit MarkStatements(Database& db);
  Statement of_worker, insert, count, drop_first, one, remove, view, count_views, put_view,
      remove_view;
};
struct MarkReads {
  explicit MarkReads(Database& db);
  Statement page, views;
};

}  // namespace mainspring::sqlite
