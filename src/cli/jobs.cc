// jobs list, show, cancel, retry; dead list, show, retry.
#include <fmt/format.h>

#include <algorithm>

#include "api/access_shapes.h"
#include "api/follow_ups.h"
#include "api/json.h"
#include "api/search_shapes.h"
#include "api/shapes.h"
#include "cli/dead.h"
#include "cli/handlers.h"
#include "cli/job_search.h"
#include "cli/sheet.h"
#include "cli/support.h"
#include "env/clock.h"
#include "model/fingerprint.h"
#include "model/program_end.h"

namespace mainspring::cli {
namespace {

constexpr int kJobsPage = 200;
constexpr std::int64_t kDefaultJobs = 50;

// Calls `page` with matching jobs, a page at a time, until `limit` jobs were printed. So a long
// list is never in memory as a whole.
template <class F>
Result<bool> for_each_page(Jobs& jobs, const JobFilter& filter, std::int64_t limit, F&& page) {
  JobId before = 0;
  while (limit > 0) {
    const int want = static_cast<int>(std::min<std::int64_t>(limit, kJobsPage));
    MS_TRY_ASSIGN(JobPage got, jobs.list(filter, want, before));
    page(got.jobs);
    limit -= static_cast<std::int64_t>(got.jobs.size());
    if (!got.next) return false;
    before = *got.next;
  }
  return true;  // there may be more
}

Result<std::int64_t> jobs_limit(const Invocation& invocation, std::int64_t fallback) {
  if (invocation.has("all")) {
    if (invocation.has("limit")) {
      return invalid("limit", "--limit and --all: only one of them can be given");
    }
    return std::numeric_limits<std::int64_t>::max();
  }
  MS_TRY_ASSIGN(const auto limit, invocation.number("limit", 1, 1'000'000'000));
  return limit.value_or(fallback);
}

// Run time of the last attempt of an ended job: "1.2s"; "" if it did not run.
std::string took_text(const Job& job) {
  const bool ran = job.finished_at && job.started_at && *job.finished_at >= *job.started_at;
  return ran ? short_duration(*job.finished_at - *job.started_at) : "";
}

// Details of a job in a list, besides its state and times.
std::string detail_of(const Job& job, WallTime now) {
  switch (job.state) {
    case JobState::scheduled:
    case JobState::retryable:
      return job.run_at > now ? relative_to(job.run_at, now) : "due";
    case JobState::running: {
      std::string text = job.cancel_requested ? "cancel requested" : "";
      if (job.progress) {
        text += fmt::format("{}{:.0f} % {}", text.empty() ? "" : ", ", job.progress->value * 100,
                            job.progress->text);
      }
      return text;
    }
    case JobState::cancelled:
    case JobState::dead:
      return job.reason;
    default:
      return "";
  }
}

// The last errors of jobs that failed. Lists come without them, so each job is read: of the first
// kMostErrors only.
class LastErrors {
 public:
  explicit LastErrors(Jobs& jobs) : jobs_(jobs) {}
  // "" of a job that has none, or that is gone.
  Result<std::string> of(const Job& summary) {
    const bool failed = summary.state == JobState::retryable || summary.state == JobState::dead;
    if (!failed || left_ == 0) return std::string();
    --left_;
    const auto job = jobs_.get(summary.id);
    if (!job && job.error().code != ErrorCode::expired) return job.error();
    if (!job) return std::string();
    return telling_line(job->errors.empty() ? job->description : job->errors.back().message);
  }

 private:
  static constexpr int kMostErrors = 200;
  Jobs& jobs_;
  int left_ = kMostErrors;
};

Result<int> print_jobs(const Invocation& invocation, Io& io, const JobFilter& filter) {
  MS_TRY_ASSIGN(const std::int64_t limit, jobs_limit(invocation, kDefaultJobs));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  const WallTime now = SystemClock().now().wall;
  Table table({{"ID", Align::right},
               {.title = "QUEUE", .keep = true},
               {.title = "KIND", .keep = true},
               {.title = "STATE", .whole = true},
               {.title = "ATTEMPT", .align = Align::right, .drop = 2},
               {.title = "AGE", .align = Align::right, .drop = 1},
               {.title = "TOOK", .align = Align::right, .if_any = true},
               {.title = "ENDED", .align = Align::right, .if_any = true},
               {.title = "DETAIL", .if_any = true},
               {.title = "ERROR", .if_any = true, .least = 40, .below = true}});
  LastErrors errors(connection->jobs());
  std::optional<Error> problem;
  std::int64_t shown = 0;
  auto more = for_each_page(connection->jobs(), filter, limit, [&](const std::vector<Job>& jobs) {
    for (const Job& job : jobs) {
      ++shown;
      if (invocation.json) {
        std::string line;
        encode_job(job, JobDetail::summary, line);
        print_line(io, line);
        continue;
      }
      const auto error = errors.of(job);
      if (!error) problem = error.error();
      table.add({{fmt::to_string(job.id)},
                 {job.queue},
                 {job.kind},
                 {std::string(to_string(job.state)), colour_of(job.state)},
                 {fmt::format("{}/{}", job.attempt, job.max_attempts)},
                 {format_age(now - job.created_at)},
                 {took_text(job)},
                 {job.finished_at ? format_age(now - *job.finished_at) : ""},
                 {detail_of(job, now)},
                 {error ? *error : "", Colour::red}});
    }
    table.flush(io);
  });
  if (!more) return more.error();
  if (problem) return *problem;
  if (invocation.json) return kExitOk;
  if (shown == 0) {
    io.out("no jobs\n");
    return kExitOk;
  }
  if (*more)
    io.err(fmt::format("Showing the newest {}; use --limit N or --all for more.\n", limit));
  return kExitOk;
}

// -- one job --------------------------------------------------------------------------------------

// One line for each attempt. On a terminal the error follows on lines of its own, whole: it is the
// purpose of this view.
std::string attempts_text(const Job& job, const Io& io) {
  const bool below = io.width > 0;
  Table table({{"ATTEMPT", Align::right},
               {.title = "WHEN", .whole = true},
               {"AFTER", Align::right},
               {"WORKER"},
               {"PROGRAM", Align::left, true},
               {.title = "ERROR", .if_any = true, .lines = true}});
  for (const AttemptError& error : job.errors) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(error.ran_for);
    table.add({{fmt::to_string(error.attempt)},
               {shown_time(io, error.at)},
               {format_duration(ms)},
               {error.worker.substr(0, 8)},
               {program_end_text(error.program)},
               {below ? "" : error.message, Colour::red}});
  }
  if (!below) return table.render(io);
  constexpr std::size_t kIndent = 4;
  const std::string rows = table.render(io);
  std::size_t end = rows.find('\n') + 1;
  std::string out = rows.substr(0, end);
  for (const AttemptError& error : job.errors) {
    const std::size_t next = rows.find('\n', end) + 1;
    out += rows.substr(end, next - end);
    end = next;
    for (std::string_view rest = error.message; !rest.empty();) {
      const std::size_t cut = rest.find('\n');
      const std::string line = printable(rest.substr(0, cut));
      out += coloured(io, wrapped(line, kIndent, static_cast<std::size_t>(io.width)), Colour::red);
      rest.remove_prefix(cut == std::string_view::npos ? rest.size() : cut + 1);
    }
  }
  return out;
}

std::string sheet_of_job(const Job& job, const Io& io) {
  const WallTime now = SystemClock().now().wall;
  Sheet sheet(io);
  sheet.add("id", fmt::to_string(job.id));
  sheet.add("queue", job.queue);
  sheet.add("kind", job.kind);
  std::string state = coloured(io, to_string(job.state), colour_of(job.state));
  std::string out = sheet.text() + fmt::format("{:<15} {}{}\n", "state", state,
                                               job.cancel_requested ? "  (cancel requested)" : "");
  Sheet rest(io);
  if (job.deferred) rest.add("deferred", "yes");
  if (job.quarantined) {
    rest.add("quarantined",
             fmt::format("{} since {}, {} attempts were lost",
                         job.quarantined->released ? "released," : "waits,",
                         shown_time(io, job.quarantined->since), job.quarantined->lost));
  }
  rest.add("reason", job.reason);
  rest.add("description", job.description);
  rest.add("attempt", fmt::format("{} of {}", job.attempt, job.max_attempts));
  rest.add("priority", fmt::to_string(job.priority));
  rest.add("args", job.args);
  rest.add("result", job.result);
  rest.add("checkpoint", job.checkpoint);
  if (job.progress) {
    rest.add("progress",
             fmt::format("{:.0f} %  {}", job.progress->value * 100, job.progress->text));
  }
  rest.add("warning", job.warning);
  rest.add("created_at", job.created_at, now);
  rest.add("run_at", is_terminal(job.state) ? std::nullopt : std::optional(job.run_at), now);
  rest.add("started_at", job.started_at, now);
  rest.add("finished_at", job.finished_at, now);
  rest.add("expires_at", job.expires_at, now);
  if (job.on_expiry != OnExpiry::cancel) rest.add("on_expiry", to_string(job.on_expiry));
  rest.add("timeout", format_duration(job.timeout));
  rest.add("worker", job.worker);
  rest.add("unique_key", job.unique_key);
  rest.add("tags", fmt::format("{}", fmt::join(job.tags, ", ")));
  rest.add("headers", job.headers);
  rest.add("correlation_id", job.correlation_id);
  rest.add("reply_to", job.reply_to);
  rest.add("reply_session", job.reply_session);
  if (job.trigger_depth != 0) rest.add("trigger_depth", fmt::to_string(job.trigger_depth));
  rest.add("session", job.session);
  if (job.on_dead != OnDead::skip) rest.add("session_on_dead", to_string(job.on_dead));
  rest.add("limit_key", job.limit_key);
  rest.add("then", encode_follow_ups(job.follow_ups));
  out += rest.text();
  return job.errors.empty() ? out : out + "\n" + attempts_text(job, io);
}

Result<int> show(const Invocation& invocation, Io& io, std::optional<JobState> must_be) {
  MS_TRY_ASSIGN(const std::vector<JobId> ids, ids_of(invocation, "ID"));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  // Prints the server's JSON unchanged: the server leaves out what the token may not see.
  MS_TRY_ASSIGN(const std::string body,
                connection->client->request("GET", fmt::format("/v1/jobs/{}", ids.at(0)), ""));
  MS_TRY_ASSIGN(const Job job, decode_job(body));
  if (must_be && job.state != *must_be) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format("job {} is {}, not {}; `mainspring jobs show {}` shows it",
                                        job.id, to_string(job.state), to_string(*must_be), job.id)};
  }
  if (invocation.json) {
    print_line(io, body);
  } else {
    io.out(sheet_of_job(job, io));
  }
  return kExitOk;
}

// Calls `change` for each id and prints the result.
template <class F>
Result<int> for_each_job(const Invocation& invocation, Io& io, F&& change) {
  MS_TRY_ASSIGN(const std::vector<JobId> ids, ids_of(invocation, "ID"));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  return for_each_of(io, ids, [&](JobId id) -> Result<void> {
    MS_TRY_ASSIGN(const std::string line, change(connection->jobs(), id));
    print_line(io, line);
    return {};
  });
}

}  // namespace

