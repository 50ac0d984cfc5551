// Triggered folders: their schedules, what is seen of their runs, and ending one.
#include <fmt/format.h>

#include <fstream>

#include "api/json.h"
#include "base/mutant.h"
#include "host/deploy.h"
#include "host/triggered_jobs.h"

namespace mainspring {
namespace {

using namespace std::chrono_literals;

// WebJobs forgets what it missed by more than that.
constexpr Duration kStrictMisfireWindow = 10min;
constexpr int kPage = 10;
// Begins the reason of a pause that is the host's own.
constexpr std::string_view kHeld = "job host: ";

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

bool TriggeredJobs::put_schedule(const JobFolder& folder) {
  const auto known = host_.jobs.get_schedule(schedule_of(folder.name));
  // What an operator has paused stays paused.
  const bool ours = known && known->paused && known->paused_reason.starts_with(kHeld);
  const auto put =
      host_.jobs.put_schedule(schedule(folder), ours ? std::optional<bool>(false) : std::nullopt);
  if (put) return true;
  host_.log.warn("the schedule of a job could not be set",
                 {{"job", folder.name}, {"why", put.error().message}});
  return put.error().code == ErrorCode::invalid_argument;
}

bool TriggeredJobs::hold_schedule(const std::string& name, const std::string& why) {
  const auto paused = host_.jobs.pause_schedule(
      {.name = schedule_of(name), .paused = true, .reason = std::string(kHeld) + why});
  if (paused || paused.error().code == ErrorCode::not_found) return true;
  host_.log.warn("the schedule of a job could not be paused",
                 {{"job", name}, {"why", paused.error().message}});
  return false;
}

void TriggeredJobs::tend() {
  // One at a time, each looking again: what is done last is what set() wanted last.
  MutexLock one(tend_mutex_);
  std::vector<JobFolder> wanted;
  std::map<std::string, std::string> held;
  {
    MutexLock lock(mutex_);
    for (const std::string& name : unput_) {
      const auto found = folders_.find(name);
      if (found != folders_.end()) wanted.push_back(found->second);
    }
    held = held_;
  }
  tell_watchers(nullptr);  // of runs that were cancelled behind our back
  for (const auto& [name, why] : held) {
    {
      MutexLock lock(mutex_);
      if (!held_.contains(name)) continue;
    }
    if (!hold_schedule(name, why)) continue;
    MutexLock lock(mutex_);
    held_.erase(name);
  }
  for (const JobFolder& folder : wanted) {
    {
      MutexLock lock(mutex_);
      if (!unput_.contains(folder.name)) continue;
    }
    if (!put_schedule(folder)) continue;
    MutexLock lock(mutex_);
    unput_.erase(folder.name);
  }
}

void TriggeredJobs::remove_schedules(const std::set<std::string>& names) {
  if (MS_MUTANT(host_schedule_outlives_folder)) return;
  for (const std::string& name : names) {
    const auto removed = host_.jobs.remove_schedule(schedule_of(name));
    if (!removed && removed.error().code != ErrorCode::not_found) {
      host_.log.warn("the schedule of a job that is gone could not be removed",
                     {{"job", name}, {"why", removed.error().message}});
      continue;
    }
    MutexLock lock(mutex_);
    scheduled_.erase(name);
    remember_schedules();
  }
}

// So that the schedules of folders that go away while no host runs are removed at its next start.
void TriggeredJobs::remember_schedules() const {
  std::string text;
  for (const std::string& name : scheduled_) text += name + "\n";
  if (auto good = write_file_atomically(schedules_file(host_.options), text, 0600); !good) {
    host_.log.warn("the list of schedules could not be written", {{"why", good.error().message}});
  }
}

void TriggeredJobs::read_remembered_schedules() {
  std::ifstream file(schedules_file(host_.options));
  MutexLock lock(mutex_);
  for (std::string name; std::getline(file, name);) {
    if (!name.empty()) scheduled_.insert(name);
  }
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
    tell_watchers(nullptr);  // of one that had not begun
    return {};
  }
  return Error{.code = ErrorCode::conflict,
               .message = fmt::format("triggered job \"{}\": does not run", name)};
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
                                                 std::function<void()> begun) {
  MutexLock lock(mutex_);
  const std::uint64_t number = ++last_watcher_;
  watchers_[number] = {id, std::move(begun)};
  return std::shared_ptr<void>(nullptr, [this, number](void*) {
    MutexLock again(mutex_);
    watchers_.erase(number);
  });
}

void TriggeredJobs::tell_watchers(const std::string* id) {
  std::vector<std::function<void()>> told;
  {
    MutexLock lock(mutex_);
    for (auto it = watchers_.begin(); it != watchers_.end();) {
      if (id != nullptr && it->second.id != *id) {
        ++it;
        continue;
      }
      told.push_back(std::move(it->second.begun));
      it = watchers_.erase(it);
    }
  }
  for (const auto& begun : told) begun();
}

int TriggeredJobs::running() const {
  MutexLock lock(mutex_);
  return static_cast<int>(active_.size());
}

namespace {

// A run that was accepted here and did not begin here: its job says what became of it, at whichever
// host.
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
      run.status = RunStatus::failed;  // a further attempt is a run of its own
      return run;
  }
  run.ended = job.finished_at;
  return run;
}

}  // namespace

// What a status file says was true when it was written: a run that nobody runs is aborted.
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

// Runs that are under way, or wait for their slot, stay whatever comes after them.
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
