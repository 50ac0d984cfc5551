// The simulated disk and the C functions through which SQLite reaches it.
#include "simulation/sim_vfs.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/assert.h"

namespace mainspring::simulation {

struct PendingWrite {
  std::size_t offset = 0;
  std::string data;  // empty: a truncation to `offset`
  bool truncate = false;
};

// The locks of one file, over all connections.
struct SimFile {
  std::string current;  // what a reader sees
  std::string synced;   // what survives for certain
  std::vector<PendingWrite> pending;
  bool entry_synced = false;  // the file's name survives
  std::vector<SimDisk::Handle*> handles;
  std::vector<std::unique_ptr<char[]>> shm;
};

struct SimDisk::Handle {
  sqlite3_file base;  // first: SQLite sees only this
  SimDisk* disk;
  std::shared_ptr<SimFile>* file;
  std::int64_t generation;
  int lock;
  unsigned shm_shared;
  unsigned shm_exclusive;
};

namespace {

using Handle = SimDisk::Handle;

void write_into(std::string& content, const PendingWrite& w) {
  if (w.truncate) {
    content.resize(w.offset);
    return;
  }
  if (content.size() < w.offset + w.data.size()) content.resize(w.offset + w.data.size());
  content.replace(w.offset, w.data.size(), w.data);
}

Handle& handle_of(sqlite3_file* f) {
  return *reinterpret_cast<Handle*>(f);
}
SimFile& file_of(sqlite3_file* f) {
  return **handle_of(f).file;
}
SimDisk& disk_of(sqlite3_vfs* v) {
  return *static_cast<SimDisk*>(v->pAppData);
}

int vfs_close(sqlite3_file* f) {
  Handle& h = handle_of(f);
  auto& handles = (*h.file)->handles;
  handles.erase(std::remove(handles.begin(), handles.end(), &h), handles.end());
  delete h.file;
  h.file = nullptr;
  return SQLITE_OK;
}

int vfs_read(sqlite3_file* f, void* out, int size, sqlite3_int64 offset) {
  Handle& h = handle_of(f);
  if (!h.disk->alive(h)) return SQLITE_IOERR_READ;
  const std::string& content = file_of(f).current;
  const auto at = static_cast<std::size_t>(offset);
  const auto want = static_cast<std::size_t>(size);
  const std::size_t have = at >= content.size() ? 0 : std::min(want, content.size() - at);
  if (have > 0) std::memcpy(out, content.data() + at, have);
  if (have == want) return SQLITE_OK;
  std::memset(static_cast<char*>(out) + have, 0, want - have);
  return SQLITE_IOERR_SHORT_READ;
}

int vfs_write(sqlite3_file* f, const void* data, int size, sqlite3_int64 offset) {
  Handle& h = handle_of(f);
  return h.disk->write(h, data, static_cast<std::size_t>(size), static_cast<std::size_t>(offset));
}

int vfs_truncate(sqlite3_file* f, sqlite3_int64 size) {
  Handle& h = handle_of(f);
  return h.disk->truncate(h, static_cast<std::size_t>(size));
}

int vfs_sync(sqlite3_file* f, int) {
  Handle& h = handle_of(f);
  return h.disk->sync(h);
}

int vfs_size(sqlite3_file* f, sqlite3_int64* size) {
  Handle& h = handle_of(f);
  if (!h.disk->alive(h)) return SQLITE_IOERR_FSTAT;
  *size = static_cast<sqlite3_int64>(file_of(f).current.size());
  return SQLITE_OK;
}

// Source: https://www.sqlite.org/lockingv3.html
int vfs_lock(sqlite3_file* f, int level) {
  Handle& h = handle_of(f);
  if (!h.disk->alive(h)) return SQLITE_IOERR_LOCK;
  if (h.lock >= level) return SQLITE_OK;
  int others = SQLITE_LOCK_NONE;
  for (const Handle* other : file_of(f).handles) {
    if (other != &h) others = std::max(others, other->lock);
  }
  if (level == SQLITE_LOCK_SHARED) {
    if (others >= SQLITE_LOCK_PENDING) return SQLITE_BUSY;
  } else if (others >= SQLITE_LOCK_RESERVED) {
    return SQLITE_BUSY;
  } else if (level == SQLITE_LOCK_EXCLUSIVE && others > SQLITE_LOCK_NONE) {
    h.lock = SQLITE_LOCK_PENDING;
    return SQLITE_BUSY;
  }
  h.lock = level;
  return SQLITE_OK;
}

int vfs_unlock(sqlite3_file* f, int level) {
  Handle& h = handle_of(f);
  h.lock = std::min(h.lock, level);
  return SQLITE_OK;
}

int vfs_check_reserved(sqlite3_file* f, int* out) {
  *out = 0;
  for (const Handle* h : file_of(f).handles) *out |= h->lock >= SQLITE_LOCK_RESERVED ? 1 : 0;
  return SQLITE_OK;
}

int vfs_control(sqlite3_file*, int, void*) {
  return SQLITE_NOTFOUND;
}
int vfs_sector(sqlite3_file*) {
  return static_cast<int>(kSectorBytes);
}
int vfs_characteristics(sqlite3_file*) {
  return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

int vfs_shm_map(sqlite3_file* f, int region, int size, int extend, void volatile** out) {
  Handle& h = handle_of(f);
  *out = nullptr;
  if (!h.disk->alive(h)) return SQLITE_IOERR_SHMMAP;
  auto& shm = file_of(f).shm;
  const auto index = static_cast<std::size_t>(region);
  if (index >= shm.size() && extend == 0) return SQLITE_OK;
  while (index >= shm.size()) {
    shm.push_back(std::make_unique<char[]>(static_cast<std::size_t>(size)));
  }
  *out = shm[index].get();
  return SQLITE_OK;
}

int vfs_shm_lock(sqlite3_file* f, int offset, int n, int flags) {
  Handle& h = handle_of(f);
  const unsigned mask = ((1U << n) - 1U) << offset;
  if ((flags & SQLITE_SHM_UNLOCK) != 0) {
    h.shm_shared &= ~mask;
    h.shm_exclusive &= ~mask;
    return SQLITE_OK;
  }
  if (!h.disk->alive(h)) return SQLITE_IOERR_SHMLOCK;
  for (const Handle* other : file_of(f).handles) {
    if (other == &h) continue;
    if ((other->shm_exclusive & mask) != 0) return SQLITE_BUSY;
    if ((flags & SQLITE_SHM_EXCLUSIVE) != 0 && (other->shm_shared & mask) != 0) return SQLITE_BUSY;
  }
  ((flags & SQLITE_SHM_EXCLUSIVE) != 0 ? h.shm_exclusive : h.shm_shared) |= mask;
  return SQLITE_OK;
}

void vfs_shm_barrier(sqlite3_file*) {}

int vfs_shm_unmap(sqlite3_file* f, int remove) {
  handle_of(f).shm_shared = handle_of(f).shm_exclusive = 0;
  if (remove != 0) file_of(f).shm.clear();
  return SQLITE_OK;
}

const sqlite3_io_methods kMethods = {.iVersion = 2,
                                     .xClose = vfs_close,
                                     .xRead = vfs_read,
                                     .xWrite = vfs_write,
                                     .xTruncate = vfs_truncate,
                                     .xSync = vfs_sync,
                                     .xFileSize = vfs_size,
                                     .xLock = vfs_lock,
                                     .xUnlock = vfs_unlock,
                                     .xCheckReservedLock = vfs_check_reserved,
                                     .xFileControl = vfs_control,
                                     .xSectorSize = vfs_sector,
                                     .xDeviceCharacteristics = vfs_characteristics,
                                     .xShmMap = vfs_shm_map,
                                     .xShmLock = vfs_shm_lock,
                                     .xShmBarrier = vfs_shm_barrier,
                                     .xShmUnmap = vfs_shm_unmap,
                                     .xFetch = nullptr,
                                     .xUnfetch = nullptr};

int vfs_open(sqlite3_vfs* v, const char* path, sqlite3_file* f, int flags, int* out_flags) {
  f->pMethods = nullptr;
  const int code = disk_of(v).open(path, flags, handle_of(f));
  if (code == SQLITE_OK) f->pMethods = &kMethods;
  if (out_flags != nullptr) *out_flags = flags;
  return code;
}

int vfs_delete(sqlite3_vfs* v, const char* path, int sync_directory) {
  return disk_of(v).remove(path, sync_directory != 0);
}

int vfs_access(sqlite3_vfs* v, const char* path, int, int* out) {
  if (!disk_of(v).count_call()) return SQLITE_IOERR_ACCESS;
  *out = disk_of(v).exists(path) ? 1 : 0;
  return SQLITE_OK;
}

int vfs_full_path(sqlite3_vfs*, const char* path, int size, char* out) {
  sqlite3_snprintf(size, out, "%s", path);
  return SQLITE_OK;
}

int vfs_randomness(sqlite3_vfs* v, int size, char* out) {
  for (int i = 0; i < size; ++i) out[i] = static_cast<char>(disk_of(v).random().next());
  return size;
}

int vfs_sleep(sqlite3_vfs*, int microseconds) {
  return microseconds;
}
int vfs_time(sqlite3_vfs*, double* julian_day) {
  *julian_day = 2461041.5;  // 2026-01-01
  return SQLITE_OK;
}
int vfs_last_error(sqlite3_vfs*, int, char*) {
  return 0;
}

}  // namespace

SimDisk::SimDisk(std::string name, std::uint64_t seed) : name_(std::move(name)), random_(seed) {
  MS_ASSERT(sqlite3_vfs_find(name_.c_str()) == nullptr, "each simulated disk has its own name");
  vfs_.iVersion = 1;
  vfs_.szOsFile = sizeof(Handle);
  vfs_.mxPathname = 512;
  vfs_.zName = name_.c_str();
  vfs_.pAppData = this;
  vfs_.xOpen = vfs_open;
  vfs_.xDelete = vfs_delete;
  vfs_.xAccess = vfs_access;
  vfs_.xFullPathname = vfs_full_path;
  vfs_.xRandomness = vfs_randomness;
  vfs_.xSleep = vfs_sleep;
  vfs_.xCurrentTime = vfs_time;
  vfs_.xGetLastError = vfs_last_error;
  sqlite3_vfs_register(&vfs_, 0);
}

SimDisk::~SimDisk() {
  sqlite3_vfs_unregister(&vfs_);
}

bool SimDisk::count_call() {
  if (crashed_) return false;
  ++calls_;
  if (crash_in_ == kNoFault || --crash_in_ > 0) return true;
  crash();
  return false;
}

bool SimDisk::alive(const Handle& handle) {
  return handle.generation == generation_ && count_call();
}

void SimDisk::crash() {
  if (crashed_) return;
  crashed_ = true;
  crash_in_ = kNoFault;
  ++stats_.crashes;
}

int SimDisk::open(const char* path, int flags, Handle& handle) {
  if (!count_call()) return SQLITE_CANTOPEN;
  std::shared_ptr<SimFile> file;
  if (path == nullptr) {
    file = std::make_shared<SimFile>();
  } else if (const auto found = files_.find(path); found != files_.end()) {
    file = found->second;
  } else if ((flags & SQLITE_OPEN_CREATE) == 0) {
    return SQLITE_CANTOPEN;
  } else {
    file = files_[path] = std::make_shared<SimFile>();
  }
  handle.disk = this;
  handle.file = new std::shared_ptr<SimFile>(file);
  handle.generation = generation_;
  handle.lock = SQLITE_LOCK_NONE;
  handle.shm_shared = handle.shm_exclusive = 0;
  file->handles.push_back(&handle);
  return SQLITE_OK;
}

int SimDisk::remove(const std::string& path, bool sync_directory) {
  if (!count_call()) return SQLITE_IOERR_DELETE;
  const auto found = files_.find(path);
  if (found == files_.end()) return SQLITE_IOERR_DELETE_NOENT;
  if (sync_directory) {
    removed_.erase(path);
  } else if (found->second->entry_synced) {
    removed_[path] = found->second;
  }
  files_.erase(found);
  return SQLITE_OK;
}

std::int64_t SimDisk::used() const {
  std::size_t sum = 0;
  for (const auto& [name, file] : files_) sum += file->current.size();
  return static_cast<std::int64_t>(sum);
}

int SimDisk::write(Handle& handle, const void* data, std::size_t size, std::size_t offset) {
  if (crashed_ || handle.generation != generation_) return SQLITE_IOERR_WRITE;
  SimFile& file = **handle.file;
  const std::size_t end = offset + size;
  if (end > file.current.size() && capacity_ != kNoFault &&
      used() + static_cast<std::int64_t>(end - file.current.size()) > capacity_) {
    ++stats_.refused_full;
    return count_call() ? SQLITE_FULL : SQLITE_IOERR_WRITE;
  }
  PendingWrite w{offset, std::string(static_cast<const char*>(data), size)};
  write_into(file.current, w);
  file.pending.push_back(std::move(w));
  return count_call() ? SQLITE_OK : SQLITE_IOERR_WRITE;  // a crash here leaves some of it, or none
}

int SimDisk::truncate(Handle& handle, std::size_t size) {
  if (!alive(handle)) return SQLITE_IOERR_TRUNCATE;
  SimFile& file = **handle.file;
  if (size >= file.current.size()) return SQLITE_OK;
  file.pending.push_back({size, {}, true});
  file.current.resize(size);
  return SQLITE_OK;
}

int SimDisk::sync(Handle& handle) {
  SimFile& file = **handle.file;
  if (crashed_ || handle.generation != generation_) return SQLITE_IOERR_FSYNC;
  const bool power = count_call();
  // A crash in the middle of a sync: sometimes it had just been done, and only the answer is lost.
  if (!power && random_.below(2) == 0) return SQLITE_IOERR_FSYNC;
  if (power && fail_sync_in_ != kNoFault && --fail_sync_in_ <= 0) {
    fail_sync_in_ = kNoFault;
    ++stats_.failed_syncs;
    stats_.lost_writes += static_cast<std::int64_t>(file.pending.size());
    file.pending.clear();  // readable from the cache, never on the disk
    return SQLITE_IOERR_FSYNC;
  }
  for (const PendingWrite& w : file.pending) write_into(file.synced, w);
  file.pending.clear();
  // The first sync of a new file syncs its directory too, as SQLite's own VFS does for journals.
  if (!file.entry_synced) {
    for (auto& [name, each] : files_) each->entry_synced = true;
    removed_.clear();
  }
  return power ? SQLITE_OK : SQLITE_IOERR_FSYNC;
}

// After the crash: what was synced, and of the rest what chance left.
void SimDisk::settle(SimFile& file) {
  enum Fate { nothing, everything, prefix, subset, torn, kFates };
  const auto fate = static_cast<Fate>(random_.below(kFates));
  const std::size_t cut = file.pending.empty() ? 0 : random_.below(file.pending.size() + 1);
  for (std::size_t i = 0; i < file.pending.size(); ++i) {
    PendingWrite& w = file.pending[i];
    const bool keep = fate == everything || (fate == prefix && i < cut) ||
                      ((fate == subset || fate == torn) && random_.below(2) == 0);
    ++(keep ? stats_.kept_writes : stats_.lost_writes);
    if (keep && (fate != torn || w.truncate)) write_into(file.synced, w);
    if (!keep || fate != torn || w.truncate) continue;
    for (std::size_t at = 0; at < w.data.size();) {  // sector by sector
      const std::size_t in_sector = (w.offset + at) % kSectorBytes;
      const std::size_t n = std::min(kSectorBytes - in_sector, w.data.size() - at);
      if (random_.below(2) == 0) write_into(file.synced, {w.offset + at, w.data.substr(at, n)});
      at += n;
    }
  }
}

void SimDisk::reboot(Loss loss) {
  crash();
  crashed_ = false;
  ++generation_;
  if (loss == Loss::nothing) {
    for (auto& [name, file] : files_) {
      auto next = std::make_shared<SimFile>();
      next->current = std::move(file->current);
      next->synced = std::move(file->synced);
      next->pending = std::move(file->pending);
      next->entry_synced = file->entry_synced;
      file = next;
    }
    return;
  }
  std::map<std::string, std::shared_ptr<SimFile>> after;
  for (auto& [name, old] : removed_) {
    if (!files_.contains(name) && random_.below(2) == 0) files_[name] = old;
  }
  removed_.clear();
  for (auto& [name, old] : files_) {
    const bool named = old->entry_synced || random_.below(2) == 0;
    if (!named) {
      stats_.lost_writes += static_cast<std::int64_t>(old->pending.size());
      continue;
    }
    settle(*old);
    auto file = std::make_shared<SimFile>();
    file->synced = old->synced;
    file->current = old->synced;
    file->entry_synced = true;
    after[name] = file;
  }
  files_ = std::move(after);
}

bool SimDisk::damage(const std::string& name, std::size_t offset, unsigned char mask) {
  const auto found = files_.find(name);
  if (found == files_.end() || offset >= found->second->current.size()) return false;
  for (std::string* content : {&found->second->current, &found->second->synced}) {
    if (offset < content->size())
      (*content)[offset] = static_cast<char>((*content)[offset] ^ static_cast<char>(mask));
  }
  return true;
}

}  // namespace mainspring::simulation
