// Renewing: renews one lease until it is ended or lost. Used by holders of named leases and of
// sessions.
//
//   start ──▶ held ──(a third of the lease)──▶ renew ──▶ …           end
//                │                               │ no answer          ▲
//                └───────── lost ◀───────────────┘ until then         │ the holder
//
// Two threads: one renews and may block in a call; the other watches the deadline. The deadline is
// measured from before the last answered renewal was sent, less a margin, so that the holder learns
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
    // Returns the granted time. lease_lost ends the holding; other errors are retried. Called on a
    // thread of its own, without a lock.
    std::function<Result<Duration>()> renew;
    // Called after each renewal, on the same thread. Empty = nothing.
    std::function<void()> also{};
    // Called once, on the watcher's thread. Empty = nothing.
    std::function<void()> on_lost{};
    // See Jobs::leases_end().
    LeasesEnd ends = LeasesEnd::elsewhere;
  };
  enum class First { in_time, at_once };  // when the first renewal is sent

  // `clock` outlives it.
  Renewing(const Clock& clock, Calls calls) : clock_(clock), calls_(std::move(calls)) {}
  ~Renewing() { (void)end(); }
  Renewing(const Renewing&) = delete;
  Renewing& operator=(const Renewing&) = delete;

  // `sent`: when the granted request was sent. Errors: io_error (no threads: call end()).
  Result<void> start(Instant sent, Duration granted, First first = First::in_time)
      MS_EXCLUDES(mutex_);
  // Another call has renewed the lease.
  void renewed(Instant sent, Duration granted) MS_EXCLUDES(mutex_);
  // Another call has found the lease lost.
  void lose() MS_EXCLUDES(mutex_);
  // Starts no further renewal; waits for the current one. Returns false if it had ended before.
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
