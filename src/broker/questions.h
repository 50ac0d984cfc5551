// Questions: queries about jobs beyond their state, implemented by the broker and by the client of
// a server.
//
// All calls block and are thread-safe.
#pragma once

#include <functional>
#include <stop_token>

#include "mainspring/dead.h"
#include "mainspring/event.h"
#include "mainspring/history.h"
#include "mainspring/search.h"
#include "mainspring/why.h"

namespace mainspring {

// Callbacks of a follower of events, on its thread.
struct EventSink {
  std::function<void()> started;                  // once: later events are reported
  std::function<void(const EngineEvent&)> event;  // in commit order
};

class Questions {
 public:
  virtual ~Questions() = default;

  // Errors: not_found, expired (its retention has ended), unavailable.
  virtual Result<Why> why(JobId id) = 0;
  // Groups the newest kMaxDeadCounted, with a tag the newest kMaxDeadLooked that have it; of these,
  // the ones that died at `since` or later. The filter has no fingerprint. Errors:
  // invalid_argument (names), unavailable.
  virtual Result<DeadGroups> dead_groups(const DeadFilter& filter, WallTime since) = 0;
  // Starts a paced redrive: a job of the queue kRedriveQueue, run by an engine. If the engine dies,
  // another one continues. Errors: invalid_argument, overloaded, storage_full, unavailable.
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
  // Reports events until `stop` is requested, which is not an error. Missed events are a gap.
  // Errors: invalid_argument, overloaded (too many followers), unavailable.
  virtual Result<void> follow(const EventFilter& filter, const EventSink& sink,
                              std::stop_token stop) = 0;
};

}  // namespace mainspring
