// Changes of a record in the model store: by a new job, by edits and by deletes.
#pragma once

#include "conformance/model_deferred.h"
#include "conformance/model_keys.h"
#include "store/job_edits.h"

namespace mainspring {

inline ChangedJob changed_job(const Record& r) {
  return {.id = r.job.id,
          .state = r.job.state,
          .version = r.job.version,
          .queue = r.job.queue,
          .in_session = !r.job.session.empty(),
          .deferred = r.job.deferred,
          .quarantined = r.job.quarantined.has_value(),
          .step = r.step,
          .expires_at = r.job.started_at ? std::nullopt : r.job.expires_at};
}

// The job has new args: nothing of the attempts with the old ones stays, but for their errors.
inline void forget_attempts(Record& r) {
  Job& j = r.job;
  j.checkpoint.clear(), j.warning.clear(), j.progress.reset(), r.memos.clear();
  if (!j.quarantined) r.lost = r.unstarted = 0;
  j.attempt = 0;
  j.max_attempts = r.budget;
}

inline void fill_record(Record& r, const NewJob& n, WallTime now) {
  Job& j = r.job;
  j.queue = n.queue;
  j.kind = n.kind;
  j.args = n.args;
  j.priority = n.priority;
  r.budget = n.max_attempts;
  forget_attempts(r);
  j.started_at.reset();
  j.unique_key = n.unique ? n.unique->key : "";
  j.headers = n.headers;
  j.tags = n.tags;
  j.correlation_id = n.correlation_id;
  j.reply_to = n.reply_to;
  j.reply_session = n.reply_session;
  j.follow_ups = n.follow_ups;
  j.trigger_depth = std::max(n.trigger_depth, j.trigger_depth);
  j.timeout = n.timeout;
  j.expires_at.reset();
  if (n.expires_in) j.expires_at = now + *n.expires_in;
  j.on_expiry = n.on_expiry, j.limit_key = n.limit_key;
}

inline void postpone_expiry(Job& j, const NewJob& n, WallTime at, WallTime now) {
  j.expires_at = postponed_expiry(n, {.run_at = j.run_at, .expires_at = j.expires_at}, at, now);
  if (n.expires_in) j.on_expiry = n.on_expiry;
}

inline Result<Record*> find_record(ModelDisk& disk, JobId id, const Within& within) {
  const auto found = disk.jobs.find(id);
  if (found == disk.jobs.end()) return missing(disk, id);
  if (!within.has(found->second.job.queue)) return outside();
  return &found->second;
}

inline void remove_record(ModelDisk& disk, Record& r, WallTime now) {
  ++disk.queues[r.job.queue].pruned;
  keep_window(disk, r, now);
  disk.jobs.erase(r.job.id);
}

// All but the run_at, which moves the job.
inline void edit_record(Record& r, const EditJob& edit) {
  if (edit.args) {
    r.job.args = *edit.args;
    forget_attempts(r);
  }
  if (edit.priority) r.job.priority = *edit.priority;
  if (edit.tags) r.job.tags = *edit.tags;
}

}  // namespace mainspring
