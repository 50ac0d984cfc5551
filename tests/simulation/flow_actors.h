// The clients of a simulated world that start workflows, change them, and run their steps.
#pragma once

#include <string>
#include <vector>

#include "simulation/claim_loop.h"
#include "simulation/flow_invariant.h"
#include "simulation/key_invariant.h"
#include "simulation/world.h"

namespace mainspring::simulation {

// Starts small workflows, repeats requests without an answer, and cancels, pauses, resumes and
// forks some.
class FlowStarter {
 public:
  FlowStarter(World& world, FlowInvariant& invariant) : world_(world), invariant_(invariant) {}
  void start() { next(); }
  void stop() { stopped_ = true; }

 private:
  void next();
  void begin();
  WorkflowSpec draw();
  StepSpec draw_job(const std::string& name);
  WorkflowSpec draw_child(int depth);
  // Starts or forks one, and repeats the request until it is answered.
  void send(const Operation& operation, std::int64_t flow, Duration first_sent);
  void change();
  void fork();

  World& world_;
  FlowInvariant& invariant_;
  bool stopped_ = false;
  struct Known {
    WorkflowId id = 0;
    std::int64_t flow = 0;  // its number under the invariant
  };
  std::vector<Known> known_;
};

// Runs the jobs of steps and undos; with some it dies, is late or fails.
class FlowWorker {
 public:
  FlowWorker(World& world, FlowInvariant& invariant, KeyInvariant& keys, int number);
  void start() { loop_.start(); }

 private:
  void finish(const ClaimedJob& job);

  World& world_;
  FlowInvariant& invariant_;
  KeyInvariant& keys_;
  ClaimLoop loop_;
};

// After the faults: retries parked workflows and resumes paused ones. True = all have ended.
bool tend_workflows(World& world);

}  // namespace mainspring::simulation
