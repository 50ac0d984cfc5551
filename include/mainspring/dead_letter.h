// The dead letter of an engine: looked at, grouped by what jobs died of, and redriven.
//
//   auto dead = engine.dead();
//   auto groups = dead.groups({.queue = "photos"});
//   dead.redrive({.fingerprint = groups->groups.at(0).fingerprint});   // mended: run them again
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
  std::vector<JobId> ids{};   // of the redriven, oldest first
  std::optional<JobId> next;  // pass as `after` to go on; nullopt = all seen
};

// Borrows the engine, which outlives it. All calls are safe from every thread. Errors of all:
// invalid_argument (with the field), unavailable.
class EngineDead {
 public:
  EngineDead(Jobs& jobs, Questions& questions) : jobs_(&jobs), questions_(&questions) {}

  // A page of up to `limit`, 1 to 1000, of those with an id below `before`; 0 = from the newest. It
  // may be short, even empty, with `next` set: a bounded number of records is looked at.
  Result<DeadPage> list(const DeadFilter& filter = {}, int limit = 100, JobId before = 0);
  // Of the newest kMaxDeadLooked. The filter's fingerprint must be "".
  Result<DeadGroups> groups(const DeadFilter& filter = {});
  // Makes up to `limit`, 1 to 10,000, available again, with their attempts anew on top of those
  // used: oldest first, beginning behind `after`. Jobs of workflows, and those whose unique key
  // another job has now, are passed over. Without a fingerprint it is one transaction; with one
  // they are retried one after the other, out of the newest kMaxDeadLooked that match: an error in
  // the middle leaves the rest dead.
  Result<Redriven> redrive(const DeadFilter& filter, int limit = 1000, JobId after = 0);
  // The same for as many as there are, one after the other at a pace, by a job that outlives this
  // program: its progress says how far it is, its result (JSON) how it ended, and
  // Engine::cancel() stops it. Durable when it returns. Guide: docs/concepts/retries.md. Errors
  // also: overloaded, storage_full.
  Result<RedriveStarted> start_redrive(const DeadFilter& filter, const RedrivePace& pace = {});

 private:
  Jobs* jobs_;
  Questions* questions_;
};

}  // namespace mainspring
