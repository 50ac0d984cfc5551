// A simulation of workers: see simulation.h.
#include "scale/simulation.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <queue>

namespace mainspring {
namespace {

constexpr int kWindow = 60;       // of arrivals, seconds
constexpr int kFastWindow = 600;  // of fastest_turns, seconds
constexpr double kLearn = 0.002;  // weight of one run time in the mean

class Simulation {
 public:
  Simulation(std::span<const int> arrivals, const SimulationOptions& options,
             const SimulatedRule& rule)
      : arrivals_(arrivals), options_(options), rule_(rule), random_(options.seed) {
    pool_.mean_s = options.mean_s;
    pool_.up = options.scale.min;
  }

  SimulationResult run() {
    for (int now = 0; now < std::ssize(arrivals_); ++now) step(now);
    finish();
    return out_;
  }

 private:
  int start_s() const { return static_cast<int>(options_.scale.lead / std::chrono::seconds(1)); }

  void step(int now) {
    pool_.now = now;
    for (int i = 0; i < arrivals_[static_cast<std::size_t>(now)]; ++i) {
      ready_.emplace_back(now, options_.run_time(random_));
    }
    seen_ += arrivals_[static_cast<std::size_t>(now)];
    if (now >= kWindow) seen_ -= arrivals_[static_cast<std::size_t>(now - kWindow)];
    for (; !starting_.empty() && starting_.front() <= now; starting_.pop_front()) ++pool_.up;
    for (; !busy_.empty() && busy_.top() <= now; busy_.pop()) {
    }
    while (!ready_.empty() && std::ssize(busy_) < pool_.up * options_.scale.slots) {
      const auto [since, takes] = ready_.front();
      ready_.pop_front();
      waits_.push_back(now - since);
      busy_.push(now + takes);
      pool_.mean_s += kLearn * (takes - pool_.mean_s);
    }
    pool_.total = pool_.up + static_cast<int>(starting_.size());
    out_.worker_hours += pool_.total / 3600.0;
    out_.most_workers = std::max(out_.most_workers, pool_.total);
    pool_.ready = static_cast<int>(ready_.size());
    pool_.running = static_cast<int>(busy_.size());
    pool_.arrivals_per_s = static_cast<double>(seen_) / kWindow;
    pool_.oldest_s = ready_.empty() ? 0 : now - ready_.front().first;
    scale_to(std::clamp(rule_(pool_), options_.scale.min, options_.scale.max));
  }

  void scale_to(int wanted) {
    if (wanted > pool_.total) {
      for (int i = pool_.total; i < wanted; ++i) starting_.push_back(pool_.now + start_s());
      turn(1);
    } else if (wanted < pool_.total) {
      int left = pool_.total - wanted;
      for (; left > 0 && !starting_.empty(); --left) starting_.pop_back();
      const int slots = options_.scale.slots;
      const int used = (static_cast<int>(busy_.size()) + slots - 1) / slots;
      const int stops = std::clamp(std::min(left, pool_.up - options_.scale.min), 0,
                                   std::max(0, pool_.up - used));
      pool_.up -= stops;
      if (stops > 0 || left < pool_.total - wanted) turn(-1);
    }
  }

  void turn(int direction) {
    if (direction_ == -direction) {
      turns_.push_back(pool_.now);
      ++out_.turns;
      while (turns_.front() < pool_.now - kFastWindow) turns_.pop_front();
      out_.fastest_turns = std::max(out_.fastest_turns, static_cast<int>(turns_.size()));
    }
    direction_ = direction;
  }

  void finish() {
    out_.jobs = std::ssize(waits_);
    out_.left = std::ssize(ready_);
    if (waits_.empty()) return;
    std::sort(waits_.begin(), waits_.end());
    const auto at = [&](double q) {
      const auto i = static_cast<std::size_t>(static_cast<double>(waits_.size()) * q);
      return waits_[std::min(i, waits_.size() - 1)];
    };
    out_.p50_s = at(0.5), out_.p95_s = at(0.95), out_.p99_s = at(0.99);
    out_.longest_s = waits_.back();
    const auto later = [&](int than) {
      const auto first = std::upper_bound(waits_.begin(), waits_.end(), than);
      return static_cast<double>(waits_.end() - first) / static_cast<double>(waits_.size());
    };
    const auto target = static_cast<int>(options_.scale.target / std::chrono::seconds(1));
    out_.late = later(target + start_s());
    out_.late_60s = later(60);
  }

  const std::span<const int> arrivals_;
  const SimulationOptions& options_;
  const SimulatedRule& rule_;
  Draws random_;
  SimulatedPool pool_;
  SimulationResult out_;
  std::deque<std::pair<int, double>> ready_;                               // since when, run time
  std::priority_queue<double, std::vector<double>, std::greater<>> busy_;  // ends
  std::deque<int> starting_;
  std::vector<int> waits_;
  std::deque<int> turns_;
  std::int64_t seen_ = 0;  // arrivals of the last minute
  int direction_ = 0;
};

}  // namespace

SimulatedRule scaling_rule(const SimulationOptions& options) {
  return [options, pool = std::make_shared<ScalePool>()](const SimulatedPool& seen) {
    ScaleLoad load{.arrivals_per_s = seen.arrivals_per_s, .mean_s = seen.mean_s};
    load.ready = seen.ready;
    load.running = seen.running;
    const auto lead = static_cast<int>(options.scale.lead / std::chrono::seconds(1));
    for (const KnownWave& wave : options.waves) {
      if (seen.now < wave.at && wave.at <= seen.now + lead + 5) load.due += wave.jobs;
    }
    const SlotsNeeded needed = slots_needed({&load, 1}, options.scale);
    const int slots = options.scale.slots;
    return pool->desired(Instant() + std::chrono::seconds(seen.now),
                         raw_workers({&load, 1}, needed, options.scale),
                         (seen.running + slots - 1) / slots, options.scale);
  };
}

SimulationResult simulate_scaling(std::span<const int> arrivals, const SimulationOptions& options,
                                  const SimulatedRule& rule) {
  return Simulation(arrivals, options, rule).run();
}

}  // namespace mainspring
