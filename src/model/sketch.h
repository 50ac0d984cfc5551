// TimeSketch: a histogram of durations, for percentiles.
//
// Buckets grow by 2^(1/4), so a percentile is at most 9.1 % off (2^(1/8) - 1), plus half a
// microsecond. Sketches can be added without further error. Only non-empty buckets are stored: a
// minute of a queue has about ten.
//
// Alternatives: t-digest and DDSketch are more precise, but SQL cannot add them in one statement.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/time.h"

namespace mainspring {

class TimeSketch {
 public:
  static constexpr int kBuckets = 256;

  // A negative duration counts as zero.
  void add(Duration value);
  void add(const TimeSketch& other);
  std::int64_t count() const;
  bool empty() const { return buckets_.empty(); }
  // The `q` quantile of the durations, 0 < q <= 1; zero if the sketch is empty.
  Duration percentile(double q) const;
  Duration mean() const;  // zero if the sketch is empty

  // "bucket,count,bucket,count", ascending by bucket; "" = empty.
  std::string text() const;
  // Errors: invalid_argument (not the output of text()).
  static Result<TimeSketch> parse(std::string_view text);
  friend bool operator==(const TimeSketch&, const TimeSketch&) = default;

 private:
  struct Bucket {
    int number = 0;
    std::int64_t count = 0;
    friend bool operator==(const Bucket&, const Bucket&) = default;
  };
  void add(int number, std::int64_t count);
  std::vector<Bucket> buckets_;  // ascending, none is empty
};

}  // namespace mainspring
