// Operations on sessions: jobs with the same key run one at a time, in the order of their enqueue.
//
// A session is (queue, key). One of its live jobs is the head; the others are `waiting`:
//
//   enqueue ─▶ waiting ─▶ waiting ─▶ [ the head: available · running · scheduled · retryable ] ─▶
//   end
//              by id, the lowest first            a job stays the head through its retries
//
// Rules, applied in the transaction that changes the jobs:
//   - A new job becomes the head if the session has no head and is not stopped; else it waits. Ids
//     follow the order of enqueue within a session, across all nodes too.
//   - When the head ends, the waiting job with the lowest id becomes the head. Its state is
//     available, or scheduled if its run_at is in the future. If the old head ended dead, its
//     `on_dead` decides: skip continues as above; block stops the session until that job is
//     retried, or until ResumeSession; park stops the session until ResumeSession.
//   - A waiting job that is cancelled or expires leaves the session. This never stops the session,
//     even if the expiry makes the job dead. Retrying a waiting job is `conflict`.
//   - An ended job that is retried or redriven enters the session at its id. It becomes the head if
//     there is none and the session is not stopped, or is blocked by this job. Otherwise the job is
//     waiting, and RetryResult says so.
//   - The first job or accept creates a session. A session is removed when it has no live job, no
//     holder and no state, and is not stopped. A session with nothing but a state is kept for the
//     store's retention_dead from the last change; then PruneJobs removes it.
//
// Holding. A worker may accept a session and hold it: no other worker gets its jobs, including
// future ones, until the holder releases the session or its lease ends. RescueExpired ends expired
// leases; the agenda counts them in next_lease_expiry; after a restart the lease starts again, like
// other leases. While a session is held, its head is `waiting` where it would otherwise be
// available, and only a claim of that session finds it. An accept does not affect a running job:
// the holder waits for its end. The token comes from the store's single token sequence.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mainspring/job.h"
#include "model/access.h"
#include "model/session.h"

namespace mainspring {

// What the holder of a session receives.
struct SessionGrant {
  SessionKey session;
  Token token = 0;
  Duration lease{0};  // time to renew it, from the commit of the answer
  std::string state;  // JSON, "" = none
  bool held = false;  // the worker had it already
  friend bool operator==(const SessionGrant&, const SessionGrant&) = default;
};

// Holds this session, with or without jobs. Answers SessionGrant. Errors: lease_held
// (retry_after_ms = time until it expires), overloaded (kMaxHeldSessions). The current holder gets
// the session again, renewed, with the same token. (To accept the next free session with an
// available job, use a Claim with accept_queue(): it returns one job and ClaimResult::session.)
struct AcceptSession {
  std::string worker;
  SessionKey session;
  Duration lease = kDefaultLease;
};
// Answers SessionGrant. Errors: lease_lost. Writes to disk only for a longer lease than before.
struct RenewSession {
  SessionKey session;
  Token token = 0;
  Duration lease{0};  // 0 = as long as before
};
// Answers Done. Errors: lease_lost. The head becomes available to all workers again.
struct ReleaseSession {
  SessionKey session;
  Token token = 0;
};
// Answers Done. Errors: lease_lost (the token is neither the holder's nor the running job's),
// too_large (kMaxSessionStateBytes).
struct PutSessionState {
  SessionKey session;
  Token token = 0;
  std::string state;  // JSON, "" removes it
};
// Continues a stopped session; no change if it is not stopped. Answers Done. Errors: not_found.
struct ResumeSession {
  SessionKey session;
  Within within{};
};
inline constexpr std::size_t kMaxSessionStateBytes = 256 << 10;
inline constexpr std::size_t kMaxHeldSessions = 100'000;

struct SessionInfo {
  SessionKey session;
  std::int64_t jobs = 0;  // live jobs: the head and the waiting jobs
  JobId head = 0;         // the job at the head; 0 = none
  SessionStop stop = SessionStop::none;
  JobId stopped_by = 0;    // the dead job
  std::string worker;      // its holder, "" = none
  Token token = 0;         // of the holder; 0 = none
  Duration expires_in{0};  // of the holder's lease
  std::string state;       // JSON; "" = none, or not requested (lists)
  std::size_t state_bytes = 0;
  WallTime changed_at;  // last change of its jobs, its holder or its state
};
struct SessionPage {
  std::vector<SessionInfo> sessions;  // by (queue, key)
  std::optional<SessionKey> next;     // pass as `after`; nullopt = last page
};

}  // namespace mainspring
