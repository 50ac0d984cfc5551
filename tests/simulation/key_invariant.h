// EO-4: every job of a workflow step, or of its undo, carries the key of that step or undo: the
// same in each attempt and in each job that is made again, and unique to the step or undo. Jobs
// outside of workflows have no key, whatever their senders set.
//
// A receiver that acts once per key therefore does each step and each undo once. "Exactly once"
// means no more than that outside of the engine.
#pragma once

#include <map>
#include <set>
#include <string>

#include "mainspring/job.h"

namespace mainspring::simulation {

class KeyInvariant {
 public:
  // A job of kFlowQueue started. "" = the invariant holds.
  std::string begins(const ClaimedJob& job);
  // Another job started.
  static std::string begins_without(const ClaimedJob& job);
  std::int64_t keys() const { return static_cast<std::int64_t>(by_key_.size()); }
  std::int64_t remade() const;  // jobs with the key of an earlier job

 private:
  struct Sink {
    std::string what;      // the effect of the key
    std::set<JobId> jobs;  // that carry the key
  };
  std::map<std::string, Sink> by_key_;
  std::map<std::string, std::string> keys_;  // by effect
};

}  // namespace mainspring::simulation
