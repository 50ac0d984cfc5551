// The rules of POSIX by the date library.
#include "env/zone_rule.h"

#include <date/ptz.h>

#include <regex>
#include <stdexcept>

namespace mainspring {
namespace {

constexpr int kSecondsPerHour = 3600;

// The library does not read negative times of day, which Greenland has: "<-02>2<-01>,M3.5.0/-1,
// M10.5.0/0". The same changes are those of a zone that is `hours` further east, with times of day
// that are later by the same amount: "<-02>1<-01>,M3.5.0/0,M10.5.0/1".
struct Lifted {
  std::string rule;
  int hours = 0;
};
Lifted lift(const std::string& rule) {
  if (rule.find("/-") == std::string::npos) return {rule, 0};
  static const std::regex form(
      "(<[^>]+>|[A-Za-z]+)(-?[0-9]+)(<[^>]+>|[A-Za-z]+)"
      ",(M[0-9.]+)(/(-?[0-9]+))?,(M[0-9.]+)(/(-?[0-9]+))?");
  std::smatch part;
  if (!std::regex_match(rule, part, form)) throw std::runtime_error("unknown rule " + rule);
  const auto hour_of = [&](std::size_t i) { return part[i].matched ? std::stoi(part[i]) : 2; };
  const int start = hour_of(6);
  const int end = hour_of(9);
  const int hours = -std::min({start, end, 0});
  return {part[1].str() + std::to_string(std::stoi(part[2]) - hours) + part[3].str() + "," +
              part[4].str() + "/" + std::to_string(start + hours) + "," + part[7].str() + "/" +
              std::to_string(end + hours),
          hours};
}

}  // namespace

struct ZoneRule::Impl {
  explicit Impl(const Lifted& lifted) : zone(lifted.rule), hours(lifted.hours) {}
  Posix::time_zone zone;
  int hours;
};

ZoneRule::ZoneRule(const std::string& rule) : impl_(new Impl(lift(rule))) {}
ZoneRule::~ZoneRule() {
  delete impl_;
}

ZoneRule::Info ZoneRule::at(std::int64_t seconds) const {
  const date::sys_info info =
      impl_->zone.get_info(date::sys_seconds(std::chrono::seconds(seconds)));
  return {info.end.time_since_epoch().count(),
          info.offset.count() - impl_->hours * kSecondsPerHour};
}

}  // namespace mainspring
