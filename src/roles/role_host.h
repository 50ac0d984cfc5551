// RoleHost: keeps the roles of a program running. What mainspring::run wires to flags and signals.
//
// A thread for each role calls its on_start and run() in turn, with pauses after failures; stop()
// asks all of them to end, then calls on_stop in the reverse of their order.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "env/clock.h"
#include "mainspring/role.h"
#include "roles/settings.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace mainspring::roles {

struct RoleView {
  std::string name;
  RoleState state = RoleState::starting;
  bool freeze = false;        // it is to sleep, when it ends at the latest
  std::int64_t starts = 0;    // calls of on_start
  std::int64_t failures = 0;  // on_start that was not true, run() that ended by itself
  std::string last_failure;   // "" = none yet
};

class RoleHost {
 public:
  // All outlive it. `engine` may be nullptr. Metrics are registered in `registry`.
  RoleHost(std::vector<Role*> roles, RoleOptions options, Engine* engine, const Clock& clock,
           Log& log, Registry& registry);
  ~RoleHost();  // stops
  RoleHost(const RoleHost&) = delete;
  RoleHost& operator=(const RoleHost&) = delete;

  // Before start(), and whenever they changed. Errors: invalid_argument (a role to be frozen is
  // none of ours; nothing changes then).
  Result<void> configure(Settings settings);
  // Called once, on some thread, when the engine cannot be started: the program should end.
  void on_fatal(std::function<void(const Error&)> fatal);
  // Runs the startup tasks, starts the roles. Once. Errors: invalid_argument (options, names), that
  // of a simple startup task.
  Result<void> start();
  // Waits for all of it: see RoleOptions::stop_limit. When that has passed it calls `overdue` with
  // the names of what has not stopped; if that returns, it goes on waiting. May be called twice,
  // before start too.
  void stop(const std::function<void(const std::vector<std::string>&)>& overdue);
  // The clock was moved: looks again whether pauses are over.
  void wake();

  // Is every role that is not frozen running? Not while stopping.
  bool ready() const;
  std::vector<RoleView> view() const;

  // Gauges of one role; beyond, set_metric does nothing but warn.
  static constexpr std::size_t kMaxMetrics = 200;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring::roles
