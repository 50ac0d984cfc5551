// The slots of queue folders, by demand.
#include "host/folder_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace mainspring {
namespace {

constexpr Duration kStep = std::chrono::seconds(1);
constexpr double kPriorSeconds = 2;  // run time of jobs that were never measured

ScaleLoad load_of(const QueueStats& queue, int running) {
  const QueueBacklog backlog = queue.backlog.value_or(QueueBacklog());
  ScaleLoad load{.arrivals_per_s = backlog.arrivals_per_second,
                 .mean_s = backlog.service ? as_seconds(*backlog.service) : kPriorSeconds};
  load.ready = static_cast<double>(
      std::max(backlog.jobs, queue.counts[static_cast<std::size_t>(JobState::available)]));
  load.running = running;
  if (queue.limits.concurrency) load.cap = *queue.limits.concurrency;
  if (queue.paused) load.cap = 0;
  return load;
}

}  // namespace

std::shared_ptr<void> FolderSlots::add(Folder folder) {
  MutexLock lock(mutex_);
  const auto entry = entries_.insert(entries_.end(), {std::move(folder), {}, 1, 1, 0, ""});
  entry->slots = entry->wanted = std::min(entry->least(), entry->folder.options.max);
  share_pools();
  return {nullptr, [this, entry](void*) {
            MutexLock end(mutex_);
            entries_.erase(entry);
          }};
}

void FolderSlots::note_memory(const std::string& queue, std::int64_t bytes) {
  MutexLock lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.folder.queue == queue) entry.peak_bytes = std::max(entry.peak_bytes, bytes);
  }
}

// Folders of a pool with `slots` get a share of these; each folder keeps one, so that it sees the
// end of its wait.
void FolderSlots::share_pools() {
  std::map<std::string, std::vector<Entry*>> pools;
  for (Entry& entry : entries_) pools[entry.folder.pool].push_back(&entry);
  for (const auto& [pool, entries] : pools) {
    const int slots = pool_slots_(pool);
    std::vector<SlotShare> shares;
    for (const Entry* entry : entries)
      shares.push_back({entry->least(), entry->folder.options.max, double(entry->wanted)});
    const std::vector<int> given = slots > 0 ? share_slots(slots, shares) : std::vector<int>();
    for (std::size_t i = 0; i < entries.size(); ++i) {
      Entry& entry = *entries[i];
      const int now = std::max(1, slots > 0 ? given[i] : entry.wanted);
      if (now != entry.slots) {
        log_.info("slots of a queue folder", {{"queue", entry.folder.queue},
                                              {"from", fmt::to_string(entry.slots)},
                                              {"to", fmt::to_string(now)},
                                              {"why", entry.why}});
      }
      entry.folder.set(entry.slots = now);
    }
  }
}

Instant FolderSlots::step(Now now) {
  MutexLock lock(mutex_);
  if (now.instant < next_) return next_;  // each folder calls
  next_ = now.instant + kStep;
  const bool work = std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
    return entry.slots > entry.least() || entry.folder.running() >= entry.slots;
  });
  if (!work) return next_;
  const auto queues = queues_();
  if (!queues) return next_;
  const MachinePressure pressure = pressure_();
  for (Entry& entry : entries_) {
    const auto queue = std::find_if(queues->begin(), queues->end(), [&](const QueueStats& one) {
      return one.name == entry.folder.queue;
    });
    if (queue == queues->end()) continue;
    const int running = entry.folder.running();
    const ScaleOptions& options = entry.folder.options;
    const ScaleLoad load = load_of(*queue, running);
    const SlotsNeeded needed = slots_needed({&load, 1}, options);
    const int desired =
        entry.rule.desired(now.instant, raw_workers({&load, 1}, needed, options), running, options);
    const int wanted = std::clamp(desired, std::min(entry.least(), options.max), options.max);
    entry.wanted = grown(entry.slots, wanted, pressure, entry.peak_bytes);
    entry.why = fmt::format("{} ready jobs of {:.1f} s, {:.2f} per second: {} slots{}", load.ready,
                            load.mean_s, load.arrivals_per_s, desired,
                            entry.wanted < wanted ? ", fewer as the machine is busy" : "");
  }
  share_pools();
  return next_;
}

}  // namespace mainspring
