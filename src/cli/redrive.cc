// dead redrive: all matching jobs at once; or one by one: of a group, at a rate, with a canary;
// here or by a job of the server.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "api/redrive_shapes.h"
#include "cli/dead.h"
#include "cli/handlers.h"
#include "cli/support.h"
#include "env/signals.h"
#include "model/fingerprint.h"
#include "redrive/redrive_json.h"
#include "redrive/redriver.h"

namespace mainspring::cli {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMaxShownIds = 20;
constexpr Duration kRedriveRetryFor = 15s;  // for calls of a paced redrive

// --dry-run: the number of jobs, and the first ones.
int show_found(const Invocation& invocation, Io& io, const std::vector<DeadJob>& found) {
  std::vector<JobId> first;
  for (const DeadJob& job : found) {
    if (first.size() < kMaxShownIds) first.push_back(job.id);
  }
  if (invocation.json) {
    print_line(io, fmt::format(R"({{"dry_run":true,"jobs":{},"first":[{}]}})", found.size(),
                               fmt::join(first, ",")));
    return kExitOk;
  }
  print_line(io, fmt::format("{} would be available again{}{}{}",
                             counted(static_cast<std::int64_t>(found.size()), "job"),
                             found.empty() ? "" : ": ", fmt::join(first, ", "),
                             found.size() > first.size() ? ", …" : ""));
  return kExitOk;
}

std::string text_of_redrive(const RedriveStep& step) {
  std::string ends;
  const auto add = [&](std::int64_t n, std::string_view how) {
    if (n > 0) ends += fmt::format("{}{} {}", ends.empty() ? ": " : ", ", n, how);
  };
  add(step.completed, "completed");
  add(step.cancelled, "cancelled");
  const int died = step.again && is_terminal(step.again->state) ? 1 : 0;
  add(step.dead - died, "died with another error");
  add(died, "died with the same error");
  add(step.again && died == 0 ? 1 : 0, "failed with the same error");
  add(step.gone, "removed meanwhile");
  return fmt::format("step {}: {} redriven{}", step.number, counted(step.redriven, "job"), ends);
}

std::string why_of(const Job& job) {
  const std::string why = job.description.empty() ? job.reason : job.description;
  return printable(telling_line(why));
}

// "job 7 died", "attempt 4 of 6 of job 7 failed"
std::string who_of(const Job& job) {
  if (is_terminal(job.state)) return fmt::format("job {} died", job.id);
  return fmt::format("attempt {} of {} of job {} failed", job.attempt, job.max_attempts, job.id);
}

int end_of(const Invocation& invocation, Io& io, const RedriveReport& report,
           const std::optional<Job>& again) {
  using End = RedriveReport::End;
  if (report.end == End::done) {
    print_line(io, invocation.json
                       ? fmt::format(R"({{"redriven":{}}})", report.redriven)
                       : fmt::format("{} available again", counted(report.redriven, "job")));
    return kExitOk;
  }
  const std::string_view stopped = report.end == End::died_again     ? "died_again"
                                   : report.end == End::failed_again ? "failed_again"
                                                                     : "interrupted";
  if (invocation.json) {
    print_line(io, fmt::format(R"({{"redriven":{},"left":{},"stopped":"{}"}})", report.redriven,
                               report.left, stopped));
  } else {
    const std::string why =
        again ? fmt::format("stopped: {} again with fingerprint {} ({})", who_of(*again),
                            fingerprint_of(*again), why_of(*again))
              : "interrupted";
    io.err(fmt::format("mainspring: {}; {} available again, {} left dead\n", why,
                       counted(report.redriven, "job"), report.left));
  }
  return report.end == End::interrupted ? kExitNotYet : kExitProblems;
}

Result<int> redrive_one_by_one(const Invocation& invocation, Io& io, Jobs& jobs,
                               const std::vector<DeadJob>& found, Duration between,
                               const std::stop_token& stop) {
  ProgressLine line(io);
  std::optional<Job> again;
  const SystemClock clock;
  RedriveOptions options{
      .canary = invocation.has("canary") ? RedriveOptions::Canary::yes : RedriveOptions::Canary::no,
      .between = between,
      .stop = stop,
      .pause = [&](Duration length) { pause(length, stop); },
      .on_step =
          [&](const RedriveStep& step) {
            line.clear();
            again = step.again;
            print_line(io, invocation.json ? json_of(step) : text_of_redrive(step));
          },
      .progress = [&](const std::string& text) { line.show(text); }};
  Redriver redriver(jobs, clock, std::move(options));
  const auto done = redriver.run(found);
  line.clear();
  if (!done) {
    io.err(fmt::format("mainspring: {} available again, {} left dead\n",
                       counted(redriver.report().redriven, "job"), redriver.report().left));
    return done.error();
  }
  return end_of(invocation, io, redriver.report(), again);
}

Result<int> redrive_all(const Invocation& invocation, Io& io, Jobs& jobs, const JobFilter& filter,
                        std::int64_t limit, const std::stop_token& stop) {
  RedriveReport report;
  JobId after = 0;
  ProgressLine progress(io);
  while (limit > report.redriven && !stop.stop_requested()) {
    const int want = static_cast<int>(std::min<std::int64_t>(limit - report.redriven, 1000));
    MS_TRY_ASSIGN(const RedriveResult result,
                  jobs.redrive({.filter = filter, .limit = want, .after = after}));
    report.redriven += result.redriven;
    if (!result.next) break;
    after = *result.next;
    progress.show(fmt::format("{} so far", counted(report.redriven, "job")));
  }
  progress.clear();
  return end_of(invocation, io, report, std::nullopt);
}

// --background: converts the flags to a request.
Result<RedriveOrder> order_of(const Invocation& invocation,
                              const std::optional<std::int64_t>& limit) {
  if (invocation.has("dry-run"))
    return invalid("dry-run", "--dry-run: cannot be given together with --background");
  RedriveOrder order;
  order.filter.queue = invocation.flag("queue").value_or("");
  order.filter.kind = invocation.flag("kind").value_or("");
  order.filter.tag = invocation.flag("tag").value_or("");
  order.filter.fingerprint = invocation.flag("fingerprint").value_or("");
  order.pace.rate = invocation.flag("rate").value_or("");
  order.pace.canary = invocation.has("canary");
  order.pace.limit = limit.value_or(order.pace.limit);
  if (auto good = validate(order); !good) {
    good.error().message = "--" + good.error().message;
    return good.error();
  }
  return order;
}

Result<int> redrive_in_background(const Invocation& invocation, Io& io, const RedriveOrder& order) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const RedriveStarted started,
                connection->client->start_redrive(order.filter, order.pace));
  if (invocation.json) {
    print_line(io, fmt::format(R"({{"job":{},"duplicate":{}}})", started.job, started.duplicate));
    return kExitOk;
  }
  print_line(io, fmt::format("job {} {}", started.job,
                             started.duplicate ? "already redrives them" : "redrives them"));
  io.err(fmt::format("progress: mainspring jobs show {0}; stop it: mainspring jobs cancel {0}\n",
                     started.job));
  return kExitOk;
}

