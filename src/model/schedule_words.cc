// Names of schedule values, as used in JSON, SQL and on the command line.
#include <array>
#include <utility>

#include "mainspring/schedule.h"

namespace mainspring {
namespace {

template <class T, std::size_t N>
using Words = std::array<std::pair<T, std::string_view>, N>;

constexpr Words<Misfire, 3> kMisfires = {
    {{Misfire::skip, "skip"}, {Misfire::once, "once"}, {Misfire::all, "all"}}};
constexpr Words<Overlap, 6> kOverlaps = {{{Overlap::skip, "skip"},
                                          {Overlap::buffer_one, "buffer_one"},
                                          {Overlap::buffer_all, "buffer_all"},
                                          {Overlap::cancel_other, "cancel_other"},
                                          {Overlap::terminate_other, "terminate_other"},
                                          {Overlap::allow, "allow"}}};
constexpr Words<RepeatedHour, 2> kRepeatedHours = {
    {{RepeatedHour::once, "once"}, {RepeatedHour::twice, "twice"}}};
constexpr Words<TickSource, 4> kSources = {{{TickSource::schedule, "schedule"},
                                            {TickSource::trigger, "trigger"},
                                            {TickSource::backfill, "backfill"},
                                            {TickSource::wake, "wake"}}};
constexpr Words<TickState, 2> kTickStates = {
    {{TickState::fired, "fired"}, {TickState::skipped, "skipped"}}};

template <class T, std::size_t N>
std::string_view word_of(const Words<T, N>& words, T value) {
  for (const auto& [one, word] : words) {
    if (one == value) return word;
  }
  return "";
}
template <class T, std::size_t N>
std::optional<T> value_of(const Words<T, N>& words, std::string_view text) {
  for (const auto& [value, word] : words) {
    if (word == text) return value;
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Misfire policy) {
  return word_of(kMisfires, policy);
}
std::optional<Misfire> parse_misfire(std::string_view text) {
  return value_of(kMisfires, text);
}
std::string_view to_string(RepeatedHour rule) {
  return word_of(kRepeatedHours, rule);
}
std::optional<RepeatedHour> parse_repeated_hour(std::string_view text) {
  return value_of(kRepeatedHours, text);
}
std::string_view to_string(Overlap policy) {
  return word_of(kOverlaps, policy);
}
std::optional<Overlap> parse_overlap(std::string_view text) {
  return value_of(kOverlaps, text);
}
std::string_view to_string(TickSource source) {
  return word_of(kSources, source);
}
std::optional<TickSource> parse_tick_source(std::string_view text) {
  return value_of(kSources, text);
}
std::string_view to_string(TickState state) {
  return word_of(kTickStates, state);
}
std::optional<TickState> parse_tick_state(std::string_view text) {
  return value_of(kTickStates, text);
}

}  // namespace mainspring