Result<JobFilter> filter_of(const Invocation& invocation) {
  JobFilter filter;
  filter.queue = invocation.flag("queue").value_or("");
  filter.kind = invocation.flag("kind").value_or("");
  filter.tag = invocation.flag("tag").value_or("");
  if (!filter.queue.empty()) MS_TRY(check_name("--queue", filter.queue));
  if (!filter.kind.empty()) MS_TRY(check_name("--kind", filter.kind));
  return filter;
}

Result<int> run_jobs_list(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const JobSearch search, search_of(invocation, io));
  const auto filter = job_filter_of(search, SystemClock().now().wall);
  if (!filter) return with_search_flags(filter.error());
  return print_jobs(invocation, io, *filter);
}

Result<int> run_jobs_show(const Invocation& invocation, Io& io) {
  return show(invocation, io, std::nullopt);
}

// "; cancelled at 2026-01-31T09:00:00Z by deploy", from the audit; "" = not there, or the caller
// may not read it.
std::string who_cancelled(Client& client, const Io& io, JobId id) {
  const std::string path =
      fmt::format("/v1/audit?limit=20&action=cancel_job&object=job/{}", id);
  const auto body = client.request("GET", path, "");
  const auto page = body ? decode_audit_page(*body) : Result<AuditPage>(body.error());
  if (!page) return "";
  // A repeated cancel is recorded too.
  const auto record = std::ranges::find_if(page->records, [](const AuditRecord& r) {
    return r.before.find(R"("state":"cancelled")") == std::string::npos;
  });
  if (record == page->records.end()) return "";
  return fmt::format("; cancelled at {} by {}", shown_time(io, record->at), record->who);
}

