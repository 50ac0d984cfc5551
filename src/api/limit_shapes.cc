// Limits in and out of JSON.
#include "api/limit_shapes.h"

#include <climits>

#include "api/fields.h"
#include "api/shapes.h"

namespace mainspring {
namespace {

bool read_kind(JsonReader& in, RateLimit& rate) {
  std::string text;
  if (!in.string(text)) return false;
  const auto kind = parse_rate_kind(text);
  if (!kind) return in.fail_value("must be bucket, sliding or fixed");
  rate.kind = *kind;
  return true;
}
constexpr JsonField<RateLimit> kRate[] = {
    {"count", &as_integer<&RateLimit::count, INT_MIN, INT_MAX>},
    {"per", &as_duration<&RateLimit::per>},
    {"kind", &read_kind},
    {"burst", [](JsonReader& in,
                 RateLimit& r) { return in.null() || in.integer(r.burst, INT_MIN, INT_MAX); }},
};
// `count` and `per` have no default.
bool read_rate(JsonReader& in, RateLimit& rate) {
  rate.count = INT_MIN;
  rate.per = Duration::min();
  if (!in.object(kRate, rate)) return false;
  if (rate.count == INT_MIN) return in.missing("count");
  return rate.per != Duration::min() || in.missing("per");
}
bool read_weights(JsonReader& in, KeyLimits& limits) {
  return in.null() || in.members([&](std::string_view key) {
    double& weight = limits.weights[std::string(key)];
    return in.number(weight, kMinWeight, kMaxWeight);
  });
}
constexpr JsonField<KeyLimits> kPerKey[] = {
    {"concurrency",
     [](JsonReader& in, KeyLimits& l) {
       return in.null() || in.integer(l.concurrency.emplace(), INT_MIN, INT_MAX);
     }},
    {"rate",
     [](JsonReader& in, KeyLimits& l) { return in.null() || read_rate(in, l.rate.emplace()); }},
    {"fair", [](JsonReader& in, KeyLimits& l) { return in.null() || in.boolean(l.fair); }},
    {"weights", &read_weights},
};
bool read_costs(JsonReader& in, QueueLimits& limits) {
  return in.null() || in.members([&](std::string_view kind) {
    return in.integer(limits.costs[std::string(kind)], 1, kMaxCost);
  });
}
bool read_searchable(JsonReader& in, QueueLimits& limits) {
  return in.null() || in.array(kMaxSearchable, [&](std::size_t) {
    return in.string(limits.searchable.emplace_back());
  });
}
constexpr JsonField<QueueLimits> kLimits[] = {
    {"concurrency",
     [](JsonReader& in, QueueLimits& l) {
       return in.null() || in.integer(l.concurrency.emplace(), INT_MIN, INT_MAX);
     }},
    {"rate",
     [](JsonReader& in, QueueLimits& l) { return in.null() || read_rate(in, l.rate.emplace()); }},
    {"per_key",
     [](JsonReader& in, QueueLimits& l) { return in.null() || in.object(kPerKey, l.per_key); }},
    {"ageing",
     [](JsonReader& in, QueueLimits& l) { return in.null() || in.duration(l.ageing.emplace()); }},
    {"quarantine_after",
     [](JsonReader& in, QueueLimits& l) {
       return in.null() || in.integer(l.quarantine_after.emplace(), INT_MIN, INT_MAX);
     }},
    {"breaker", [](JsonReader& in, QueueLimits& l) { return in.null() || in.string(l.breaker); }},
    {"costs", &read_costs},
    {"searchable", &read_searchable},
};

void write_rate(JsonWriter& w, const RateLimit& rate) {
  w.begin_object().key("count").number(rate.count).key("per").duration(rate.per);
  w.key("kind").string(to_string(rate.kind));
  if (rate.burst != 0) w.key("burst").number(rate.burst);
  w.end_object();
}

// Omits unset values. The concurrency comes first: the checks of the PostgreSQL store look for it.
void write_key_limits(JsonWriter& w, const KeyLimits& limits) {
  w.begin_object();
  if (limits.concurrency) w.key("concurrency").number(*limits.concurrency);
  if (limits.rate) write_rate(w.key("rate"), *limits.rate);
  if (limits.fair) w.key("fair").boolean(true);
  if (!limits.weights.empty()) {
    w.key("weights").begin_object();
    for (const auto& [key, weight] : limits.weights) {
      std::string name;
      append_json_string(name, key);
      w.key(std::string_view(name).substr(1, name.size() - 2)).real(weight);  // as key() quotes it
    }
    w.end_object();
  }
  w.end_object();
}
}  // namespace

void write_limits(JsonWriter& w, const QueueLimits& limits) {
  w.begin_object().key("concurrency");
  limits.concurrency ? w.number(*limits.concurrency) : w.null();
  w.key("rate");
  limits.rate ? write_rate(w, *limits.rate) : void(w.null());
  if (limits.per_key.any()) write_key_limits(w.key("per_key"), limits.per_key);
  if (limits.ageing) w.key("ageing").duration(*limits.ageing);
  if (!limits.breaker.empty()) w.key("breaker").string(limits.breaker);
  if (limits.quarantine_after) w.key("quarantine_after").number(*limits.quarantine_after);
  if (!limits.costs.empty()) {  // names of kinds need no quotes beyond these
    w.key("costs").begin_object();
    for (const auto& [kind, cost] : limits.costs) w.key(kind).number(cost);
    w.end_object();
  }
  if (!limits.searchable.empty()) {
    w.key("searchable").begin_array();
    for (const std::string& path : limits.searchable) w.string(path);
    w.end_array();
  }
  w.end_object();
}

bool read_limits(JsonReader& in, QueueLimits& limits) {
  return in.null() || in.object(kLimits, limits);
}

std::string limits_text(const QueueLimits& limits) {
  std::string out;
  if (limits.is_default()) return out;
  JsonWriter w(out);
  write_limits(w, limits);
  return out;
}

Result<QueueLimits> parse_limits(std::string_view text) {
  if (text.empty()) return QueueLimits{};
  return decode_response(text, kLimits);
}

Result<SetQueueLimits> decode_limits_request(std::string queue, std::string_view body) {
  MS_TRY_ASSIGN(QueueLimits limits, decode_request(body, kLimits));
  MS_TRY(validate(limits));
  return SetQueueLimits{std::move(queue), without_default_costs(std::move(limits))};
}

void encode_limits_request(const SetQueueLimits& request, std::string& out) {
  JsonWriter w(out);
  write_limits(w, request.limits);
}

void encode_limits_response(const SetQueueLimits& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("name").string(request.queue);
  write_limits(w.key("limits"), request.limits);
  w.end_object();
}

}  // namespace mainspring
