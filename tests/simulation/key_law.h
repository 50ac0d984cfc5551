// EO-4: every job that is made for a step of a workflow, or for its undo, carries the key of that
// step or undo: the same in each attempt and each job that is made anew, and no other's. Jobs of no
// workflow have none, whatever their senders say.
//
// A receiver that does once what a key asks for does each step and each undo once, then: that is
// all that "exactly once" means outside of the engine.
#pragma once

#include <map>
#include <set>
#include <string>

#include "mainspring/job.h"

namespace mainspring::simulation {

class KeyLaw {
 public:
  // A job of kFlowQueue began. "" = the law holds.
  std::string begins(const ClaimedJob& job);
  // Another job began.
  static std::string begins_without(const ClaimedJob& job);
  std::int64_t keys() const { return static_cast<std::int64_t>(by_key_.size()); }
  std::int64_t remade() const;  // jobs with a key that another had before

 private:
  struct Sink {
    std::string what;      // the effect that it stands for
    std::set<JobId> jobs;  // that brought it
  };
  std::map<std::string, Sink> by_key_;
  std::map<std::string, std::string> keys_;  // by effect
};

}  // namespace mainspring::simulation
