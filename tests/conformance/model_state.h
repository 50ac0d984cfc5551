// The state of a model store: plain records in maps.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "conformance/model_store.h"
#include "model/breaker.h"
#include "model/fair_keys.h"
#include "model/rate.h"
#include "trigger/rules.h"
#include "workflow/rows.h"

namespace mainspring {

struct Record {
  Job job;
  Instant lease_expiry = Instant::never();  // running
  Instant claimed;                          // a restart resets it
  std::string cancel_reason;                // of a cancel request
  int budget = 20;                          // max_attempts as enqueued
  Duration lease{0};                        // the longest asked for
  Duration kept{0};                         // the longest returned by a renewal; 0 = none
  Duration retention{0};                    // from finished_at
  WallTime unique_until;                    // created_at + window, as long as it has its key
  bool expired = false;                     // cancelled because no worker started it in time
  std::int64_t schedule = 0;                // that made the job; 0 = none
  bool step = false;                        // of a workflow
  int lost = 0;                             // consecutive lost attempts
  int unstarted = 0;                        // consecutive ones that did not count
  bool unknown = false;                     // its effects are unknown
  std::map<std::string, std::string> memos;
};

struct KeyRecord {
  std::string fingerprint;
  std::vector<JobId> ids;
  WallTime until;
};

// A unique key whose job was pruned before its window was over.
struct WindowRecord {
  JobId id = 0;
  JobState ended = JobState::completed;
  WallTime until;
};

// Free when it was released or when `ends` has come. Free and without a value, it is invisible.
struct LeaseRecord {
  std::string holder;
  Token token = 0;
  Duration ttl{0};
  Duration kept{0};  // the longest of this holding: used again after a restart
  Instant ends;
  WallTime since;
  std::string value;
  bool released = false;
  bool expired = false;  // found expired; has a value
};

struct ScheduleRecord {
  std::int64_t id = 0;
  ScheduleInfo info;  // without `live` and `buffered`
  std::vector<LedgerRow> ledger;
  std::int64_t last_seq = 0;
};

// Its holder keeps it until `ends`; after that, until another holder takes it.
struct SessionRecord {
  JobId head = 0;  // 0 = none
  SessionStop stop = SessionStop::none;
  JobId stopped_by = 0;
  std::string worker;  // its holder
  Token token = 0;     // of the holder; 0 = none
  Duration lease{0};   // as asked for last
  Duration kept{0};    // the longest of this holding: used again after a restart
  Instant ends;
  std::string state;
  WallTime changed_at;
};

struct BreakerRecord {
  BreakerSettings settings;
  BreakerMeter meter;
};

// See ForgetQueues.
struct EmptyMark {
  std::optional<WallTime> since;
  std::int64_t enqueued = 0;
  bool removed = false;
};

struct ModelDisk {
  std::map<JobId, Record> jobs;
  std::map<std::string, QueueStats> queues;                             // counters, settings
  std::map<std::string, EmptyMark> empty;                               // by queue
  std::map<std::string, RateMeter> meters;                              // of queues with a rate
  std::map<std::string, FairKeys> fair_keys;                            // of queues with fair keys
  std::map<std::pair<std::string, std::string>, RateMeter> key_meters;  // of queues and limit keys
  std::map<std::string, BreakerRecord> breakers;
  std::map<std::string, KeyRecord> keys;
  std::map<std::pair<std::string, std::string>, WindowRecord> windows;  // of queues and unique keys
  std::map<std::string, LeaseRecord> leases;
  std::map<SessionKey, SessionRecord> sessions;
  std::map<std::string, ScheduleRecord> schedules;
  std::map<std::string, std::int64_t> removed;  // last versions
  std::int64_t last_schedule = 0;
  std::map<WorkflowId, WorkflowRecord> workflows;
  std::map<std::tuple<WorkflowId, WorkflowRow, std::int64_t>, std::string> workflow_rows;
  std::map<JobId, StepJob> steps;  // the steps of workflow jobs
  WorkflowId last_workflow = 0;
  std::map<std::string, TriggerRecord> triggers;
  std::map<std::string, std::vector<TriggerEvent>> trigger_events;
  Tokens tokens;
  std::vector<AuditRecord> audit;
  AuditMark audit_base;
  std::map<std::tuple<Duration, WallTime, std::string, std::string>, HistoryCounts>
      history;  // by span, time, queue and kind
  std::vector<Mark> marks;
  std::int64_t last_mark = 0;
  std::map<std::string, SavedView> views;
  HistoryNames history_names;
  Duration allowance{0};  // for a restart
  Instant allowed_until;  // of this process
  Instant allowance_over;
  JobId last_id = 0;
  Token last_token = 0;

  // Creates the queue if it is new or was removed.
  QueueStats& queue_to_set(const std::string& name) {
    empty[name].removed = false;
    return queues[name];
  }
  bool has_queue(const std::string& name) const {
    return queues.contains(name) && !is_removed(name);
  }
  bool is_removed(const std::string& queue) const {
    const auto mark = empty.find(queue);
    if (mark == empty.end() || !mark->second.removed) return false;
    return queues.at(queue).enqueued == mark->second.enqueued;
  }
};

inline Error outside() {
  return Error{.code = ErrorCode::not_found, .message = "no such job for this caller"};
}
inline Error too_many() {
  return Error{.code = ErrorCode::overloaded, .message = "max_live_jobs is reached"};
}
inline bool live(const Record& r) {
  return !is_terminal(r.job.state);
}
inline std::int64_t live_jobs(const ModelDisk& disk) {
  return std::count_if(disk.jobs.begin(), disk.jobs.end(),
                       [](const auto& entry) { return live(entry.second); });
}
inline bool can_expire(const Record& r) {
  return r.job.expires_at && !r.job.started_at && live(r);
}
inline bool matches(const JobFilter& f, const Job& j) {
  return (f.queue.empty() || f.queue == j.queue) && (f.kind.empty() || f.kind == j.kind) &&
         f.wants(j.state) && f.within.has(j.queue) && f.is_created_within(j.created_at) &&
         (!f.ids || std::find(f.ids->begin(), f.ids->end(), j.id) != f.ids->end()) &&
         (!f.query || matches_record(*f.query, j)) && (!f.quarantined || j.quarantined) &&
         (f.tag.empty() || std::find(j.tags.begin(), j.tags.end(), f.tag) != j.tags.end());
}
// Available jobs of the queues and kinds of a claim.
inline std::vector<Record*> claimable(ModelDisk& disk, const Claim& op, WallTime now) {
  const auto is = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  std::vector<Record*> found;
  for (auto& [id, r] : disk.jobs) {
    if (r.job.state == JobState::available && is(op.queues, r.job.queue) &&
        (op.kinds.empty() || is(op.kinds, r.job.kind)) &&
        !(can_expire(r) && *r.job.expires_at <= now))
      found.push_back(&r);
  }
  return found;
}
inline SessionKey session_of(const Job& job) {
  return {job.queue, job.session};
}

}  // namespace mainspring
