// schedules set, list, show, preview, trigger, pause, resume, ledger, backfill, remove.
#include "cli/schedules.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "cli/handlers.h"
#include "cli/job_options.h"
#include "cli/schedule_files.h"
#include "cli/sheet.h"
#include "cli/support.h"
#include "env/clock.h"
#include "env/time_zone.h"
#include "model/schedule.h"

namespace mainspring::cli {
namespace {

constexpr int kSchedulesPage = 1000;
constexpr std::int64_t kDefaultTicks = 50;
constexpr std::size_t kMaxFileBytes = 64 << 20;
// How long a backfill waits for an unreachable server, or for buffer space.
constexpr Duration kBackfillRetryFor = 30s;

// -- set ------------------------------------------------------------------------------------------

Result<PutScheduleRequest> schedule_of_flags(const Invocation& invocation) {
  PutScheduleRequest request;
  const auto name = invocation.argument("NAME");
  if (!name) {
    return invalid("NAME", fmt::format("NAME is missing. Usage: {}",
                                       usage_line(*invocation.command, {"schedules", "set"})));
  }
  request.schedule.name = *name;
  MS_TRY(read_schedule_flags(invocation, request.schedule));
  MS_TRY(read_template_flags(invocation, request.schedule.job));
  if (invocation.has("paused")) request.paused = true;
  if (invocation.has("restart-count")) request.runs = RunCount::restart;
  const auto valid = validate(request.schedule);
  if (!valid) return with_schedule_flags(valid.error());
  return request;
}

Result<std::vector<PutScheduleRequest>> requests_of(const Invocation& invocation) {
  const auto file = invocation.flag("file");
  if (!file) {
    MS_TRY_ASSIGN(PutScheduleRequest request, schedule_of_flags(invocation));
    return std::vector<PutScheduleRequest>{std::move(request)};
  }
  for (const Flag& flag : invocation.command->flags) {
    if (flag.name == "file" || !invocation.has(flag.name)) continue;
    return invalid(
        flag.name,
        fmt::format("--{}: cannot be given together with --file; put it into the file", flag.name));
  }
  MS_TRY_ASSIGN(const std::string text, read_file(*file, kMaxFileBytes));
  return schedules_of_file(*file, text, invocation.argument("NAME").value_or(""));
}

void print_put(const Invocation& invocation, Io& io, const std::string& name,
               const PutScheduleResult& result) {
  if (invocation.json) {
    std::string line;
    JsonWriter w(line);
    w.begin_object().key("name").string(name).key("version").number(result.version);
    w.key("outcome").string(to_string(result.outcome)).end_object();
    print_line(io, line);
  } else {
    print_line(io,
               fmt::format("{} {}, version {}", name, to_string(result.outcome), result.version));
  }
}

// -- pages ----------------------------------------------------------------------------------------

std::string ticks_of(const LedgerRow& row) {
  if (row.count == 1) return "1";
  return row.count == 0 ? "many" : format_count(row.count);
}

void add_ledger_row(Table& table, const LedgerRow& row, const Io& io) {
  const bool fired = row.state == TickState::fired;
  std::string why = row.reason;
  if (row.past_due) why += why.empty() ? "past due" : ", past due";
  if (!row.note.empty()) why += (why.empty() ? "" : ", ") + row.note;
  std::string nominal = shown_time(io, row.nominal);
  if (row.until) nominal += " to " + shown_time(io, *row.until);
  table.add({{nominal},
             {ticks_of(row)},
             {std::string(to_string(row.source))},
             {std::string(to_string(row.state)), fired ? Colour::green : Colour::yellow},
             {row.job == 0 ? "-" : fmt::to_string(row.job)},
             {row.job_state ? std::string(to_string(*row.job_state)) : "-",
              row.job_state ? colour_of(*row.job_state) : Colour::dim},
             {why}});
}

Result<std::int64_t> ticks_limit(const Invocation& invocation, std::int64_t fallback) {
  if (invocation.has("all")) {
    if (invocation.has("limit")) {
      return invalid("limit", "--limit and --all: only one of them can be given");
    }
    return INT64_MAX;
  }
  MS_TRY_ASSIGN(const auto limit, invocation.number("limit", 1, 1'000'000'000));
  return limit.value_or(fallback);
}

// -- preview --------------------------------------------------------------------------------------

struct ToCome {
  std::vector<PreviewTick> ticks;
  std::string time_zone;  // of the schedule
};
Result<ToCome> ticks_to_come(const Invocation& invocation, Client& client) {
  MS_TRY_ASSIGN(const auto from, instant_flag(invocation, "from"));
  MS_TRY_ASSIGN(const auto count, invocation.number("count", 1, kMaxPreview));
  const int wanted = static_cast<int>(count.value_or(PreviewRequest::kDefaultPreview));
  const bool defined = invocation.has("cron") || invocation.has("every") || invocation.has("at");
  if (const auto name = invocation.argument("NAME")) {
    if (defined) {
      return invalid("NAME", "NAME and --cron, --every or --at: only one of them can be given");
    }
    MS_TRY_ASSIGN(const ScheduleInfo info, client.get_schedule(*name));
    MS_TRY_ASSIGN(std::vector<PreviewTick> ticks, client.preview_schedule(*name, from, wanted));
    return ToCome{std::move(ticks), info.schedule.time_zone};
  }
  if (!defined) return invalid("NAME", "give the NAME of a schedule, or --cron, --every or --at");
  PreviewRequest request{.schedule = {}, .from = from, .count = wanted};
  MS_TRY(read_schedule_flags(invocation, request.schedule));
  request.schedule.name = request.schedule.job.kind = "preview";
  if (const auto valid = validate(request.schedule); !valid) {
    return with_schedule_flags(valid.error());
  }
  std::string body;
  encode_preview_request(request, body);
  MS_TRY_ASSIGN(const std::string answer, client.request("POST", "/v1/schedules/preview", body));
  MS_TRY_ASSIGN(std::vector<PreviewTick> ticks, decode_preview(answer));
  return ToCome{std::move(ticks), request.schedule.time_zone};
}

// The local time in the zone: "2026-03-29 03:00:00"; "" if the zone is unknown here.
std::string local_text(WallTime time, const std::string& zone) {
  const auto found = TimeZone::find(zone);
  if (!found) return "";
  std::string text = format_wall_time(WallTime::from_ms((*found)->local_seconds(time) * 1000));
  text.pop_back();  // the Z
  text[10] = ' ';
  return text;
}

// Why the newest tick of this source was skipped.
Result<std::string> why_skipped(Jobs& jobs, const std::string& name, TickSource source) {
  MS_TRY_ASSIGN(const LedgerPage page, jobs.ledger(name, kDefaultTicks, 0));
  for (const LedgerRow& row : page.rows) {
    if (row.source == source && row.state == TickState::skipped) return row.reason;
  }
  return std::string("see its ledger");
}

Result<int> pause_schedules(const Invocation& invocation, Io& io, bool paused) {
  MS_TRY_ASSIGN(const auto set, schedule_set_of(invocation));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  const std::string reason = invocation.flag("reason").value_or("");
  if (set) {
    return pause_schedule_set(invocation, io, connection->jobs(),
                              {.which = *set, .paused = paused, .reason = reason});
  }
  return for_each_of(
      io, invocation.all_arguments("NAME"), [&](const std::string& name) -> Result<void> {
        MS_TRY(check_name("NAME", name));
        MS_TRY(
            connection->jobs().pause_schedule({.name = name, .paused = paused, .reason = reason}));
        MS_TRY(
            print_change(invocation, io, connection->jobs(), name, paused ? "paused" : "resumed"));
        return {};
      });
}

}  // namespace

// -- shared with timers ---------------------------------------------------------------------------

Result<void> for_each_schedule(Jobs& jobs, std::int64_t limit,
                               const std::function<bool(const ScheduleInfo&)>& see) {
  std::string after;
  while (limit > 0) {
    MS_TRY_ASSIGN(const std::vector<ScheduleInfo> page, jobs.schedules(after, kSchedulesPage));
    for (const ScheduleInfo& info : page) {
      if (limit > 0 && see(info)) --limit;
    }
    if (page.size() < kSchedulesPage) return {};
    after = page.back().schedule.name;
  }
  return {};
}

Result<void> put_and_print(const Invocation& invocation, Io& io, Jobs& jobs,
                           PutScheduleRequest request) {
  const std::string name = request.schedule.name;
  const bool past = request.schedule.at && *request.schedule.at < SystemClock().now().wall;
  MS_TRY_ASSIGN(const PutScheduleResult result,
                jobs.put_schedule(std::move(request.schedule), request.paused, request.runs));
  print_put(invocation, io, name, result);
  if (!past) return {};
  const auto info = jobs.get_schedule(name);
  if (info && info->next == WallTime::never() && info->fired == 0) {
    io.err(fmt::format("{} will not fire: its time is more than its misfire window in the past\n",
                       printable(name)));
  }
  return {};
}

Result<void> print_change(const Invocation& invocation, Io& io, Jobs& jobs, const std::string& name,
                          std::string_view what) {
  if (!invocation.json) {
    print_line(io, fmt::format("{} {}", name, what));
    return {};
  }
  MS_TRY_ASSIGN(const ScheduleInfo info, jobs.get_schedule(name));
  std::string line;
  encode_schedule_info(info, line);
  print_line(io, line);
  return {};
}

Result<JobId> run_now(Jobs& jobs, const std::string& name, TickSource source,
                      std::optional<Overlap> overlap) {
  MS_TRY_ASSIGN(const FireResult fired, jobs.trigger_schedule(name, source, overlap));
  if (fired.fired > 0 && !fired.jobs.empty()) return fired.jobs.front();
  MS_TRY_ASSIGN(const std::string why, why_skipped(jobs, name, source));
  return Error{.code = ErrorCode::conflict,
               .message = fmt::format("{} did not run: {}", name, why)};
}

Result<int> remove_schedules(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  return for_each_of(io, invocation.all_arguments("NAME"),
                     [&](const std::string& name) -> Result<void> {
                       MS_TRY(check_name("NAME", name));
                       MS_TRY(connection->jobs().remove_schedule(name));
                       if (invocation.json) {
                         std::string line;
                         encode_schedule_removed(name, line);
                         print_line(io, line);
                       } else {
                         print_line(io, fmt::format("{} removed", name));
                       }
                       return {};
                     });
}

std::string when_of(const Schedule& schedule, const Io& io) {
  if (!schedule.cron.empty()) return schedule.cron;
  if (schedule.every.count() != 0) return "every " + format_duration(schedule.every);
  return schedule.at ? "at " + shown_time(io, *schedule.at) : "-";
}

// The first ids; a server reports at most kMaxLiveShown.
std::string ids_text(const std::vector<JobId>& ids) {
  constexpr std::size_t kShown = 10;
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), kShown));
  std::string out = fmt::format("{}", fmt::join(ids.begin(), end, ", "));
  if (ids.size() > kShown) {
    out += fmt::format(" and {}{} more", ids.size() < kMaxLiveShown ? "" : "at least ",
                       ids.size() - kShown);
  }
  return out;
}

