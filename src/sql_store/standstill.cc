// Leases while the server is suspended or restarts: which are extended, and by how much.
#include <algorithm>

#include "base/mutant.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/store_impl.h"

namespace mainspring::sql {

// Calls each function with a lease whose end may be changed: `job(id, lease)`, `named(name, lease)`
// for held ones, `session(session)` likewise. The ends change the indexes, so it walks over copies.
template <class ForJob, class ForNamed, class ForSession>
void SqlStore::for_each_lease(ForJob job, ForNamed named, ForSession session) {
  for (auto& [id, lease] : leases_) job(id, lease);
  const auto names = lease_ends_;
  for (const auto& [ends, name] : names) {
    NamedLease& lease = named_leases_.at(name);
    if (lease.state == NamedLease::State::held) named(name, lease);
  }
  const auto holds = hold_ends_;
  for (const auto& [ends, id] : holds) session(*sessions_.at(id));
}

OperationResult SqlStore::operator()(const ExtendLeases& op) {
  const auto extended = [&](Instant end, Duration length) {
    const bool alive = end > now_.instant - op.gap && !MS_MUTANT(standstill_ends_leases);
    return alive ? std::max(end, std::min(end + op.gap, now_.instant + length)) : end;
  };
  for_each_lease(
      [&](JobId id, Lease& lease) {
        set_lease_expiry(id, lease, extended(lease.expires_at, lease.longest()));
      },
      [&](const std::string& name, NamedLease& lease) {
        set_lease_end(name, lease, extended(lease.ends, lease.kept));
      },
      [&](Session& session) { set_hold_end(session, extended(session.ends, session.kept)); });
  return Done{};
}

OperationResult SqlStore::operator()(const AllowRestart& op) {
  begin_write();
  restart_allowance_ = op.allowance;
  allowed_until_ = allowance_over_ = now_.instant + op.allowance;
  marks_touched_ = true;
  const auto allowed = [&](Instant end) {
    return end > now_.instant ? std::max(end, allowed_until_) : end;
  };
  for_each_lease(
      [&](JobId id, Lease& lease) {
        set_lease_expiry(id, lease, std::min(allowed(lease.expires_at), lease_limit(lease)));
      },
      [&](const std::string& name, NamedLease& lease) {
        if (name != kLeadershipLease) set_lease_end(name, lease, allowed(lease.ends));
      },
      [&](Session& session) { set_hold_end(session, allowed(session.ends)); });
  return Done{};
}

// Does not use the wall clock to measure the downtime: with a wrong clock, a lease could end while
// its worker relies on the allowance.
void SqlStore::load_allowance(Instant now) {
  restart_allowance_ = Duration(db_.query_int(queries::queues::allowance));
  allowance_over_ = now + restart_allowance_;
}

void SqlStore::forget_allowance() {
  if (restart_allowance_ == Duration(0) || now_.instant < allowance_over_) return;
  restart_allowance_ = Duration(0);
  marks_touched_ = true;
}

}  // namespace mainspring::sql
