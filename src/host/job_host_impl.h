// The internals of JobHost, shared by its files.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "base/mutex.h"
#include "env/file_watch.h"
#include "host/continuous_job.h"
#include "host/deployed_files.h"
#include "host/folder_book.h"
#include "host/folder_signature.h"
#include "host/hooks.h"
#include "host/job_host.h"
#include "host/queue_folder.h"
#include "host/triggered_jobs.h"

namespace mainspring {

// The identity of a file or directory at one moment. It changes with a mount, a replaced directory
// or a changed link.
struct PathIdentity {
  std::uint64_t device = 0, inode = 0;
  std::uint64_t mode = 0;
  std::int64_t size = 0, changed_ns = 0;  // of files
  friend bool operator==(const PathIdentity&, const PathIdentity&) = default;
};

// A loaded folder and its runner (TriggeredJobs runs triggered folders).
struct HostEntry {
  JobFolder folder;
  FolderSignature signature;  // when it was loaded
  // Its directory, its script and its links. They are compared between scans: the system reports
  // nothing when a link above the folder changes.
  std::vector<std::pair<std::string, PathIdentity>> polled;
  std::optional<Instant> absent_since;  // the last scan did not find it
  std::string unknown;                  // why the last scan could not read it; "" = it could
  // For a job that runs in the folder itself: the files that count. `signature` has only these.
  std::optional<DeployedFiles> deployed;
  // The file that last restarted such a job, when, and how often in quick succession.
  std::string cause;
  Instant caused_at;
  int causes = 0;
  std::unique_ptr<JobRunner> runner;
};

// New content of a folder that differs from the loaded one, and since when it has been the same.
struct PendingFolder {
  std::string digest;
  Instant since;
  // For a job that runs in the folder itself: the observed content, and how often it changed again.
  FolderSignature seen;
  int changes = 0;
};

// The folders that a scan examines.
struct ScanScope {
  bool all = false;
  std::set<HostKey> keys;     // if not all
  std::set<HostKey> settled;  // the system reported changes of these, and then a quiet period
  bool at_once = false;       // without a quiet period
};

// A removed folder whose run gets time to end.
struct LeavingJob {
  std::unique_ptr<JobRunner> runner;
  bool with_data = false;  // also remove its data then
};

std::vector<std::pair<std::string, PathIdentity>> polled_paths(const JobFolder& folder,
                                                               const FolderSignature& signature);

struct JobHost::Impl {
  Impl(HostOptions options, Jobs& jobs, Processes& processes, const Clock& clock, Random& random,
       Log& log, Registry& registry, std::string id, int lock_fd);
  ~Impl();

  void start();
  void stop();

  // -- detecting changes (job_host_watch.cc)
  void watch_root(const std::string& root);  // a thread for each root
  void control();                            // the thread that decides what is due
  void on_changes(const FileWatch::Changes& changes);
  std::vector<PathIdentity> identities_of(const std::string& root) const;
  void poll_paths() MS_EXCLUDES(refresh_mutex, mutex);
  Instant next_due(Instant now) MS_REQUIRES(mutex);
  // Removes what is due from the lists, and returns it.
  std::optional<ScanScope> take_due(Instant now) MS_REQUIRES(mutex);

  // -- scanning (job_host_scan.cc)
  void scan(const ScanScope& scope) MS_EXCLUDES(refresh_mutex, mutex);
  void scan_one(const HostKey& key) { scan({.keys = {key}, .at_once = true}); }
  void read_host_file();
  void consider(const JobFolder& folder, const ScanScope& scope, const Found& found)
      MS_REQUIRES(refresh_mutex);
  // Starts or stops the runs of a folder according to its current state.
  void apply(HostEntry& entry) MS_REQUIRES(mutex);
  bool is_settled(const HostKey& key, const FolderSignature& fresh, const ScanScope& scope)
      MS_REQUIRES(refresh_mutex, mutex);
  void load(const HostKey& key, const std::string& directory, FolderSignature signature)
      MS_REQUIRES(refresh_mutex) MS_EXCLUDES(mutex);
  FolderSignature sign(const HostKey& key, const JobFolder& folder) MS_EXCLUDES(mutex);
  DeployedFiles deployed_files(const HostKey& key, const JobFolder& folder,
                               FolderSignature& signature) MS_EXCLUDES(mutex);
  void note_cause(HostEntry& entry, const FolderSignature& fresh) MS_REQUIRES(mutex);
  void note_change(const HostKey& key, PendingFolder& one, const FolderSignature& fresh)
      MS_REQUIRES(mutex);
  void ignore_file(HostEntry& entry, const std::string& file) MS_REQUIRES(mutex);
  bool is_in_place(const HostKey& key) const MS_REQUIRES(mutex);
  void keep_unknown(const HostKey& key, const std::string& why) MS_EXCLUDES(mutex);
  void absent(const HostKey& key, bool at_once) MS_REQUIRES(refresh_mutex) MS_EXCLUDES(mutex);
  std::unique_ptr<JobRunner> new_runner(const HostKey& key) MS_REQUIRES(refresh_mutex, mutex);
  void see_off() MS_EXCLUDES(refresh_mutex, mutex);  // ends jobs that have left
  void give_triggered() MS_REQUIRES(refresh_mutex) MS_EXCLUDES(mutex);
  void report(const Found& found, const ScanScope& scope);
  void changed() { ++version; }

