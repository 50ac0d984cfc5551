// What follows from a definition: which step waits for which.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "mainspring/workflow.h"

namespace mainspring::workflow {

// Numbers begin with 1, in the order of the definition.
struct PlannedStep {
  std::vector<int> parents;         // named, and referred to; ascending
  std::vector<int> children;        // ascending
  std::map<std::string, int> refs;  // steps that its JSON refers to
};
// One for each step. `depth`: how many workflows it is in, itself included. Errors: those of
// validate().
Result<std::vector<PlannedStep>> plan(const WorkflowSpec& spec, int depth = 1);

// With those of its sub-workflows.
std::size_t steps_in_all(const WorkflowSpec& spec);

// The steps that the JSON of a workflow's result refers to.
std::map<std::string, int> result_refs(const WorkflowSpec& spec);

}  // namespace mainspring::workflow
