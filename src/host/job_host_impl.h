// The inside of JobHost, shared by its files.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <thread>

#include "base/mutex.h"
#include "env/file_watch.h"
#include "host/continuous_job.h"
#include "host/hooks.h"
#include "host/job_host.h"
#include "host/queue_folder.h"
#include "host/triggered_jobs.h"

namespace mainspring {

// A folder that is there, and who runs it (triggered ones are run by TriggeredJobs).
struct HostEntry {
  JobFolder folder;
  std::string signature;  // of its files, when it was taken up
  std::unique_ptr<JobRunner> runner;
};

using HostKey = std::pair<JobType, std::string>;

// A folder that is gone, and whose run is given its time to end.
struct LeavingJob {
  std::unique_ptr<JobRunner> runner;
  bool with_data = false;  // which goes too then
};

struct JobHost::Impl {
  Impl(HostOptions options, Jobs& jobs, Processes& processes, const Clock& clock, Random& random,
       Log& log, Registry& registry, std::string id, int lock_fd);
  ~Impl();

  void start();
  void stop();

  // -- looking (job_host.cc)
  // A thread for each root. `missing`: it was not there when the host began.
  void watch_root(const std::string& root, bool missing);
  void control();  // the thread that takes up what has become quiet
  void on_changes(const FileWatch::Changes& changes);
  void refresh_all(bool everything) MS_EXCLUDES(refresh_mutex, mutex);
  void read_host_file();
  void take_up(const JobFolder& folder, const std::string& signature, std::vector<HostKey>& seen)
      MS_REQUIRES(refresh_mutex);
  // Runs what is to run with the folder as it is now, or lets it rest.
  void apply(HostEntry& entry) MS_REQUIRES(mutex);
  void drop_missing(const std::vector<HostKey>& seen, bool everything) MS_REQUIRES(refresh_mutex);
  std::unique_ptr<JobRunner> new_runner(const HostKey& key) MS_REQUIRES(refresh_mutex, mutex);
  void see_off() MS_EXCLUDES(refresh_mutex, mutex);  // those that have left
  void remove_data_of(const HostKey& key) MS_EXCLUDES(refresh_mutex, mutex);
  void give_triggered() MS_REQUIRES(refresh_mutex);
  bool quiet(const HostKey& key, Instant now) MS_EXCLUDES(mutex);
  void remove_old_data(const Found& found);
  void report(const std::vector<std::string>& problems);
  void changed() { ++version; }

  // -- seeing and doing (job_host_control.cc)
  std::string directory_of(JobType type, const std::string& name) const;
  Result<JobView> deployed(JobType type, const std::string& name, Result<JobFolder> result);
  JobView view_of(const HostKey& key, const HostEntry& entry) const MS_REQUIRES(mutex);
  // Why the job must not run: its settings, or host.json; "" = it may.
  std::string why_not(const JobFolder& folder) const MS_REQUIRES(mutex);
  // Errors: conflict (why_not, or it is frozen).
  Result<void> check_runnable(const JobFolder& folder) const MS_EXCLUDES(mutex);
  Result<JobFolder> folder(JobType type, const std::string& name) const;
  Result<std::string> log_path(JobType type, const std::string& name, const std::string& run);
  std::shared_ptr<JobLog> log_to_come(JobType type, const std::string& name);
  std::shared_ptr<JobLog> open_log(JobType type, const std::string& name, const std::string& run);

  const HostOptions options;
  const Clock& clock;
  Log& log_;
  const int lock_fd;
  Isolation isolation;
  Ticker ticker;
  LogBook logs;
  HostParts parts;
  std::vector<ScriptHost> script_hosts;
  std::unique_ptr<Hooks> hooks;
  TriggeredJobs triggered;
  std::atomic<std::uint64_t> version{1};

  Mutex refresh_mutex;  // one refresh at a time; before mutex
  mutable Mutex mutex;
  CondVar wake;
  std::map<HostKey, HostEntry> entries MS_GUARDED_BY(mutex);
  std::map<HostKey, LeavingJob> leaving MS_GUARDED_BY(mutex);
  bool some_left MS_GUARDED_BY(mutex) = false;
  std::map<HostKey, Instant> dirty MS_GUARDED_BY(mutex);  // when it last changed
  bool all_dirty MS_GUARDED_BY(mutex) = false;
  bool host_file_dirty MS_GUARDED_BY(mutex) = false;
  std::vector<std::string> problems MS_GUARDED_BY(mutex);
  std::vector<std::string> host_file_warnings MS_GUARDED_BY(mutex);
  // host.json could not be used since the start: without its limits nothing runs. "" = it could.
  std::string host_file_error MS_GUARDED_BY(mutex);
  bool host_file_used MS_GUARDED_BY(mutex) = false;  // one was, or there was none
  bool started MS_GUARDED_BY(mutex) = false;
  bool stopping MS_GUARDED_BY(mutex) = false;
  std::vector<FileWatch*> watches MS_GUARDED_BY(mutex);  // to be woken at the end
  std::vector<std::thread> threads;
};

}  // namespace mainspring
