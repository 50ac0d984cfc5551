// SQL texts of the statements on schedules and named locks (leases).
#include "store_postgres/schedule_statements.h"

namespace mainspring::pg {
namespace {

// Rows are locked in the order of their names, so that two nodes do not deadlock.
constexpr std::string_view kLockLeases =
    "SELECT name, state, token, ttl, kept, ends, since, holder, value FROM $schema.named_leases "
    "WHERE name = ANY($1) ORDER BY name FOR UPDATE";
constexpr std::string_view kShareLeases =
    "SELECT name, state, token, ttl, kept, ends, since, holder, value FROM $schema.named_leases "
    "WHERE name = ANY($1) ORDER BY name FOR SHARE";

// $1 name, $2 ttl, $3 ends, $4 since, $5 holder. No row = another transaction was first.
constexpr std::string_view kInsertLease =
    "INSERT INTO $schema.named_leases (name, state, token, ttl, kept, ends, since, holder) "
    "VALUES ($1, 0, nextval('$schema.tokens_given'), $2, $2, $3, $4, $5) "
    "ON CONFLICT (name) DO NOTHING RETURNING token";
constexpr std::string_view kGrantLease =
    "UPDATE $schema.named_leases SET state = 0, token = nextval('$schema.tokens_given'), "
    "ttl = $2, kept = $2, ends = $3, since = $4, holder = $5 WHERE name = $1 RETURNING token";
constexpr std::string_view kRenewLease =
    "UPDATE $schema.named_leases SET ends = $2, ttl = $3 WHERE name = $1";
constexpr std::string_view kSaveLease =
    "UPDATE $schema.named_leases SET state = $2, ends = $3, ttl = $4, kept = $5, value = $6 "
    "WHERE name = $1";

// Leases that end by $1: with a value they become free, others are removed; rows locked by other
// transactions are left for the next time. Returns the names, and whether each was removed.
constexpr std::string_view kSweepLeases =
    "WITH over AS (SELECT name, value IS NULL AS gone FROM $schema.named_leases WHERE ends <= $1 "
    "ORDER BY name LIMIT $2 FOR UPDATE SKIP LOCKED), "
    "removed AS (DELETE FROM $schema.named_leases l USING over o "
    "WHERE l.name = o.name AND o.gone RETURNING l.name), "
    "freed AS (UPDATE $schema.named_leases l SET state = 2, ends = 9223372036854775807 FROM over o "
    "WHERE l.name = o.name AND NOT o.gone RETURNING l.name) "
    "SELECT name, true FROM removed UNION ALL SELECT name, false FROM freed";
// The same for all leases; released ones are removed too.
constexpr std::string_view kForgetLeases =
    "WITH gone AS MATERIALIZED (SELECT name FROM $schema.named_leases WHERE value IS NULL AND "
    "(state <> 0 OR ends <= $1) ORDER BY name FOR UPDATE SKIP LOCKED) DELETE FROM "
    "$schema.named_leases l USING gone g WHERE l.name = g.name RETURNING l.name";
constexpr std::string_view kMeasureLeases =
    "SELECT count(*), coalesce(min(ends) FILTER (WHERE ends > $1), 9223372036854775807) "
    "FROM $schema.named_leases";

constexpr std::string_view kResetLeases =
    "UPDATE $schema.named_leases SET ttl = kept, ends = $1 + greatest(kept, $2) "
    "WHERE state = 0 OR (state = 1 AND value IS NULL)";
constexpr std::string_view kForgetLeader = "DELETE FROM $schema.named_leases WHERE name = $1";
constexpr std::string_view kHeldLeases =
    "SELECT name, ends FROM $schema.named_leases WHERE state = 0 AND ends > $1";

// $2 is the current time of the lease clock; NULL = that of the database.
constexpr std::string_view kReadLease =
    "WITH clock AS (SELECT coalesce($2, $schema.now_us()) AS now) "
    "SELECT name, token, value, state = 0 AND ends > now, holder, ends - now, since "
    "FROM $schema.named_leases, clock "
    "WHERE name = $1 AND (value IS NOT NULL OR (state = 0 AND ends > now))";
constexpr std::string_view kReadLeases =
    "WITH clock AS MATERIALIZED (SELECT coalesce($2, $schema.now_us()) AS now) "
    "SELECT name, token, value, state = 0 AND ends > now, holder, ends - now, since "
    "FROM $schema.named_leases, clock "
    "WHERE name > $1 AND (value IS NOT NULL OR (state = 0 AND ends > now)) "
    "ORDER BY name LIMIT $3";

// -- schedules ------------------------------------------------------------------------------------

#define MS_SCHEDULE                                                                             \
  "SELECT id, name, version, definition, paused, paused_reason, next, next_fire, skip_before, " \
  "skip_reason, remaining, fired, last_fired, last_job, timeout_override, created_at, "         \
  "updated_at, next_seq FROM $schema.schedules "

constexpr std::string_view kLockSchedules =
    MS_SCHEDULE "WHERE name = ANY($1) ORDER BY name FOR UPDATE";
constexpr std::string_view kLockSchedulesById =
    MS_SCHEDULE "WHERE id = ANY($1) ORDER BY name FOR UPDATE";
// No row = another transaction was first.
constexpr std::string_view kInsertSchedule =
    "WITH before AS (DELETE FROM $schema.removed_schedules WHERE name = $1 RETURNING version) "
    "INSERT INTO $schema.schedules (name, version, definition, queue, paused, next, next_fire, "
    "skip_before, remaining, fired, last_job, created_at, updated_at, next_seq) "
    "SELECT $1, coalesce((SELECT version FROM before), 0) + 1, $2, $3, $4, $5, $6, 0, $7, 0, 0, "
    "$8, $8, 1 ON CONFLICT (name) DO NOTHING RETURNING id, version";
constexpr std::string_view kSaveSchedule =
    "UPDATE $schema.schedules SET version = $2, paused = $3, paused_reason = $4, next = $5, "
    "next_fire = $6, skip_before = $7, skip_reason = $8, remaining = $9, fired = $10, "
    "last_fired = $11, last_job = $12, timeout_override = $13, updated_at = $14, next_seq = $15 "
    "WHERE id = $1";
constexpr std::string_view kDefineSchedule =
    "UPDATE $schema.schedules SET definition = $2, queue = $3 WHERE id = $1";
constexpr std::string_view kCountSchedules = "SELECT count(*) FROM $schema.schedules";
constexpr std::string_view kDeleteSchedule =
    "WITH s AS (DELETE FROM $schema.schedules WHERE id = $1 RETURNING name, version), "
    "t AS (DELETE FROM $schema.schedule_jobs WHERE schedule = $1), "
    "l AS (DELETE FROM $schema.ledger WHERE schedule = $1) "
    "INSERT INTO $schema.removed_schedules (name, version) SELECT name, version FROM s "
    "ON CONFLICT (name) DO UPDATE SET version = excluded.version";

// -- ledgers --------------------------------------------------------------------------------------

// One index lookup for each, whatever the planner assumes about a table without statistics.
constexpr std::string_view kSelectFired =
    "SELECT l.schedule, l.nominal, l.version, l.job FROM unnest($1::bigint[], $2::bigint[]) AS "
    "u(schedule, nominal), LATERAL (SELECT * FROM $schema.ledger WHERE schedule = u.schedule AND "
    "nominal = u.nominal AND state = 0 AND source IN (0, 2) ORDER BY nominal, version OFFSET 0) l "
    "ORDER BY l.schedule, l.seq";
constexpr std::string_view kInsertTicks =
    "INSERT INTO $schema.ledger (schedule, seq, version, nominal, until, count, source, state, "
    "past_due, job, reason, note, decided_at) SELECT $1, u.seq, u.version, u.nominal, u.until, "
    "u.count, u.source, u.state, u.past_due <> 0, u.job, u.reason, u.note, $2 FROM "
    "unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], "
    "$9::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::text[]) AS u(seq, version, "
    "nominal, until, count, source, state, past_due, job, reason, note)";
constexpr std::string_view kDeleteTicks =
    "DELETE FROM $schema.ledger WHERE schedule = $1 AND seq <= $2";
// One row without a seq: the schedule exists and has no such rows.
constexpr std::string_view kReadLedger =
    "SELECT l.seq, l.version, l.nominal, l.until, l.count, l.source, l.state, l.past_due, l.job, "
    "l.reason, l.note, l.decided_at, j.state FROM $schema.schedules s LEFT JOIN LATERAL (SELECT * "
    "FROM $schema.ledger WHERE schedule = s.id AND seq < $2 ORDER BY seq DESC LIMIT $3) l ON true "
    "LEFT JOIN $schema.jobs j ON j.id = l.job WHERE s.name = $1 ORDER BY l.seq DESC";

// -- jobs of schedules that have not ended --------------------------------------------------------

constexpr std::string_view kLinksOf =
    "SELECT schedule, job, waits FROM $schema.schedule_jobs WHERE schedule = ANY($1)";
constexpr std::string_view kJobsOf =
    "SELECT t.job FROM $schema.schedules s, LATERAL (SELECT job FROM $schema.schedule_jobs WHERE "
    "schedule = s.id OFFSET 0) t WHERE s.name = ANY($1)";
constexpr std::string_view kInsertLinks =
    "INSERT INTO $schema.schedule_jobs (job, schedule, waits) SELECT u.job, $1, u.waits <> 0 FROM "
    "unnest($2::bigint[], $3::bigint[]) AS u(job, waits)";
// Of the jobs $1, of which $2 are dead: deletes the links that no job waits for.
constexpr std::string_view kEndLinks =
    "DELETE FROM $schema.schedule_jobs t WHERE t.job = ANY($1) AND (t.waits OR NOT EXISTS "
    "(SELECT 1 FROM $schema.schedule_jobs w WHERE w.schedule = t.schedule AND w.waits AND "
    "w.job <> ALL($1))) AND NOT (t.job = ANY($2) AND EXISTS (SELECT 1 FROM $schema.schedules s "
    "WHERE s.id = t.schedule AND NOT s.paused AND "
    "s.definition::jsonb @> '{\"pause_on_failure\": true}'))";
// Runs after it: the schedules to lock for the other links, and schedules where a job started to
// wait in the meantime.
constexpr std::string_view kLinksToSettle =
    "SELECT schedule FROM $schema.schedule_jobs WHERE job = ANY($1) "
    "UNION SELECT schedule FROM $schema.schedule_jobs WHERE schedule = ANY($2) AND waits";
constexpr std::string_view kDeleteLinks = "DELETE FROM $schema.schedule_jobs WHERE job = ANY($1)";
constexpr std::string_view kBeginLink =
    "UPDATE $schema.schedule_jobs SET waits = false WHERE job = $1";
// No effect if the schedule has been removed.
constexpr std::string_view kReviveLink =
    "INSERT INTO $schema.schedule_jobs (job, schedule, waits) SELECT $1, s.id, false FROM (SELECT "
    "id FROM $schema.schedules WHERE id = $2 FOR KEY SHARE) s ON CONFLICT (job) DO UPDATE SET "
    "waits = false";
constexpr std::string_view kGuardLink =
    "SELECT job FROM $schema.schedule_jobs WHERE schedule = $1 AND NOT waits ORDER BY job DESC "
    "LIMIT 1 FOR KEY SHARE SKIP LOCKED";
constexpr std::string_view kAwaitLink =
    "SELECT job FROM $schema.schedule_jobs WHERE schedule = $1 AND NOT waits ORDER BY job LIMIT 1 "
    "FOR KEY SHARE";

// -- the copy -------------------------------------------------------------------------------------

// All changes of earlier transactions are visible.
constexpr std::string_view kSnapshot =
    "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint";
// Rows written by transactions from $1 on. Transaction numbers have 32 bits and wrap around, so a
// very old row may be included.
#define MS_SINCE "WHERE ((xmin::text::bigint - $1) & 4294967295) < 2147483648"
constexpr std::string_view kChangedSchedules = MS_SCHEDULE MS_SINCE;
constexpr std::string_view kAllSchedules = MS_SCHEDULE;
constexpr std::string_view kRemovedSchedules =
    "SELECT name FROM $schema.removed_schedules " MS_SINCE;
constexpr std::string_view kSumLinks =
    "SELECT count(*), count(*) FILTER (WHERE waits), coalesce(sum(job), 0)::bigint FROM "
    "$schema.schedule_jobs";
constexpr std::string_view kAllLinks = "SELECT schedule, job, waits FROM $schema.schedule_jobs";

#undef MS_SINCE
#undef MS_SCHEDULE

}  // namespace

ScheduleStatements::ScheduleStatements(std::string_view schema)
    : lock_leases(schema, kLockLeases),
      share_leases(schema, kShareLeases),
      insert_lease(schema, kInsertLease),
      grant_lease(schema, kGrantLease),
      renew_lease(schema, kRenewLease),
      save_lease(schema, kSaveLease),
      sweep_leases(schema, kSweepLeases),
      forget_leases(schema, kForgetLeases),
      measure_leases(schema, kMeasureLeases),
      reset_leases(schema, kResetLeases),
      forget_leader(schema, kForgetLeader),
      held_leases(schema, kHeldLeases),
      read_lease(schema, kReadLease),
      read_leases(schema, kReadLeases),
      lock_schedules(schema, kLockSchedules),
      lock_schedules_by_id(schema, kLockSchedulesById),
      insert_schedule(schema, kInsertSchedule),
      save_schedule(schema, kSaveSchedule),
      define_schedule(schema, kDefineSchedule),
      count_schedules(schema, kCountSchedules),
      delete_schedule(schema, kDeleteSchedule),
      select_fired(schema, kSelectFired),
      insert_ticks(schema, kInsertTicks),
      delete_ticks(schema, kDeleteTicks),
      read_ledger(schema, kReadLedger),
      links_of(schema, kLinksOf),
      jobs_of(schema, kJobsOf),
      insert_links(schema, kInsertLinks),
      end_links(schema, kEndLinks),
      links_to_settle(schema, kLinksToSettle),
      delete_links(schema, kDeleteLinks),
      begin_link(schema, kBeginLink),
      revive_link(schema, kReviveLink),
      guard_link(schema, kGuardLink),
      await_link(schema, kAwaitLink),
      snapshot(schema, kSnapshot),
      changed_schedules(schema, kChangedSchedules),
      all_schedules(schema, kAllSchedules),
      removed_schedules(schema, kRemovedSchedules),
      sum_links(schema, kSumLinks),
      all_links(schema, kAllLinks) {}

}  // namespace mainspring::pg
