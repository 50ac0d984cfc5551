// Holds a session: one holder runs all its jobs, one after another.
//
//   auto session = engine.sessions().accept("orders", {.wait = 20s});   // or {.key = …}
//   while (auto job = session->next(10s)) {                          // an error: see lost()
//     if (!*job) break;                                              // no job: release the session
//     session->finish(**job, Complete{}, R"({"seen":7})");           // and set the session's state
//   }
//
// A thread renews the session and its running job at a third of the lease. The session is released
// when the object ends. Guide: docs/guides/sessions.md.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "mainspring/job.h"

namespace mainspring {

struct SessionOptions {
  std::string key{};  // "" = the next free session that has a job
  // If the store hears nothing from this holder for this long, another may get the session.
  // kMinLease to kMaxLease.
  Duration lease = kDefaultLease;
  Duration wait{0};        // without a key: how long to wait for a free session
  std::stop_token stop{};  // ends the wait
};

// Holds one session. Movable; released when the last owner ends. Thread-safe; one job at a time.
class HeldSession {
 public:
  struct State;
  explicit HeldSession(std::shared_ptr<State> state);
  ~HeldSession();  // releases
  HeldSession(HeldSession&&) noexcept;
  HeldSession& operator=(HeldSession&&) noexcept;

  const std::string& queue() const;
  const std::string& key() const;
  Token token() const;  // of the session; grows with every holder
  bool lost() const;
  std::stop_token stop_token() const;  // stop is requested when it is lost

  // The next job. Waits for it up to `wait`; nullopt if there is none. Errors: conflict (the
  // previous job is not finished), lease_lost, unavailable.
  Result<std::optional<ClaimedJob>> next(Duration wait = Duration(0));
  // Ends the attempt and sets the session's state: JSON, "" = none; nullopt = unchanged. Errors:
  // lease_lost (another may have the job), invalid_argument, too_large, unavailable.
  Result<void> finish(const ClaimedJob& job, Outcome outcome,
                      std::optional<std::string> session_state = std::nullopt);
  // The state when the session was accepted, or as this holder set it last. JSON, "" = none.
  std::string state() const;
  // On disk when it returns. Errors: lease_lost, invalid_argument, too_large, unavailable.
  Result<void> set_state(std::string json);
  // Ends the holding now. An unfinished job is returned, and its attempt is not counted. Errors:
  // lease_lost (it was lost earlier), unavailable (it will expire). Later calls do nothing.
  Result<void> release();

 private:
  std::shared_ptr<State> state_;
};

}  // namespace mainspring
