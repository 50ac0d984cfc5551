// Parses cron expressions and finds the matching times.
#include "model/cron.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <span>
#include <vector>

#include "base/mutant.h"

namespace mainspring {
namespace {

using std::chrono::day;
using std::chrono::days;
using std::chrono::month;
using std::chrono::sys_days;
using std::chrono::weekday;
using std::chrono::year;
using std::chrono::year_month;
using std::chrono::year_month_day;

constexpr LocalSeconds kDay = 86400;
// Whole months, one more at each end than the years 1970 to 9999: a local time of these years may
// be a day off.
constexpr LocalSeconds kFirst = -31 * kDay;                 // 1969-12-01
constexpr LocalSeconds kLast = 253402300799LL + 31 * kDay;  // 10000-01-31T23:59:59
constexpr std::int64_t kCycleMonths = 400 * 12;  // dates and weekdays repeat after 400 years
constexpr std::size_t kMaxBytes = 256;
constexpr int kMaxLastDays = 30;

constexpr std::array<std::string_view, 12> kMonthNames = {
    "january", "february", "march",     "april",   "may",      "june",
    "july",    "august",   "september", "october", "november", "december"};
constexpr std::array<std::string_view, 7> kDayNames = {"sunday",   "monday", "tuesday", "wednesday",
                                                       "thursday", "friday", "saturday"};

struct Field {
  std::string_view name;
  int first, last;  // last: the end of * and a/n
  int highest;      // maximum of a number: 7 is Sunday too
  std::span<const std::string_view> names = {};
  int name_base = 0;
};
constexpr Field kSecondField{"second", 0, 59, 59};
constexpr Field kMinute{"minute", 0, 59, 59};
constexpr Field kHour{"hour", 0, 23, 23};
constexpr Field kDayOfMonth{"day-of-month", 1, 31, 31};
constexpr Field kMonth{"month", 1, 12, 12, kMonthNames, 1};
constexpr Field kDayOfWeek{"day-of-week", 0, 6, 7, kDayNames, 0};

constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kNicknames = {
    {{"@yearly", "0 0 1 1 *"},
     {"@annually", "0 0 1 1 *"},
     {"@monthly", "0 0 1 * *"},
     {"@weekly", "0 0 * * 0"},
     {"@daily", "0 0 * * *"},
     {"@midnight", "0 0 * * *"},
     {"@hourly", "0 * * * *"}}};

Error wrong_cron(std::string_view what) {
  return invalid("cron", fmt::format("cron: {}", what));
}
Error wrong_cron(const Field& field, std::string_view part, std::string_view rule) {
  return wrong_cron(fmt::format("{} \"{}\": {}", field.name, part, rule));
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(separators, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::optional<int> cron_number(std::string_view text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [at, failed] = std::from_chars(text.data(), end, value);
  if (failed != std::errc() || at != end || text.size() > 4 || text[0] == '-') return std::nullopt;
  return value;
}

// A number or a name.
Result<int> cron_value(const Field& field, std::string_view text, std::string_view part) {
  if (const std::optional<int> value = cron_number(text)) {
    if (*value >= field.first && *value <= field.highest) return *value;
    return wrong_cron(field, part,
                      fmt::format("{} must be {} to {}", *value, field.first, field.highest));
  }
  const std::string word = lower(text);
  for (std::size_t i = 0; i < field.names.size(); ++i) {
    if (word.size() >= 3 && field.names[i].starts_with(word)) {
      return static_cast<int>(i) + field.name_base;
    }
  }
  if (text.empty()) return wrong_cron(field, part, "a value is missing");
  return wrong_cron(
      field, part,
      fmt::format("\"{}\" must be a number from {} to {}{}", text, field.first, field.highest,
                  field.names.empty() ? "" : " or three letters or more of a name"));
}

Result<int> step_of(const Field& field, std::string_view text, std::string_view part) {
  const int most = field.last - field.first + 1;
  const std::optional<int> step = cron_number(text);
  if (step && *step >= 1 && *step <= most) return *step;
  return wrong_cron(field, part, fmt::format("step \"{}\" must be 1 to {}", text, most));
}

// * a a-b */n a-b/n a/n. A range that goes backwards continues at the start: 22-2 is 22 23 0 1 2.
template <std::size_t N>
Result<void> read_values(const Field& field, std::string_view part, std::bitset<N>& out) {
  const std::size_t slash = part.find('/');
  const std::string_view range = part.substr(0, slash);
  int first = field.first;
  int end = field.last;
  if (range != "*") {
    const std::size_t dash = range.find('-');
    MS_TRY_ASSIGN(first, cron_value(field, range.substr(0, dash), part));
    end = slash == std::string_view::npos ? first : std::max(first, field.last);
    if (dash != std::string_view::npos) {
      MS_TRY_ASSIGN(end, cron_value(field, range.substr(dash + 1), part));
    }
  }
  const int span = field.last - field.first + 1;
  if (first > end) end += span;
  int step = 1;
  if (slash != std::string_view::npos) {
    MS_TRY_ASSIGN(step, step_of(field, part.substr(slash + 1), part));
  }
  for (int value = first; value <= end; value += step) {
    out.set(static_cast<std::size_t>((value - field.first) % span + field.first));
  }
  return {};
}

template <std::size_t N>
Result<void> read_plain(const Field& field, std::string_view text, std::bitset<N>& out) {
  for (const std::string_view part : split(text, ",")) {
    MS_TRY(read_values(field, part, out));
  }
  return {};
}

// A line of a crontab has its command after the 5 time fields. The command starts like a path, or
// has a character that no field has.
bool is_crontab_line(const std::vector<std::string_view>& fields) {
  if (fields.size() < 6) return false;
  const auto no_time = [](char c) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return !plain && std::string_view("*/,-#?").find(c) == std::string_view::npos;
  };
  return fields[5].starts_with('/') || std::any_of(fields[5].begin(), fields[5].end(), no_time);
}

// The day of kFirst or a later time, since 1970.
std::int64_t day_of(LocalSeconds t) {
  return (t - kFirst) / kDay + kFirst / kDay;
}

// Month 0 is January 1969.
year_month month_at(std::int64_t index) {
  return year(static_cast<int>(1969 + index / 12)) / month(static_cast<unsigned>(index % 12 + 1));
}
std::int64_t month_index(std::int64_t day_number) {
  const year_month_day date{sys_days(days(day_number))};
  return (static_cast<int>(date.year()) - 1969) * 12LL + static_cast<unsigned>(date.month()) - 1;
}
std::int64_t first_day(year_month at) {
  return sys_days(at / day(1)).time_since_epoch().count();
}

template <std::size_t N>
int next_set(const std::bitset<N>& bits, int from) {
  for (int i = from; i < static_cast<int>(N); ++i) {
    if (bits[static_cast<std::size_t>(i)]) return i;
  }
  return -1;
}
template <std::size_t N>
int previous_set(const std::bitset<N>& bits, int from) {
  for (int i = from; i >= 0; --i) {
    if (bits[static_cast<std::size_t>(i)]) return i;
  }
  return -1;
}

}  // namespace

// Day fields: plain values, and L, W and #.
struct Cron::Days {
  static bool is_letter(char c, char capital) { return c == capital || c == capital - 'A' + 'a'; }

