// Shared by the commands about scaling: their flags, and the signal of the server.
#pragma once

#include <functional>

#include "cli/support.h"

namespace mainspring::cli {

inline constexpr int kMaxScaleAsked = 100'000;  // workers

struct ScaleAnswer {
  int value = 0, raw = 0, min = 0, max = 0;
  double slots_needed = 0;
  int workers_seen = 0;
  std::string reason;
};

// The query of GET /v1/scale from --queue, --slots, --target, --min, --max, --lead, --hold,
// --window and `pool`. Errors: invalid_argument.
Result<std::string> scale_query(const Invocation& invocation, const std::string& pool);
// `wait`: how long the server may wait for a value other than `value`; zero = it answers at once.
Result<ScaleAnswer> ask_scale(Client& client, const std::string& query, Duration wait, int value);

// Follows the value of a pool until a signal: calls `apply` with each new one, and again with
// growing pauses while it fails. `again`: also without a change, as long as it returns true. One
// process per pool does so, others wait as standbys.
using ApplyScale = std::function<Result<void>(const ScaleAnswer& answer)>;
Result<int> follow_scale(const Invocation& invocation, Io& io, Client& client,
                         const std::string& query, const std::string& pool, const ApplyScale& apply,
                         const std::function<bool()>& again);

}  // namespace mainspring::cli
