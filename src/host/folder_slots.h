// FolderSlots: how many jobs each queue folder may run at once, by the demand of its queue.
//
// For folders with a `target`, and for all folders of a pool with `slots`. Each starts with its
// minimum, at least 1. While all its slots are busy the scaling rule (scale/rule.h) adds slots, as
// far as the machine allows. The slots of a pool are shared by need.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "env/pressure.h"
#include "host/isolation.h"
#include "host/ticker.h"
#include "scale/rule.h"
#include "store/operations.h"

namespace mainspring {

class FolderSlots {
 public:
  struct Folder {
    std::string queue, pool;
    ScaleOptions options;          // in slots: a worker is one
    std::function<int()> running;  // jobs
    std::function<void(int slots)> set;
  };
  using Queues = std::function<Result<std::vector<QueueStats>>()>;
  using PoolSlots = std::function<int(const std::string& pool)>;  // 0 = no limit
  // All outlive it.
  FolderSlots(
      Queues queues, PoolSlots pool_slots, Log& log,
      std::function<MachinePressure()> pressure = [] { return read_pressure(); })
      : queues_(std::move(queues)),
        pool_slots_(std::move(pool_slots)),
        log_(log),
        pressure_(std::move(pressure)) {}

  // Sets the folder's slots until the result is destroyed; after that no function of it is called.
  std::shared_ptr<void> add(Folder folder) MS_EXCLUDES(mutex_);
  // The largest peak memory of a child of the queue's folder.
  void note_memory(const std::string& queue, std::int64_t bytes) MS_EXCLUDES(mutex_);
  // Returns when to call again. Reads the queues only while a folder is busy or has more slots than
  // its minimum.
  Instant step(Now now) MS_EXCLUDES(mutex_);

 private:
  struct Entry {
    Folder folder;
    ScalePool rule;
    int slots = 1;
    int wanted = 1;
    std::int64_t peak_bytes = 0;
    std::string why;
    int least() const { return std::max(1, folder.options.min); }
  };
  void share_pools() MS_REQUIRES(mutex_);

  const Queues queues_;
  const PoolSlots pool_slots_;
  Log& log_;
  const std::function<MachinePressure()> pressure_;
  Mutex mutex_;
  Instant next_ MS_GUARDED_BY(mutex_);
  std::list<Entry> entries_ MS_GUARDED_BY(mutex_);
};

}  // namespace mainspring
