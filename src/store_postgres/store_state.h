// The data of a PostgresStore: its connection, the current batch, its copies of database rows, and
// what readers see of them. Only the store's thread uses it, except for atomic or guarded members.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "api/follow_ups.h"
#include "base/mutex.h"
#include "store_postgres/after_commit.h"
#include "store_postgres/breakers.h"
#include "store_postgres/connection.h"
#include "store_postgres/fast_path_sessions.h"
#include "store_postgres/history.h"
#include "store_postgres/limit_keys.h"
#include "store_postgres/loaded_rows.h"
#include "store_postgres/marks.h"
#include "store_postgres/memos.h"
#include "store_postgres/order.h"
#include "store_postgres/postgres_store.h"
#include "store_postgres/quarantine.h"
#include "store_postgres/schedule_state.h"
#include "store_postgres/search_index.h"
#include "store_postgres/session_state.h"
#include "store_postgres/session_statements.h"
#include "store_postgres/standstill.h"
#include "store_postgres/statements.h"
#include "store_postgres/trigger_statements.h"
#include "store_postgres/workflow_statements.h"
#include "trigger/rules.h"
#include "workflow/rules.h"

namespace mainspring::pg {

struct StoreState {
  // `options`: with the incarnation set.
  StoreState(PostgresOptions options, Log& log, DatabaseClock* clock)
      : options_(std::move(options)), log_(log), database_clock_(clock) {}

  const PostgresOptions options_;
  Log& log_;
  DatabaseClock* const database_clock_;
  const std::string schema_ = options_.schema;  // quoted
  const Statements sql_{schema_};
  const ScheduleStatements schedule_sql_{schema_};
  const AccessStatements access_sql_{schema_};
  const ReadStatements read_sql_{schema_};
  const SessionStatements session_sql_{schema_};
  const FastPathSessionStatements fast_path_session_sql_{schema_};
  const WorkflowStatements workflow_sql_{schema_};
  const TriggerStatements trigger_sql_{schema_};
  const MemoStatements memo_sql_{schema_};
  const HistoryStatements history_sql_{schema_};
  const MarkStatements mark_sql_{schema_};
  const SearchStatements search_sql_{schema_};
  const LimitKeyStatements key_sql_{schema_};
  const OrderStatements order_sql_{schema_};
  const BreakerStatements breaker_sql_{schema_};
  const QuarantineStatements quarantine_sql_{schema_};
  const StandstillStatements standstill_sql_{schema_};
  const SystemClock steady_;  // only for deadlines of the connections
  std::unique_ptr<Connection> connection_;
  std::int64_t node_ = 0;
  std::int64_t batch_ = 0;                         // number of the current batch, for this node
  std::deque<std::function<void(Rows)>> waiting_;  // one per queued statement
  bool locks_asked_ = false;                       // locks of what the batch names are queued
  bool in_transaction_ = false;
  bool commit_sent_ = false;
  std::int64_t session_ = 0;      // grows when a batch is given up: see hold_batch() in the schema
  bool must_look_ = false;        // the answers decide what else must be written
  bool copies_of_batch_ = false;  // this batch changed the copies: stale after a rollback
  bool copies_stale_ = false;     // reload queues and kinds before the next batch
  Instant clock_asked_, counted_at_;
  // The history: rows offered for the next batch; history_names_ matches the database.
  HistoryRowsPtr offered_;
  HistoryWrite offered_when_ = HistoryWrite::with_batch;
  HistoryNames history_names_;
  bool history_loaded_ = false;
  WallTime history_pruned_;  // the minute of the last removal of old rows
  bool wrote_ = false, durable_ = false;
  bool held_ = false;       // see hold()
  bool marked_ = false;     // a row of job_counts records that the batch was committed
  bool fast_path_ = false;  // this batch uses the fast path: see fast_path.cc
  std::atomic<bool> away_{false};
  std::string moved_to_;  // "" = it has not moved
  std::atomic<std::int64_t> commits_{0};
  mutable std::atomic<std::int64_t> reads_{0};

