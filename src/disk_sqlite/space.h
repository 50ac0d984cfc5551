// Space: how a store handles a full disk. It keeps the reserve, limits the write-ahead log, and
// decides whether new jobs are accepted.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "disk_sqlite/database.h"
#include "disk_sqlite/guard.h"
#include "mainspring/time.h"
#include "telemetry/log.h"

namespace mainspring::sqlite {

// `guard` = nullptr: no reserve (simulated disks).
class Space {
 public:
  Space(FileGuard* guard, std::string directory, int checkpoint_pages, Log& log)
      : guard_(guard), directory_(std::move(directory)), most_pages_(checkpoint_pages), log_(log) {}

  // Whether new jobs are refused: the disk was full, or the reserve is incomplete. Any thread.
  bool full() const { return full_; }
  // Why, and until when; "" = new jobs are accepted. Any thread.
  std::string shortage() const;

  // Called at open, which must work on a full disk: frees the space that the log index may need.
  void make_room_to_open();
  // Runs `write`; on a full disk frees a slice of the reserve and runs it again. Throws what
  // `write` throws.
  void with_reserve(const std::function<void()>& write);

  // Refuses new jobs until the reserve can be allocated.
  void refuse_new_jobs();
  // After a transaction that found no space: frees a slice of the reserve, and moves the log into
  // the database. False: nothing could be freed. Throws DiskError if the disk fails.
  bool find_space(Database& db);
  // Allocates the reserve; false if there is no space.
  bool take_reserve(Database& db);
  // full(), after an attempt to allocate the reserve.
  bool still_full(Database& db);
  // Maximum length of the log.
  int checkpoint_pages() const;
  // A reader keeps the log from being reused, so it grows. Once the reader has gone, this moves the
  // log into the database and shortens its file. Looks at most every kLookAtLog.
  void shorten_log(Database& db, const std::string& database, Instant now);
  static constexpr Duration kLookAtLog = std::chrono::seconds(10);
  static constexpr std::int64_t kLongLogBytes = 32 << 20;  // more than a log without such readers

 private:
  void fold_log(Database& db, bool shorten);

  FileGuard* guard_;
  std::string directory_;
  int most_pages_;
  Log& log_;
  std::atomic<bool> full_ = false;
  Instant look_at_log_;
};

}  // namespace mainspring::sqlite
