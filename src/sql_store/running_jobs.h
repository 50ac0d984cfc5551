// RunningJobs: the index of running jobs, for readers. A claim does not write the rows of its jobs,
// so a reader of a row must ask this index whether the job is running. A lookup costs the same
// however many jobs run.
//
// Readers use snapshots of the database that are older or newer than this index. The writer adds a
// lease before its commit and removes it after the commit that ends it. Leases that ended while a
// view was open are kept until that view closes. So a view always knows every lease of its
// snapshot; the next token of the snapshot shows which leases the snapshot does not have yet.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "mainspring/job.h"

namespace mainspring::sql {

// The common part of the leases of one claim.
struct RunningGrant {
  std::string worker;
  WallTime claimed_at;
};
struct RunningJob {
  JobId id = 0;
  Token token = 0;
  std::int64_t queue = 0;
  std::int32_t kind = 0;
  std::shared_ptr<const RunningGrant> grant;
};

// Thread-safe. One thread writes.
class RunningJobs {
 public:
  // Call before the commit that starts these leases.
  void add(std::vector<RunningJob>& started) MS_EXCLUDES(mutex_);
  // Call after the commit that ends these leases: job and token.
  void remove(const std::vector<std::pair<JobId, Token>>& ended) MS_EXCLUDES(mutex_);
  // Replaces all leases: after a failed commit, and at open.
  void replace(std::vector<RunningJob> all) MS_EXCLUDES(mutex_);

  // Open it before the first read of the snapshot, and keep it until the last lookup for it.
  class View {
   public:
    explicit View(const RunningJobs& jobs);
    ~View();
    View(const View&) = delete;
    View& operator=(const View&) = delete;
    // The lease of a job with a token above `row` and below `next`, the next token of the
    // snapshot. An empty grant = none.
    RunningJob find(JobId id, Token row, Token next) const;
    // Adds jobs below `before` of one queue and kind (0 = any), newest first, until `out` has
    // `limit`. Looks at up to `most` entries and subtracts them. Returns the id below which the
    // next call continues; 0 = there are no more.
    JobId below(JobId before, std::int64_t queue, std::int32_t kind, std::size_t limit,
                std::size_t& most, std::vector<JobId>& out) const;

   private:
    const RunningJobs& jobs_;
    std::multiset<std::uint64_t>::iterator place_;
  };

 private:
  struct Ended {
    std::uint64_t seq = 0;
    JobId id = 0;
    Token token = 0;
  };
  void retire(RunningJob job) MS_REQUIRES(mutex_);
  void trim() const MS_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<JobId, RunningJob> jobs_ MS_GUARDED_BY(mutex_);
  std::uint64_t removals_ MS_GUARDED_BY(mutex_) = 0;  // calls of remove()
  // Open views, by the number of removals before them.
  mutable std::multiset<std::uint64_t> views_ MS_GUARDED_BY(mutex_);
  // Ended leases that an open view may ask for.
  mutable std::map<std::pair<JobId, Token>, RunningJob> ended_ MS_GUARDED_BY(mutex_);
  mutable std::deque<Ended> order_ MS_GUARDED_BY(mutex_);
};

}  // namespace mainspring::sql
