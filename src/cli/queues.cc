// queues list, show, pause, resume, set.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <climits>

#include "api/json.h"
#include "api/limit_shapes.h"
#include "api/shapes.h"
#include "cli/handlers.h"
#include "cli/job_options.h"
#include "cli/support.h"
#include "env/clock.h"

namespace mainspring::cli {
namespace {

std::int64_t count_of(const QueueStats& queue, JobState state) {
  return queue.counts[static_cast<std::size_t>(state)];
}

Cell number_cell(std::int64_t value, Colour colour) {
  return {format_count(value), value == 0 ? Colour::dim : colour};
}

std::string retention_text(const std::optional<Duration>& retention) {
  return retention ? format_duration(*retention) : "default";
}

Result<QueueStats> find_queue(Jobs& jobs, const std::string& name) {
  MS_TRY_ASSIGN(const std::vector<QueueStats> all, jobs.queues());
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const QueueStats& q) { return q.name == name; });
  if (found == all.end()) {
    return Error{.code = ErrorCode::not_found,
                 .message = fmt::format("there is no queue \"{}\"; a queue is made by the first "
                                        "job put into it",
                                        name)};
  }
  return *found;
}

// Changing a queue that does not exist is an error (a mistyped name), unless --create is given.
Result<void> changed(Result<void> result, const std::string& name) {
  if (result || result.error().code != ErrorCode::not_found) return result;
  return Error{.code = ErrorCode::not_found,
               .message = fmt::format("there is no queue \"{}\": check the name, or create the "
                                      "queue with --create",
                                      name)};
}

// "paused, 2h left: the disk is full"
std::string pause_state(const QueueStats& queue, WallTime now) {
  if (!queue.paused) return "";
  std::string text = "paused";
  if (!queue.pause) return text;
  if (queue.pause->until) text += fmt::format(", {} left", format_left(*queue.pause->until - now));
  if (!queue.pause->reason.empty()) text += ": " + queue.pause->reason;
  return text;
}

// --until and --for of a pause.
Result<std::optional<WallTime>> pause_end(const Invocation& invocation) {
  MS_TRY_ASSIGN(const auto until, instant_flag(invocation, "until"));
  MS_TRY_ASSIGN(const auto lasting, invocation.duration("for"));
  if (!lasting) return until;
  if (until) return invalid("for", "--for and --until: only one of them can be given");
  if (*lasting <= Duration(0) || *lasting > kMaxPause) {
    return invalid("for", fmt::format("--for {}: must be more than 0s and at most {}",
                                      format_duration(*lasting), format_duration(kMaxPause)));
  }
  return std::optional(SystemClock().now().wall + *lasting);
}

Result<int> pause_queues(const Invocation& invocation, Io& io, bool paused) {
  PauseQueue request{.paused = paused, .create = invocation.has("create")};
  if (paused) {
    MS_TRY_ASSIGN(request.until, pause_end(invocation));
    request.reason = invocation.flag("reason").value_or("");
    MS_TRY(check_pause(request, SystemClock().now().wall));
  }
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  return for_each_of(
      io, invocation.all_arguments("QUEUE"), [&](const std::string& name) -> Result<void> {
        MS_TRY(check_name("QUEUE", name));
        request.queue = name;
        MS_TRY(changed(connection->jobs().pause_queue(request), name));
        if (invocation.json) {
          std::string line;
          encode_paused(request, line);
          print_line(io, line);
        } else {
          const std::string until = request.until ? " until " + shown_time(io, *request.until) : "";
          print_line(io, fmt::format("{} {}{}", name, paused ? "paused" : "resumed", until));
        }
        return {};
      });
}

// nullopt = not given; a Duration, or nullopt inside for "default".
Result<std::optional<std::optional<Duration>>> retention_flag(const Invocation& invocation,
                                                              const std::string& name) {
  using Out = std::optional<std::optional<Duration>>;
  const auto text = invocation.flag(name);
  if (!text) return Out{};
  if (*text == "default") return Out(std::optional<Duration>{});
  MS_TRY_ASSIGN(const auto value, invocation.duration(name));
  return Out(value);
}

std::string rate_words(const RateLimit& rate) {
  const std::string rest = rate.burst == 0 ? "" : fmt::format(", {} after a rest", rate.burst);
  return fmt::format("{} per {} ({}{})", rate.count, format_duration(rate.per),
                     to_string(rate.kind), rest);
}

