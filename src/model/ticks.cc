// The times of a schedule: its local times, mapped to real time.
//
// A fixed wall time L runs at f(L), the first instant at which the clock shows L or more: the time
// itself, the first of two, or the end of the gap. f never decreases. So the tick after t is f of
// the first L beyond the latest time that the clock has shown until t; the tick before t is found
// the same way. If every real hour runs, a tick is any instant whose local time matches: the search
// goes from one clock change to the next. With RepeatedHour::twice both kinds of ticks count.
#include "model/ticks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"

namespace mainspring {
namespace {

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kMaxCounted = 100;  // maximum steps to count ticks; the count is only shown
                                           // to people
// Maximum clock changes examined for one tick: over 8000 years of two changes each.
constexpr int kMaxSpans = 20'000;
const WallTime kFirstTime = WallTime::from_us(0);
const WallTime kLastTime = WallTime::from_us(253402300799LL * kSecond);  // the year 9999

WallTime time_of(std::int64_t seconds) {
  return WallTime::from_us(seconds * kSecond);
}

// "02:30", with seconds if not zero, and with the date if not `today`.
std::string clock_text(LocalSeconds local, LocalSeconds today) {
  const std::string text = format_wall_time(time_of(local));  // 2026-03-29T02:30:00Z
  const std::string clock = text.substr(11, local % 60 == 0 ? 5 : 8);
  return local / 86400 == today / 86400 ? clock : text.substr(0, 10) + " " + clock;
}

}  // namespace

Ticks::Ticks(const Schedule& schedule)
    : twice_(schedule.repeated_hour == RepeatedHour::twice),
      every_us_(schedule.every.count()),
      at_(schedule.at),
      start_(schedule.start_at),
      end_(schedule.end_at) {
  if (every_us_ > 0 && start_) base_us_ = start_->us();
  if (schedule.cron.empty()) return;
  const Result<Cron> cron = Cron::parse(schedule.cron);
  const Result<const TimeZone*> zone = TimeZone::find(schedule.time_zone);
  if (!cron || !zone) {
    problem_ = (cron ? zone.error() : cron.error()).message;
    return;
  }
  cron_ = *cron;
  zone_ = *zone;
}

std::optional<WallTime> Ticks::next_after(WallTime t) const {
  ++steps_;
  t = std::max(t, kFirstTime - Duration(1));
  if (start_) t = std::max(t, *start_ - Duration(1));
  std::optional<WallTime> found;
  if (at_) {
    if (*at_ > t) found = at_;
  } else if (every_us_ > 0) {
    const std::int64_t since = t.us() - base_us_;
    const std::int64_t n = since < 0 ? 0 : since / every_us_ + 1;
    if (n <= (kLastTime.us() - base_us_) / every_us_) {
      found = WallTime::from_us(base_us_ + n * every_us_);
    }
  } else if (cron_ && t < kLastTime) {
    found = cron_after(t);
  }
  if (found && (*found > kLastTime || (end_ && *found >= *end_))) found.reset();
  return found;
}

std::optional<WallTime> Ticks::last_until(WallTime t) const {
  ++steps_;
  t = std::min(t, kLastTime);
  if (end_) t = std::min(t, *end_ - Duration(1));
  if (t < kFirstTime) return std::nullopt;
  std::optional<WallTime> found;
  if (at_) {
    if (*at_ <= t) found = at_;
  } else if (every_us_ > 0) {
    if (t.us() >= base_us_) {
      found = WallTime::from_us(t.us() - (t.us() - base_us_) % every_us_);
    }
  } else if (cron_) {
    found = cron_until(t);
  }
  if (found && (*found < kFirstTime || (start_ && *found < *start_))) found.reset();
  return found;
}

std::optional<WallTime> Ticks::moved(WallTime planned, const TimeZone& old, WallTime now) const {
  if (!cron_) return planned;
  if (cron_->every_hour()) return next_after(now);
  // The last: a gap of the old rules may have moved it.
  const std::optional<LocalSeconds> local = local_until(old.local_seconds(planned));
  if (!local) return next_after(now);
  const WallTime found = zone_->resolve(*local).first;
  if (start_ && found < *start_) return next_after(now);
  if (end_ && found >= *end_) return std::nullopt;
  return found;
}

std::optional<WallTime> Ticks::settled(WallTime planned, WallTime fired, WallTime now) const {
  if (!cron_) return planned;
  const std::optional<WallTime> next = next_after(planned - Duration(1));
  if (next == planned) return planned;
  if (cron_->every_hour()) return next_after(now);
  const std::optional<WallTime> last = last_until(planned);
  const bool later = !last || *last <= fired || (next && *next - planned <= planned - *last);
  return later ? next : last;
}

std::optional<LocalSeconds> Ticks::local_after(LocalSeconds t) const {
  ++steps_;
  return cron_->next_after(t);
}
std::optional<LocalSeconds> Ticks::local_until(LocalSeconds t) const {
  ++steps_;
  return cron_->last_until(t);
}

LocalSeconds Ticks::shown_until(WallTime t) const {
  const LocalSeconds now = zone_->local_seconds(t);
  const TimeZone::Span span = zone_->span(t);
  if (span.begin <= kFirstTime || MS_MUTANT(dst_runs_twice)) return now;
  return std::max(now, zone_->local_seconds(span.begin - Duration(kSecond)));
}

std::optional<WallTime> Ticks::fixed_after(WallTime t) const {
  std::optional<LocalSeconds> local = local_after(shown_until(t));
  // Usually the first round finds it: more rounds are needed only if a clock was set back twice
  // within hours.
  for (int i = 0; local && i < kMaxSpans; ++i, local = local_after(*local)) {
    const TimeZone::Resolved found = zone_->resolve(*local);
    if (MS_MUTANT(dst_gap_loses_tick) && found.kind == TimeZone::Kind::skipped) continue;
    if (found.first > t) return found.first;
    if (MS_MUTANT(dst_runs_twice) && found.second > t) return found.second;
  }
  return std::nullopt;
}

std::optional<WallTime> Ticks::cron_after(WallTime t) const {
  if (cron_->every_hour()) return real_after(t);
  const std::optional<WallTime> fixed = fixed_after(t);
  if (!twice_) return fixed;
  const std::optional<WallTime> real = real_after(t);
  return !fixed || (real && *real < *fixed) ? real : fixed;
}

std::optional<WallTime> Ticks::real_after(WallTime t) const {
  LocalSeconds shown = zone_->local_seconds(t);  // search local times after the one shown at t
  for (int i = 0; i < kMaxSpans && t < kLastTime; ++i) {
    const TimeZone::Span span = zone_->span(t);
    const std::optional<LocalSeconds> local = local_after(shown);
    if (!local) return std::nullopt;
    const WallTime found = time_of(*local - span.offset_s);
    if (found < span.end) return found;
    t = span.end;
    shown = zone_->local_seconds(t) - 1;  // the first instant after the change can match
  }
  return std::nullopt;
}

std::optional<WallTime> Ticks::fixed_until(WallTime t) const {
  const std::optional<LocalSeconds> local = local_until(shown_until(t));
  if (!local) return std::nullopt;
  return zone_->resolve(*local).first;
}

std::optional<WallTime> Ticks::cron_until(WallTime t) const {
  if (cron_->every_hour()) return real_until(t);
  const std::optional<WallTime> fixed = fixed_until(t);
  if (!twice_) return fixed;
  const std::optional<WallTime> real = real_until(t);
  return !fixed || (real && *real > *fixed) ? real : fixed;
}

std::optional<WallTime> Ticks::real_until(WallTime t) const {
  for (int i = 0; i < kMaxSpans && t >= kFirstTime; ++i) {
    const TimeZone::Span span = zone_->span(t);
    const std::optional<LocalSeconds> local = local_until(zone_->local_seconds(t));
    if (!local) return std::nullopt;
    const WallTime found = time_of(*local - span.offset_s);
    if (found >= span.begin) return found;
    t = span.begin - Duration(kSecond);
  }
  return std::nullopt;
}

std::string Ticks::note(WallTime t) const {
  if (!cron_ || cron_->every_hour()) return "";
  const LocalSeconds now = zone_->local_seconds(t);
  const TimeZone::Resolved shown = zone_->resolve(now);
  if (shown.kind == TimeZone::Kind::twice) {
    return fmt::format("{} exists twice: the {} time", clock_text(now, now),
                       t == shown.first ? "first" : "second");
  }
  const TimeZone::Span span = zone_->span(t);
  if (span.begin != t || t <= kFirstTime) return "";
  const LocalSeconds before = zone_->local_seconds(t - Duration(kSecond));
  const std::optional<LocalSeconds> first = local_after(before);
  if (!first || *first >= now) return "";
  const std::optional<LocalSeconds> last = local_until(now - 1);
  const std::string times =
      *first == *last ? clock_text(*first, now) + " does not exist"
                      : clock_text(*first, now) + " to " + clock_text(*last, now) + " do not exist";
  return (local_after(now - 1) == now ? "merged: " : "shifted: ") + times;
}

std::int64_t Ticks::count(WallTime first, WallTime last) const {
  if (first == last) return 1;
  if (every_us_ > 0) return (last - first).count() / every_us_ + 1;
  std::int64_t n = 1;
  for (std::optional<WallTime> t = first; n <= kMaxCounted; ++n) {
    t = next_after(*t);
    if (!t || *t > last) return n;
  }
  return 0;
}

}  // namespace mainspring
