// Quarantine: jobs whose last attempts were all lost wait separately; one job of each queue at a
// time is released. See Quarantine in mainspring/job.h.
//
// Claims and completions do not handle it. The leader, or a claim that names its job, releases a
// job: it locks the job and then the row of its queue, and then checks whether another job is
// released.
#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "store_postgres/store_impl.h"

namespace mainspring::pg {
namespace {

// How soon to check again whether released jobs have ended: most ends are not reported.
constexpr Duration kLookAtReleased = std::chrono::seconds(1);

// For each queue: its number, whether a job is released, and the first run_at of the waiting jobs.
#define MS_QUARANTINES                                                                            \
  "(SELECT z.queue, bool_or(j.state IN (0, 2, 3)) AS taken, min(j.run_at) FILTER (WHERE j.state " \
  "= 5) AS first FROM $schema.quarantine z JOIN $schema.jobs j ON j.id = z.id AND "               \
  "j.quarantined IS NOT NULL GROUP BY z.queue) l "

}  // namespace

QuarantineStatements::QuarantineStatements(std::string_view s)
    : mark(s,
           "UPDATE $schema.jobs j SET lost = nullif(u.lost, 0), quarantined = nullif(u.since, 0) "
           "FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u(id, lost, since) WHERE "
           "j.id = u.id"),
      enter(s,
            "INSERT INTO $schema.quarantine (id, queue) SELECT * FROM unnest($1::bigint[], "
            "$2::bigint[]) ON CONFLICT DO NOTHING"),
      leave(s, "DELETE FROM $schema.quarantine WHERE id = ANY($1)"),
      forget(s,
             "DELETE FROM $schema.quarantine z WHERE NOT EXISTS (SELECT 1 FROM $schema.jobs j "
             "WHERE j.id = z.id AND j.quarantined IS NOT NULL AND j.state NOT IN (1, 4, 6, 7))"),
      first(s,
            "SELECT q.name, l.taken, (SELECT j.id FROM $schema.quarantine z JOIN $schema.jobs j ON "
            "j.id = z.id WHERE z.queue = l.queue AND j.state = 5 AND j.quarantined IS NOT NULL AND "
            "j.run_at <= $1 ORDER BY j.priority, j.run_at, j.id LIMIT 1) FROM " MS_QUARANTINES
            "JOIN $schema.queues q ON q.id = l.queue WHERE l.first <= $1 ORDER BY q.name"),
      next_release(
          s, "SELECT min(CASE WHEN l.taken THEN $1::bigint ELSE l.first END) FROM " MS_QUARANTINES
             "WHERE l.first IS NOT NULL"),
      is_taken(s,
               "SELECT 1 FROM $schema.quarantine z JOIN $schema.jobs j ON j.id = z.id WHERE "
               "z.queue = $1::bigint AND j.quarantined IS NOT NULL AND j.state IN (0, 2, 3) LIMIT "
               "1") {}

#undef MS_QUARANTINES

bool waits_in_quarantine(const JobRow& row) {
  return row.state == JobState::retryable && row.quarantined != 0;
}

// Whether the lease was never renewed: its worker may not have started the attempt.
bool is_unstarted(const JobRow& row) {
  return row.kept == 0 && !MS_MUTANT(unstarted_loss_counts);
}

bool is_over_limit(const JobRow& row, std::int64_t now) {
  return Duration(row.timeout) != kForever &&
         now >= row.claimed_at + (Duration(row.timeout) + kTimeoutGrace).count();
}

// The attempt of this job was lost, and its lease was taken away.
void PostgresStore::lose_attempt(LoadedJob& job, int lost, std::int64_t since) {
  JobRow& row = job.row;
  if (is_terminal(row.state)) return;
  row.lost = std::min(lost + 1, kMaxLost);
  const int after = queue_by_id(row.queue).limits.lost_before_quarantine();
  if (after == 0 || (row.lost < after && since == 0) || MS_MUTANT(quarantine_ignored)) return;
  row.quarantined = since == 0 ? wall() : since;
  if (since != 0) return;
  write(sql_.raise_version, params("queues"));  // the next leader must know
  after_.queues = true;
  log_.warn("a job was lost with its workers repeatedly: it is quarantined",
            {{"job", fmt::to_string(row.id)},
             {"queue", queue_name(row.queue)},
             {"lost", fmt::to_string(row.lost)}});
}

// The job's worker reported, the job ends, or an operator retries it.
void PostgresStore::leave_quarantine(JobRow& row) {
  row.quarantined = 0;
  if (!MS_MUTANT(quarantine_counts_words)) row.lost = row.unstarted = 0;
}

void PostgresStore::flush_quarantine(const std::vector<LoadedJob*>& touched) {
  Ints ids, lost, since, entered, queues, left;
  for (const LoadedJob* job : touched) {
    const std::int64_t was = job->was ? job->was->quarantined : 0;
    const std::int64_t is = job->removed ? 0 : job->row.quarantined;
    const auto losses = [](const JobRow& row) {
      return std::int64_t{row.lost} + std::int64_t{row.unstarted} * kUnstartedUnit;
    };
    const bool counts = (job->was ? losses(*job->was) : 0) != losses(job->row) && !job->removed;
    const bool waits = job->was && !job->removed && is != 0 && job->was->state != job->row.state;
    if (was != is || waits) after_.look_quarantine = true;
    if (was == 0 && is != 0) after_.quarantined.push_back(job->row.id);
    if (was != 0 && is == 0 && !job->removed && !is_terminal(job->row.state))
      after_.quarantine_left.push_back(job->row.id);
    if (was == is && !counts) continue;
    ids.push_back(job->row.id), lost.push_back(losses(job->row)), since.push_back(is);
    if (is != 0) entered.push_back(job->row.id), queues.push_back(job->row.queue);
    if (is == 0 && was != 0 && !MS_MUTANT(quarantine_never_free)) left.push_back(job->row.id);
  }
  if (ids.empty()) return;
  write(quarantine_sql_.mark, params(ids, lost, since));
  if (!entered.empty()) write(quarantine_sql_.enter, params(entered, queues));
  if (!left.empty()) write(quarantine_sql_.leave, params(left));
}

// Whether a job is released. The row of the queue is locked.
bool PostgresStore::quarantine_is_taken(int queue) {
  flush();
  return !ask(quarantine_sql_.is_taken, params(std::int64_t{queue})).empty();
}

// Returns how many were released.
int PostgresStore::release_quarantined(int limit) {
  if (next_release_ == WallTime::never() && !after_.look_quarantine) return 0;  // none waits
  after_.look_quarantine = true;
  flush();
  if (ask(quarantine_sql_.forget, {}).affected() > 0) wrote(false);
  const Rows rows = ask(quarantine_sql_.first, params(wall()));
  int released = 0;
  for (int i = 0; i < rows.size() && released < limit; ++i) {
    const bool taken = rows.integer(i, 1) != 0 && !MS_MUTANT(quarantine_gives_two);
    if (taken || rows.is_null(i, 2) || MS_MUTANT(quarantine_never_free)) continue;
    const JobId id = rows.integer(i, 2);
    if (free_jobs_by_id({id}, Ends::no).contains(id)) continue;
    LoadedJob* held = loaded(id);
    if (held == nullptr || !waits_in_quarantine(held->row)) continue;
    const QueueInfo& queue = locked_queue(rows.string(i, 0));
    if (quarantine_is_taken(queue.id) && !MS_MUTANT(quarantine_gives_two)) continue;
    begin_again(*held, JobState::available, held->row.run_at);
    ++released;
  }
  return released;
}

void PostgresStore::look_for_releases() {
  later(quarantine_sql_.next_release, params((now_.wall + kLookAtReleased).us()),
        [this](const Rows& rows) {
          after_.next_release =
              rows.is_null(0, 0) ? WallTime::never() : WallTime::from_us(rows.integer(0, 0));
        });
}

void PostgresStore::load_next_release() {
  const Rows rows = connection_->run(quarantine_sql_.next_release, params(std::int64_t{0}));
  next_release_ = rows.is_null(0, 0) ? WallTime::never() : WallTime::from_us(rows.integer(0, 0));
}

}  // namespace mainspring::pg