namespace {

std::string sheet_of_schedule(const ScheduleInfo& info, const Io& io) {
  const WallTime now = SystemClock().now().wall;
  const Schedule& s = info.schedule;
  Sheet sheet(io);
  sheet.add("name", s.name);
  sheet.add("when", when_of(s, io));
  if (!s.cron.empty()) sheet.add("time_zone", s.time_zone);
  if (s.repeated_hour != RepeatedHour::once) {
    sheet.add("repeated hour", std::string(to_string(s.repeated_hour)));
  }
  const bool ended = info.next == WallTime::never();
  sheet.add("state", info.paused             ? "paused"
                     : !info.problem.empty() ? "invalid"
                     : ended                 ? "ended"
                                             : "active");
  sheet.add("paused_reason", info.paused_reason);
  sheet.add("problem", info.problem);
  const auto given = [](WallTime t) {
    return t == WallTime::never() ? std::nullopt : std::optional(t);
  };
  // A paused schedule does not fire.
  if (!info.paused) sheet.add("next", given(info.next), now);
  if (!info.paused && info.next_fire != info.next)
    sheet.add("next_fire", given(info.next_fire), now);
  sheet.add("last_fired", info.last_fired, now);
  if (info.last_job != 0) sheet.add("last_job", fmt::to_string(info.last_job));
  sheet.add("fired", format_count(info.fired));
  if (info.remaining) sheet.add("remaining", format_count(*info.remaining));
  sheet.add("live", ids_text(info.live));
  if (info.buffered != 0) sheet.add("buffered", fmt::to_string(info.buffered));
  sheet.add("queue", s.job.queue);
  sheet.add("kind", s.job.kind);
  sheet.add("args", s.job.args);
  if (s.continuous) {
    sheet.add("timeout", format_duration(s.continuous->timeout));
    if (info.timeout_override) sheet.add("timeout now", format_duration(*info.timeout_override));
    sheet.add("margin", format_duration(s.continuous->margin));
    sheet.add("handoff", format_duration(s.continuous->handoff));
  }
  sheet.add("misfire", fmt::format("{}, up to {} late", to_string(s.misfire),
                                   format_duration(s.misfire_window)));
  sheet.add("overlap", to_string(s.overlap));
  if (s.jitter.count() != 0) sheet.add("jitter", format_duration(s.jitter));
  sheet.add("start_at", s.start_at, now);
  sheet.add("end_at", s.end_at, now);
  sheet.add("on failure", s.pause_on_failure ? "pauses" : "");
  sheet.add("version", fmt::to_string(info.version));
  sheet.add("created_at", info.created_at, now);
  sheet.add("updated_at", info.updated_at, now);
  return sheet.text();
}

}  // namespace

