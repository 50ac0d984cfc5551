// File operations of the job host. Trees are walked through descriptors of directories, so that no
// link leads out of them.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "env/fd.h"
#include "mainspring/result.h"

namespace mainspring {

// storage_full if the disk or its quota is full, unavailable if it is read-only, else io_error:
// "cannot <what> <path>: <why>".
Error file_error(std::string_view what, const std::string& path, int error_number);

// Reads a regular file of at most `max` bytes; nullopt if there is none. Errors: too_large,
// io_error (also if it is not a regular file).
Result<std::optional<std::string>> read_whole_file(const std::string& path, std::size_t max);

struct Entry {
  std::string name;
  unsigned char type = 0;  // DT_REG, DT_DIR, DT_LNK, …; never DT_UNKNOWN
};
inline constexpr std::size_t kMaxDirectoryEntries = 100'000;
// The entries of a directory except "." and "..", by name. Errors: io_error, too_large.
Result<std::vector<Entry>> list_directory(int directory, const std::string& shown);
// Errors also: not_found.
Result<std::vector<Entry>> list_directory(const std::string& path);

// Maximum depth of trees that are copied or removed.
inline constexpr int kMaxTreeDepth = 128;

// Removes everything at `path`, which may be a file; links are removed, not followed. Succeeds if
// there is nothing. Errors: io_error.
Result<void> remove_tree(const std::string& path);

Result<void> write_all(int fd, std::string_view bytes, const std::string& shown);
// Makes changes in a directory durable. Errors: io_error.
Result<void> sync_directory(const std::string& path);

// "report" of "jobs/triggered/report/"; and "jobs/triggered", "." if there is nothing before.
std::string base_name(const std::string& path);
std::string parent_of(const std::string& path);

}  // namespace mainspring
