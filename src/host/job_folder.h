// JobFolder: a folder of scripts, and which of them to run.
//
//   jobs/continuous/mailer/run.py        jobs/triggered/report/{run.sh,settings.job}
//   jobs/queues/photos/run.js
//
// Source of the rules: Azure WebJobs (Kudu), mapped to what Linux has; docs/reference/host.md.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/settings.h"
#include "mainspring/result.h"

namespace mainspring {

// An interpreter of scripts: "BashScriptHost" runs .sh with bash. Tried in order.
struct ScriptHost {
  std::string name;                     // "BashScriptHost"
  std::vector<std::string> extensions;  // ".sh"; empty = executables (x bit; ELF or #!)
  std::vector<std::string> command;     // {"/usr/bin/bash"}; empty = run directly
  bool in_place = false;                // the default of is_in_place
};
// Script hosts whose interpreter is in `path` (PATH): executables, .ps1 pwsh, .sh bash, .py
// python3, .php php, .js node, .jar java -jar.
std::vector<ScriptHost> find_script_hosts(std::string_view path);

inline constexpr const char* kSettingsFile = "settings.job";  // in any case, such as Settings.job

struct JobFolder {
  JobType type = JobType::triggered;
  std::string name;
  std::string directory;   // jobs/triggered/report
  std::string script_dir;  // directory, or the only directory in it (repeated)
  std::string run_file;    // relative to script_dir: "run.sh"
  ScriptHost host;
  std::string settings_file = kSettingsFile;  // as found
  std::string settings_json;                  // as strict JSON; "{}" if there is no readable file
  JobSettings settings;
  std::vector<std::string> warnings;  // of settings.job
  // Why the job must not run: its settings, or two files differ only in case; "" = it may.
  std::string error;
  bool readable = true;   // settings.job is missing or one JSON object
  bool disabled = false;  // disable.job is in script_dir

  // The command as shown to people: "run.sh".
  const std::string& run_command() const { return run_file; }
  bool in_place() const { return settings.is_in_place.value_or(host.in_place); }
  // With --strict-webjobs an invalid value is ignored, as in Kudu.
  std::string error_of(bool strict) const { return strict && readable ? "" : error; }
  // Why a deployment of it is refused.
  std::string refusal(bool strict) const {
    return strict || !error.empty() || settings.schedule_error.empty()
               ? error_of(strict)
               : "settings.job: " + settings.schedule_error;
  }
};

// "run.sh", "RUN.py", "run": preferred to other files.
bool is_named_run(const std::string& file_name);

inline constexpr std::size_t kMaxJobNameBytes = 80;
// 1 to 80 letters, digits, '.', '_', '-', beginning with a letter or digit. Errors:
// invalid_argument with field "name".
Result<void> check_job_name(std::string_view name);

// Reads one folder. Errors: not_found (no such folder; or no file that one of `hosts` can run: "No
// runnable script file was found."), invalid_argument (the name, see check_job_name); others: a
// file could not be read, so the job is unknown.
Result<JobFolder> read_job_folder(JobType type, const std::string& directory,
                                  const std::vector<ScriptHost>& hosts);

using HostKey = std::pair<JobType, std::string>;

inline constexpr std::size_t kMaxMisplaced = 20;

// The result of a scan of the job directories. A folder that is in none of these lists is missing.
struct Found {
  std::vector<JobFolder> jobs;  // by type, then name
  struct LeftOut {
    HostKey key;
    std::string why;
    bool unknown = false;  // it could not be read: its content may be unchanged
  };
  std::vector<LeftOut> left_out;
  struct Unlisted {
    JobType type = JobType::triggered;
    std::string directory;  // jobs/triggered
    std::string why;
  };
  std::vector<Unlisted> unlisted;  // could not be listed: their jobs are unknown
  // What looks like a job at the wrong place, each with the right one: a directory "queue" instead
  // of "queues", a script that has no folder. At most kMaxMisplaced.
  std::vector<std::string> misplaced;

  const LeftOut* find_left_out(const HostKey& key) const;
  const Unlisted* find_unlisted(JobType type) const;
};
// All below `roots`/{continuous,triggered,queues}; for equal names the first root counts. Silently
// skips names that begin with '.': deployments are built there.
Found discover(const std::vector<std::string>& roots, const std::vector<ScriptHost>& hosts);
// The same for single jobs.
Found discover_some(const std::vector<std::string>& roots, const std::vector<HostKey>& keys,
                    const std::vector<ScriptHost>& hosts);

// "continuous", "triggered", "queues".
std::string_view folder_of(JobType type);

// Updates `copies` (a directory of the job's own) and returns the copy to run in: copies/{random}.
// Makes a new copy only if a file of `source` was added or deleted or has another modification
// time, size or mode, or a file of the copy is missing. Then it removes older copies, except those
// in `keep` (a run uses them). Files keep their modes and times; disable.job is not copied.
// Symbolic links are copied as links; anything other than a file, directory or link is refused.
// Errors: io_error, storage_full, invalid_argument.
Result<std::string> update_working_copy(const std::string& source, const std::string& copies,
                                        const std::vector<std::string>& keep);

}  // namespace mainspring
