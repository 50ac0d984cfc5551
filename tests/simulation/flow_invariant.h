// WF: in the end every workflow of the simulated clients is done as a whole or undone as a whole.
//
//   WF-1  a step has one job, even if several of its parents end at the same time. A step that
//         parks has one job after the other. Each effect, of a step or its undo, happens once
//   WF-2  in a completed workflow every step's job is completed, and no step is undone
//   WF-3  in any other workflow every step whose job is completed is undone once, and only effects
//         of jobs of that workflow are undone
//   WF-4  steps are undone in reverse order of their ends
//   WF-5  every workflow ends
//   WF-6  a child workflow is completed if and only if its parent is, and ends no later
//   WF-7  a fork restarts the requested step and all steps after it. The other steps were done, and
//         not undone, by its original, which had ended. The fork does not undo them either (WF-3)
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "mainspring/job.h"
#include "mainspring/workflow.h"

namespace mainspring::simulation {

inline const std::string kFlowQueue = "flows";
inline constexpr int kMaxFlowSteps = 6;

class FlowInvariant {
 public:
  // A definition. Its steps are numbered from 0, those of a child from first_of_child().
  struct Shape {
    std::set<int> jobs;                    // the steps that are jobs, of children too
    std::set<int> parks;                   // steps that are retried after a failure
    std::vector<std::set<int>> followers;  // of its own steps: the successors of each
    bool order = false;                    // WF-4 can be judged by the times of its jobs
    bool times = false;                    // so can the order of jobs
  };
  // The number of the next workflow. A fork may be refused; then it has no jobs.
  std::int64_t next(Shape shape);
  std::int64_t fork(std::int64_t of, int step);
  std::int64_t last() const { return std::ssize(flows_); }
  // The start of a workflow: the number is the input, and args refer to it.
  static std::string input(std::int64_t flow);
  static constexpr const char* kInputOfChild = R"({"flow":{"$ref":"input.flow"}})";
  static std::string step_args(int step);
  static std::string undo_args(int step);
  static std::string key(std::int64_t flow);
  static int first_of_child(int step) { return (step + 1) * kNumbers; }
  // A worker's completion of this job was acknowledged.
  void accepted(JobId id) { ++accepted_[id]; }

  // Called for each job of the store at the end, and for each pruned job in its last state.
  void add(const Job& job);
  // Called for each workflow of the store at the end.
  void add(const WorkflowInfo& info);
  struct Verdict {
    std::int64_t completed = 0, undone = 0;  // workflows
    std::int64_t children = 0, forks = 0;
    std::int64_t tried_again = 0;  // steps that had parked theirs
    std::string broken;            // "" = the invariant holds
  };
  Verdict check() const;

 private:
  static constexpr int kNumbers = 10;  // steps of a child: its step's number times this, and up
  struct Flow {
    Shape shape;
    std::int64_t fork_of = 0;  // 0 = it is none
    int forked_from = 0;
    std::map<int, std::vector<Job>> steps, undos;  // by step
  };
  // Was done for it, by itself or by what it is a fork of.
  bool stands(const Flow& flow, int job) const;
  std::string check_fork(const Flow& flow, bool ended_well) const;
  static std::set<int> started_over(const Flow& flow);
  std::string check_jobs(const Flow& flow) const;
  std::string check_children() const;
  static std::string check_undone(const Flow& flow);
  static std::string check_order(const Flow& flow);
  static const Job* completed_of(const std::vector<Job>& jobs);

  std::map<std::int64_t, Flow> flows_;
  std::map<JobId, int> accepted_;
  std::map<std::string, WorkflowState> states_;  // by key; without children
  std::map<WorkflowId, WorkflowState> by_id_;
  std::map<WorkflowId, WorkflowId> parents_;  // of children
};

}  // namespace mainspring::simulation
