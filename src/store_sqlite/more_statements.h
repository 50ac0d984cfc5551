// Prepared statements by what they are about: memos, triggers, and reads of workflows, sessions and
// the audit.
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

}  // namespace mainspring::sqlite