  // L, L-n, and with W: LW, L-nW, nW.
  static Result<void> of_month(std::string_view text, Cron& cron) {
    if (text == "?") text = "*";
    for (const std::string_view part : split(text, ",")) {
      const bool near = !part.empty() && is_letter(part.back(), 'W');
      const std::string_view day = near ? part.substr(0, part.size() - 1) : part;
      if (day.empty() || !is_letter(day[0], 'L')) {
        MS_TRY(of_month_plain(day, near, part, cron));
        continue;
      }
      int before = 0;
      if (day.size() > 1) {
        const std::optional<int> value = day[1] == '-' ? cron_number(day.substr(2)) : std::nullopt;
        if (!value || *value > kMaxLastDays) {
          return wrong_cron(kDayOfMonth, part,
                            fmt::format("must be L or L-n with n from 0 to {}", kMaxLastDays));
        }
        before = *value;
      }
      (near ? cron.near_last_days_ : cron.last_days_).set(static_cast<std::size_t>(before));
    }
    return {};
  }

  static Result<void> of_month_plain(std::string_view day, bool near, std::string_view part,
                                     Cron& cron) {
    if (!day.empty() && is_letter(day.back(), 'L')) {
      return wrong_cron(kDayOfMonth, part, "must be L (the last day) or L-2 (two days before it)");
    }
    if (near && !cron_number(day)) {
      return wrong_cron(kDayOfMonth, part,
                        "W must follow one day, such as 15W (the weekday nearest to the 15th), or "
                        "L (the last weekday)");
    }
    return read_values(kDayOfMonth, day, near ? cron.near_days_ : cron.days_);
  }

