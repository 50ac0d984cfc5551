// timers set, list, show, start, stop, wake, timeout, remove: schedules that run continuously.
#include <fmt/format.h>

#include "cli/handlers.h"
#include "cli/schedule_files.h"
#include "cli/schedules.h"
#include "cli/sheet.h"
#include "cli/support.h"
#include "env/clock.h"
#include "mainspring/timer.h"
#include "model/schedule.h"

namespace mainspring::cli {
namespace {

constexpr Duration kDefaultFallback = 5min;

// Errors: not_found, conflict (a schedule, but not a timer).
Result<ScheduleInfo> find_timer(Jobs& jobs, const std::string& name) {
  auto info = jobs.get_schedule(name);
  if (!info && info.error().code == ErrorCode::not_found) {
    Error error = info.error();
    error.message = fmt::format("there is no timer \"{}\"", name);
    return error;
  }
  if (!info || info->schedule.continuous) return info;
  return Error{.code = ErrorCode::conflict,
               .message = fmt::format("{} is a schedule, but not a continuous timer; `mainspring "
                                      "schedules show {}` shows it",
                                      name, name)};
}

Result<PutScheduleRequest> timer_request(const Invocation& invocation) {
  PutScheduleRequest request;
  Schedule& schedule = request.schedule;
  schedule.name = *invocation.argument("NAME");
  schedule.cron = invocation.flag("cron").value_or("");
  schedule.time_zone = invocation.flag("time-zone").value_or("UTC");
  MS_TRY_ASSIGN(const auto every, invocation.duration("every"));
  if (every && !schedule.cron.empty())
    return invalid("every", "--cron and --every: only one of them can be given");
  schedule.every = every.value_or(schedule.cron.empty() ? kDefaultFallback : Duration(0));
  Continuous& timer = schedule.continuous.emplace();
  MS_TRY_ASSIGN(const auto timeout, invocation.duration("timeout"));
  MS_TRY_ASSIGN(const auto margin, invocation.duration("margin"));
  MS_TRY_ASSIGN(const auto handoff, invocation.duration("handoff"));
  timer.timeout = timeout.value_or(timer.timeout);
  timer.margin = margin.value_or(timer.margin);
  timer.handoff = handoff.value_or(timer.handoff);
  MS_TRY(read_template_flags(invocation, schedule.job));
  if (!invocation.has("max-attempts")) schedule.job.max_attempts = kTimerAttempts;
  schedule.job.timeout = kForever;  // the run ends itself; its timeout may change meanwhile
  if (invocation.has("stopped")) request.paused = true;
  const auto valid = validate(schedule);
  if (!valid) return with_schedule_flags(valid.error());
  return request;
}

std::string_view state_of_timer(const ScheduleInfo& info) {
  if (info.live.size() > 1) return info.paused ? "stopping" : "handing over";
  if (info.live.size() == 1) return info.paused ? "stopping" : "running";
  return info.paused ? "stopped" : "waiting";
}

// Prints the job of the run, or "it runs already" if there is a standby.
Result<void> wake_and_print(const Invocation& invocation, Io& io, Jobs& jobs,
                            const std::string& name) {
  auto job = run_now(jobs, name, TickSource::wake, std::nullopt);
  if (!job && job.error().code != ErrorCode::conflict) return job.error();
  const std::string what =
      job ? fmt::format("started, job {}", *job) : "started; " + job.error().message;
  return print_change(invocation, io, jobs, name, what);
}

}  // namespace

Result<int> run_timers_set(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(PutScheduleRequest request, timer_request(invocation));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY(put_and_print(invocation, io, connection->jobs(), std::move(request)));
  return kExitOk;
}

Result<int> run_timers_list(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  const WallTime now = SystemClock().now().wall;
  Table table({{.title = "TIMER", .keep = true},
               {.title = "QUEUE", .keep = true, .drop = 4},
               {.title = "KIND", .keep = true, .drop = 3},
               {"TIMEOUT", Align::right},
               {.title = "FALLBACK", .keep = true, .drop = 1},
               {.title = "LAST RUN", .whole = true},
               {.title = "RUNS", .align = Align::right, .drop = 2},
               {"JOB", Align::right},
               {.title = "STATE", .whole = true}});
  MS_TRY(for_each_schedule(connection->jobs(), INT64_MAX, [&](const ScheduleInfo& info) {
    if (!info.schedule.continuous) return false;
    if (invocation.json) {
      std::string line;
      encode_schedule_info(info, line);
      print_line(io, line);
      return true;
    }
    const Schedule& s = info.schedule;
    const bool own = !info.timeout_override;
    table.add({{s.name},
               {s.job.queue},
               {s.job.kind},
               {format_duration(own ? s.continuous->timeout : *info.timeout_override),
                own ? Colour::none : Colour::bold},
               {when_of(s, io)},
               {info.last_fired ? relative_to(*info.last_fired, now) : "-"},
               {format_count(info.fired)},
               {info.live.empty() ? "-" : ids_text(info.live)},
               {std::string(state_of_timer(info)), info.paused         ? Colour::yellow
                                                   : info.live.empty() ? Colour::dim
                                                                       : Colour::blue}});
    return true;
  }));
  if (!invocation.json) io.out(table.empty() ? "no timers\n" : table.render(io));
  return kExitOk;
}

Result<int> run_timers_show(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const ScheduleInfo info,
                find_timer(connection->jobs(), *invocation.argument("NAME")));
  print_schedule(invocation, io, info);
  return kExitOk;
}

