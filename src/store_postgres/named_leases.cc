// Named locks (leases): acquire, renew, release, and the fence of other operations.
//
// An operation that decides about a lease locks its row first, so that of two nodes one waits for
// the other's transaction. A fence takes a shared lock on the row: an operation that passed the
// fence is committed before another client can become the holder.
#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "store/common_rules.h"
#include "store_postgres/reader.h"

namespace mainspring::pg {
namespace {

// Expired leases that one acquire removes: more than it adds, so that they do not accumulate.
constexpr std::int64_t kSweptPerAcquire = 1000;
// A sweep reads the whole table: for a large table, at most at this interval.
constexpr std::int64_t kSmallTable = 1000;
constexpr std::int64_t kSweptEveryUs = 1'000'000;
// Inserts between two counts: each node may exceed the limit by this number.
constexpr std::int64_t kInsertedPerCount = 1000;
constexpr std::int64_t kFullForUs = 1'000'000;
// Each retry means that another transaction inserted or removed the row in between.
constexpr int kMaxGrantTries = 5;
constexpr std::int64_t kNever = INT64_MAX;

std::int64_t after(std::int64_t lease_now, Duration length) {
  return (Instant::from_us(lease_now) + length).us();
}

// A row of read_lease and read_leases.
LeaseInfo shown_lease(const Rows& rows, int row) {
  LeaseInfo info{
      .name = rows.string(row, 0), .token = rows.integer(row, 1), .value = rows.string(row, 2)};
  if (rows.integer(row, 3) == 0) return info;
  info.holder = rows.string(row, 4);
  info.expires_in = Duration(rows.integer(row, 5));
  info.since = WallTime::from_us(rows.integer(row, 6));
  return info;
}

}  // namespace

// -- loaded rows --------------------------------------------------------------------------------

void PostgresStore::take_leases(const std::vector<std::string>& names, LeaseLock lock) {
  const bool exclusive = lock == LeaseLock::exclusive;
  std::vector<std::string> wanted;
  for (const std::string& name : names) {
    const auto found = after_.leases.find(name);
    if (found == after_.leases.end() || (exclusive && !found->second.exclusive))
      wanted.push_back(name);
  }
  if (wanted.empty()) return;
  const Rows rows =
      ask(exclusive ? schedule_sql_.lock_leases : schedule_sql_.share_leases, params(wanted));
  for (std::string& name : wanted) after_.leases[std::move(name)] = {.exclusive = exclusive};
  for (int row = 0; row < rows.size(); ++row) {
    LoadedLease& lease = after_.leases[rows.string(row, 0)];
    lease.state = static_cast<LoadedLease::State>(rows.integer(row, 1));
    lease.token = rows.integer(row, 2);
    lease.ttl = rows.integer(row, 3);
    lease.kept = rows.integer(row, 4);
    lease.ends = rows.integer(row, 5);
    lease.since = rows.integer(row, 6);
    lease.holder = rows.string(row, 7);
    lease.value = rows.string(row, 8);
  }
}

LoadedLease& PostgresStore::take_lease(const std::string& name, LeaseLock lock) {
  take_leases({name}, lock);
  return after_.leases[name];
}

// The lease, if this holder holds it; else nullptr.
LoadedLease* PostgresStore::find_held(const std::string& name, const std::string& holder,
                                      Token token) {
  LoadedLease& lease = take_lease(name, LeaseLock::exclusive);
  const bool mine = lease.state == LoadedLease::State::held && lease.token == token &&
                    lease.holder == holder &&
                    (lease.ends > lease_now() || MS_MUTANT(lost_lease_renewed));
  return mine ? &lease : nullptr;
}

std::optional<Error> PostgresStore::fenced(const Fence& fence) {
  if (fence.lease.empty()) return std::nullopt;
  const LoadedLease& lease = take_lease(fence.lease, LeaseLock::shared);
  const bool holds = lease.state == LoadedLease::State::held && lease.token == fence.token &&
                     (lease.ends > lease_now() || MS_MUTANT(fence_ignores_expiry));
  if (holds) return std::nullopt;
  return lost_lease(fence.lease, fence.token);
}

// -- operations -----------------------------------------------------------------------------------

OperationResult PostgresStore::operator()(const AcquireLease& op) {
  for (int tries = 0; tries < kMaxGrantTries; ++tries) {
    LoadedLease& lease = take_lease(op.name, LeaseLock::exclusive);
    if (lease.held(lease_now())) {
      if (lease.holder == op.holder) return extend_lease(op.name, lease, op.ttl);
      const std::int64_t wait_ms = (lease.ends - lease_now()) / 1000 + 1;
      return Error{.code = ErrorCode::lease_held,
                   .message = fmt::format("lease {}: {} holds it for another {} ms", op.name,
                                          lease.holder, wait_ms),
                   .retry_after_ms = static_cast<int>(std::min<std::int64_t>(wait_ms, INT32_MAX))};
    }
    if (lease.state == LoadedLease::State::absent && !make_room_for_lease()) {
      return Error{.code = ErrorCode::overloaded,
                   .message = fmt::format("{} leases are held or have a value: must be at most {}",
                                          leases_counted_, kMaxLeases),
                   .retry_after_ms = 1000};
    }
    if (auto grant = grant_lease(op, lease)) {
      sweep_leases();
      return std::move(*grant);
    }
    after_.leases.erase(op.name);
  }
  return Error{.code = ErrorCode::unavailable,
               .message = fmt::format("lease {}: too many callers request it at once", op.name),
               .retry_after_ms = 100};
}

// nullopt: the row exists now, although it was missing.
std::optional<LeaseGrant> PostgresStore::grant_lease(const AcquireLease& op, LoadedLease& lease) {
  const std::int64_t ends = after(lease_now(), op.ttl);
  const Token before = lease.token;
  const bool is_new = lease.state == LoadedLease::State::absent;
  const Rows rows = ask(is_new ? schedule_sql_.insert_lease : schedule_sql_.grant_lease,
                        params(op.name, op.ttl.count(), ends, wall(), op.holder));
  if (rows.empty()) return std::nullopt;
  wrote();
  lease.state = LoadedLease::State::held;
  lease.token = rows.integer(0, 0);
  if (before != 0 && MS_MUTANT(lease_token_reused)) lease.token = before;
  lease.ttl = lease.kept = op.ttl.count();
  lease.since = wall();
  lease.holder = op.holder;
  end_lease_at(lease, ends);
  after_.freed.erase(op.name);
  return LeaseGrant{.token = lease.token, .ttl = op.ttl, .value = lease.value};
}

OperationResult PostgresStore::operator()(const RenewLease& op) {
  MS_TRY(check_lease_value(op.value));
  LoadedLease* lease = find_held(op.name, op.holder, op.token);
  if (lease == nullptr) return lost_lease(op.name, op.token);
  const Duration ttl = op.ttl > Duration(0) ? op.ttl : Duration(lease->ttl);
  if (!op.value) return extend_lease(op.name, *lease, ttl);
  lease->value = *op.value;
  lease->ttl = ttl.count();
  lease->kept = std::max(lease->kept, ttl.count());
  end_lease_at(*lease, end_of_lease(op.name, ttl));
  save_lease(op.name, *lease);
  return LeaseGrant{.token = lease->token,
                    .ttl = Duration(lease->ends - lease_now()),
                    .value = lease->value,
                    .held = true};
}

OperationResult PostgresStore::operator()(const ReleaseLease& op) {
  MS_TRY(check_lease_value(op.value));
  LoadedLease* lease = find_held(op.name, op.holder, op.token);
  if (lease == nullptr) {
    const LoadedLease& other = after_.leases[op.name];
    const bool again = other.token == op.token && other.state == LoadedLease::State::released;
    if (again) return Done{};
    return lost_lease(op.name, op.token);
  }
  lease->state = LoadedLease::State::released;
  if (op.value) lease->value = *op.value;
  end_lease_at(*lease, lease->value.empty() ? after(lease_now(), Duration(lease->kept)) : kNever);
  save_lease(op.name, *lease);
  after_.freed.insert(op.name);
  leases_full_until_ = 0;
  return Done{};
}

// A length longer than any before is committed durably, for the time when no node is running.
// Shorter renewals may be lost with the server; then every lease starts again.
LeaseGrant PostgresStore::extend_lease(const std::string& name, LoadedLease& lease, Duration ttl) {
  lease.ttl = ttl.count();
  end_lease_at(lease, end_of_lease(name, ttl));
  if (lease.ttl > lease.kept) {
    lease.kept = lease.ttl;
    save_lease(name, lease);
  } else {
    write(schedule_sql_.renew_lease, params(name, lease.ends, lease.ttl), false);
  }
  return {.token = lease.token,
          .ttl = Duration(lease.ends - lease_now()),
          .value = lease.value,
          .held = true};
}

std::int64_t PostgresStore::end_of_lease(const std::string& name, Duration ttl) const {
  const std::int64_t ends = after(lease_now(), ttl);
  return name == kLeadershipLease ? ends : std::max(ends, allowed_until_);
}

void PostgresStore::save_lease(const std::string& name, const LoadedLease& lease) {
  Params all = params(name, static_cast<int>(lease.state), lease.ends, lease.ttl, lease.kept);
  all.text_or_null(lease.value);
  write(schedule_sql_.save_lease, all);
}

void PostgresStore::end_lease_at(LoadedLease& lease, std::int64_t ends) {
  lease.ends = ends;
  first_lease_end_ = std::min(first_lease_end_, ends);
}

// -- expired leases -------------------------------------------------------------------------------

// Invisible to clients. Keeps the table small, and distinguishes leases that were held when the
// last node ended from those that had expired before.
void PostgresStore::sweep_leases() {
  if (first_lease_end_ > lease_now()) return;
  const bool lately = lease_now() - leases_swept_at_ < kSweptEveryUs;
  if (leases_counted_ > kSmallTable && lately) return;
  leases_swept_at_ = lease_now();
  const Rows swept = ask(schedule_sql_.sweep_leases, params(lease_now(), kSweptPerAcquire));
  for (int row = 0; row < swept.size(); ++row) {
    const auto found = after_.leases.find(swept.string(row, 0));
    if (found == after_.leases.end()) continue;
    if (swept.integer(row, 1) != 0) {
      found->second = {.exclusive = true};
    } else {
      found->second.state = LoadedLease::State::expired;
      found->second.ends = kNever;
    }
  }
  if (!swept.empty()) wrote();
  const Rows left = ask(schedule_sql_.measure_leases, params(lease_now()));
  leases_counted_ = left.integer(0, 0);
  first_lease_end_ = swept.size() < kSweptPerAcquire ? left.integer(0, 1) : 0;
}

// If there are too many leases, removes expired and released ones.
bool PostgresStore::make_room_for_lease() {
  if (lease_room_ > 0) {
    --lease_room_;
    return true;
  }
  if (lease_now() < leases_full_until_) return false;
  leases_counted_ = ask(schedule_sql_.measure_leases, params(lease_now())).integer(0, 0);
  if (leases_counted_ >= kMaxLeases) {
    const Rows gone = ask(schedule_sql_.forget_leases, params(lease_now()));
    for (int row = 0; row < gone.size(); ++row) {
      const auto found = after_.leases.find(gone.string(row, 0));
      if (found != after_.leases.end()) found->second = {.exclusive = true};
    }
    if (!gone.empty()) wrote();
    leases_counted_ -= gone.size();
  }
  if (leases_counted_ >= kMaxLeases) {
    leases_full_until_ = lease_now() + kFullForUs;
    return false;
  }
  lease_room_ = std::min(kInsertedPerCount, kMaxLeases - leases_counted_) - 1;
  return true;
}

// -- known ends of leases -------------------------------------------------------------------------

// While no node was running, or after a crash of the server, no holder could renew.
void PostgresStore::reset_leases(std::int64_t at, std::int64_t allowance) {
  tell(schedule_sql_.reset_leases, params(at, allowance));
  first_lease_end_ = 0;
}

void PostgresStore::load_named_leases() {
  const Rows rows = connection_->run(schedule_sql_.held_leases, params(lease_now()));
  MutexLock lock(published_mutex_);
  lease_ends_.clear();
  for (int row = 0; row < rows.size(); ++row)
    lease_ends_.emplace(rows.string(row, 0), rows.integer(row, 1));
}

// Includes leases of other nodes that this batch read: a client that waits here for such a lease
// looks again when it expires, or when the holder's node reports its release.
void PostgresStore::remember_leases() {
  if (after_.leases.empty()) return;
  MutexLock lock(published_mutex_);
  for (const auto& [name, lease] : after_.leases) {
    if (lease.held(lease_now())) {
      lease_ends_[name] = lease.ends;
    } else {
      lease_ends_.erase(name);
    }
  }
}

Instant PostgresStore::lease_free_at(const std::string& name) const {
  MutexLock lock(published_mutex_);
  const auto found = lease_ends_.find(name);
  const bool held = found != lease_ends_.end() && found->second > lease_now();
  return held ? to_instant(found->second) : Instant();
}

// -- reads ----------------------------------------------------------------------------------------

std::optional<std::int64_t> PostgresStore::read_at(Instant now) const {
  if (options_.lease_clock == PostgresOptions::LeaseClock::wall) return std::nullopt;
  return now.us();
}

Result<LeaseInfo> PostgresStore::lease(const std::string& name, Instant now) const {
  MS_TRY_ASSIGN(const Rows rows, with_reader([&](Connection& connection) {
                  return connection.run(schedule_sql_.read_lease, params(name, read_at(now)));
                }));
  if (!rows.empty()) return shown_lease(rows, 0);
  return Error{.code = ErrorCode::not_found,
               .message = fmt::format("lease {}: not held, and has no value", name)};
}

Result<std::vector<LeaseInfo>> PostgresStore::leases(const std::string& after, int limit,
                                                     Instant now) const {
  MS_TRY_ASSIGN(const Rows rows, with_reader([&](Connection& connection) {
                  return connection.run(schedule_sql_.read_leases,
                                        params(after, read_at(now), limit));
                }));
  std::vector<LeaseInfo> found;
  for (int row = 0; row < rows.size(); ++row) found.push_back(shown_lease(rows, row));
  return found;
}

}  // namespace mainspring::pg
