// Breakers: circuit breakers for the services that queues depend on.
//
//             `failures` within `within`              open_for is over
//   closed ──────────────────────────────▶ open ──────────────────────▶ half_open
//     ▲                                     ▲    a probe fails: twice       │ │
//     │                                     └─── as long as before ─────────┘ │
//     └──────────────────────── enough probes succeed ────────────────────────┘
//
// A queue names its breaker in its limits; several queues can share one. While the breaker is open,
// their jobs stay available and are not given to workers. Half open, it lets `probes` jobs run at
// once. The limit doubles each time that many jobs succeed; at kBreakerFullRoom the breaker closes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring {

enum class BreakerState : std::uint8_t { closed, open, half_open };
std::string_view to_string(BreakerState state);
std::optional<BreakerState> parse_breaker_state(std::string_view text);

struct BreakerSettings {
  int failures = 5;                              // 1 to kMaxBreakerFailures: this many open it,
  Duration within = std::chrono::minutes(1);     // in a period of this length
  Duration open_for = std::chrono::seconds(30);  // the first time; doubles after a failed probe,
  Duration max_open_for = std::chrono::minutes(10);  // up to this
  int probes = 1;  // 1 to kMaxBreakerProbes: concurrent jobs when it becomes half open
  friend bool operator==(const BreakerSettings&, const BreakerSettings&) = default;
};

struct BreakerInfo {
  std::string name;
  BreakerSettings settings;
  BreakerState state = BreakerState::closed;
  std::optional<WallTime> open_until;  // open: when it becomes half open
  int failures = 0;                    // closed: failures within the period
  int room = 0;                        // half open: how many jobs may run at once,
  int probes = 0;                      // and how many run
  std::int64_t opened = 0;             // times opened since it was created
  std::vector<std::string> queues;     // queues that name it
};

inline constexpr int kMaxBreakers = 1000;
inline constexpr int kMaxBreakerFailures = 100;
inline constexpr int kMaxBreakerProbes = 16;
inline constexpr int kBreakerFullRoom = 32;
// Bounds of within, open_for, max_open_for, and of the times that handlers and operators ask for.
inline constexpr Duration kMinBreakerTime = std::chrono::seconds(1);
inline constexpr Duration kMaxBreakerTime = std::chrono::hours(24);

// Errors: invalid_argument, with the field.
Result<void> validate(const BreakerSettings& settings);
// Checks an open_breaker_for or a `for`.
Result<void> check_open_for(std::string_view field, Duration open_for);

}  // namespace mainspring
