// Periods in which the server could not accept renewals: it was suspended, or is about to restart.
//
// A stopped process, a suspended machine, a disk that does not answer and an unreachable database
// look the same here: the time between two steps that reached the store is longer than the commit
// loop meant to sleep. No worker could renew in that time, so no lease may end because of it. Gaps
// are measured on the steady clock, never on the wall clock.
#include <algorithm>

#include "base/mutant.h"
#include "broker/broker.h"
#include "model/callback.h"
#include "model/session.h"

namespace mainspring {
namespace {

// How often the commit loop steps while leases are held.
constexpr Duration kTick = std::chrono::seconds(1);
// A renewal that is later than this is not awaited: its worker is gone.
constexpr Duration kLateRenewal = std::chrono::seconds(1);
// Pause between two checks of awaited workers.
constexpr Duration kRenewalsLook = std::chrono::milliseconds(200);

}  // namespace

Instant Broker::next_tick(Now now) const {
  const bool ticks =
      options_.standstill != kForever && store_.agenda().next_lease_expiry != Instant::never();
  return ticks ? now.instant + kTick : Instant::never();
}

std::optional<Error> Broker::end_standstill(bool commits, Now now) {
  if (options_.standstill == kForever) return std::nullopt;
  const bool away = shared_ != nullptr && shared_->away();
  if (stepped_at_ == Instant::never()) stepped_at_ = now.instant;
  const Duration gap = now.instant - stepped_at_;
  const bool held = store_.agenda().next_lease_expiry != Instant::never();
  if (gap <= options_.standstill || !held) {
    if (!commits && !away) stepped_at_ = std::max(stepped_at_, now.instant);
    return std::nullopt;
  }
  if (!commits && away) return std::nullopt;  // with the next batch, or once it is reachable
  const Operation extend = ExtendLeases{.gap = gap};
  auto report = store_.apply({&extend, 1}, now);
  if (!report) return report.error();
  standstills_total_.add(1);
  log_.warn("the server was suspended or could not reach its store: leases are extended",
            {{"for", format_duration(std::chrono::round<std::chrono::seconds>(gap))}});
  // The time of the extension itself is not another standstill.
  stepped_at_ = clock_.now().instant;
  return std::nullopt;
}

Result<void> Broker::allow_restart(Duration allowance) {
  const Operation allow = AllowRestart{.allowance = allowance};
  MutexLock step_lock(step_mutex_);
  const Now now = clock_.now();
  auto report = store_.apply({&allow, 1}, now);
  if (!report) return report.error();
  MutexLock lock(mutex_);
  allowed_at_ = now.instant;
  return {};
}

// When the last worker that runs jobs is expected to renew; Instant() = no renewal is expected.
Instant Broker::renewals_due() const {
  Instant due;
  for (const auto& [name, worker] : workers_) {
    const bool own = !worker.queues.empty() && worker.queues.front().starts_with(kReservedQueues);
    if (own || worker.running == 0 || worker.renewed >= allowed_at_) continue;
    due = std::max(due, worker.renewed + worker.lease / 3 + kLateRenewal);
  }
  return due;
}

void Broker::wait_for_renewals(Instant until) {
  MutexLock lock(mutex_);
  for (;;) {
    const Instant now = clock_.now().instant;
    if (failed_ || std::min(renewals_due(), until) <= now) return;
    renewed_.wait_for(mutex_, kRenewalsLook);
  }
}

std::size_t Broker::end_claims(const std::string& worker, const Within& within) {
  const auto ends = [&](const Claim& claim) {
    return claim.worker == worker &&
           std::all_of(claim.queues.begin(), claim.queues.end(), [&](const std::string& line) {
             return within.has(std::string(base_queue_of(line)));
           });
  };
  MutexLock lock(mutex_);
  const std::size_t before = abandoned_.size();
  for (const auto& [id, parked] : parked_) {
    if (ends(parked->claim)) abandoned_.push_back(id);
  }
  for (const Pending& pending : claims_) {
    if (ends(std::get<Claim>(pending.operation))) abandoned_.push_back(pending.park_id);
  }
  if (loop_waiting_) work_.notify_one();
  return abandoned_.size() - before;
}

}  // namespace mainspring
