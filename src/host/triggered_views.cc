// Triggered folders: their schedules, the view of their runs, and cancelling a run.
#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "base/mutant.h"
#include "host/deploy.h"
#include "host/files.h"
#include "host/triggered_jobs.h"

namespace mainspring {
namespace {

using namespace std::chrono_literals;

// WebJobs ignores ticks that it missed by more than this.
constexpr Duration kStrictMisfireWindow = 10min;
constexpr int kPage = 10;
// Prefix of the reasons of schedules that a host paused.
constexpr std::string_view kHostReason = "job host: ";
constexpr int kSchedulePage = 1000;
constexpr Duration kCompare = 60s;
constexpr std::size_t kMaxSchedulesBytes = 32 << 20;

std::string schedules_file(const HostOptions& options) {
  return options.data + "/schedules.txt";
}

}  // namespace

Schedule TriggeredJobs::schedule(const JobFolder& folder) const {
  Schedule schedule;
  schedule.name = schedule_of(folder.name);
  schedule.cron = folder.settings.schedule;
  const std::string& zone = host_.options.variables.time_zone;
  schedule.time_zone = !folder.settings.time_zone.empty() ? folder.settings.time_zone
                       : zone.empty()                     ? "UTC"
                                                          : zone;
  schedule.job.queue = host_.options.queue;
  schedule.job.kind = kind_of(folder.name);
  JsonWriter args(schedule.job.args = "");
  args.begin_object().key("trigger");
  args.string(fmt::format("Schedule - {}", folder.settings.schedule)).end_object();
  schedule.job.max_attempts = folder.settings.max_attempts;
  schedule.job.timeout = folder.settings.timeout.value_or(kForever);
  if (host_.options.strict) schedule.misfire_window = kStrictMisfireWindow;
  return schedule;
}

// Returns true if it need not be tried again.
bool TriggeredJobs::put_schedule(const JobFolder& folder) {
  Schedule wanted = schedule(folder);
  const auto put = host_.jobs.put_schedule(wanted, std::nullopt);
  if (!put) {
    host_.log.warn("the schedule of a job could not be set",
                   {{"job", folder.name}, {"why", put.error().message}});
    return put.error().code == ErrorCode::invalid_argument;
  }
  MutexLock lock(mutex_);
  put_[folder.name] = std::move(wanted);
  held_.erase(folder.name);
  return true;
}

// A schedule that an operator paused stays paused.
bool TriggeredJobs::resume_schedule(const std::string& name) {
  const auto info = host_.jobs.get_schedule(schedule_of(name));
  if (!info) return info.error().code == ErrorCode::not_found;
  if (!info->paused || !info->paused_reason.starts_with(kHostReason)) return true;
  return host_.jobs.pause_schedule({.name = schedule_of(name), .paused = false}).has_value();
}

bool TriggeredJobs::hold_schedule(const std::string& name, const std::string& reason) {
  if (MS_MUTANT(host_missing_folder_fires)) return true;
  const auto held = host_.jobs.pause_schedule(
      {.name = schedule_of(name), .paused = true, .reason = std::string(kHostReason) + reason});
  if (held || held.error().code == ErrorCode::not_found) return true;
  host_.log.warn("the schedule of a job could not be paused",
                 {{"job", name}, {"why", held.error().message}});
  return false;
}

void TriggeredJobs::tend() {
  MutexLock one(tend_mutex_);
  std::vector<JobFolder> wanted;
  std::map<std::string, std::string> holds;
  const Instant now = host_.clock.now().instant;
  bool compare = false;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, reason] : holds_) {
      const auto held = held_.find(name);
      if (held == held_.end() || held->second != reason) holds.emplace(name, reason);
    }
    compare = now >= compare_at_;
  }
  for (const auto& [name, reason] : holds) {
    if (!hold_schedule(name, reason)) continue;
    MutexLock lock(mutex_);
    held_[name] = reason;
    put_.erase(name);
  }
  if (compare) compare_schedules();
  {
    MutexLock lock(mutex_);
    for (const std::string& name : unput_) {
      const auto found = folders_.find(name);
      if (found != folders_.end() && !holds_.contains(name)) wanted.push_back(found->second);
    }
  }
  tell_watchers(nullptr);  // other callers may have cancelled runs
  for (const JobFolder& folder : wanted) {
    if (!put_schedule(folder) || !resume_schedule(folder.name)) continue;
    MutexLock lock(mutex_);
    unput_.erase(folder.name);
  }
  remove_schedules();
}

