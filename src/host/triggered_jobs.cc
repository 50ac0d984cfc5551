// Triggered folders as kinds of the engine's jobs: pools of runs, and the runs themselves.
#include "host/triggered_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "api/json.h"
#include "base/mutant.h"
#include "worker/auto_renew_lease.h"
#include "worker/exec.h"
#include "worker/program_words.h"
#include "worker/start_failure.h"

namespace mainspring {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kBusy = "Cannot start a new run since job is already running.";
constexpr std::string_view kStopped = "WebJobs are currently in \"stopped\" state.";
constexpr const char* kMissing = "the folder is missing";
// How long a job waits whose folder disappeared between claim and run; another host may have it.
constexpr Duration kElsewhere = 30s;
constexpr Duration kServerPause = 1s;
constexpr int kUntrimmed = std::numeric_limits<int>::max();  // until the run is certain to start
constexpr Duration kLostLeaseGrace = 4s;  // the lease is lost: end before another node starts it

}  // namespace

// The runs of one pool: a worker that claims the kinds of the pool's folders, which may change.
struct TriggeredJobs::Pool {
  Pool(HostParts& host, int concurrency_, Handler handler)
      : concurrency(concurrency_),
        jobs(host.jobs),
        runtime(host.jobs, host.clock, host.random, host.log, options_of(host, concurrency_)) {
    runtime.on_any(std::move(handler), {.until_stopped = true});
    runtime.claim_with([this](Claim claim, Duration wait, std::stop_token stop) {
      return this->claim(std::move(claim), wait, std::move(stop));
    });
  }

  static WorkerOptions options_of(HostParts& host, int concurrency) {
    WorkerOptions options;
    options.queues = {host.options.queue};
    options.slots = concurrency;
    options.lease = host.options.lease;
    options.language = kProgramLanguage;
    options.stops_on_command = false;
    options.graceful_stop = std::chrono::hours(1);  // each run ends after its stopping_wait_time
    return options;
  }

  void set(std::vector<std::string> wanted) MS_EXCLUDES(mutex) {
    std::stop_source old{std::nostopstate};
    {
      MutexLock lock(mutex);
      if (wanted == kinds) return;
      kinds = std::move(wanted);
      old = claiming;
      changed.notify_all();
    }
    old.request_stop();  // ends the claim for the old kinds
  }

  Result<ClaimResult> claim(Claim claim, Duration wait, std::stop_token stop) MS_EXCLUDES(mutex) {
    std::stop_source ended;
    const std::stop_callback on_stop(stop, [&] {
      ended.request_stop();
      MutexLock lock(mutex);
      changed.notify_all();
    });
    {
      MutexLock lock(mutex);
      if (kinds.empty() && !stop.stop_requested()) changed.wait_for(mutex, wait);
      if (kinds.empty() || stop.stop_requested()) return ClaimResult{};
      claim.kinds = kinds;
      claiming = ended;
    }
    return jobs.claim(std::move(claim), wait, ended.get_token());
  }

  const int concurrency;
  Jobs& jobs;
  Mutex mutex;
  CondVar changed;
  std::vector<std::string> kinds MS_GUARDED_BY(mutex);
  std::stop_source claiming MS_GUARDED_BY(mutex){std::nostopstate};
  WorkerRuntime runtime;  // last: its threads use the others
};

// One run, from the claim to its outcome.
struct TriggeredJobs::Attempt {
  const JobFolder& folder;
  const Request& request;
  const ClaimedJob& job;
  Context& context;
  std::stop_source stop;  // requested by the context, or when the lease is lost
  std::atomic<bool> lease_lost{false};
  std::atomic<bool> removed{false};  // its folder is gone
  std::atomic<bool> forget{false};   // and its data is to be removed too
  RunHistory history;
  RunRecord record;
  std::shared_ptr<JobLog> log;
};

TriggeredJobs::TriggeredJobs(HostParts& host, Registry& registry)
    : host_(host), registry_(registry) {
  // At 0: an alert on an increase does not see the increase that creates a series.
  for (const RunStatus ended :
       {RunStatus::success, RunStatus::failed, RunStatus::aborted, RunStatus::stopped}) {
    (void)ended_runs(ended);
  }
}

