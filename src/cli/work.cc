// work: a worker runtime on a client, with the exec handler for every kind.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include "base/secret.h"
#include "cli/handlers.h"
#include "cli/work.h"
#include "cli/worker_end.h"
#include "env/private_memory.h"
#include "env/service_manager.h"
#include "model/queue_pattern.h"
#include "worker/continuous_timer.h"

namespace mainspring::cli {
namespace {

Result<WorkPlan> plan_of(const Invocation& invocation, const Io& io) {
  WorkPlan plan;
  plan.options.queues = invocation.all_flags("queue");
  if (plan.options.queues.empty()) return invalid("queue", "--queue: must be given at least once");
  for (const auto& queue : plan.options.queues) MS_TRY(check_queue_or_pattern("--queue", queue));
  plan.kinds = invocation.all_flags("kind");
  for (const std::string& kind : plan.kinds) MS_TRY(check_name("--kind", kind));

  const auto command = invocation.flag("exec");
  if (!command) return invalid("exec", "--exec: must be given: the program to run for each job");
  auto words = split_command(*command);
  if (!words) {
    return invalid("exec", fmt::format("--exec \"{}\": {}", *command, words.error().message));
  }
  plan.exec.argv = std::move(*words);
  plan.exec.directory = invocation.flag("directory").value_or("");
  if (!program_exists(plan.exec.argv[0], plan.exec.directory, io)) {
    return invalid("exec", fmt::format("--exec \"{}\": no executable program {}", *command,
                                       plan.exec.argv[0]));
  }

  MS_TRY_ASSIGN(const auto timeout, invocation.duration("timeout"));
  plan.kind_options.timeout = timeout.value_or(Duration{0});
  MS_TRY_ASSIGN(plan.kind_options.retry.first_delay, invocation.duration("retry-after"));
  MS_TRY_ASSIGN(const auto attempts, invocation.number("max-attempts", 1, kMaxMaxAttempts));
  plan.kind_options.retry.max_attempts = static_cast<int>(attempts.value_or(0));

  MS_TRY_ASSIGN(const auto job, invocation.number("job", 1, INT64_MAX));
  plan.job = job.value_or(0);
  for (const char* name : {"kind", "once", "drain", "slot", "timer"}) {
    if (plan.job == 0 || !invocation.has(name)) continue;
    return invalid("job", fmt::format("--job: cannot be given with --{}", name));
  }
  plan.options.version = invocation.flag("worker-version").value_or("");
  plan.options.language = kProgramLanguage;
  plan.once = invocation.has("once") || plan.job != 0;
  plan.drain = invocation.has("drain");
  if (plan.once && plan.drain) {
    return invalid("once", "--once and --drain: only one of them can be given");
  }
  MS_TRY_ASSIGN(plan.timer, timer_of(invocation));
  MS_TRY_ASSIGN(plan.slot, slot_of(invocation));
  if (plan.slot && (plan.once || plan.drain)) {
    return invalid("slot", "--slot: cannot be given with --once or --drain");
  }
  plan.options.lease = invocation.options.lease;
  const NumberRange slots = worker_slots(invocation.options);
  plan.options.slots = static_cast<int>(slots.last);
  if (plan.once || plan.slot) plan.options.slots = 1;
  if (slots.first < slots.last && plan.options.slots > 1 && !plan.timer) {
    plan.fewest_slots = static_cast<int>(slots.first);
  }
  MS_TRY_ASSIGN(const auto target, invocation.duration("target"));
  if (target && !plan.fewest_slots) {
    return invalid("target", "--target: needs --slots with a range, such as 2..16");
  }
  plan.target = target.value_or(30s);
  if (plan.timer) {
    // Each timer and its standby.
    const int least = 2 * plan.timer->timer_slots;
    if (invocation.options.slots == "0") plan.options.slots = std::max(plan.options.slots, least);
    plan.timer->lease = std::min(plan.timer->lease, plan.options.lease);
    plan.kind_options.until_stopped = true;
  }
  plan.options.graceful_stop = invocation.options.graceful_stop;
  for (const auto& mistakes : {plan.options.validate(), plan.exec.validate()}) {
    if (!mistakes.empty()) return mistakes.front();
  }
  return plan;
}

std::int64_t ended(const WorkerStats& stats) {
  return stats.completed + stats.failed + stats.dead + stats.snoozed + stats.deferred +
         stats.cancelled;
}

// Waits for the end of the worker: a signal, or the condition of --once and --drain.
void wait_for_reason(const WorkPlan& plan, Jobs& jobs, const WorkerRuntime& runtime,
                     const Clock& clock, StopSignals& signals, Io& io) {
  if (!plan.once && !plan.drain) return signals.wait();
  ProgressLine progress(io);
  DrainNotice notice;
  wait_until(signals, [&] {
    const WorkerStats stats = runtime.stats();
    progress.show(fmt::format("{} completed, {} failed, {} dead, {} running", stats.completed,
                              stats.failed, stats.dead, stats.running));
    if (!runtime.start_trouble().empty()) return true;
    if (plan.once) return ended(stats) + stats.stale + stats.refused + stats.lease_lost > 0;
    if (stats.running > 0 || stats.waiting > 0) return false;
    const auto queues = queues_of(jobs, plan.options.queues);
    if (!queues) return false;
    const auto empty = drained(jobs, *queues, plan.kinds);
    if (empty && *empty) return true;
    const auto waiting = waiting_retries(jobs, *queues, plan.kinds);
    if (!waiting) return false;
    if (const std::string text = notice.text(*waiting, clock.now()); !text.empty()) {
      progress.clear();
      io.err(text);
    }
    return false;
  });
}

void tell_stop(StopSignals& signals, Io& io) {
  if (signals.first() == 0 || !io.err_is_terminal) return;
  io.err(
      "Stopping: waiting for running jobs. Press Ctrl-C again to stop at once; their leases then "
      "expire and the jobs are retried.\n");
}

Result<int> end_of(const WorkPlan& plan, const WorkerRuntime& runtime, Refusal& refusal) {
  auto trouble = runtime.start_failure();
  if (trouble && (plan.once || plan.drain)) return std::move(*trouble);
  return refusal.exit_code();
}

void print_stats(const Invocation& invocation, Io& io, const WorkerStats& stats) {
  print_line(io, invocation.json ? fmt::format("{{{}}}", stats_json(stats)) : stats_text(stats));
}

}  // namespace

bool program_exists(const std::string& name, const std::string& directory, const Io& io) {
  const auto runs = [](const std::string& file) {
    std::error_code unknown;
    return access(file.c_str(), X_OK) == 0 && !std::filesystem::is_directory(file, unknown);
  };
  if (name.find('/') != std::string::npos) {
    const bool relative = !name.starts_with('/') && !directory.empty();
    return runs(relative ? directory + "/" + name : name);
  }
  const std::string path = io.env("PATH").value_or("/usr/bin:/bin");
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    if (end > at && runs(path.substr(at, end - at) + "/" + name)) return true;
    at = end + 1;
  }
  return false;
}

