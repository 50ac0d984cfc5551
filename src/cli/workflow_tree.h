// The steps of a workflow as a tree of lines, for people.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/table.h"
#include "mainspring/workflow.h"

namespace mainspring::cli {

inline constexpr std::size_t kMaxTreeLines = 1000;  // of steps; then how many more there are
inline constexpr std::size_t kMaxNamedJobs = 3;     // of `each`, that failed

// Workflows that are steps, by id, with all their steps. Those that are not there are only named.
struct ShownChild {
  WorkflowInfo info;
  std::vector<WorkflowStep> steps;
};
using ShownChildren = std::map<WorkflowId, ShownChild>;
inline constexpr std::size_t kMaxShownChildren = 100;

// A line for each step of the definition, indented below the one that it waits for; if there are
// several, below the one that comes last, with all of them named. `steps`: all, by number. Behind
// a step with `each` stands how many of its jobs are in which state, and below it the first that
// failed. Below a step that is a workflow stand the steps of that.
std::string workflow_tree(const std::vector<WorkflowStep>& steps, WallTime now, const Io& io,
                          const ShownChildren& children = {});

// "3 of 5, 1 failed"
std::string progress_of(const WorkflowInfo& info);

Colour colour_of(WorkflowState state);

}  // namespace mainspring::cli