std::string limits_words(const QueueLimits& limits) {
  if (limits.is_default()) return "no limits";
  std::string out;
  if (limits.concurrency) out = fmt::format("{} at once", *limits.concurrency);
  if (limits.per_key.concurrency) {
    out += fmt::format("{}{} at once per limit key", out.empty() ? "" : ", ",
                       *limits.per_key.concurrency);
  }
  const auto add = [&](const std::string& words) { out += (out.empty() ? "" : ", ") + words; };
  if (limits.rate) add(rate_words(*limits.rate));
  if (limits.per_key.rate) add(rate_words(*limits.per_key.rate) + " per limit key");
  if (limits.per_key.fair) {
    std::string words = "limit keys alternate";
    std::vector<std::string> weights;
    for (const auto& [key, weight] : limits.per_key.weights)
      weights.push_back(fmt::format("{}: {}", key, weight));
    if (!weights.empty()) words += fmt::format(" ({})", fmt::join(weights, ", "));
    add(words);
  }
  if (limits.ageing)
    add(fmt::format("one priority better every {}", format_duration(*limits.ageing)));
  if (!limits.breaker.empty()) add("breaker " + limits.breaker);
  if (limits.quarantine_after) {
    const int lost = *limits.quarantine_after;
    add(lost == 0
            ? "no quarantine"
            : fmt::format("quarantine after {} lost {}", lost, lost == 1 ? "attempt" : "attempts"));
  }
  for (const auto& [kind, cost] : limits.costs) add(fmt::format("{} costs {}", kind, cost));
  if (!limits.searchable.empty())
    add(fmt::format("searchable by args.{}", fmt::join(limits.searchable, ", args.")));
  return out;
}

// `besides`: " or none", the values of the flag that are no number.
Result<int> limit_number(std::string_view flag, std::string_view text,
                         std::string_view besides = "") {
  const auto number = parse_count(text);
  if (!number || *number > INT_MAX) {
    return invalid(std::string(flag),
                   fmt::format("{} \"{}\": must be a whole number{}", flag, text, besides));
  }
  return static_cast<int>(*number);
}

Result<void> read_rate(const std::string& flag, const std::string& text,
                       std::optional<RateLimit>& limit) {
  if (text == "none") {
    limit.reset();
    return {};
  }
  const auto slash = text.find('/');
  if (slash == std::string::npos) {
    return invalid(flag, fmt::format("{} \"{}\": must be a number and a time, such as 100/1m, "
                                     "or none",
                                     flag, text));
  }
  RateLimit& rate = limit ? *limit : limit.emplace();
  MS_TRY_ASSIGN(rate.count, limit_number(flag, text.substr(0, slash)));
  const auto per = parse_duration(text.substr(slash + 1));
  if (!per) return invalid(flag, flag + ": " + per.error().message);
  rate.per = *per;
  return {};
}

// `prefix`: "" for the queue's rate, "key-" for the rate of each key.
Result<void> read_rate_flags(const Invocation& invocation, const std::string& prefix,
                             std::optional<RateLimit>& limit) {
  const std::string rate = "--" + prefix + "rate", of_kind = rate + "-kind",
                    of_burst = "--" + prefix + "burst";
  if (const auto text = invocation.flag(prefix + "rate")) MS_TRY(read_rate(rate, *text, limit));
  const auto kind_text = invocation.flag(prefix + "rate-kind"),
             burst = invocation.flag(prefix + "burst");
  if ((kind_text || burst) && !limit) {
    return invalid(rate, fmt::format("{} and {}: need {}", of_kind, of_burst, rate));
  }
  if (kind_text) {
    const auto kind = parse_rate_kind(*kind_text);
    if (!kind) {
      return invalid(
          of_kind, fmt::format("{} \"{}\": must be bucket, sliding or fixed", of_kind, *kind_text));
    }
    limit->kind = *kind;
    if (*kind != RateKind::bucket) limit->burst = 0;
  }
  if (burst) {
    MS_TRY_ASSIGN(limit->burst, limit_number(of_burst, *burst));
  }
  return {};
}

Result<void> read_concurrency(const Invocation& invocation, const std::string& flag,
                              std::optional<int>& limit) {
  const auto text = invocation.flag(flag);
  if (!text) return {};
  limit.reset();
  if (*text != "none") {
    MS_TRY_ASSIGN(limit, limit_number(fmt::format("--{}", flag), *text, " or none"));
  }
  return {};
}

