// The quarantine of each queue in the model: found by a walk through all jobs each time.
#pragma once

#include <set>

#include "conformance/model_standstill.h"
#include "conformance/model_state.h"

namespace mainspring {

class ModelQuarantine {
 public:
  explicit ModelQuarantine(ModelDisk& disk) : disk_(disk), told_(all()) {}

  // Its attempt was lost, and it will be retried.
  void lost(Record& r, WallTime now) {
    r.lost = std::min(r.lost + 1, kMaxLost);
    const int after = disk_.queues[r.job.queue].limits.lost_before_quarantine();
    if (after == 0) r.job.quarantined.reset();
    if (after == 0 || (r.lost < after && !r.job.quarantined)) return;
    if (!r.job.quarantined) r.job.quarantined = Quarantine{.since = now};
    r.job.quarantined->lost = r.lost;
    r.job.quarantined->released = false;
  }
  // Whether the end of its lease does not count: then the job is available again.
  static bool goes_back(Record& r, Instant now) {
    const bool unstarted = r.kept == Duration(0);
    if (!unstarted) r.unstarted = 0;
    if (!unstarted || r.unstarted == kMaxUnstartedLosses || r.job.quarantined ||
        r.job.cancel_requested || now >= lease_limit(r))
      return false;
    ++r.unstarted, --r.job.attempt;
    return true;
  }
  static void forget(Record& r) {
    r.lost = r.unstarted = 0;
    r.job.quarantined.reset();
  }
  // True if another job of its queue is released.
  bool is_taken(const std::string& queue) const {
    return std::any_of(disk_.jobs.begin(), disk_.jobs.end(), [&](const auto& entry) {
      const Job& j = entry.second.job;
      return j.queue == queue && j.quarantined && j.quarantined->released;
    });
  }
  // The jobs to release next, by queue.
  std::vector<Record*> next(WallTime now) {
    const std::set<std::string> taken = taken_queues();
    std::map<std::string, Record*> firsts;
    for (auto& [id, r] : disk_.jobs) {
      if (!waits(r.job) || r.job.run_at > now || taken.contains(r.job.queue)) continue;
      Record*& first = firsts[r.job.queue];
      if (first == nullptr || place(r.job) < place(first->job)) first = &r;
    }
    std::vector<Record*> out;
    for (const auto& [queue, r] : firsts) out.push_back(r);
    return out;
  }
  WallTime next_release() const {
    const std::set<std::string> taken = taken_queues();
    WallTime next = WallTime::never();
    for (const auto& [id, r] : disk_.jobs) {
      if (waits(r.job) && !taken.contains(r.job.queue)) next = std::min(next, r.job.run_at);
    }
    return next;
  }

  // The jobs that entered quarantine in a batch, and those that left it without ending.
  void tell(Effects& effects) {
    const std::set<JobId> now = all();
    for (const JobId id : now) {
      if (!told_.contains(id)) effects.quarantined.push_back(id);
    }
    for (const JobId id : told_) {
      const bool over =
          !disk_.jobs.contains(id) ||
          std::find(effects.ended.begin(), effects.ended.end(), id) != effects.ended.end();
      if (!now.contains(id) && !over) effects.quarantine_left.push_back(id);
    }
    told_ = now;
  }

  static bool waits(const Job& j) { return j.quarantined && !j.quarantined->released; }
  static std::tuple<int, WallTime, JobId> place(const Job& j) {
    return {j.priority, j.run_at, j.id};
  }
  // For a waiting job: the jobs of its queue that are released or wait before it.
  static std::int64_t ahead(const ModelDisk& disk, const Job& job) {
    return std::count_if(disk.jobs.begin(), disk.jobs.end(), [&](const auto& entry) {
      const Job& j = entry.second.job;
      return j.queue == job.queue && j.quarantined && j.id != job.id &&
             (j.quarantined->released || place(j) < place(job));
    });
  }

 private:
  std::set<JobId> all() const {
    std::set<JobId> ids;
    for (const auto& [id, r] : disk_.jobs) {
      if (r.job.quarantined) ids.insert(id);
    }
    return ids;
  }
  std::set<std::string> taken_queues() const {
    std::set<std::string> taken;
    for (const auto& [id, r] : disk_.jobs) {
      if (r.job.quarantined && r.job.quarantined->released) taken.insert(r.job.queue);
    }
    return taken;
  }

  ModelDisk& disk_;
  std::set<JobId> told_;
};

}  // namespace mainspring
