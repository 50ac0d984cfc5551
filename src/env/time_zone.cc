// Time zones from the compiled files of the system (TZif, RFC 8536). A zone is read into a table of
// offsets, so that nothing is allocated afterwards.
//
// A file lists changes, to 2037 at most, and ends with the rule for later times (zone_rule.h). The
// table continues to 2500. Later times use the offset of 400 years earlier, as the calendar and its
// weekdays repeat after 400 years.
#include "env/time_zone.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
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
constexpr std::size_t kMaxFileBytes = 256 << 10;
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
    friend bool operator==(const Row&, const Row&) = default;
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

  friend bool operator==(const TableZone& a, const TableZone& b) { return a.rows_ == b.rows_; }

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
std::string last_line(const std::string& text) {
  if (text.size() < 2 || text.back() != '\n') return "";
  const std::size_t before = text.rfind('\n', text.size() - 2);
  return before == std::string::npos ? "" : text.substr(before + 1, text.size() - before - 2);
}

std::int64_t big_endian(std::string_view bytes) {
  std::uint64_t out = 0;
  for (const char c : bytes) out = out << 8 | static_cast<unsigned char>(c);
  const auto unused = static_cast<int>(64 - 8 * bytes.size());
  return static_cast<std::int64_t>(out << unused) >> unused;
}

// One of the two parts of a file: counts, then times, indexes of types, and types.
struct Part {
  std::size_t times = 0, types = 0, bytes = 0;
  static constexpr std::size_t kHeader = 44;
  // nullopt = it is none.
  static std::optional<Part> at(std::string_view file, std::size_t time_bytes) {
    if (file.size() < kHeader || !file.starts_with("TZif") || file[4] < '2') return std::nullopt;
    const auto count = [&](std::size_t i) {
      return static_cast<std::size_t>(big_endian(file.substr(20 + 4 * i, 4)) & 0xffffff);
    };
    Part part{.times = count(3), .types = count(4)};
    part.bytes = kHeader + part.times * (time_bytes + 1) + part.types * 6 + count(5) +
                 count(2) * (time_bytes + 4) + count(1) + count(0);
    if (part.bytes > file.size() || part.types == 0) return std::nullopt;
    return part;
  }
};

