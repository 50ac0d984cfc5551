// enqueue: one job from flags, or many from a file; and waiting for the outcome.
#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "api/shapes.h"
#include "cli/enqueue_lines.h"
#include "cli/handlers.h"
#include "cli/job_options.h"
#include "cli/sheet.h"
#include "cli/support.h"
#include "env/clock.h"
#include "env/signals.h"

namespace mainspring::cli {
namespace {

// The value of --wait after a blank is taken for ARGS.
Result<std::string> args_of(const Invocation& invocation) {
  const auto given = invocation.argument("ARGS");
  auto args = read_args(given, "ARGS");
  if (!args && invocation.flag("wait") == "" && given && parse_duration(*given)) {
    return invalid("ARGS", fmt::format("ARGS \"{}\": must be JSON; --wait takes its value as "
                                       "--wait={}",
                                       *given, *given));
  }
  return args;
}

constexpr std::size_t kMaxManyFileBytes = std::size_t{4} << 30;
constexpr Duration kDefaultWait = 1h;
constexpr Duration kRetryFor = 5s;

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
  MS_TRY(read_job_options(invocation, job));
  MS_TRY_ASSIGN(job.delay, invocation.duration("delay"));
  MS_TRY_ASSIGN(job.run_at, instant_flag(invocation, "run-at"));
  MS_TRY_ASSIGN(job.unique, unique_of(invocation));
  job.session = invocation.flag("session").value_or("");
  if (const auto policy = invocation.flag("session-on-dead"))
    job.on_dead = parse_on_dead(*policy).value_or(OnDead::skip);
  const auto valid = validate(job);
  if (!valid) return with_flag_names(valid.error());
  return job;
}

// Parses LEASE:TOKEN; lease names may contain colons, so the last colon counts.
Result<Fence> fence_of(const Invocation& invocation) {
  const auto text = invocation.flag("fence");
  if (!text) return Fence{};
  const std::size_t colon = text->rfind(':');
  const auto token = parse_count(colon == std::string::npos ? "" : text->substr(colon + 1));
  const std::string lease = text->substr(0, colon);
  if (!token || *token < 1 || !check_name("fence", lease)) {
    return invalid("fence", fmt::format("--fence \"{}\": must be LEASE:TOKEN, as `mainspring lease "
                                        "run` gives them to its command",
                                        *text));
  }
  return Fence{lease, *token};
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

// "job 4 is dead: boom"; further lines of a reason are indented.
std::string outcome_text(const Job& job) {
  std::string out = fmt::format("job {} is {}", job.id, to_string(job.state));
  const std::string why = why_not(job);
  if (why.empty()) return out + "\n";
  out += ": ";
  for (std::string_view rest = why;;) {
    const std::size_t end = rest.find('\n');
    out += printable(rest.substr(0, end)) + "\n";
    if (end == std::string_view::npos) return out;
    out += "  ";
    rest.remove_prefix(end + 1);
  }
}

// Waits for the end of a job; asks again if the server restarts meanwhile.
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

// The limit of --wait; --wait without a value means an hour.
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
    if (!job.result.empty()) print_line(io, without_c1(job.result));
  } else if (is_terminal(job.state)) {
    io.err(outcome_text(job));
  } else if (signals.stop().stop_requested()) {
    io.err(fmt::format("interrupted: job {} is {} and continues: `mainspring jobs show {}`\n", id,
                       to_string(job.state), id));
  } else {
    io.err(fmt::format("job {} is still {} after {} and continues: `mainspring jobs show {}`\n", id,
                       to_string(job.state), format_duration(limit), id));
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
  MS_TRY_ASSIGN(request.fence, fence_of(invocation));
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
                               made.duplicate ? " (already existed)" : ""));
  }
  return kExitOk;
}

// -- many -----------------------------------------------------------------------------------------

Result<int> enqueue_many(const Invocation& invocation, Io& io) {
  if (invocation.has("wait") || invocation.argument("ARGS")) {
    return invalid("many", "--many: cannot be given together with --wait or ARGS");
  }
  for (const Flag& flag : invocation.command->flags) {
    const bool fits = flag.name == "many" || flag.name == "idempotency-key" || flag.name == "fence";
    if (!fits && invocation.has(flag.name)) {
      return invalid(
          flag.name,
          fmt::format(
              "--{}: cannot be given together with --many; put it into the lines of the file",
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
  MS_TRY_ASSIGN(const Fence fence, fence_of(invocation));
  std::int64_t jobs = 0;
  std::int64_t duplicates = 0;
  JobId first = 0;
  JobId last = 0;
  ProgressLine progress(io);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!key.empty()) requests[i].idempotency_key = i == 0 ? key : fmt::format("{}#{}", key, i);
    requests[i].fence = fence;
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
