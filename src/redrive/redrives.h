// Redrives: works on the jobs of the queue "mainspring.redrives": redrives and bulk operations.
//
//   POST /v1/redrives ─▶ job ─claim─▶ slot: Redriver ─▶ progress, checkpoint ─▶ result
//   POST /v1/bulk ─▶ job ─claim─▶ slot: BulkRunner ─▶ progress, checkpoint ─▶ result
//
// A redrive may take days. It is a job, so it outlives whoever asked for it, and the server that
// works on it: another one goes on from its checkpoint.
#pragma once

#include <memory>

#include "broker/jobs.h"
#include "env/clock.h"
#include "env/random.h"
#include "telemetry/log.h"

namespace mainspring {

class Redrives {
 public:
  // At once; each is a thread that mostly waits. Others wait in their queue.
  static constexpr int kServerSlots = 4, kEmbeddedSlots = 1;
  // stop() tells them at once, and waits so long until they have kept where they are.
  static constexpr Duration kGracefulStop = std::chrono::seconds(5);

  // All references outlive it.
  Redrives(int slots, Jobs& jobs, const Clock& clock, Random& random, Log& log);
  ~Redrives();  // stops
  Redrives(const Redrives&) = delete;
  Redrives& operator=(const Redrives&) = delete;

  // Once. The jobs' broker must run.
  void start();
  // May be called twice, before start too; waits. Before the broker stops.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
