// What a committed batch means for what this node knows.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "store_postgres/rows_in_hand.h"
#include "store_postgres/schedule_state.h"
#include "store_postgres/session_state.h"

namespace mainspring::pg {

// What a batch changes of this node's memory, once it is committed. Emptied before each try.
struct AfterCommit {
  std::map<int, std::int64_t> available;             // by queue: more or fewer
  std::map<int, std::int64_t> running, running_is;   // the same, since it was counted
  std::vector<std::pair<JobId, LeaseOfJob>> leased;  // claimed or renewed
  std::vector<JobId> unleased;                       // not running any more
  std::vector<GivenClaim> given;
  std::set<int> gained;                           // queues that may give a job now,
  std::set<int> dry;                              // and those that have none
  std::set<std::string> gained_lines, dry_lines;  // the same of sessions
  std::set<std::string> lost_lines;   // their holders are to hear that they are that no more
  std::set<std::string> passed_over;  // by other nodes: who claims from them there may look again
  std::map<int, std::int64_t> heads;  // by queue: more or fewer
  std::vector<JobId> ended, made, again;  // see Effects
  std::vector<JobId> quarantined, quarantine_left;
  std::vector<WorkflowId> changed_workflows;
  std::vector<std::string> alarms, resumed;
  std::vector<BreakerInfo> breakers;                    // that came to another state
  std::set<std::string> no_breakers;                    // that were removed
  std::set<std::string> freed;                          // leases by name
  std::map<std::string, LeaseInHand> leases;            // as this transaction left or found them
  std::int64_t live = 0, finished = 0;                  // more or fewer,
  std::int64_t live_counted = 0, finished_counted = 0;  // and what of it is in tallies already
  WallTime next_due = WallTime::never(), next_expiry = WallTime::never(),
           next_prune = WallTime::never(), next_workflow = WallTime::never(),
           next_release = WallTime::never();                       // at the latest
  bool look_due = false, look_expiry = false, look_prune = false;  // the first may have gone
  bool look_leases = false, look_workflow = false, look_quarantine = false;
  std::unordered_set<JobId> still_expired;  // that were seen and left for the next time
  std::int64_t foreign_lease = 0;           // as it was found
  bool queues = false, schedules = false;   // copies are out of date
  std::shared_ptr<Tokens> all_tokens;       // as they are now, once the batch has looked
  bool tokens = false;                      // and changed
  std::int64_t tokens_version = 0;          // in the database
  std::optional<AuditState> audit;          // the chain as it is now, once the batch has looked
  std::optional<WallTime> audit_due;
  std::map<std::string, ScheduleInHand>
      schedules_in_hand;                               // as this transaction left or found them
  std::map<std::int64_t, std::string> schedule_names;  // of those, by id
  std::vector<EndedTie> ended_ties;                    // to be looked at: see settle_ties()
  std::vector<TieChange> ties;
  std::int64_t schedules_made = 0;  // more or fewer
};

}  // namespace mainspring::pg
