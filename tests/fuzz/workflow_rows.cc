// Fuzz target: the rows of workflows, as a damaged disk may have them.
#include "api/workflow_shapes.h"
#include "targets.h"
#include "workflow/reads.h"
#include "workflow/step_rows.h"

namespace mainspring::fuzz {
namespace {

// What was read is written so that it is read again as it was.
template <class T, class Decode>
std::optional<T> there_and_back(std::string_view bytes, Decode decode) {
  auto read = decode(bytes);
  if (!read) {
    FUZZ_CHECK(!read.error().message.empty());
    return std::nullopt;
  }
  const auto again = decode(workflow::encode(*read));
  FUZZ_CHECK(again.has_value());
  FUZZ_CHECK(workflow::encode(*again) == workflow::encode(*read));
  return std::move(*read);
}

}  // namespace

void workflow_rows(std::string_view bytes) {
  std::string shown;
  const auto definition =
      there_and_back<workflow::StepDefinition>(bytes, workflow::decode_definition);
  if (definition) {
    WorkflowStepPage page;
    page.steps.push_back(workflow::step_of(1, {}, *definition, true));
    encode_workflow_steps(page, shown);
  }
  if (const auto status = there_and_back<workflow::StepStatus>(bytes, workflow::decode_status)) {
    WorkflowStepPage page;
    for (const bool forward : {false, true})
      page.steps.push_back(workflow::step_of(1, *status, {}, forward));
    encode_workflow_steps(page, shown);
  }
  if (const auto summary = there_and_back<workflow::Summary>(bytes, workflow::decode_summary))
    FUZZ_CHECK(summary->states.size() <= workflow::kMaxPackedSteps);
  (void)there_and_back<workflow::StartText>(bytes, workflow::decode_start);
  // As one workflow: its own row, and after the separator its start text.
  const std::size_t own = bytes.find('\x1e');
  const auto row = [&](WorkflowRow kind, std::int64_t number) {
    const bool is_it = kind == WorkflowRow::text && number == workflow::kTextStart;
    return is_it && own != std::string_view::npos
               ? std::optional(std::string(bytes.substr(own + 1)))
               : std::nullopt;
  };
  const WorkflowRecord record{.id = 1, .name = "w", .data = std::string(bytes.substr(0, own))};
  encode_workflow_info(workflow::read_info(record, row), shown);
  const auto steps = workflow::read_steps(record, {}, 0, 100, row);
  if (steps) encode_workflow_steps(*steps, shown);
}

}  // namespace mainspring::fuzz
