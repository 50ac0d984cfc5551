// FileGuard: the files beside the database that keep it from being opened twice, recreated
// silently, or choked by a full disk.
#pragma once

#include <memory>
#include <string>

#include "mainspring/result.h"

namespace mainspring::sqlite {

class FileGuard {
 public:
  // Makes the directory if needed and locks DIR/OWNER for this process. Errors: conflict with the
  // owner's pid; conflict when DIR/INITIALISED says that there was a store and `database` is gone;
  // io_error; invalid_argument.
  static Result<std::unique_ptr<FileGuard>> lock(const std::string& directory,
                                                 const std::string& database,
                                                 std::size_t reserve_bytes);
  ~FileGuard();
  FileGuard(const FileGuard&) = delete;
  FileGuard& operator=(const FileGuard&) = delete;

  // DIR/INITIALISED was there when the directory was locked.
  bool initialised() const { return initialised_; }
  // Writes DIR/INITIALISED, durably, once the database exists.
  Result<void> mark_initialised();
  // Allocates DIR/RESERVE if there is comfortable room for it; false if there is not.
  bool take_reserve();
  void give_up_reserve();
  // Is there room for new work: the reserve is there, or could be taken again?
  bool has_room();

 private:
  FileGuard(std::string directory, int owner_fd, std::size_t reserve_bytes);
  std::string directory_;
  int owner_fd_;
  bool initialised_ = false;
  std::size_t reserve_bytes_;
};

// fsync of a directory, so that files made in it stay. Errors: io_error.
Result<void> sync_directory(const std::string& directory);

}  // namespace mainspring::sqlite
