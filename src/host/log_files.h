// The files of a job's log: their names, and which part of the log each contains.
//
//   job_log.txt              the newest lines
//   job_prev_log.txt         those before, job_prev_log.1.txt those before them, …
//   .job_log.txt.index       the inode of each file and the log's position where it begins
//
// A log gets an index when it is rolled for the first time; before that its only file begins at 0.
// The index is replaced (by a rename) before a new file gets the log's name, and files only ever
// move away from that name. So a reader that opens the files from the newest to the oldest, and
// then reads the index, knows the position of each of them, whatever was renamed or removed
// meanwhile. Sizes alone are not enough once the oldest file is removed. If the index is missing or
// was copied (other inodes), positions are derived from the files' order and sizes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "host/files.h"
#include "mainspring/result.h"

namespace mainspring::log_files {
inline constexpr int kMaxGenerations = 100;

// The name of a generation: 0 = `path` itself, 1 = …_prev_log.txt, 2 = …_prev_log.1.txt.
std::string name_of(const std::string& path, int generation);

struct IndexEntry {
  ino_t inode = 0;
  std::int64_t begin = 0;
};
// Oldest first. Empty if there is no valid index.
std::vector<IndexEntry> read_index(const std::string& path);
Result<void> write_index(const std::string& path, const std::vector<IndexEntry>& entries);

// A file of a log, open for reading.
struct LogFile {
  Fd fd;
  ino_t inode = 0;
  std::int64_t begin = 0;
  std::int64_t size = 0;
  std::int64_t end() const { return begin + size; }
};

// All existing files of the log with their positions, oldest first. With `position` >= 0 the files
// before it may be left out. Empty if there are none. Errors: io_error.
Result<std::vector<LogFile>> open_all(const std::string& path, std::int64_t position);

// Creates an empty file with the log's name whose content begins at `begin`; `older` are the files
// that stay. Replaces an existing file of that name. Errors: io_error, storage_full.
Result<LogFile> create(const std::string& path, std::int64_t begin,
                       const std::vector<IndexEntry>& older);

// Frees the log's name: its file becomes generation 1, that one 2, …; files beyond `generations`
// are removed. With 0 the file keeps its name for create() to replace. Errors: io_error,
// storage_full; some files may have been renamed then.
Result<void> shift(const std::string& path, int generations);

}  // namespace mainspring::log_files
