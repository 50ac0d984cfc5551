// Renewing: keeps one lease alive until it is ended or lost. What holders of leases by name and of
// sessions have in common.
//
//   start ──▶ held ──(a third of the lease)──▶ renew ──▶ …           end
//                │                               │ no answer          ▲
//                └───────── lost ◀───────────────┘ until then         │ whoever holds it
//
// Two threads: one renews and may be stuck in a call, the other one watches the deadline. That is
// reckoned from before the last answered renewal was sent, less a margin, so that the holder hears
// of the loss before the store gives the lease away.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "broker/jobs.h"
#include "env/clock.h"
#include "mainspring/result.h"

namespace mainspring {

class Renewing {
 public:
  struct Calls {
    std::string what;  // for errors: "lease report"
    // Answers how long it is granted for; lease_lost ends the holding, whatever else is tried
    // again. On a thread of its own, without a lock.
    std::function<Result<Duration>()> renew;
    // What is renewed with it, behind it; on the same thread. Empty = nothing.
    std::function<void()> also{};
    // On the watcher's thread, once. Empty = nobody wants to know.
    std::function<void()> on_lost{};
    // See Jobs::leases_end().
    LeasesEnd ends = LeasesEnd::elsewhere;
  };
  enum class First { in_time, at_once };  // when it is renewed first

  // `clock` outlives it.
  Renewing(const Clock& clock, Calls calls) : clock_(clock), calls_(std::move(calls)) {}
  ~Renewing() { (void)end(); }
  Renewing(const Renewing&) = delete;
  Renewing& operator=(const Renewing&) = delete;

  // `sent`: when that was asked for which it is granted. Errors: io_error (no threads: end it).
  Result<void> start(Instant sent, Duration granted, First first = First::in_time)
      MS_EXCLUDES(mutex_);
  // It has been renewed by a call of somebody else.
  void renewed(Instant sent, Duration granted) MS_EXCLUDES(mutex_);
  // Somebody else was told so.
  void lose() MS_EXCLUDES(mutex_);
  // No renewal begins any more; waits for the one under way. False: it had been ended before.
  bool end() MS_EXCLUDES(mutex_);

  bool lost() const MS_EXCLUDES(mutex_);
  bool held() const MS_EXCLUDES(mutex_);                            // neither lost nor ended
  std::stop_token stop_token() const { return stop_.get_token(); }  // requested when it is lost

 private:
  void run_renewer() MS_EXCLUDES(mutex_);
  void run_watcher() MS_EXCLUDES(mutex_);
  void note(Instant sent, Duration granted) MS_REQUIRES(mutex_);
  void note_loss() MS_REQUIRES(mutex_);
  void look_after_standstill(Instant now) MS_REQUIRES(mutex_);
  bool held_now() const MS_REQUIRES(mutex_) { return !lost_ && !ended_; }

  const Clock& clock_;
  const Calls calls_;
  std::stop_source stop_;

  mutable Mutex mutex_;
  CondVar renewer_cv_, watcher_cv_;
  Duration granted_ MS_GUARDED_BY(mutex_){0};
  Instant renew_at_ MS_GUARDED_BY(mutex_);
  Instant lost_at_ MS_GUARDED_BY(mutex_);
  Instant looked_at_ MS_GUARDED_BY(mutex_) = Instant::never();  // by the watcher
  bool lost_ MS_GUARDED_BY(mutex_) = false;
  bool ended_ MS_GUARDED_BY(mutex_) = false;
  std::thread renewer_, watcher_;
};

// How long before its end by the store's clock a holder counts a lease as lost.
Duration lease_margin(Duration ttl);

}  // namespace mainspring
