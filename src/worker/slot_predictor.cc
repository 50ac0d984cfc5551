// Durations of past jobs, and how much time the next one needs.
#include "worker/slot_predictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "api/json.h"

namespace mainspring {
namespace {

constexpr double kFirstBin_us = 64;
constexpr double kForgotten = 1e-3;  // smaller weights are removed

int bin_of(double us) {
  if (us <= kFirstBin_us) return 0;
  const double bin = std::floor(std::log2(us / kFirstBin_us) * DurationSketch::kBinsPerDoubling);
  return std::min(static_cast<int>(bin), DurationSketch::kBins - 1);
}

double upper_us(int bin) {
  return kFirstBin_us * std::exp2(double(bin + 1) / DurationSketch::kBinsPerDoubling);
}

}  // namespace

void DurationSketch::add(Duration took) {
  const auto us = static_cast<double>(std::max(took, Duration(0)).count());
  count_ += 1;
  sum_ += us;
  squares_ += us * us;
  largest_ = std::max(largest_, us);
  bins_[bin_of(us)] += 1;
}

void DurationSketch::decay(double factor) {
  count_ *= factor;
  sum_ *= factor;
  squares_ *= factor;
  for (auto& [bin, weight] : bins_) weight *= factor;
  std::erase_if(bins_, [](const auto& one) { return one.second < kForgotten; });
  if (bins_.empty()) {
    *this = DurationSketch();
  } else {
    largest_ = std::min(largest_, upper_us(bins_.rbegin()->first));
  }
}

void DurationSketch::merge(const DurationSketch& other) {
  count_ += other.count_;
  sum_ += other.sum_;
  squares_ += other.squares_;
  largest_ = std::max(largest_, other.largest_);
  for (const auto& [bin, weight] : other.bins_) bins_[bin] += weight;
}

Duration DurationSketch::largest() const {
  return Duration(static_cast<std::int64_t>(std::ceil(largest_)));
}

double DurationSketch::light(double chance) const {
  const double spread = std::max(0.0, squares_ - sum_ * mean());
  const double sd = std::sqrt((spread + mean() * mean()) / (count_ + 1));  // with the prior
  return mean() + (std::log(1 / chance) - 1) * sd * (1 + 2 / std::sqrt(count_));
}

// Sums the mean excess over a bin's lower bound, from the largest bin down, until it is too much.
double DurationSketch::seen(double chance) const {
  const double allowed = chance * sum_;
  double above = 0;   // weight of the bins passed
  double excess = 0;  // of them, over `at`
  double at = largest_;
  for (auto it = bins_.rbegin(); it != bins_.rend(); ++it) {
    const double value = std::min(upper_us(it->first), largest_);  // where its samples count as
    const double more = above * (at - value);
    if (excess + more > allowed) return at - (allowed - excess) / above;
    excess += more;
    above += it->second;
    at = value;
  }
  return std::max(0.0, at - (above > 0 ? (allowed - excess) / above : 0));
}

Duration DurationSketch::room(double chance) const {
  if (count_ <= 0) return Duration(0);
  double us = light(chance);
  if (count_ >= kEnoughToSee) us = std::max(us, seen(chance));
  return Duration(static_cast<std::int64_t>(std::ceil(std::min(us, 1e15))));
}

std::string DurationSketch::to_json() const {
  std::string out = fmt::format(
      "{{\"n\":{:.6g},\"sum\":{:.9g},\"squares\":{:.12g},\"max\":{:.9g},"
      "\"bins\":[",
      count_, sum_, squares_, largest_);
  bool first = true;
  for (const auto& [bin, weight] : bins_) {
    out += fmt::format("{}[{},{:.4g}]", first ? "" : ",", bin, weight);
    first = false;
  }
  return out + "]}";
}

namespace {

struct SketchFields {
  double count = 0, sum = 0, squares = 0, largest = 0;
  std::map<int, double> bins;
};
constexpr double kMost = 1e30;

bool read_bin(JsonReader& in, std::map<int, double>& bins) {
  int bin = 0;
  double weight = 0;
  const bool good = in.array(2, [&](std::size_t i) {
    return i == 0 ? in.integer(bin, 0, DurationSketch::kBins - 1) : in.number(weight, 0, kMost);
  });
  if (good) bins[bin] = weight;
  return good;
}

constexpr JsonField<SketchFields> kSketch[] = {
    {"n", [](JsonReader& in, SketchFields& s) { return in.number(s.count, 0, kMost); }},
    {"sum", [](JsonReader& in, SketchFields& s) { return in.number(s.sum, 0, kMost); }},
    {"squares", [](JsonReader& in, SketchFields& s) { return in.number(s.squares, 0, kMost); }},
    {"max", [](JsonReader& in, SketchFields& s) { return in.number(s.largest, 0, kMost); }},
    {"bins",
     [](JsonReader& in, SketchFields& s) {
       return in.array(DurationSketch::kBins, [&](std::size_t) { return read_bin(in, s.bins); });
     }},
};

}  // namespace

Result<DurationSketch> DurationSketch::from_json(const std::string& json) {
  SketchFields fields;
  JsonReader in(json, JsonReader::Unknown::refuse);
  if (!in.object(kSketch, fields) || !in.end()) return in.error();
  DurationSketch sketch;
  sketch.count_ = fields.count;
  sketch.sum_ = fields.sum;
  sketch.squares_ = fields.squares;
  sketch.largest_ = fields.largest;
  sketch.bins_ = std::move(fields.bins);
  return sketch;
}

void SlotPredictor::add(const std::string& kind, Duration took) {
  if (!kinds_.contains(kind) && kinds_.size() >= kMaxKinds) {
    kinds_.erase(std::min_element(kinds_.begin(), kinds_.end(), [](const auto& a, const auto& b) {
      return a.second.count() < b.second.count();
    }));
  }
  kinds_[kind].add(took);
}

void SlotPredictor::decay(double factor) {
  for (auto& [kind, sketch] : kinds_) sketch.decay(factor);
  std::erase_if(kinds_, [](const auto& one) { return one.second.count() <= 0; });
}

std::optional<Duration> SlotPredictor::room(const std::string& kind, Duration cap) const {
  const auto it = kinds_.find(kind);
  if (it == kinds_.end()) return std::nullopt;
  return std::min(it->second.room(kOverrunChance), cap);
}

std::vector<std::string> SlotPredictor::kinds() const {
  std::vector<std::string> out;
  for (const auto& [kind, sketch] : kinds_) out.push_back(kind);
  return out;
}

std::string SlotPredictor::to_json() const {
  std::string out = "{\"kinds\":{";
  bool first = true;
  for (const auto& [kind, sketch] : kinds_) {
    if (!first) out += ',';
    first = false;
    append_json_string(out, kind);
    out += ':';
    out += sketch.to_json();
  }
  return out + "}}";
}

Result<SlotPredictor> SlotPredictor::from_json(const std::string& json) {
  SlotPredictor predictor;
  if (json.empty()) return predictor;
  std::optional<Error> bad;
  JsonReader in(json, JsonReader::Unknown::refuse);
  const bool good = in.members([&](std::string_view) {
    return in.members([&](std::string_view kind) {
      const std::string name(kind);
      std::string text;
      if (!in.raw(text)) return false;
      auto sketch = DurationSketch::from_json(text);
      if (!sketch) {
        bad = std::move(sketch.error());
        return false;
      }
      predictor.kinds_.insert_or_assign(name, std::move(*sketch));
      return true;
    });
  });
  if (bad) return *bad;
  if (!good || !in.end()) return in.error();
  return predictor;
}

}  // namespace mainspring
