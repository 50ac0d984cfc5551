// FileGuard: files beside the database. They prevent that the database is opened twice, replaced by
// an empty one or read by other users, and that a full disk stops the store.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mainspring/result.h"

namespace mainspring::sqlite {

class FileGuard {
 public:
  // Creates the directory if needed and locks it and DIR/OWNER for this process: OWNER has the pid,
  // and the directory stays locked if OWNER is removed. Errors: conflict (the owner's pid; or
  // DIR/INITIALISED or a write-ahead log proves that a store existed, and `database` is missing or
  // empty), io_error (owner and mode of what cannot be accessed), storage_full, invalid_argument.
  static Result<std::unique_ptr<FileGuard>> lock(const std::string& directory,
                                                 const std::string& database,
                                                 std::size_t reserve_bytes);
  ~FileGuard();
  FileGuard(const FileGuard&) = delete;
  FileGuard& operator=(const FileGuard&) = delete;

  // DIR/INITIALISED existed at lock(): the database must contain a store.
  bool initialised() const { return initialised_; }
  // Writes DIR/INITIALISED durably and remembers which files are open: call it once the database
  // is open.
  Result<void> mark_initialised();
  // What is written reaches a later start only if the paths still name the open files. Errors:
  // io_error (a file was removed or replaced).
  Result<void> check_files() const;
  // Files that other users could access until lock(), with their modes.
  const std::vector<std::string>& were_open() const { return were_open_; }

  // Size of DIR/RESERVE, the disk space for finishing jobs. Smaller than requested on a small file
  // system.
  std::size_t reserve_bytes() const { return reserve_bytes_; }
  // Allocates the missing part of the reserve if enough space remains free. Free pages of the
  // database count as reserve: its file never shrinks. False if there is no space.
  bool take_reserve(std::size_t free_in_database);
  bool is_whole() const;
  // Frees a slice of the reserve; other programs may take the space. The last slice is for opening
  // the store on a full disk. False if no slice is left.
  enum class For : std::uint8_t { finishing, opening };
  bool give_up_slice(For use);
  // Whether less space is free than opening a store may need.
  bool too_full_to_open() const;
  // Maximum length of the write-ahead log for which the reserve has room.
  std::size_t log_bytes() const;

 private:
  FileGuard(std::string directory, int owner_fd, std::size_t reserve_bytes);
  Result<void> check_database(const std::string& database) const;
  std::size_t reserved() const;  // allocated bytes
  std::size_t last_slice() const;

  // A file that the store has open, and which file that is.
  struct OpenFile {
    std::string path;
    std::uint64_t device, inode;
  };
  void remember(const std::string& path);

  std::string directory_, reserve_, database_;
  int owner_fd_, directory_fd_ = -1;
  std::vector<OpenFile> open_files_;
  std::size_t reserve_bytes_;
  bool small_disk_ = false;
  bool initialised_ = false;
  std::vector<std::string> were_open_;
};

// Whether the directory contains a database. Errors: io_error (owner and mode) if that is unknown.
Result<bool> database_exists(const std::string& database);
// The error for a file that cannot be accessed: with owner, mode and advice if permissions are the
// cause.
Error access_error(std::string_view what, const std::string& path, int error_number);
// fsync of a directory, which makes new files in it durable. Errors: io_error.
Result<void> sync_directory(const std::string& directory);

}  // namespace mainspring::sqlite
