// Sketches of durations: precision of percentiles, sums, and texts.
#include "model/sketch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace mainspring {
namespace {

TEST_SUITE("model: sketches of durations") {
  TEST_CASE("a percentile is at most 10 % off, from microseconds to days") {
    std::vector<std::int64_t> values;
    std::uint64_t state = 1;
    for (int i = 0; i < 10'000; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      const double part = static_cast<double>(state >> 11) / 9007199254740992.0;
      values.push_back(std::llround(std::pow(10.0, 1 + 10.5 * part)));
    }
    TimeSketch sketch;
    for (const std::int64_t us : values) sketch.add(Duration(us));
    std::sort(values.begin(), values.end());
    CHECK(sketch.count() == std::ssize(values));
    for (const double q : {0.01, 0.5, 0.95, 0.99, 1.0}) {
      const auto rank = static_cast<std::size_t>(std::ceil(q * 10'000)) - 1;
      const auto exact = static_cast<double>(values[rank]);
      const auto read = static_cast<double>(sketch.percentile(q).count());
      CAPTURE(q);
      CHECK(std::abs(read - exact) / exact < 0.10);
    }
  }
  TEST_CASE("a sum of sketches is the sketch of all durations") {
    TimeSketch one, other, all;
    for (int i = 0; i < 1000; ++i) {
      (i % 3 == 0 ? one : other).add(Duration(i * i));
      all.add(Duration(i * i));
    }
    one.add(other);
    CHECK(one == all);
  }
  TEST_CASE("the extremes have buckets") {
    TimeSketch sketch;
    for (const Duration d : {Duration(-5), Duration(0), Duration(1), kForever}) sketch.add(d);
    CHECK(sketch.count() == 4);
    CHECK(sketch.percentile(0.5) == Duration(0));
    CHECK(sketch.percentile(1) > std::chrono::hours(24 * 365 * 100'000));
    CHECK(TimeSketch().percentile(0.99) == Duration(0));
    CHECK(*TimeSketch::parse(sketch.text()) == sketch);
  }
  TEST_CASE("texts decode to the same sketch, and anything else is refused") {
    TimeSketch sketch;
    sketch.add(Duration(0)), sketch.add(Duration(3)), sketch.add(Duration(3));
    CHECK(sketch.text() == "0,1,7,2");
    CHECK(*TimeSketch::parse("0,1,7,2") == sketch);
    CHECK(TimeSketch::parse("")->empty());
    for (const char* text : {"1", "1,", "1,2,", "x,1", "1,0", "1,-1", "2,1,1,1", "1,1,1,1", "256,1",
                             "-1,1", "1,2,3", "1;2", "1,99999999999999999999"}) {
      CAPTURE(text);
      CHECK_FALSE(TimeSketch::parse(text));
    }
  }
}

}  // namespace
}  // namespace mainspring
