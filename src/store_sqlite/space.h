// Space: what a store does about a full disk. It keeps the reserve, limits the write-ahead log, and
// says whether new jobs are accepted.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "store_sqlite/database.h"
#include "store_sqlite/guard.h"
#include "telemetry/log.h"

namespace mainspring::sqlite {

// `guard` = nullptr: there is no reserve (simulated disks).
class Space {
 public:
  Space(FileGuard* guard, std::string directory, int checkpoint_pages, Log& log)
      : guard_(guard), directory_(std::move(directory)), most_pages_(checkpoint_pages), log_(log) {}

  // New jobs are refused: the disk was full, or the reserve is not whole. From any thread.
  bool full() const { return full_; }
  // Why, and until when; "" = they are accepted. From any thread.
  std::string shortage() const;

  // For opening, which must work on a full disk: frees what the index of the log may need.
  void make_room_to_open();
  // Runs `write`, again after each slice of the reserve that it needs. Throws what `write` throws.
  void with_reserve(const std::function<void()>& write);

  // From now on new jobs are refused, until the reserve can be allocated.
  void refuse_new_jobs();
  // After a transaction that found no space: frees a slice of the reserve, and moves the log into
  // the database. False: nothing could be freed. Throws SqlError if the disk fails.
  bool find_space(Database& db);
  // Allocates the reserve; false if there is no space for it.
  bool take_reserve(Database& db);
  // full(), unless the reserve can be allocated now.
  bool still_full(Database& db);
  // How long the log may become.
  int checkpoint_pages() const;

 private:
  void fold_log(Database& db, bool shorten);

  FileGuard* guard_;
  std::string directory_;
  int most_pages_;
  Log& log_;
  std::atomic<bool> full_ = false;
};

}  // namespace mainspring::sqlite
