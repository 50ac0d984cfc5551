// FolderBook: records which job folders this host has seen, and when, in its data directory.
//
//   seen ──▶ there ──not there any more──▶ missing ──retention, or removed by command──▶ forgotten
//              ▲                              │
//              └───────it is there again──────┘
//
// A missing folder may be on a disk that is not mounted. So the data of its job is kept until the
// folder was missing for the whole retention by the wall clock, and a host has observed that for
// kWatch or the retention. So a server that was off for months deletes nothing at its start, nor
// does a clock that is wrong for an hour.
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
  static constexpr std::size_t kMaxFolders = 100'000;  // further ones are not recorded

  FolderBook(std::string path, Duration retention)
      : path_(std::move(path)), retention_(retention) {}

  // Reads an earlier host's file. Errors: the file cannot be read; the book is empty then.
  Result<void> read(const Now& now);
  // Writes the file if a folder appeared or disappeared, or kSaveEvery has passed; `always`: in any
  // case. Errors: io_error, storage_full.
  Result<void> save(const Now& now, bool always);

  void seen(const HostKey& key, const Now& now);
  // The folder exists but is not loaded: its data is kept.
  void kept(const HostKey& key, const Now& now);
  // Returns true if it was not missing before.
  bool missing(const HostKey& key, const Now& now);
  // Removed by command: its data is deleted as soon as nothing uses it.
  void removed(const HostKey& key, const Now& now);
  void forget(const HostKey& key);

  bool contains(const HostKey& key) const { return folders_.contains(key); }
  bool is_missing(const HostKey& key) const;
  std::optional<MissingFolder> find_missing(const HostKey& key, const Now& now) const;
  std::vector<HostKey> keys() const;
  std::vector<HostKey> missing_keys() const;
  // Folders whose data is to be deleted now.
  std::vector<HostKey> due(const Now& now) const;
  // When the next one may be due; never() = none is missing.
  Instant next_due(const Now& now) const;

 private:
  struct Record {
    WallTime seen;  // last
    bool missing = false;
    bool removed = false;
    Duration watched{0};  // how long hosts have observed it missing, until `counted`
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
