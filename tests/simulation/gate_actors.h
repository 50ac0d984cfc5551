// The clients of a simulated world with limits and triggers: enqueues and events add jobs to one
// limited queue, an operator changes its limits and the trigger, and workers run the jobs.
#pragma once

#include <string>

#include "simulation/claim_loop.h"
#include "simulation/limit_invariant.h"
#include "simulation/trigger_invariant.h"
#include "simulation/world.h"

namespace mainspring::simulation {

// Sends jobs and events; later repeats events without an answer, and some with one.
class Feeder {
 public:
  explicit Feeder(World& world) : world_(world) {}
  void start() { next(); }
  void stop() { stopped_ = true; }

 private:
  void next();
  void enqueue();
  void fire(std::int64_t event, Duration first_sent);

  World& world_;
  bool stopped_ = false;
  std::int64_t sent_ = 0;
};

// Sets, changes and removes limits; defines, pauses and resumes the trigger.
class GateOperator {
 public:
  explicit GateOperator(World& world) : world_(world) {}
  void start();
  void stop() { stopped_ = true; }

 private:
  void next();
  void set_limits();
  void define();
  void watch_ends();  // until that is acknowledged
  void send(Operation operation);

  World& world_;
  bool stopped_ = false;
};

// Runs the jobs; with some it dies, is late or fails.
class GateWorker {
 public:
  GateWorker(World& world, int number);
  void start() { loop_.start(); }

 private:
  void finish(const ClaimedJob& job);

  World& world_;
  ClaimLoop loop_;
};

// TRIG-1 to TRIG-3; `world.events` has the jobs.
void check_trigger(World& world);

}  // namespace mainspring::simulation
