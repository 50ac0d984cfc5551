// Holding one job that was claimed by its id: what was put aside is taken back, and ended by hand.
//
//   auto held = engine.claim(id);            // conflict: something holds it; engine.why() says
//   what if (!held) return held.error(); auto done = approve(held->job().args);
//   held->finish(Complete{to_json(done)});
//
// The job is renewed by a thread of its own at a third of the lease, and given back when the object
// ends before it was finished. Guide: docs/guides/cpp.md.
#pragma once

#include <memory>
#include <stop_token>

#include "mainspring/job.h"

namespace mainspring {

struct ClaimOptions {
  // Until somebody else may have it when nothing is heard of this holder. kMinLease to kMaxLease.
  Duration lease = kDefaultLease;
};

// One holding of a job. Movable. Calls are safe from every thread.
class HeldJob {
 public:
  struct State;
  explicit HeldJob(std::shared_ptr<State> state);
  ~HeldJob();  // gives it back: a deferred one is deferred again, others go on at once
  HeldJob(HeldJob&&) noexcept;
  HeldJob& operator=(HeldJob&&) noexcept;

  const ClaimedJob& job() const;
  bool lost() const;              // another worker may have it
  bool cancel_requested() const;  // somebody cancelled it
  // Stop is requested when it is lost, or somebody cancels it.
  std::stop_token stop_token() const;

  // Ends the attempt; then nothing is held any more. Errors: lease_lost (the job is not ours any
  // more), conflict (it was finished before), invalid_argument and too_large (the outcome; it may
  // be finished with another one), unavailable (try again).
  Result<void> finish(Outcome outcome);

 private:
  std::shared_ptr<State> state_;
};

}  // namespace mainspring
