// Limits of a queue: how many of its jobs run at once, and how many begin in a time; and how many
// with the same limit key run at once, and begin in a time; the breaker that holds them back. Over
// all nodes and workers of a store; they hold for jobs of every kind and session of the queue. And
// the order in which a queue gives its jobs: whether those that wait rise in priority, and whether
// keys take turns. And when a job that takes its workers down is set apart, and how many slots the
// jobs of its heavy kinds take.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring {

// How begins are counted.
enum class RateKind : std::uint8_t {
  bucket,   // `burst` at once, then one each per/count: a token bucket
  sliding,  // never more than `count` in any time of length `per`
  fixed,    // `count` in each window of length `per`; the windows are aligned to 1970, UTC
};
std::string_view to_string(RateKind kind);
std::optional<RateKind> parse_rate_kind(std::string_view text);

struct RateLimit {
  int count = 1;  // 1 to kMaxRateCount
  Duration per = std::chrono::seconds(1);
  RateKind kind = RateKind::bucket;
  int burst = 0;  // of a bucket: 1 to kMaxRateCount, 0 = count; of others 0
  friend bool operator==(const RateLimit&, const RateLimit&) = default;
};

// Of each value of limit_key that jobs of the queue have, for itself.
struct KeyLimits {
  std::optional<int> concurrency;   // 1 to kMaxConcurrency; nullopt = no limit
  std::optional<RateLimit> rate{};  // every attempt that begins counts, for its key
  // Within a priority, keys take turns in proportion to their weights, instead of in order of time.
  bool fair = false;
  // Of fair keys; others have kDefaultWeight. kMinWeight to kMaxWeight, at most kMaxWeights. Jobs
  // without a limit_key take turns as one key of that weight.
  std::map<std::string, double, std::less<>> weights{};
  bool bounds() const { return concurrency || rate; }  // a key may be closed
  bool any() const { return bounds() || fair; }
  friend bool operator==(const KeyLimits&, const KeyLimits&) = default;
};

struct QueueLimits {
  std::optional<int> concurrency;  // 1 to kMaxConcurrency; nullopt = no limit
  std::optional<RateLimit> rate;   // every attempt that begins counts
  KeyLimits per_key{};             // jobs without a limit_key are free of these
  // A job's priority counts as one better for each `ageing` that it has waited since its run_at;
  // kMinAgeing to kMaxAgeing, nullopt = it stays as it is.
  std::optional<Duration> ageing{};
  std::string breaker{};  // that it depends on: see breaker.h; "" = none
  // A job goes into quarantine when so many of its attempts were lost one behind the other: 1 to
  // kMaxQuarantineAfter, 0 = never, nullopt = kDefaultQuarantineAfter.
  std::optional<int> quarantine_after{};
  // Of heavy kinds: so many slots a job of it takes of the concurrency and the rate, of the queue
  // and of its key, and of a worker; of each at most all that there are. Others take 1. 2 to
  // kMaxCost (1 is not kept: see without_plain_costs()), of at most kMaxCosts kinds.
  std::map<std::string, int, std::less<>> costs{};
  int cost_of(std::string_view kind) const;
  int lost_before_quarantine() const;  // 0 = never
  bool has_rate() const { return rate || per_key.rate; }
  bool has_order() const { return ageing || per_key.fair; }  // not priority, run_at, id
  // Any that a claim has to heed.
  bool any() const {
    return concurrency || rate || per_key.any() || ageing || !breaker.empty() || !costs.empty();
  }
  bool is_default() const { return *this == QueueLimits(); }
  friend bool operator==(const QueueLimits&, const QueueLimits&) = default;
};

inline constexpr int kMaxConcurrency = 1'000'000;
inline constexpr int kMaxRateCount = 1'000'000;
inline constexpr Duration kMinRatePer = std::chrono::seconds(1);
inline constexpr Duration kMaxRatePer = std::chrono::hours(24 * 31);
inline constexpr Duration kMinAgeing = std::chrono::seconds(1);
inline constexpr Duration kMaxAgeing = std::chrono::hours(24 * 31);
inline constexpr double kDefaultWeight = 1, kMinWeight = 0.001, kMaxWeight = 1000;
inline constexpr int kMaxWeights = 1000;
inline constexpr int kDefaultQuarantineAfter = 2, kMaxQuarantineAfter = 10;
inline constexpr int kMaxCost = 1000, kMaxCosts = 64;

inline int QueueLimits::lost_before_quarantine() const {
  return quarantine_after.value_or(kDefaultQuarantineAfter);
}

inline int QueueLimits::cost_of(std::string_view kind) const {
  const auto found = costs.find(kind);
  return found == costs.end() ? 1 : found->second;
}
// The same limits: a cost of 1 says nothing.
QueueLimits without_plain_costs(QueueLimits limits);

// What a job's priority counts as now. A clock that was set back makes it no worse.
int effective_priority(int priority, WallTime run_at, const std::optional<Duration>& ageing,
                       WallTime now);

// Errors: invalid_argument, with the field, for example rate.count.
Result<void> validate(const QueueLimits& limits);

// Why, by whom and until when a queue is paused.
struct QueuePause {
  std::string reason;  // "" = none was given
  std::string by;      // the name of a token; "" = a program with the engine in its process
  WallTime at;
  std::optional<WallTime> until{};  // the queue resumes by itself; nullopt = when it is resumed
  friend bool operator==(const QueuePause&, const QueuePause&) = default;
};

}  // namespace mainspring
