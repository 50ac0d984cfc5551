// JobLog: what a job wrote, line by line, in files of its own, and whoever follows them.
//
//   [11/21/2026 10:46:31 > 3f9a1c: SYS INFO] Status changed to Running
//   [11/21/2026 10:46:31 > 3f9a1c: INFO] what it wrote to standard output
//   [11/21/2026 10:46:32 > 3f9a1c: ERR ] what it wrote to standard error
//
// Lines end in "\r\n", times are UTC. Source: Azure WebJobs (Kudu). A log has a name for the whole
// of its life and one or several files: job_log.txt, and when that is over `roll_bytes` it becomes
// job_prev_log.txt (job_prev_log.1.txt, …) up to `generations`; the oldest is removed.
//
// No line is lost: write() returns when the line is in the file (not synced), and whoever writes
// faster than that waits. A position in a log counts bytes from its beginning, over all files, and
// stays good when they are rolled.
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
  std::string path;                   // "…/job_log.txt"; its directory is made
  std::string instance;               // six characters
  std::int64_t roll_bytes = 1 << 20;  // 0 = never rolled
  int generations = 10;               // older files that are kept, up to 100; 0 = none
  // A run's log: over this many bytes standard output and error are counted, not kept, one WARN
  // line says so and the end says how many; 0 = no cap. System lines are always kept.
  std::int64_t cap_bytes = 0;
  // As WebJobs: over so many lines of output since begin_run(), the same; 0 = no cap.
  std::int64_t cap_lines = 0;
};

class JobLog {
 public:
  // Appends to what is there. Errors: io_error.
  static Result<std::unique_ptr<JobLog>> open(JobLogOptions options, const Clock& clock);
  ~JobLog();

  // One line; a '\r' or '\n' at its end is not needed. Lines over kMaxLineBytes are cut into
  // several. Callable from every thread. Errors: io_error, storage_full (the line is lost; the log
  // goes on when there is room again, and a WARN line says how many were), conflict (closed).
  Result<void> write(LogSource source, std::string_view line);
  // The output of a child as it comes: cut into lines; a last line without an end is kept until
  // more comes or flush(). Callable from every thread.
  Result<void> output(LogSource source, std::string_view bytes);
  Result<void> flush();
  // A new run of the same job: cap_lines counts anew.
  void begin_run();
  // Ends it for followers: no more will come.
  void close();

  std::int64_t size() const;  // the position after the last line
  // Calls `changed` (once, on the thread of a writer or of close(); at once if it is so already)
  // when the log is longer than `position`, or closed. Returns a number for forget().
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
  std::int64_t skipped = 0;  // bytes between the wanted position and what was still there
  bool at_end = false;       // nothing behind it now
};
// Reads a log's files, whoever writes them, also while they are rolled. `position` < 0 counts from
// the end: -4096 = the last 4 KiB, from the beginning of a line. Errors: not_found, io_error.
Result<LogText> read_log(const std::string& path, std::int64_t position, std::size_t max);

// "11/21/2026 10:46:31".
std::string log_time(WallTime t);

}  // namespace mainspring