std::string stats_json(const WorkerStats& stats) {
  return fmt::format(
      "\"completed\":{},\"failed\":{},\"dead\":{},\"snoozed\":{},\"deferred\":{},"
      "\"cancelled\":{},\"stale\":{}",
      stats.completed, stats.failed, stats.dead, stats.snoozed, stats.deferred, stats.cancelled,
      stats.stale);
}

std::string stats_text(const WorkerStats& stats) {
  std::string line = fmt::format("{} completed, {}", format_count(stats.completed),
                                 counted(stats.failed, "failed attempt"));
  if (stats.dead > 0) line += fmt::format(", {} dead", format_count(stats.dead));
  if (stats.cancelled > 0) line += fmt::format(", {} cancelled", format_count(stats.cancelled));
  if (stats.snoozed > 0) line += fmt::format(", {} given back", format_count(stats.snoozed));
  if (stats.deferred > 0) line += fmt::format(", {} deferred", format_count(stats.deferred));
  if (stats.stale > 0) line += fmt::format(", {} lost to other workers", format_count(stats.stale));
  return line;
}

Result<int> run_work(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(WorkPlan plan, plan_of(invocation, io));
  MS_TRY_ASSIGN(const ServiceManager manager, ServiceManager::from_environment());
  StopSignals signals;
  Refusal refusal(signals);
  refusal.obey(plan.options);
  if (!invocation.options.allow_core) MS_TRY(keep_memory_private());
  const SystemClock clock;
  SystemRandom random;
  StderrLog log(log_level_of(invocation.options), log_format_of(invocation.options));
  SystemProcesses processes;
  MS_TRY_ASSIGN(const auto connection, connect(invocation, 15s));
  MS_TRY(connection->client->ready());  // report a wrong address now instead of retrying forever

  if (plan.drain) MS_TRY(check_visible(*connection->client, plan.options.queues));
  for (const std::string& queue : unused_queues(*connection->client, plan.options.queues)) {
    io.err(
        fmt::format("mainspring: warning: queue \"{}\" has never been used: check its name. Jobs "
                    "that are enqueued to it later are claimed.\n",
                    queue));
  }

  JobTokens job_tokens(*connection->client, clock);
  ExecOptions exec = plan.exec;
  std::atomic<std::int64_t> peak_memory{0};  // of a program
  if (plan.fewest_slots) {
    exec.prepare = [&](ProcessSpec& spec) -> Result<void> {
      spec.ended = [&](ProcessEnd& end) { note_peak(peak_memory, end); };
      return {};
    };
  }
  exec.access = program_access(invocation, job_tokens);
  TimerSlots timer_slots(kMaxTimerSlots);
  Jobs& jobs = connection->jobs();
  const auto handler = plan.timer ? timer_handler(jobs, clock, random, timer_slots,
                                                  exec_batch(processes, exec), *plan.timer)
                                  : exec_handler(processes, exec);
  if (plan.slot) {
    manager.ready(fmt::format("runs slot {}", plan.slot->name));
    const std::stop_callback hurry(signals.hurry(), [] { _exit(130); });
    return run_work_slot(invocation, io, plan, jobs, handler, signals);
  }
  WorkerRuntime runtime(jobs, clock, random, log, plan.options);
  if (plan.kinds.empty()) runtime.on_any(handler, plan.kind_options);
  for (const std::string& kind : plan.kinds) runtime.on(kind, handler, plan.kind_options);
  refusal.watch(runtime);
  if (plan.job != 0) {
    refusal.name_job(runtime, jobs, plan.job);
  } else if (plan.once) {
    Refusal::take_one(runtime, jobs);
  }
  const auto scaling = scale_slots(plan, *connection->client, runtime, peak_memory, log);
  MS_TRY(runtime.start());
  manager.ready(fmt::format("takes jobs of {}", fmt::join(plan.options.queues, ", ")));
  if (!invocation.json) {
    io.err(fmt::format("worker {} takes jobs of {} from {}, {} at a time. Ctrl-C stops it.\n",
                       runtime.incarnation().substr(0, 8), fmt::join(plan.options.queues, ", "),
                       without_password(invocation.options.server), plan.options.slots));
  }
  wait_for_reason(plan, connection->jobs(), runtime, clock, signals, io);
  log_stop(log, signals);
  if (refusal.stopped_by_operator() && !invocation.json)
    io.err("Stopping at the request of an operator. Running jobs finish first.\n");
  manager.stopping("waiting for running jobs");
  tell_stop(signals, io);
  const std::stop_callback hurry(signals.hurry(), [] { _exit(130); });
  runtime.stop();
  print_stats(invocation, io, runtime.stats());
  return end_of(plan, runtime, refusal);
}

}  // namespace mainspring::cli
