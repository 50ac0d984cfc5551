// Questions: what a program can ask about jobs beyond their state, wherever the engine is, as Jobs
// is for jobs.
//
// All calls block and are safe from every thread.
#pragma once

#include <functional>
#include <stop_token>

#include "mainspring/dead.h"
#include "mainspring/event.h"
#include "mainspring/history.h"
#include "mainspring/search.h"
#include "mainspring/why.h"

namespace mainspring {

// What whoever follows events is told, on the thread that follows.
struct EventSink {
  std::function<void()> begun;                    // once: what happens from now on is told
  std::function<void(const EngineEvent&)> event;  // in the order of the commits
};

class Questions {
 public:
  virtual ~Questions() = default;

  // Errors: not_found, expired (its retention has ended), unavailable.
  virtual Result<Why> why(JobId id) = 0;
  // Of the newest kMaxDeadLooked that match; the filter has no fingerprint. Errors:
  // invalid_argument (names), unavailable.
  virtual Result<DeadGroups> dead_groups(const DeadFilter& filter) = 0;
  // Begins a redrive that takes its time: a job of the queue kRedriveQueue, which an engine works
  // on, and another one goes on with if that dies. Errors: invalid_argument, overloaded,
  // storage_full, unavailable.
  virtual Result<RedriveStarted> start_redrive(const DeadFilter& filter,
                                               const RedrivePace& pace) = 0;
  // Bulk operations: see EngineBulk. Errors: invalid_argument, unavailable; of one by its id
  // not_found, expired and conflict; of start_bulk also overloaded and storage_full.
  virtual Result<BulkCount> count_bulk(const BulkOrder& order) = 0;
  virtual Result<BulkInfo> start_bulk(const BulkOrder& order) = 0;
  virtual Result<std::vector<BulkInfo>> bulks() = 0;
  virtual Result<BulkInfo> get_bulk(JobId id) = 0;
  virtual Result<BulkInfo> stop_bulk(JobId id) = 0;
  virtual Result<BulkInfo> continue_bulk(JobId id) = 0;
  // Counts per step of time. Errors: invalid_argument (names, times, the step, too many points),
  // unavailable.
  virtual Result<History> history(const HistoryFilter& filter) = 0;
  // Tells of events until `stop` is requested, which is no error. What was missed is a gap. Errors:
  // invalid_argument, overloaded (as many follow as may), unavailable.
  virtual Result<void> follow(const EventFilter& filter, const EventSink& sink,
                              std::stop_token stop) = 0;
};

}  // namespace mainspring
