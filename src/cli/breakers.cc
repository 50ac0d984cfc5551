// breaker set, list, show, open, close, remove.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/breaker_shapes.h"
#include "cli/handlers.h"
#include "cli/job_options.h"
#include "cli/sheet.h"
#include "cli/support.h"
#include "env/clock.h"

namespace mainspring::cli {
namespace {

std::string state_words(const BreakerInfo& info, WallTime now) {
  if (info.state == BreakerState::closed) return "closed";
  if (info.state == BreakerState::open)
    return fmt::format("open, half open {}", relative_to(*info.open_until, now));
  return fmt::format("half open, {} of {} run", info.probes, info.room);
}

std::string settings_words(const BreakerSettings& s) {
  return fmt::format("opens for {2} after {0} in {1}, for {3} at most; {4} at first",
                     s.failures == 1 ? "1 failure" : fmt::format("{} failures", s.failures),
                     format_duration(s.within), format_duration(s.open_for),
                     format_duration(s.max_open_for),
                     s.probes == 1 ? "1 probe" : fmt::format("{} probes", s.probes));
}

// Prints the breaker after a change.
Result<int> print_breaker(const Invocation& invocation, Io& io, Connection& connection,
                          const std::string& name) {
  MS_TRY_ASSIGN(const BreakerInfo info, connection.breakers().get_breaker(name));
  std::string line;
  if (invocation.json) {
    encode_breaker(info, line);
  } else {
    line = fmt::format("{}: {}", name, state_words(info, SystemClock().now().wall));
  }
  print_line(io, line);
  return kExitOk;
}

Result<void> read_settings(const Invocation& invocation, BreakerSettings& settings) {
  MS_TRY_ASSIGN(const auto failures, invocation.number("failures", 1, kMaxBreakerFailures));
  if (failures) settings.failures = static_cast<int>(*failures);
  MS_TRY_ASSIGN(const auto probes, invocation.number("probes", 1, kMaxBreakerProbes));
  if (probes) settings.probes = static_cast<int>(*probes);
  MS_TRY_ASSIGN(const auto within, invocation.duration("within"));
  MS_TRY_ASSIGN(const auto open_for, invocation.duration("open-for"));
  MS_TRY_ASSIGN(const auto max_open_for, invocation.duration("max-open-for"));
  settings.within = within.value_or(settings.within);
  settings.open_for = open_for.value_or(settings.open_for);
  settings.max_open_for = max_open_for.value_or(settings.max_open_for);
  const auto valid = validate(settings);
  if (!valid) return with_flag_names(valid.error());
  return {};
}

}  // namespace

Result<int> run_breaker_set(const Invocation& invocation, Io& io) {
  PutBreaker request{.name = *invocation.argument("NAME"), .settings = {}};
  MS_TRY(check_name("NAME", request.name));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  // The request replaces all settings: start from the current ones.
  const auto now = connection->breakers().get_breaker(request.name);
  if (now) {
    request.settings = now->settings;
  } else if (now.error().code != ErrorCode::not_found) {
    return now.error();
  }
  MS_TRY(read_settings(invocation, request.settings));
  MS_TRY(connection->breakers().put_breaker(request));
  if (invocation.json) return print_breaker(invocation, io, *connection, request.name);
  print_line(io, fmt::format("{}: {}", request.name, settings_words(request.settings)));
  return kExitOk;
}

Result<int> run_breaker_list(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const std::vector<BreakerInfo> all, connection->breakers().breakers());
  const WallTime now = SystemClock().now().wall;
  Table table({{.title = "BREAKER", .keep = true},
               {.title = "STATE", .whole = true},
               {.title = "OPENED", .align = Align::right, .drop = 1},
               {.title = "QUEUES", .least = 20, .below = true}});
  for (const BreakerInfo& info : all) {
    if (invocation.json) {
      std::string line;
      encode_breaker(info, line);
      print_line(io, line);
      continue;
    }
    const Colour colour = info.state == BreakerState::open     ? Colour::red
                          : info.state == BreakerState::closed ? Colour::none
                                                               : Colour::yellow;
    table.add({{info.name},
               {state_words(info, now), colour},
               {fmt::to_string(info.opened)},
               {fmt::format("{}", fmt::join(info.queues, ", "))}});
  }
  if (!invocation.json) io.out(table.empty() ? "no breakers\n" : table.render(io));
  return kExitOk;
}

Result<int> run_breaker_show(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const BreakerInfo info,
                connection->breakers().get_breaker(*invocation.argument("NAME")));
  if (invocation.json) {
    std::string line;
    encode_breaker(info, line);
    print_line(io, line);
    return kExitOk;
  }
  const WallTime now = SystemClock().now().wall;
  Sheet sheet(io);
  sheet.add("breaker", info.name);
  sheet.add("state", state_words(info, now));
  sheet.add("open until", info.open_until, now);
  if (info.state == BreakerState::closed)
    sheet.add("failures", fmt::format("{} of {}", info.failures, info.settings.failures));
  sheet.add("opened ever", fmt::to_string(info.opened));
  sheet.add("queues", fmt::format("{}", fmt::join(info.queues, ", ")));
  sheet.add("settings", settings_words(info.settings));
  io.out(sheet.text());
  return kExitOk;
}

Result<int> run_breaker_open(const Invocation& invocation, Io& io) {
  OpenBreaker request{.name = *invocation.argument("NAME")};
  MS_TRY_ASSIGN(const auto time, invocation.duration("for"));
  if (time) {
    MS_TRY(check_open_for("--for", *time));
    request.open_for = *time;
  }
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY(connection->breakers().open_breaker(request));
  return print_breaker(invocation, io, *connection, request.name);
}

Result<int> run_breaker_close(const Invocation& invocation, Io& io) {
  const std::string name = *invocation.argument("NAME");
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY(connection->breakers().close_breaker(name));
  return print_breaker(invocation, io, *connection, name);
}

Result<int> run_breaker_remove(const Invocation& invocation, Io& io) {
  const std::string name = *invocation.argument("NAME");
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY(connection->breakers().remove_breaker(name));
  std::string line;
  if (invocation.json) {
    encode_breaker_removed(name, line);
  } else {
    line = name + " removed";
  }
  print_line(io, line);
  return kExitOk;
}

}  // namespace mainspring::cli
