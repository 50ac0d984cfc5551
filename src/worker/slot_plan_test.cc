// Time slots without a clock: the original rule exactly, and a rule that fills slots and never
// overruns them.
#include "worker/slot_plan.h"

#include <doctest/doctest.h>

#include <cmath>

#include "worker/slot_simulation.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

SlotOptions seed_options() {
  return {.rule = SlotRule::poll, .estimate = 2s, .tolerance = 5, .idle = 5s};
}
std::function<Duration()> constant(Duration d) {
  return [d] { return d; };
}
SimulatedSlot run(const SlotOptions& options, const std::function<Duration()>& took,
                  int jobs = 1'000'000, SlotPredictor known = {}) {
  return simulate_slot(options, std::move(known), jobs, took);
}

}  // namespace

TEST_CASE("P1 P4 P5 always empty: ends at 50.0 s, nothing handled") {
  const SimulatedSlot slot = run(seed_options(), constant(0s), 0);
  CHECK(slot.ran == Duration(50s));
  CHECK(slot.handled == 0);
  CHECK(slot.end == SlotEnd::full);
}

TEST_CASE("P2 P3 P4 endless jobs of 1 s: ends at 55.0 s, 55 handled; the comparison is strict") {
  const SimulatedSlot slot = run(seed_options(), constant(1s));
  CHECK(slot.ran == Duration(55s));
  CHECK(slot.handled == 55);
}

TEST_CASE("P2 P3 P4 endless jobs of 0.25 s: ends at 58.75 s, 235 handled") {
  const SimulatedSlot slot = run(seed_options(), constant(250ms));
  CHECK(slot.ran == Duration(58750ms));
  CHECK(slot.handled == 235);
}

TEST_CASE("P2 P3 P4 endless jobs of 4 s: ends at 40.0 s, 10 handled") {
  const SimulatedSlot slot = run(seed_options(), constant(4s));
  CHECK(slot.ran == Duration(40s));
  CHECK(slot.handled == 10);
}

TEST_CASE("P5 P6 one job of 0.25 s, then empty: ends at 55.25 s; sleeping is no sample") {
  const SimulatedSlot slot = run(seed_options(), constant(250ms), 1);
  CHECK(slot.ran == Duration(55250ms));
  CHECK(slot.handled == 1);
  CHECK(slot.end == SlotEnd::empty);
}

TEST_CASE("P3 P7 one job of 13 s: ends at 13.0 s with work left, and is not interrupted") {
  const SimulatedSlot slot = run(seed_options(), constant(13s));
  CHECK(slot.ran == Duration(13s));
  CHECK(slot.handled == 1);
}

TEST_CASE("P3 tolerance 2, always empty: ends at 55.0 s") {
  SlotOptions options = seed_options();
  options.tolerance = 2;
  // 50 + 5 < 60, 55 + 5 is not.
  CHECK(run(options, constant(0s), 0).ran == Duration(55s));
}

TEST_CASE("P3 the tolerance is a decimal: 2.3 times 1 s is 2.3 s") {
  SlotOptions options = seed_options();
  options.tolerance = 2.3;
  // 57.7 + 2.3 < 60 is false: ends at 58 after starting at 57.
  CHECK(run(options, constant(100ms)).ran == Duration(59800ms));
  CHECK(run(options, constant(1s)).ran == Duration(58s));
}

TEST_CASE("P2 by the original rule nothing is carried from slot to slot") {
  SlotPredictor known;
  for (int i = 0; i < 100; ++i) known.add("k", 10s);
  CHECK(run(seed_options(), constant(1s), 1'000'000, known).handled == 55);
}

TEST_CASE("P8 a job that arrives while idle starts within 5 s, or at once by our rule") {
  SlotPlan seed(seed_options(), {"k"}, Instant::from_ms(0), {});
  CHECK(seed.nothing(Instant::from_ms(1000)).wait == Duration(5s));
  SlotPlan ours({}, {"k"}, Instant::from_ms(0), {});
  const SlotPlan::Step step = ours.next(Instant::from_ms(1000));
  CHECK(step.action == SlotPlan::Step::Action::take);
  CHECK(step.wait == Duration(59s - 10s - 100ms));  // parked for the remaining time
}

