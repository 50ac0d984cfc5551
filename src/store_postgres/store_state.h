// What a PostgresStore knows: its connection, the batch under way, its copies of what the database
// has, and what readers are shown of those. The store's thread has all of it for itself, but for
// what is atomic or guarded.
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
#include "store_postgres/history.h"
#include "store_postgres/limit_keys.h"
#include "store_postgres/marks.h"
#include "store_postgres/memos.h"
#include "store_postgres/order.h"
#include "store_postgres/plain_sessions.h"
#include "store_postgres/postgres_store.h"
#include "store_postgres/quarantine.h"
#include "store_postgres/rows_in_hand.h"
#include "store_postgres/schedule_state.h"
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
  // `options` with the incarnation settled.
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
  const PlainSessionStatements plain_session_sql_{schema_};
  const WorkflowStatements workflow_sql_{schema_};
  const TriggerStatements trigger_sql_{schema_};
  const MemoStatements memo_sql_{schema_};
  const HistoryStatements history_sql_{schema_};
  const MarkStatements mark_sql_{schema_};
  const LimitKeyStatements key_sql_{schema_};
  const OrderStatements order_sql_{schema_};
  const BreakerStatements breaker_sql_{schema_};
  const QuarantineStatements quarantine_sql_{schema_};
  const StandstillStatements standstill_sql_{schema_};
  const SystemClock steady_;  // for deadlines of the connections alone
  std::unique_ptr<Connection> connection_;
  std::int64_t node_ = 0;
  std::int64_t batch_ = 0;                         // number of the batch under way, of this node
  std::deque<std::function<void(Rows)>> waiting_;  // one per statement that was queued
  bool locks_asked_ = false;                       // of what the batch names
  bool in_transaction_ = false;
  bool commit_sent_ = false;
  std::int64_t session_ = 0;      // grows when a batch is given up: see hold_batch() in the schema
  bool must_look_ = false;        // the answers decide what else is to be written
  bool copies_of_batch_ = false;  // this batch changed them: stale if it is undone
  bool copies_stale_ = false;     // queues and kinds are read anew before the next batch
  Instant clock_asked_, counted_at_;
  // The history: what is offered to the next batch; history_names_ is what the database has.
  HistoryRowsPtr offered_;
  HistoryWrite offered_when_ = HistoryWrite::with_batch;
  HistoryNames history_names_;
  bool history_loaded_ = false;
  WallTime history_pruned_;  // the minute in which old rows were last removed
  bool wrote_ = false, durable_ = false;
  bool held_ = false;    // see hold()
  bool marked_ = false;  // a row of tallies says that the batch was committed
  bool plain_ = false;   // this batch is one round trip: see plain.cc
  std::atomic<bool> away_{false};
  std::string moved_to_;  // "" = it has not moved
  std::atomic<std::int64_t> commits_{0};
  mutable std::atomic<std::int64_t> reads_{0};

  // the batch under way
  Now now_{};
  Instant begun_;  // now_ as steady_ has it
  std::map<JobId, JobInHand> in_hand_;
  // Of those that the batch names: which were in no session when it locked its sessions, and which
  // were not there when it locked its jobs.
  std::unordered_set<JobId> no_session_, not_there_;
  bool any_touched_ = false;
  JobId next_id_ = 0, ids_end_ = 0;  // reserved ones
  std::map<int, TallyChange> tally_;
  struct NewError {
    JobId job;
    Token seq;
    std::int64_t attempt, at, ran_for;
    std::string worker, message, program_end;
  };
  std::vector<NewError> new_errors_;
  std::vector<EndedJob> followed_;  // of those that the operation under way ended; without body
  std::vector<NewJob> posted_;      // by the completions of the operation under way
  std::optional<std::vector<TriggerWatch>> watches_;  // nullopt = not asked for, or on their way
  bool watches_asked_ = false;
  std::vector<EndedJob> ends_;                             // of the batch, that triggers watch
  std::map<std::string, BreakerInHand> breakers_in_hand_;  // locked
  std::set<std::string> touched_breakers_;                 // by ends
  std::vector<BreakerNote> breaker_notes_;                 // not written yet
  std::map<SessionName, SessionInHand> sessions_;
  std::set<SessionName> make_first_;           // with the next try of the batch
  std::set<SessionName> entered_, left_over_;  // by new jobs of a plain batch; others
  std::map<std::pair<int, std::int64_t>, std::int64_t> turns_;  // given, by queue and priority: the
                                                                // first run_at
  std::set<std::pair<std::int64_t, JobId>> joined_, left_;  // lines of sessions, not written yet
  std::vector<EndedTurn> ended_turns_;
  std::vector<News> told_;            // in it; without body
  std::vector<StepEnd> ended_steps_;  // whose they are is looked up
  AfterCommit after_;
  const OperationResult* about_ = nullptr;  // what an Audit now would be about,
  std::string image_before_;                // and how its object was before

  // copies and hints
  std::unordered_map<std::string, QueueInfo*> queues_by_name_;
  std::unordered_map<int, std::unique_ptr<QueueInfo>> queues_by_id_;
  mutable std::unordered_map<int, QueueHint> hints_;
  std::map<std::string, BreakerCopy> breakers_;
  WallTime breakers_looked_at_;                     // by the leader
  std::unordered_set<std::string> unknown_queues_;  // that others named: to be looked up
  std::set<std::string> dry_lines_;  // of sessions: a claim found nothing, and nothing came since
  std::string last_line_asked_;
  std::int64_t hold_room_ = 0;  // so many may be held before they are counted again
  std::unordered_map<std::string, int> kinds_by_name_;
  std::unordered_map<int, std::string> kind_names_;
  std::unordered_map<JobId, LeaseOfJob> own_leases_;      // claimed through this node
  std::set<std::pair<std::int64_t, JobId>> lease_order_;  // of those
  std::deque<GivenClaim> given_;                          // in turn, those that ended among them
  std::int64_t foreign_lease_ = 0;  // when to look at those of other nodes; 0 = there are none
  // On the lease clock: see AllowRestart; and when it is removed from the settings, 0 = none is.
  std::int64_t allowed_until_ = 0, allowance_over_ = 0;
  std::int64_t live_jobs_ = 0, finished_jobs_ = 0;
  WallTime next_due_ = WallTime::never(), next_expiry_ = WallTime::never(),
           next_prune_ = WallTime::never(), audit_due_ = WallTime::never(),
           next_workflow_ = WallTime::never(), next_release_ = WallTime::never();
  std::set<int> opened_;    // queues: see settle_openings()
  bool any_rates_ = false;  // a queue may have one
  bool any_pause_ends_ = false;  // the same of QueuePause::until
  bool any_brief_ = false;  // a retention may be below kBriefRetention
  // The copy of schedules has all that was committed before this transaction, as the server process
  // with that number said; 0 = there is none.
  std::int64_t schedules_seen_ = 0, schedules_seen_by_ = 0;
  // Leases by name: none that this node knows of ends before first_lease_end_; so many can be
  // inserted before they are counted again; there were too many, and nothing helps until.
  std::int64_t first_lease_end_ = 0, leases_swept_at_ = 0, leases_counted_ = 0, lease_room_ = 0,
               leases_full_until_ = 0;
  std::int64_t folded_at_ = 0, folded_commits_ = 0;  // tallies: when (wall clock), and after what
  std::map<std::string, std::int64_t> versions_;     // of the copies, as the database counts them
  Instant refreshed_at_;
  std::string says_ = "{}";  // with the next heartbeat
  Heard news_;

  // what readers see
  mutable Mutex published_mutex_;
  std::map<std::string, PublishedSchedule> published_schedules_ MS_GUARDED_BY(published_mutex_);
  std::unordered_map<std::int64_t, std::string> published_ids_ MS_GUARDED_BY(published_mutex_);
  // Of those not paused, by the time that they fire.
  std::set<std::pair<WallTime, std::string>> published_due_ MS_GUARDED_BY(published_mutex_);
  // Of the ties in the copy: how many, how many of them wait, and the sum of their jobs.
  std::array<std::int64_t, 3> published_ties_ MS_GUARDED_BY(published_mutex_){};
  std::map<std::string, std::int64_t> lease_ends_ MS_GUARDED_BY(published_mutex_);  // by name
  std::shared_ptr<const Tokens> published_tokens_ MS_GUARDED_BY(published_mutex_);
  AuditState published_audit_ MS_GUARDED_BY(published_mutex_);
  std::string published_move_ MS_GUARDED_BY(published_mutex_);
  std::atomic<std::int64_t> tokens_version_{0};
};

}  // namespace mainspring::pg
