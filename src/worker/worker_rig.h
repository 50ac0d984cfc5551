// A worker over a fake server, with options that a test can change before it starts.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>

#include "telemetry/keeping_log.h"
#include "worker/fake_jobs.h"
#include "worker/stepped_clock.h"
#include "worker/worker.h"

namespace mainspring {

struct WorkerRig {
  FakeJobs jobs;
  SystemClock clock;
  const Clock* time = &clock;  // the worker's
  SystemRandom random;
  KeepingLog log;
  WorkerOptions options;
  std::unique_ptr<WorkerRuntime> worker;

  WorkerRig() {
    options.queues = {"q"};
    options.slots = 4;
  }
  WorkerRuntime& make() {
    worker = std::make_unique<WorkerRuntime>(jobs, *time, random, log, options);
    return *worker;
  }
  // For jobs of kind "k".
  void start(Handler handler, KindOptions kind = {}) {
    make().on("k", std::move(handler), std::move(kind));
    REQUIRE(worker->start().has_value());
  }
};

inline HandlerResult done(std::string result = "") {
  return Outcome(Complete{std::move(result)});
}

}  // namespace mainspring