// Corrects schedules that another host of this engine paused or removed when it lost the same
// folder.
void TriggeredJobs::compare_schedules() {
  const std::string prefix = schedule_of("");
  std::map<std::string, bool> seen;  // name → paused by a host
  for (std::string after = prefix;;) {
    const auto page = host_.jobs.schedules(after, kSchedulePage);
    if (!page) return;
    for (const ScheduleInfo& info : *page) {
      if (!info.schedule.name.starts_with(prefix)) continue;
      seen[info.schedule.name.substr(prefix.size())] =
          info.paused && info.paused_reason.starts_with(kHostReason);
    }
    if (page->size() < kSchedulePage || !page->back().schedule.name.starts_with(prefix)) break;
    after = page->back().schedule.name;
  }
  MutexLock lock(mutex_);
  compare_at_ = host_.clock.now().instant + kCompare;
  for (const auto& [name, schedule] : put_) {
    const auto found = seen.find(name);
    if (found == seen.end() || found->second) unput_.insert(name);
  }
}

void TriggeredJobs::forget(const std::string& name) {
  {
    MutexLock lock(mutex_);
    if (folders_.contains(name)) return;
    holds_.erase(name);
    if (scheduled_.contains(name)) doomed_.insert(name);
  }
  remove_schedules();
}

void TriggeredJobs::remove_schedules() {
  if (MS_MUTANT(host_schedule_outlives_folder)) return;
  std::set<std::string> names;
  {
    MutexLock lock(mutex_);
    names = doomed_;
  }
  for (const std::string& name : names) {
    const auto removed = host_.jobs.remove_schedule(schedule_of(name));
    if (!removed && removed.error().code != ErrorCode::not_found) {
      host_.log.warn("the schedule of a job that is gone could not be removed",
                     {{"job", name}, {"why", removed.error().message}});
      continue;
    }
    MutexLock lock(mutex_);
    doomed_.erase(name);
    scheduled_.erase(name);
    put_.erase(name);
    holds_.erase(name);
    held_.erase(name);
    remember_schedules();
  }
}

// For a later host: the schedules of folders that may disappear while no host runs.
void TriggeredJobs::remember_schedules() {
  std::string text;
  for (const std::string& name : scheduled_) text += name + "\n";
  if (text == remembered_) return;
  if (auto good = write_file_atomically(schedules_file(host_.options), text, 0600); !good) {
    host_.log.warn("the list of schedules could not be written", {{"why", good.error().message}});
    return;
  }
  remembered_ = std::move(text);
}

void TriggeredJobs::read_remembered_schedules() {
  const auto text = read_whole_file(schedules_file(host_.options), kMaxSchedulesBytes);
  if (!text) {
    host_.log.warn("the list of schedules could not be read", {{"why", text.error().message}});
    return;
  }
  std::string_view left = text->has_value() ? std::string_view(**text) : std::string_view();
  MutexLock lock(mutex_);
  while (!left.empty()) {
    const std::size_t end = std::min(left.find('\n'), left.size());
    if (end != 0) scheduled_.emplace(left.substr(0, end));
    left.remove_prefix(std::min(end + 1, left.size()));
  }
}

std::set<std::string> TriggeredJobs::scheduled() const {
  MutexLock lock(mutex_);
  return scheduled_;
}

bool TriggeredJobs::is_running(const std::string& name) const {
  MutexLock lock(mutex_);
  return active_.contains(name);
}

Result<void> TriggeredJobs::cancel(const std::string& name) {
  if (!folder_of_kind(kind_of(name))) {
    return Error{.code = ErrorCode::not_found,
                 .message = fmt::format("triggered job \"{}\": there is none", name)};
  }
  for (JobState state :
       {JobState::running, JobState::available, JobState::scheduled, JobState::retryable}) {
    MS_TRY_ASSIGN(
        const JobPage page,
        host_.jobs.list({.queue = host_.options.queue, .kind = kind_of(name), .state = state},
                        kPage, 0));
    if (page.jobs.empty()) continue;
    for (const Job& job : page.jobs) {
      MS_TRY(host_.jobs.cancel({job.id, "stopped by an operator"}));
    }
    tell_watchers(nullptr);  // of a run that had not started
    return {};
  }
  return Error{.code = ErrorCode::conflict,
               .message = fmt::format("triggered job \"{}\": is not running", name)};
}

bool TriggeredJobs::active(const std::string& name, const std::string& id) const {
  return log_of(name, id) != nullptr;
}

