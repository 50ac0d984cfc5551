// Redrives: runs the jobs of the queue "mainspring.redrives": redrives and bulk operations.
//
//   POST /v1/redrives ─▶ job ─claim─▶ slot: Redriver ─▶ progress, checkpoint ─▶ result
//   POST /v1/bulk ─▶ job ─claim─▶ slot: BulkRunner ─▶ progress, checkpoint ─▶ result
//
// A redrive may take days. It is a job, so it outlives its caller and the server that works on it:
// another server continues from its checkpoint.
#pragma once

#include <memory>

#include "broker/jobs.h"
#include "env/clock.h"
#include "env/random.h"
#include "telemetry/log.h"

namespace mainspring {

class Redrives {
 public:
  // Concurrent operations, one thread each, mostly waiting. Others wait in their queue.
  static constexpr int kServerSlots = 4, kEmbeddedSlots = 1;
  // stop() asks them to stop at once, and waits this long until they have stored their progress.
  static constexpr Duration kGracefulStop = std::chrono::seconds(5);

  // All references outlive it.
  Redrives(int slots, Jobs& jobs, const Clock& clock, Random& random, Log& log);
  ~Redrives();  // stops
  Redrives(const Redrives&) = delete;
  Redrives& operator=(const Redrives&) = delete;

  // May be called once. The jobs' broker must run.
  void start();
  // Blocks. May be called twice, and before start. Call before the broker stops.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