Counter& TriggeredJobs::ended_runs(RunStatus status) {
  return registry_.counter("mainspring_host_runs_total", "Ended runs of triggered job folders.",
                           {{"status", std::string(to_string(status))}});
}

TriggeredJobs::~TriggeredJobs() {
  stop();
}

void TriggeredJobs::set_pools(const std::map<std::string, std::vector<std::string>>& kinds) {
  for (auto& [name, pool] : pools_) {
    if (!kinds.contains(name)) pool->set({});
  }
  for (const auto& [name, list] : kinds) {
    const int concurrency = host_.isolation.pool(name).concurrency;
    std::unique_ptr<Pool>& pool = pools_[name];
    if (pool && pool->concurrency != concurrency) {
      pool->set({});
      retired_.push_back(std::move(pool));
    }
    if (!pool) {
      pool = std::make_unique<Pool>(
          host_, concurrency,
          [this](const ClaimedJob& job, Context& context) { return handle(job, context); });
      if (auto started = pool->runtime.start(); !started) {
        host_.log.error("a pool cannot run jobs",
                        {{"pool", name}, {"why", started.error().message}});
      }
    }
    pool->set(list);
  }
}

void TriggeredJobs::set(TriggeredFolders given) {
  std::vector<std::stop_source> homeless;
  {
    MutexLock lock(mutex_);
    if (stopped_) return;
    folders_.clear();
    std::map<std::string, std::vector<std::string>> kinds;
    for (JobFolder& folder : given.folders) {
      if (!sleeps(folder) && !given.unreadable.contains(folder.name)) {
        const std::string& pool = folder.settings.pool;
        kinds[pool.empty() ? "default" : pool].push_back(kind_of(folder.name));
      }
      want_schedule(folder);
      std::string name = folder.name;
      folders_.emplace(std::move(name), std::move(folder));
    }
    for (const std::string& name : given.missing) {
      if (scheduled_.contains(name)) holds_[name] = kMissing;
    }
    for (auto& [name, run] : active_) {
      if (folders_.contains(name)) continue;
      run.attempt->removed = true;
      homeless.push_back(run.attempt->stop);
    }
    set_pools(kinds);
    remember_schedules();
  }
  for (std::stop_source& run : homeless) run.request_stop();
  tend();
}

bool TriggeredJobs::sleeps(const JobFolder& folder) const {
  return !folder.error.empty() || folder.settings.freeze || host_.options.variables.stopped;
}

std::string TriggeredJobs::why_held(const JobFolder& folder) const {
  if (!folder.error.empty()) return folder.error;
  if (!folder.settings.schedule_error.empty()) return folder.settings.schedule_error;
  if (folder.settings.schedule.empty()) return "";
  if (folder.settings.freeze) return "frozen";
  if (host_.options.variables.stopped) return "WEBJOBS_STOPPED is set";
  return host_.options.variables.disable_schedule ? "WEBJOBS_DISABLE_SCHEDULE is set" : "";
}

// Only readable settings without a schedule remove a schedule. A held folder keeps its schedule.
void TriggeredJobs::want_schedule(const JobFolder& folder) {
  const std::string& name = folder.name;
  if (std::string hold = why_held(folder); !hold.empty()) {
    doomed_.erase(name);
    if (scheduled_.contains(name)) holds_[name] = std::move(hold);
    return;
  }
  if (folder.settings.schedule.empty()) {
    if (scheduled_.contains(name)) doomed_.insert(name);
    return;
  }
  doomed_.erase(name);
  const auto put = put_.find(name);
  if (holds_.erase(name) != 0 || put == put_.end() || !(put->second == schedule(folder))) {
    unput_.insert(name);
  }
  scheduled_.insert(name);
}

void TriggeredJobs::stop() {
  std::vector<Pool*> all;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    for (auto& [name, pool] : pools_) all.push_back(pool.get());
    for (auto& pool : retired_) all.push_back(pool.get());
  }
  for (Pool* pool : all) pool->runtime.request_stop();
  for (Pool* pool : all) pool->runtime.stop();
  tell_watchers(nullptr);
}

