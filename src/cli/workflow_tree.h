// The steps of a workflow as a tree of lines, for people.
#pragma once

#include <string>
#include <vector>

#include "cli/table.h"
#include "mainspring/workflow.h"

namespace mainspring::cli {

inline constexpr std::size_t kMaxTreeLines = 1000;  // of steps; then how many more there are
inline constexpr std::size_t kMaxNamedJobs = 3;     // of `each`, that failed

// A line for each step of the definition, indented below the one that it waits for; if there are
// several, below the one that comes last, with all of them named. `steps`: all, by number. Behind
// a step with `each` stands how many of its jobs are in which state, and below it the first that
// failed.
std::string workflow_tree(const std::vector<WorkflowStep>& steps, WallTime now, const Io& io);

Colour colour_of(WorkflowState state);

}  // namespace mainspring::cli
