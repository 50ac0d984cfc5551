// Time slots in virtual time, for tests and for the table of docs/guides/slots.md: an endless or
// limited backlog of jobs with random durations, without an engine or a clock.
#pragma once

#include <cmath>
#include <functional>

#include "env/random.h"
#include "worker/slot_plan.h"

namespace mainspring {

struct SimulatedSlot {
  Duration ran{0};
  Duration busy{0};
  int handled = 0;
  SlotEnd end = SlotEnd::none;
  SlotPredictor known;
};

// A queue that has `jobs` jobs of one kind, and then no more.
inline SimulatedSlot simulate_slot(const SlotOptions& options, SlotPredictor known, int jobs,
                                   const std::function<Duration()>& took) {
  using Action = SlotPlan::Step::Action;
  const Instant start = Instant::from_ms(1'000'000);
  SlotPlan plan(options, {"k"}, start, std::move(known));
  Instant now = start;
  SimulatedSlot out;
  for (;;) {
    SlotPlan::Step step = plan.next(now);
    if (step.action == Action::take && jobs == 0) {
      now = now + step.wait;
      step = plan.nothing(now);
      if (step.action == Action::sleep) now = now + step.wait;
    } else if (step.action == Action::take && plan.admit("k", now)) {
      --jobs;
      const Duration d = took();
      now = now + d;
      plan.handled("k", d);
    }
    if (step.action != Action::stop) continue;
    out.end = step.why;
    break;
  }
  out.ran = now - start;
  out.busy = plan.busy();
  out.handled = plan.handled_count();
  out.known = plan.known();
  return out;
}

struct SimulatedSlots {
  int overruns = 0;        // slots whose last handler ended too late
  Duration worst{0};       // the worst of them
  double used = 0;         // of the slots' time, in handlers
  double handled = 0;      // per slot
  double worst_delay = 0;  // s: of a job that arrives just after the slot's end, or while it idles
};

// Slots in sequence; each starts with the knowledge of the previous one.
inline SimulatedSlots simulate_slots(const SlotOptions& options, int slots,
                                     const std::function<Duration()>& took) {
  SimulatedSlots out;
  SlotPredictor known;
  double busy = 0;
  std::int64_t handled = 0;
  for (int i = 0; i < slots; ++i) {
    SimulatedSlot slot = simulate_slot(options, std::move(known), 1 << 30, took);
    known = std::move(slot.known);
    const Duration over = slot.ran - options.length;
    if (over > Duration(0)) ++out.overruns;
    out.worst = std::max(out.worst, over);
    busy += double(std::min(slot.busy, options.length).count());
    handled += slot.handled;
    out.worst_delay = std::max(out.worst_delay, double(-over.count()) / 1e6);
  }
  out.used = busy / (double(options.length.count()) * slots);
  out.handled = double(handled) / slots;
  return out;
}

// In (0, 1).
inline double uniform(Random& random) {
  return (double(random.next() >> 11) + 0.5) / double(1ull << 53);
}
inline Duration seconds_of(double s) {
  return Duration(static_cast<std::int64_t>(s * 1e6));
}
inline Duration exponential(Random& random, Duration mean) {
  return seconds_of(-std::log(uniform(random)) * double(mean.count()) / 1e6);
}
// Shape `a`, smallest value `least`; capped at `most`, like every job with a time limit.
inline Duration pareto(Random& random, double a, Duration least, Duration most) {
  const double s = double(least.count()) / 1e6 * std::pow(uniform(random), -1 / a);
  return std::min(seconds_of(s), most);
}
inline Duration lognormal(Random& random, double mu, double sigma) {
  const double n = std::sqrt(-2 * std::log(uniform(random))) *
                   std::cos(2 * 3.14159265358979323846 * uniform(random));
  return seconds_of(std::exp(mu + sigma * n));
}

}  // namespace mainspring