// Parses KEY=N; KEY=none resets the key to the default.
Result<void> read_weight(std::string_view text, KeyLimits& limits) {
  const auto equals = text.rfind('=');
  const std::string key(text.substr(0, equals));
  const std::string number(equals == std::string_view::npos ? "" : text.substr(equals + 1));
  double weight = 0;
  const auto [end, bad] = std::from_chars(number.data(), number.data() + number.size(), weight);
  if (number == "none") {
    limits.weights.erase(key);
  } else if (bad != std::errc() || end != number.data() + number.size()) {
    return invalid("--weight", fmt::format("--weight \"{}\": must be a limit key, = and a "
                                           "number, such as acme=3, or acme=none",
                                           text));
  } else {
    limits.weights.insert_or_assign(key, weight);
  }
  return {};
}

// Parses KIND=N; KIND=1 or KIND=none resets the kind to the default.
Result<void> read_cost(std::string_view text, QueueLimits& limits) {
  const auto equals = text.rfind('=');
  const std::string kind(text.substr(0, equals));
  const std::string_view number = equals == std::string_view::npos ? "" : text.substr(equals + 1);
  if (number == "none") {
    limits.costs.erase(kind);
    return {};
  }
  const auto cost = parse_count(number);
  if (!cost || *cost > INT_MAX) {
    return invalid("--cost", fmt::format("--cost \"{}\": must be a kind, = and a whole number, "
                                         "such as render=4, or render=none",
                                         text));
  }
  limits.costs.insert_or_assign(kind, static_cast<int>(*cost));
  return {};
}

Result<void> read_order_flags(const Invocation& invocation, QueueLimits& limits) {
  if (const auto text = invocation.flag("ageing")) {
    limits.ageing.reset();
    if (*text != "none") {
      MS_TRY_ASSIGN(limits.ageing, invocation.duration("ageing"));
    }
  }
  if (const auto text = invocation.flag("fair")) {
    if (*text != "on" && *text != "off")
      return invalid("--fair", fmt::format("--fair \"{}\": must be on or off", *text));
    limits.per_key.fair = *text == "on";
    if (!limits.per_key.fair) limits.per_key.weights.clear();
  }
  if (const auto text = invocation.flag("quarantine-after")) {
    limits.quarantine_after.reset();
    if (*text != "default") {
      MS_TRY_ASSIGN(limits.quarantine_after,
                    limit_number("--quarantine-after", *text, " or default"));
    }
  }
  if (const auto& paths = invocation.all_flags("searchable"); !paths.empty())
    limits.searchable =
        paths == std::vector<std::string>{"none"} ? std::vector<std::string>() : paths;
  for (const std::string& text : invocation.all_flags("weight"))
    MS_TRY(read_weight(text, limits.per_key));
  for (const std::string& text : invocation.all_flags("cost")) MS_TRY(read_cost(text, limits));
  return {};
}

// Names the flag and its words, where the error names a field of the API and null.
Error with_limit_flags(Error error) {
  const auto replace = [&](std::string_view from, std::string_view to) {
    const std::size_t at = error.message.find(from);
    if (at != std::string::npos) error.message.replace(at, from.size(), to);
  };
  std::string flag = error.field;
  const bool of_keys = flag.starts_with("per_key.");
  if (of_keys) flag.erase(0, 8);
  if (flag == "rate.count" || flag == "rate.per") flag = "rate";
  if (flag == "rate.burst") flag = "burst";
  if (flag == "costs" || flag == "weights") flag.pop_back();
  std::replace(flag.begin(), flag.end(), '_', '-');
  if (of_keys && flag != "weight" && flag != "fair") flag = "key-" + flag;
  if (!flag.empty() && error.message.starts_with(error.field))
    error.message.replace(0, error.field.size(), "--" + flag);
  replace("null for no limit", "none");
  replace("null for none", "none");
  replace("null for", "default for");
  replace(of_keys ? "0 for per_key.rate.count" : "0 for rate.count", "0 for the rate's count");
  replace("set per_key.fair", "set --fair on");
  return error;
}

Result<void> read_limit_flags(const Invocation& invocation, QueueLimits& limits) {
  MS_TRY(read_concurrency(invocation, "concurrency", limits.concurrency));
  MS_TRY(read_concurrency(invocation, "key-concurrency", limits.per_key.concurrency));
  MS_TRY(read_order_flags(invocation, limits));
  if (const auto breaker = invocation.flag("breaker"))
    limits.breaker = *breaker == "none" ? "" : *breaker;
  MS_TRY(read_rate_flags(invocation, "", limits.rate));
  MS_TRY(read_rate_flags(invocation, "key-", limits.per_key.rate));
  const auto valid = validate(limits);
  if (!valid) return with_limit_flags(valid.error());
  limits = without_default_costs(std::move(limits));
  return {};
}

