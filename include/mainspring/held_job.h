// Holds one job that was claimed by its id, for example a deferred job that you finish by hand.
//
//   auto held = engine.claim(id);            // conflict: something holds it; engine.why() says
//   if (!held) return held.error();
//   auto done = approve(held->job().args);
//   held->finish(Complete{to_json(done)});
//
// A thread renews the job's lease at a third of its length. If the object ends before finish(), the
// job is returned. Guide: docs/guides/cpp.md.
#pragma once

#include <memory>
#include <stop_token>

#include "mainspring/job.h"

namespace mainspring {

struct ClaimOptions {
  // If the store hears nothing from this holder for this long, another may get the job. kMinLease
  // to kMaxLease.
  Duration lease = kDefaultLease;
};

// Holds one job. Movable. Thread-safe.
class HeldJob {
 public:
  struct State;
  explicit HeldJob(std::shared_ptr<State> state);
  ~HeldJob();  // returns the job: a deferred job is deferred again, others become available
  HeldJob(HeldJob&&) noexcept;
  HeldJob& operator=(HeldJob&&) noexcept;

  const ClaimedJob& job() const;
  bool lost() const;              // another worker may have the job
  bool cancel_requested() const;  // the job was cancelled
  // Stop is requested when the job is lost or cancelled.
  std::stop_token stop_token() const;

  // Ends the attempt and the holding. Errors: lease_lost (another may have the job), conflict
  // (already finished), invalid_argument and too_large (the outcome; you can finish with another
  // outcome), unavailable (try again).
  Result<void> finish(Outcome outcome);

 private:
  std::shared_ptr<State> state_;
};

}  // namespace mainspring
