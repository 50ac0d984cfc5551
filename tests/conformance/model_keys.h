// Idempotency keys and unique keys of the model store.
#pragma once

#include "conformance/model_state.h"

namespace mainspring {

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

// Another live job has its unique key.
inline bool key_taken(const ModelDisk& disk, const Record& r) {
  return !r.job.unique_key.empty() &&
         std::any_of(disk.jobs.begin(), disk.jobs.end(), [&](const auto& entry) {
           const Record& other = entry.second;
           return &other != &r && live(other) && other.job.queue == r.job.queue &&
                  other.job.unique_key == r.job.unique_key;
         });
}

}  // namespace mainspring
