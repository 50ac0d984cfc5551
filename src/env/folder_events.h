// FolderEvents: reports files of one directory that were closed after writing, or moved in, with
// inotify; and identifies versions of a file.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring {

// Not thread-safe, except wake().
class FolderEvents {
 public:
  // Errors: not_found (no such directory), io_error (the system's watches are used up).
  static Result<std::unique_ptr<FolderEvents>> open(const std::string& directory);
  ~FolderEvents();
  FolderEvents(const FolderEvents&) = delete;
  FolderEvents& operator=(const FolderEvents&) = delete;

  struct Arrived {
    std::set<std::string> names;
    bool all = false;   // the system dropped events: any file may have arrived
    bool gone = false;  // the directory itself was removed or moved: open it again
  };
  // Waits until a file arrives, wake() is called or `limit` has passed; then returns all files.
  // Errors: io_error.
  Result<Arrived> wait(Duration limit);
  // Ends the current or the next wait. Thread-safe.
  void wake();

 private:
  FolderEvents(int inotify, int wake) : inotify_(inotify), wake_(wake) {}
  int inotify_, wake_;
};

// Device and inode of a directory. They change with a mount over it, or when a link in its path
// changes. nullopt = it cannot be read now.
struct DirectoryIdentity {
  std::uint64_t device = 0, inode = 0;
  friend bool operator==(const DirectoryIdentity&, const DirectoryIdentity&) = default;
};
std::optional<DirectoryIdentity> identity_of_directory(const std::string& path);

// Changes when the file is replaced or written to.
struct FileVersion {
  std::int64_t size = 0;
  std::int64_t modified_ns = 0;  // since 1970
  std::uint64_t inode = 0;
  WallTime changed_at;  // by the system, also when it was moved in
  friend bool operator==(const FileVersion& a, const FileVersion& b) {
    return a.size == b.size && a.modified_ns == b.modified_ns && a.inode == b.inode;
  }
};
// nullopt = there is no regular file of that name (links are not followed).
std::optional<FileVersion> version_of_file(const std::string& path);
// Returns whether a process of this machine has it open for writing. On network file systems, and
// for other users' files without root or CAP_LEASE, this is not known: returns false.
bool is_being_written(const std::string& path);
// Names of regular files, at most `limit`. Errors: not_found, io_error.
Result<std::vector<std::string>> files_of_folder(const std::string& directory, std::size_t limit);

}  // namespace mainspring
