// FileGuard: the files beside the database that keep it from being opened twice, replaced by an
// empty one, read by other users, or stopped by a full disk.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mainspring/result.h"

namespace mainspring::sqlite {

class FileGuard {
 public:
  // Creates the directory if needed and locks DIR/OWNER for this process. Errors: conflict (the
  // pid of the owner; or DIR/INITIALISED or a write-ahead log says that there was a store, and
  // `database` is missing or empty), io_error (owner and mode of what cannot be accessed),
  // storage_full, invalid_argument.
  static Result<std::unique_ptr<FileGuard>> lock(const std::string& directory,
                                                 const std::string& database,
                                                 std::size_t reserve_bytes);
  ~FileGuard();
  FileGuard(const FileGuard&) = delete;
  FileGuard& operator=(const FileGuard&) = delete;

  // DIR/INITIALISED was there at lock(): the database must hold a store.
  bool initialised() const { return initialised_; }
  // Writes DIR/INITIALISED, durably, once the database exists.
  Result<void> mark_initialised();
  // Files that other users could access until lock(), with their modes.
  const std::vector<std::string>& were_open() const { return were_open_; }

  // Disk space for finishing jobs, DIR/RESERVE: smaller than asked for on a small file system.
  std::size_t reserve_bytes() const { return reserve_bytes_; }
  // Allocates what is missing of the reserve if that leaves comfortable room. Free pages of the
  // database count: its file never shrinks. False if there is no space.
  bool take_reserve(std::size_t free_in_database);
  bool is_whole() const;
  // Frees a slice of the reserve: other programs may take what is free. The last slice is for
  // opening the store on a full disk. False if there is none to free.
  enum class For : std::uint8_t { finishing, opening };
  bool give_up_slice(For use);
  // Is there less space than opening a store may need?
  bool too_full_to_open() const;
  // How long the write-ahead log may become, so that the reserve has room for it.
  std::size_t log_bytes() const;

 private:
  FileGuard(std::string directory, int owner_fd, std::size_t reserve_bytes);
  Result<void> check_database(const std::string& database) const;
  std::size_t reserved() const;  // bytes that are allocated
  std::size_t last_slice() const;

  std::string directory_, reserve_;
  int owner_fd_;
  std::size_t reserve_bytes_;
  bool small_disk_ = false;
  bool initialised_ = false;
  std::vector<std::string> were_open_;
};

// Is there a database in the directory? Errors: io_error (who may access it) if that is unknown.
Result<bool> database_exists(const std::string& database);
// A file that cannot be accessed: with owner, mode and advice if permissions are the cause.
Error access_error(std::string_view what, const std::string& path, int error_number);
// fsync of a directory, so that files made in it stay. Errors: io_error.
Result<void> sync_directory(const std::string& directory);

}  // namespace mainspring::sqlite
