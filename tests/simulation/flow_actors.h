// The clients of a simulated world that start workflows, change them, and run their steps.
#pragma once

#include <string>
#include <vector>

#include "simulation/flow_law.h"
#include "simulation/world.h"

namespace mainspring::simulation {

// Starts small workflows, asks again where no answer came, and cancels, stops and lets go on some.
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
  WorkflowSpec draw_child(int depth, int& jobs);
  void send(const WorkflowSpec& spec, Duration first_sent);
  void change();

  World& world_;
  FlowLaw& law_;
  bool stopped_ = false;
  std::vector<WorkflowId> known_;
};

// Runs the jobs of steps and undos; dies, is late, and fails at some.
class FlowWorker {
 public:
  FlowWorker(World& world, FlowLaw& law, int number)
      : world_(world), law_(law), id_("flower" + std::to_string(number)) {}
  void start();

 private:
  void claim();
  void finish(JobId id, Token token, bool undoes);

  World& world_;
  FlowLaw& law_;
  const std::string id_;
};

// Whoever looks after the faults: what is parked is tried again, what is paused goes on. True = all
// have ended.
bool tend_workflows(World& world);

}  // namespace mainspring::simulation
