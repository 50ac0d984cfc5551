// Prepared statements by subject: memos, triggers, schedules, tokens, sessions, the index of
// searchable paths, and reads of workflows, sessions, the audit, the history and marks.
#pragma once

#include "sql_store/disk.h"

namespace mainspring::sql {

struct MemoStatements {
  explicit MemoStatements(Connection& db);
  Statement insert, overwrite, known, count, remove;
};
struct MemoReads {
  explicit MemoReads(Connection& db);
  Statement page;
};

struct WorkflowReads {
  explicit WorkflowReads(Connection& db);
  Statement one, list, row, text, states;
};

struct TriggerStatements {
  explicit TriggerStatements(Connection& db);
  Statement load, count, insert, state, remove, remove_events, event, add_event, latest, forget;
};
struct TriggerReads {
  explicit TriggerReads(Connection& db);
  Statement one, list, events;
};

struct SessionReads {
  explicit SessionReads(Connection& db);
  Statement one, of_queue, queues;
};

struct AuditStatements {
  explicit AuditStatements(Connection& db);
  Statement oldest_first, newest_first, newest, oldest;
};

struct HistoryStatements {
  explicit HistoryStatements(Connection& db);
  Statement series, insert_series, touch_series, drop_series, one, put, first, drop;
};
struct HistoryReads {
  explicit HistoryReads(Connection& db);
  Statement series, one, fact, recent;
};

struct MarkStatements {
  explicit MarkStatements(Connection& db);
  Statement of_worker, insert, count, drop_first, one, remove, view, count_views, put_view,
      remove_view;
};
struct MarkReads {
  explicit MarkReads(Connection& db);
  Statement page, views;
};

// Those of schedules.
struct ScheduleStatements {
  explicit ScheduleStatements(Connection& db);
  Statement insert, update, update_definition, remove, select_removed, insert_removed,
      delete_removed, insert_tick, delete_tick, delete_ledger, select_fired, insert_link,
      delete_link;
};

// Those of tokens and of the audit.
struct AccessStatements {
  explicit AccessStatements(Connection& db);
  Statement upsert_token, delete_token, insert_audit, update_mark, first_audit, prune_audit,
      edited_body;
};

// Those of sessions.
struct SessionStatements {
  explicit SessionStatements(Connection& db);
  Statement by_key, by_id, insert, update, remove, state, upsert_state, delete_state, forgotten,
      first_forgotten, key_of_job, of_waiting;
};

// Those of the index of searchable paths, and reads of it.
struct SearchStatements {
  explicit SearchStatements(Connection& db);
  Statement load, insert_path, update_path, delete_path, insert, remove, trim, drop, args, below;
};
struct SearchReads {
  explicit SearchReads(Connection& db);
  Statement path, jobs, dead;
};

}  // namespace mainspring::sql
