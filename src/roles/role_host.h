// RoleHost: keeps the roles of a program running. mainspring::run connects it to flags and signals.
//
// A thread per role calls on_start and run() alternately, with pauses after failures. stop() asks
// all roles to end, then calls on_stop in reverse order.
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
  bool freeze = false;        // it should sleep, at the latest when its run() ends
  std::int64_t starts = 0;    // calls of on_start
  std::int64_t failures = 0;  // on_start that did not return true, run() that ended by itself
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

  // Call before start(), and whenever the settings changed. Errors: invalid_argument (an unknown
  // role in `freeze`; nothing changes then).
  Result<void> configure(Settings settings);
  // Called once, on any thread, when the engine cannot be started: the program should end.
  void on_fatal(std::function<void(const Error&)> fatal);
  // Runs the startup tasks, starts the roles. May be called once. Errors: invalid_argument
  // (options, names), that of a simple startup task.
  Result<void> start();
  // Waits for everything to stop: see RoleOptions::stop_limit. After that time it calls `overdue`
  // with the names of what has not stopped; if that returns, it continues to wait. May be called
  // twice, and before start.
  void stop(const std::function<void(const std::vector<std::string>&)>& overdue);
  // The clock was moved: checks again whether pauses are over.
  void wake();

  // Returns whether every role that is not frozen is running. False while stopping.
  bool ready() const;
  std::vector<RoleView> view() const;

  // Gauges per role; beyond that, set_metric only warns.
  static constexpr std::size_t kMaxMetrics = 200;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring::roles
