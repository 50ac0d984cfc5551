// history: counts and times of jobs per minute, hour or day.
#include <fmt/format.h>

#include <cmath>

#include "api/history_shapes.h"
#include "cli/handlers.h"
#include "cli/support.h"
#include "env/clock.h"

namespace mainspring::cli {
namespace {

constexpr Duration kSince = std::chrono::hours(24), kStep = std::chrono::hours(1);

// Up to six columns: "12,345", "123k", "4.6M".
Cell count_cell(std::int64_t n, Colour colour) {
  if (n == 0) return {};
  if (n < 100'000) return {format_count(n), colour};
  if (n < 1'000'000) return {fmt::format("{}k", n / 1000), colour};
  return {fmt::format("{:.1f}M", static_cast<double>(n) / 1e6), colour};
}

std::string short_time(const HistoryTimes& times, Duration value) {
  return times.count == 0 ? "-" : short_duration(value);
}

bool whole_days(Duration step) {
  return step % std::chrono::hours(24) == Duration(0);
}

// The start of a row without redundant parts: "01-31 09:00", for whole days, which are UTC days,
// "2026-01-31".
std::string start_of(WallTime at, Duration step, const Io& io) {
  const std::string text = whole_days(step) ? format_wall_time(at) : shown_time(io, at);
  return whole_days(step) ? text.substr(0, 10)
                          : fmt::format("{} {}", text.substr(5, 5), text.substr(11, 5));
}

std::vector<Cell> row_of(const std::string& title, const HistoryPoint& point) {
  return {{title},
          count_cell(point.enqueued, Colour::none),
          count_cell(point.completed, Colour::green),
          count_cell(point.failed, Colour::yellow),
          count_cell(point.dead, Colour::red),
          count_cell(point.cancelled, Colour::none),
          {short_time(point.wait, point.wait.p50)},
          {short_time(point.wait, point.wait.p95)},
          {short_time(point.run, point.run.p50)},
          {short_time(point.run, point.run.p95)}};
}

}  // namespace

Result<int> run_history(const Invocation& invocation, Io& io) {
  HistoryFilter filter{.queue = invocation.flag("queue").value_or(""),
                       .kind = invocation.flag("kind").value_or("")};
  MS_TRY_ASSIGN(const auto since, past_time(invocation, io, "since"));
  MS_TRY_ASSIGN(const auto step, invocation.duration("step"));
  if (step == Duration(0)) return invalid("step", "--step 0s: must be above 0");
  filter.step = step.value_or(kStep);
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  const WallTime now = SystemClock().now().wall;
  filter.from = since.value_or(now - kSince);
  if (*filter.from >= now) {
    return invalid("since",
                   fmt::format("--since \"{}\": must be in the past", *invocation.flag("since")));
  }
  MS_TRY_ASSIGN(const History history, connection->client->history(filter));
  if (invocation.json) {
    std::string out;
    encode_history(history, out);
    print_line(io, out);
    return kExitOk;
  }
  const bool utc = !io.offset_s || whole_days(history.step);
  Table table({{utc ? "TIME (UTC)" : "TIME"},
               {"NEW", Align::right},
               {"DONE", Align::right},
               {"FAIL", Align::right, true},
               {"DEAD", Align::right, true},
               {"CANC", Align::right, true},
               {"WAIT50", Align::right},
               {"95", Align::right},
               {"RUN50", Align::right},
               {"95", Align::right}});
  for (const HistoryPoint& point : history.points)
    table.add(row_of(start_of(point.at, history.step, io), point));
  table.add(row_of("total", history.total));
  io.out(table.render(io));
  return kExitOk;
}

}  // namespace mainspring::cli
