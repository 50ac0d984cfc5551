// Sessions of an engine: hold them, list them, and resume those that a dead job has stopped.
//
//   auto mine = engine.sessions().accept("orders", {.key = "customer/7"});   // see session.h
//   engine.sessions().resume("orders", "customer/8");
//
// Guide: docs/guides/sessions.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/session.h"

namespace mainspring {

// A session as every caller sees it.
struct SessionStatus {
  std::string queue, key;
  std::int64_t jobs = 0;        // live jobs: the head and the waiting ones
  JobId head = 0;               // the job that may run; 0 = none
  std::string stopped;          // "blocked" or "parked" by a dead job; "" = not stopped
  JobId stopped_by = 0;         // that job
  std::string worker;           // its holder, "" = none
  Token token = 0;              // of the holder; 0 = none
  Duration expires_in{0};       // of the holder's lease
  std::string state;            // JSON; "" = none, or not loaded (lists)
  std::size_t state_bytes = 0;  // also in lists
  WallTime changed_at;          // last change of its jobs, its holder or its state
};
struct SessionStatusPage {
  std::vector<SessionStatus> sessions;  // of one queue, by key
  std::optional<std::string> next;      // pass as `after`; nullopt = no more
};

// Borrows the engine, which must outlive it. Thread-safe. Errors of all calls: invalid_argument
// (with the field), unavailable.
class EngineSessions {
 public:
  struct Means;  // what the engine lends to it
  explicit EngineSessions(const Means& means) : means_(&means) {}

  // Holds the session options.key of the queue, or the next free session that has a job. While the
  // object lives, only this program gets the session's jobs, including future ones. The engine must
  // outlive the object. Errors: lease_held (it has a holder; or, without a key, none was free
  // within options.wait), overloaded.
  Result<HeldSession> accept(const std::string& queue, SessionOptions options = {});
  // Up to `limit`, 1 to 1000, with keys after `after`; "" = from the first.
  Result<SessionStatusPage> list(const std::string& queue, int limit = 100,
                                 const std::string& after = "");
  // Errors of these: not_found.
  Result<SessionStatus> get(const std::string& queue, const std::string& key);
  // Continues a stopped session with its next job; the dead job stays dead (Engine::retry() puts it
  // back at the head instead). Does nothing if the session is not stopped.
  Result<void> resume(const std::string& queue, const std::string& key);

 private:
  const Means* means_;
};

}  // namespace mainspring
