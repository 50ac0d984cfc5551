// A simulation of workers that follow the scaling rule, in steps of one second. For
// `scale simulate` and for tests.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "env/random.h"
#include "scale/rule.h"

namespace mainspring {

// A seeded source for the distributions of the standard library.
class Draws {
 public:
  using result_type = std::uint64_t;
  explicit Draws(std::uint64_t seed) : source_(seed) {}
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }
  result_type operator()() { return source_.next(); }

 private:
  SeededRandom source_;
};

struct KnownWave {
  int at = 0;  // seconds
  int jobs = 0;
};

// What a rule sees at second `now`.
struct SimulatedPool {
  int now = 0;
  int ready = 0, running = 0;
  double arrivals_per_s = 0;  // of the last minute
  double mean_s = 0;
  int up = 0, total = 0;  // workers that run; with those that start
  int oldest_s = 0;
};

struct SimulationOptions {
  ScaleOptions scale;                                // `lead`: how long a worker takes to start
  std::function<double(Draws&)> run_time;            // seconds
  double mean_s = 2;                                 // known at the start
  std::uint64_t seed = 1;
  std::vector<KnownWave> waves;  // of schedules, known `lead` before
};

struct SimulationResult {
  std::int64_t jobs = 0, left = 0;
  int p50_s = 0, p95_s = 0, p99_s = 0, longest_s = 0;  // wait
  double late = 0;  // share that waited longer than target + start
  double late_60s = 0;
  double worker_hours = 0;
  int most_workers = 0;
  int turns = 0;          // changes of direction
  int fastest_turns = 0;  // the most in ten minutes
};

// Returns the wanted number of workers.
using SimulatedRule = std::function<int(const SimulatedPool&)>;
SimulatedRule scaling_rule(const SimulationOptions& options);
// `arrivals`: jobs in each second.
SimulationResult simulate_scaling(std::span<const int> arrivals, const SimulationOptions& options,
                                  const SimulatedRule& rule);

}  // namespace mainspring
