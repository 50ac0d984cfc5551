// trigger set, list, show, fire, ledger, pause, resume, remove.
#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "api/schedule_shapes.h"
#include "api/trigger_shapes.h"
#include "cli/handlers.h"
#include "cli/job_options.h"
#include "cli/schedule_files.h"
#include "cli/sheet.h"
#include "cli/support.h"
#include "env/clock.h"

namespace mainspring::cli {
namespace {

constexpr int kTriggersPage = 1000;
constexpr std::int64_t kDefaultEvents = 50;
constexpr std::size_t kMaxSecretFileBytes = 4096;
constexpr std::size_t kMaxTriggerBytes = 2 << 20;

struct End {
  std::string_view name;
  std::uint8_t bit;
};
constexpr End kEnds[] = {{"completed", FollowUp::kCompleted},
                         {"cancelled", FollowUp::kCancelled},
                         {"dead", FollowUp::kDead}};

std::string ends_of(const EndedSource& ended) {
  if (ended.on == FollowUp::kEveryEnd) return "any end";
  std::string out;
  for (const End& end : kEnds) {
    if ((ended.on & end.bit) == 0) continue;
    if (!out.empty()) out += ',';
    out += end.name;
  }
  return out;
}

std::string source_of(const Trigger& trigger) {
  if (trigger.folder) return trigger.folder->path + "/" + trigger.folder->pattern;
  if (!trigger.ended) return fmt::format("POST /hooks/{}", trigger.name);
  const EndedSource& ended = *trigger.ended;
  return fmt::format("{} of {}/{}", ends_of(ended), ended.queue.empty() ? "*" : ended.queue,
                     ended.kind.empty() ? "*" : ended.kind);
}

std::string state_of_trigger(const TriggerInfo& info) {
  return info.paused ? "paused" : "active";
}

// Without the newline.
Result<std::string> secret_of(const Invocation& invocation) {
  const auto file = invocation.flag("secret-file");
  if (!file) return std::string();
  MS_TRY_ASSIGN(std::string text, read_file(*file, kMaxSecretFileBytes));
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  if (!text.empty()) return text;
  return invalid("secret-file", fmt::format("--secret-file {}: is empty", *file));
}

Result<void> read_hook(const Invocation& invocation, Trigger& trigger) {
  const auto auth = invocation.flag("http");
  if (!auth) {
    for (const char* flag : {"event-id", "rate", "secret-file"}) {
      if (invocation.has(flag)) return invalid(flag, fmt::format("--{}: needs --http", flag));
    }
    return {};
  }
  HookSource& http = trigger.http.emplace();
  http.auth = parse_hook_auth(*auth).value_or(HookAuth::token);
  http.event_id = invocation.flag("event-id").value_or("");
  MS_TRY_ASSIGN(const auto rate, invocation.number("rate", 1, kMaxHookRate));
  if (rate) http.rate = static_cast<int>(*rate);
  return {};
}

Result<void> read_folder(const Invocation& invocation, Trigger& trigger) {
  const auto path = invocation.flag("folder");
  if (!path) {
    for (const char* flag : {"pattern", "stable", "node"}) {
      if (invocation.has(flag)) return invalid(flag, fmt::format("--{}: needs --folder", flag));
    }
    return {};
  }
  FolderSource& folder = trigger.folder.emplace();
  folder.path = *path;
  folder.pattern = invocation.flag("pattern").value_or("*");
  folder.node = invocation.flag("node").value_or("");
  MS_TRY_ASSIGN(const auto stable, invocation.duration("stable"));
  if (stable) folder.stable = *stable;
  return {};
}

Result<void> read_ended(const Invocation& invocation, Trigger& trigger) {
  const auto given = invocation.flag("ended");
  if (!given) {
    for (const char* flag : {"of-queue", "of-kind"}) {
      if (invocation.has(flag)) return invalid(flag, fmt::format("--{}: needs --ended", flag));
    }
    return {};
  }
  EndedSource& ended = trigger.ended.emplace();
  ended.queue = invocation.flag("of-queue").value_or("");
  ended.kind = invocation.flag("of-kind").value_or("");
  if (*given == "any") return {};
  ended.on = 0;
  for (std::string_view rest = *given; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    const auto* const end = std::find_if(std::begin(kEnds), std::end(kEnds),
                                         [&](const End& one) { return one.name == name; });
    if (end == std::end(kEnds)) {
      return invalid(
          "ended",
          fmt::format(
              "--ended {}: must be any, or completed, cancelled and dead, separated by commas",
              *given));
    }
    ended.on |= end->bit;
  }
  return {};
}

// Schedules are separate commands, so names of schedules are refused.
Result<void> refuse_schedule(const Invocation& invocation) {
  const auto given = invocation.flag("schedule");
  if (!given) return {};
  return invalid("schedule", fmt::format("--schedule {}: a trigger cannot fire by time; use "
                                         "mainspring schedules set {} --cron '{}' …",
                                         *given, *invocation.argument("NAME"), *given));
}

Result<PutTriggerRequest> request_of(const Invocation& invocation) {
  PutTriggerRequest request;
  MS_TRY(refuse_schedule(invocation));
  const std::string name = *invocation.argument("NAME");
  if (const auto file = invocation.flag("file")) {
    MS_TRY_ASSIGN(const std::string text, read_file(*file, kMaxTriggerBytes));
    auto read = decode_put_trigger_request(name, text);
    if (!read) {
      Error error = read.error();
      error.message = fmt::format("{}: {}", *file, error.message);
      return error;
    }
    request = std::move(*read);
  } else {
    request.trigger.name = name;
    MS_TRY(read_hook(invocation, request.trigger));
    MS_TRY(read_folder(invocation, request.trigger));
    MS_TRY(read_ended(invocation, request.trigger));
    if (!request.trigger.http && !request.trigger.folder && !request.trigger.ended)
      return invalid("http", "a trigger has a source: give --http, --folder or --ended");
    MS_TRY(read_template_flags(invocation, request.trigger.job));
    if (const auto good = validate(request.trigger); !good)
      return with_schedule_flags(good.error());
  }
  MS_TRY_ASSIGN(std::string secret, secret_of(invocation));
  if (!secret.empty()) request.secret = std::move(secret);
  if (invocation.has("paused")) request.paused = true;
  return request;
}

void print_trigger(const Invocation& invocation, Io& io, const TriggerInfo& info) {
  if (invocation.json) {
    std::string line;
    encode_trigger_info(info, line);
    return print_line(io, line);
  }
  const WallTime now = SystemClock().now().wall;
  Sheet sheet(io);
  sheet.add("name", info.trigger.name);
  sheet.add("source", source_of(info.trigger));
  if (info.trigger.http) {
    sheet.add("auth", std::string(to_string(info.trigger.http->auth)));
    sheet.add("event id", info.trigger.http->event_id);
    sheet.add("rate", fmt::format("{} per second", info.trigger.http->rate));
  }
  if (info.trigger.folder) {
    sheet.add("stable", format_duration(info.trigger.folder->stable));
    sheet.add("node", info.trigger.folder->node);
  }
  sheet.add("state", state_of_trigger(info));
  sheet.add("paused for", info.paused_reason);
  sheet.add("version", fmt::to_string(info.version));
  sheet.add("queue", info.trigger.job.queue);
  sheet.add("kind", info.trigger.job.kind);
  sheet.add("args", info.trigger.job.args);
  sheet.add("fired", format_count(info.fired));
  if (info.refused != 0) sheet.add("refused", format_count(info.refused));
  sheet.add("last fired", info.last_fired, now);
  sheet.add("last job", info.last_job == 0 ? "" : fmt::to_string(info.last_job));
  sheet.add("last event", info.last_event);
  io.out(sheet.text());
}

// Calls `change` for each of NAME….
template <class Change>
Result<int> for_each_name(const Invocation& invocation, Io& io, std::string_view what,
                          Change change) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  return for_each_of(
      io, invocation.all_arguments("NAME"), [&](const std::string& name) -> Result<void> {
        MS_TRY(change(connection->triggers(), name));
        std::string line;
        if (invocation.json) {
          JsonWriter w(line);
          w.begin_object().key("name").string(name).key(what).boolean(true).end_object();
        } else {
          line = fmt::format("{} {}", name, what);
        }
        print_line(io, line);
        return {};
      });
}

}  // namespace