std::shared_ptr<JobLog> TriggeredJobs::log_of(const std::string& name,
                                              const std::string& id) const {
  MutexLock lock(mutex_);
  const auto found = active_.find(name);
  if (found == active_.end() || found->second.id != id) return nullptr;
  return found->second.log;
}

std::shared_ptr<void> TriggeredJobs::watch_begin(const std::string& id,
                                                 std::function<void()> started) {
  MutexLock lock(mutex_);
  const std::uint64_t number = ++last_watcher_;
  watchers_[number] = {id, std::move(started)};
  return std::shared_ptr<void>(nullptr, [this, number](void*) {
    MutexLock again(mutex_);
    watchers_.erase(number);
  });
}

void TriggeredJobs::tell_watchers(const std::string* id) {
  std::vector<std::function<void()>> callbacks;
  {
    MutexLock lock(mutex_);
    for (auto it = watchers_.begin(); it != watchers_.end();) {
      if (id != nullptr && it->second.id != *id) {
        ++it;
        continue;
      }
      callbacks.push_back(std::move(it->second.started));
      it = watchers_.erase(it);
    }
  }
  for (const auto& started : callbacks) started();
}

std::string TriggeredJobs::start_trouble(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto found = troubles_.find(name);
  return found == troubles_.end() ? "" : found->second.error;
}

int TriggeredJobs::running() const {
  MutexLock lock(mutex_);
  return static_cast<int>(active_.size());
}

namespace {

// A run that was accepted here but did not start here: its job has the outcome, whichever host ran
// it.
RunRecord seen_elsewhere(RunRecord run, const Job& job) {
  switch (job.state) {
    case JobState::running:
      run.status = RunStatus::running;
      return run;
    case JobState::completed:
      run.status = RunStatus::success;
      break;
    case JobState::cancelled:
      run.status = RunStatus::stopped;
      break;
    case JobState::dead:
      run.status = job.reason == "aborted" ? RunStatus::aborted : RunStatus::failed;
      break;
    default:
      if (job.errors.empty()) return run;
      run.status = RunStatus::failed;  // a further attempt is a separate run
      return run;
  }
  run.ended = job.finished_at;
  return run;
}

}  // namespace

// A status file was true when it was written: a run that no process runs any more is aborted.
RunRecord TriggeredJobs::seen(const std::string& name, RunRecord run) const {
  if (run.status != RunStatus::running && run.status != RunStatus::initializing) return run;
  if (active(name, run.id)) return run;
  const bool began_here = run.job != 0;
  // Its job may still wait for a slot, or be with another node.
  if (run.job == 0) {
    const auto page =
        host_.jobs.list({.queue = host_.options.queue, .kind = kind_of(name)}, kPage, 0);
    if (page) {
      for (const Job& job : page->jobs) {
        if (job.correlation_id == run.id) run.job = job.id;
      }
    }
  }
  const auto job = run.job == 0 ? Result<Job>(Error{}) : host_.jobs.get(run.job);
  if (!began_here && job) return seen_elsewhere(std::move(run), *job);
  const bool alive = job && !is_terminal(job->state) && job->attempt <= 1;
  if (!alive && !MS_MUTANT(host_dead_run_runs)) run.status = RunStatus::aborted;
  return run;
}

// Runs in progress and runs that wait for their slot stay, however many come after them.
void TriggeredJobs::trim(const std::string& name, RunHistory& history,
                         const std::string& newest) const {
  history.trim(host_.options.variables.history_size, [&](const std::string& id) {
    if (id == newest || MS_MUTANT(host_trims_waiting_run)) return id == newest;
    const auto run = run_of(name, id);
    return run && !run->ended &&
           (run->status == RunStatus::running || run->status == RunStatus::initializing);
  });
}

Result<std::vector<RunRecord>> TriggeredJobs::history(const std::string& name) const {
  MS_TRY_ASSIGN(std::vector<RunRecord> runs,
                RunHistory(job_data_path(host_.options, JobType::triggered, name)).list());
  if (runs.empty()) {
    return Error{.code = ErrorCode::not_found,
                 .message = fmt::format("triggered job \"{}\": has no history", name)};
  }
  for (RunRecord& run : runs) run = seen(name, std::move(run));
  return runs;
}

Result<RunRecord> TriggeredJobs::run_of(const std::string& name, const std::string& id) const {
  MS_TRY_ASSIGN(RunRecord run,
                RunHistory(job_data_path(host_.options, JobType::triggered, name)).get(id));
  return seen(name, std::move(run));
}

}  // namespace mainspring
