// Reads a job's log by position, also while another process writes it.
#include <errno.h>
#include <unistd.h>

#include <algorithm>

#include "host/files.h"
#include "host/job_log.h"
#include "host/log_files.h"

namespace mainspring {
namespace {
using log_files::LogFile;

// Appends up to `max` bytes at the log's position `from`, over all files.
Result<std::string> read_at(const std::vector<LogFile>& files, const std::string& path,
                            std::int64_t from, std::size_t max) {
  std::string text;
  for (const LogFile& file : files) {
    while (from >= file.begin && from < file.end() && text.size() < max) {
      const std::size_t old = text.size();
      const std::size_t want = std::min(max - old, static_cast<std::size_t>(file.end() - from));
      text.resize(old + want);
      const ssize_t got = ::pread(file.fd.get(), text.data() + old, want, from - file.begin);
      if (got < 0 && errno != EINTR) return file_error("read", path, errno);
      text.resize(old + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
      if (got == 0) return text;  // it was made shorter meanwhile
      from += std::max<ssize_t>(got, 0);
    }
  }
  return text;
}

// The beginning of the first line at or after `from`.
Result<std::int64_t> line_after(const std::vector<LogFile>& files, const std::string& path,
                                std::int64_t from) {
  const bool begins_file =
      std::any_of(files.begin(), files.end(), [&](const LogFile& f) { return f.begin == from; });
  if (begins_file) return from;
  MS_TRY_ASSIGN(const std::string text,
                read_at(files, path, from - 1, JobLog::kMaxLineBytes + 1024));
  const std::size_t end = text.find('\n');
  if (end == std::string::npos) return from;  // longer than any line of this host
  return from + static_cast<std::int64_t>(end);
}

}  // namespace

Result<LogText> read_log(const std::string& path, std::int64_t position, std::size_t max) {
  MS_TRY_ASSIGN(const std::vector<LogFile> files, log_files::open_all(path, position));
  if (files.empty()) {
    return Error{ErrorCode::not_found, "there is no log " + path};
  }
  const std::int64_t oldest = files.front().begin;
  const std::int64_t end = files.back().end();
  LogText answer;
  std::int64_t from = std::min(position, end);
  if (position < 0) {
    from = std::max(end + std::max(position, -end), oldest);
    if (from < end) {
      MS_TRY_ASSIGN(from, line_after(files, path, from));
    }
  } else if (from < oldest) {
    answer.skipped = oldest - from;
    from = oldest;
  }
  // A file between others was removed.
  const auto holder = std::find_if(files.begin(), files.end(),
                                   [&](const LogFile& file) { return file.end() > from; });
  if (holder != files.end() && holder->begin > from) {
    if (position >= 0) answer.skipped += holder->begin - from;
    from = holder->begin;
  }
  MS_TRY_ASSIGN(answer.text, read_at(files, path, from, max));
  // An incomplete line is left for the next read.
  const std::size_t last = answer.text.rfind('\n');
  if (last != std::string::npos) {
    answer.text.resize(last + 1);
  } else if (answer.text.size() < max) {
    answer.text.clear();
  }
  answer.next = from + static_cast<std::int64_t>(answer.text.size());
  answer.at_end = answer.next >= end || (answer.text.empty() && max > 0);
  return answer;
}

}  // namespace mainspring
