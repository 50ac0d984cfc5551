// JobLog: the output of a job, line by line, in files, with followers.
//
//   [11/21/2026 10:46:31 > 3f9a1c: SYS INFO] Status changed to Running
//   [11/21/2026 10:46:31 > 3f9a1c: INFO] what it wrote to standard output
//   [11/21/2026 10:46:32 > 3f9a1c: ERR ] what it wrote to standard error
//
// Lines end in "\r\n", times are UTC. Source: Azure WebJobs (Kudu). A log keeps its name for its
// whole life and has one or several files: when job_log.txt is over `roll_bytes`, it becomes
// job_prev_log.txt (job_prev_log.1.txt, …), up to `generations`; the oldest is removed.
//
// No line is lost: write() returns when the line is in the file (not synced), and blocks writers
// that are faster than that. A position in a log counts bytes from its beginning, over all files,
// and stays valid when they are rolled.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "env/clock.h"
#include "mainspring/result.h"

namespace mainspring {

enum class LogSource : std::uint8_t { system_info, system_warn, system_error, out, err };

struct JobLogOptions {
  std::string path;                   // "…/job_log.txt"; its directory is created
  std::string instance;               // six characters
  std::int64_t roll_bytes = 1 << 20;  // 0 = never rolled
  int generations = 10;               // older files to keep, up to 100; 0 = none
  // For the log of one run: beyond this many bytes, standard output and error are counted instead
  // of kept; a WARN line says so, and the end says how many. 0 = no cap. System lines are always
  // kept.
  std::int64_t cap_bytes = 0;
  // The same for lines of output since begin_run(), as in WebJobs; 0 = no cap.
  std::int64_t cap_lines = 0;
};

class JobLog {
 public:
  // Appends to an existing log. Errors: io_error.
  static Result<std::unique_ptr<JobLog>> open(JobLogOptions options, const Clock& clock);
  ~JobLog();

  // Writes one line; a '\r' or '\n' at its end is not needed. Splits lines over kMaxLineBytes.
  // Thread-safe. Errors: io_error, storage_full (the line is lost; the log continues when there is
  // space again, and a WARN line has the number of lost lines), conflict (closed).
  Result<void> write(LogSource source, std::string_view line);
  // Writes the output of a child as it arrives, split into lines; a last line without an end is
  // buffered until more arrives or flush(). Thread-safe.
  Result<void> output(LogSource source, std::string_view bytes);
  Result<void> flush();
  // A new run of the same job starts: resets the count of cap_lines.
  void begin_run();
  // Ends it for followers: no more will come.
  void close();

  std::int64_t size() const;  // the position after the last line
  // Calls `changed` once when the log is longer than `position` or closed, on the thread of a
  // writer or of close(); at once if it already is. Returns a number for forget().
  std::uint64_t notify(std::int64_t position, std::function<void()> changed);
  void forget(std::uint64_t number);
  bool closed() const;

  static constexpr std::size_t kMaxLineBytes = 64 << 10;

 private:
  struct Impl;
  explicit JobLog(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct LogText {
  std::string text;          // whole lines, unless a line is longer than `max`
  std::int64_t next = 0;     // position after it
  std::int64_t skipped = 0;  // bytes after the requested position that no longer exist
  bool at_end = false;       // there is nothing after it now
};
// Reads a log's files, also while another process writes or rolls them. `position` < 0 counts from
// the end: -4096 = the last 4 KiB, from the beginning of a line. Errors: not_found, io_error.
Result<LogText> read_log(const std::string& path, std::int64_t position, std::size_t max);

// "11/21/2026 10:46:31".
std::string log_time(WallTime t);

}  // namespace mainspring