// A command without arguments must not start every dead job of every queue.
Result<void> check_meant(const Invocation& invocation) {
  const bool narrow = invocation.has("queue") || invocation.has("kind") || invocation.has("tag") ||
                      invocation.has("fingerprint");
  if (narrow && invocation.has("all"))
    return invalid("all", "--all: cannot be given together with a filter");
  if (narrow || invocation.has("all") || invocation.has("dry-run")) return {};
  return invalid("", "no filter: give --queue, --kind, --tag, --fingerprint, or --all");
}

}  // namespace

Result<int> run_dead_redrive(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const JobFilter filter, filter_of(invocation));
  MS_TRY(check_meant(invocation));
  MS_TRY_ASSIGN(const auto limit, invocation.number("limit", 1, 1'000'000'000));
  if (const auto fingerprint = invocation.flag("fingerprint"))
    MS_TRY(check_fingerprint("--fingerprint", *fingerprint));
  if (invocation.has("background")) {
    MS_TRY_ASSIGN(const RedriveOrder order, order_of(invocation, limit));
    return redrive_in_background(invocation, io, order);
  }
  const std::string rate = invocation.flag("rate").value_or("");
  auto between = parse_rate(rate);
  if (invocation.has("rate") && rate.empty()) between = invalid("rate", "rate: must be given");
  if (!between) {
    between.error().message = "--" + between.error().message;
    return between.error();
  }
  const StopSignals signals;
  const bool one_by_one = invocation.has("fingerprint") || invocation.has("dry-run") ||
                          invocation.has("rate") || invocation.has("canary");
  MS_TRY_ASSIGN(const auto connection,
                connect(invocation, one_by_one ? kRedriveRetryFor : Duration{0}));
  const std::int64_t most = limit.value_or(std::numeric_limits<std::int64_t>::max());
  if (!one_by_one) {
    return redrive_all(invocation, io, connection->jobs(), filter, most, signals.stop());
  }
  MS_TRY_ASSIGN(const auto found, find_dead(invocation, *connection->client, most, signals.stop()));
  if (invocation.has("dry-run")) return show_found(invocation, io, found);
  return redrive_one_by_one(invocation, io, connection->jobs(), found, *between, signals.stop());
}

}  // namespace mainspring::cli
