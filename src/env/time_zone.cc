// Time zones with Howard Hinnant's date library; only this file uses it. A zone is read once into a
// table of offsets, so that nothing is locked or allocated afterwards.
//
// The compiled files of Debian list changes to 2037 and end with the rule for later times, which
// the library does not read: for 2038 it returns winter time all year. The rule is read here
// (zone_rule.h) and the table continues to 2500. Later times use the offset of 400 years earlier,
// as the calendar and its weekdays repeat after 400 years.
#include "env/time_zone.h"

#include <date/tz.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "env/zone_rule.h"

namespace mainspring {
namespace {

constexpr const char* kDatabase = "/usr/share/zoneinfo/";
constexpr std::int64_t kCycle = 146097LL * 86400;  // 400 years, whole weeks
constexpr std::int64_t kTableEnd = 16725225600;    // 2500-01-01
constexpr std::int64_t kWidest = 26LL * 3600;      // no offset is more, in seconds
constexpr std::int64_t kFarPast = -(1LL << 40);    // before every change, in seconds
constexpr std::size_t kMaxSpans = 4096;            // Casablanca, the richest, has 1,100
constexpr std::size_t kMaxZoneNameBytes = 64;
constexpr std::int64_t kSecond = 1'000'000;

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
}

class TableZone final : public TimeZone {
 public:
  struct Row {
    std::int64_t begin;  // seconds since 1970, UTC
    std::int64_t offset;
  };
  explicit TableZone(std::vector<Row> rows) : rows_(std::move(rows)) {}

  std::int64_t local_seconds(WallTime t) const override {
    const std::int64_t s = floor_div(t.us(), kSecond);
    return s + rows_[at(s - shift(s))].offset;
  }

  Span span(WallTime t) const override {
    const std::int64_t s = floor_div(t.us(), kSecond);
    const std::int64_t by = shift(s);
    const std::size_t i = at(s - by);
    Span found{.offset_s = rows_[i].offset};
    if (i > 0) found.begin = WallTime::from_us((rows_[i].begin + by) * kSecond);
    if (i + 1 < rows_.size()) {
      found.end = WallTime::from_us((rows_[i + 1].begin + by) * kSecond);
    }
    return found;
  }

  Resolved resolve(std::int64_t local) const override {
    const std::int64_t by = shift(local);
    const std::int64_t wanted = local - by;
    const std::size_t from = at(wanted - kWidest);
    std::vector<std::int64_t> found;
    std::int64_t gap_end = wanted;
    for (std::size_t i = from; i < rows_.size() && rows_[i].begin <= wanted + kWidest; ++i) {
      const std::int64_t t = wanted - rows_[i].offset;
      const bool started = i == 0 || t >= rows_[i].begin;
      const bool ended = i + 1 < rows_.size() && t >= rows_[i + 1].begin;
      if (started && !ended) found.push_back(t + by);
      if (!started && wanted >= rows_[i].begin + rows_[i - 1].offset) gap_end = rows_[i].begin;
    }
    const auto time = [](std::int64_t s) { return WallTime::from_us(s * kSecond); };
    if (found.empty()) return {Kind::skipped, time(gap_end + by), time(gap_end + by)};
    return {found.size() == 1 ? Kind::once : Kind::twice, time(found.front()), time(found.back())};
  }

 private:
  // What to subtract so that the time is in the table.
  static std::int64_t shift(std::int64_t s) {
    constexpr std::int64_t kLast = kTableEnd - 366LL * 86400;
    return s < kLast ? 0 : ((s - kLast) / kCycle + 1) * kCycle;
  }
  std::size_t at(std::int64_t s) const {
    const auto after =
        std::upper_bound(rows_.begin() + 1, rows_.end(), s,
                         [](std::int64_t v, const Row& row) { return v < row.begin; });
    return static_cast<std::size_t>(after - rows_.begin()) - 1;
  }
  std::vector<Row> rows_;  // the first covers all earlier times; adjacent rows differ
};

// The rule in the last line of a zone's file; "" = none.
std::string last_line(const std::string& name) {
  std::ifstream file(kDatabase + name, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (text.size() < 2 || text.back() != '\n') return "";
  const std::size_t before = text.rfind('\n', text.size() - 2);
  return before == std::string::npos ? "" : text.substr(before + 1, text.size() - before - 2);
}

// Appends the offsets from `from` to the end of the table or of the range of `info_at`; returns the
// start of its last span.
template <class InfoAt>
std::int64_t append(std::vector<TableZone::Row>& rows, std::int64_t from, const InfoAt& info_at) {
  std::int64_t t = from;
  while (rows.size() < kMaxSpans) {
    const ZoneRule::Info info = info_at(t);
    if (rows.empty() || rows.back().offset != info.offset) rows.push_back({t, info.offset});
    if (info.end >= kTableEnd || info.end <= t) break;
    t = info.end;
  }
  return t;
}

std::unique_ptr<TimeZone> read_zone(const std::string& name) {
  const date::time_zone* zone = date::locate_zone(name);
  std::vector<TableZone::Row> rows;
  const std::int64_t listed = append(rows, kFarPast, [&](std::int64_t t) {
    const date::sys_info info = zone->get_info(date::sys_seconds(std::chrono::seconds(t)));
    return ZoneRule::Info{info.end.time_since_epoch().count(), info.offset.count()};
  });
  const std::string rule = last_line(name);
  if (rule.find(',') != std::string::npos) {
    const ZoneRule after(rule);
    append(rows, std::max<std::int64_t>(listed, 0), [&](std::int64_t t) { return after.at(t); });
  }
  return std::make_unique<TableZone>(std::move(rows));
}

Error no_such_zone(std::string_view name) {
  return invalid("time_zone",
                 fmt::format("time_zone \"{}\": must be a name of the IANA database, such as "
                             "Europe/Berlin or UTC",
                             name.substr(0, kMaxZoneNameBytes)));
}

class Zones {
 public:
  Result<const TimeZone*> find(const std::string& name) {
    MutexLock lock(mutex_);
    if (const auto found = zones_.find(name); found != zones_.end()) return found->second.get();
    try {
      date::get_tzdb();
    } catch (const std::exception&) {
      return Error{
          .code = ErrorCode::unavailable,
          .message = fmt::format("time_zone {}: the database in {} cannot be read; install "
                                 "the package tzdata",
                                 name, kDatabase),
          .field = "time_zone"};
    }
    try {
      return zones_.emplace(name, read_zone(name)).first->second.get();
    } catch (const std::exception&) {
      return no_such_zone(name);
    }
  }

 private:
  Mutex mutex_;
  std::map<std::string, std::unique_ptr<TimeZone>> zones_ MS_GUARDED_BY(mutex_);
};

}  // namespace

Result<const TimeZone*> TimeZone::find(std::string_view name) {
  static const TableZone utc({{kFarPast, 0}});
  static Zones zones;  // a cache; zones do not change
  if (name == "UTC") return &utc;
  // right/… counts leap seconds, which no clock here does; and a name must not be a path.
  const bool plain = !name.empty() && name.size() <= kMaxZoneNameBytes && name[0] != '/' &&
                     !name.starts_with("right/") && !name.starts_with("posix/") &&
                     name.find("..") == std::string_view::npos;
  if (!plain) return no_such_zone(name);
  return zones.find(std::string(name));
}

}  // namespace mainspring
