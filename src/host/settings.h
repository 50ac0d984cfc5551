// The settings of the job host: those of a job (settings.job) and those of the host.
//
// settings.job is a JSON object next to a job's files, read as Kudu reads it: case-insensitive
// keys, and the syntax of json_text.h. An unreadable file, or an invalid value of a known key, is
// an error: the job does not run, because its defaults could do harm. Unknown keys are kept and
// ignored. The first five keys and the WEBJOBS_* variables are those of Azure WebJobs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/time.h"

namespace mainspring {

enum class JobType : std::uint8_t {
  continuous,  // runs always: restarted when it ends
  triggered,   // runs on demand and by schedule, one run at a time
  queue,       // runs for each job of the queue that its folder is named after
};
std::string_view to_string(JobType type);
std::optional<JobType> parse_job_type(std::string_view text);

// Resource limits of a child, a ceiling in a pool. Absent = the pool's; absent there too = those of
// this process.
struct ChildLimits {
  std::optional<std::int64_t> memory_bytes;  // of all its processes together; needs a cgroup
  std::optional<std::int64_t> pids;          // processes and threads together; needs a cgroup
  std::optional<int> cpu_percent;            // of one core, 1 to 100,000; needs a cgroup
  std::optional<int> nice;                   // -20 to 19
  std::optional<std::int64_t> open_files;    // of each process
  std::optional<std::int64_t> file_bytes;    // of a file that it writes
  std::optional<std::string> user;           // run as; needs root
  friend bool operator==(const ChildLimits&, const ChildLimits&) = default;
};

inline constexpr std::size_t kMaxSettingsBytes = 256 << 10;  // of settings.job, host.json

// A parsed settings.job.
struct JobSettings {
  // -- as in WebJobs
  bool is_singleton = false;                   // continuous: one in the whole system
  std::optional<Duration> stopping_wait_time;  // whole seconds; absent = 5 s, triggered 30 s
  std::string schedule;                        // NCRONTAB of six fields, "" = none; triggered
  std::string schedule_error;       // why the given schedule is refused: then the job has none
  std::optional<bool> is_in_place;  // absent = only for node
  // -- ours
  int max_attempts = 1;                            // triggered: 1 = a failed run is not repeated
  std::optional<Duration> timeout;                 // of a run; absent = none
  std::optional<Duration> restart_time;            // continuous: replaces WEBJOBS_RESTART_TIME
  bool restart_back_off = true;                    // continuous: see RestartRule
  bool freeze = false;                             // the job does not run while this is true
  std::string time_zone;                           // of the schedule; "" = the host's
  std::string pool;                                // a pool of host.json; "" = "default"
  std::vector<std::string> environment_allow;      // names of the server's environment; "AWS_*" too
  std::map<std::string, std::string> environment;  // set for the job
  ChildLimits limits;                              // "limits": {…}
  // of queue folders
  bool persistent = false;         // children that take one job after another, as lines
  int min_children = 0;            // "min"
  int max_children = 0;            // "max"; 0 = the number of cores
  std::optional<Duration> target;  // slots by demand: waiting jobs start in this time
  std::vector<std::string> kinds;  // of jobs; empty = all
};

// A part of the host's resources that some jobs share. Limits of memory, pids and cpu apply to all
// its children together, the others to each of them.
struct PoolSettings {
  int concurrency = 16;              // triggered runs at once
  int slots = 0;                     // jobs of its queue folders at once; 0 = no limit
  ChildLimits limits;                // a folder's own can only lower them
  std::vector<std::string> folders;  // that may choose it, "report*" too; empty = all
};

// host.json in the jobs directory: {"pools":{"heavy":{"concurrency":2,"limits":{…}}},
// "environment_allow":[…]}. Read again when it changes.
struct HostFile {
  std::map<std::string, PoolSettings> pools;  // includes "default" if it is changed
  std::vector<std::string> environment_allow;
};

template <class T>
struct Understood {
  T value;
  std::vector<std::string> warnings;  // "stopping_wait_time \"60\": must be a whole number …"
  // The first of the warnings that is more than a remark: do not use `value`. "" = none.
  std::string error;
};
Understood<JobSettings> parse_job_settings(std::string_view json);
Understood<HostFile> parse_host_file(std::string_view json);
// A settings.job as strict JSON; nullopt if it is not a JSON object.
std::optional<std::string> settings_object(std::string_view text);

// The host's settings from WEBJOBS_* variables of an environment.
struct HostVariables {
  Duration restart_time = std::chrono::seconds(60);   // WEBJOBS_RESTART_TIME, seconds
  Duration idle_timeout = std::chrono::seconds(120);  // WEBJOBS_IDLE_TIMEOUT, seconds; triggered
  int history_size = 50;                              // WEBJOBS_HISTORY_SIZE
  bool stopped = false;                               // WEBJOBS_STOPPED: nothing runs
  bool disable_schedule = false;                      // WEBJOBS_DISABLE_SCHEDULE
  bool log_triggered_jobs = false;  // WEBJOBS_LOG_TRIGGERED_JOBS_TO_APP_LOGS: to the server's log
  std::string root_path;            // WEBJOBS_ROOT_PATH, "" = none
  std::string time_zone;            // WEBSITE_TIME_ZONE, "" = UTC
  std::string instance_id;          // WEBSITE_INSTANCE_ID, "" = the host's name
};
// `get` returns a variable's value, nullptr = not set. Invalid values are reported as warnings and
// ignored.
Understood<HostVariables> read_host_variables(
    const std::function<const char*(const char* name)>& get);

}  // namespace mainspring