  // a#k, a#L and aL, each with a value or a range.
  static Result<void> of_week(std::string_view text, Cron& cron) {
    if (text == "?") text = "*";
    for (const std::string_view part : split(text, ",")) {
      const std::size_t hash = part.find('#');
      const bool ends_with_l = !part.empty() && is_letter(part.back(), 'L');
      if (hash == std::string_view::npos && !ends_with_l) {
        MS_TRY(read_values(kDayOfWeek, part, cron.weekdays_));
        continue;
      }
      const std::string_view days = part.substr(0, std::min(hash, part.size() - ends_with_l));
      if (days.empty() || days[0] == '*') {
        return wrong_cron(kDayOfWeek, part,
                          "must name the weekday, as 5L (the last Friday of the month)");
      }
      std::size_t nth = 0;
      if (const std::string_view after = part.substr(std::min(hash, part.size() - 1) + 1);
          hash != std::string_view::npos && !(ends_with_l && after.size() == 1)) {
        const std::optional<int> k = cron_number(after);
        if (!k || *k < 1 || *k > 5) {
          return wrong_cron(kDayOfWeek, part,
                            "the number after # must be 1 to 5, or L for the last");
        }
        nth = static_cast<std::size_t>(*k);
      }
      std::bitset<7> weekdays;
      MS_TRY(read_values(kDayOfWeek, days, weekdays));
      for (std::size_t day = 0; day < weekdays.size(); ++day) {
        if (weekdays[day]) cron.nth_weekdays_[day].set(nth);
      }
    }
    return {};
  }

