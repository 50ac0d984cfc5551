// Leases of the model: each answer comes from the record.
#include "conformance/model_leases.h"

#include <algorithm>

namespace mainspring {
namespace {

bool is_held(const LeaseRecord& lease, Instant now) {
  return !lease.released && !lease.expired && lease.ends > now;
}

Error too_large() {
  return {.code = ErrorCode::too_large, .message = "the value is too large"};
}

bool fits(const std::optional<std::string>& value) {
  return !value || value->size() <= kMaxLeaseValueBytes;
}

LeaseInfo lease_info(const std::string& name, const LeaseRecord& lease, Instant now) {
  LeaseInfo info{.name = name, .token = lease.token, .value = lease.value};
  if (is_held(lease, now)) {
    info.holder = lease.holder;
    info.expires_in = lease.ends - now;
    info.since = lease.since;
  }
  return info;
}

}  // namespace

LeaseRecord* ModelLeases::held(const std::string& name, const std::string& holder, Token token,
                               Instant now) {
  const auto found = disk_.leases.find(name);
  if (found == disk_.leases.end()) return nullptr;
  LeaseRecord& lease = found->second;
  return is_held(lease, now) && lease.holder == holder && lease.token == token ? &lease : nullptr;
}

bool ModelLeases::holds(const Fence& fence, Instant now) const {
  if (fence.lease.empty()) return true;
  const auto found = disk_.leases.find(fence.lease);
  return found != disk_.leases.end() && is_held(found->second, now) &&
         found->second.token == fence.token;
}

// True if it is longer than the stored length.
bool ModelLeases::extend(const std::string& name, LeaseRecord& lease, Duration ttl, Instant now) {
  const bool longer = ttl > lease.kept;
  end_at(lease, name == kLeadershipLease ? now + ttl : std::max(now + ttl, disk_.allowed_until));
  lease.ttl = ttl;
  lease.kept = std::max(lease.kept, ttl);
  return longer;
}

void ModelLeases::end_at(LeaseRecord& lease, Instant ends) {
  lease.ends = ends;
  first_end_ = std::min(first_end_, ends);
}

void ModelLeases::sweep(Instant now) {
  if (now < first_end_) return;  // 100,000 leases are a case of the suite
  std::erase_if(disk_.leases, [&](const auto& entry) {
    return entry.second.value.empty() && entry.second.ends <= now;
  });
  first_end_ = Instant::never();
  for (auto& [name, lease] : disk_.leases) {
    if (!lease.released && lease.ends <= now) lease.expired = true;
    if (lease.ends > now) first_end_ = std::min(first_end_, lease.ends);
  }
}

ModelLeases::Answer ModelLeases::run(const AcquireLease& op, Now now) {
  const auto found = disk_.leases.find(op.name);
  const bool taken = found != disk_.leases.end() && is_held(found->second, now.instant);
  if (taken && found->second.holder != op.holder) {
    const auto wait = (found->second.ends - now.instant).count() / 1000 + 1;
    return {Error{.code = ErrorCode::lease_held,
                  .message = found->second.holder + " has it",
                  .retry_after_ms = static_cast<int>(wait)}};
  }
  if (taken) {
    LeaseRecord& lease = found->second;
    const bool wrote = extend(op.name, lease, op.ttl, now.instant);
    return {LeaseGrant{.token = lease.token,
                       .ttl = lease.ends - now.instant,
                       .value = lease.value,
                       .held = true},
            wrote};
  }
  const auto seen = [&](const auto& entry) {
    return is_held(entry.second, now.instant) || !entry.second.value.empty();
  };
  if (found == disk_.leases.end() && disk_.leases.size() >= std::size_t{kMaxLeases} &&
      std::count_if(disk_.leases.begin(), disk_.leases.end(), seen) >= kMaxLeases)
    return {Error{.code = ErrorCode::overloaded, .message = "too many leases"}};
  LeaseRecord& lease = disk_.leases[op.name];
  lease = LeaseRecord{.holder = op.holder,
                      .token = ++disk_.last_token,
                      .ttl = op.ttl,
                      .kept = op.ttl,
                      .ends = now.instant + op.ttl,
                      .since = now.wall,
                      .value = lease.value};
  end_at(lease, lease.ends);
  LeaseGrant grant{.token = lease.token, .ttl = op.ttl, .value = lease.value};
  sweep(now.instant);
  return {std::move(grant), true};
}

ModelLeases::Answer ModelLeases::run(const RenewLease& op, Now now) {
  if (!fits(op.value)) return {too_large()};
  LeaseRecord* lease = held(op.name, op.holder, op.token, now.instant);
  if (lease == nullptr) return {lost()};
  const Duration ttl = op.ttl > Duration(0) ? op.ttl : lease->ttl;
  const bool longer = extend(op.name, *lease, ttl, now.instant);
  if (op.value) lease->value = *op.value;
  return {LeaseGrant{.token = lease->token,
                     .ttl = lease->ends - now.instant,
                     .value = lease->value,
                     .held = true},
          longer || op.value.has_value()};
}

ModelLeases::Answer ModelLeases::run(const ReleaseLease& op, Now now) {
  if (!fits(op.value)) return {too_large()};
  LeaseRecord* lease = held(op.name, op.holder, op.token, now.instant);
  if (lease == nullptr) {
    const auto found = disk_.leases.find(op.name);
    if (found != disk_.leases.end() && found->second.released && found->second.token == op.token)
      return {Done{}};
    return {lost()};
  }
  lease->released = true;
  if (op.value) lease->value = *op.value;
  end_at(*lease, now.instant + lease->kept);
  released_.insert(op.name);
  return {Done{}, true};
}

void ModelLeases::start_over(Instant now, ModelOpening how) {
  if (how == ModelOpening::process) disk_.leases.erase(std::string(kLeadershipLease));
  for (auto& [name, lease] : disk_.leases) {
    lease.ttl = lease.kept;
    end_at(lease, now + std::max(lease.kept, disk_.allowance));
  }
}

std::vector<std::string> ModelLeases::take_released(Instant now) {
  std::vector<std::string> names;
  for (const std::string& name : released_) {
    if (free_at(name, now) <= now) names.push_back(name);
  }
  released_.clear();
  return names;
}

Instant ModelLeases::free_at(const std::string& name, Instant now) const {
  const auto found = disk_.leases.find(name);
  return found != disk_.leases.end() && is_held(found->second, now) ? found->second.ends
                                                                    : Instant();
}

Result<LeaseInfo> ModelLeases::read(const std::string& name, Instant now) const {
  const auto found = disk_.leases.find(name);
  if (found == disk_.leases.end() || (!is_held(found->second, now) && found->second.value.empty()))
    return Error{.code = ErrorCode::not_found, .message = "no such lease"};
  return lease_info(name, found->second, now);
}

std::vector<LeaseInfo> ModelLeases::list(const std::string& after, int limit, Instant now) const {
  std::vector<LeaseInfo> all;
  for (const auto& [name, lease] : disk_.leases) {
    if (name <= after || static_cast<int>(all.size()) == limit) continue;
    if (is_held(lease, now) || !lease.value.empty()) all.push_back(lease_info(name, lease, now));
  }
  return all;
}

}  // namespace mainspring