// "-" = no job is available, "?" = unknown.
std::string drain_of(const QueueStats& queue) {
  if (count_of(queue, JobState::available) == 0) return "-";
  if (!queue.backlog || !queue.backlog->drain) return "?";
  const Duration drain = *queue.backlog->drain;
  return drain < std::chrono::seconds(1) ? "1s" : format_age(drain);
}

// "1.5 arrive, 2.0 complete per second; median run time 120 ms"
std::string pace_of(const QueueBacklog& backlog) {
  std::string out = fmt::format("{:.1f} arrive, {:.1f} complete per second",
                                backlog.arrivals_per_second, backlog.completions_per_second);
  if (backlog.service) {
    out += fmt::format("; median run time {:.3g} ms",
                       static_cast<double>(backlog.service->count()) / 1e3);
  }
  return out;
}

}  // namespace

Result<int> run_queues_list(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const std::vector<QueueStats> queues, connection->jobs().queues());
  const WallTime now = SystemClock().now().wall;
  // A terminal that is too narrow for all columns shows those that have a value.
  constexpr int kAllColumns = 100;
  const bool narrow = io.width > 0 && io.width < kAllColumns;
  Table table({{.title = "QUEUE", .keep = true},
               {"AVAILABLE", Align::right},
               {"RUNNING", Align::right},
               {"SCHEDULED", Align::right, narrow},
               {"RETRYABLE", Align::right, narrow},
               {"COMPLETED", Align::right, narrow},
               {"CANCELLED", Align::right, narrow},
               {"DEAD", Align::right},
               {"OLDEST", Align::right, narrow},
               {"DRAIN", Align::right, narrow},
               {.title = "STATE", .least = 16, .below = true}});
  const auto cell = [&](std::int64_t count, Colour colour) {
    return narrow && count == 0 ? Cell{} : number_cell(count, colour);
  };
  const auto age = [&](std::string text) {
    return Cell{narrow && text == "-" ? "" : std::move(text)};
  };
  for (const QueueStats& queue : queues) {
    if (invocation.json) {
      std::string line;
      encode_queue(queue, now, line);
      print_line(io, line);
      continue;
    }
    table.add({{queue.name},
               number_cell(count_of(queue, JobState::available), Colour::none),
               number_cell(count_of(queue, JobState::running), Colour::blue),
               cell(count_of(queue, JobState::scheduled), Colour::none),
               cell(count_of(queue, JobState::retryable), Colour::yellow),
               cell(count_of(queue, JobState::completed), Colour::green),
               cell(count_of(queue, JobState::cancelled) + queue.expired, Colour::none),
               number_cell(count_of(queue, JobState::dead), Colour::red),
               age(queue.oldest_available ? format_age(now - *queue.oldest_available) : "-"),
               age(drain_of(queue)),
               {pause_state(queue, now), Colour::yellow}});
  }
  if (!invocation.json) io.out(table.empty() ? "no queues\n" : table.render(io));
  return kExitOk;
}

Result<int> run_queues_show(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const QueueStats queue,
                find_queue(connection->jobs(), *invocation.argument("QUEUE")));
  const WallTime now = SystemClock().now().wall;
  std::string out;
  if (invocation.json) {
    encode_queue(queue, now, out);
    print_line(io, out);
    return kExitOk;
  }
  const auto line = [&](std::string_view name, std::string_view value) {
    out += fmt::format("{:<20} {}\n", name, value);
  };
  line("queue", queue.name);
  line("paused", queue.paused ? "yes" : "no");
  if (queue.pause) {
    line("paused at", shown_time(io, queue.pause->at));
    if (!queue.pause->by.empty()) line("paused by", queue.pause->by);
    if (queue.pause->until) line("paused until", shown_time(io, *queue.pause->until));
    if (!queue.pause->reason.empty()) line("pause reason", printable(queue.pause->reason));
  }
  for (int i = 0; i < kJobStateCount; ++i) {
    const auto state = static_cast<JobState>(i);
    line(to_string(state), format_count(count_of(queue, state)));
  }
  line("expired", format_count(queue.expired));
  line("pruned", format_count(queue.pruned));
  line("enqueued ever", format_count(queue.enqueued));
  line("oldest available",
       queue.oldest_available ? format_age(now - *queue.oldest_available) : "-");
  line("drain time", drain_of(queue));
  if (queue.backlog) line("last 5 minutes", pace_of(*queue.backlog));
  line("limits", limits_words(queue.limits));
  if (!queue.limits.costs.empty() && queue.limits.concurrency)
    line("slots taken", fmt::format("{} of {}", queue.slots_taken, *queue.limits.concurrency));
  if (queue.quarantined > 0) line("in quarantine", format_count(queue.quarantined));
  if (queue.opens_at && *queue.opens_at > now)
    line("closed by its rate", fmt::format("for {}", format_left(*queue.opens_at - now)));
  line("retention_completed", retention_text(queue.retention_completed));
  line("retention_dead", retention_text(queue.retention_dead));
  io.out(out);
  return kExitOk;
}

