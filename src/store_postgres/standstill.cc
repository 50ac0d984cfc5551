// Leases while servers are suspended or restarted: which are extended, and by how much.
//
// Rows locked by another transaction are skipped: that transaction renews, ends or extends the
// lease.
#include "store_postgres/standstill.h"

#include <algorithm>

#include "base/mutant.h"
#include "store_postgres/store_impl.h"

namespace mainspring::pg {
namespace {

constexpr std::string_view kAllowance = "restart_allowance";

#define MS_RUNNING(condition)                                                                 \
  "WITH l AS MATERIALIZED (SELECT id FROM $schema.jobs WHERE id IN (SELECT unnest(ids) FROM " \
  "$schema.leased" condition                                                                  \
  " ORDER BY id FOR UPDATE SKIP LOCKED) UPDATE $schema.jobs j SET "                           \
  "lease_until = "
#define MS_BY_ID " FROM l WHERE j.id = l.id RETURNING j.id, j.lease_until"
// Not `WHERE id IN (SELECT …)`: with old statistics the planner would run the SELECT for each row.
#define MS_HOLDS(condition)                                                         \
  "WITH l AS MATERIALIZED (SELECT id FROM $schema.sessions WHERE look_at <> 0 AND " \
  "lease_until > " condition                                                        \
  " ORDER BY id FOR UPDATE SKIP LOCKED) UPDATE $schema.sessions s SET lease_until = "
#define MS_NAMED(condition)                                                                 \
  "WITH l AS MATERIALIZED (SELECT name FROM $schema.named_leases WHERE state = 0 AND ends " \
  "> " condition                                                                            \
  " ORDER BY name FOR UPDATE SKIP LOCKED) UPDATE $schema.named_leases s SET ends = "

}  // namespace

StandstillStatements::StandstillStatements(std::string_view s)
    : extend_jobs(s, MS_RUNNING(") AND state = 3 AND lease_until > $1")
                  "greatest(lease_until, least(lease_until + $2, $3 + greatest(lease, "
                  "kept)))" MS_BY_ID),
      extend_sessions(s,
                      MS_HOLDS("$1") "greatest(lease_until, least(lease_until + $2, $3 + kept)) "
                                     "FROM l WHERE s.id = l.id"),
      extend_leases(s,
                    MS_NAMED("$1") "greatest(ends, least(ends + $2, $3 + kept)) "
                                   "FROM l WHERE s.name = l.name"),
      // $4 is the grace after a job's time limit. Limits beyond 30 years count as unlimited.
      allow_jobs(s, MS_RUNNING(" WHERE node = $3 OR node = 0) AND state = 3 AND lease_until > $2")
                 "greatest(lease_until, least($1, claimed_at + least(timeout, 1000000000000000) + "
                 "$4))" MS_BY_ID),
      allow_sessions(s, MS_HOLDS("$2") "greatest(lease_until, $1) FROM l WHERE s.id = l.id"),
      allow_leases(s, MS_NAMED("$2 AND name <> $3") "greatest(ends, $1) FROM l WHERE s.name = "
                                                    "l.name"),
      keep_allowance(s,
                     "INSERT INTO $schema.settings AS s (name, value) VALUES ($1, $2) ON CONFLICT "
                     "(name) DO UPDATE SET value = excluded.value"),
      read_allowance(s, "SELECT value FROM $schema.settings WHERE name = $1"),
      drop_allowance(s, "DELETE FROM $schema.settings WHERE name = $1") {}

#undef MS_RUNNING
#undef MS_BY_ID
#undef MS_HOLDS
#undef MS_NAMED

// Updates what this batch and this node know about the extended leases.
void PostgresStore::note_extended(const Rows& rows) {
  for (int i = 0; i < rows.size(); ++i) {
    const JobId id = rows.integer(i, 0);
    const std::int64_t until = rows.integer(i, 1);
    if (LoadedJob* held = loaded(id); held != nullptr) {
      held->row.lease_until = until;
      if (held->was) held->was->lease_until = until;
    }
    note_end_of_lease(id, until);
  }
}

// For a lease of this node that seems to have expired: another node may have extended it.
void PostgresStore::note_end_of_lease(JobId id, std::int64_t until) {
  const auto own = own_leases_.find(id);
  const bool over = own != own_leases_.end() && own->second.until <= lease_now();
  if (!over || until <= lease_now()) return;
  LeaseOfJob lease = own->second;
  lease.until = until;
  after_.leased.emplace_back(id, std::move(lease));
}

OperationResult PostgresStore::operator()(const ExtendLeases& op) {
  if (MS_MUTANT(standstill_ends_leases)) return Done{};
  flush();
  const std::int64_t now = lease_now(), gap = op.gap.count(), since = now - gap;
  const auto extended = [&](std::int64_t end, std::int64_t length) {
    return end > since ? std::max(end, std::min(end + gap, now + length)) : end;
  };
  note_extended(ask(standstill_sql_.extend_jobs, params(since, gap, now)));
  write(standstill_sql_.extend_sessions, params(since, gap, now), false);
  write(standstill_sql_.extend_leases, params(since, gap, now), false);
  for (auto& [name, session] : sessions_) {
    if (session.row.token != 0)
      session.row.lease_until = extended(session.row.lease_until, session.row.kept);
  }
  for (auto& [name, lease] : after_.leases) {
    if (lease.state == LoadedLease::State::held) lease.ends = extended(lease.ends, lease.kept);
  }
  return Done{};
}

OperationResult PostgresStore::operator()(const AllowRestart& op) {
  flush();
  const std::int64_t now = lease_now(), until = now + op.allowance.count();
  allowed_until_ = allowance_over_ = until;
  write(standstill_sql_.keep_allowance, params(kAllowance, op.allowance.count()));
  note_extended(ask(standstill_sql_.allow_jobs, params(until, now, node_, kTimeoutGrace.count())));
  tell(standstill_sql_.allow_sessions, params(until, now));
  tell(standstill_sql_.allow_leases, params(until, now, kLeadershipLease));
  for (auto& [name, session] : sessions_) {
    if (session.row.lease_until > now)
      session.row.lease_until = std::max(session.row.lease_until, until);
  }
  for (auto& [name, lease] : after_.leases) {
    if (lease.held(now) && name != kLeadershipLease) lease.ends = std::max(lease.ends, until);
  }
  return Done{};
}

std::int64_t PostgresStore::restart_allowance() {
  const Rows rows = ask(standstill_sql_.read_allowance, params(kAllowance));
  const std::int64_t allowance = rows.empty() ? 0 : rows.integer(0, 0);
  allowance_over_ = allowance == 0 ? 0 : lease_now() + allowance;
  return allowance;
}

void PostgresStore::forget_allowance() {
  if (allowance_over_ == 0 || lease_now() < allowance_over_) return;
  allowance_over_ = 0;
  write(standstill_sql_.drop_allowance, params(kAllowance));
}

}  // namespace mainspring::pg
