// WF: what the simulated clients start as a workflow is done as a whole or undone as a whole, when
// all has come to rest.
//
//   WF-1  a step has one job, however many steps before it end at the same time, or, if it parks,
//         one behind the other; an effect, its own or that of its undo, is taken once
//   WF-2  of a completed workflow every step's job is completed, and nothing is undone
//   WF-3  of another one every step whose job is completed is undone once, and nothing else is
//   undone
//         but what a job of that workflow did
//   WF-4  the last to end is undone first
//   WF-5  it ends
//   WF-6  a workflow that is a step has ended as its parent has: completed, or not, and never lives
//         longer
//   WF-7  a fork begins anew what it was told to and all that is behind what it began; what it did
//         not begin was done by the one that it is a fork of, which had ended, and has not undone
//         it. Nor does the fork (WF-3)
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

class FlowLaw {
 public:
  // A definition. Its steps are numbered from 0; those of a child have first_of_child() and on.
  struct Shape {
    std::set<int> jobs;                    // the steps that are jobs, of children too
    std::set<int> parks;                   // those that are tried again when they have failed
    std::vector<std::set<int>> followers;  // of its own steps: those that wait for each
    bool order = false;                    // WF-4 can be judged by the times of its jobs
    bool times = false;                    // so can what was before and what was later
  };
  // The number of what is started next. A fork may be refused, then it has no jobs.
  std::int64_t next(Shape shape);
  std::int64_t fork(std::int64_t of, int step);
  std::int64_t last() const { return std::ssize(flows_); }
  // What they are started with: the number is the input, and args refer to it.
  static std::string input(std::int64_t flow);
  static constexpr const char* kInputOfChild = R"({"flow":{"$ref":"input.flow"}})";
  static std::string step_args(int step);
  static std::string undo_args(int step);
  static std::string key(std::int64_t flow);
  static int first_of_child(int step) { return (step + 1) * kNumbers; }
  // A worker was told that this job is completed.
  void accepted(JobId id) { ++accepted_[id]; }

  // Each job that is there in the end, and each as it was when it was pruned.
  void add(const Job& job);
  // Each workflow that is there in the end.
  void add(const WorkflowInfo& info);
  struct Verdict {
    std::int64_t completed = 0, undone = 0;  // workflows
    std::int64_t children = 0, forks = 0;
    std::int64_t tried_again = 0;  // steps that had parked theirs
    std::string broken;  // "" = the law holds
  };
  Verdict check() const;

 private:
  static constexpr int kNumbers = 10;  // of steps of a child: those of its step times that, and on
  struct Flow {
    Shape shape;
    std::int64_t fork_of = 0;  // 0 = it is none
    int forked_from = 0;
    std::map<int, std::vector<Job>> steps, undos;  // by step
  };
  // Was done for it, by itself or by what it is a fork of.
  bool stands(const Flow& flow, int job) const;
  std::string check_fork(const Flow& flow, bool ended_well) const;
  static std::set<int> begun_anew(const Flow& flow);
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