std::optional<JobFolder> TriggeredJobs::folder_of_kind(const std::string& kind) const {
  const std::size_t slash = kind.find('/');
  MutexLock lock(mutex_);
  const auto found = folders_.find(slash == std::string::npos ? kind : kind.substr(slash + 1));
  if (found == folders_.end()) return std::nullopt;
  return found->second;
}

Result<TriggeredJobs::Request> TriggeredJobs::read_request(const ClaimedJob& job) const {
  static constexpr JsonField<Request> kFields[] = {
      {"arguments", [](JsonReader& in, Request& r) { return in.string(r.arguments); }},
      {"trigger", [](JsonReader& in, Request& r) { return in.string(r.trigger); }},
      {"run_id", [](JsonReader& in, Request& r) { return in.string(r.run_id); }},
  };
  Request request;
  JsonReader in(job.args, JsonReader::Unknown::skip);
  if (!in.object(kFields, request) || !in.end()) return in.error();
  if (request.trigger.empty()) request.trigger = fmt::format("External - job {}", job.id);
  if (job.attempt > 1 || !time_of_run_id(request.run_id)) request.run_id.clear();
  return request;
}

HandlerResult TriggeredJobs::handle(const ClaimedJob& job, Context& context) {
  const std::optional<JobFolder> folder = folder_of_kind(job.kind);
  if (!folder) return Outcome(Snooze{kElsewhere});
  Result<Request> request = read_request(job);
  if (!request) {
    request.error().message = "args: " + request.error().message;
    return Outcome(Dead{"args", request.error().message});
  }
  Attempt attempt{
      .folder = *folder,
      .request = *request,
      .job = job,
      .context = context,
      .history = RunHistory(job_data_path(host_.options, JobType::triggered, folder->name))};
  auto lease = acquire(host_.jobs, host_.clock, host_.random, kind_of(folder->name),
                       {.on_lost =
                            [&attempt] {
                              attempt.lease_lost = true;
                              attempt.stop.request_stop();
                            },
                        .stop = context.stop_token()});
  const bool held = !lease && lease.error().code == ErrorCode::lease_held;
  if (MS_MUTANT(host_runs_overlap)) return run_alone(attempt);
  if (held) {
    return Outcome(CancelJob{std::string(kBusy)});
  }
  if (!lease) return Outcome(Snooze{kServerPause});
  return run_alone(attempt);
}

Result<void> TriggeredJobs::begin(Attempt& attempt) {
  RunRecord& run = attempt.record;
  run.id = attempt.request.run_id;
  run.trigger = attempt.request.trigger;
  run.started = host_.clock.now().wall;
  run.job = attempt.job.id;
  // The record exists already if this host accepted the run.
  const bool accepted = !run.id.empty() && attempt.history.get(run.id).has_value();
  if (accepted) {
    MS_TRY(attempt.history.update(run));
  } else {
    MS_TRY_ASSIGN(run.id, attempt.history.begin(run, kUntrimmed, {}));
  }
  MS_TRY_ASSIGN(std::unique_ptr<JobLog> log,
                JobLog::open({.path = attempt.history.log_path(run.id),
                              .instance = host_.instance,
                              .roll_bytes = 0,
                              .cap_bytes = host_.options.log_cap_bytes},
                             host_.clock));
  trim(attempt.folder.name, attempt.history, run.id);
  attempt.log = std::move(log);
  {
    MutexLock lock(mutex_);
    active_[attempt.folder.name] = {
        .id = run.id, .job = run.job, .log = attempt.log, .attempt = &attempt};
    attempt.removed = !folders_.contains(attempt.folder.name);  // since it was claimed
  }
  if (attempt.removed) attempt.stop.request_stop();
  tell_watchers(&run.id);
  return {};
}

