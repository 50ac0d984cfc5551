// The plans of named leases.
#include "api/lease_shapes.h"
#include "broker/schedule_plans.h"
#include "http/plans.h"

namespace mainspring::http {
namespace {

Result<AcquireRequest> acquire_of(const Request& request) {
  MS_TRY_ASSIGN(AcquireRequest acquire, decode_acquire_request(request.param, request.body));
  MS_TRY(validate(acquire.operation));
  return acquire;
}

Result<RenewLease> renewal_of(const Request& request) {
  MS_TRY_ASSIGN(RenewLease renew, decode_renew_lease_request(request.param, request.body));
  MS_TRY(validate(renew));
  return renew;
}

Result<ReleaseLease> release_of(const Request& request) {
  MS_TRY_ASSIGN(ReleaseLease release, decode_release_request(request.param, request.body));
  MS_TRY(validate(release));
  return release;
}

}  // namespace

Plan plan_acquire_lease(const Request& request, Services&) {
  auto acquire = acquire_of(request);
  if (!acquire) return error_reply(acquire.error());
  return DoAcquire{std::move(*acquire)};
}

Plan plan_renew_lease(const Request& request, Services&) {
  auto renew = renewal_of(request);
  if (!renew) return error_reply(renew.error());
  return DoWrite{std::move(*renew),
                 [name = request.param](OperationResult& result) -> DoWrite::Answer {
                   Reply reply;
                   encode_lease_grant(name, std::get<LeaseGrant>(result), reply.body);
                   return reply;
                 }};
}

Plan plan_release_lease(const Request& request, Services&) {
  auto release = release_of(request);
  if (!release) return error_reply(release.error());
  return DoWrite{std::move(*release), [name = request.param](OperationResult&) -> DoWrite::Answer {
                   Reply reply;
                   encode_released(name, reply.body);
                   return reply;
                 }};
}

Plan plan_get_lease(const Request& request, Services& services) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  return DoRead{[&services, name = request.param] {
    auto lease = services.store.lease(name, services.clock.now().instant);
    if (!lease) return error_reply(lease.error());
    Reply reply;
    encode_lease(*lease, reply.body);
    return reply;
  }};
}

Plan plan_list_leases(const Request& request, Services& services) {
  const auto limit = parse_limit(request);
  if (!limit) return error_reply(limit.error());
  const auto* after = query_value(request, "after");
  return DoRead{[&services, limit = *limit, after = after == nullptr ? std::string() : *after,
                 caller = request.caller] {
    const Instant now = services.clock.now().instant;
    auto leases = read_shown<LeaseInfo>(
        after, limit,
        [&](const std::string& from, int most) { return services.store.leases(from, most, now); },
        [&](const LeaseInfo& lease) { return caller->may(Verb::lease, lease.name); },
        [](const LeaseInfo& lease) { return lease.name; },
        [](const LeaseInfo& lease) { return lease.value.size(); });
    if (!leases) return error_reply(leases.error());
    Reply reply;
    encode_leases(leases->items, leases->more, reply.body);
    return reply;
  }};
}

}  // namespace mainspring::http
