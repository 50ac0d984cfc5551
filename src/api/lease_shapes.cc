// The shapes of named leases.
#include "api/lease_shapes.h"

#include <fmt/format.h>

#include "api/fields.h"

namespace mainspring {
namespace {

bool read_lease_wait(JsonReader& in, Duration& wait) {
  if (in.null()) return true;
  if (!in.duration(wait)) return false;
  return wait <= kMaxClaimWait ||
         in.fail_value(fmt::format("must be at most {}", format_duration(kMaxClaimWait)));
}

// null removes the value.
bool read_value(JsonReader& in, std::optional<std::string>& value) {
  if (in.null()) {
    value.emplace();
    return true;
  }
  return in.raw(value.emplace());
}

constexpr JsonField<AcquireRequest> kAcquire[] = {
    {"holder", [](JsonReader& in, AcquireRequest& r) { return in.string(r.operation.holder); }},
    {"ttl",
     [](JsonReader& in, AcquireRequest& r) { return in.null() || in.duration(r.operation.ttl); }},
    {"wait", [](JsonReader& in, AcquireRequest& r) { return read_lease_wait(in, r.wait); }},
};
constexpr JsonField<RenewLease> kRenewLease[] = {
    {"holder", &as_string<&RenewLease::holder>},
    {"token", &as_id<&RenewLease::token>},
    {"ttl", [](JsonReader& in, RenewLease& r) { return in.null() || in.duration(r.ttl); }},
    {"value", [](JsonReader& in, RenewLease& r) { return read_value(in, r.value); }},
};
constexpr JsonField<ReleaseLease> kReleaseLease[] = {
    {"holder", &as_string<&ReleaseLease::holder>},
    {"token", &as_id<&ReleaseLease::token>},
    {"value", [](JsonReader& in, ReleaseLease& r) { return read_value(in, r.value); }},
};
constexpr JsonField<LeaseGrant> kLeaseGrant[] = {
    {"token", &as_id<&LeaseGrant::token>},
    {"expires_in_ms", &as_milliseconds<&LeaseGrant::ttl>},
    {"value", &as_optional_raw<&LeaseGrant::value>},
    {"held", &as_boolean<&LeaseGrant::held>},
};
constexpr JsonField<LeaseInfo> kLeaseInfo[] = {
    {"name", &as_string<&LeaseInfo::name>},
    {"holder", &as_string<&LeaseInfo::holder>},
    {"token", &as_count<&LeaseInfo::token>},
    {"expires_in_ms", &as_milliseconds<&LeaseInfo::expires_in>},
    {"since", &as_optional_time<&LeaseInfo::since>},
    {"value", &as_optional_raw<&LeaseInfo::value>},
};
constexpr JsonField<NamePage<LeaseInfo>> kLeases[] = {
    {"leases",
     [](JsonReader& in, NamePage<LeaseInfo>& page) {
       return in.array(kMaxResponseEntries, [&](std::size_t) {
         return in.object(kLeaseInfo, page.items.emplace_back());
       });
     }},
    {"next", &as_optional_string<&NamePage<LeaseInfo>::next>},
};

Error missing_in_lease(std::string_view field) {
  return invalid(std::string(field), fmt::format("{} must be given", field));
}
// Common to renew and release.
template <class T, std::size_t N>
Result<T> decode_holding(std::string name, std::string_view body, const JsonField<T> (&fields)[N]) {
  MS_TRY_ASSIGN(T request, decode_request(body, fields));
  if (request.holder.empty()) return missing_in_lease("holder");
  if (request.token == 0) return missing_in_lease("token");
  request.name = std::move(name);
  return request;
}

void write_value(JsonWriter& w, const std::optional<std::string>& value) {
  if (!value) return;
  w.key("value");
  value->empty() ? w.null() : w.raw(*value);
}

void write_lease(JsonWriter& w, const LeaseInfo& lease) {
  w.begin_object().key("name").string(lease.name).key("holder").string(lease.holder);
  w.key("token").number(lease.token).key("expires_in_ms").milliseconds(lease.expires_in);
  if (lease.since) w.key("since").time(*lease.since);
  if (!lease.value.empty()) w.key("value").raw(lease.value);
  w.end_object();
}

}  // namespace

Result<AcquireRequest> decode_acquire_request(std::string name, std::string_view body) {
  MS_TRY_ASSIGN(AcquireRequest request, decode_request(body, kAcquire));
  if (request.operation.holder.empty()) return missing_in_lease("holder");
  request.operation.name = std::move(name);
  return request;
}

void encode_acquire_request(const AcquireLease& request, Duration wait, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("holder").string(request.holder).key("ttl").duration(request.ttl);
  if (wait.count() != 0) w.key("wait").duration(wait);
  w.end_object();
}

Result<RenewLease> decode_renew_lease_request(std::string name, std::string_view body) {
  return decode_holding(std::move(name), body, kRenewLease);
}

void encode_renew_lease_request(const RenewLease& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("holder").string(request.holder).key("token").number(request.token);
  if (request.ttl.count() != 0) w.key("ttl").duration(request.ttl);
  write_value(w, request.value);
  w.end_object();
}

void encode_lease_grant(std::string_view name, const LeaseGrant& grant, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("name").string(name).key("token").number(grant.token);
  w.key("expires_in_ms").milliseconds(grant.ttl);
  if (!grant.value.empty()) w.key("value").raw(grant.value);
  if (grant.held) w.key("held").boolean(true);
  w.end_object();
}

Result<LeaseGrant> decode_lease_grant(std::string_view body) {
  MS_TRY_ASSIGN(LeaseGrant grant, decode_response(body, kLeaseGrant));
  if (grant.token == 0) return bad_response(missing_in_lease("token"));
  return grant;
}

Result<ReleaseLease> decode_release_request(std::string name, std::string_view body) {
  return decode_holding(std::move(name), body, kReleaseLease);
}

void encode_release_request(const ReleaseLease& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("holder").string(request.holder).key("token").number(request.token);
  write_value(w, request.value);
  w.end_object();
}

void encode_released(std::string_view name, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("name").string(name).key("released").boolean(true).end_object();
}

void encode_lease(const LeaseInfo& lease, std::string& out) {
  JsonWriter w(out);
  write_lease(w, lease);
}

Result<LeaseInfo> decode_lease(std::string_view body) {
  MS_TRY_ASSIGN(LeaseInfo lease, decode_response(body, kLeaseInfo));
  if (lease.name.empty()) return bad_response(missing_in_lease("name"));
  return lease;
}

void encode_leases(std::span<const LeaseInfo> leases, bool more, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("leases").begin_array();
  for (const LeaseInfo& lease : leases) write_lease(w, lease);
  w.end_array().key("next");
  more ? w.string(leases.back().name) : w.null();
  w.end_object();
}

Result<NamePage<LeaseInfo>> decode_leases(std::string_view body) {
  return decode_response(body, kLeases);
}

std::vector<std::string_view> lease_request_fields(std::string_view schema) {
  if (schema == "AcquireLeaseRequest") return field_names(kAcquire);
  if (schema == "RenewLeaseRequest") return field_names(kRenewLease);
  if (schema == "ReleaseLeaseRequest") return field_names(kReleaseLease);
  return {};
}

}  // namespace mainspring
