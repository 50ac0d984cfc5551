// AfterCommit: how a committed batch changes this node's knowledge.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "store_postgres/loaded_rows.h"
#include "store_postgres/schedule_state.h"
#include "store_postgres/session_state.h"

namespace mainspring::pg {

// The changes of this node's memory, applied after the commit. Cleared before each try.
struct AfterCommit {
  std::map<int, std::int64_t> available;             // change by queue
  std::map<int, std::int64_t> running, running_is;   // running: change, and value as counted
  std::vector<std::pair<JobId, LeaseOfJob>> leased;  // claimed or renewed
  std::vector<JobId> unleased;                       // no longer running
  std::vector<GivenClaim> given;
  std::set<int> gained;                           // queues that may now give a job,
  std::set<int> dry;                              // and empty ones
  std::set<std::string> gained_queues, dry_lines;  // the same for sessions
  std::set<std::string> lost_lines;       // sessions whose holders must learn that they lost them
  std::set<std::string> passed_over;      // skipped by claims of other nodes, which may look again
  std::map<int, std::int64_t> heads;      // change by queue
  std::vector<JobId> ended, made, again;  // see Effects
  std::vector<JobId> quarantined, quarantine_left;
  std::vector<WorkflowId> changed_workflows;
  std::vector<std::string> alarms, resumed;
  std::vector<BreakerInfo> breakers;                    // state changes
  std::set<std::string> no_breakers;                    // removed breakers
  std::set<std::string> freed;                          // named locks that became free
  std::map<std::string, LoadedLease> leases;            // as this transaction left or found them
  std::int64_t live = 0, finished = 0;                  // changes of the counts,
  std::int64_t live_counted = 0, finished_counted = 0;  // and the part that job_counts already
                                                        // includes
  WallTime next_due = WallTime::never(), next_expiry = WallTime::never(),
           next_prune = WallTime::never(), next_workflow = WallTime::never(),
           next_release = WallTime::never();                       // at the latest
  bool look_due = false, look_expiry = false, look_prune = false;  // the first entry may be gone
  bool look_leases = false, look_workflow = false, look_quarantine = false;
  std::unordered_set<JobId> still_expired;  // expired leases left for the next call
  std::int64_t foreign_lease = 0;           // as read
  bool queues = false, schedules = false;   // copies are out of date
  std::shared_ptr<Tokens> all_tokens;       // the current tokens, if the batch read them
  bool tokens = false;                      // and whether the batch changed them
  std::int64_t tokens_version = 0;          // in the database
  std::optional<AuditState> audit;          // the current chain, if the batch read it
  std::optional<WallTime> audit_due;
  std::map<std::string, LoadedSchedule> loaded_schedules;  // as this transaction left or found them
  std::map<std::int64_t, std::string> schedule_names;      // names of these schedules, by id
  std::vector<EndedLink> ended_links;                      // to be processed: see settle_links()
  std::vector<LinkChange> links;
  std::int64_t schedules_made = 0;  // change of the number
};

}  // namespace mainspring::pg
