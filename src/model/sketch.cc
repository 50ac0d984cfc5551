// Buckets of durations, and their percentiles.
#include "model/sketch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>

namespace mainspring {
namespace {

// Bucket 0 is zero; bucket 1 + 4 * k + i starts at 2^(k + i/4) microseconds.
int bucket_of(Duration value) {
  constexpr std::array<double, 3> kQuarters = {1.189207115002721, 1.414213562373095,
                                               1.681792830507429};
  if (value.count() <= 0) return 0;
  const auto us = static_cast<std::uint64_t>(value.count());
  const int octave = static_cast<int>(std::bit_width(us)) - 1;
  const double part = std::ldexp(static_cast<double>(us), -octave);  // 1 to 2
  int quarter = 0;
  for (const double begin : kQuarters) quarter += part >= begin ? 1 : 0;
  return 1 + 4 * octave + quarter;
}

Duration middle_of(int bucket) {
  if (bucket == 0) return Duration(0);
  const double us = std::exp2((static_cast<double>(bucket - 1) + 0.5) / 4);
  return Duration(std::llround(std::min(us, 9.0e18)));
}

Error not_a_sketch(std::string_view text) {
  return {.code = ErrorCode::invalid_argument,
          .message = fmt::format("sketch {}: must be bucket,count pairs, ascending by bucket",
                                 text.substr(0, 100))};
}

}  // namespace

void TimeSketch::add(Duration value) {
  add(bucket_of(value), 1);
}

void TimeSketch::add(int number, std::int64_t count) {
  const auto at =
      std::lower_bound(buckets_.begin(), buckets_.end(), number,
                       [](const Bucket& bucket, int wanted) { return bucket.number < wanted; });
  if (at != buckets_.end() && at->number == number) {
    at->count += count;
  } else {
    buckets_.insert(at, {number, count});
  }
}

void TimeSketch::add(const TimeSketch& other) {
  for (const Bucket& bucket : other.buckets_) add(bucket.number, bucket.count);
}

std::int64_t TimeSketch::count() const {
  std::int64_t all = 0;
  for (const Bucket& bucket : buckets_) all += bucket.count;
  return all;
}

Duration TimeSketch::percentile(double q) const {
  const auto rank =
      std::max<std::int64_t>(1, std::llround(std::ceil(q * static_cast<double>(count()))));
  std::int64_t seen = 0;
  for (const Bucket& bucket : buckets_) {
    seen += bucket.count;
    if (seen >= rank) return middle_of(bucket.number);
  }
  return Duration(0);
}

Duration TimeSketch::mean() const {
  double sum = 0;
  for (const Bucket& bucket : buckets_)
    sum +=
        static_cast<double>(middle_of(bucket.number).count()) * static_cast<double>(bucket.count);
  return empty() ? Duration(0) : Duration(std::llround(sum / static_cast<double>(count())));
}

std::string TimeSketch::text() const {
  std::string out;
  for (const Bucket& bucket : buckets_)
    out += fmt::format("{}{},{}", out.empty() ? "" : ",", bucket.number, bucket.count);
  return out;
}

Result<TimeSketch> TimeSketch::parse(std::string_view text) {
  TimeSketch out;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](auto& into, char separator) {
    const auto [next, problem] = std::from_chars(at, end, into);
    if (problem != std::errc()) return false;
    at = next;
    if (at == end) return separator == '\0';
    return *at++ == ',' && at != end;
  };
  while (at != end) {
    Bucket bucket;
    if (!number(bucket.number, ',') || at == end || !number(bucket.count, '\0'))
      return not_a_sketch(text);
    const bool ascends = out.buckets_.empty() || out.buckets_.back().number < bucket.number;
    if (!ascends || bucket.number < 0 || bucket.number >= kBuckets || bucket.count <= 0)
      return not_a_sketch(text);
    out.buckets_.push_back(bucket);
  }
  return out;
}

}  // namespace mainspring
