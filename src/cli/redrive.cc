// dead redrive: all at once by a filter, or one by one: of a group, at a rate, by canary.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "api/json.h"
#include "cli/handlers.h"
#include "cli/redriver.h"
#include "cli/support.h"
#include "env/signals.h"
#include "model/fingerprint.h"

namespace mainspring::cli {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMaxShownIds = 20;
constexpr Duration kRetryFor = 15s;  // of the calls of a redrive that takes its time

// --dry-run: how many they are, and the first ones.
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

std::string json_of(const RedriveStep& step) {
  std::string line;
  JsonWriter w(line);
  w.begin_object().key("step").number(step.number).key("redriven").number(step.redriven);
  w.key("completed").number(step.completed).key("cancelled").number(step.cancelled);
  w.key("dead").number(step.dead).key("gone").number(step.gone);
  if (step.again) {
    w.key("again").begin_object().key("job").number(step.again->id);
    w.key("fingerprint").string(fingerprint_of(*step.again));
    w.key("reason").string(step.again->reason);
    w.key("description").string(step.again->description);
    w.key("state").string(to_string(step.again->state));
    w.key("attempt").number(step.again->attempt).end_object();
  }
  w.end_object();
  return line;
}

std::string text_of(const RedriveStep& step) {
  std::string ends;
  const auto add = [&](std::int64_t n, std::string_view how) {
    if (n > 0) ends += fmt::format("{}{} {}", ends.empty() ? ": " : ", ", n, how);
  };
  add(step.completed, "completed");
  add(step.cancelled, "cancelled");
  const int died = step.again && is_terminal(step.again->state) ? 1 : 0;
  add(step.dead - died, "died of something else");
  add(died, "died again of the same");
  add(step.again && died == 0 ? 1 : 0, "failed again of the same");
  add(step.gone, "not there any more");
  return fmt::format("step {}: {} redriven{}", step.number, counted(step.redriven, "job"), ends);
}

std::string why_of(const Job& job) {
  const std::string why = job.description.empty() ? job.reason : job.description;
  return printable(why.substr(0, why.find('\n')));
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
    const std::string why = again ? fmt::format("stopped: {} again of {} ({})", who_of(*again),
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
            print_line(io, invocation.json ? json_of(step) : text_of(step));
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

}  // namespace

Result<int> run_dead_redrive(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const JobFilter filter, filter_of(invocation));
  MS_TRY_ASSIGN(const auto limit, invocation.number("limit", 1, 1'000'000'000));
  if (const auto fingerprint = invocation.flag("fingerprint"))
    MS_TRY(check_fingerprint("--fingerprint", *fingerprint));
  Duration between{0};
  if (const auto rate = invocation.flag("rate")) {
    MS_TRY_ASSIGN(between, parse_rate(*rate));
  }
  const StopSignals signals;
  const bool one_by_one = invocation.has("fingerprint") || invocation.has("dry-run") ||
                          invocation.has("rate") || invocation.has("canary");
  MS_TRY_ASSIGN(const auto connection, connect(invocation, one_by_one ? kRetryFor : Duration{0}));
  const std::int64_t most = limit.value_or(std::numeric_limits<std::int64_t>::max());
  if (!one_by_one) {
    return redrive_all(invocation, io, connection->jobs(), filter, most, signals.stop());
  }
  MS_TRY_ASSIGN(const auto found, find_dead(invocation, *connection->client, most, signals.stop()));
  if (invocation.has("dry-run")) return show_found(invocation, io, found);
  return redrive_one_by_one(invocation, io, connection->jobs(), found, between, signals.stop());
}

}  // namespace mainspring::cli