Result<int> run_trigger_set(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const PutTriggerRequest request, request_of(invocation));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const PutTriggerAnswer answer, connection->client->put_trigger(request));
  const std::string& name = request.trigger.name;
  if (invocation.json) {
    std::string line;
    JsonWriter w(line);
    w.begin_object().key("name").string(name).key("version").number(answer.info.version);
    w.key("outcome").string(to_string(answer.result.outcome));
    if (!answer.secret.empty()) w.key("secret").string(answer.secret);
    w.end_object();
    print_line(io, line);
    return kExitOk;
  }
  print_line(io, fmt::format("{} {}, version {}", name, to_string(answer.result.outcome),
                             answer.info.version));
  if (!answer.secret.empty()) {
    print_line(io, fmt::format("secret {}", answer.secret));
    io.err("The secret is shown only once. Give it to the callers of the hook.\n");
  }
  return kExitOk;
}

Result<int> run_trigger_list(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  const WallTime now = SystemClock().now().wall;
  Table table({{.title = "NAME", .keep = true},
               {"SOURCE"},
               {.title = "QUEUE", .keep = true, .drop = 3},
               {.title = "KIND", .keep = true, .drop = 2},
               {.title = "STATE", .whole = true},
               {.title = "FIRED", .align = Align::right, .drop = 1},
               {.title = "LAST", .whole = true}});
  std::string after;
  for (;;) {
    MS_TRY_ASSIGN(const std::vector<TriggerInfo> page,
                  connection->triggers().triggers(after, kTriggersPage));
    for (const TriggerInfo& info : page) {
      if (invocation.json) {
        print_trigger(invocation, io, info);
        continue;
      }
      table.add({{info.trigger.name},
                 {source_of(info.trigger)},
                 {info.trigger.job.queue},
                 {info.trigger.job.kind},
                 {state_of_trigger(info), info.paused ? Colour::yellow : Colour::green},
                 {format_count(info.fired)},
                 {info.last_fired ? relative_to(*info.last_fired, now) : "-"}});
    }
    if (page.size() < std::size_t{kTriggersPage}) break;
    after = page.back().trigger.name;
  }
  if (!invocation.json) io.out(table.empty() ? "no triggers\n" : table.render(io));
  return kExitOk;
}

