// Role: a part of a program that is started, runs, and is stopped, watched over by a host.
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
// The program is ready (GET /readyz answers 200, handlers of its engine claim jobs) when on_start
// of every role has returned true. One role's failure restarts that role only. Source: the roles of
// Azure cloud services, without their recycling of the whole machine.
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

// What a role may use. Callable from every thread, as long as the role lives.
class RoleContext {
 public:
  virtual ~RoleContext() = default;
  // The program's engine: opened before the first on_start from --engine (a directory or http://…).
  // Register handlers in on_start; it is started when all roles are ready. Without --engine a call
  // ends the role's attempt with a message that says so.
  virtual Engine& engine() = 0;
  // A value of the configuration: flag --set NAME=VALUE, else the environment's
  // MAINSPRING_ROLE_<NAME> (upper case, '-' and '.' as '_'), else [role] of the file, else
  // fallback.
  virtual std::string config(std::string_view name, std::string_view fallback = "") const = 0;
  // A gauge on /metrics: mainspring_role_value{role,name}.
  virtual void set_metric(std::string_view name, double value) = 0;
  // One line of the program's log.
  virtual void log(std::string_view level, std::string_view text) = 0;
  virtual std::stop_token stop_token() const = 0;
};

class Role {
 public:
  virtual ~Role() = default;
  // As in logs, metrics and --freeze: check_name.
  virtual std::string_view name() const = 0;
  // Gets ready; no traffic and no claims before it returns true. Called again after a failure.
  virtual bool on_start(RoleContext&) { return true; }
  // The work, on a thread of its own, until `stop` is requested. When it returns before that, or
  // throws, it is called again after a pause (after on_start again).
  virtual void run(std::stop_token stop) = 0;
  // After run() has returned, or in place of that when the stop has waited for run() as long as it
  // may. At most stop_limit for both; then the process is ended.
  virtual void on_stop() {}
};

// Done before the first on_start, one after the other, by order of the list.
struct StartupTask {
  std::string name;
  std::function<Result<void>()> task;
  // simple: the program waits for it, and ends if it fails. background: it runs beside the roles.
  // foreground: beside the roles, and the stop waits for it.
  enum class Kind { simple, background, foreground } kind = Kind::simple;
};

struct RoleOptions {
  // Pauses between restarts of a role: the first, doubled each time up to the second; begins anew
  // after it ran for `healthy`.
  Duration first_pause = std::chrono::seconds(1);
  Duration longest_pause = std::chrono::seconds(60);
  Duration healthy = std::chrono::minutes(5);
  // For run() and on_stop() of all roles together, at the end.
  Duration stop_limit = std::chrono::minutes(5);
  std::vector<StartupTask> startup_tasks;
  // What the program is called in --help and logs; "" = argv[0].
  std::string program;
  std::string description;
  EngineOptions engine;

  // All mistakes; empty = none.
  std::vector<Error> validate() const;
};

enum class RoleState : std::uint8_t { starting, running, pausing, frozen, stopping, stopped };
std::string_view to_string(RoleState state);

// Waits until a stop is requested, for up to `limit`; answers whether it was. For a run() whose
// work is done by handlers, or now and then: while (!wait_for_stop(stop, 10s)) look();
bool wait_for_stop(std::stop_token stop, Duration limit = kForever);

// A whole program: flags (--engine, --listen for /healthz, /readyz and /metrics, --config, --set,
// --freeze ROLE, --log-level, --help), signals (SIGTERM and Ctrl-C stop, a second one ends at once,
// SIGHUP reads the configuration again: a role named in `freeze` goes to sleep when its run() has
// ended, or before its next start; when it is no longer there it is thawed), roles. Returns the
// exit code: 0 stopped in good order, 64 bad flags or roles, 70 a startup task, the engine or the
// stop failed; where the engine cannot be opened, or the address not be listened on, that error's.
// Ends the process with 70 after stop_limit, with 130 at the second signal.
int run(std::span<Role* const> roles, int argc, char** argv, RoleOptions options = {});
int run(std::initializer_list<Role*> roles, int argc, char** argv, RoleOptions options = {});

}  // namespace mainspring