// nullptr = not the file of a zone.
std::unique_ptr<TableZone> parse_zone(const std::string& text) {
  constexpr std::size_t kOld = 4, kNew = 8;  // bytes of a time in the first and the second part
  const auto old = Part::at(text, kOld);
  if (!old) return nullptr;
  const std::string_view file = std::string_view(text).substr(old->bytes);
  const auto part = Part::at(file, kNew);
  if (!part) return nullptr;
  const std::string_view times = file.substr(Part::kHeader);
  const std::string_view indexes = times.substr(kNew * part->times);
  const std::string_view types = indexes.substr(part->times);
  const auto offset_of = [&](std::size_t type) { return big_endian(types.substr(6 * type, 4)); };
  std::vector<TableZone::Row> rows = {{kFarPast, offset_of(0)}};
  const auto add = [&rows](std::int64_t begin, std::int64_t offset) {
    if (begin <= kFarPast) rows.back().offset = offset;
    if (begin > kFarPast && rows.back().offset != offset) rows.push_back({begin, offset});
  };
  std::int64_t last = 0;
  for (std::size_t i = 0; i < part->times && rows.size() < kMaxSpans; ++i) {
    const auto type = static_cast<unsigned char>(indexes[i]);
    if (type >= part->types) return nullptr;
    last = big_endian(times.substr(kNew * i, kNew));
    add(last, offset_of(type));
  }
  if (const std::string rule = last_line(text); rule.find(',') != std::string::npos) {
    const ZoneRule after(rule);
    for (std::int64_t t = std::max<std::int64_t>(last, 0); rows.size() < kMaxSpans;) {
      const ZoneRule::Info info = after.at(t);
      add(t, info.offset);
      if (info.end >= kTableEnd || info.end <= t) break;
      t = info.end;
    }
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
    if (const auto found = zones_.find(name); found != zones_.end())
      return found->second.zone.get();
    Zone zone = read(name);
    if (zone.zone) return zones_.emplace(name, std::move(zone)).first->second.zone.get();
    struct stat status {};
    if (::stat(directory_.c_str(), &status) == 0) return no_such_zone(name);
    return Error{.code = ErrorCode::unavailable,
                 .message = fmt::format("time_zone {}: the database in {} cannot be read; install "
                                        "the package tzdata",
                                        name, directory_),
                 .field = "time_zone"};
  }

  std::vector<TimeZone::Change> changes(std::size_t& seen) {
    MutexLock lock(mutex_);
    for (auto& [name, known] : zones_) {
      if (stamp_of(name) == known.stamp) continue;
      Zone now = read(name);
      if (!now.zone) continue;  // it is just being replaced, or was removed
      if (*now.zone == *known.zone) {
        known.stamp = now.stamp;
        continue;
      }
      changes_.push_back({name, known.zone.get()});
      replaced_.push_back(std::move(known.zone));
      known = std::move(now);
    }
    std::vector<TimeZone::Change> out(changes_.begin() + static_cast<std::ptrdiff_t>(seen),
                                      changes_.end());
    seen = changes_.size();
    return out;
  }

  void read_from(std::string directory) {
    MutexLock lock(mutex_);
    directory_ = std::move(directory);
  }

 private:
  // What identifies the content of a file. Empty: there is no file.
  using Stamp = std::vector<std::int64_t>;
  struct Zone {
    std::unique_ptr<TableZone> zone;
    Stamp stamp;
  };
  Stamp stamp_of(const std::string& name) const MS_REQUIRES(mutex_) {
    struct stat status {};
    if (::stat((directory_ + name).c_str(), &status) != 0) return {};
    return {static_cast<std::int64_t>(status.st_dev),
            static_cast<std::int64_t>(status.st_ino),
            status.st_size,
            status.st_mtim.tv_sec,
            status.st_mtim.tv_nsec,
            status.st_ctim.tv_sec,
            status.st_ctim.tv_nsec};
  }
  Zone read(const std::string& name) const MS_REQUIRES(mutex_) {
    Zone out{.zone = nullptr, .stamp = stamp_of(name)};  // before the bytes: a change is seen later
    std::ifstream file(directory_ + name, std::ios::binary);
    std::string text(kMaxFileBytes, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
    try {
      out.zone = parse_zone(text);
    } catch (const std::exception&) {  // its rule is invalid
    }
    return out;
  }

  Mutex mutex_;
  std::string directory_ MS_GUARDED_BY(mutex_) = kDatabase;
  std::map<std::string, Zone> zones_ MS_GUARDED_BY(mutex_);
  std::vector<TimeZone::Change> changes_ MS_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<TableZone>> replaced_ MS_GUARDED_BY(mutex_);  // callers may use them
};

Zones& all_zones() {
  static Zones zones;
  return zones;
}

}  // namespace

std::vector<TimeZone::Change> TimeZone::changes(std::size_t& seen) {
  return all_zones().changes(seen);
}

void TimeZone::read_from(std::string directory) {
  all_zones().read_from(std::move(directory));
}

Result<const TimeZone*> TimeZone::find(std::string_view name) {
  static const TableZone utc({{kFarPast, 0}});
  if (name == "UTC") return &utc;
  // right/… counts leap seconds, which no clock here does; and a name must not be a path.
  const bool of_system = name == "localtime" || name == "posixrules" || name == "Factory";
  const bool plain = !name.empty() && name.size() <= kMaxZoneNameBytes && name[0] != '/' &&
                     !name.starts_with("right/") && !name.starts_with("posix/") &&
                     name.find("..") == std::string_view::npos && !of_system;
  if (!plain) return no_such_zone(name);
  return all_zones().find(std::string(name));
}

}  // namespace mainspring
