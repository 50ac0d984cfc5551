// BulkRunner: one change for all jobs that match, a few at a time: at a rate, and with a canary.
//
// It counts first. Then it changes the jobs that are older than the operation itself, newest first.
// Each change names the version of the job that matched. A job that has changed since is read
// again, and skipped if it does not match any more.
#pragma once

#include <functional>
#include <stop_token>
#include <vector>

#include "api/bulk_shapes.h"
#include "broker/jobs.h"
#include "env/clock.h"

namespace mainspring {

struct BulkOptions {
  std::stop_token stop;
  std::function<void(Duration)> pause;  // ends early when `stop` is requested
  // Called after every few changes, and before a long pause. `must`: it must be on disk before the
  // next change or the pause.
  enum class Must : std::uint8_t { no, yes };
  std::function<void(const BulkProgress&, Must must)> keep;
};

class BulkRunner {
 public:
  enum class End : std::uint8_t { done, canary, interrupted };
  // `self` is the operation's own job.
  BulkRunner(Jobs& jobs, const Clock& clock, const BulkArgs& args, JobId self, BulkOptions options,
             BulkProgress from)
      : jobs_(jobs),
        clock_(clock),
        args_(args),
        self_(self),
        options_(std::move(options)),
        progress_(std::move(from)) {}

  // May be called once. Errors: those of the reads, and of changes that can be retried later.
  Result<End> run();
  const BulkProgress& progress() const { return progress_; }

 private:
  bool stopped() const { return options_.stop.stop_requested(); }
  Result<void> count();
  Result<End> work();
  int chunk() const;
  JobChange change_of(const Job& job) const;
  Result<void> change_some(const std::vector<Job>& jobs);
  Result<void> settle(const Job& job, Result<void> answer);
  void await_turn(std::size_t changes);

  Jobs& jobs_;
  const Clock& clock_;
  const BulkArgs& args_;
  const JobId self_;
  const BulkOptions options_;
  BulkProgress progress_;
  JobFilter filter_;
  Duration between_{0};
  Instant next_;  // not before
};

}  // namespace mainspring
