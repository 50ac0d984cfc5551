// Ties: the jobs of schedules that have not ended, and who begins when one does.
//
// Of a schedule without waiting jobs, ends are noted without locking it, so that nodes do not queue
// for it. That is safe as long as nobody begins to wait unnoticed:
//
//   whoever leaves a job waiting holds the schedule's lock, and the row of one tie that lives
//   whoever ends a job deletes its tie, which waits for that row, and looks for waiting jobs behind
//   it: if there are any, it locks the schedule and decides
//
// Where jobs wait already, the schedule is locked first and the tie deleted behind it: in the order
// in which whoever fires a tick locks them.
#include <algorithm>

#include "base/assert.h"
#include "base/mutant.h"
#include "store_postgres/store_impl.h"

namespace mainspring::pg {

void PostgresStore::know_ties(const std::vector<ScheduleInHand*>& schedules) {
  Ints ids;
  for (ScheduleInHand* schedule : schedules) {
    if (!schedule->ties_known) ids.push_back(schedule->id);
    schedule->ties_known = true;
  }
  if (ids.empty()) return;
  const Rows rows = ask(schedule_sql_.ties_of, params(ids));
  for (int row = 0; row < rows.size(); ++row) {
    ScheduleInHand& schedule = *known_schedule(rows.integer(row, 0));
    const bool waits = rows.integer(row, 2) != 0;
    (waits ? schedule.waiting : schedule.live).insert(rows.integer(row, 1));
  }
}

// -- ends -----------------------------------------------------------------------------------------

void PostgresStore::schedule_job_ended(JobInHand& job) {
  after_.ended_ties.push_back(
      {.job = job.row.id, .schedule = job.row.schedule, .dead = job.row.state == JobState::dead});
}

void PostgresStore::settle_ties() {
  if (after_.ended_ties.empty()) return;
  const std::vector<EndedTie> ended = std::exchange(after_.ended_ties, {});
  Ints jobs, dead, schedules;
  for (const EndedTie& tie : ended) {
    after_.ties.push_back({.schedule = tie.schedule, .job = tie.job, .to = TieChange::To::gone});
    ScheduleInHand* schedule = known_schedule(tie.schedule);
    if (schedule != nullptr && schedule->ties_known) continue;
    if (schedule != nullptr) schedule->live.erase(tie.job);  // of this transaction's own
    jobs.push_back(tie.job);
    schedules.push_back(tie.schedule);
    if (tie.dead) dead.push_back(tie.job);
  }
  if (!jobs.empty()) {
    write(schedule_sql_.end_ties, params(jobs, dead));
    const Rows rows = ask(schedule_sql_.ties_to_settle, params(jobs, schedules));
    Ints to_settle;
    for (int row = 0; row < rows.size(); ++row) to_settle.push_back(rows.integer(row, 0));
    if (!to_settle.empty()) take_schedules(to_settle);
  }
  std::set<ScheduleInHand*> settled;
  for (const EndedTie& tie : ended) {
    ScheduleInHand* schedule = known_schedule(tie.schedule);
    if (schedule == nullptr || !schedule->ties_known) continue;
    settle_tie(*schedule, tie);
    settled.insert(schedule);
  }
  for (ScheduleInHand* schedule : settled) guard_waiting(*schedule);
}

// Of a schedule that is locked: the job holds nobody up any more.
void PostgresStore::settle_tie(ScheduleInHand& schedule, const EndedTie& ended) {
  if (schedule.live.erase(ended.job) > 0) schedule.live_is_ours = false;
  schedule.waiting.erase(ended.job);
  if (schedule.unwritten.erase(ended.job) == 0)
    write(schedule_sql_.delete_ties, params(Ints{ended.job}));
  const bool failed = ended.dead && schedule.info.schedule.pause_on_failure;
  if (failed && !schedule.info.paused && !MS_MUTANT(failure_does_not_pause))
    set_paused(schedule, true, "job " + std::to_string(ended.job) + " is dead");
  if (!MS_MUTANT(buffered_job_forgotten)) begin_next_waiting(schedule);
}

void PostgresStore::begin_next_waiting(ScheduleInHand& schedule) {
  while (schedule.live.empty() && !schedule.waiting.empty())
    begin_waiting(schedule, *schedule.waiting.begin());
}

// Not if somebody else ended it, or began it, at the same time: then it waits no more.
void PostgresStore::begin_waiting(ScheduleInHand& schedule, JobId id) {
  schedule.waiting.erase(id);
  JobInHand* held = job(id);
  if (held == nullptr || is_terminal(held->row.state)) return;
  schedule.live.insert(id);
  after_.ties.push_back({.schedule = schedule.id, .job = id, .to = TieChange::To::live});
  if (held->row.state != JobState::waiting) return;
  set_waiting(*held, JobState::available, held->row.run_at);
  schedule.live_is_ours = true;
  if (!schedule.unwritten.contains(id)) write(schedule_sql_.begin_tie, params(id));
}

// What waits must have somebody to wait for, whose end cannot have passed unnoticed.
void PostgresStore::guard_waiting(ScheduleInHand& schedule) {
  while (!schedule.waiting.empty() && !schedule.live_is_ours) {
    Rows guard = ask(schedule_sql_.guard_tie, params(schedule.id));
    // All of them are being ended: wait for one that is not, or for their end.
    if (guard.empty()) guard = ask(schedule_sql_.await_tie, params(schedule.id));
    schedule.live_is_ours = !guard.empty();
    if (!guard.empty()) return;
    schedule.live.clear();
    begin_next_waiting(schedule);
  }
}

// -- operators ------------------------------------------------------------------------------------

// It lives, beside others if there are any; also if it waited.
void PostgresStore::schedule_job_revived(JobInHand& job) {
  const std::int64_t id = job.row.schedule;
  write(schedule_sql_.revive_tie, params(job.row.id, id));
  after_.ties.push_back({.schedule = id, .job = job.row.id, .to = TieChange::To::live});
  ScheduleInHand* schedule = known_schedule(id);
  if (schedule == nullptr || !schedule->ties_known) return;
  schedule->waiting.erase(job.row.id);
  schedule->live.insert(job.row.id);
}

}  // namespace mainspring::pg
