// The life of a continuous job: its engine job, its runs, its status.
#include "host/continuous_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "api/json.h"
#include "base/mutant.h"
#include "env/fd.h"
#include "env/private_files.h"
#include "host/deploy.h"
#include "host/files.h"
#include "worker/program_words.h"
#include "worker/start_failure.h"

namespace mainspring {
namespace {

using namespace std::chrono_literals;

// Pause before a call is repeated that the engine did not answer.
constexpr Duration kEnginePause = 1s;
// After this time, a singleton that could be claimed is looked for at other nodes.
constexpr Duration kSettled = 2s;
constexpr Duration kHurriedGrace = 4s;  // the lease is lost: end before another node starts it
constexpr int kMaxLeftovers = 100;
constexpr std::size_t kMaxStatusFileBytes = 4096;

}  // namespace

Duration RestartRule::after(bool succeeded, Duration lived) {
  const bool healthy = lived >= kHealthy;
  failures_ = succeeded || healthy ? 0 : failures_ + 1;
  if (healthy) return Duration(0);
  Duration wait = options_.restart_time;
  if (!options_.back_off) return wait;
  for (int i = kPatience; i < failures_ && wait < kLongest; ++i) wait *= 2;
  return std::max(options_.restart_time, std::min(wait, kLongest));
}

ContinuousJob::ContinuousJob(HostParts& host, std::string name)
    : JobRunner(host), name_(std::move(name)) {}

ContinuousJob::~ContinuousJob() {
  end(Why::shutdown);
}

std::string ContinuousJob::kind_of(const HostParts& host, const JobFolder& folder) {
  const bool everywhere = folder.settings.is_singleton && !MS_MUTANT(host_singleton_on_each_node);
  if (everywhere) return "continuous/" + folder.name;
  return fmt::format("continuous/{}:{}", folder.name, host.node);
}

JobView ContinuousJob::view() const {
  JobView view;
  {
    MutexLock lock(mutex_);
    view.status = status_;
    view.port = status_ == ContinuousStatus::running ? port_ : 0;
    view.job = job_;
  }
  view.detailed_status = fmt::format("{} - {}\r\n", host_.instance, to_string(view.status));
  return view;
}

void ContinuousJob::set_status(ContinuousStatus status) {
  std::shared_ptr<JobLog> log;
  {
    MutexLock lock(mutex_);
    if (status_ == status) return;
    log = log_;
  }
  // The log line comes before the status becomes visible.
  if (log) {
    (void)log->write(LogSource::system_info,
                     fmt::format("Status changed to {}", to_string(status)));
  }
  {
    MutexLock lock(mutex_);
    status_ = status;
  }
  write_status_file(status);
  if (on_change) on_change();
}

void ContinuousJob::rest() {
  set_status(ContinuousStatus::stopped);
}

// The status file {data}/status_{instance} for people who look at the data directory. No other host
// writes there, so files of other instances are from earlier names of this host.
void ContinuousJob::write_status_file(ContinuousStatus status) {
  std::string json = "{\"Status\":";
  append_json_string(json, to_string(status));
  json += "}";
  const std::string directory = job_data_path(host_.options, JobType::continuous, name_);
  const std::string name = "status_" + host_.instance;
  std::error_code ignored;
  (void)make_private_directories(directory);
  std::vector<std::filesystem::path> old;
  for (std::filesystem::directory_iterator it(directory, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    const std::string other = it->path().filename().string();
    if (other == name || !other.starts_with("status_") || other.size() != name.size()) continue;
    // The job may keep its own files there too.
    const auto text = read_whole_file(it->path().string(), kMaxStatusFileBytes);
    if (text && text->has_value() && (*text)->starts_with("{\"Status\":\"")) {
      old.push_back(it->path());
    }
  }
  for (const std::filesystem::path& path : old) std::filesystem::remove(path, ignored);
  // Renamed into place, so that a reader sees either the old or the new file.
  const std::string fresh = directory + "/.new_" + name;
  ::unlink(fresh.c_str());
  const Fd file(open_private(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW));
  if (!file || !write_all(file.get(), json, fresh)) return;
  std::filesystem::rename(fresh, directory + "/" + name, ignored);
}

// Cancels jobs of earlier processes of this node: their process is gone, and no other node runs
// them.
void ContinuousJob::cancel_leftovers(const std::string& kind) {
  for (JobState state :
       {JobState::running, JobState::available, JobState::scheduled, JobState::retryable}) {
    const auto page = host_.jobs.list({.queue = host_.options.queue, .kind = kind, .state = state},
                                      kMaxLeftovers, 0);
    if (!page) return;
    for (const Job& job : page->jobs) {
      (void)host_.jobs.cancel({job.id, "aborted: the host that ran it has ended"});
    }
  }
}

void ContinuousJob::cancel_job(const JobFolder& folder, JobId id) {
  if (id == 0) return;
  const Why reason = why();
  const bool singleton = folder.settings.is_singleton;
  if (singleton && (reason == Why::shutdown || reason == Why::changed)) return;
  // If another node waits for the singleton, it has claimed the job by then and continues it.
  const auto job = singleton ? host_.jobs.wait(id, kSettled, {}) : host_.jobs.get(id);
  if (!job || is_terminal(job->state) || job->state == JobState::running) return;
  static constexpr std::string_view kReasons[] = {"changed", "disabled", "removed", "shutdown"};
  (void)host_.jobs.cancel({id, std::string(kReasons[static_cast<std::size_t>(reason)])});
}

// Returns whether another node runs the singleton.
bool ContinuousJob::look_for_others(JobId id) {
  const auto job = host_.jobs.get(id);
  MutexLock lock(mutex_);
  return job && job->state == JobState::running && job->worker != worker_;
}

void ContinuousJob::keep_job(const JobFolder& folder, const std::string& kind,
                             std::stop_token stop) {
  NewJob job{.queue = host_.options.queue, .kind = kind};
  JsonWriter args(job.args = "");
  args.begin_object().key("name").string(name_).key("run_command").string(folder.run_command());
  args.key("node").string(host_.node).end_object();
  job.max_attempts = kMaxMaxAttempts;
  job.timeout = folder.settings.timeout.value_or(kForever);
  std::string key = kind;
  if (!folder.settings.is_singleton) {
    MutexLock lock(mutex_);
    key += "/" + worker_;
  }
  job.unique = Unique{.key = std::move(key)};
  const auto made = host_.jobs.enqueue({.jobs = {job}});
  if (!made) {
    host_.log.warn("a continuous job cannot be started yet",
                   {{"job", name_}, {"why", made.error().message}});
    return wait_for_stop(stop, kEnginePause);
  }
  const JobId id = made->jobs.front().id;
  {
    MutexLock lock(mutex_);
    job_ = id;
  }
  await_end(folder, id, stop);
}

// Waits for the engine job's end. A singleton is looked for at other nodes when one of them had
// time to claim it: soon after the start, and after each restart time.
void ContinuousJob::await_end(const JobFolder& folder, JobId id, std::stop_token stop) {
  {
    MutexLock lock(mutex_);
    look_at_ = host_.clock.now().instant + kSettled;
  }
  while (!stop.stop_requested()) {
    std::stop_source wake;
    Instant look = Instant::never();
    {
      MutexLock lock(mutex_);
      wake_ = wake;
      if (folder.settings.is_singleton) look = look_at_;
    }
    const std::stop_callback on_stop(stop, [&wake] { wake.request_stop(); });
    const Instant now = host_.clock.now().instant;
    const Duration limit = look == Instant::never() ? kForever : std::max(Duration(0), look - now);
    const auto seen = host_.jobs.wait(id, limit, wake.get_token());
    if (!seen && seen.error().code == ErrorCode::unavailable) {
      wait_for_stop(stop, kEnginePause);
      continue;
    }
    if (!seen || is_terminal(seen->state)) {
      if (stop.stop_requested()) return;
      host_.log.warn("a continuous job's engine job was ended; it is started again",
                     {{"job", name_}, {"id", fmt::to_string(id)}});
      if (!folder.settings.is_singleton) set_status(ContinuousStatus::pending_restart);
      // A node that found no folder for the singleton may have ended its job.
      return wait_for_stop(stop,
                           folder.settings.is_singleton ? kEnginePause : restart_time(folder));
    }
    if (host_.clock.now().instant < look) continue;
    if (look_for_others(id)) set_status(ContinuousStatus::inactive_instance);
    MutexLock lock(mutex_);
    if (look_at_ == look) look_at_ = Instant::never();
  }
}

Duration ContinuousJob::restart_time(const JobFolder& folder) const {
  return folder.settings.restart_time.value_or(host_.options.variables.restart_time);
}

void ContinuousJob::serve(const JobFolder& folder, std::stop_token stop) {
  const std::shared_ptr<JobLog> log = open_log(folder, stop);
  if (log == nullptr) return;
  {
    MutexLock lock(mutex_);
    log_ = log;
  }
  const std::string kind = kind_of(host_, folder);
  RestartRule rule({.restart_time = restart_time(folder),
                    .back_off = folder.settings.restart_back_off && !host_.options.strict});
  WorkerOptions options{.queues = {host_.options.queue}, .slots = 1, .lease = host_.options.lease};
  options.graceful_stop = stopping_wait_time(folder) + 10s;
  options.language = kProgramLanguage;
  options.stops_on_command = false;
  WorkerRuntime runtime(host_.jobs, host_.clock, host_.random, host_.log, options);
  runtime.on(kind,
             [&](const ClaimedJob& job, Context& context) {
               return run_once(folder, *log, rule, job, context);
             },
             {.until_stopped = true});
  {
    MutexLock lock(mutex_);
    worker_ = runtime.incarnation();
  }
  if (!folder.settings.is_singleton && !MS_MUTANT(host_forgets_earlier_lives)) {
    cancel_leftovers(kind);
  }
  if (auto started = runtime.start(); !started) {
    host_.log.error("a continuous job cannot be run",
                    {{"job", name_}, {"why", started.error().message}});
    return wait_for_stop(stop, kForever);
  }
  set_status(ContinuousStatus::starting);
  while (!stop.stop_requested()) keep_job(folder, kind, stop);
  if (why() == Why::disabled) set_status(ContinuousStatus::disabling);
  set_status(ContinuousStatus::stopping);
  runtime.stop();
  JobId last = 0;
  {
    MutexLock lock(mutex_);
    last = job_;
  }
  cancel_job(folder, last);
  set_status(ContinuousStatus::stopped);
}

HandlerResult ContinuousJob::run_once(const JobFolder& folder, JobLog& log, RestartRule& rule,
                                      const ClaimedJob&, Context& context) {
  log.begin_run();
  const auto grace = [&]() -> Duration {
    const Duration wait = stopping_wait_time(folder);
    return context.stop_reason() == StopReason::lease_lost ? std::min(wait, kHurriedGrace) : wait;
  };
  const Result<ScriptEnd> end = run_script(host_, {.folder = folder,
                                                   .arguments = {},
                                                   .arguments_text = "",
                                                   .run_id = "",
                                                   .log = log,
                                                   .liveness = true,
                                                   .stop = context.stop_token(),
                                                   .grace = grace,
                                                   .on_running = [this](int port) {
                                                     {
                                                       MutexLock lock(mutex_);
                                                       port_ = port;
                                                     }
                                                     set_status(ContinuousStatus::running);
                                                   }});
  return outcome(folder, log, rule, end, context);
}

void ContinuousJob::look_again_in(Duration time) {
  std::stop_source wake{std::nostopstate};
  {
    MutexLock lock(mutex_);
    look_at_ = host_.clock.now().instant + time;
    wake = wake_;
  }
  wake.request_stop();
}

Outcome ContinuousJob::outcome(const JobFolder& folder, JobLog& log, RestartRule& rule,
                               const Result<ScriptEnd>& end, Context& context) {
  const bool succeeded = end && end->succeeded();
  if (!end) {
    (void)log.write(LogSource::system_error, end.error().message);
  } else if (succeeded) {
    set_status(ContinuousStatus::success);
  } else if (!context.stop_requested() || context.stop_reason() == StopReason::timeout) {
    (void)log.write(LogSource::system_error, fmt::format("Job failed due to {}", end->how()));
  }
  const StopReason stopped = context.stop_reason();
  if (stopped != StopReason::none && stopped != StopReason::timeout) {
    set_status(ContinuousStatus::stopped);
    if (stopped == StopReason::lease_lost) look_again_in(kSettled);
    if (stopped == StopReason::cancelled) return CancelJob{};
    return Snooze{};  // return the job; the code that disables it cancels it
  }
  const Duration wait = rule.after(succeeded, end ? end->lived : Duration(0));
  (void)log.write(LogSource::system_info,
                  fmt::format("Process went down, waiting for {} seconds",
                              std::chrono::duration_cast<std::chrono::seconds>(wait).count()));
  set_status(ContinuousStatus::pending_restart);
  if (rule.failures() == RestartRule::kPatience) {
    host_.log.warn("a continuous job keeps ending", {{"job", folder.name}});
  }
  look_again_in(wait + kSettled);
  const bool not_started = !end && is_start_failure(end.error());
  if ((succeeded || not_started) && !MS_MUTANT(host_success_burns_attempt)) return Snooze{wait};
  return Retry{.error = end ? end->how() : end.error().message,
               .after = wait,
               .program = end ? program_end_of(end->process) : ProgramEnd()};
}

}  // namespace mainspring
