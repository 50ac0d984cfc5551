// Role: a part of a program that a host starts, supervises and stops.
//
//   struct Mailer : mainspring::Role {
//     std::string_view name() const override { return "mailer"; }
//     bool on_start(mainspring::RoleContext& context) override { return connect(); }
//     void run(std::stop_token stop) override { while (!stop.stop_requested()) send_one(); }
//   };
//   int main(int argc, char** argv) { Mailer mailer; return mainspring::run({&mailer}, argc, argv);
//   }
//
//   starting ──on_start true──▶ ready, run() on a thread of its own ──stop──▶ on_stop ──▶ stopped
//      │ false, throws              │ returns or throws
//      └──── back-off, again ◀──────┘            frozen: asleep until it is thawed
//
// The program is ready (GET /readyz returns 200, handlers of its engine claim jobs) when on_start
// of every role has returned true. A failed role is restarted alone. Source: the roles of Azure
// cloud services, which recycle the whole machine instead.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/engine.h"

namespace mainspring {

// The environment of a role. Thread-safe, as long as the role lives.
class RoleContext {
 public:
  virtual ~RoleContext() = default;
  // The program's engine, opened before the first on_start from --engine (a directory or http://…).
  // Register handlers in on_start; the engine starts when all roles are ready. Without --engine, a
  // call fails the role's attempt with an error message.
  virtual Engine& engine() = 0;
  // A configuration value. The first of: flag --set NAME=VALUE, environment variable
  // MAINSPRING_ROLE_<NAME> (upper case, '-' and '.' as '_'), [role] of the file, fallback.
  virtual std::string config(std::string_view name, std::string_view fallback = "") const = 0;
  // Sets a gauge on /metrics: mainspring_role_value{role,name}.
  virtual void set_metric(std::string_view name, double value) = 0;
  // Writes one line to the program's log.
  virtual void log(std::string_view level, std::string_view text) = 0;
  virtual std::stop_token stop_token() const = 0;
};

class Role {
 public:
  virtual ~Role() = default;
  // Name in logs, metrics and --freeze: see check_name.
  virtual std::string_view name() const = 0;
  // Prepares the role; there is no traffic and no claim before it returns true. Called again after
  // a failure.
  virtual bool on_start(RoleContext&) { return true; }
  // Does the work, on a thread of its own, until `stop` is requested. If it returns earlier or
  // throws, on_start and run are called again after a pause.
  virtual void run(std::stop_token stop) = 0;
  // Called after run() has returned, or when the time for run() to stop has passed. Both together
  // have stop_limit; then the process exits.
  virtual void on_stop() {}
};

// Runs before the first on_start, one after another, in the order of the list.
struct StartupTask {
  std::string name;
  std::function<Result<void>()> task;
  // simple: the program waits for it, and exits if it fails. background: it runs in parallel with
  // the roles. foreground: as background, and stopping waits for it.
  enum class Kind { simple, background, foreground } kind = Kind::simple;
};

struct RoleOptions {
  // Pauses between restarts of a role: the first, doubled each time up to the longest. A run of
  // `healthy` resets the pause.
  Duration first_pause = std::chrono::seconds(1);
  Duration longest_pause = std::chrono::seconds(60);
  Duration healthy = std::chrono::minutes(5);
  // For run() and on_stop() of all roles together, when the program stops.
  Duration stop_limit = std::chrono::minutes(5);
  std::vector<StartupTask> startup_tasks;
  // The program's name in --help and logs; "" = argv[0].
  std::string program;
  std::string description;
  EngineOptions engine;

  // All mistakes; empty = none.
  std::vector<Error> validate() const;
};

enum class RoleState : std::uint8_t { starting, running, pausing, frozen, stopping, stopped };
std::string_view to_string(RoleState state);

// Waits up to `limit` for a stop request; returns true if there was one. For a run() whose handlers
// do the work, or that works at intervals: while (!wait_for_stop(stop, 10s)) look();
bool wait_for_stop(std::stop_token stop, Duration limit = kForever);

// Runs a whole program of roles.
// Flags: --engine, --listen for /healthz, /readyz and /metrics, --config, --set, --freeze ROLE,
// --log-level, --help.
// Signals: SIGTERM and Ctrl-C stop it, a second one ends it at once. SIGHUP reads the configuration
// again: a role named in `freeze` sleeps once its run() has ended, or before its next start; a role
// that is no longer named wakes up.
// Exit codes: 0 stopped cleanly; 64 bad flags or roles; 70 a startup task, the engine or the stop
// failed; if the engine cannot be opened or the address cannot be bound, the code of that error.
// Ends the process with 70 after stop_limit, with 130 at the second signal.
int run(std::span<Role* const> roles, int argc, char** argv, RoleOptions options = {});
int run(std::initializer_list<Role*> roles, int argc, char** argv, RoleOptions options = {});

}  // namespace mainspring
