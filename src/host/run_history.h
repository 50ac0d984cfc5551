// RunHistory: the runs of a triggered job, as directories.
//
//   {data}/jobs/triggered/{name}/202611211046315000/{status, output_log.txt}
//
// A run id is the UTC time of its start, yyyyMMddHHmmss and four digits of 0.1 ms, made unique by
// counting on. "status" is JSON {"Trigger","Status","StartTime","EndTime"} with default values left
// out, written in one step; ours adds "Job" (the engine's) and "ExitCode". Source: Kudu.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/job.h"
#include "mainspring/result.h"

namespace mainspring {

enum class RunStatus : std::uint8_t { initializing, running, success, failed, aborted, stopped };
std::string_view to_string(RunStatus status);  // "Initializing", …
std::optional<RunStatus> parse_run_status(std::string_view text);

struct RunRecord {
  std::string id;
  RunStatus status = RunStatus::initializing;
  std::string trigger;  // "External - curl/7.88.1", "Schedule - 0 0 3 * * *"
  WallTime started;
  std::optional<WallTime> ended;
  JobId job = 0;                              // of the engine; 0 = unknown
  std::optional<int> exit_code;               // absent = a signal, or not ended
  std::optional<std::int64_t> peak_memory{};  // bytes, as ScriptEnd says it
};

// One job's; callable from every thread, also for the same directory from several objects.
class RunHistory {
 public:
  explicit RunHistory(std::string directory);  // {data}/jobs/triggered/{name}
  // A new directory with the record's status file; trims the oldest so that at most `keep` remain
  // with it, never those of `active`. `record.id` is chosen if "". Errors: conflict (the id is
  // taken), io_error, storage_full.
  Result<std::string> begin(RunRecord record, int keep, const std::vector<std::string>& active);
  // Removes the oldest so that at most `keep` remain, never those that `spare` is true of, which is
  // asked of those only that would go.
  void trim(int keep, const std::function<bool(const std::string& id)>& spare);
  Result<void> update(const RunRecord& record);
  // Errors: not_found, io_error. A status file that cannot be read is an `aborted` run.
  Result<RunRecord> get(const std::string& id) const;
  // Newest first. A directory that is not there is an empty list.
  Result<std::vector<RunRecord>> list() const;
  std::optional<std::string> latest() const;  // id
  std::string directory_of(const std::string& id) const;
  std::string log_path(const std::string& id) const;  // …/output_log.txt

 private:
  std::string directory_;
};

// 18 digits. Errors of the second: invalid_argument.
std::string run_id_of(WallTime t);
Result<WallTime> time_of_run_id(std::string_view id);

}  // namespace mainspring
