// Names of workflow states.
#include <array>

#include "mainspring/workflow.h"

namespace mainspring {
namespace {

constexpr std::array<std::string_view, kWorkflowStateCount> kWorkflowStates = {
    "running", "undoing", "parked", "completed", "failed", "undone", "cancelled"};
constexpr std::array<std::string_view, kStepStateCount> kStepStates = {
    "waiting", "running", "completed", "failed", "skipped", "undoing", "undone", "undo_failed"};

template <class T, std::size_t N>
std::optional<T> find(const std::array<std::string_view, N>& words, std::string_view text) {
  for (std::size_t i = 0; i < N; ++i) {
    if (words[i] == text) return static_cast<T>(i);
  }
  return std::nullopt;
}

}  // namespace

SubWorkflow::SubWorkflow(const WorkflowSpec& spec)
    : spec_(std::make_shared<const WorkflowSpec>(spec)) {}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the definition
bool operator==(const SubWorkflow& a, const SubWorkflow& b) {
  if (!a || !b) return !a && !b;
  return a.spec_ == b.spec_ || *a == *b;
}

std::string_view to_string(WorkflowState state) {
  return kWorkflowStates[static_cast<std::size_t>(state)];
}
std::optional<WorkflowState> parse_workflow_state(std::string_view text) {
  return find<WorkflowState>(kWorkflowStates, text);
}
std::string_view to_string(StepState state) {
  return kStepStates[static_cast<std::size_t>(state)];
}
std::optional<StepState> parse_step_state(std::string_view text) {
  return find<StepState>(kStepStates, text);
}

}  // namespace mainspring