  // the current batch
  Now now_{};
  Instant batch_start_;  // now_ on the clock steady_
  std::map<JobId, LoadedJob> loaded_;
  // Of the jobs that the batch names: those that were in no session when it locked its sessions,
  // and those that did not exist when it locked its jobs.
  std::unordered_set<JobId> no_session_, not_there_;
  bool any_touched_ = false;
  JobId next_id_ = 0, ids_end_ = 0;  // reserved ids
  std::map<int, JobCountsChange> job_counts_;
  struct NewError {
    JobId job;
    Token seq;
    std::int64_t attempt, at, ran_for;
    std::string worker, message, program_end;
  };
  std::vector<NewError> new_errors_;
  std::vector<EndedJob> followed_;  // ended by the current operation; without body
  std::vector<NewJob> posted_;      // by the completions of the current operation
  std::optional<std::vector<TriggerWatch>> watches_;  // nullopt = not loaded, or not yet received
  bool watches_asked_ = false;
  std::vector<EndedJob> ends_;                            // of the batch, watched by triggers
  std::map<std::string, LoadedBreaker> loaded_breakers_;  // locked rows
  std::set<std::string> touched_breakers_;                // by ends
  std::vector<BreakerNote> breaker_notes_;                // not written yet
  std::map<SessionName, LoadedSession> sessions_;
  std::set<SessionName> make_first_;           // with the next try of the batch
  std::set<SessionName> entered_, left_over_;  // by new jobs of a fast-path batch; others
  std::map<std::pair<int, std::int64_t>, std::int64_t> heads_;  // new heads, by queue and priority:
                                                                // the first run_at
  std::set<std::pair<std::int64_t, JobId>> joined_, left_;      // session waits, not yet written
  std::vector<EndedHead> ended_heads_;
  std::vector<News> follow_up_news_;  // of the current operation; without body
  std::vector<StepEnd> ended_steps_;  // their workflows are looked up later
  AfterCommit after_;
  const OperationResult* about_ = nullptr;  // the object of the next Audit,
  std::string image_before_;                // and its image before the operation

  // copies and hints
  std::map<std::string, QueueInfo*, std::less<>> queues_by_name_;
  std::unordered_map<int, std::unique_ptr<QueueInfo>> queues_by_id_;
  mutable std::unordered_map<int, QueueHint> hints_;
  std::map<std::string, BreakerCopy> breakers_;
  WallTime breakers_looked_at_;                     // by the leader
  std::unordered_set<std::string> unknown_queues_;  // named by others: to be looked up
  std::set<std::string> dry_queues_;  // of sessions: a claim found nothing, nothing was added since
  std::string last_line_asked_;
  std::int64_t hold_room_ = 0;  // further holds before the next count
  std::unordered_map<std::string, int> kinds_by_name_;
  std::unordered_map<int, std::string> kind_names_;
  std::unordered_map<JobId, LeaseOfJob> own_leases_;      // claimed through this node
  std::set<std::pair<std::int64_t, JobId>> lease_order_;  // these leases by end
  std::deque<GivenClaim> given_;                          // in rotation, including ended ones
  std::int64_t foreign_lease_ = 0;  // when to check leases of other nodes; 0 = none
  // On the lease clock: see AllowRestart; and when it is removed from the settings, 0 = never.
  std::int64_t allowed_until_ = 0, allowance_over_ = 0;
  std::int64_t live_jobs_ = 0, finished_jobs_ = 0;
  WallTime next_due_ = WallTime::never(), next_expiry_ = WallTime::never(),
           next_prune_ = WallTime::never(), audit_due_ = WallTime::never(),
           next_workflow_ = WallTime::never(), next_release_ = WallTime::never();
  std::set<int> opened_;         // queues: see settle_openings()
  bool any_rates_ = false;       // a queue may have a rate
  bool any_pause_ends_ = false;  // the same for QueuePause::until
  bool any_brief_ = false;       // a retention may be below kBriefRetention
  // The copy of schedules includes everything committed before this transaction, as reported by the
  // server process with that number; 0 = none.
  std::int64_t schedules_seen_ = 0, schedules_seen_by_ = 0;
  // Named locks: no known lease ends before first_lease_end_; time of the last sweep; inserts left
  // before the next count; time until which the limit is considered exceeded.
  std::int64_t first_lease_end_ = 0, leases_swept_at_ = 0, leases_counted_ = 0, lease_room_ = 0,
               leases_full_until_ = 0;
  bool blocked_ = false;  // the last batch, by a lock of another client
  std::int64_t folded_at_ = 0,
               folded_commits_ = 0;               // job_counts: when (wall clock), and after what
  std::map<std::string, std::int64_t> versions_;  // of the copies, as counted by the database
  Instant refreshed_at_;
  std::string says_ = "{}";  // sent with the next heartbeat
  ChangeHints news_;

  // published state
  mutable Mutex published_mutex_;
  std::map<std::string, PublishedSchedule> published_schedules_ MS_GUARDED_BY(published_mutex_);
  std::unordered_map<std::int64_t, std::string> published_ids_ MS_GUARDED_BY(published_mutex_);
  // Schedules not paused, by next fire time.
  std::set<std::pair<WallTime, std::string>> published_due_ MS_GUARDED_BY(published_mutex_);
  // Of the links in the copy: their number, the number of waiting ones, and the sum of their job
  // ids.
  std::array<std::int64_t, 3> published_links_ MS_GUARDED_BY(published_mutex_){};
  std::map<std::string, std::int64_t> lease_ends_ MS_GUARDED_BY(published_mutex_);  // by name
  std::shared_ptr<const Tokens> published_tokens_ MS_GUARDED_BY(published_mutex_);
  AuditState published_audit_ MS_GUARDED_BY(published_mutex_);
  std::string published_move_ MS_GUARDED_BY(published_mutex_);
  std::atomic<std::int64_t> tokens_version_{0};
};

}  // namespace mainspring::pg
