// Named locks (leases): acquire, renew, release, and the fence of other operations.
#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/mutant.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/store_impl.h"
#include "store/common_rules.h"

namespace mainspring::sql {
namespace {

// Expired leases that one acquire removes: more than it adds, so that they do not accumulate.
constexpr std::size_t kSweptPerAcquire = 1000;

// Free and without a value: invisible to clients.
bool forgotten(const NamedLease& lease, Instant now) {
  return !lease.held(now) && lease.value.empty();
}

LeaseInfo describe(const std::string& name, const NamedLease& lease, Instant now) {
  LeaseInfo info{.name = name, .token = lease.token, .value = lease.value};
  if (!lease.held(now)) return info;
  info.holder = lease.holder;
  info.expires_in = lease.ends - now;
  info.since = lease.since;
  return info;
}

}  // namespace

std::optional<Error> SqlStore::fenced(const Fence& fence) const {
  if (fence.lease.empty()) return std::nullopt;
  const auto found = named_leases_.find(fence.lease);
  const bool holds = found != named_leases_.end() && found->second.token == fence.token &&
                     found->second.state == NamedLease::State::held &&
                     (found->second.ends > now_.instant || MS_MUTANT(fence_ignores_expiry));
  if (holds) return std::nullopt;
  return lost_lease(fence.lease, fence.token);
}

// The lease, if this holder holds it; else nullptr.
NamedLease* SqlStore::find_held(const std::string& name, const std::string& holder, Token token) {
  const auto found = named_leases_.find(name);
  if (found == named_leases_.end()) return nullptr;
  NamedLease& lease = found->second;
  const bool mine = lease.state == NamedLease::State::held && lease.token == token &&
                    lease.holder == holder &&
                    (lease.ends > now_.instant || MS_MUTANT(lost_lease_renewed));
  return mine ? &lease : nullptr;
}

OperationResult SqlStore::operator()(const AcquireLease& op) {
  const auto found = named_leases_.find(op.name);
  if (found != named_leases_.end() && found->second.held(now_.instant)) {
    NamedLease& lease = found->second;
    if (lease.holder == op.holder) {
      extend_lease(op.name, lease, op.ttl);
      return grant_of(lease, true);
    }
    const std::int64_t wait_ms = (lease.ends - now_.instant).count() / 1000 + 1;
    return Error{.code = ErrorCode::lease_held,
                 .message = fmt::format("lease {}: {} holds it for another {} ms", op.name,
                                        lease.holder, wait_ms),
                 .retry_after_ms = static_cast<int>(wait_ms)};
  }
  if (found == named_leases_.end() && !make_room_for_lease()) {
    return Error{.code = ErrorCode::overloaded,
                 .message = fmt::format("{} leases are held or have a value: must be at most {}",
                                        named_leases_.size(), kMaxLeases),
                 .retry_after_ms = 1000};
  }
  return grant_lease(op);
}

LeaseGrant SqlStore::grant_lease(const AcquireLease& op) {
  begin_write();
  NamedLease& lease = named_leases_[op.name];
  if (lease.state == NamedLease::State::released && lease.value.empty()) --released_leases_;
  const bool reuse = lease.token != 0 && MS_MUTANT(lease_token_reused);
  if (!reuse) lease.token = next_token_++;
  marks_touched_ = true;
  lease.state = NamedLease::State::held;
  lease.holder = op.holder;
  lease.ttl = lease.kept = op.ttl;
  lease.since = now_.wall;
  set_lease_end(op.name, lease, now_.instant + op.ttl);
  save_lease(op.name, lease);
  sweep_leases(kSweptPerAcquire);
  return grant_of(lease, false);
}

LeaseGrant SqlStore::grant_of(const NamedLease& lease, bool held) const {
  return {
      .token = lease.token, .ttl = lease.ends - now_.instant, .value = lease.value, .held = held};
}

OperationResult SqlStore::operator()(const RenewLease& op) {
  MS_TRY(check_lease_value(op.value));
  NamedLease* lease = find_held(op.name, op.holder, op.token);
  if (lease == nullptr) return lost_lease(op.name, op.token);
  extend_lease(op.name, *lease, op.ttl > Duration(0) ? op.ttl : lease->ttl);
  if (op.value) {
    lease->value = *op.value;
    save_lease(op.name, *lease);
  }
  return grant_of(*lease, true);
}

OperationResult SqlStore::operator()(const ReleaseLease& op) {
  MS_TRY(check_lease_value(op.value));
  NamedLease* lease = find_held(op.name, op.holder, op.token);
  if (lease == nullptr) {
    const auto found = named_leases_.find(op.name);
    const bool again = found != named_leases_.end() && found->second.token == op.token &&
                       found->second.state == NamedLease::State::released;
    if (again) return Done{};
    return lost_lease(op.name, op.token);
  }
  lease->state = NamedLease::State::released;
  if (op.value) lease->value = *op.value;
  if (lease->value.empty()) {
    ++released_leases_;
    set_lease_end(op.name, *lease, now_.instant + lease->kept);
  } else {
    set_lease_end(op.name, *lease, Instant::never());
  }
  save_lease(op.name, *lease);
  freed_leases_.push_back(op.name);
  return Done{};
}

// Writes a length longer than the one on disk, so that a restart does not shorten the lease.
void SqlStore::extend_lease(const std::string& name, NamedLease& lease, Duration ttl) {
  set_lease_end(name, lease, name == kLeadershipLease ? now_.instant + ttl : end_of(ttl));
  lease.ttl = ttl;
  if (ttl <= lease.kept) return;
  lease.kept = ttl;
  save_lease(name, lease);
}

void SqlStore::set_lease_end(const std::string& name, NamedLease& lease, Instant ends) {
  lease_ends_.erase({lease.ends, name});
  lease.ends = ends;
  if (ends != Instant::never()) lease_ends_.emplace(ends, name);
  touched_leases_.insert(name);
}

void SqlStore::save_lease(const std::string& name, const NamedLease& lease) {
  begin_write();
  sql_->upsert_lease
      .bind(name, static_cast<int>(lease.state), lease.holder, lease.token, lease.kept.count(),
            lease.since.us(), Statement::text_or_null(lease.value))
      .run();
  touched_leases_.insert(name);
}

void SqlStore::drop_lease(const std::string& name) {
  begin_write();
  sql_->delete_lease.bind(name).run();
  touched_leases_.insert(name);
  named_leases_.erase(name);
}

// Removes up to `limit` expired leases; leases with a value stay, as free.
void SqlStore::sweep_leases(std::size_t limit) {
  for (; limit > 0 && !lease_ends_.empty() && lease_ends_.begin()->first <= now_.instant; --limit) {
    const std::string name = lease_ends_.begin()->second;
    lease_ends_.erase(lease_ends_.begin());
    NamedLease& lease = named_leases_.at(name);
    if (lease.value.empty()) {
      if (lease.state == NamedLease::State::released) --released_leases_;
      drop_lease(name);
    } else {
      lease.state = NamedLease::State::expired;
      lease.ends = Instant::never();
      save_lease(name, lease);
    }
  }
}

// Removes expired leases, and if that is not enough, leases that may be dropped.
bool SqlStore::make_room_for_lease() {
  const auto full = [this] { return named_leases_.size() >= std::size_t{kMaxLeases}; };
  if (!full()) return true;
  sweep_leases(named_leases_.size());
  if (!full() || released_leases_ == 0) return !full();
  std::vector<std::string> released;
  for (const auto& [name, lease] : named_leases_) {
    if (lease.state == NamedLease::State::released && lease.value.empty()) released.push_back(name);
  }
  for (const std::string& name : released) {
    lease_ends_.erase({named_leases_.at(name).ends, name});
    drop_lease(name);
  }
  released_leases_ = 0;
  return true;
}

// Every lease starts again: while no server was running, no holder could renew.
void SqlStore::load_named_leases(Instant now) {
  named_leases_.clear();
  lease_ends_.clear();
  touched_leases_.clear();
  released_leases_ = 0;
  Statement rows(db_, queries::leases::load_named_leases);
  while (rows.step()) {
    const std::string name(rows.text(0));
    NamedLease& lease = named_leases_[name];
    lease.state = rows.one_of(1, NamedLease::State::expired);
    lease.holder = rows.text(2);
    lease.token = rows.integer(3);
    lease.ttl = lease.kept = Duration(rows.integer(4));
    lease.since = WallTime::from_us(rows.integer(5));
    lease.value = rows.text(6);
    lease.ends = Instant::never();
    const bool released = lease.state == NamedLease::State::released && lease.value.empty();
    if (released) ++released_leases_;
    if (released || lease.state == NamedLease::State::held)
      set_lease_end(name, lease, now + std::max(lease.kept, restart_allowance_));
    touched_leases_.insert(name);
  }
}

Instant SqlStore::lease_free_at(const std::string& name) const {
  const auto found = named_leases_.find(name);
  const bool held = found != named_leases_.end() && found->second.held(now_.instant);
  return held ? found->second.ends : Instant();
}

// -- reads
// -----------------------------------------------------------------------------------------

void SqlStore::publish_leases() {
  if (republish_) published_leases_.clear();
  for (const std::string& name : touched_leases_) {
    const auto found = named_leases_.find(name);
    if (found == named_leases_.end()) {
      published_leases_.erase(name);
    } else {
      published_leases_[name] = found->second;
    }
  }
  touched_leases_.clear();
}

Result<LeaseInfo> SqlStore::lease(const std::string& name, Instant now) const {
  MutexLock lock(published_mutex_);
  const auto found = published_leases_.find(name);
  if (found == published_leases_.end() || forgotten(found->second, now)) {
    return Error{.code = ErrorCode::not_found,
                 .message = fmt::format("lease {}: not held, and has no value", name)};
  }
  return describe(name, found->second, now);
}

Result<std::vector<LeaseInfo>> SqlStore::leases(const std::string& after, int limit,
                                                Instant now) const {
  MutexLock lock(published_mutex_);
  std::vector<LeaseInfo> out;
  for (auto it = published_leases_.upper_bound(after);
       it != published_leases_.end() && static_cast<int>(out.size()) < limit; ++it) {
    if (!forgotten(it->second, now)) out.push_back(describe(it->first, it->second, now));
  }
  return out;
}

}  // namespace mainspring::sql