Result<int> run_jobs_why(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const std::vector<JobId> ids, ids_of(invocation, "ID"));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  for (const JobId id : ids) {
    MS_TRY_ASSIGN(const std::string body,
                  connection->client->request("GET", fmt::format("/v1/jobs/{}/why", id), ""));
    MS_TRY_ASSIGN(const WhyAnswer answer, decode_why(body));
    if (invocation.json) {
      print_line(io, body);
      continue;
    }
    const std::string who =
        answer.state == "cancelled" ? who_cancelled(*connection->client, io, id) : "";
    const std::string until =
        answer.until ? ", " + relative_to(*answer.until, SystemClock().now().wall) : "";
    print_line(io, fmt::format("{} {} ({}{}): {}{}", id, answer.state, answer.gate, until,
                               printable(answer.why), printable(who)));
  }
  return kExitOk;
}

Result<int> run_jobs_cancel(const Invocation& invocation, Io& io) {
  const std::string reason = invocation.flag("reason").value_or("");
  return for_each_job(invocation, io, [&](Jobs& jobs, JobId id) -> Result<std::string> {
    MS_TRY_ASSIGN(const CancelResult result, jobs.cancel(Cancel{.id = id, .reason = reason}));
    if (invocation.json) {
      std::string line;
      encode_cancel_response(id, result, line);
      return line;
    }
    if (result.state == JobState::running)
      return fmt::format(
          "{} running, its worker is "
          "notified",
          id);
    return fmt::format("{} {}", id, to_string(result.state));
  });
}

