// Breakers: what queues depend on, and whether it is thought to be well.
//
//             `failures` within `within`              open_for is over
//   closed ──────────────────────────────▶ open ──────────────────────▶ half_open
//     ▲                                     ▲    a probe fails: twice       │ │
//     │                                     └─── as long as before ─────────┘ │
//     └──────────────────────── enough probes succeed ────────────────────────┘
//
// Queues name a breaker in their limits; several may name one. While it is open their jobs stay
// available and are not given. Half open it lets `probes` of them run at once, and twice as many
// whenever as many as that have succeeded; where that comes to kBreakerFullRoom it is closed.
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
  int failures = 5;                              // 1 to kMaxBreakerFailures: so many open it,
  Duration within = std::chrono::minutes(1);     // in a time of this length
  Duration open_for = std::chrono::seconds(30);  // at first; twice as long after each failed probe,
  Duration max_open_for = std::chrono::minutes(10);  // and no longer than this
  int probes = 1;  // 1 to kMaxBreakerProbes: run at once when it has become half open
  friend bool operator==(const BreakerSettings&, const BreakerSettings&) = default;
};

struct BreakerInfo {
  std::string name;
  BreakerSettings settings;
  BreakerState state = BreakerState::closed;
  std::optional<WallTime> open_until;  // open: when it becomes half open
  int failures = 0;                    // closed: that count now
  int room = 0;                        // half open: how many may run at once,
  int probes = 0;                      // and how many do
  std::int64_t opened = 0;             // how often, ever
  std::vector<std::string> queues;     // that name it
};

inline constexpr int kMaxBreakers = 1000;
inline constexpr int kMaxBreakerFailures = 100;
inline constexpr int kMaxBreakerProbes = 16;
inline constexpr int kBreakerFullRoom = 32;
// Of within, open_for, max_open_for, and of what a handler or an operator asks for.
inline constexpr Duration kMinBreakerTime = std::chrono::seconds(1);
inline constexpr Duration kMaxBreakerTime = std::chrono::hours(24);

// Errors: invalid_argument, with the field.
Result<void> validate(const BreakerSettings& settings);
// Of open_breaker_for, and of `for`.
Result<void> check_open_for(std::string_view field, Duration open_for);

}  // namespace mainspring
