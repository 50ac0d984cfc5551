// Operations on sessions: jobs of one key that run one at a time, in the order of their enqueue.
//
// A session is (queue, key). One of its living jobs has the turn; the others are `waiting`:
//
//   enqueue ─▶ waiting ─▶ waiting ─▶ [ the turn: available · running · scheduled · retryable ] ─▶
//   end
//              by id, the lowest first            a job keeps the turn through its retries
//
// Rules, kept in the transaction of whatever changes the jobs:
//   - A new job gets the turn if nobody has it and the session is not stopped; else it waits. Ids
//     are given in the order of enqueue within a session, over all nodes too.
//   - When the job with the turn ends, the waiting one with the lowest id gets it: it becomes
//     available, or scheduled if its run_at is ahead. If it ended dead its `on_dead` decides: skip
//     as above; block stops the session until that job is retried, or until ResumeSession; park
//     stops it until ResumeSession.
//   - A waiting job that is cancelled or expires leaves the line; even if its expiry makes it dead
//     that stops nothing. Retrying one that waits is `conflict`.
//   - An ended job that is retried or redriven enters the line by its id: it gets the turn if
//     nobody has it and the session is not stopped, or is blocked by this very job. Else it is
//     waiting, which RetryResult says.
//   - A session nobody knows is made by the first job or accept. It is gone when it has no living
//     job, no holder, is not stopped, and has no state. With a state and nothing else it is kept
//     for the store's retention_dead from the last change; then PruneJobs removes it.
//
// Holding. A worker may accept a session and keep it: nobody else gets its jobs, those to come
// included, until it releases it or its lease ends (RescueExpired sees to that; the agenda counts
// it among next_lease_expiry; after a restart it begins anew as other leases do). While a session
// is held, the job with the turn is `waiting` where it would be available, and only a claim of that
// session finds it. An accept does not touch a job that runs already: then the holder waits for its
// end. The token comes from the store's one sequence of tokens.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mainspring/job.h"
#include "model/access.h"
#include "model/session.h"

namespace mainspring {

// What a holder has.
struct SessionGrant {
  SessionKey session;
  Token token = 0;
  Duration lease{0};  // until it must be renewed, from the answer's commit
  std::string state;  // JSON, "" = none
  bool held = false;  // the worker had it already
  friend bool operator==(const SessionGrant&, const SessionGrant&) = default;
};

// Holds this session, whether it has jobs or not. Answers SessionGrant. Errors: lease_held
// (retry_after_ms = until it expires), overloaded (kMaxHeldSessions). Its present holder gets it
// again, renewed, with the same token. (The next free one that has an available job is accepted by
// a Claim of the accept line: one job, and ClaimResult::session.)
struct AcceptSession {
  std::string worker;
  SessionKey session;
  Duration lease = kDefaultLease;
};
// Answers SessionGrant. Errors: lease_lost. Writes to disk only if it is for longer than before.
struct RenewSession {
  SessionKey session;
  Token token = 0;
  Duration lease{0};  // 0 = as long as before
};
// Answers Done. Errors: lease_lost. A job with the turn is available to all again.
struct ReleaseSession {
  SessionKey session;
  Token token = 0;
};
// Answers Done. Errors: lease_lost (neither the holder's token nor that of its running job),
// too_large (kMaxSessionStateBytes).
struct PutSessionState {
  SessionKey session;
  Token token = 0;
  std::string state;  // JSON, "" removes it
};
// A stopped session goes on; one that is not stopped does already. Answers Done. Errors: not_found.
struct ResumeSession {
  SessionKey session;
  Within within{};
};
inline constexpr std::size_t kMaxSessionStateBytes = 256 << 10;
inline constexpr std::size_t kMaxHeldSessions = 100'000;

struct SessionInfo {
  SessionKey session;
  std::int64_t jobs = 0;  // living: that with the turn and those that wait
  JobId turn = 0;         // whose turn it is; 0 = nobody's
  SessionStop stop = SessionStop::none;
  JobId stopped_by = 0;    // the dead job
  std::string worker;      // its holder, "" = none
  Token token = 0;         // of the holder; 0 = none
  Duration expires_in{0};  // of the holder's lease
  std::string state;       // JSON; "" = none, or not asked for (lists)
  std::size_t state_bytes = 0;
  WallTime changed_at;  // of its line, its holder or its state
};
struct SessionPage {
  std::vector<SessionInfo> sessions;  // by (queue, key)
  std::optional<SessionKey> next;     // pass as `after`; nullopt = no more
};

}  // namespace mainspring
