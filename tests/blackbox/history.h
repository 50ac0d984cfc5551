// The observations of a run's clients: every request with the times of sending and answer, and its
// known outcome. The checks read nothing else.
//
// All times are CLOCK_MONOTONIC of the one host, in microseconds. "A before B" means that A was
// answered before B was sent; anything else may have happened in either order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace blackbox {

using Micros = std::int64_t;
using Id = std::int64_t;

enum class Done : std::uint8_t {
  yes,      // acknowledged
  no,       // refused: it certainly did not happen
  unknown,  // no answer: it may have happened
};

struct Span {
  Micros invoke = 0;
  Micros ret = 0;
};

struct EnqueuedItem {
  std::int64_t nonce = 0;  // in the job's args, identifies the job
  Id id = 0;               // 0 = not known
  Micros delay = 0;        // as asked for
  bool duplicate = false;
  std::string state;
};

struct EnqueueEvent {
  Span at;
  Done done = Done::unknown;
  int status = 0;
  std::string key;   // Idempotency-Key, "" = none
  std::string body;  // its fingerprint: equal bodies, equal text
  std::string queue;
  std::string unique;  // unique key, "" = none
  bool replaces = false;
  std::vector<EnqueuedItem> jobs;
};

struct GrantEvent {
  Span at;
  std::int64_t request = 0;  // number of the claim
  Id id = 0;
  std::int64_t token = 0;
  int attempt = 0;
  int max_attempts = 0;
  std::int64_t nonce = 0;
  std::string queue;
  std::string checkpoint;  // JSON text, "" = none
  Micros lease = 0;        // as asked for
  std::string session{};   // its key, "" = none
  std::string session_state{};
  std::int64_t hold = 0;  // the session's token that the claim carried or got; 0 = none
};

// A worker holds a session.
struct SessionHold {
  Micros granted = 0;  // when the answer was there
  std::string queue;
  std::string session;
  std::int64_t token = 0;
  Micros valid_until = 0;  // as the holder knew
};

// A state that a worker wrote, perhaps in several requests. Each written state is unique.
struct SessionWrite {
  std::string queue;
  std::string session;
  std::string state;
  Micros invoke = 0;  // of the first request
  Micros acked = 0;   // 0 = never
};

struct FinishEvent {
  Span at;
  Done done = Done::unknown;
  Id id = 0;
  std::int64_t token = 0;
  std::string outcome;  // complete, retry, snooze, defer, cancel, dead
  std::string status;   // ok, stale, not_found; "" when done is unknown
  std::string text;     // the result's JSON, the error, or the reason
  Micros after = 0;     // retry, snooze

  bool accepted() const { return done == Done::yes && status == "ok"; }
  bool possible() const { return done == Done::unknown || accepted(); }
};

struct RenewEvent {
  Span at;
  Done done = Done::unknown;
  Id id = 0;
  std::int64_t token = 0;
  bool renewed = false;
  bool lost = false;
  bool cancel = false;
  std::string checkpoint;  // sent, "" = none
  Micros lease = 0;

  bool accepted() const { return done == Done::yes && renewed; }
};

struct CancelEvent {
  Span at;
  Done done = Done::unknown;
  Id id = 0;
  int status = 0;
  std::string state;       // cancelled or running
  bool requested = false;  // cancel_requested
};

struct RetryEvent {  // an operator's, of one job; or a claim that names it
  Span at;
  Done done = Done::unknown;
  Id id = 0;
  int status = 0;
};

struct PauseEvent {
  Span at;
  Done done = Done::unknown;
  std::string queue;
  bool paused = false;
};

struct ReadEvent {
  Span at;
  Id id = 0;
  int status = 0;
  std::string state;
  int attempt = 0;
};

// One queue's counters, as they were read while the run was on.
struct CountsEvent {
  Span at;
  std::string queue;
  std::int64_t enqueued = 0;
  std::int64_t accounted = 0;  // kept in any state, expired, pruned
};

// Times at which the server was down or stopped, with the nemesis' action.
struct NemesisEvent {
  Span at;
  std::string what;  // kill, term, stop, second, calm
};

struct FinalJob {
  Id id = 0;
  std::int64_t nonce = 0;
  std::string queue;
  std::string state;
  int attempt = 0;
  int max_attempts = 0;
  std::string result;
  std::string reason;
  std::vector<std::pair<int, std::string>> errors;  // attempt, message
};

struct FinalQueue {
  std::map<std::string, std::int64_t> counts;
  std::int64_t enqueued = 0;
  std::int64_t pruned = 0;
  std::int64_t expired = 0;
};

struct History {
  std::vector<EnqueueEvent> enqueues;
  std::vector<GrantEvent> grants;
  std::vector<FinishEvent> finishes;
  std::vector<RenewEvent> renews;
  std::vector<CancelEvent> cancels;
  std::vector<RetryEvent> retries;
  std::vector<PauseEvent> pauses;
  std::vector<ReadEvent> reads;
  std::vector<CountsEvent> counts;
  std::vector<SessionHold> session_holds;
  std::vector<SessionWrite> session_writes;
  bool sessions_are_forgotten = false;  // states of idle sessions may have been pruned in this run
  std::vector<NemesisEvent> nemeses;
  std::int64_t unknown_claims = 0;
  std::vector<std::string> unanswered;  // requests that the server never answered

  // The data read back after all faults had ended and all jobs were drained.
  bool complete = false;         // false: missing data proves nothing
  std::map<Id, FinalJob> jobs;   // by GET /v1/jobs/{id}
  std::vector<Id> dead_listing;  // ids of GET /v1/jobs?state=dead
  std::map<std::string, FinalQueue> queues;
  std::vector<std::string> unreadable;  // data that could not be read back

  void append(History&& other);
  std::size_t operations() const;
};

// The earliest time at which a grant's lease may end, from the renewals of its token. The last
// renewal decides: it may shorten the lease. A renewal without an answer has an unknown length.
Micros lease_end(const GrantEvent& grant, std::vector<const RenewEvent*> renews);

// One JSON object per line, in order of sending.
void write_jsonl(const History& history, const std::string& path);

}  // namespace blackbox