  // -- data of missing jobs (job_host_data.cc)
  void read_book();
  void save_book(bool always) MS_EXCLUDES(mutex);
  void delete_due() MS_EXCLUDES(refresh_mutex, mutex);
  void remove_data_of(const HostKey& key) MS_EXCLUDES(refresh_mutex, mutex);

  // -- operations of callers (job_host_control.cc)
  std::string directory_of(JobType type, const std::string& name) const;
  Result<JobView> deployed(JobType type, const std::string& name, Result<JobFolder> result);
  JobView view_of(const HostKey& key, const HostEntry& entry) const MS_REQUIRES(mutex);
  // Why the job must not run: its settings, or host.json; "" = it may.
  std::string why_not(const JobFolder& folder) const MS_REQUIRES(mutex);
  // Errors: conflict (why_not, or it is frozen).
  Result<void> check_runnable(const JobFolder& folder) const MS_EXCLUDES(mutex);
  std::optional<JobView> missing_view(const HostKey& key) const MS_REQUIRES(mutex);
  // Names the type that a job of this name has.
  Error no_job(JobType type, const std::string& name) const MS_REQUIRES(mutex);
  void add_latest_run(JobView& view) const;
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
  FolderSlots slots;
  HostParts parts;
  std::vector<ScriptHost> script_hosts;
  std::unique_ptr<Hooks> hooks;
  TriggeredJobs triggered;
  std::atomic<std::uint64_t> version{1};

  Mutex refresh_mutex;  // one refresh at a time; before mutex
  mutable Mutex mutex;
  CondVar wake;
  std::map<HostKey, HostEntry> entries MS_GUARDED_BY(mutex);
  std::map<HostKey, PendingFolder> pending MS_GUARDED_BY(mutex);
  FolderBook book MS_GUARDED_BY(mutex);
  std::map<HostKey, LeavingJob> leaving MS_GUARDED_BY(mutex);
  bool some_left MS_GUARDED_BY(mutex) = false;
  std::map<HostKey, Instant> dirty MS_GUARDED_BY(mutex);  // when it last changed
  bool all_dirty MS_GUARDED_BY(mutex) = false;
  bool host_file_dirty MS_GUARDED_BY(mutex) = false;
  Instant rescan_at MS_GUARDED_BY(mutex);
  std::map<std::string, std::vector<PathIdentity>> root_identities MS_GUARDED_BY(mutex);
  std::set<std::string> unwatched MS_GUARDED_BY(mutex);  // roots that are there but not watched
  std::map<HostKey, std::string> folder_problems MS_GUARDED_BY(mutex);
  std::vector<std::string> directory_problems MS_GUARDED_BY(mutex);        // that cannot be listed
  std::map<std::string, std::string> watch_problems MS_GUARDED_BY(mutex);  // by root
  bool some_unknown MS_GUARDED_BY(mutex) = false;  // the last scan could not read everything
  bool book_complained MS_GUARDED_BY(mutex) = false;
  bool book_is_read = false;                                       // by start()
  std::optional<std::string> host_file_text MS_GUARDED_BY(mutex);  // as last read
  std::vector<std::string> host_file_warnings MS_GUARDED_BY(mutex);
  // Why host.json was never usable since the start: without its limits no job runs. "" = it was.
  std::string host_file_error MS_GUARDED_BY(mutex);
  bool host_file_used MS_GUARDED_BY(mutex) = false;  // one was, or there was none
  bool started MS_GUARDED_BY(mutex) = false;
  bool stopping MS_GUARDED_BY(mutex) = false;
  Instant delete_at MS_GUARDED_BY(mutex);  // not before: see kDeletePause
  // By root: to be woken at the end, and when the root is another directory.
  std::map<std::string, FileWatch*> watches MS_GUARDED_BY(mutex);
  std::vector<std::thread> threads;
};

}  // namespace mainspring
