// Sessions of an engine: held, looked at, and resumed when a dead job has stopped them.
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

// A session as anybody sees it.
struct SessionStatus {
  std::string queue, key;
  std::int64_t jobs = 0;        // living: that with the turn and those that wait
  JobId turn = 0;               // whose turn it is; 0 = nobody's
  std::string stopped;          // "blocked" or "parked" by a dead job; "" = it goes on
  JobId stopped_by = 0;         // that job
  std::string worker;           // its holder, "" = none
  Token token = 0;              // of the holder; 0 = none
  Duration expires_in{0};       // of the holder's lease
  std::string state;            // JSON; "" = none, or not asked for (lists)
  std::size_t state_bytes = 0;  // also in lists
  WallTime changed_at;          // of its line, its holder or its state
};
struct SessionStatusPage {
  std::vector<SessionStatus> sessions;  // of one queue, by key
  std::optional<std::string> next;      // pass as `after`; nullopt = no more
};

// Borrows the engine, which outlives it. All calls are safe from every thread. Errors of all:
// invalid_argument (with the field), unavailable.
class EngineSessions {
 public:
  struct Means;  // of the engine
  explicit EngineSessions(const Means& means) : means_(&means) {}

  // Holds the session options.key of the queue, or the next free one that has a job: its jobs,
  // those to come included, are this program's alone until the object ends; the engine outlives it.
  // Errors: lease_held (somebody holds it; or, without a key, none was free within options.wait),
  // overloaded.
  Result<HeldSession> accept(const std::string& queue, SessionOptions options = {});
  // Up to `limit`, 1 to 1000, with a key behind `after`; "" = from the first.
  Result<SessionStatusPage> list(const std::string& queue, int limit = 100,
                                 const std::string& after = "");
  // Errors of these: not_found.
  Result<SessionStatus> get(const std::string& queue, const std::string& key);
  // A stopped one goes on with its next job; the dead one stays dead (Engine::retry() instead puts
  // it in front of the others again). One that is not stopped does already.
  Result<void> resume(const std::string& queue, const std::string& key);

 private:
  const Means* means_;
};

}  // namespace mainspring
