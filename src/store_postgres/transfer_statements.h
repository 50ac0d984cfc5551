// Statements of PostgresTarget.
#pragma once

#include <array>
#include <string_view>

#include "store_postgres/history.h"
#include "store_postgres/transfer_target.h"

namespace mainspring::pg {

struct PostgresTarget::Statements {
  explicit Statements(std::string_view schema);
  // a transaction of the copy
  Statement begin, still_ours, commit, roll_back, nodes_alive, lock_nodes, holds, mark_copying,
      running_keys, no_leader, copied, note, no_note, queues, kinds, queue_of, kind_of,
      last_finished;
  // jobs: each of `remove` and `lines` gets the ids
  Statement stamps, insert, extras, errors, leased, uniques, steps, memos, deferred, quarantined,
      dead, no_paths, paths;
  std::array<Statement, 13> remove;
  std::array<Statement, 5> lines;
  // the other blocks
  Statement finished, no_finished, key, no_keys, windows, no_windows, no_history, workflow,
      no_workflows, workflow_rows, no_workflow_rows;
  // small data
  Statement queue, no_key_meters, key_meters, no_job_counts, job_counts, schedule, no_schedule,
      no_schedules, trim, no_ledgers, no_removed, removed, links, gone_links, no_links, token,
      no_token, no_tokens, lease, no_lease, no_leases, session, no_session, unknown_sessions,
      no_unknown_sessions, heads, lost_places, mark, prune_audit, numbers, schedule_number,
      row_number, workflow_number, breaker, no_breaker, no_breakers, chart_mark, no_chart_mark,
      no_chart_marks, chart_mark_number, view, no_view, no_views, trigger, no_trigger, no_triggers,
      trigger_event, no_trigger_event, no_trigger_events;
  // appended data
  Statement ledgers, tick, last_audit, audit;
  Statement durable, drop_notes, copied_mark, no_copying;
  HistoryStatements history;
};

}  // namespace mainspring::pg