Result<int> run_queues_remove(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  return for_each_of(io, invocation.all_arguments("QUEUE"),
                     [&](const std::string& name) -> Result<void> {
                       MS_TRY(check_name("QUEUE", name));
                       MS_TRY(connection->jobs().remove_queue(name));
                       if (invocation.json) {
                         std::string line;
                         encode_queue_removed(name, line);
                         print_line(io, line);
                       } else {
                         print_line(io, fmt::format("{} removed", name));
                       }
                       return {};
                     });
}

Result<int> run_queues_pause(const Invocation& invocation, Io& io) {
  return pause_queues(invocation, io, true);
}

Result<int> run_queues_resume(const Invocation& invocation, Io& io) {
  return pause_queues(invocation, io, false);
}

Result<int> run_queues_set(const Invocation& invocation, Io& io) {
  const std::string name = *invocation.argument("QUEUE");
  MS_TRY(check_name("QUEUE", name));
  MS_TRY_ASSIGN(const auto completed, retention_flag(invocation, "retention-completed"));
  MS_TRY_ASSIGN(const auto dead, retention_flag(invocation, "retention-dead"));
  if (!completed && !dead) {
    return invalid("", "nothing to set: give --retention-completed, --retention-dead or both");
  }
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  // The request replaces both: start from the current values.
  SetRetention request{
      .queue = name, .completed = {}, .dead = {}, .create = invocation.has("create")};
  const auto now = find_queue(connection->jobs(), name);
  if (now) {
    request.completed = now->retention_completed;
    request.dead = now->retention_dead;
  } else if (now.error().code != ErrorCode::not_found) {
    return now.error();
  }
  if (completed) request.completed = *completed;
  if (dead) request.dead = *dead;
  MS_TRY(changed(connection->jobs().set_retention(request), name));
  if (invocation.json) {
    std::string line;
    encode_retention_response(request, line);
    print_line(io, line);
  } else {
    print_line(io, fmt::format("{} keeps completed jobs {}, dead jobs {}", name,
                               retention_text(request.completed), retention_text(request.dead)));
  }
  return kExitOk;
}

Result<int> run_queues_limit(const Invocation& invocation, Io& io) {
  const std::string name = *invocation.argument("QUEUE");
  MS_TRY(check_name("QUEUE", name));
  constexpr std::string_view kOnce[] = {
      "concurrency",   "rate",      "rate-kind", "burst",  "key-concurrency", "key-rate",
      "key-rate-kind", "key-burst", "fair",      "ageing", "breaker",         "quarantine-after"};
  const bool some = std::any_of(std::begin(kOnce), std::end(kOnce), [&](std::string_view flag) {
    return invocation.flag(std::string(flag)).has_value();
  });
  const auto repeated = {"weight", "cost", "searchable"};
  if (!some && std::all_of(repeated.begin(), repeated.end(),
                           [&](const char* flag) { return invocation.all_flags(flag).empty(); }))
    return invalid(
        "",
        "nothing to set: give --concurrency, --rate, --key-concurrency, --key-rate, "
        "--cost, --fair, --weight, --ageing, --breaker, --quarantine-after or --searchable");
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  // The request replaces all: start from the current values.
  SetQueueLimits request{.queue = name, .limits = {}, .create = invocation.has("create")};
  const auto now = find_queue(connection->jobs(), name);
  if (now) {
    request.limits = now->limits;
  } else if (now.error().code != ErrorCode::not_found) {
    return now.error();
  }
  MS_TRY(read_limit_flags(invocation, request.limits));
  MS_TRY(changed(connection->jobs().set_queue_limits(request), name));
  if (invocation.json) {
    std::string line;
    encode_limits_response(request, line);
    print_line(io, line);
  } else {
    print_line(io, fmt::format("{}: {}", name, limits_words(request.limits)));
  }
  return kExitOk;
}

}  // namespace mainspring::cli
