// schedules upcoming, and schedules pause and resume for many at once.
#include <fmt/format.h>

#include <algorithm>

#include "api/pool_window_shapes.h"
#include "api/schedule_shapes.h"
#include "cli/handlers.h"
#include "cli/schedules.h"
#include "cli/sheet.h"
#include "cli/support.h"
#include "client/calls.h"

namespace mainspring::cli {
namespace {

constexpr int kShownUpcoming = 1000;

void print_upcoming(Io& io, const UpcomingAnswer& upcoming) {
  Table ticks({{.title = "NOMINAL", .whole = true},
               {"IN", Align::right},
               {.title = "SCHEDULE", .keep = true},
               {.title = "NOTE", .least = 20, .below = true}});
  for (const UpcomingTick& tick : upcoming.ticks) {
    ticks.add({{shown_time(io, tick.nominal)},
               {format_left(tick.nominal - upcoming.from)},
               {tick.schedule},
               {tick.note, Colour::yellow}});
  }
  io.out(ticks.empty() ? "no ticks\n" : ticks.render(io));
  Table due({{"HOUR"}, {"DUE JOBS", Align::right}});
  for (const DueJobs& hour : upcoming.due)
    due.add({{shown_time(io, hour.at)}, {format_count(hour.jobs)}});
  if (!due.empty()) io.out("\n" + due.render(io));
  Table windows({{"WINDOW OF"}, {"FROM"}, {"UNTIL"}, {"MIN", Align::right}, {"MAX", Align::right}});
  const auto shown = [](const std::optional<std::int64_t>& count) {
    return count ? fmt::to_string(*count) : std::string("-");
  };
  for (const PoolWindow& window : upcoming.windows) {
    windows.add({{window.pool},
                 {shown_time(io, window.from)},
                 {shown_time(io, window.to)},
                 {shown(window.min)},
                 {shown(window.max)}});
  }
  if (!windows.empty()) io.out("\n" + windows.render(io));
  for (const std::string& name : upcoming.cut) {
    io.err(
        fmt::format("schedule {} has more ticks; the first {} are shown\n", name, kMaxTicksOfOne));
  }
  if (upcoming.truncated) io.err("There are more ticks; use a shorter --within.\n");
}

}  // namespace

Result<int> run_schedules_upcoming(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto within, invocation.duration("within"));
  MS_TRY_ASSIGN(const auto limit, invocation.number("limit", 1, kMaxUpcomingTicks));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const std::string body,
                connection->client->request("GET",
                                            fmt::format("/v1/upcoming?within={}&limit={}",
                                                        format_duration(within.value_or(24h)),
                                                        limit.value_or(kShownUpcoming)),
                                            ""));
  if (invocation.json) {
    print_line(io, body);
    return kExitOk;
  }
  MS_TRY_ASSIGN(const UpcomingAnswer upcoming, decode_upcoming_answer(body));
  print_upcoming(io, upcoming);
  return kExitOk;
}

Result<std::optional<ScheduleSet>> schedule_set_of(const Invocation& invocation) {
  const auto prefix = invocation.flag("prefix");
  const bool all = invocation.has("all"), named = !invocation.all_arguments("NAME").empty();
  if (!prefix && !all && !named)
    return invalid("NAME", "NAME is missing: give names, --prefix or --all");
  if ((prefix ? 1 : 0) + (all ? 1 : 0) + (named ? 1 : 0) != 1) {
    return invalid("NAME", "give names, --prefix or --all: exactly one of them");
  }
  if (prefix && prefix->empty()) {
    return invalid("prefix", "--prefix: must not be empty; use --all for every schedule");
  }
  if (named) return std::optional<ScheduleSet>();
  return std::optional(ScheduleSet{.names = {}, .prefix = prefix.value_or("")});
}

Result<int> pause_schedule_set(const Invocation& invocation, Io& io, Jobs& jobs,
                               PauseSchedules request) {
  const bool paused = request.paused;
  MS_TRY_ASSIGN(const ScheduleChanges changes, jobs.pause_schedules(std::move(request)));
  if (invocation.json) {
    std::string line;
    encode_schedule_changes(changes, line);
    print_line(io, line);
    return kExitOk;
  }
  for (const std::string& name : changes.changed)
    print_line(io, fmt::format("{} {}", name, paused ? "paused" : "resumed"));
  print_line(io, fmt::format("{} changed, {} {} before", changes.changed.size(),
                             changes.unchanged.size(), paused ? "paused" : "active"));
  return kExitOk;
}

}  // namespace mainspring::cli
