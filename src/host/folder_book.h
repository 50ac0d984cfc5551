// FolderBook: which job folders this host has seen, and when; kept in its data directory.
//
//   seen ──▶ there ──not there any more──▶ missing ──retention, or removed by command──▶ forgotten
//              ▲                              │
//              └───────it is there again──────┘
//
// A folder that is missing may be on a disk that is not mounted. So what is kept of its job stays
// until it was missing for the whole retention, by the wall clock, and a host has watched it be
// missing for kWatch or the retention: a server that was off for months deletes nothing at its
// start, and neither does a clock that is ahead for an hour.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "env/clock.h"
#include "host/control.h"
#include "mainspring/result.h"

namespace mainspring {

class FolderBook {
 public:
  static constexpr Duration kWatch = std::chrono::hours(24);
  static constexpr Duration kSaveEvery = std::chrono::minutes(10);
  static constexpr std::size_t kMaxFolders = 100'000;  // those beyond are not recorded

  FolderBook(std::string path, Duration retention)
      : path_(std::move(path)), retention_(retention) {}

  // What an earlier host wrote. Errors: the file cannot be read; the book is empty then.
  Result<void> read(const Now& now);
  // Writes the file if a folder came or went, or kSaveEvery has passed; `always`: in any case.
  // Errors: io_error, storage_full.
  Result<void> save(const Now& now, bool always);

  void seen(const HostKey& key, const Now& now);
  // It is there, but not loaded: nothing of it is deleted.
  void kept(const HostKey& key, const Now& now);
  // True if it was not missing before.
  bool missing(const HostKey& key, const Now& now);
  // Removed by command: what is kept of it is deleted as soon as nothing uses it.
  void removed(const HostKey& key, const Now& now);
  void forget(const HostKey& key);

  bool contains(const HostKey& key) const { return folders_.contains(key); }
  bool is_missing(const HostKey& key) const;
  std::optional<MissingFolder> find_missing(const HostKey& key, const Now& now) const;
  std::vector<HostKey> keys() const;
  std::vector<HostKey> missing_keys() const;
  // Those whose data is to be deleted now.
  std::vector<HostKey> due(const Now& now) const;
  // When the next one may be due; never() = none is missing.
  Instant next_due(const Now& now) const;

 private:
  struct Record {
    WallTime seen;  // last
    bool missing = false;
    bool removed = false;
    Duration watched{0};  // how long hosts have watched it be missing, until `counted`
    Instant counted;
  };
  Duration watched(const Record& record, const Now& now) const;
  Duration left(const Record& record, const Now& now) const;  // until it is due; 0 = it is
  std::string text(const Now& now) const;
  Record* record_of(const HostKey& key, const Now& now);  // nullptr = there are too many

  const std::string path_;
  const Duration retention_;
  std::map<HostKey, Record> folders_;
  bool changed_ = false;
  Instant saved_at_;
};

}  // namespace mainspring