  // Whether `of_month`, a Monday to Friday, is the nearest one to a day that W names. W stays in
  // the month: the nearest to Saturday the 1st is Monday the 3rd.
  static bool near(const Cron& cron, int of_month, int length, int of_week) {
    if ((cron.near_days_ | cron.near_last_days_).none()) return false;
    for (int day = std::max(1, of_month - 2); day <= std::min(length, of_month + 2); ++day) {
      if (!cron.near_days_[static_cast<std::size_t>(day)] &&
          !cron.near_last_days_[static_cast<std::size_t>(length - day)]) {
        continue;
      }
      const int weekday = (of_week + day - of_month + 7) % 7;
      const int moved = weekday == 6   ? (day == 1 ? 2 : -1)
                        : weekday == 0 ? (day == length ? -2 : 1)
                                       : 0;
      if (day + moved == of_month) return true;
    }
    return false;
  }
};

Result<Cron> Cron::parse(std::string_view text) {
  if (text.size() > kMaxBytes) {
    return wrong_cron(fmt::format("has {} bytes: must be at most {}", text.size(), kMaxBytes));
  }
  std::vector<std::string_view> fields = split(text, " \t");
  std::erase(fields, "");
  if (fields.size() == 1 && fields[0][0] == '@') {
    const std::string word = lower(fields[0]);
    const auto found = std::find_if(kNicknames.begin(), kNicknames.end(),
                                    [&](const auto& one) { return one.first == word; });
    if (found == kNicknames.end()) {
      return wrong_cron(
          fmt::format("\"{}\": must be one of @yearly @annually @monthly @weekly @daily "
                      "@midnight @hourly",
                      fields[0]));
    }
    return parse(found->second);
  }
  if (is_crontab_line(fields)) {
    return wrong_cron(
        fmt::format("\"{}\" contains a command, \"{}\": give only the 5 time fields; the "
                    "command belongs in a job folder or after `mainspring work --exec`",
                    text, fields[5]));
  }
  if (fields.size() != 5 && fields.size() != 6) {
    return wrong_cron(
        fmt::format("\"{}\" has {} fields: must be 5 (minute hour day-of-month month "
                    "day-of-week) or 6 (second first)",
                    text, fields.size()));
  }
  Cron cron;
  cron.has_seconds_ = fields.size() == 6;
  cron.seconds_.set(0);
  if (cron.has_seconds_) {
    cron.seconds_.reset();
    MS_TRY(read_plain(kSecondField, fields[0], cron.seconds_));
    fields.erase(fields.begin());
  }
  MS_TRY(read_plain(kMinute, fields[0], cron.minutes_));
  MS_TRY(read_plain(kHour, fields[1], cron.hours_));
  MS_TRY(Days::of_month(fields[2], cron));
  MS_TRY(read_plain(kMonth, fields[3], cron.months_));
  MS_TRY(Days::of_week(fields[4], cron));
  cron.hours_star_ = fields[1].starts_with('*');
  // POSIX compares a field with "*". Vixie cron and its successors check whether the field starts
  // with "*": with "*/2" and a weekday, both must match.
  const auto given = [](std::string_view field) { return field[0] != '*' && field[0] != '?'; };
  const bool both = given(fields[2]) && given(fields[4]);
  cron.either_day_ = both && !cron.has_seconds_ && !MS_MUTANT(cron_days_both);
  if (!cron.next_after(kFirst - 1)) {
    return wrong_cron(fmt::format("\"{}\" never fires: none of its months has such a day", text));
  }
  return cron;
}

bool Cron::every_hour() const {
  return hours_star_;
}

bool Cron::day_matches(std::int64_t number_of_day) const {
  const year_month_day date{sys_days(days(number_of_day))};
  const unsigned of_month = static_cast<unsigned>(date.day());
  const unsigned length =
      static_cast<unsigned>(year_month_day(date.year() / date.month() / std::chrono::last).day());
  const unsigned of_week = weekday(sys_days(days(number_of_day))).c_encoding();
  const std::bitset<6>& nth = nth_weekdays_[of_week];
  const bool month_day = days_[of_month] || last_days_[length - of_month] ||
                         Days::near(*this, static_cast<int>(of_month), static_cast<int>(length),
                                    static_cast<int>(of_week));
  const bool week_day =
      weekdays_[of_week] || nth[(of_month - 1) / 7 + 1] || (nth[0] && of_month + 7 > length);
  return either_day_ ? month_day || week_day : month_day && week_day;
}

std::optional<LocalSeconds> Cron::next_after(LocalSeconds t) const {
  if (t >= kLast) return std::nullopt;
  t = std::max(t + 1, kFirst);
  std::int64_t today = day_of(t);
  const LocalSeconds time = t - today * kDay;
  int hour = next_set(hours_, static_cast<int>(time / 3600));
  // The current day, if it has a later time that matches.
  if (months_[static_cast<std::size_t>(month_index(today) % 12 + 1)] && day_matches(today)) {
    int minute = -1;
    int second = -1;
    if (hour == time / 3600) {
      minute = next_set(minutes_, static_cast<int>(time % 3600 / 60));
      if (minute == time % 3600 / 60) {
        second = next_set(seconds_, static_cast<int>(time % 60));
        if (second < 0) minute = next_set(minutes_, minute + 1);
      }
      if (minute < 0) hour = next_set(hours_, hour + 1);
    }
    if (hour >= 0) {
      if (minute < 0) minute = next_set(minutes_, 0);
      if (second < 0) second = next_set(seconds_, 0);
      return today * kDay + hour * 3600 + minute * 60 + second;
    }
  }
  const std::int64_t start = month_index(++today);
  const std::int64_t end = std::min(start + kCycleMonths, month_index(day_of(kLast)) + 1);
  for (std::int64_t m = start; m < end; ++m) {
    if (!months_[static_cast<std::size_t>(m % 12 + 1)]) continue;
    const std::int64_t after = first_day(month_at(m + 1));
    for (std::int64_t d = std::max(today, first_day(month_at(m))); d < after; ++d) {
      if (!day_matches(d)) continue;
      return d * kDay + next_set(hours_, 0) * 3600 + next_set(minutes_, 0) * 60 +
             next_set(seconds_, 0);
    }
  }
  return std::nullopt;
}

std::optional<LocalSeconds> Cron::last_until(LocalSeconds t) const {
  if (t < kFirst) return std::nullopt;
  t = std::min(t, kLast);
  std::int64_t today = day_of(t);
  const LocalSeconds time = t - today * kDay;
  int hour = previous_set(hours_, static_cast<int>(time / 3600));
  if (months_[static_cast<std::size_t>(month_index(today) % 12 + 1)] && day_matches(today)) {
    int minute = -1;
    int second = -1;
    if (hour == time / 3600) {
      minute = previous_set(minutes_, static_cast<int>(time % 3600 / 60));
      if (minute == time % 3600 / 60) {
        second = previous_set(seconds_, static_cast<int>(time % 60));
        if (second < 0) minute = previous_set(minutes_, minute - 1);
      }
      if (minute < 0) hour = previous_set(hours_, hour - 1);
    }
    if (hour >= 0) {
      if (minute < 0) minute = previous_set(minutes_, 59);
      if (second < 0) second = previous_set(seconds_, 59);
      return today * kDay + hour * 3600 + minute * 60 + second;
    }
  }
  if (--today < day_of(kFirst)) return std::nullopt;
  const std::int64_t start = month_index(today);
  for (std::int64_t m = start; m >= std::max(month_index(day_of(kFirst)), start - kCycleMonths);
       --m) {
    if (!months_[static_cast<std::size_t>(m % 12 + 1)]) continue;
    const std::int64_t first = first_day(month_at(m));
    for (std::int64_t d = std::min(today, first_day(month_at(m + 1)) - 1); d >= first; --d) {
      if (!day_matches(d)) continue;
      return d * kDay + previous_set(hours_, 23) * 3600 + previous_set(minutes_, 59) * 60 +
             previous_set(seconds_, 59);
    }
  }
  return std::nullopt;
}

}  // namespace mainspring
