// Shapes of named leases. See shapes.h for the contract of encode_… and decode_…. The broker checks
// names, holders and lengths: see validate() in broker/schedule_plans.h.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/name_page.h"
#include "store/lease_operations.h"

namespace mainspring {

// POST /v1/leases/{name}/acquire: {"holder", "ttl"?: "15s", "wait"?: "10s"}
struct AcquireRequest {
  AcquireLease operation;
  Duration wait{0};  // how long it may park; 0 = answer at once; at most kMaxClaimWait
};
Result<AcquireRequest> decode_acquire_request(std::string name, std::string_view body);
void encode_acquire_request(const AcquireLease& request, Duration wait, std::string& out);

// POST /v1/leases/{name}/renew: {"holder", "token", "ttl"?, "value"?}. Without ttl: as long as
// before. A value of null removes it; without value it stays.
Result<RenewLease> decode_renew_lease_request(std::string name, std::string_view body);
void encode_renew_lease_request(const RenewLease& request, std::string& out);

// {"name", "token", "expires_in_ms", "value"?, "held"?}
void encode_lease_grant(std::string_view name, const LeaseGrant& grant, std::string& out);
Result<LeaseGrant> decode_lease_grant(std::string_view body);

// POST /v1/leases/{name}/release: {"holder", "token", "value"?}
Result<ReleaseLease> decode_release_request(std::string name, std::string_view body);
void encode_release_request(const ReleaseLease& request, std::string& out);
// {"name", "released": true}
void encode_released(std::string_view name, std::string& out);

// {"name", "holder", "token", "expires_in_ms", "since"?, "value"?}; holder "" = free.
void encode_lease(const LeaseInfo& lease, std::string& out);
Result<LeaseInfo> decode_lease(std::string_view body);
// {"leases": […], "next": name | null}: the last name if there may be `more`.
void encode_leases(std::span<const LeaseInfo> leases, bool more, std::string& out);
Result<NamePage<LeaseInfo>> decode_leases(std::string_view body);

}  // namespace mainspring
