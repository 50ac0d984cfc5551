// What every store decides alike about schedules, tokens and named locks. The store loads what the
// decision needs, and writes its outcome.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "store/access_operations.h"
#include "store/schedule_operations.h"

namespace mainspring {

// -- schedules

Error no_schedule(const std::string& name);
// Sets all of a new schedule except its version.
void define_schedule(ScheduleInfo& info, const PutSchedule& op, WallTime now);
// The row of the ticks that a new definition replaces; nullopt if none was due.
std::optional<LedgerRow> replaced_ticks(const ScheduleInfo& info, WallTime now);
void pause_schedule(ScheduleInfo& info, bool paused, std::string reason, WallTime now);
// Answers whether it changed something.
Result<bool> set_timer(ScheduleInfo& info, const SetTimer& op, WallTime now);

std::optional<Error> check_ticks(const FireSchedule& op, const ScheduleInfo& info, WallTime now);
WallTime nominal_of(const FireSchedule& op, const Tick& tick, WallTime now);
// What a tick does that has not fired yet.
struct TickDecision {
  std::string skip{};         // the reason; "" = it fires
  bool stops_others = false;  // cancels or terminates other jobs of the schedule first
  bool waits = false;         // its job waits if others are live then
};
TickDecision decide_tick(const FireSchedule& op, const ScheduleInfo& info,
                         const std::set<JobId>& live, const std::set<JobId>& waiting);
LedgerRow row_of(const FireSchedule& op, const ScheduleInfo& info, const Tick& tick);
// The job that the tick makes.
NewJob job_of(const ScheduleInfo& info, const Tick& tick);
WallTime tick_run_at(const FireSchedule& op, const ScheduleInfo& info, const Tick& tick,
                     WallTime now);
void note_fired(ScheduleInfo& info, WallTime nominal, JobId job);
void set_next(ScheduleInfo& info, const FireSchedule& op);  // after the last tick

// -- tokens

// The tokens to remove before this one is created: the oldest unusable one if there are too many.
// If this one is an ended session: the ended sessions of which the records are useless.
Result<std::set<std::string>> tokens_to_remove(const Tokens& tokens, const TokenRecord& token,
                                               WallTime now);
TokenRecord created_token(const CreateToken& op, WallTime now);
Error no_token(const std::string& name);

// -- named locks

Error lost_lease(const std::string& name, Token token);
Result<void> check_lease_value(const std::optional<std::string>& value);

}  // namespace mainspring
