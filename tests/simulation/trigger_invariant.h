// TRIG: an event from outside makes one job, however often its sender repeats it.
//
//   TRIG-1  an event has at most one job, the one that was returned to its sender
//   TRIG-2  an event that was refused each time has none; an event whose sender received its job
//           is not refused later
//   TRIG-3  the trigger's count, its ledger and its jobs agree
//   TRIG-4  a trigger that is paused makes none
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "mainspring/job.h"
#include "mainspring/trigger.h"
#include "store/store.h"

namespace mainspring::simulation {

inline const std::string kTrigger = "events";

class TriggerInvariant {
 public:
  // The next event's number; args of its job, and its id.
  std::int64_t next() { return ++events_; }
  static std::string args(std::int64_t event);
  static std::string id(std::int64_t event);

  bool knows(std::int64_t event) const;
  // `known` = its sender knew when it sent this that it has fired.
  void answered(std::int64_t event, const OperationResult& answer, bool known);
  // Or another copy of the request may come later than its answer.
  void unanswered(std::int64_t event) { told_[event].open = true; }

  // Called after each batch of `store`. "" = TRIG-4 holds.
  static std::string applied(std::span<const Operation> batch, const BatchReport* report,
                             const Store& store);
  // Called for each job of the store at the end, and for each pruned job in its last state.
  void add(const Job& job);
  struct Verdict {
    std::int64_t jobs = 0, duplicates = 0;
    std::string broken;  // "" = the invariant holds
  };
  // Of the only trigger, with its whole ledger.
  Verdict check(const TriggerInfo& trigger, const std::vector<TriggerEvent>& ledger) const;

 private:
  struct Told {
    JobId job = 0;
    int made = 0;       // answers that it has fired just now
    bool open = false;  // some request had no answer, or went out twice
  };
  std::string check_event(std::int64_t event, const std::vector<JobId>& jobs) const;

  std::int64_t events_ = 0, duplicates_ = 0;
  std::map<std::int64_t, Told> told_;
  std::map<std::int64_t, std::vector<JobId>> jobs_;
  std::string broken_;
};

}  // namespace mainspring::simulation
