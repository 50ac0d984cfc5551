// SlotPredictor: how long a job of a kind may take, learned from past jobs.
//
// Let q be the remaining time up to which a job may start. While more than q remains, jobs start
// one after another; a job that starts with r > q remaining overruns with probability S(r) = P(X >
// r). Over the last stretch of a slot that adds up to
//
//   P(overrun) = 1/mean · ∫_q^∞ S(r) dr = E[(X − q)+] / E[X]
//
// so q is the smallest value that keeps the mean excess over q under kOverrunChance of the mean.
// For an exponential X that is mean · ln(1/p); for a constant X it is the constant. Two estimates
// of q:
//   light   mean + (ln(1/p) − 1) · sd: exact for the exponential and more than enough for lighter
//           tails. sd starts with a prior of one sample as wide as the mean, and a factor 1 + 2/√n
//           covers the uncertainty of few samples;
//   seen    from the histogram, once there are enough samples: handles heavy tails.
// The larger one counts, up to a cap: else one very slow job would prevent all further jobs of its
// kind. Alternative not taken: mean · tolerance (seed 000), which is far too much for constant
// times and starves after one slow job. Source: the stop-loss transform of insurance mathematics.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring {

// Moments and a histogram with 8 bins per doubling, with decaying weights. Two of them can be
// added.
class DurationSketch {
 public:
  void add(Duration took);
  // Multiplies all weights by `factor`, so that old samples count less.
  void decay(double factor);
  void merge(const DurationSketch& other);
  double count() const { return count_; }
  Duration largest() const;  // the upper bound of the largest bin in use, or the exact largest
  // q as above; 0 samples = 0.
  Duration room(double overrun_chance) const;

  std::string to_json() const;
  static Result<DurationSketch> from_json(const std::string& json);

  static constexpr int kBinsPerDoubling = 8;
  static constexpr int kBins = 30 * kBinsPerDoubling;  // 64 us to 19 h
  static constexpr double kEnoughToSee = 50;           // samples needed to use the histogram

 private:
  double seen(double overrun_chance) const;
  double light(double overrun_chance) const;
  double mean() const { return sum_ / count_; }
  double count_ = 0, sum_ = 0, squares_ = 0, largest_ = 0;  // in us
  std::map<int, double> bins_;
};

// One sketch per kind, passed from slot to slot as JSON.
class SlotPredictor {
 public:
  void add(const std::string& kind, Duration took);
  void decay(double factor);
  // nullopt = the kind is not known.
  std::optional<Duration> room(const std::string& kind, Duration cap) const;
  std::vector<std::string> kinds() const;

  // Empty text = nothing known. Errors: invalid_argument.
  static Result<SlotPredictor> from_json(const std::string& json);
  std::string to_json() const;

  static constexpr double kOverrunChance = 0.0005;  // per slot
  static constexpr double kSlotDecay = 0.98;        // per slot: half of it is from the last 34
  static constexpr std::size_t kMaxKinds = 32;      // beyond, the least used are removed

 private:
  std::map<std::string, DurationSketch> kinds_;
};

}  // namespace mainspring
