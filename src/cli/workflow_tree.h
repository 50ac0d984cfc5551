// The steps of a workflow as a tree of lines, for people.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/table.h"
#include "mainspring/workflow.h"

namespace mainspring::cli {

inline constexpr std::size_t kMaxTreeLines = 1000;  // then only the number of further steps
inline constexpr std::size_t kMaxNamedJobs = 3;     // failed jobs of `each`

// Child workflows by id, with all their steps. Missing ones are only named.
struct ShownChild {
  WorkflowInfo info;
  std::vector<WorkflowStep> steps;
};
using ShownChildren = std::map<WorkflowId, ShownChild>;
inline constexpr std::size_t kMaxShownChildren = 100;

// A line for each step of the definition, indented below the step that it waits for. If it waits
// for several, it is below the last of them, and the line names all of them. `steps`: all, by
// number. A step with `each` shows how many of its jobs are in which state, and below it the first
// failed ones. Below a workflow step are the steps of its workflow.
std::string workflow_tree(const std::vector<WorkflowStep>& steps, WallTime now, const Io& io,
                          const ShownChildren& children = {});

// "3 of 5, 1 failed"
std::string progress_of(const WorkflowInfo& info);

Colour colour_of(WorkflowState state);

}  // namespace mainspring::cli
