// Breakers in and out of JSON.
#include "api/breaker_shapes.h"

#include <climits>

#include "api/fields.h"
#include "api/json.h"

namespace mainspring {
namespace {

template <auto Member>
bool as_number(JsonReader& in, BreakerSettings& s) {
  return in.integer(s.*Member, INT_MIN, INT_MAX);
}
constexpr JsonField<BreakerSettings> kSettings[] = {
    {"failures", &as_number<&BreakerSettings::failures>},
    {"within", &as_duration<&BreakerSettings::within>},
    {"open_for", &as_duration<&BreakerSettings::open_for>},
    {"max_open_for", &as_duration<&BreakerSettings::max_open_for>},
    {"probes", &as_number<&BreakerSettings::probes>},
};
constexpr JsonField<OpenBreaker> kOpen[] = {
    {"for", [](JsonReader& in, OpenBreaker& o) { return in.null() || in.duration(o.open_for); }},
};

bool read_breaker_state(JsonReader& in, BreakerInfo& info) {
  std::string text;
  if (!in.string(text)) return false;
  const auto state = parse_breaker_state(text);
  if (!state) return in.fail_here("must be closed, open or half_open");
  info.state = *state;
  return true;
}
constexpr JsonField<BreakerInfo> kBreakerInfo[] = {
    {"name", &as_string<&BreakerInfo::name>},
    {"settings",
     [](JsonReader& in, BreakerInfo& info) { return in.object(kSettings, info.settings); }},
    {"state", &read_breaker_state},
    {"open_until", &as_optional_time<&BreakerInfo::open_until>},
    {"failures", &as_integer<&BreakerInfo::failures, 0, INT_MAX>},
    {"room", &as_integer<&BreakerInfo::room, 0, INT_MAX>},
    {"probes", &as_integer<&BreakerInfo::probes, 0, INT_MAX>},
    {"opened", &as_count<&BreakerInfo::opened>},
    {"queues",
     [](JsonReader& in, BreakerInfo& info) {
       return read_strings(in, info.queues, kMaxResponseEntries);
     }},
};
constexpr JsonField<std::vector<BreakerInfo>> kBreakerList[] = {
    {"breakers",
     [](JsonReader& in, std::vector<BreakerInfo>& list) {
       return in.array(kMaxResponseEntries,
                       [&](std::size_t) { return in.object(kBreakerInfo, list.emplace_back()); });
     }},
};

void write_settings(JsonWriter& w, const BreakerSettings& s) {
  w.begin_object().key("failures").number(s.failures).key("within").duration(s.within);
  w.key("open_for").duration(s.open_for).key("max_open_for").duration(s.max_open_for);
  w.key("probes").number(s.probes).end_object();
}

void write_breaker(JsonWriter& w, const BreakerInfo& info) {
  w.begin_object().key("name").string(info.name);
  write_settings(w.key("settings"), info.settings);
  w.key("state").string(to_string(info.state));
  if (info.open_until) w.key("open_until").time(*info.open_until);
  if (info.state == BreakerState::closed) w.key("failures").number(info.failures);
  if (info.state == BreakerState::half_open)
    w.key("room").number(info.room).key("probes").number(info.probes);
  w.key("opened").number(info.opened).key("queues").begin_array();
  for (const std::string& queue : info.queues) w.string(queue);
  w.end_array().end_object();
}

}  // namespace

std::string breaker_settings_text(const BreakerSettings& settings) {
  std::string out;
  JsonWriter w(out);
  write_settings(w, settings);
  return out;
}

Result<BreakerSettings> parse_breaker_settings(std::string_view text) {
  return decode_response(text, kSettings);
}

Result<PutBreaker> decode_put_breaker_request(std::string name, std::string_view body) {
  PutBreaker request{.name = std::move(name), .settings = {}};
  if (!body.empty()) {
    MS_TRY_ASSIGN(request.settings, decode_request(body, kSettings));
  }
  MS_TRY(validate(request.settings));
  return request;
}

void encode_put_breaker_request(const PutBreaker& request, std::string& out) {
  JsonWriter w(out);
  write_settings(w, request.settings);
}

Result<OpenBreaker> decode_open_breaker_request(std::string name, std::string_view body) {
  OpenBreaker request{.name = std::move(name)};
  if (body.empty()) return request;
  request.open_for = Duration(-1);
  MS_TRY_ASSIGN(request, decode_request(body, kOpen, std::move(request)));
  if (request.open_for == Duration(-1)) {
    request.open_for = Duration(0);
    return request;
  }
  MS_TRY(check_open_for("for", request.open_for));
  return request;
}

void encode_open_breaker_request(const OpenBreaker& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  if (request.open_for != Duration(0)) w.key("for").duration(request.open_for);
  w.end_object();
}

void encode_breaker(const BreakerInfo& info, std::string& out) {
  JsonWriter w(out);
  write_breaker(w, info);
}

Result<BreakerInfo> decode_breaker(std::string_view body) {
  return decode_response(body, kBreakerInfo);
}

void encode_breakers(std::span<const BreakerInfo> breakers, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("breakers").begin_array();
  for (const BreakerInfo& info : breakers) write_breaker(w, info);
  w.end_array().end_object();
}

Result<std::vector<BreakerInfo>> decode_breakers(std::string_view body) {
  return decode_response(body, kBreakerList);
}

void encode_breaker_removed(std::string_view name, std::string& out) {
  JsonWriter(out).begin_object().key("name").string(name).key("removed").boolean(true).end_object();
}

std::vector<std::string_view> breaker_request_fields(std::string_view schema) {
  if (schema == "BreakerSettings") return field_names(kSettings);
  if (schema == "OpenBreakerRequest") return field_names(kOpen);
  return {};
}

}  // namespace mainspring