Result<int> run_timers_start(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  Jobs& jobs = connection->jobs();
  return for_each_of(io, invocation.all_arguments("NAME"),
                     [&](const std::string& name) -> Result<void> {
                       MS_TRY(find_timer(jobs, name));
                       MS_TRY(jobs.pause_schedule({.name = name, .paused = false, .reason = {}}));
                       MS_TRY(wake_and_print(invocation, io, jobs, name));
                       return {};
                     });
}

Result<int> run_timers_stop(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  Jobs& jobs = connection->jobs();
  const std::string reason = invocation.flag("reason").value_or("");
  return for_each_of(
      io, invocation.all_arguments("NAME"), [&](const std::string& name) -> Result<void> {
        MS_TRY(find_timer(jobs, name));
        MS_TRY(jobs.pause_schedule({.name = name, .paused = true, .reason = reason}));
        MS_TRY(print_change(invocation, io, jobs, name, "stops after its batch"));
        return {};
      });
}

Result<int> run_timers_wake(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  Jobs& jobs = connection->jobs();
  const std::string name = *invocation.argument("NAME");
  MS_TRY(find_timer(jobs, name));
  MS_TRY_ASSIGN(const JobId job, run_now(jobs, name, TickSource::wake, std::nullopt));
  if (invocation.json) {
    std::string line;
    encode_trigger_response(job, line);
    print_line(io, line);
  } else {
    print_line(io, fmt::format("{} runs as job {}", name, job));
  }
  return kExitOk;
}

Result<int> run_timers_timeout(const Invocation& invocation, Io& io) {
  const std::string name = *invocation.argument("NAME");
  const std::string text = *invocation.argument("TIME");
  Duration timeout{0};
  if (text != "own") {
    const auto parsed = parse_duration(text);
    if (!parsed || parsed->count() == 0) {
      return invalid("TIME", fmt::format("TIME \"{}\": must be a time such as 5m, or own", text));
    }
    timeout = *parsed;
  }
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY(connection->jobs().set_timer({.name = name, .timeout = timeout}));
  MS_TRY(print_change(invocation, io, connection->jobs(), name,
                      text == "own" ? "has its own timeout again" : "has timeout " + text));
  return kExitOk;
}

Result<int> run_timers_remove(const Invocation& invocation, Io& io) {
  return remove_schedules(invocation, io);
}

}  // namespace mainspring::cli
