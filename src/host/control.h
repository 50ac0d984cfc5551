// HostControl: operations of people and programs on job folders. JobHost implements it; the HTTP
// routes and their tests use it. Calls block on files at most. Thread-safe, but not for io threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/job_folder.h"
#include "host/job_log.h"
#include "host/run_history.h"

namespace mainspring {

enum class ContinuousStatus : std::uint8_t {
  initializing,
  starting,
  running,
  success,          // it ended well; it restarts soon
  pending_restart,  // it ended; it restarts after the restart time
  stopped,
  stopping,
  disabling,
  inactive_instance,  // a singleton that another instance runs
};
std::string_view to_string(ContinuousStatus status);  // "PendingRestart", "InactiveInstance", …

// A job whose folder is missing. Its data, history and schedule are kept.
struct MissingFolder {
  WallTime seen;        // when the folder was last there
  WallTime kept_until;  // when they are deleted, unless the folder comes back
};

// An entry of a directory below the data directory.
struct DataEntry {
  std::string name;
  bool directory = false;
  std::uint64_t bytes = 0;
  WallTime changed_at;
};
inline constexpr std::size_t kMaxDataEntries = 10'000;

// The current state of a job.
struct JobView {
  JobFolder folder;  // if missing, only its type and name
  std::optional<MissingFolder> missing;
  std::string error;  // why it cannot run; "" = it can
  // continuous
  ContinuousStatus status = ContinuousStatus::initializing;
  std::string detailed_status;  // lines "{instance6} - {status}"
  int port = 0;                 // WEBJOBS_PORT of the run; 0 = it does not run
  // triggered
  std::optional<RunRecord> latest_run;
  // queue
  int children = 0;  // current processes
  // all
  std::string pool;
  bool frozen = false;
  JobId job = 0;        // engine job of the current or last run; 0 = none
  bool masked = false;  // the viewer may not see the settings
};

// One isolation layer, for /healthz.
struct LayerView {
  std::string name;  // "process_group", "cgroup_memory", "no_new_privs", …
  bool active = false;
  std::string detail;  // why it is off, or how it works: "v1", "no permission for /sys/fs/…"
};
struct HostView {
  std::string instance;   // as in logs: six characters
  std::string directory;  // the first root
  bool stopped = false;   // WEBJOBS_STOPPED
  bool strict = false;    // --strict-webjobs
  int continuous = 0, triggered = 0, queues = 0, running = 0;
  int missing = 0;  // jobs whose folders are missing
  std::vector<LayerView> layers;
  // Directories that cannot be read or watched, ignored folders, warnings of settings.
  std::vector<std::string> problems;
};

struct HookView {
  std::string id;
  std::string url;  // without its password
  std::string event;
  bool insecure_ssl = false;
  std::string last_status, last_reason, last_datetime, last_context;
};

class HostControl {
 public:
  virtual ~HostControl() = default;

  virtual HostView view() = 0;
  // By type (continuous first), then name; including missing ones.
  virtual std::vector<JobView> list(std::optional<JobType> type) = 0;
  // Errors: not_found.
  virtual Result<JobView> find(JobType type, const std::string& name) = 0;
  // Grows with every change of a list or a history; for ETags.
  virtual std::uint64_t version() = 0;

  // -- deploying; errors as in deploy.h, and unavailable (the disk is read-only)
  virtual Result<JobView> deploy_file(JobType type, const std::string& name,
                                      const std::string& file_name, std::string_view content) = 0;
  virtual Result<JobView> deploy_zip(JobType type, const std::string& name,
                                     std::string_view zip) = 0;
  // Also removes its data, history and schedule. Succeeds if there is no such job.
  virtual Result<void> remove(JobType type, const std::string& name) = 0;
  // The text of settings.job; "{}" if there is none. Errors: not_found.
  virtual Result<std::string> settings(JobType type, const std::string& name) = 0;
  // Replaces the file. Errors: not_found, invalid_argument (no JSON object), io_error.
  virtual Result<void> put_settings(JobType type, const std::string& name,
                                    std::string_view json) = 0;

  // -- triggered
  // Starts a run; returns its id. Errors: not_found; conflict ("Cannot start a new run since job is
  // already running.", or 'WebJobs are currently in "stopped" state.'); unavailable (read-only
  // disk, overloaded).
  virtual Result<std::string> run(const std::string& name, const std::string& arguments,
                                  const std::string& trigger) = 0;
  // Asks the running run to stop. Errors: not_found, conflict (none runs).
  virtual Result<void> cancel_run(const std::string& name) = 0;
  // Newest first. A run whose status file says running but that no process runs is `aborted`.
  // Errors: not_found (unknown job, or one that never ran).
  virtual Result<std::vector<RunRecord>> history(const std::string& name) = 0;
  virtual Result<RunRecord> run_of(const std::string& name, const std::string& id) = 0;

  // -- continuous: writes or removes disable.job. Errors: not_found, conflict (the file could not
  // be written or removed; `start`: it is frozen, which only its settings can end).
  virtual Result<void> stop_job(const std::string& name) = 0;
  virtual Result<void> start_job(const std::string& name) = 0;
  // The loopback port of its run. Errors: not_found (no such job, or it does not run).
  virtual Result<int> port(const std::string& name) = 0;

  // -- logs. For a triggered job, `run` names the run, "" = the latest.
  // Errors: not_found.
  virtual Result<LogText> log(JobType type, const std::string& name, const std::string& run,
                              std::int64_t position, std::size_t max) = 0;
  // Calls `changed` once when the log is longer than `position` or will not grow any more.
  // Destroying the result ends the watch (`changed` itself must not do that). Errors: not_found.
  using Watch = std::shared_ptr<void>;
  virtual Result<Watch> watch_log(JobType type, const std::string& name, const std::string& run,
                                  std::int64_t position, std::function<void()> changed) = 0;
  // Returns whether the log is complete: the run has ended. The log of a continuous job or a queue
  // folder ends with its folder.
  virtual bool log_ended(JobType type, const std::string& name, const std::string& run) = 0;
  // A file below the data directory, for /vfs/data/…: a relative path. Errors: not_found (also for
  // paths that lead out of it), too_large (over `max`), io_error.
  virtual Result<std::string> data_file(std::string_view path, std::size_t max) = 0;
  // The files and directories of such a directory, by name; links are left out. Errors: not_found,
  // too_large (over kMaxDataEntries).
  virtual Result<std::vector<DataEntry>> data_directory(std::string_view path) = 0;

  // -- hooks (event TriggeredJobFinished)
  // Returns the hook and whether it is new. Errors: invalid_argument (url, event), conflict (the
  // url has a hook of another event).
  virtual Result<std::pair<HookView, bool>> add_hook(const std::string& url,
                                                     const std::string& event,
                                                     bool insecure_ssl) = 0;
  virtual std::vector<HookView> hooks() = 0;
  virtual Result<void> remove_hook(const std::string& id) = 0;  // not_found
  // Posts `json` to the hooks of `event`, without waiting.
  virtual void publish(const std::string& event, std::string_view json) = 0;
};

// A run in the format of the WebJobs API, for hooks and routes: one JSON object. `base_url` is
// "http://host:port". Format: docs/reference/host.md.
std::string run_json(const RunRecord& run, const std::string& job_name, const std::string& base_url,
                     WallTime now);

}  // namespace mainspring
