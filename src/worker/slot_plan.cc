// The two rules of time slots.
#include "worker/slot_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/mutant.h"

namespace mainspring {
namespace {

constexpr std::int64_t kMillionths = 1'000'000;
constexpr std::size_t kMaxSlotNameBytes = 120;

// Decimal, not binary: 2.3 is 2.3. Cut to whole microseconds.
Duration times(Duration d, double tolerance) {
  const auto factor = static_cast<__int128>(std::llround(tolerance * double(kMillionths)));
  const __int128 us = static_cast<__int128>(d.count()) * factor / kMillionths;
  return Duration(static_cast<std::int64_t>(std::min<__int128>(us, INT64_MAX / 2)));
}

Error out_of(const char* field, Duration value, const char* rule) {
  return invalid(field, fmt::format("{} {}: must be {}", field, format_duration(value), rule));
}

}  // namespace

std::string_view to_string(SlotEnd end) {
  switch (end) {
    case SlotEnd::none:
      return "none";
    case SlotEnd::full:
      return "full";
    case SlotEnd::empty:
      return "empty";
    case SlotEnd::stopped:
      return "stopped";
    case SlotEnd::held:
      return "held";
    case SlotEnd::lease_lost:
      return "lease_lost";
  }
  return "none";
}

std::vector<Error> SlotOptions::validate() const {
  std::vector<Error> errors;
  if (auto good = check_name("name", name); !good) errors.push_back(good.error());
  if (name.size() > kMaxSlotNameBytes) {
    errors.push_back(invalid(
        "name", fmt::format("name \"{}\": must be at most {} bytes", name, kMaxSlotNameBytes)));
  }
  const Duration day = std::chrono::hours(24);
  if (length < std::chrono::seconds(1) || length > day) {
    errors.push_back(out_of("slot", length, "1s to 24h"));
  }
  if (estimate <= Duration(0) || estimate > day) {
    errors.push_back(out_of("estimate", estimate, "more than 0s and at most 24h"));
  }
  if (idle <= Duration(0) || idle > day) {
    errors.push_back(out_of("idle", idle, "more than 0s and at most 24h"));
  }
  if (reserve < Duration(0) || reserve > length / 2) {
    errors.push_back(out_of("reserve", reserve, "0s to half of the slot"));
  }
  if (!(tolerance >= 0 && tolerance <= 1000)) {
    errors.push_back(
        invalid("tolerance", fmt::format("tolerance {}: must be 0 to 1000", tolerance)));
  }
  if (!(longest_part > 0 && longest_part <= 1)) {
    errors.push_back(invalid("longest_part", fmt::format("longest_part {}: must be above 0 and at "
                                                         "most 1",
                                                         longest_part)));
  }
  return errors;
}

SlotPlan::SlotPlan(const SlotOptions& options, std::vector<std::string> kinds, Instant start,
                   SlotPredictor known)
    : options_(options),
      kinds_(std::move(kinds)),
      end_(start + options.length),
      known_(std::move(known)),
      any_(kinds_.empty()) {}

SlotPredictor SlotPlan::known() const {
  SlotPredictor out = known_;
  out.decay(SlotPredictor::kSlotDecay);
  return out;
}

// Seed 000: the mean of this slot only, in whole ticks; the estimate while there is no mean.
Duration SlotPlan::poll_margin() const {
  return times(handled_ > 0 ? busy_ / handled_ : options_.estimate, options_.tolerance);
}

Duration SlotPlan::unknown_room() const {
  const Duration cap(
      static_cast<std::int64_t>(double(options_.length.count()) * options_.longest_part));
  return std::min(times(options_.estimate, options_.tolerance), cap) + options_.reserve;
}

Duration SlotPlan::room_of(const std::string& kind) const {
  const Duration cap(
      static_cast<std::int64_t>(double(options_.length.count()) * options_.longest_part));
  const auto room = known_.room(kind, cap);
  return room ? *room + options_.reserve : unknown_room();
}

SlotPlan::Step SlotPlan::next(Instant now) {
  using Action = Step::Action;
  if (options_.rule == SlotRule::poll) {
    if (now + poll_margin() < end_) return {.action = Action::take, .kinds = kinds_};
    return {.why = SlotEnd::full};
  }
  // Kinds that fit now. The claim waits until the first of them no longer fits.
  const Duration left = end_ - now;
  Duration most{0};
  bool all = true;
  std::vector<std::string> fit;
  for (const std::string& kind : kinds_.empty() ? known_.kinds() : kinds_) {
    const Duration room = room_of(kind);
    if (room < left) {
      fit.push_back(kind);
      most = std::max(most, room);
    } else {
      all = false;
    }
  }
  const bool unknown = any_ && all && unknown_room() < left;
  if (unknown) {
    most = std::max(most, unknown_room());
    fit.clear();
  } else if (fit.empty()) {
    return {.why = SlotEnd::full};
  }
  return {.action = Action::take, .wait = left - most, .kinds = std::move(fit)};
}

SlotPlan::Step SlotPlan::nothing(Instant now) {
  using Action = Step::Action;
  if (options_.rule == SlotRule::predict) return {.action = Action::take};
  if (now + options_.idle < end_) return {.action = Action::sleep, .wait = options_.idle};
  return {.why = SlotEnd::empty};
}

bool SlotPlan::admit(const std::string& kind, Instant now) {
  if (options_.rule == SlotRule::poll) return true;
  if (room_of(kind) < end_ - now || MS_MUTANT(slot_starts_what_does_not_fit)) return true;
  // From now on take only kinds that are known to fit, else this job would come again at once.
  any_ = false;
  ++given_back_;
  return false;
}

void SlotPlan::handled(const std::string& kind, Duration took) {
  ++handled_;
  busy_ += took;
  known_.add(kind, took);
}

}  // namespace mainspring