HandlerResult TriggeredJobs::run_alone(Attempt& attempt) {
  if (auto begun = begin(attempt); !begun) return not_started(attempt, begun.error());
  const auto say = [&](std::string_view text) {
    (void)attempt.log->write(LogSource::system_info, text);
  };
  say("Status changed to Initializing");
  if (on_change) on_change();
  const auto words = attempt.request.arguments.empty()
                         ? Result<std::vector<std::string>>(std::vector<std::string>{})
                         : split_command(attempt.request.arguments);
  if (!words) return finish(attempt, words.error());
  const std::stop_callback on_stop(attempt.context.stop_token(),
                                   [&attempt] { attempt.stop.request_stop(); });
  const auto grace = [&]() -> Duration {
    const Duration wait = stopping_wait_time(attempt.folder);
    const bool lost = attempt.lease_lost || attempt.context.stop_reason() == StopReason::lease_lost;
    return lost ? std::min(wait, kLostLeaseGrace) : wait;
  };
  return finish(attempt, run_script(host_, {.folder = attempt.folder,
                                            .arguments = *words,
                                            .arguments_text = attempt.request.arguments,
                                            .run_id = attempt.record.id,
                                            .log = *attempt.log,
                                            .idle_timeout = host_.options.variables.idle_timeout,
                                            .stop = attempt.stop.get_token(),
                                            .grace = grace,
                                            .on_running = [&](int) {
                                              {
                                                MutexLock lock(mutex_);
                                                troubles_.erase(attempt.folder.name);
                                              }
                                              attempt.record.status = RunStatus::running;
                                              (void)attempt.history.update(attempt.record);
                                              say("Status changed to Running");
                                              if (on_change) on_change();
                                            }}));
}

void TriggeredJobs::tell_end(Attempt& attempt, RunStatus status) {
  RunRecord& run = attempt.record;
  run.status = status;
  run.ended = host_.clock.now().wall;
  // When the end of the run is visible, its log is complete. When the end of the log is visible,
  // the outcome is too, and the job can run again.
  (void)attempt.log->write(LogSource::system_info,
                           fmt::format("Status changed to {}", to_string(status)));
  (void)attempt.log->flush();
  if (auto good = attempt.history.update(run); !good) {
    host_.log.warn("how a run ended could not be written",
                   {{"job", attempt.folder.name}, {"why", good.error().message}});
  }
  {
    MutexLock lock(mutex_);
    active_.erase(attempt.folder.name);
  }
  attempt.log->close();
  ended_runs(status).add();
  if (host_.options.variables.log_triggered_jobs) {
    host_.log.info("a triggered job has ended", {{"job", attempt.folder.name},
                                                 {"run", run.id},
                                                 {"status", std::string(to_string(status))}});
  }
  if (on_change) on_change();
  if (on_end) on_end(attempt.folder.name, run);
  // The job's lease is held until the outcome is reported, so no other node runs it meanwhile.
  if (attempt.forget) remove_job_data(host_.options, JobType::triggered, attempt.folder.name);
}

bool TriggeredJobs::forget_at_end(const std::string& name) {
  MutexLock lock(mutex_);
  const auto found = active_.find(name);
  if (found == active_.end() || !found->second.attempt->removed) return false;
  found->second.attempt->forget = true;
  return true;
}

Outcome TriggeredJobs::finish(Attempt& attempt, const Result<ScriptEnd>& end) {
  const StopReason reason =
      attempt.lease_lost ? StopReason::lease_lost : attempt.context.stop_reason();
  if (!end && is_start_failure(end.error()) && reason == StopReason::none && !attempt.removed)
    return not_started(attempt, end.error());
  const bool succeeded = end && end->succeeded();
  const std::string how = end ? end->how() : end.error().message;
  if (end && end->process.signal == 0) attempt.record.exit_code = end->process.exit_code;
  if (end) attempt.record.peak_memory = end->process.peak_memory;
  if (!succeeded && reason == StopReason::none && !attempt.removed) {
    (void)attempt.log->write(LogSource::system_error, fmt::format("Job failed due to {}", how));
  }
  if (succeeded) {
    tell_end(attempt, RunStatus::success);
    return Complete{fmt::format("{{\"run\":\"{}\",\"exit_code\":0}}", attempt.record.id)};
  }
  if (attempt.removed && reason != StopReason::lease_lost) {
    tell_end(attempt, RunStatus::stopped);
    return CancelJob{"its folder was removed while it ran"};
  }
  switch (reason) {
    case StopReason::cancelled:
      tell_end(attempt, RunStatus::stopped);
      return CancelJob{};
    case StopReason::shutdown:
    case StopReason::lease_lost:
      tell_end(attempt, RunStatus::aborted);
      if (attempt.job.max_attempts > 1 || MS_MUTANT(host_repeats_aborted_run))
        return Snooze{};  // return the job: it runs again
      return Dead{"aborted", "the host stopped while it ran, and max_attempts is 1"};
    case StopReason::timeout:
    case StopReason::none:
      break;
  }
  tell_end(attempt, RunStatus::failed);
  return Retry{.error = fmt::format("run {}: {}", attempt.record.id, how),
               .after = {},
               .program = end ? program_end_of(end->process) : ProgramEnd()};
}

