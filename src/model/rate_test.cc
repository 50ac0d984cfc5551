// Rates: what the three kinds allow, and that none allows more than its limit.
#include "model/rate.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <vector>

namespace mainspring {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr RateLimit limit(int count, Duration per, RateKind kind, int burst = 0) {
  return {.count = count, .per = per, .kind = kind, .burst = burst};
}
const WallTime kRateStart = WallTime::from_us(1'767'225'600'000'000);

TEST_CASE("a meter reads the text that it writes; an empty text is an empty meter") {
  RateMeter meter;
  CHECK(meter.text().empty());
  for (const RateKind kind : {RateKind::bucket, RateKind::sliding, RateKind::fixed}) {
    const RateLimit rate = limit(5, minutes(1), kind);
    meter.take(rate, kRateStart, 2);
    meter.take(rate, kRateStart + seconds(7), 1);
    CHECK(RateMeter::parse(meter.text()) == meter);
    CHECK(meter.text().size() < 2048);
    meter = {};
  }
  CHECK(RateMeter::parse("nonsense") == RateMeter());
  CHECK(RateMeter::parse("12") == RateMeter());
}

TEST_CASE("a meter reports when it is empty again, and is empty then and not before") {
  for (const RateKind kind : {RateKind::bucket, RateKind::sliding, RateKind::fixed}) {
    const RateLimit rate = limit(5, minutes(1), kind);
    RateMeter meter;
    CHECK(meter.as_new_at(rate) == WallTime());
    meter.take(rate, kRateStart + seconds(1), 5);
    const WallTime at = meter.as_new_at(rate);
    CHECK(meter.allowed(rate, at) == 5);
    CHECK(meter.allowed(rate, at - Duration(1)) < 5);
  }
}

TEST_CASE("a meter saves its clock to the precision of its kind of rate") {
  const auto behind = [](const RateLimit& rate, Duration after, int n) {
    RateMeter meter;
    const WallTime begin = kRateStart + after;
    CHECK(meter.last_begin(rate) == WallTime());
    meter.take(rate, begin, n);
    const WallTime last = RateMeter::parse(meter.text()).last_begin(rate);
    CHECK(last <= begin);
    return begin - last;
  };
  const Duration per = minutes(1);
  for (const Duration after : {Duration(0), Duration(seconds(7)), Duration(seconds(59))}) {
    CHECK(behind(limit(5, per, RateKind::fixed), after, 1) < per);
    CHECK(behind(limit(5, per, RateKind::sliding), after, 1) <= per / 50);
    CHECK(behind(limit(5, per, RateKind::bucket), after, 1) <= per);
    CHECK(behind(limit(5, per, RateKind::bucket), after, 5) == Duration(0));  // nothing is left
    CHECK(behind(limit(5, per, RateKind::bucket, 2), after, 2) == Duration(0));
  }
}

TEST_CASE("starts before the clock was set back are kept as times in the future") {
  for (const RateKind kind : {RateKind::bucket, RateKind::sliding, RateKind::fixed}) {
    const RateLimit rate = limit(4, minutes(1), kind);
    RateMeter meter;
    meter.take(rate, kRateStart + minutes(2), 4);
    meter.take(rate, kRateStart + minutes(1) + seconds(30),
               meter.allowed(rate, kRateStart + seconds(90)));
    CHECK(meter.last_begin(rate) == kRateStart + minutes(2));
  }
}

TEST_CASE("an idle bucket holds its burst, not more") {
  const RateLimit rate = limit(60, minutes(1), RateKind::bucket, 5);
  RateMeter meter;
  CHECK(meter.allowed(rate, kRateStart) == 5);
  meter.take(rate, kRateStart, 5);
  CHECK(meter.allowed(rate, kRateStart) == 0);
  CHECK(meter.opens_at(rate, kRateStart) == kRateStart + seconds(1));
  CHECK(meter.allowed(rate, kRateStart + seconds(3)) == 3);
  CHECK(meter.allowed(rate, kRateStart + minutes(60)) == 5);
}

TEST_CASE("over any history, no period of the rate starts more jobs than allowed") {
  rc::check("sliding: count; fixed: twice the count; bucket: burst and what flows in", [] {
    const auto kind = static_cast<RateKind>(*rc::gen::inRange(0, 3));
    const int count = *rc::gen::inRange(1, 9);
    const int burst = kind == RateKind::bucket ? *rc::gen::inRange(0, 9) : 0;
    const RateLimit rate = limit(count, seconds(*rc::gen::inRange(1, 90)), kind, burst);
    const auto steps = *rc::gen::container<std::vector<int>>(60, rc::gen::inRange(0, 20'000));
    RateMeter meter;
    std::vector<WallTime> started;
    WallTime now = kRateStart;
    for (const int ms : steps) {
      now = now + std::chrono::milliseconds(ms);
      const int n = std::min(meter.allowed(rate, now), ms % 4);
      meter.take(rate, now, n);
      meter = RateMeter::parse(meter.text());
      started.insert(started.end(), static_cast<std::size_t>(n), now);
      const WallTime opens = meter.opens_at(rate, now);
      RC_ASSERT((opens <= now) == (meter.allowed(rate, now) > 0));
      RC_ASSERT(meter.allowed(rate, opens) > 0);
      RC_ASSERT(opens - now <= farthest_opening(rate));
      if (opens > now) RC_ASSERT(meter.allowed(rate, opens - std::chrono::microseconds(1)) == 0);
    }
    const int most = kind == RateKind::sliding ? count
                     : kind == RateKind::fixed ? 2 * count
                                               : (burst > 0 ? burst : count) + count;
    for (std::size_t i = static_cast<std::size_t>(most); i < started.size(); ++i)
      RC_ASSERT(started[i] - started[i - static_cast<std::size_t>(most)] >= rate.per);
  });
}

TEST_CASE("bad limits are refused with the field and the rule") {
  const auto field = [](const QueueLimits& limits) {
    const auto checked = validate(limits);
    return checked ? std::string() : checked.error().field;
  };
  CHECK(field({}).empty());
  CHECK(field({.concurrency = 0, .rate = {}}) == "concurrency");
  CHECK(field({.concurrency = {}, .rate = limit(0, minutes(1), RateKind::fixed)}) == "rate.count");
  CHECK(field({.concurrency = {}, .rate = limit(1, Duration(5), RateKind::fixed)}) == "rate.per");
  CHECK(field({.concurrency = {}, .rate = limit(1, minutes(1), RateKind::fixed, 3)}) ==
        "rate.burst");
  CHECK(field({.concurrency = 1, .rate = limit(1, minutes(1), RateKind::bucket, 3)}).empty());
}

}  // namespace
}  // namespace mainspring
