// SimDisk: a disk in memory under SQLite, that can lose power, tear writes, fill up and fail fsync.
//
// Each file has what is synced and a list of later writes that are not. A crash keeps a seeded
// random subset of those, torn at 512 bytes, forgets the rest, and fails every call of the handles
// that were open, as a machine without power would. No exception passes through SQLite: after the
// crash its calls fail with SQLITE_IOERR until reboot().
//
// One thread, any number of connections; WAL mode works, shared memory included.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "env/random.h"

namespace mainspring::simulation {

inline constexpr std::int64_t kNoFault = std::numeric_limits<std::int64_t>::max();
inline constexpr std::size_t kSectorBytes = 512;

struct SimFile;

struct DiskStats {
  std::int64_t crashes = 0;
  std::int64_t lost_writes = 0;  // not synced, and gone (or torn) after a crash
  std::int64_t kept_writes = 0;  // not synced, and there after a crash
  std::int64_t refused_full = 0;
  std::int64_t failed_syncs = 0;
};

class SimDisk {
 public:
  // Registers itself as a SQLite VFS of this name, which must be unique in the process.
  SimDisk(std::string name, std::uint64_t seed);
  ~SimDisk();  // every connection has been closed
  SimDisk(const SimDisk&) = delete;
  SimDisk& operator=(const SimDisk&) = delete;

  const std::string& vfs() const { return name_; }

  // -- faults -------------------------------------------------------------------------------------
  // The power goes at the `calls`-th call from now (1 = the next), in its middle. kNoFault = never.
  void crash_after(std::int64_t calls) { crash_in_ = calls; }
  void crash();  // now
  bool crashed() const { return crashed_; }
  enum class Loss {
    unsynced,  // the power went: what was synced and some of the rest is there
    nothing,   // only the process was killed: all that it had written is there, synced or not
  };
  // After a crash (or now), the next process can begin. Connections from before stay dead.
  void reboot(Loss loss = Loss::unsynced);
  // The `calls`-th sync from now fails, and what it should have synced never reaches the disk.
  void fail_sync_after(std::int64_t calls) { fail_sync_in_ = calls; }
  // All files together may not grow beyond `bytes`; overwriting always works.
  void set_capacity(std::int64_t bytes) { capacity_ = bytes; }
  std::int64_t used() const;

  std::int64_t calls() const { return calls_; }
  const DiskStats& stats() const { return stats_; }
  // Flips bits of what is on the disk: `file` at `offset`. False if it is not that long.
  bool damage(const std::string& file, std::size_t offset, unsigned char mask);

  // -- for the VFS functions ----------------------------------------------------------------------
  struct Handle;
  // Counts a call. False: the power is (now) off.
  bool alive(const Handle& handle);
  bool count_call();
  int open(const char* path, int flags, Handle& handle);
  int remove(const std::string& path, bool sync_directory);
  bool exists(const std::string& path) const { return files_.contains(path); }
  int write(Handle& handle, const void* data, std::size_t size, std::size_t offset);
  int truncate(Handle& handle, std::size_t size);
  int sync(Handle& handle);
  SeededRandom& random() { return random_; }

 private:
  void settle(SimFile& file);
  std::string name_;
  sqlite3_vfs vfs_{};
  SeededRandom random_;
  std::map<std::string, std::shared_ptr<SimFile>> files_;
  // Files removed without a synced directory: they may come back.
  std::map<std::string, std::shared_ptr<SimFile>> removed_;
  bool crashed_ = false;
  std::int64_t generation_ = 0;
  std::int64_t calls_ = 0;
  std::int64_t crash_in_ = kNoFault;
  std::int64_t fail_sync_in_ = kNoFault;
  std::int64_t capacity_ = kNoFault;
  DiskStats stats_;
};

}  // namespace mainspring::simulation
