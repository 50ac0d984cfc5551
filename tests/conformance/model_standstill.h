// The effects of ExtendLeases and AllowRestart on the leases of the model store.
#pragma once

#include <algorithm>
#include <string>

#include "conformance/model_state.h"

namespace mainspring {

template <class T>
concept StandstillOperation = std::is_same_v<T, ExtendLeases> || std::is_same_v<T, AllowRestart>;

inline Instant lease_limit(const Record& r) {
  return r.claimed + r.job.timeout + kTimeoutGrace;
}

inline Duration longest_lease(const Record& r) {
  return std::max(r.lease, r.kept);
}

// Whether the lease is longer than any before.
inline bool renew_lease(Record& r, Duration length, Instant allowed_until, Instant now) {
  r.lease_expiry =
      std::min(std::max(now + length, allowed_until), std::max(lease_limit(r), r.lease_expiry));
  const Duration told = std::max(length, r.lease_expiry - now), before = longest_lease(r);
  r.lease = std::max(r.lease, length);
  r.kept = std::max(before, told);
  return told > before;
}

inline void reset_jobs(ModelDisk& disk, Instant now) {  // at open
  disk.allowed_until = Instant();
  disk.allowance_over = now + disk.allowance;
  for (auto& [id, r] : disk.jobs) {
    if (r.job.state != JobState::running) continue;
    r.kept = longest_lease(r);
    r.lease_expiry = now + r.kept;
    r.claimed = now;
  }
}

inline void forget_allowance(ModelDisk& disk, Instant now) {
  if (disk.allowance_over <= now) disk.allowance = Duration(0);
}

struct StandstillAnswer {
  OperationResult result;
  bool wrote = false;
};

// Calls `end(name, instant, length)` for each granted lease; "" = a lease without a name.
template <class End>
void for_each_model_lease(ModelDisk& disk, End end) {
  for (auto& [id, r] : disk.jobs) {
    if (r.job.state == JobState::running) end("", r.lease_expiry, longest_lease(r));
  }
  for (auto& [key, session] : disk.sessions) {
    if (session.token != 0) end("", session.ends, session.kept);
  }
  for (auto& [name, lease] : disk.leases) {
    if (!lease.released && !lease.expired) end(name, lease.ends, lease.kept);
  }
}

inline StandstillAnswer run_model(const ExtendLeases& op, ModelDisk& disk, Now now) {
  for_each_model_lease(disk, [&](const std::string&, Instant& end, Duration length) {
    if (end <= now.instant - op.gap) return;
    end = std::max(end, std::min(end + op.gap, now.instant + length));
  });
  return {Done{}};
}

inline StandstillAnswer run_model(const AllowRestart& op, ModelDisk& disk, Now now) {
  disk.allowance = op.allowance;
  disk.allowed_until = disk.allowance_over = now.instant + op.allowance;
  std::map<const Instant*, Instant> limits;
  for (auto& [id, r] : disk.jobs) limits.emplace(&r.lease_expiry, lease_limit(r));
  for_each_model_lease(disk, [&](const std::string& name, Instant& end, Duration) {
    if (end <= now.instant || name == kLeadershipLease) return;
    const auto limit = limits.find(&end);
    const Instant until =
        limit == limits.end() ? disk.allowed_until : std::min(disk.allowed_until, limit->second);
    end = std::max(end, until);
  });
  return {Done{}, true};
}

}  // namespace mainspring
