// RunHistory: the runs of a triggered job, as directories.
//
//   {data}/jobs/triggered/{name}/202611211046315000/{status, output_log.txt}
//
// A run id is the UTC time of its start, yyyyMMddHHmmss and four digits of 0.1 ms, increased until
// it is unique. "status" is JSON {"Trigger","Status","StartTime","EndTime"} without default values,
// replaced atomically; we add "Job" (of the engine) and "ExitCode". Source: Kudu.
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
  std::optional<std::int64_t> peak_memory{};  // bytes, from ScriptEnd
};

// The runs of one job; thread-safe, also with several objects for the same directory.
class RunHistory {
 public:
  explicit RunHistory(std::string directory);  // {data}/jobs/triggered/{name}
  // Creates a directory with the record's status file. Removes the oldest runs so that at most
  // `keep` remain with it, except those of `active`. Chooses `record.id` if it is "". Errors:
  // conflict (the id is taken), io_error, storage_full.
  Result<std::string> begin(RunRecord record, int keep, const std::vector<std::string>& active);
  // Removes the oldest so that at most `keep` remain, except those for which `spare` returns true.
  // Calls `spare` only for runs that would be removed.
  void trim(int keep, const std::function<bool(const std::string& id)>& spare);
  Result<void> update(const RunRecord& record);
  // Errors: not_found, io_error. A run with an unreadable status file is `aborted`.
  Result<RunRecord> get(const std::string& id) const;
  // Newest first. A missing directory is an empty list.
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