void print_schedule(const Invocation& invocation, Io& io, const ScheduleInfo& info) {
  if (invocation.json) {
    std::string line;
    encode_schedule_info(info, line);
    print_line(io, line);
  } else {
    io.out(sheet_of_schedule(info, io));
  }
}

// -- the commands ---------------------------------------------------------------------------------

Result<int> run_schedules_set(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(std::vector<PutScheduleRequest> requests, requests_of(invocation));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  const std::size_t count = requests.size();
  std::size_t done = 0;
  for (PutScheduleRequest& request : requests) {
    const auto put = put_and_print(invocation, io, connection->jobs(), std::move(request));
    if (!put) {
      Error error = put.error();
      if (count > 1) error.message += fmt::format("; {} of {} done before", done, count);
      return error;
    }
    ++done;
  }
  return kExitOk;
}

Result<int> run_schedules_list(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const std::int64_t limit, ticks_limit(invocation, kSchedulesPage));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  const WallTime now = SystemClock().now().wall;
  Table table({{.title = "SCHEDULE", .keep = true},
               {.title = "WHEN", .keep = true},
               {.title = "ZONE", .drop = 1},
               {.title = "QUEUE", .keep = true, .drop = 4},
               {.title = "KIND", .keep = true, .drop = 3},
               {.title = "NEXT", .whole = true},
               {.title = "LAST", .whole = true, .drop = 5},
               {.title = "FIRED", .align = Align::right, .drop = 2},
               {.title = "STATE", .whole = true}});
  MS_TRY(for_each_schedule(connection->jobs(), limit, [&](const ScheduleInfo& info) {
    if (invocation.json) {
      std::string line;
      encode_schedule_info(info, line);
      print_line(io, line);
      return true;
    }
    const Schedule& s = info.schedule;
    const bool ended = info.next == WallTime::never();
    const bool running = !info.live.empty();
    table.add({{s.name},
               {when_of(s, io)},
               {s.cron.empty() ? "-" : s.time_zone},
               {s.job.queue},
               {s.job.kind},
               {ended || info.paused ? "-" : relative_to(info.next_fire, now)},
               {info.last_fired ? relative_to(*info.last_fired, now) : "-"},
               {format_count(info.fired)},
               {info.paused             ? "paused"
                : !info.problem.empty() ? "invalid"
                : running               ? "running"
                : ended                 ? "ended"
                                        : "",
                info.paused             ? Colour::yellow
                : !info.problem.empty() ? Colour::red
                : running               ? Colour::blue
                                        : Colour::dim}});
    return true;
  }));
  if (!invocation.json) io.out(table.empty() ? "no schedules\n" : table.render(io));
  return kExitOk;
}

