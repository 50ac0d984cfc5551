// WorkerRuntime: claims jobs, runs their handlers in parallel, renews their leases, reports their
// outcomes. Works with any Jobs: the broker of this process or a client of a remote server.
//
//   claimer ──claim──▶ ready ──▶ N slots (handlers) ──▶ done ──▶ finisher ──finish──▶
//                        └──────── leases ────────┘
//                             ▲            ▲
//                 renewer ────┘            └──── watcher: time limits, leases that run out
//
// Each box is a thread, so that neither a busy handler nor a slow server delays a renewal or a stop
// request. Claims request enough jobs for the idle slots, and more for handlers that take
// microseconds. A job that costs more than the free slots waits in `ready`, its lease renewed, and
// nothing is claimed until it has started. Outcomes that arrive during a finish call are sent with
// the next: a single one at once, under load a batch per round trip, without a timer.
//
// A handler is asked to stop before its lease ends by the server's clock: deadlines are measured
// from before the renewal was sent, less a margin. An outcome is repeated until the server answers;
// its token makes that safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "broker/jobs.h"
#include "env/clock.h"
#include "env/random.h"
#include "mainspring/worker.h"
#include "telemetry/log.h"

namespace mainspring {

// WorkerOptions::language of workers that run a program for each job.
inline constexpr std::string_view kProgramLanguage = "program";

class WorkerRuntime {
 public:
  // `jobs`, `clock`, `random`, `log` outlive it and are called from several threads.
  WorkerRuntime(Jobs& jobs, const Clock& clock, Random& random, Log& log, WorkerOptions options);
  ~WorkerRuntime();  // stops
  WorkerRuntime(const WorkerRuntime&) = delete;
  WorkerRuntime& operator=(const WorkerRuntime&) = delete;

  // Before start. Only kinds that have a handler are claimed.
  void on(std::string kind, Handler handler, KindOptions options = {});
  // Before start. Takes every kind that has no handler of its own.
  void on_any(Handler handler, KindOptions options = {});

  // Before start. Replaces calls of `jobs.claim`, for callers that control what is claimed and
  // when. Called from one thread; may wait longer than `wait`, but not after a stop.
  using ClaimCall = std::function<Result<ClaimResult>(Claim, Duration wait, std::stop_token stop)>;
  void claim_with(ClaimCall call);

  // Before start. Called once, from a thread of the worker, when a claim or an outcome is refused
  // with unauthenticated or forbidden: waiting will not help. The worker still continues to claim.
  void on_refused(std::function<void(const Error&)> refused);

  // Errors: invalid_argument (options, no handler), conflict (already started). Does not wait for
  // the server: while it is unreachable, claims are retried with growing pauses.
  Result<void> start();
  // Stops claiming and starts the shutdown; does not wait. Safe in a stop_callback.
  void request_stop();
  // Claims nothing more, lets handlers finish, asks the remaining ones to stop, returns their jobs,
  // and waits for all of them (a handler that ignores its stop token blocks it). May be called
  // twice, from several threads, and before start.
  void stop();

  // Claims for at most this many slots from now on, 1 to WorkerOptions::slots, which is the value
  // at the start. Running jobs continue, also those above it.
  void set_slots(int slots);

  const std::string& incarnation() const;
  WorkerStats stats() const;
  // Why its program cannot be started; "" = it can, or was not needed yet.
  std::string start_trouble() const;
  // The same as an error, for a worker that ends because of it; nullopt = "".
  std::optional<Error> start_failure() const;

  struct State;  // its internals

 private:
  std::unique_ptr<State> state_;
};

}  // namespace mainspring
