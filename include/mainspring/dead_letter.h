// The dead letter of an engine: list dead jobs, group them by cause, and redrive them.
//
//   auto dead = engine.dead();
//   auto groups = dead.groups({.queue = "photos"});
//   dead.redrive({.fingerprint = groups->groups.at(0).fingerprint});   // fixed: run them again
//
// A single job: Engine::retry(). Guide: docs/concepts/retries.md.
#pragma once

#include <optional>
#include <vector>

#include "mainspring/dead.h"

namespace mainspring {

class Jobs;
class Questions;

struct DeadPage {
  std::vector<Job> jobs;      // newest first; without errors, result, checkpoint
  std::optional<JobId> next;  // pass as `before`; nullopt = no more
};
struct Redriven {
  int redriven = 0;
  std::vector<JobId> ids{};   // of the redriven jobs, oldest first
  std::optional<JobId> next;  // pass as `after` to continue; nullopt = no more
};

// Borrows the engine, which must outlive it. Thread-safe. Errors of all calls: invalid_argument
// (with the field), unavailable.
class EngineDead {
 public:
  EngineDead(Jobs& jobs, Questions& questions) : jobs_(&jobs), questions_(&questions) {}

  // A page of up to `limit`, 1 to 1000, jobs with an id below `before`; 0 = from the newest. A page
  // may be short, even empty, with `next` set: one call examines a bounded number of records.
  Result<DeadPage> list(const DeadFilter& filter = {}, int limit = 100, JobId before = 0);
  // Groups the newest kMaxDeadCounted jobs, with a tag the newest kMaxDeadLooked that have it; of
  // these, the ones that died at `since` or later. The filter's fingerprint must be "".
  Result<DeadGroups> groups(const DeadFilter& filter = {}, WallTime since = {});
  // Makes up to `limit`, 1 to 10,000, jobs available again, oldest first, with ids above `after`.
  // Each gets max_attempts new attempts. Skips jobs of workflows, and jobs whose unique key belongs
  // to another job now. Without a fingerprint it is one transaction. With one, the jobs are retried
  // one by one, out of the newest kMaxDeadLooked that match: an error in the middle leaves the rest
  // dead.
  Result<Redriven> redrive(const DeadFilter& filter, int limit = 1000, JobId after = 0);
  // Redrives all matching jobs at a pace. A job of the engine does it and outlives this program:
  // its progress shows how far it is, its result (JSON) how it ended, and Engine::cancel() stops
  // it. Durable when it returns. Guide: docs/concepts/retries.md. Errors also: overloaded,
  // storage_full.
  Result<RedriveStarted> start_redrive(const DeadFilter& filter, const RedrivePace& pace = {});

 private:
  Jobs* jobs_;
  Questions* questions_;
};

}  // namespace mainspring
