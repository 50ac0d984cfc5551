// Schedule links: the jobs of schedules that have not ended, and the start of waiting jobs.
//
// For a schedule without waiting jobs, ends are recorded without locking the schedule, so that
// nodes do not wait for each other. This is safe as long as no job starts to wait unnoticed:
//
//   a transaction that leaves a job waiting locks the schedule, and the row of one live link
//   a transaction that ends a job deletes its link, which waits for that row. Then it looks for
//   waiting jobs: if there are any, it locks the schedule and decides
//
// If jobs are already waiting, the schedule is locked first and the link is deleted afterwards: the
// order in which firing a tick locks them.

#include "base/assert.h"
#include "base/mutant.h"
#include "store_postgres/store_impl.h"

namespace mainspring::pg {

void PostgresStore::know_links(const std::vector<LoadedSchedule*>& schedules) {
  Ints ids;
  for (LoadedSchedule* schedule : schedules) {
    if (!schedule->links_known) ids.push_back(schedule->id);
    schedule->links_known = true;
  }
  if (ids.empty()) return;
  const Rows rows = ask(schedule_sql_.links_of, params(ids));
  for (int row = 0; row < rows.size(); ++row) {
    LoadedSchedule& schedule = *known_schedule(rows.integer(row, 0));
    const bool waits = rows.integer(row, 2) != 0;
    (waits ? schedule.waiting : schedule.live).insert(rows.integer(row, 1));
  }
}

// -- ends -----------------------------------------------------------------------------------------

void PostgresStore::schedule_job_ended(LoadedJob& job) {
  after_.ended_links.push_back(
      {.job = job.row.id, .schedule = job.row.schedule, .dead = job.row.state == JobState::dead});
}

void PostgresStore::settle_links() {
  if (after_.ended_links.empty()) return;
  const std::vector<EndedLink> ended = std::exchange(after_.ended_links, {});
  Ints jobs, dead, schedules;
  for (const EndedLink& link : ended) {
    after_.links.push_back(
        {.schedule = link.schedule, .job = link.job, .to = LinkChange::To::gone});
    LoadedSchedule* schedule = known_schedule(link.schedule);
    if (schedule != nullptr && schedule->links_known) continue;
    if (schedule != nullptr) schedule->live.erase(link.job);  // of this transaction's own
    jobs.push_back(link.job);
    schedules.push_back(link.schedule);
    if (link.dead) dead.push_back(link.job);
  }
  if (!jobs.empty()) {
    write(schedule_sql_.end_links, params(jobs, dead));
    const Rows rows = ask(schedule_sql_.links_to_settle, params(jobs, schedules));
    Ints to_settle;
    for (int row = 0; row < rows.size(); ++row) to_settle.push_back(rows.integer(row, 0));
    if (!to_settle.empty()) take_schedules(to_settle);
  }
  std::set<LoadedSchedule*> settled;
  for (const EndedLink& link : ended) {
    LoadedSchedule* schedule = known_schedule(link.schedule);
    if (schedule == nullptr || !schedule->links_known) continue;
    settle_link(*schedule, link);
    settled.insert(schedule);
  }
  for (LoadedSchedule* schedule : settled) guard_waiting(*schedule);
}

// For a locked schedule: waiting jobs no longer wait for this job.
void PostgresStore::settle_link(LoadedSchedule& schedule, const EndedLink& ended) {
  if (schedule.live.erase(ended.job) > 0) schedule.live_is_ours = false;
  schedule.waiting.erase(ended.job);
  if (schedule.unwritten.erase(ended.job) == 0)
    write(schedule_sql_.delete_links, params(Ints{ended.job}));
  const bool failed = ended.dead && schedule.info.schedule.pause_on_failure;
  if (failed && !schedule.info.paused && !MS_MUTANT(failure_does_not_pause))
    set_paused(schedule, true, "job " + std::to_string(ended.job) + " is dead");
  if (!MS_MUTANT(buffered_job_forgotten)) begin_next_waiting(schedule);
}

void PostgresStore::begin_next_waiting(LoadedSchedule& schedule) {
  while (schedule.live.empty() && !schedule.waiting.empty())
    begin_waiting(schedule, *schedule.waiting.begin());
}

// Does nothing if another transaction ended or started the job at the same time.
void PostgresStore::begin_waiting(LoadedSchedule& schedule, JobId id) {
  schedule.waiting.erase(id);
  LoadedJob* held = job(id);
  if (held == nullptr || is_terminal(held->row.state)) return;
  schedule.live.insert(id);
  after_.links.push_back({.schedule = schedule.id, .job = id, .to = LinkChange::To::live});
  if (held->row.state != JobState::waiting) return;
  set_waiting(*held, JobState::available, held->row.run_at);
  schedule.live_is_ours = true;
  if (!schedule.unwritten.contains(id)) write(schedule_sql_.begin_link, params(id));
}

// A waiting job must wait for a live job whose end cannot have passed unnoticed.
void PostgresStore::guard_waiting(LoadedSchedule& schedule) {
  while (!schedule.waiting.empty() && !schedule.live_is_ours) {
    Rows guard = ask(schedule_sql_.guard_link, params(schedule.id));
    // All of them are being ended: wait for one that is not, or for their ends.
    if (guard.empty()) guard = ask(schedule_sql_.await_link, params(schedule.id));
    schedule.live_is_ours = !guard.empty();
    if (!guard.empty()) return;
    schedule.live.clear();
    begin_next_waiting(schedule);
  }
}

// -- operators ------------------------------------------------------------------------------------

// The job is live again, possibly beside others; also if it was waiting.
void PostgresStore::schedule_job_revived(LoadedJob& job) {
  const std::int64_t id = job.row.schedule;
  write(schedule_sql_.revive_link, params(job.row.id, id));
  after_.links.push_back({.schedule = id, .job = job.row.id, .to = LinkChange::To::live});
  LoadedSchedule* schedule = known_schedule(id);
  if (schedule == nullptr || !schedule->links_known) return;
  schedule->waiting.erase(job.row.id);
  schedule->live.insert(job.row.id);
}

}  // namespace mainspring::pg
