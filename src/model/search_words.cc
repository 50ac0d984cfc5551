// Names of bulk operations.
#include "mainspring/search.h"

namespace mainspring {

std::string_view to_string(BulkAction action) {
  switch (action) {
    case BulkAction::cancel:
      return "cancel";
    case BulkAction::retry:
      return "retry";
    case BulkAction::remove:
      return "delete";
    case BulkAction::reprioritise:
      return "reprioritise";
  }
  return "";
}

std::optional<BulkAction> parse_bulk_action(std::string_view text) {
  for (const auto action :
       {BulkAction::cancel, BulkAction::retry, BulkAction::remove, BulkAction::reprioritise}) {
    if (text == to_string(action)) return action;
  }
  return std::nullopt;
}

std::string_view to_string(BulkState state) {
  switch (state) {
    case BulkState::queued:
      return "queued";
    case BulkState::running:
      return "running";
    case BulkState::waiting:
      return "waiting";
    case BulkState::done:
      return "done";
    case BulkState::stopped:
      return "stopped";
    case BulkState::failed:
      return "failed";
  }
  return "";
}

std::optional<BulkState> parse_bulk_state(std::string_view text) {
  for (const auto state : {BulkState::queued, BulkState::running, BulkState::waiting,
                           BulkState::done, BulkState::stopped, BulkState::failed}) {
    if (text == to_string(state)) return state;
  }
  return std::nullopt;
}

}  // namespace mainspring
