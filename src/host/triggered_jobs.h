// TriggeredJobs: runs triggered folders on demand and by schedule, one run at a time per folder in
// the whole system.
//
//   run() ───────────────▶ engine job, kind triggered/{name}, unique ─┐
//   schedule host/{name} ▶ engine job, kind triggered/{name} ─────────┴▶ claim ▶ lease ▶ script
//
// A claim's kinds are the folders of this host, by pool. The lease triggered/{name} is held during
// the run, so a tick during a run is dropped with a log line, on any node.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host/run_history.h"
#include "host/script_run.h"
#include "mainspring/schedule.h"
#include "telemetry/metrics.h"
#include "worker/worker.h"

namespace mainspring {

// The triggered folders of a host after a scan.
struct TriggeredFolders {
  std::vector<JobFolder> folders;    // loaded
  std::set<std::string> unreadable;  // loaded, but no run can start now: its jobs wait
  std::set<std::string> missing;     // do not exist; their schedules are paused
};

class TriggeredJobs {
 public:
  TriggeredJobs(HostParts& host, Registry& registry);
  ~TriggeredJobs();  // stops

  // Called when a run has ended, on the run's thread: for hooks.
  std::function<void(const std::string& name, const RunRecord& run)> on_end;
  std::function<void()> on_change;  // a list or a history has changed

  // Sets the current folders. Schedules follow their settings. The schedules of folders that are
  // missing, frozen or must not run (JobFolder::error) are paused and keep their ledgers. Current
  // runs continue as they started; runs of missing folders are ended.
  void set(TriggeredFolders given);
  // Before the first set(): reads the folders whose schedules an earlier host has defined.
  void read_remembered_schedules();
  std::set<std::string> scheduled() const;  // names whose schedules were defined
  // Repeats calls that the engine did not accept, and corrects schedules that another host of the
  // same engine changed.
  void tend();
  // The job is removed, and its schedule too.
  void forget(const std::string& name);
  bool is_running(const std::string& name) const;  // here
  // Removes the data of a job whose folder is gone when its run here has ended; false = no run is
  // in progress here.
  bool forget_at_end(const std::string& name);
  // Asks runs to end, gives them their stopping_wait_time, and waits for them.
  void stop();

  // See HostControl.
  Result<std::string> run(const std::string& name, const std::string& arguments,
                          const std::string& trigger);
  Result<void> cancel(const std::string& name);
  Result<std::vector<RunRecord>> history(const std::string& name) const;
  Result<RunRecord> run_of(const std::string& name, const std::string& id) const;
  // Returns whether this run's log is still being written.
  bool active(const std::string& name, const std::string& id) const;
  // The log of a run in progress here; nullptr = none.
  std::shared_ptr<JobLog> log_of(const std::string& name, const std::string& id) const;
  // Why its script cannot be started; "" = not known.
  std::string start_trouble(const std::string& name) const;
  int running() const;
  // Calls `started` once when the run's log is opened, or when the run will certainly not start.
  // Destroying the result ends the watch.
  std::shared_ptr<void> watch_begin(const std::string& id, std::function<void()> started);

  static std::string kind_of(const std::string& name) { return "triggered/" + name; }
  static std::string schedule_of(const std::string& name) { return "host/" + name; }

 private:
  struct Pool;
  struct Attempt;
  struct Active {
    std::string id;
    JobId job = 0;
    std::shared_ptr<JobLog> log;
    Attempt* attempt = nullptr;
  };
  struct Request {  // args of the engine job
    std::string arguments;
    std::string trigger;
    std::string run_id;
  };

  void set_pools(const std::map<std::string, std::vector<std::string>>& kinds) MS_REQUIRES(mutex_);
  // Returns whether no run of it may start.
  bool sleeps(const JobFolder& folder) const;
  // Why its schedule is paused although it is kept; "" = it is active.
  std::string why_held(const JobFolder& folder) const;
  Schedule schedule(const JobFolder& folder) const;
  void want_schedule(const JobFolder& folder) MS_REQUIRES(mutex_);
  bool put_schedule(const JobFolder& folder);
  bool resume_schedule(const std::string& name);
  bool hold_schedule(const std::string& name, const std::string& reason);
  void compare_schedules();
  void remove_schedules();
  void remember_schedules() MS_REQUIRES(mutex_);
  std::optional<JobFolder> folder_of_kind(const std::string& kind) const;
  Result<Request> read_request(const ClaimedJob& job) const;
  HandlerResult handle(const ClaimedJob& job, Context& context);
  HandlerResult run_alone(Attempt& attempt);
  Result<void> begin(Attempt& attempt);
  Outcome finish(Attempt& attempt, const Result<ScriptEnd>& end);
  void tell_end(Attempt& attempt, RunStatus status);
  // Its script cannot be started: the job goes back, and the same run is tried again later.
  Outcome not_started(Attempt& attempt, const Error& error);
  Counter& ended_runs(RunStatus status);
  void tell_watchers(const std::string* id);  // nullptr = all: they check themselves
  RunRecord seen(const std::string& name, RunRecord run) const;
  void trim(const std::string& name, RunHistory& history, const std::string& newest) const;

  HostParts& host_;
  Registry& registry_;
  Mutex tend_mutex_;  // before mutex_
  mutable Mutex mutex_;
  std::map<std::string, JobFolder> folders_ MS_GUARDED_BY(mutex_);
  std::map<std::string, Active> active_ MS_GUARDED_BY(mutex_);
  std::set<std::string> scheduled_ MS_GUARDED_BY(mutex_);      // names whose schedules were defined
  std::string remembered_ MS_GUARDED_BY(mutex_);               // as last written
  std::map<std::string, Schedule> put_ MS_GUARDED_BY(mutex_);  // as the engine accepted them
  // Names whose schedules should be paused, and why; those that are paused.
  std::map<std::string, std::string> holds_ MS_GUARDED_BY(mutex_), held_ MS_GUARDED_BY(mutex_);
  std::set<std::string> doomed_ MS_GUARDED_BY(mutex_);  // whose schedules are to be removed
  Instant compare_at_ MS_GUARDED_BY(mutex_);
  std::map<std::string, std::unique_ptr<Pool>> pools_ MS_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Pool>> retired_ MS_GUARDED_BY(mutex_);  // had another concurrency
  std::set<std::string> unput_ MS_GUARDED_BY(mutex_);  // names whose schedules must be defined
  struct Watcher {
    std::string id;
    std::function<void()> started;
  };
  std::map<std::uint64_t, Watcher> watchers_ MS_GUARDED_BY(mutex_);
  struct Trouble {
    int failures = 0;  // starts in a row that failed
    std::string error;
  };
  std::map<std::string, Trouble> troubles_ MS_GUARDED_BY(mutex_);  // of folders
  std::uint64_t last_watcher_ MS_GUARDED_BY(mutex_) = 0;
  bool stopped_ MS_GUARDED_BY(mutex_) = false;
};

}  // namespace mainspring
