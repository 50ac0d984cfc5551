// The clients of a simulated world that live with limits and triggers: jobs come into one limited
// queue by enqueues and by events, an operator changes its limits and the trigger, workers run
// them.
#pragma once

#include <string>

#include "simulation/claim_loop.h"
#include "simulation/limit_law.h"
#include "simulation/trigger_law.h"
#include "simulation/world.h"

namespace mainspring::simulation {

// Sends jobs and events; repeats events that have no answer, and some that have, later.
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

// Sets, changes and takes away limits; defines the trigger, pauses it and lets it go on.
class GateOperator {
 public:
  explicit GateOperator(World& world) : world_(world) {}
  void start();
  void stop() { stopped_ = true; }

 private:
  void next();
  void set_limits();
  void define();
  void watch_ends();  // until it is known that they are
  void send(Operation operation);

  World& world_;
  bool stopped_ = false;
};

// Runs the jobs; dies, is late, and fails at some.
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
