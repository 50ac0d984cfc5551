// enqueue: one job from flags, or many from a file; and waiting for the outcome.
#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "api/shapes.h"
#include "cli/enqueue_lines.h"
#include "cli/handlers.h"
#include "cli/support.h"
#include "env/clock.h"
#include "env/signals.h"

namespace mainspring::cli {
namespace {

constexpr std::size_t kMaxManyFileBytes = std::size_t{4} << 30;
constexpr Duration kDefaultWait = 1h;
constexpr Duration kRetryFor = 5s;

Result<std::string> args_of(const Invocation& invocation) {
  const auto given = invocation.argument("ARGS");
  if (!given) return std::string("{}");
  std::string text = *given;
  if (text == "-" || text.starts_with('@')) {
    MS_TRY_ASSIGN(text, read_file(text == "-" ? text : text.substr(1), kMaxArgsBytes));
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  }
  const auto valid = check_json("ARGS", text);
  if (!valid) {
    return invalid("ARGS",
                   fmt::format("{}; ARGS must be JSON, for example '{{\"path\":\"a.jpg\"}}', "
                               "@FILE or -",
                               valid.error().message));
  }
  return text;
}

Result<std::string> headers_of(const Invocation& invocation) {
  const std::vector<std::string>& given = invocation.all_flags("header");
  if (given.empty()) return std::string();
  std::string out;
  JsonWriter json(out);
  json.begin_object();
  std::vector<std::string> names;
  for (const std::string& header : given) {
    const std::size_t equals = header.find('=');
    const std::string name = header.substr(0, equals);
    if (equals == std::string::npos || name.empty()) {
      return invalid("header", fmt::format("--header \"{}\": must be NAME=VALUE", header));
    }
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      return invalid("header", fmt::format("--header \"{}\": {} is given twice", header, name));
    }
    names.push_back(name);
    if (names.size() > 1) out += ',';
    append_json_string(out, name);
    out += ':';
    append_json_string(out, header.substr(equals + 1));
  }
  return out + "}";
}

Result<std::optional<Unique>> unique_of(const Invocation& invocation) {
  const auto key = invocation.flag("unique");
  for (const char* other : {"unique-for", "on-conflict"}) {
    if (!key && invocation.has(other)) {
      return invalid(other, fmt::format("--{}: needs --unique KEY", other));
    }
  }
  if (!key) return std::optional<Unique>{};
  Unique unique{.key = *key};
  MS_TRY_ASSIGN(const auto window, invocation.duration("unique-for"));
  unique.window = window.value_or(Duration{0});
  if (const auto policy = invocation.flag("on-conflict")) {
    unique.on_conflict = parse_on_conflict(*policy).value_or(OnConflict::keep);
  }
  return std::optional<Unique>(unique);
}

// "priority 12: must …" from the model becomes "--priority 12: must …".
Error with_flag_names(Error error) {
  std::string flag = error.field;
  std::replace(flag.begin(), flag.end(), '_', '-');
  if (flag == "tags") flag = "tag";
  if (flag.starts_with("unique.")) flag = "unique";
  const bool is_flag = !flag.empty() && flag != "queue" && flag != "kind" && flag != "args";
  if (is_flag && error.message.starts_with(error.field)) {
    error.message = "--" + flag + error.message.substr(error.field.size());
  }
  return error;
}

Result<NewJob> job_of(const Invocation& invocation) {
  const auto queue = invocation.argument("QUEUE");
  const auto kind = invocation.argument("KIND");
  if (!queue || !kind) {
    return invalid(queue ? "KIND" : "QUEUE",
                   fmt::format("{} is missing. Usage: {}", queue ? "KIND" : "QUEUE",
                               usage_line(*invocation.command, {"enqueue"})));
  }
  NewJob job;
  job.queue = *queue;
  job.kind = *kind;
  MS_TRY_ASSIGN(job.args, args_of(invocation));
  MS_TRY_ASSIGN(const auto priority, invocation.number("priority", 0, kLowestPriority));
  job.priority = static_cast<int>(priority.value_or(5));
  MS_TRY_ASSIGN(const auto attempts, invocation.number("max-attempts", 1, kMaxMaxAttempts));
  job.max_attempts = static_cast<int>(attempts.value_or(20));
  MS_TRY_ASSIGN(job.delay, invocation.duration("delay"));
  if (const auto text = invocation.flag("run-at")) {
    const auto run_at = parse_wall_time(*text);
    if (!run_at) {
      return invalid("run_at", fmt::format("--run-at \"{}\": must be an instant such as "
                                           "2026-01-31T09:00:00Z",
                                           *text));
    }
    job.run_at = *run_at;
  }
  if (invocation.flag("timeout") == "none") {
    job.timeout = kForever;
  } else {
    MS_TRY_ASSIGN(const auto timeout, invocation.duration("timeout"));
    if (timeout) job.timeout = *timeout;
  }
  MS_TRY_ASSIGN(job.expires_in, invocation.duration("expires-in"));
  MS_TRY_ASSIGN(job.unique, unique_of(invocation));
  job.tags = invocation.all_flags("tag");
  MS_TRY_ASSIGN(job.headers, headers_of(invocation));
  job.correlation_id = invocation.flag("correlation-id").value_or("");
  job.reply_to = invocation.flag("reply-to").value_or("");
  const auto valid = validate(job);
  if (!valid) return with_flag_names(valid.error());
  return job;
}

// -- waiting --------------------------------------------------------------------------------------

int exit_of(JobState state) {
  if (state == JobState::completed) return kExitOk;
  if (state == JobState::dead) return kExitDead;
  if (state == JobState::cancelled) return kExitCancelled;
  return kExitNotYet;
}

std::string why_not(const Job& job) {
  std::string why = job.reason;
  if (!job.description.empty()) why += ": " + job.description;
  if (job.state == JobState::cancelled || job.errors.empty()) return why;
  const std::string& last = job.errors.back().message;
  if (last != job.description)
    why += fmt::format("{}{}", why.empty() ? "" : "; last error: ", last);
  return why;
}

// Waits for the end of a job, asking anew when the server restarts meanwhile.
Result<Job> wait_for_end(Jobs& jobs, JobId id, Duration limit, const StopSignals& signals, Io& io) {
  const SystemClock clock;
  const Instant end = clock.now().instant + limit;
  ProgressLine progress(io);
  while (true) {
    const Duration left = std::max(Duration{0}, end - clock.now().instant);
    const Duration slice = std::min<Duration>(left, 20s);
    MS_TRY_ASSIGN(Job job, jobs.wait(id, slice, signals.stop()));
    if (is_terminal(job.state) || signals.stop().stop_requested() || left <= slice) return job;
    progress.show(fmt::format("job {} is {}, attempt {} of {}", id, to_string(job.state),
                              job.attempt, job.max_attempts));
  }
}

// --wait: how long; --wait alone: an hour.
Result<Duration> wait_limit(const Invocation& invocation) {
  const auto text = invocation.flag("wait");
  if (!text || text->empty()) return kDefaultWait;
  MS_TRY_ASSIGN(const auto given, invocation.duration("wait"));
  return *given;
}

Result<int> wait_and_print(const Invocation& invocation, Io& io, Connection& connection, JobId id,
                           Duration limit) {
  const StopSignals signals;
  MS_TRY_ASSIGN(const Job job, wait_for_end(connection.jobs(), id, limit, signals, io));
  if (invocation.json) {
    std::string line;
    encode_job(job, JobDetail::full, line);
    print_line(io, line);
  } else if (job.state == JobState::completed) {
    if (!job.result.empty()) print_line(io, job.result);
  } else if (is_terminal(job.state)) {
    io.err(fmt::format("job {} is {}: {}\n", id, to_string(job.state), printable(why_not(job))));
  } else {
    io.err(
        fmt::format("job {} is still {} after {}; it goes on. `mainspring jobs show {}` shows "
                    "it\n",
                    id, to_string(job.state), format_duration(limit), id));
  }
  return exit_of(job.state);
}

Result<int> enqueue_one(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(NewJob job, job_of(invocation));
  MS_TRY_ASSIGN(const Duration limit, wait_limit(invocation));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, kRetryFor));
  Enqueue request;
  request.jobs.push_back(std::move(job));
  request.idempotency_key = invocation.flag("idempotency-key").value_or("");
  MS_TRY_ASSIGN(const EnqueueResult result, connection->jobs().enqueue(std::move(request)));
  if (invocation.has("wait")) {
    return wait_and_print(invocation, io, *connection, result.jobs.at(0).id, limit);
  }
  if (invocation.json) {
    std::string line;
    encode_enqueue_response(result, true, line);
    print_line(io, line);
  } else {
    const EnqueuedJob& made = result.jobs.at(0);
    print_line(io, fmt::format("{} {}{}", made.id, to_string(made.state),
                               made.duplicate ? " (was there already)" : ""));
  }
  return kExitOk;
}

