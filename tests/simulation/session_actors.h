// The clients of a simulated world that hold sessions.
#pragma once

#include <set>
#include <string>

#include "simulation/actors.h"

namespace mainspring::simulation {

// Accepts a session, runs its jobs one after the other, writes states and releases the session,
// unless it crashes or is paused for longer than its lease.
class SessionHolder final : public SimWorker {
 public:
  using SimWorker::SimWorker;
  void start() override;
  // Accepts no more sessions; releases the current one.
  void stop() { stopped_ = true; }

 private:
  void claim() override;
  void answered(const OperationResult& result, Duration sent, const Claim& claim) override;
  void beat() override;
  void accept(SessionKey session);
  void keep(const SessionGrant& grant, Duration sent);
  void renew();
  void put_state();
  void release();
  void lose();

  bool stopped_ = false;
  SessionKey session_;
  Token token_ = 0;       // 0 = it believes that it holds none
  std::size_t hold_ = 0;  // its place in the history
  // A release may arrive late, when the same token has been given again.
  std::set<Token> given_up_;
  int states_ = 0;
};

}  // namespace mainspring::simulation