Result<int> run_trigger_show(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const TriggerInfo info,
                connection->triggers().get_trigger(*invocation.argument("NAME")));
  print_trigger(invocation, io, info);
  return kExitOk;
}

Result<int> run_trigger_fire(const Invocation& invocation, Io& io) {
  FireTriggerRequest event;
  event.event = invocation.flag("event").value_or("");
  for (const auto& [flag, into] : {std::pair{"body", &event.body},
                                   {"headers", &event.headers},
                                   {"query", &event.query},
                                   {"of-file", &event.file},
                                   {"of-job", &event.job}}) {
    if (!invocation.has(flag)) continue;
    MS_TRY_ASSIGN(*into, read_args(invocation.flag(flag), fmt::format("--{}", flag)));
  }
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const TriggerFired fired,
                connection->triggers().fire_trigger(*invocation.argument("NAME"), event));
  std::string line;
  if (invocation.json) {
    encode_trigger_fired(fired, line);
  } else if (fired.job == 0) {
    line = "the event may have fired before; no job was created";
  } else {
    line = fmt::format("{}{}", fired.job, fired.duplicate ? " (already fired)" : "");
  }
  print_line(io, line);
  return kExitOk;
}

Result<int> run_trigger_ledger(const Invocation& invocation, Io& io) {
  const std::string name = *invocation.argument("NAME");
  MS_TRY_ASSIGN(const auto given, invocation.number("limit", 1, 1'000'000'000));
  const std::int64_t limit = invocation.has("all") ? INT64_MAX : given.value_or(kDefaultEvents);
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  Table table({{"SEQ", Align::right},
               {.title = "FIRED", .whole = true},
               {"JOB", Align::right},
               {"EVENT"},
               {.title = "REASON", .least = 20, .below = true}});
  std::int64_t left = limit;
  for (std::int64_t before = 0; left > 0;) {
    const int most = static_cast<int>(std::min<std::int64_t>(left, kTriggersPage));
    MS_TRY_ASSIGN(TriggerEventPage page, connection->triggers().trigger_events(name, most, before));
    left -= std::ssize(page.rows);
    for (const TriggerEvent& row : page.rows) {
      if (invocation.json) {
        std::string line;
        encode_trigger_events({.rows = {row}, .next = {}}, line);
        // The only row of the list.
        const std::size_t begin = line.find('[') + 1;
        print_line(io, std::string_view(line).substr(begin, line.rfind(']') - begin));
        continue;
      }
      table.add({{fmt::to_string(row.seq)},
                 {shown_time(io, row.fired_at)},
                 {row.job == 0 ? "-" : fmt::to_string(row.job)},
                 {row.event.empty() ? "-" : row.event},
                 {row.reason.empty() ? "-" : row.reason}});
    }
    table.flush(io);
    if (!page.next) break;
    before = *page.next;
  }
  if (!invocation.json && table.empty()) io.out("it has not fired\n");
  return kExitOk;
}

Result<int> run_trigger_pause(const Invocation& invocation, Io& io) {
  const std::string reason = invocation.flag("reason").value_or("");
  return for_each_name(invocation, io, "paused", [&](Triggers& triggers, const std::string& name) {
    return triggers.pause_trigger({.name = name, .paused = true, .reason = reason});
  });
}

Result<int> run_trigger_resume(const Invocation& invocation, Io& io) {
  return for_each_name(invocation, io, "resumed", [](Triggers& triggers, const std::string& name) {
    return triggers.pause_trigger({.name = name, .paused = false});
  });
}

Result<int> run_trigger_remove(const Invocation& invocation, Io& io) {
  return for_each_name(invocation, io, "removed", [](Triggers& triggers, const std::string& name) {
    return triggers.remove_trigger(name);
  });
}

}  // namespace mainspring::cli
