// Holding a session: all its jobs, one after the other, by one holder.
//
//   auto session = engine.sessions().accept("orders", {.wait = 20s});   // or {.key = …}
//   while (auto job = session->next(10s)) {                          // an error: see lost()
//     if (!*job) break;                                              // nothing came: give it back
//     session->finish(**job, Complete{}, R"({"seen":7})");           // and the state from now on
//   }
//
// The session and the job that it runs are renewed by a thread of their own at a third of the
// lease; the session is released when the object ends. Guide: docs/guides/sessions.md.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "mainspring/job.h"

namespace mainspring {

struct SessionOptions {
  std::string key{};  // "" = the next free one that has a job
  // Until somebody else may have it when nothing is heard of this holder. kMinLease to kMaxLease.
  Duration lease = kDefaultLease;
  Duration wait{0};        // without a key: for one that is free
  std::stop_token stop{};  // ends that wait
};

// One holding of a session. Movable; the last owner's end releases it. Calls are safe from every
// thread, one job at a time.
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

  // The next job, waiting for it up to `wait`; nullopt if there was none. Errors: conflict (the one
  // before has not been finished), lease_lost, unavailable.
  Result<std::optional<ClaimedJob>> next(Duration wait = Duration(0));
  // Ends the attempt, and sets the state with it: JSON, "" = none; nullopt leaves it as it is.
  // Errors: lease_lost (the job is not ours any more), invalid_argument, too_large, unavailable.
  Result<void> finish(const ClaimedJob& job, Outcome outcome,
                      std::optional<std::string> session_state = std::nullopt);
  // As it was accepted, or as this holder has set it last. JSON, "" = none.
  std::string state() const;
  // On disk when it returns. Errors: lease_lost, invalid_argument, too_large, unavailable.
  Result<void> set_state(std::string json);
  // Ends the holding now. A job that was not finished is given back, and the attempt is not
  // counted. Errors: lease_lost (it had been lost before), unavailable (it will expire). Later
  // calls do nothing.
  Result<void> release();

 private:
  std::shared_ptr<State> state_;
};

}  // namespace mainspring
