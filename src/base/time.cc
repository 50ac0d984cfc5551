// Durations and wall times as text.
#include "mainspring/time.h"

#include <fmt/format.h>

#include <array>
#include <cctype>

namespace mainspring {
namespace {

using namespace std::chrono_literals;

struct Unit {
  std::string_view name;
  std::int64_t us;
};
// Longest names first, so that "ms" is not read as "m" and a stray "s".
constexpr std::array kUnits = {
    Unit{"us", 1},         Unit{"ms", 1'000},        Unit{"s", 1'000'000},
    Unit{"m", 60'000'000}, Unit{"h", 3'600'000'000}, Unit{"d", 86'400'000'000}};
constexpr std::int64_t kMaxDurationUs =
    36'500LL * 86'400'000'000LL;  // 100 years: what arithmetic on dates can bear

Error bad_duration(std::string_view text) {
  return invalid("",
                 fmt::format("duration \"{}\": must be a number with a unit (us, ms, s, m, h, d), "
                             "for example 250ms, 30s, 15m, 24h, 7d; at most 36500d",
                             text.substr(0, 64)));
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Reads exactly `count` digits at `at`; -1 if there are fewer.
int digits(std::string_view text, std::size_t at, std::size_t count) {
  if (text.size() < at + count) return -1;
  int value = 0;
  for (std::size_t i = at; i < at + count; ++i) {
    if (!is_digit(text[i])) return -1;
    value = value * 10 + (text[i] - '0');
  }
  return value;
}

Error bad_time(std::string_view text) {
  return invalid("", fmt::format("instant \"{}\": must be RFC 3339 with a time zone, for example "
                                 "2026-01-31T09:00:00Z, years 1970 to 9999",
                                 text.substr(0, 64)));
}

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  if (text == "0") return Duration(0);
  if (text.empty()) return bad_duration(text);
  std::int64_t total_us = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    std::int64_t whole = 0;
    std::size_t i = 0;
    for (; i < rest.size() && is_digit(rest[i]); ++i) {
      whole = whole * 10 + (rest[i] - '0');
      if (whole > kMaxDurationUs) return bad_duration(text);
    }
    if (i == 0) return bad_duration(text);
    std::int64_t fraction = 0, scale = 1;
    if (i < rest.size() && rest[i] == '.') {
      std::size_t start = ++i;
      for (; i < rest.size() && is_digit(rest[i]); ++i) {
        if (i - start < 6) fraction = fraction * 10 + (rest[i] - '0'), scale *= 10;
      }
      if (i == start) return bad_duration(text);
    }
    rest.remove_prefix(i);
    const Unit* unit = nullptr;
    for (const Unit& candidate : kUnits) {
      if (rest.starts_with(candidate.name)) {
        unit = &candidate;
        break;
      }
    }
    if (unit == nullptr || whole > kMaxDurationUs / unit->us) return bad_duration(text);
    rest.remove_prefix(unit->name.size());
    total_us += whole * unit->us + fraction * unit->us / scale;
    if (total_us > kMaxDurationUs) return bad_duration(text);
  }
  return Duration(total_us);
}

std::string format_duration(Duration d) {
  if (d == kForever) return "none";
  std::int64_t us = d.count();
  if (us == 0) return "0s";
  for (auto unit = kUnits.rbegin(); unit != kUnits.rend(); ++unit) {
    if (us % unit->us == 0) return fmt::format("{}{}", us / unit->us, unit->name);
  }
  return fmt::format("{}us", us);
}

constexpr std::int64_t kLastSecond = 253'402'300'799;  // 9999-12-31T23:59:59Z

Result<WallTime> parse_wall_time(std::string_view text) {
  using namespace std::chrono;
  const int y = digits(text, 0, 4), mo = digits(text, 5, 2), d = digits(text, 8, 2);
  const int h = digits(text, 11, 2), mi = digits(text, 14, 2), s = digits(text, 17, 2);
  if (y < 1970 || mo < 0 || d < 0 || h < 0 || mi < 0 || s < 0) return bad_time(text);
  if (text[4] != '-' || text[7] != '-' || (text[10] != 'T' && text[10] != 't' && text[10] != ' ') ||
      text[13] != ':' || text[16] != ':' || h > 23 || mi > 59 || s > 60) {
    return bad_time(text);
  }
  const year_month_day date =
      year(y) / month(static_cast<unsigned>(mo)) / day(static_cast<unsigned>(d));
  if (!date.ok()) return bad_time(text);
  std::size_t i = 19;
  std::int64_t fraction_us = 0;
  if (i < text.size() && text[i] == '.') {
    std::int64_t scale = 100'000;
    std::size_t start = ++i;
    for (; i < text.size() && is_digit(text[i]); ++i, scale /= 10)
      fraction_us += (text[i] - '0') * scale;
    if (i == start) return bad_time(text);
  }
  std::int64_t offset_s = 0;
  if (i < text.size() && (text[i] == 'Z' || text[i] == 'z') && i + 1 == text.size()) {
    offset_s = 0;
  } else if (i + 6 == text.size() && (text[i] == '+' || text[i] == '-') && text[i + 3] == ':') {
    const int oh = digits(text, i + 1, 2), om = digits(text, i + 4, 2);
    if (oh < 0 || oh > 23 || om < 0 || om > 59) return bad_time(text);
    offset_s = (oh * 3600 + om * 60) * (text[i] == '-' ? -1 : 1);
  } else {
    return bad_time(text);
  }
  const std::int64_t day_s = sys_days(date).time_since_epoch().count() * 86'400LL;
  const std::int64_t total_s = day_s + h * 3600 + mi * 60 + s - offset_s;
  // A leap second or an offset may lead beyond the supported years.
  if (total_s < 0 || total_s > kLastSecond) return bad_time(text);
  return WallTime::from_us(total_s * 1'000'000 + fraction_us);
}

std::string format_wall_time(WallTime t) {
  using namespace std::chrono;
  const sys_time<microseconds> point{microseconds(t.us())};
  const auto midnight = floor<days>(point);
  const year_month_day date{midnight};
  const hh_mm_ss<microseconds> clock{point - midnight};
  std::string out =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                  static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                  clock.hours().count(), clock.minutes().count(), clock.seconds().count());
  const auto us = clock.subseconds().count();
  if (us % 1000 != 0) {
    out += fmt::format(".{:06}", us);
  } else if (us != 0) {
    out += fmt::format(".{:03}", us / 1000);
  }
  return out + "Z";
}

}  // namespace mainspring
