// A run in the format of Azure WebJobs: one JSON object, for the WebJobs API and for hooks.
#include <fmt/format.h>

#include "api/json.h"
#include "host/control.h"

namespace mainspring {
namespace {

// Of .NET: "2026-11-21T10:46:31.5000000Z", always seven digits.
std::string net_time(WallTime t) {
  using namespace std::chrono;
  const sys_time<microseconds> point{microseconds(t.us())};
  const auto midnight = floor<days>(point);
  const year_month_day date{midnight};
  const hh_mm_ss<microseconds> clock{point - midnight};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}0Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

// "00:00:01.5000000"; from a day on "2.03:04:05.0000000". A clock that was set back gives zero.
std::string net_duration(Duration d) {
  using namespace std::chrono;
  const auto us = std::max<std::int64_t>(d.count(), 0);
  const std::int64_t s = us / 1'000'000;
  const std::int64_t whole_days = s / 86'400;
  const std::string front = whole_days > 0 ? fmt::format("{}.", whole_days) : std::string();
  return fmt::format("{}{:02}:{:02}:{:02}.{:06}0", front, s / 3600 % 24, s / 60 % 60, s % 60,
                     us % 1'000'000);
}

// The default of a DateTime: it has not ended.
constexpr std::string_view kNotYet = "0001-01-01T00:00:00";

}  // namespace

std::string run_json(const RunRecord& run, const std::string& job_name, const std::string& base_url,
                     WallTime now) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("id").string(run.id).key("name").string(run.id);
  w.key("status").string(to_string(run.status)).key("start_time").string(net_time(run.started));
  w.key("end_time").string(run.ended ? net_time(*run.ended) : std::string(kNotYet));
  w.key("duration").string(net_duration(run.ended.value_or(now) - run.started));
  w.key("output_url");
  w.string(
      fmt::format("{}/vfs/data/jobs/triggered/{}/{}/output_log.txt", base_url, job_name, run.id));
  w.key("error_url").null().key("url");
  w.string(fmt::format("{}/api/triggeredwebjobs/{}/history/{}", base_url, job_name, run.id));
  w.key("job_name").string(job_name).key("trigger").string(run.trigger).end_object();
  return out;
}

}  // namespace mainspring
