// Limits and order of a queue. The limits hold over all nodes and workers of a store, for jobs of
// every kind and session of the queue:
//   how many jobs run at once and how many start per time, in all and per limit key;
//   the breaker that holds the jobs back;
//   whether waiting jobs rise in priority, and whether keys share the queue fairly;
//   when a job whose workers are lost is quarantined; and how many slots jobs of heavy kinds take.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring {

// How starts are counted.
enum class RateKind : std::uint8_t {
  bucket,   // `burst` at once, then one each per/count: a token bucket
  sliding,  // at most `count` in any period of length `per`
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

// Apply to each limit_key of the queue's jobs separately.
struct KeyLimits {
  std::optional<int> concurrency;   // 1 to kMaxConcurrency; nullopt = no limit
  std::optional<RateLimit> rate{};  // every started attempt counts, for its key
  // Within a priority, keys share the queue in proportion to their weights, instead of time order.
  bool fair = false;
  // Weights of fair keys; other keys have kDefaultWeight. kMinWeight to kMaxWeight, at most
  // kMaxWeights. Jobs without a limit_key together count as one key of the default weight.
  std::map<std::string, double, std::less<>> weights{};
  bool bounds() const { return concurrency || rate; }  // a key may be closed
  bool any() const { return bounds() || fair; }
  friend bool operator==(const KeyLimits&, const KeyLimits&) = default;
};

struct QueueLimits {
  std::optional<int> concurrency;  // 1 to kMaxConcurrency; nullopt = no limit
  std::optional<RateLimit> rate;   // every started attempt counts
  KeyLimits per_key{};             // do not apply to jobs without a limit_key
  // A job's priority improves by one for each `ageing` that it has waited since its run_at;
  // kMinAgeing to kMaxAgeing, nullopt = it does not change.
  std::optional<Duration> ageing{};
  std::string breaker{};  // the breaker that the queue depends on: see breaker.h; "" = none
  // A job is quarantined after this many consecutive lost attempts: 1 to kMaxQuarantineAfter, 0 =
  // never, nullopt = kDefaultQuarantineAfter.
  std::optional<int> quarantine_after{};
  // The cost of a job by kind: how many slots the job takes of the concurrency and the rate of the
  // queue and of its key, and of a worker. A cost above a limit takes the whole limit. Other kinds
  // cost 1. 2 to kMaxCost (1 is not kept: see without_default_costs()), for at most kMaxCosts
  // kinds.
  std::map<std::string, int, std::less<>> costs{};
  // Paths in args, as "customer.id". A search for a value at one of them reads an index instead of
  // the jobs. Up to kMaxSearchable.
  std::vector<std::string> searchable{};
  int cost_of(std::string_view kind) const;
  int lost_before_quarantine() const;  // 0 = never
  bool has_rate() const { return rate || per_key.rate; }
  bool has_order() const { return ageing || per_key.fair; }  // not priority, run_at, id
  // True if a claim has to check any limit.
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
inline constexpr std::size_t kMaxSearchable = 8;         // paths of a queue
inline constexpr std::size_t kMaxSearchableBytes = 256;  // of one path
inline constexpr int kMaxSearchableQueues = 64;          // of a store

inline int QueueLimits::lost_before_quarantine() const {
  return quarantine_after.value_or(kDefaultQuarantineAfter);
}

inline int QueueLimits::cost_of(std::string_view kind) const {
  const auto found = costs.find(kind);
  return found == costs.end() ? 1 : found->second;
}
// The same limits without costs of 1, which have no effect.
QueueLimits without_default_costs(QueueLimits limits);

// The priority that the job has now because of ageing. Setting the clock back never makes it worse.
int effective_priority(int priority, WallTime run_at, const std::optional<Duration>& ageing,
                       WallTime now);

// Errors: invalid_argument, with the field, for example rate.count.
Result<void> validate(const QueueLimits& limits);

// Why, by whom and until when a queue is paused.
struct QueuePause {
  std::string reason;  // "" = none was given
  std::string by;      // the name of a token; "" = a program with an embedded engine
  WallTime at;
  std::optional<WallTime> until{};  // the queue resumes by itself; nullopt = at a resume request
  friend bool operator==(const QueuePause&, const QueuePause&) = default;
};

}  // namespace mainspring
