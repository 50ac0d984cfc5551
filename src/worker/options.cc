// Validates options of workers and kinds.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "mainspring/worker.h"
#include "model/queue_pattern.h"
#include "store/operations.h"

namespace mainspring {
namespace {

constexpr int kMaxSlots = 1024;
constexpr Duration kMaxGrace = std::chrono::hours(24);

}  // namespace

std::string_view to_string(StopReason reason) {
  constexpr std::array<std::string_view, 5> kNames = {"none", "cancelled", "lease_lost", "timeout",
                                                      "shutdown"};
  return kNames[static_cast<std::size_t>(reason)];
}

std::optional<Duration> RetryPolicy::delay(JobId id, int attempt) const {
  if (!first_delay) return std::nullopt;
  const double cap_us = static_cast<double>(max_delay.count());
  const double grown = static_cast<double>(first_delay->count()) *
                       std::pow(std::max(factor, 1.0), std::max(attempt, 1) - 1);
  std::uint64_t h =
      static_cast<std::uint64_t>(id) * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(attempt);
  h = (h ^ (h >> 31)) * 0xbf58476d1ce4e5b9u;
  h ^= h >> 29;
  const double share = 0.8 + static_cast<double>(h % 401) / 1000;  // 80 % to 120 %
  return Duration(static_cast<std::int64_t>(std::min(grown, cap_us) * share));
}

std::vector<Error> WorkerOptions::validate() const {
  std::vector<Error> errors;
  const auto check = [&](bool ok, std::string field, std::string rule) {
    if (!ok) errors.push_back(invalid(field, fmt::format("{}: {}", field, rule)));
  };
  check(!queues.empty() && queues.size() <= kMaxClaimQueues, "queues",
        fmt::format("{} given, must be 1 to {}", queues.size(), kMaxClaimQueues));
  for (std::size_t i = 0; i < queues.size(); ++i) {
    if (auto ok = check_queue_or_pattern(fmt::format("queues[{}]", i), queues[i]); !ok) {
      errors.push_back(ok.error());
    }
  }
  check(slots >= 1 && slots <= kMaxSlots, "slots",
        fmt::format("{}, must be 1 to {}", slots, kMaxSlots));
  check(lease >= kMinLease && lease <= kMaxLease, "lease",
        fmt::format("{}, must be {} to {}", format_duration(lease), format_duration(kMinLease),
                    format_duration(kMaxLease)));
  check(graceful_stop >= Duration(0) && graceful_stop <= kMaxGrace, "graceful_stop",
        fmt::format("{}, must be 0s to {}", format_duration(graceful_stop),
                    format_duration(kMaxGrace)));
  check(claim_wait >= Duration(0) && claim_wait <= kMaxClaimWait, "claim_wait",
        fmt::format("{}, must be 0s to {}", format_duration(claim_wait),
                    format_duration(kMaxClaimWait)));
  for (const auto& [field, text] : {std::pair{"version", &version}, {"language", &language}}) {
    if (auto ok = check_fact(field, *text, kMaxFactBytes); !ok) errors.push_back(ok.error());
  }
  return errors;
}

}  // namespace mainspring