Outcome TriggeredJobs::not_started(Attempt& attempt, const Error& error) {
  const std::string& name = attempt.folder.name;
  Duration pause{0};
  {
    MutexLock lock(mutex_);
    Trouble& trouble = troubles_[name];
    pause = start_pause(++trouble.failures);
    trouble.error = "cannot be started: " + error.message;
    active_.erase(name);
  }
  host_.log.warn("a job folder's script cannot be started; its job goes back",
                 {{"job", name}, {"error", error.message}, {"pause", format_duration(pause)}});
  if (attempt.log) {
    (void)attempt.log->write(LogSource::system_error,
                             fmt::format("The script cannot be started: {}. The next try is in {}",
                                         error.message, format_duration(pause)));
    (void)attempt.log->flush();
    attempt.log->close();
  }
  // A run that was requested continues with the next try; a tick gets a run of its own then.
  if (attempt.request.run_id.empty() && !attempt.record.id.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(attempt.history.directory_of(attempt.record.id), ignored);
  }
  if (on_change) on_change();
  return Snooze{pause};
}

Result<std::string> TriggeredJobs::run(const std::string& name, const std::string& arguments,
                                       const std::string& trigger) {
  if (host_.options.variables.stopped) {
    return Error{.code = ErrorCode::conflict, .message = std::string(kStopped)};
  }
  const auto folder = folder_of_kind(kind_of(name));
  if (!folder) {
    return Error{.code = ErrorCode::not_found,
                 .message = fmt::format("triggered job \"{}\": there is none", name)};
  }
  if (!arguments.empty()) MS_TRY(split_command(arguments));
  const auto lease = host_.jobs.get_lease(kind_of(name));
  if (lease && !lease->holder.empty() && !MS_MUTANT(host_accepts_second_run)) {
    return Error{.code = ErrorCode::conflict, .message = std::string(kBusy)};
  }
  RunHistory history(job_data_path(host_.options, JobType::triggered, name));
  RunRecord record{.trigger = trigger, .started = host_.clock.now().wall};
  MS_TRY_ASSIGN(record.id, history.begin(record, kUntrimmed, {}));
  NewJob job{.queue = host_.options.queue, .kind = kind_of(name)};
  JsonWriter args(job.args = "");
  args.begin_object().key("arguments").string(arguments).key("trigger").string(trigger);
  args.key("run_id").string(record.id).end_object();
  job.max_attempts = folder->settings.max_attempts;
  job.timeout = folder->settings.timeout.value_or(kForever);
  if (!MS_MUTANT(host_accepts_second_run)) job.unique = Unique{.key = kind_of(name)};
  job.correlation_id = record.id;
  const auto made = host_.jobs.enqueue({.jobs = {job}});
  if (!made || made->jobs.front().duplicate) {
    std::error_code ignored;
    std::filesystem::remove_all(history.directory_of(record.id), ignored);
    if (!made) return made.error();
    return Error{.code = ErrorCode::conflict, .message = std::string(kBusy)};
  }
  trim(name, history, record.id);
  if (on_change) on_change();
  return record.id;
}

}  // namespace mainspring
