// Names of gates: the reasons why a job does not run.
#include <algorithm>
#include <array>

#include "mainspring/why.h"

namespace mainspring {
namespace {

constexpr std::array<std::string_view, 18> kGates = {
    "ended",        "running",      "time",         "earlier_run",
    "quarantine",   "deferred",     "session_head", "session_stopped",
    "session_held", "queue_paused", "concurrency",  "key_concurrency",
    "key_rate",     "breaker",      "rate",         "no_worker",
    "busy_workers", "claim"};
static_assert(kGates.size() == static_cast<std::size_t>(Gate::claim) + 1);

}  // namespace

std::string_view to_string(Gate gate) {
  return kGates[static_cast<std::size_t>(gate)];
}

std::optional<Gate> parse_gate(std::string_view text) {
  const auto found = std::find(kGates.begin(), kGates.end(), text);
  if (found == kGates.end()) return std::nullopt;
  return static_cast<Gate>(found - kGates.begin());
}

}  // namespace mainspring
