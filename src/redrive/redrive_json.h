// The progress and the result of a redrive as JSON: the checkpoint and the result of its job, and
// the output of the command line.
#pragma once

#include <string>
#include <string_view>

#include "redrive/redriver.h"

namespace mainspring {

// {"step", "redriven", "completed", "cancelled", "dead", "gone", "again"?: {"job", "fingerprint",
// "reason", "description", "state", "attempt"}}
std::string json_of(const RedriveStep& step);

// done, died_again, failed_again, interrupted
std::string_view to_string(RedriveReport::End end);

// {"redriven", "left", "end", "steps"?: […]}
std::string result_of(const RedriveReport& report, const RedriveState& state);

// The state as a checkpoint, and back. Keeps only the first kMaxKnown fingerprints and the last
// kMaxLive jobs: a failure of others after a restart is not noticed. Errors: invalid_argument.
inline constexpr std::size_t kMaxKnown = 1000, kMaxLive = 5000;
std::string checkpoint_of(const RedriveState& state);
Result<RedriveState> state_of(std::string_view checkpoint);

}  // namespace mainspring