TEST_CASE("one slow job does not empty the slot: only its own kind waits") {
  SlotPlan plan({}, {}, Instant::from_ms(0), {});
  CHECK(plan.admit("slow", Instant::from_ms(0)));
  plan.handled("slow", 13s);
  for (int i = 0; i < 20; ++i) plan.handled("fast", 100ms);
  const Instant late = Instant::from_ms(50'000);
  const SlotPlan::Step step = plan.next(late);
  CHECK(step.action == SlotPlan::Step::Action::take);
  CHECK(step.kinds == std::vector<std::string>{"fast"});
  CHECK_FALSE(plan.admit("slow", late));
  CHECK(plan.given_back() == 1);
  CHECK(plan.admit("fast", late));
}

TEST_CASE("a kind that was released is not claimed again in the slot") {
  SlotPredictor known;
  for (int i = 0; i < 500; ++i) known.add("slow", 20s), known.add("fast", 100ms);
  SlotPlan plan({}, {}, Instant::from_ms(0), known);
  CHECK(plan.next(Instant::from_ms(0)).kinds.empty());  // any kind
  const Instant late = Instant::from_ms(45'000);
  CHECK_FALSE(plan.admit("slow", late));
  CHECK(plan.next(late).kinds == std::vector<std::string>{"fast"});
}

TEST_CASE("a kind whose jobs take longer than half a slot is still started at its beginning") {
  SlotPredictor known;
  for (int i = 0; i < 100; ++i) known.add("k", 50s);
  SlotPlan plan({}, {"k"}, Instant::from_ms(0), known);
  CHECK(plan.admit("k", Instant::from_ms(0)));
  CHECK_FALSE(plan.admit("k", Instant::from_ms(31'000)));
}

TEST_CASE("the room of an exponential is mean times ln(1/p), the room of a constant the constant") {
  SeededRandom random(1);
  DurationSketch exponential, constants;
  for (int i = 0; i < 20'000; ++i) {
    const double u = (double(random.next() >> 11) + 0.5) / double(1ull << 53);
    exponential.add(Duration(static_cast<std::int64_t>(-std::log(u) * 250'000)));
    constants.add(250ms);
  }
  const double ideal = 0.25 * std::log(1 / SlotPredictor::kOverrunChance);
  const double room = double(exponential.room(SlotPredictor::kOverrunChance).count()) / 1e6;
  CHECK(room > ideal * 0.95);
  CHECK(room < ideal * 1.25);
  CHECK(constants.room(SlotPredictor::kOverrunChance) >= Duration(250ms));
  CHECK(constants.room(SlotPredictor::kOverrunChance) < Duration(270ms));
}

TEST_CASE("estimates survive their JSON, merge and fade") {
  SlotPredictor known;
  for (int i = 1; i <= 300; ++i) known.add("a \"b\"", i * 1ms);
  const auto again = SlotPredictor::from_json(known.to_json());
  REQUIRE(again.has_value());
  CHECK(again->to_json() == known.to_json());
  CHECK(SlotPredictor::from_json("").has_value());
  CHECK_FALSE(SlotPredictor::from_json("[1]").has_value());
  CHECK_FALSE(SlotPredictor::from_json(R"({"kinds":{"k":{"n":"x"}}})").has_value());
  DurationSketch a, b;
  a.add(1s);
  b.add(3s);
  a.merge(b);
  CHECK(a.count() == 2);
  CHECK(a.largest() == Duration(3s));
  for (int i = 0; i < 1000; ++i) a.decay(0.98);
  CHECK(a.count() == 0);
}

TEST_CASE("invalid slot options are refused") {
  const auto field = [](SlotOptions options) {
    const auto errors = options.validate();
    return errors.empty() ? "" : errors.front().field;
  };
  CHECK(field({}) == "");
  CHECK(field({.name = "a b"}) == "name");
  CHECK(field({.name = std::string(121, 'a')}) == "name");
  CHECK(field({.length = 0s}) == "slot");
  CHECK(field({.estimate = 0s}) == "estimate");
  CHECK(field({.tolerance = -1}) == "tolerance");
  CHECK(field({.tolerance = std::nan("")}) == "tolerance");
  CHECK(field({.idle = 0s}) == "idle");
  CHECK(field({.reserve = 31s}) == "reserve");
  CHECK(field({.longest_part = 0}) == "longest_part");
}

TEST_CASE("constant times: no overrun, at least 98 % of the slots used, from the second one on") {
  for (const Duration took : {Duration(1s), Duration(250ms)}) {
    const SimulatedSlots slots = simulate_slots({}, 300, constant(took));
    CHECK(slots.overruns == 0);
    CHECK(slots.used >= 0.98);
  }
}

TEST_CASE("exponential times: under 0.1 % of the slots overrun, at least 95 % used") {
  SeededRandom random(7);
  const SimulatedSlots slots = simulate_slots({}, 2000, [&] { return exponential(random, 250ms); });
  CHECK(slots.overruns <= 2);
  CHECK(slots.used >= 0.95);
}
