// The clients of a simulated world that start workflows, change them, and run their steps.
#pragma once

#include <string>
#include <vector>

#include "simulation/claim_loop.h"
#include "simulation/flow_law.h"
#include "simulation/key_law.h"
#include "simulation/world.h"

namespace mainspring::simulation {

// Starts small workflows, asks again where no answer came, and cancels, stops, lets go on and forks
// some.
class FlowStarter {
 public:
  FlowStarter(World& world, FlowLaw& law) : world_(world), law_(law) {}
  void start() { next(); }
  void stop() { stopped_ = true; }

 private:
  void next();
  void begin();
  WorkflowSpec draw();
  StepSpec draw_job(const std::string& name);
  WorkflowSpec draw_child(int depth);
  // Starts one, or forks one: until an answer has come.
  void send(const Operation& operation, std::int64_t flow, Duration first_sent);
  void change();
  void fork();

  World& world_;
  FlowLaw& law_;
  bool stopped_ = false;
  struct Known {
    WorkflowId id = 0;
    std::int64_t flow = 0;  // its number under the law
  };
  std::vector<Known> known_;
};

// Runs the jobs of steps and undos; dies, is late, and fails at some.
class FlowWorker {
 public:
  FlowWorker(World& world, FlowLaw& law, KeyLaw& keys, int number);
  void start() { loop_.start(); }

 private:
  void finish(const ClaimedJob& job);

  World& world_;
  FlowLaw& law_;
  KeyLaw& keys_;
  ClaimLoop loop_;
};

// Whoever looks after the faults: what is parked is tried again, what is paused goes on. True = all
// have ended.
bool tend_workflows(World& world);

}  // namespace mainspring::simulation
