// HostControl: what people and programs can see and do about job folders, whoever runs them.
// JobHost is one; the HTTP routes and their tests work on this interface. All calls block on files
// at most, and may be made from every thread but an io thread.
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
  success,          // it ended well; it is started again soon
  pending_restart,  // it ended; it is started again after the restart time
  stopped,
  stopping,
  disabling,
  inactive_instance,  // a singleton, and another instance has it
};
std::string_view to_string(ContinuousStatus status);  // "PendingRestart", "InactiveInstance", …

// A job whose folder is not there. Its data, history and schedule are kept.
struct MissingFolder {
  WallTime seen;        // when the folder was last there
  WallTime kept_until;  // when they are deleted, if the folder does not come back
};

// A job as it is seen now.
struct JobView {
  JobFolder folder;  // of a missing one only its type and name
  std::optional<MissingFolder> missing;
  std::string error;  // why it cannot be run; "" = it can
  // continuous
  ContinuousStatus status = ContinuousStatus::initializing;
  std::string detailed_status;  // lines "{instance6} - {status}"
  int port = 0;                 // WEBJOBS_PORT of the run; 0 = it does not run
  // triggered
  std::optional<RunRecord> latest_run;
  // queue
  int children = 0;  // processes now
  // all
  std::string pool;
  bool frozen = false;
  JobId job = 0;  // of the engine, of the present or last run; 0 = none
  bool masked = false;  // whoever it is for does not see the settings
};

// One isolation layer, for /healthz.
struct LayerView {
  std::string name;  // "process_group", "cgroup_memory", "no_new_privs", …
  bool active = false;
  std::string detail;  // why not, or how: "v1", "no permission for /sys/fs/cgroup/pids"
};
struct HostView {
  std::string instance;   // as in logs: six characters
  std::string directory;  // the first root
  bool stopped = false;   // WEBJOBS_STOPPED
  bool strict = false;    // --strict-webjobs
  int continuous = 0, triggered = 0, queues = 0, running = 0;
  int missing = 0;  // jobs whose folders are not there
  std::vector<LayerView> layers;
  // Directories that cannot be read or watched, folders that are left out, warnings of settings.
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
  // By type (continuous first), then name; missing ones too.
  virtual std::vector<JobView> list(std::optional<JobType> type) = 0;
  // Errors: not_found.
  virtual Result<JobView> find(JobType type, const std::string& name) = 0;
  // Grows with every change that a list or a history would show; for ETags.
  virtual std::uint64_t version() = 0;

  // -- deploying; errors as in deploy.h, and unavailable (the disk is read-only)
  virtual Result<JobView> deploy_file(JobType type, const std::string& name,
                                      const std::string& file_name, std::string_view content) = 0;
  virtual Result<JobView> deploy_zip(JobType type, const std::string& name,
                                     std::string_view zip) = 0;
  // With its data, history and schedule. Succeeds if there is none.
  virtual Result<void> remove(JobType type, const std::string& name) = 0;
  // The text of settings.job; "{}" if there is none. Errors: not_found.
  virtual Result<std::string> settings(JobType type, const std::string& name) = 0;
  // Replaces the file. Errors: not_found, invalid_argument (no JSON object), io_error.
  virtual Result<void> put_settings(JobType type, const std::string& name,
                                    std::string_view json) = 0;

  // -- triggered
  // Starts a run; answers its id. Errors: not_found; conflict ("Cannot start a new run since job is
  // already running.", or 'WebJobs are currently in "stopped" state.'); unavailable (read-only
  // disk, overloaded).
  virtual Result<std::string> run(const std::string& name, const std::string& arguments,
                                  const std::string& trigger) = 0;
  // Asks the running run to stop. Errors: not_found, conflict (none runs).
  virtual Result<void> cancel_run(const std::string& name) = 0;
  // Newest first; a run that its directory says runs and does not is `aborted`. Errors: not_found
  // (unknown job, or one that never ran).
  virtual Result<std::vector<RunRecord>> history(const std::string& name) = 0;
  virtual Result<RunRecord> run_of(const std::string& name, const std::string& id) = 0;

  // -- continuous: writes or removes disable.job. Errors: not_found, conflict (the file could not
  // be written or removed; `start`: it is frozen, which only its settings can end).
  virtual Result<void> stop_job(const std::string& name) = 0;
  virtual Result<void> start_job(const std::string& name) = 0;
  // The loopback port that its run was given. Errors: not_found (no such job, or it does not run).
  virtual Result<int> port(const std::string& name) = 0;

  // -- logs. Of a triggered job `run` names the run, "" = the latest.
  // Errors: not_found.
  virtual Result<LogText> log(JobType type, const std::string& name, const std::string& run,
                              std::int64_t position, std::size_t max) = 0;
  // Calls `changed` once when the log is longer than `position` or will not grow any more; answers
  // what ends the watch when it is destroyed (it must not be by `changed` itself). Errors:
  // not_found.
  using Watch = std::shared_ptr<void>;
  virtual Result<Watch> watch_log(JobType type, const std::string& name, const std::string& run,
                                  std::int64_t position, std::function<void()> changed) = 0;
  // Will nothing more be written? (The run has ended. A continuous job's log and a queue folder's
  // end with their folder.)
  virtual bool log_ended(JobType type, const std::string& name, const std::string& run) = 0;
  // A file below the data directory, for /vfs/data/…: relative to it. Errors: not_found (also for
  // paths that lead out of it), too_large (over `max`), io_error.
  virtual Result<std::string> data_file(std::string_view path, std::size_t max) = 0;

  // -- hooks (event TriggeredJobFinished)
  // Answers the hook and whether it is new. Errors: invalid_argument (url, event), conflict (the
  // url has a hook of another event).
  virtual Result<std::pair<HookView, bool>> add_hook(const std::string& url,
                                                     const std::string& event,
                                                     bool insecure_ssl) = 0;
  virtual std::vector<HookView> hooks() = 0;
  virtual Result<void> remove_hook(const std::string& id) = 0;  // not_found
  // Posts `json` to the hooks of `event`, without waiting.
  virtual void publish(const std::string& event, std::string_view json) = 0;
};

// A run as the WebJobs API shows it, for hooks and routes: one JSON object. `base_url` is
// "http://host:port". Shapes: docs/reference/host.md.
std::string run_json(const RunRecord& run, const std::string& job_name, const std::string& base_url,
                     WallTime now);

}  // namespace mainspring
