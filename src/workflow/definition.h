// What follows from a definition: which step waits for which.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "mainspring/workflow.h"

namespace mainspring::workflow {

// Steps are numbered from 1, in the order of the definition.
struct PlannedStep {
  std::vector<int> parents;         // named or referred to; ascending
  std::vector<int> children;        // ascending
  std::map<std::string, int> refs;  // steps that its JSON refers to
};
// One entry per step. `depth`: nesting of this workflow, itself included. Errors: those of
// validate().
Result<std::vector<PlannedStep>> plan(const WorkflowSpec& spec, int depth = 1);

// Includes the steps of sub-workflows.
std::size_t steps_in_all(const WorkflowSpec& spec);

// The steps that the JSON of a workflow's result refers to.
std::map<std::string, int> result_refs(const WorkflowSpec& spec);

}  // namespace mainspring::workflow
