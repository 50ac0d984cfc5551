// WorkerRuntime: claims jobs, runs their handlers in parallel, keeps their leases, reports how they
// ended. Works on any Jobs: the broker of this process or a client of a remote server.
//
//   claimer ──claim──▶ ready ──▶ N slots (handlers) ──▶ done ──▶ finisher ──finish──▶
//                        └──────── leases ────────┘
//                             ▲            ▲
//                 renewer ────┘            └──── watcher: time limits, leases that run out
//
// One thread each, so that neither a busy handler nor a slow server keeps a lease from being
// renewed or a handler from being told. Claims are sized to the idle slots, and beyond them for
// handlers that take microseconds. A job that costs more than the slots that are free waits in
// `ready`, its lease renewed, and nothing is claimed until it has begun. Outcomes that end while a
// finish is under way go with the next: alone at once, under load a batch per round trip, no timer.
//
// A handler hears that its lease is lost before the lease ends by the server's clock: deadlines are
// reckoned from before the renewal was sent, less a margin. An outcome is repeated until the server
// answers; its token makes that safe.
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

  // Before start. Claims go this way instead of to `jobs` directly: for whoever has a say in what
  // is claimed, and when. Called from one thread; may wait longer than it is told to, but not after
  // a stop.
  using ClaimCall = std::function<Result<ClaimResult>(Claim, Duration wait, std::stop_token stop)>;
  void claim_with(ClaimCall call);

  // Before start. Called once, from a thread of the worker, when a claim or an outcome is
  // answered with unauthenticated or forbidden: waiting will not help. Claims are tried on all the
  // same.
  void on_refused(std::function<void(const Error&)> refused);

  // Errors: invalid_argument (options, no handler), conflict (it was started before). Does not wait
  // for the server: while it is away, claims are tried again with growing pauses.
  Result<void> start();
  // Stops claiming and begins the end; does not wait. Safe in a stop_callback.
  void request_stop();
  // Claims nothing more, lets handlers end, tells those that do not, gives their jobs back, waits
  // for all (a handler that ignores its stop token holds it up). May be called twice, from several
  // threads, and before start.
  void stop();

  const std::string& incarnation() const;
  WorkerStats stats() const;

  struct State;  // its inside

 private:
  std::unique_ptr<State> state_;
};

}  // namespace mainspring
