// WF: what the simulated clients start as a workflow is done as a whole or undone as a whole, when
// all has come to rest.
//
//   WF-1  a step has one job, however many steps before it end at the same time; an effect, its own
//         or that of its undo, is taken once
//   WF-2  of a completed workflow every step's job is completed, and nothing is undone
//   WF-3  of another one every step whose job is completed is undone once, and nothing else is
//   undone
//         but what a job of that workflow did
//   WF-4  the last to end is undone first
//   WF-6  a workflow that is a step has ended as its parent has: completed, or not, and never lives
//         longer
#pragma once

#include <map>
#include <string>
#include <vector>

#include "mainspring/job.h"
#include "mainspring/workflow.h"

namespace mainspring::simulation {

inline const std::string kFlowQueue = "flows";
inline constexpr int kMaxFlowSteps = 6;

class FlowLaw {
 public:
  // The next definition. `order` = WF-4 can be judged by the times of its jobs.
  std::int64_t next(int jobs, bool order);
  // As args of its jobs, and its key.
  static std::string step_args(std::int64_t flow, int step);
  static std::string undo_args(std::int64_t flow, int step);
  static std::string key(std::int64_t flow);
  // A worker was told that this job is completed.
  void accepted(JobId id) { ++accepted_[id]; }

  // Each job that is there in the end, and each as it was when it was pruned.
  void add(const Job& job);
  // Each workflow that is there in the end.
  void add(const WorkflowInfo& info);
  struct Verdict {
    std::int64_t completed = 0, undone = 0;  // workflows
    std::int64_t children = 0;
    std::string broken;  // "" = the law holds
  };
  Verdict check() const;

 private:
  struct Flow {
    int jobs = 0;
    bool order = false;
    std::map<int, std::vector<Job>> steps, undos;  // by step
  };
  std::string check_jobs(const Flow& flow) const;
  std::string check_children() const;
  static std::string check_undone(const Flow& flow);
  static std::string check_order(const Flow& flow);
  static const Job* completed_of(const std::vector<Job>& jobs);

  std::map<std::int64_t, Flow> flows_;
  std::map<JobId, int> accepted_;
  std::map<std::string, WorkflowState> states_;  // by key; of those that are no children
  std::map<WorkflowId, WorkflowState> by_id_;
  std::map<WorkflowId, WorkflowId> parents_;  // of children
};

}  // namespace mainspring::simulation