Result<int> run_schedules_show(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const ScheduleInfo info,
                connection->jobs().get_schedule(*invocation.argument("NAME")));
  print_schedule(invocation, io, info);
  return kExitOk;
}

Result<int> run_schedules_preview(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const ToCome to_come, ticks_to_come(invocation, *connection->client));
  if (invocation.json) {
    std::string line;
    encode_preview(to_come.ticks, line);
    print_line(io, line);
    return kExitOk;
  }
  const WallTime now = SystemClock().now().wall;
  // Without jitter FIRES repeats NOMINAL.
  const bool same = std::all_of(to_come.ticks.begin(), to_come.ticks.end(),
                                [](const auto& tick) { return tick.fires_at == tick.nominal; });
  Table table({{.title = "NOMINAL", .whole = true},
               {.title = to_come.time_zone, .whole = true},
               {.title = "FIRES", .whole = true, .drop = same ? 1 : 3},
               {.title = "WHEN", .whole = true, .drop = 2},
               {.title = "NOTE", .below = true}});
  for (const PreviewTick& tick : to_come.ticks) {
    table.add({{shown_time(io, tick.nominal)},
               {local_text(tick.nominal, to_come.time_zone)},
               {shown_time(io, tick.fires_at)},
               {relative_to(tick.fires_at, now)},
               {tick.note, Colour::yellow}});
  }
  io.out(table.empty() ? "no ticks\n" : table.render(io));
  return kExitOk;
}