// -- many -----------------------------------------------------------------------------------------

Result<int> enqueue_many(const Invocation& invocation, Io& io) {
  if (invocation.has("wait") || invocation.argument("ARGS")) {
    return invalid("many", "--many: cannot be given together with --wait or ARGS");
  }
  for (const Flag& flag : invocation.command->flags) {
    const bool fits = flag.name == "many" || flag.name == "idempotency-key";
    if (!fits && invocation.has(flag.name)) {
      return invalid(flag.name, fmt::format("--{}: cannot be given together with --many; say it in "
                                            "the lines of the file",
                                            flag.name));
    }
  }
  const std::string file = *invocation.flag("many");
  MS_TRY_ASSIGN(const std::string text, read_file(file, kMaxManyFileBytes));
  LineDefaults defaults{.queue = invocation.argument("QUEUE").value_or(""),
                        .kind = invocation.argument("KIND").value_or("")};
  MS_TRY_ASSIGN(std::vector<Enqueue> requests, requests_of_lines(file, text, defaults));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, kRetryFor));
  const std::string key = invocation.flag("idempotency-key").value_or("");
  std::int64_t jobs = 0;
  std::int64_t duplicates = 0;
  JobId first = 0;
  JobId last = 0;
  ProgressLine progress(io);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!key.empty()) requests[i].idempotency_key = i == 0 ? key : fmt::format("{}#{}", key, i);
    auto result = connection->jobs().enqueue(std::move(requests[i]));
    if (!result) {
      Error error = result.error();
      error.message += fmt::format("; {} enqueued before", counted(jobs, "job"));
      return error;
    }
    for (const EnqueuedJob& job : result->jobs) {
      if (first == 0) first = job.id;
      last = job.id;
      ++jobs;
      duplicates += job.duplicate ? 1 : 0;
      if (invocation.json) {
        print_line(io, fmt::format("{{\"id\":{},\"state\":\"{}\"{}}}", job.id, to_string(job.state),
                                   job.duplicate ? ",\"duplicate\":true" : ""));
      }
    }
    progress.show(fmt::format("{} enqueued", counted(jobs, "job")));
  }
  progress.clear();
  if (invocation.json) return kExitOk;
  std::string line = fmt::format("{} enqueued", counted(jobs - duplicates, "job"));
  if (jobs > 0) line += fmt::format(", ids {} to {}", first, last);
  if (duplicates > 0) line += fmt::format(", {} there already", format_count(duplicates));
  print_line(io, line);
  return kExitOk;
}

}  // namespace

Result<int> run_enqueue(const Invocation& invocation, Io& io) {
  if (invocation.has("many")) return enqueue_many(invocation, io);
  return enqueue_one(invocation, io);
}

}  // namespace mainspring::cli
