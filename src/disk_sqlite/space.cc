// The reserve and the write-ahead log on a full disk.
#include "disk_sqlite/space.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/mutant.h"

namespace mainspring::sqlite {
namespace {

// Maximum pages of the write-ahead log while the disk is full: the reserve is for the database.
constexpr int kCheckpointWhenFull = 256;
constexpr std::size_t kPageBytes = 4096;

}  // namespace

std::string Space::shortage() const {
  if (!full_) return {};
  const std::size_t reserve = guard_ != nullptr ? guard_->reserve_bytes() : 0;
  return fmt::format("the disk of {} is full: new jobs are refused until {} MiB are free",
                     directory_, (reserve + reserve / 8 + (1 << 20) - 1) >> 20);
}

void Space::make_room_to_open() {
  if (guard_ == nullptr) return;
  while (guard_->too_full_to_open() && guard_->give_up_slice(FileGuard::For::opening)) {
  }
}

void Space::with_reserve(const std::function<void()>& write) {
  for (;;) {
    try {
      return write();
    } catch (const DiskError& error) {
      if (error.fault != DiskFault::full || guard_ == nullptr ||
          !guard_->give_up_slice(FileGuard::For::opening)) {
        throw;
      }
    }
  }
}

void Space::refuse_new_jobs() {
  if (full_.exchange(true)) return;
  log_.warn("the disk is full: new jobs are refused until there is space", {{"path", directory_}});
}

bool Space::find_space(Database& db) {
  refuse_new_jobs();
  const bool freed = guard_ != nullptr && guard_->give_up_slice(FileGuard::For::finishing);
  // The log file is the store's own space. Freeing it is the last resort.
  fold_log(db, !freed);
  return freed;
}

// Moves the log into the database. Leaves the log unchanged if a reader uses it or the disk has no
// space for new pages.
void Space::fold_log(Database& db, bool shorten) {
  try {
    db.execute(fmt::format("PRAGMA wal_autocheckpoint = {}", kCheckpointWhenFull).c_str());
    db.checkpoint_now(shorten);
  } catch (const DiskError& error) {
    if (error.fault != DiskFault::full) throw;
    log_.debug("the log of the store stays as it is", {{"why", error.detail}});
  }
}

bool Space::take_reserve(Database& db) {
  if (guard_ == nullptr) return true;
  try {
    const std::int64_t pages = db.query_int("PRAGMA freelist_count");
    if (!guard_->take_reserve(static_cast<std::size_t>(pages) * kPageBytes)) return false;
    db.execute(fmt::format("PRAGMA wal_autocheckpoint = {}", checkpoint_pages()).c_str());
    return true;
  } catch (const DiskError&) {
    return false;  // the next transaction reports it
  }
}

bool Space::still_full(Database& db) {
  if (!full_) return false;
  if (!take_reserve(db)) return true;
  log_.info("there is space on the disk again: new jobs are accepted", {{"path", directory_}});
  full_ = false;
  return false;
}

// The reserve has room for the log.
int Space::checkpoint_pages() const {
  if (guard_ == nullptr || guard_->reserve_bytes() == 0) return most_pages_;
  if (!guard_->is_whole()) return std::min(most_pages_, kCheckpointWhenFull);
  const int fit =
      static_cast<int>(std::min<std::size_t>(guard_->log_bytes() / kPageBytes, 1 << 20));
  return std::min(most_pages_, std::max(kCheckpointWhenFull, fit));
}

void Space::shorten_log(Database& db, const std::string& database, Instant now) {
  if (now < look_at_log_ || MS_MUTANT(long_log_stays)) return;
  look_at_log_ = now + kLookAtLog;
  struct stat file {};
  if (::stat((database + "-wal").c_str(), &file) != 0 || file.st_size <= kLongLogBytes) return;
  try {
    db.checkpoint_now(true);
  } catch (const DiskError& error) {
    log_.debug("the log of the store stays long", {{"why", error.detail}});
  }
}

}  // namespace mainspring::sqlite