Result<int> run_schedules_trigger(const Invocation& invocation, Io& io) {
  std::optional<Overlap> overlap;
  if (const auto word = invocation.flag("overlap")) overlap = parse_overlap(*word);
  const std::string name = *invocation.argument("NAME");
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const JobId job, run_now(connection->jobs(), name, TickSource::trigger, overlap));
  if (invocation.json) {
    std::string line;
    encode_trigger_response(job, line);
    print_line(io, line);
  } else {
    print_line(io, fmt::format("{} runs as job {}", name, job));
  }
  return kExitOk;
}

Result<int> run_schedules_pause(const Invocation& invocation, Io& io) {
  return pause_schedules(invocation, io, true);
}

Result<int> run_schedules_resume(const Invocation& invocation, Io& io) {
  return pause_schedules(invocation, io, false);
}

Result<int> run_schedules_ledger(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(std::int64_t left, ticks_limit(invocation, kDefaultTicks));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  const std::string name = *invocation.argument("NAME");
  Table table({{.title = "NOMINAL", .whole = true},
               {.title = "TICKS", .align = Align::right, .drop = 1},
               {.title = "SOURCE", .whole = true},
               {.title = "STATE", .whole = true},
               {"JOB", Align::right},
               {.title = "JOB STATE", .whole = true},
               {.title = "WHY", .least = 16, .below = true}});
  std::int64_t before = 0;
  bool more = true;
  while (more && left > 0) {
    const int want = static_cast<int>(std::min<std::int64_t>(left, kSchedulesPage));
    MS_TRY_ASSIGN(const LedgerPage page, connection->jobs().ledger(name, want, before));
    for (const LedgerRow& row : page.rows) {
      --left;
      if (invocation.json) {
        std::string line;
        encode_ledger_row(row, line);
        print_line(io, line);
      } else {
        add_ledger_row(table, row, io);
      }
    }
    table.flush(io);
    more = page.next.has_value();
    before = page.next.value_or(0);
  }
  if (invocation.json) return kExitOk;
  if (table.empty()) io.out("no ticks\n");
  if (more) io.err("There are older entries; use --limit N or --all to show them.\n");
  return kExitOk;
}

Result<int> run_schedules_backfill(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto from, instant_flag(invocation, "from"));
  MS_TRY_ASSIGN(const auto to, instant_flag(invocation, "to"));
  if (!from || !to) {
    return invalid(from ? "to" : "from", fmt::format("--{}: must be given", from ? "to" : "from"));
  }
  Backfill request{.name = *invocation.argument("NAME"), .from = *from, .to = *to, .overlap = {}};
  if (const auto word = invocation.flag("overlap")) request.overlap = parse_overlap(*word);
  MS_TRY_ASSIGN(const auto connection, connect(invocation, kBackfillRetryFor));
  BackfillResponse sum;
  ProgressLine progress(io);
  for (;;) {
    auto done = connection->jobs().backfill_schedule(request);
    if (!done) {
      Error error = done.error();
      if (sum.fired + sum.skipped > 0) {
        error.message += fmt::format("; {} fired before; continue with --from {}",
                                     counted(sum.fired, "tick"), format_wall_time(request.from));
      }
      return error;
    }
    sum.fired += done->fired;
    sum.skipped += done->skipped;
    if (!done->next) break;
    request.from = *done->next;
    progress.show(
        fmt::format("{} fired, at {}", counted(sum.fired, "tick"), shown_time(io, request.from)));
  }
  progress.clear();
  if (invocation.json) {
    std::string line;
    encode_backfill_response(sum, line);
    print_line(io, line);
  } else {
    print_line(io, fmt::format("{} fired, {} skipped", counted(sum.fired, "tick"),
                               format_count(sum.skipped)));
  }
  return kExitOk;
}

Result<int> run_schedules_remove(const Invocation& invocation, Io& io) {
  return remove_schedules(invocation, io);
}

}  // namespace mainspring::cli