namespace {

Result<int> retry_each(const Invocation& invocation, Io& io, bool take_back) {
  return for_each_job(invocation, io, [&](Jobs& jobs, JobId id) -> Result<std::string> {
    MS_TRY_ASSIGN(const RetryResult result, jobs.retry({.id = id, .take_back = take_back}));
    if (invocation.json) {
      std::string line;
      encode_retry_response(id, result, line);
      return line;
    }
    return fmt::format("{} {}", id, to_string(result.state));
  });
}

}  // namespace

Result<int> run_jobs_retry(const Invocation& invocation, Io& io) {
  return retry_each(invocation, io, false);
}

Result<int> run_jobs_take_back(const Invocation& invocation, Io& io) {
  return retry_each(invocation, io, true);
}

Result<int> run_dead_list(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(JobFilter filter, filter_of(invocation));
  filter.state = JobState::dead;
  MS_TRY_ASSIGN(filter.from, past_time(invocation, io, "since"));
  MS_TRY_ASSIGN(filter.to, past_time(invocation, io, "until"));
  if (invocation.json) return print_jobs(invocation, io, filter);
  MS_TRY_ASSIGN(const std::int64_t limit, jobs_limit(invocation, kDefaultJobs));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  const WallTime now = SystemClock().now().wall;
  Table table({{"ID", Align::right},
               {.title = "QUEUE", .keep = true},
               {.title = "KIND", .keep = true},
               {.title = "ATTEMPTS", .align = Align::right, .drop = 2},
               {"DIED", Align::right},
               {"REASON"},
               {.title = "PEAK MEMORY", .align = Align::right, .if_any = true, .drop = 1},
               {.title = "LAST ERROR", .least = 40, .below = true}});
  std::optional<Error> problem;
  auto more = for_each_page(connection->jobs(), filter, limit, [&](const std::vector<Job>& jobs) {
    for (const Job& summary : jobs) {
      // Lists have no errors. The description is that of the last error.
      const Result<Job> job =
          limit > kJobsPage ? Result<Job>(summary) : connection->jobs().get(summary.id);
      if (!job) {
        if (job.error().code != ErrorCode::expired) problem = job.error();
        continue;
      }
      std::string why = job->description, memory;
      if (!job->errors.empty()) {
        const AttemptError& last = job->errors.back();
        why = last.message;
        if (last.program.peak_memory) memory = mebibytes_text(*last.program.peak_memory);
      }
      table.add({{fmt::to_string(job->id)},
                 {job->queue},
                 {job->kind},
                 {fmt::to_string(job->attempt)},
                 {format_age(now - job->finished_at.value_or(now))},
                 {job->reason},
                 {memory},
                 {telling_line(why), Colour::red}});
    }
    table.flush(io);
  });
  if (!more) return more.error();
  if (problem) return *problem;
  if (table.empty()) io.out("no dead jobs\n");
  if (*more)
    io.err(fmt::format("Showing the newest {}; use --limit N or --all for more.\n", limit));
  return kExitOk;
}

Result<int> run_dead_show(const Invocation& invocation, Io& io) {
  return show(invocation, io, JobState::dead);
}

Result<int> run_dead_retry(const Invocation& invocation, Io& io) {
  return run_jobs_retry(invocation, io);
}

}  // namespace mainspring::cli
