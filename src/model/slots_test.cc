// Slots: what a job takes by its cost, and when there is room for it.
#include "model/slots.h"

#include <doctest/doctest.h>

namespace mainspring {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr RateLimit slots_limit(int count, Duration per, RateKind kind, int burst = 0) {
  return {.count = count, .per = per, .kind = kind, .burst = burst};
}
const WallTime kSlotsStart = WallTime::from_us(1'767'225'600'000'000);

TEST_CASE("a key has room for the lower of what its concurrency and its rate allow") {
  KeyLimits limits;
  RateMeter meter;
  CHECK(room_of_key(limits, 100, meter, kSlotsStart).jobs() > 1'000'000);
  limits.concurrency = 3;
  CHECK(room_of_key(limits, 1, meter, kSlotsStart).jobs() == 2);
  CHECK(room_of_key(limits, 9, meter, kSlotsStart).jobs() == 0);
  limits.rate = slots_limit(2, minutes(1), RateKind::sliding);
  CHECK(room_of_key(limits, 0, meter, kSlotsStart).jobs() == 2);
  CHECK_FALSE(key_closed_until(limits, meter, kSlotsStart));
  meter.take(*limits.rate, kSlotsStart, 2);
  CHECK(room_of_key(limits, 0, meter, kSlotsStart).jobs() == 0);
  CHECK(key_closed_until(limits, meter, kSlotsStart) == meter.opens_at(*limits.rate, kSlotsStart));
}

TEST_CASE("concurrency and rate: the smaller room counts, and jobs beyond a limit leave none") {
  const QueueLimits limits{.concurrency = 3, .rate = slots_limit(2, minutes(1), RateKind::fixed)};
  CHECK(room_of(limits, 0, {}, kSlotsStart).jobs() == 2);
  CHECK(room_of(limits, 2, {}, kSlotsStart).jobs() == 1);
  CHECK(room_of(limits, 7, {}, kSlotsStart).jobs() == 0);
  CHECK(room_of({}, 7, {}, kSlotsStart).jobs() > 1'000'000);
}

TEST_CASE("a job takes its cost of each limit, or all of a smaller limit") {
  const QueueLimits limits{.concurrency = 6, .rate = slots_limit(3, minutes(1), RateKind::sliding)};
  Room room = room_of(limits, 0, {}, kSlotsStart);
  CHECK(room.fits(1000));
  room.take(4);  // all three start
  CHECK(room.jobs() == 0);
  CHECK_FALSE(room_of(limits, 3, {}, kSlotsStart).fits(4));
  CHECK(room_of(limits, 2, {}, kSlotsStart).fits(4));
  CHECK_FALSE(room_of(limits, 1, {}, kSlotsStart).fits(1000));
  CHECK(slots_of(4, 6) == 4);
  CHECK(slots_of(4, 3) == 3);
  CHECK(begins_of(7, slots_limit(9, minutes(1), RateKind::bucket, 5)) == 5);
  CHECK(begins_of(7, slots_limit(9, minutes(1), RateKind::bucket)) == 7);
  CHECK(begins_of(7, slots_limit(5, minutes(1), RateKind::fixed)) == 5);
  Room probes = Room().bound_jobs(2);
  CHECK(probes.fits(1000));  // a probe is a job
  probes.take(1000);
  CHECK(probes.jobs() == 1);
  CHECK_FALSE(Room::none().fits(1));
}

TEST_CASE("a rate opens next when the next larger cost fits") {
  for (const RateKind kind : {RateKind::bucket, RateKind::sliding, RateKind::fixed}) {
    CAPTURE(to_string(kind));
    QueueLimits limits{.rate = slots_limit(6, minutes(1), kind)};
    const RateLimit& rate = *limits.rate;
    RateMeter meter;
    CHECK_FALSE(next_rate_opening(limits, rate, meter, kSlotsStart));
    meter.take(rate, kSlotsStart, 3);
    CHECK_FALSE(next_rate_opening(limits, rate, meter, kSlotsStart));  // three more may start
    limits.costs = {{"heavy", 4}, {"huge", 99}};
    auto next = next_rate_opening(limits, rate, meter, kSlotsStart);
    REQUIRE(next);
    CHECK(next->begins == 4);
    CHECK(meter.allowed(rate, next->at) >= 4);
    CHECK(meter.allowed(rate, next->at - Duration(1)) < 4);
    CHECK(begins_awaited(limits, rate, meter, next->at) == 4);
    CHECK_FALSE(closed_until(limits, meter, next->at));
    meter.take(rate, kSlotsStart, 3);
    next = next_rate_opening(limits, rate, meter, kSlotsStart);
    REQUIRE(next);
    CHECK(next->begins == 1);
    CHECK(begins_awaited(limits, rate, meter, next->at) == 1);
    CHECK(closed_until(limits, meter, next->at) == next->at);
    CHECK(meter.allowed(rate, meter.opens_at(rate, kSlotsStart, 6)) == 6);
    CHECK_FALSE(next_rate_opening(limits, rate, meter, kSlotsStart + minutes(3)));
  }
}

TEST_CASE("costs are per kind, 1 to a thousand, and a cost of 1 is not stored") {
  QueueLimits limits;
  limits.costs = {{"render", 4}, {"thumbnail", 1}};
  CHECK(validate(limits));
  CHECK(limits.any());
  CHECK(limits.cost_of("render") == 4);
  CHECK(limits.cost_of("other") == 1);
  CHECK(without_default_costs(limits).costs.size() == 1);
  limits.costs = {{"render", 0}};
  CHECK(validate(limits).error().field == "costs");
  limits.costs = {{"render", 1001}};
  CHECK(validate(limits).error().message == "costs: cost 1001 of \"render\": must be 1 to 1000");
  limits.costs = {{"", 2}};
  CHECK(validate(limits).error().field == "costs");
  limits.costs.clear();
  for (int i = 0; i <= kMaxCosts; ++i) limits.costs.emplace("k" + std::to_string(i), 2);
  CHECK(validate(limits).error().message ==
        "costs has 65 kinds: must be at most 64; other kinds cost 1");
}

}  // namespace
}  // namespace mainspring
