// The scaling rule: from the demand of queues to a number of workers. Pure: time is an argument.
//
//   slots = max(flow / 0.85, flow + backlog, due)      workers = slots / slots per worker
//     flow      arrivals per second x mean run time x cost
//     backlog   ready jobs x mean run time x cost / target
//     due       jobs due within `lead` x mean run time x cost / target
//
// The value rises at once. It falls to the maximum of the last `hold`, by at most a quarter every
// 30 s, and never below what the running jobs need. A fall that had to be undone within a hold
// doubles the hold for a while, so that noise does not start and stop workers.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring {

inline double as_seconds(Duration time) {
  return static_cast<double>(time.count()) / 1e6;
}

inline constexpr double kScaleUse = 0.85;  // planned share of busy slots
inline constexpr Duration kScaleDownEvery = std::chrono::seconds(30);
inline constexpr int kMaxScaleWorkers = 100'000;

struct ScaleOptions {
  Duration target = std::chrono::seconds(30);  // the time in which ready jobs start
  int slots = 1;                               // per worker
  int min = 0, max = 100;                      // workers
  Duration lead = std::chrono::seconds(20);    // the time that a worker takes to start
  Duration hold = std::chrono::minutes(5);     // the value falls no sooner
  // Errors: invalid_argument, with the field.
  Result<void> validate() const;
};

// The demand of one queue.
struct ScaleLoad {
  double arrivals_per_s = 0;
  double mean_s = 0;            // run time of an attempt
  double cost = 1;              // mean slots per job
  double ready = 0;             // available jobs that may start, or wait for free workers only
  double running = 0;           // slots in use
  double due = 0;               // jobs due within `lead`
  std::optional<double> cap{};  // slots that limits allow in use; nullopt = no limit
};

struct SlotsNeeded {
  double flow = 0, backlog = 0, due = 0;
  double total = 0;  // with the caps of queues
};
SlotsNeeded slots_needed(std::span<const ScaleLoad> queues, const ScaleOptions& options);

// Workers for these slots, without min, max and hold. At least 1 if jobs run or may start.
int raw_workers(std::span<const ScaleLoad> queues, const SlotsNeeded& needed,
                const ScaleOptions& options);

// The state of a pool: what it needed in the last `hold`. Callers at any interval get one value.
class ScalePool {
 public:
  // What the pool needed earlier, oldest first; before the first desired().
  void remember(Instant at, int raw);
  // `floor`: workers that the running jobs need. Calls must not go back in time.
  int desired(Instant now, int raw, int floor, const ScaleOptions& options);
  // When the value may fall next; nullopt = it is as low as the demand allows.
  std::optional<Instant> falls_at() const { return falls_at_; }

 private:
  std::deque<std::pair<Instant, int>> last_;  // values fall: a sample outlives smaller earlier ones
  int value_ = 0;
  int patience_ = 1;  // factor of the hold
  Instant undone_;    // when a fall was undone
  std::optional<Instant> fell_;
  std::optional<Instant> falls_at_;
};

// A pool's share of `slots` that several pools use: each gets its minimum, and the rest in
// proportion to what it needs beyond that, at most its maximum. Slots left over are not given out.
struct SlotShare {
  int min = 0, max = 1;
  double needed = 0;
};
std::vector<int> share_slots(int slots, std::span<const SlotShare> pools);

}  // namespace mainspring
