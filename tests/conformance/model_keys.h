// Idempotency keys and unique keys of the model store.
#pragma once

#include <utility>

#include "conformance/model_state.h"
#include "store/bounds.h"

namespace mainspring {

// The record of an enqueue's idempotency key; nullptr = none, or the enqueue has no key.
inline const KeyRecord* known_key(const ModelDisk& disk, const Enqueue& op, WallTime now) {
  if (op.idempotency_key.empty()) return nullptr;
  const auto key = disk.keys.find(scoped_idempotency_key(op));
  return key != disk.keys.end() && now < key->second.until ? &key->second : nullptr;
}

// False: the enqueue has no key.
inline bool remember_key(ModelDisk& disk, const Enqueue& op, const KeyRecord& key) {
  if (!op.idempotency_key.empty()) disk.keys[scoped_idempotency_key(op)] = key;
  return !op.idempotency_key.empty();
}

// The answer to an enqueue whose idempotency key has been seen.
inline OperationResult replay(const ModelDisk& disk, const KeyRecord& key, const Enqueue& op) {
  if (key.fingerprint != op.fingerprint)
    return Error{.code = ErrorCode::conflict, .message = "the key came with another body"};
  EnqueueResult result{.jobs = {}, .replayed = true};
  for (const JobId id : key.ids) {
    const auto found = disk.jobs.find(id);
    result.jobs.push_back(
        {.id = id,
         .state = found == disk.jobs.end() ? JobState::completed : found->second.job.state,
         .duplicate = true});
  }
  return result;
}

// The job that has the unique key of `job`: the live one, else the newest whose window is open.
inline Record* unique_holder(ModelDisk& disk, const NewJob& job, WallTime now) {
  if (!job.unique) return nullptr;
  Record* holder = nullptr;
  for (auto& [id, r] : disk.jobs) {
    if (r.job.queue != job.queue || r.job.unique_key != job.unique->key) continue;
    if (live(r)) return &r;
    if (now < r.unique_until) holder = &r;
  }
  return holder;
}

// The same for a pruned job.
inline const WindowRecord* open_window(const ModelDisk& disk, const NewJob& job, WallTime now) {
  if (!job.unique) return nullptr;
  const auto found = disk.windows.find({job.queue, job.unique->key});
  return found != disk.windows.end() && now < found->second.until ? &found->second : nullptr;
}

// A new job gets the key of `job`: the window of an earlier job no longer counts, at any clock
// setting.
inline void take_key(ModelDisk& disk, const NewJob& job) {
  if (!job.unique) return;
  disk.windows.erase({job.queue, job.unique->key});
  for (auto& [id, r] : disk.jobs) {
    if (r.job.queue == job.queue && r.job.unique_key == job.unique->key)
      r.unique_until = WallTime();
  }
}

// A retried job gets its key back, with its current window.
inline void take_key_back(ModelDisk& disk, Record& r) {
  if (r.job.unique_key.empty()) return;
  for (auto& [id, other] : disk.jobs) {
    if (&other == &r || other.job.queue != r.job.queue || other.job.unique_key != r.job.unique_key)
      continue;
    r.unique_until = std::max(r.unique_until, std::exchange(other.unique_until, WallTime()));
  }
  const auto open = disk.windows.find({r.job.queue, r.job.unique_key});
  if (open == disk.windows.end()) return;
  r.unique_until = open->second.until;
  disk.windows.erase(open);
}

// For a pruned job.
inline void keep_window(ModelDisk& disk, const Record& r, WallTime now) {
  if (r.job.unique_key.empty() || r.unique_until <= now) return;
  disk.windows[{r.job.queue, r.job.unique_key}] = {r.job.id, r.job.state, r.unique_until};
}

// The number of windows that were over.
inline int prune_windows(ModelDisk& disk, int limit, WallTime now) {
  int over = 0;
  std::erase_if(disk.windows, [&](const auto& entry) {
    return over < limit && entry.second.until <= now && ++over > 0;
  });
  return over;
}

// Another live job has its unique key.
inline bool key_taken(const ModelDisk& disk, const Record& r) {
  return !r.job.unique_key.empty() &&
         std::any_of(disk.jobs.begin(), disk.jobs.end(), [&](const auto& entry) {
           const Record& other = entry.second;
           return &other != &r && live(other) && other.job.queue == r.job.queue &&
                  other.job.unique_key == r.job.unique_key;
         });
}

// True if there were any.
inline bool prune_keys(ModelDisk& disk, WallTime now) {
  return std::erase_if(disk.keys, [&](const auto& entry) { return entry.second.until <= now; }) > 0;
}

inline WallTime next_key_prune(const ModelDisk& disk) {
  WallTime next = WallTime::never();
  for (const auto& [name, key] : disk.keys) next = std::min(next, key.until);
  for (const auto& [key, open] : disk.windows) next = std::min(next, open.until);
  return next;
}

}  // namespace mainspring
