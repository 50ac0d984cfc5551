// The SQL of schedules and of leases by name.
#include "store_postgres/schedule_statements.h"

namespace mainspring::pg {
namespace {

// Rows are locked in the order of their names, so that two nodes do not wait for each other.
constexpr std::string_view kLockLeases =
    "SELECT name, state, token, ttl, kept, ends, since, holder, value FROM $schema.named_leases "
    "WHERE name = ANY($1) ORDER BY name FOR UPDATE";
constexpr std::string_view kShareLeases =
    "SELECT name, state, token, ttl, kept, ends, since, holder, value FROM $schema.named_leases "
    "WHERE name = ANY($1) ORDER BY name FOR SHARE";

// $1 name, $2 ttl, $3 ends, $4 since, $5 holder. No row = somebody else was quicker.
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

// What is over by $1 and has a value is free from now on, the rest goes; those that somebody has
// locked are left to the next time. Answers the names, and whether each has gone.
constexpr std::string_view kSweepLeases =
    "WITH over AS (SELECT name, value IS NULL AS gone FROM $schema.named_leases WHERE ends <= $1 "
    "ORDER BY name LIMIT $2 FOR UPDATE SKIP LOCKED), "
    "removed AS (DELETE FROM $schema.named_leases l USING over o "
    "WHERE l.name = o.name AND o.gone RETURNING l.name), "
    "freed AS (UPDATE $schema.named_leases l SET state = 2, ends = 9223372036854775807 FROM over o "
    "WHERE l.name = o.name AND NOT o.gone RETURNING l.name) "
    "SELECT name, true FROM removed UNION ALL SELECT name, false FROM freed";
// The same for all of them, and what was released goes too.
constexpr std::string_view kForgetLeases =
    "DELETE FROM $schema.named_leases WHERE name IN (SELECT name FROM $schema.named_leases "
    "WHERE value IS NULL AND (state <> 0 OR ends <= $1) ORDER BY name FOR UPDATE SKIP LOCKED) "
    "RETURNING name";
constexpr std::string_view kMeasureLeases =
    "SELECT count(*), coalesce(min(ends) FILTER (WHERE ends > $1), 9223372036854775807) "
    "FROM $schema.named_leases";

constexpr std::string_view kBeginLeasesAnew =
    "UPDATE $schema.named_leases SET ttl = kept, ends = $1 + kept "
    "WHERE state = 0 OR (state = 1 AND value IS NULL)";
constexpr std::string_view kForgetLeader = "DELETE FROM $schema.named_leases WHERE name = $1";
constexpr std::string_view kHeldLeases =
    "SELECT name, ends FROM $schema.named_leases WHERE state = 0 AND ends > $1";

// $2 is the present time of the lease clock; NULL = that of the database.
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
      begin_leases_anew(schema, kBeginLeasesAnew),
      forget_leader(schema, kForgetLeader),
      held_leases(schema, kHeldLeases),
      read_lease(schema, kReadLease),
      read_leases(schema, kReadLeases) {}

}  // namespace mainspring::pg
