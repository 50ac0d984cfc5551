// Redrive requests to and from JSON, and their jobs.
#include "api/redrive_shapes.h"

#include <fmt/format.h>

#include <charconv>

#include "api/fields.h"
#include "base/fnv.h"
#include "model/callback.h"
#include "model/fingerprint.h"

namespace mainspring {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kMaxRate = 1'000'000;
// Attempts are used up by servers that die during a redrive; other problems are retried.
constexpr int kMaxAttempts = 1000;

template <auto Member>
bool as_order_filter(JsonReader& in, RedriveOrder& order) {
  return in.null() || read_filter_word(in, order.filter.*Member);
}
constexpr JsonField<RedriveOrder> kOrder[] = {
    {"queue", &as_order_filter<&DeadFilter::queue>},
    {"kind", &as_order_filter<&DeadFilter::kind>},
    {"tag", &as_order_filter<&DeadFilter::tag>},
    {"fingerprint", &as_order_filter<&DeadFilter::fingerprint>},
    {"rate",
     [](JsonReader& in, RedriveOrder& order) { return in.null() || in.string(order.pace.rate); }},
    {"canary", [](JsonReader& in, RedriveOrder& order) { return in.boolean(order.pace.canary); }},
    {"limit",
     [](JsonReader& in, RedriveOrder& order) {
       return in.null() || in.integer(order.pace.limit, std::int64_t{1}, RedrivePace::kMaxRedriven);
     }},
};

void write_filter(JsonWriter& w, const DeadFilter& filter) {
  if (!filter.queue.empty()) w.key("queue").string(filter.queue);
  if (!filter.kind.empty()) w.key("kind").string(filter.kind);
  if (!filter.tag.empty()) w.key("tag").string(filter.tag);
  if (!filter.fingerprint.empty()) w.key("fingerprint").string(filter.fingerprint);
}

}  // namespace

Result<Duration> parse_rate(std::string_view text) {
  if (text.empty()) return Duration(0);
  std::int64_t count = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), count);
  const auto digits = static_cast<std::size_t>(end - text.data());
  const std::string_view unit = text.substr(digits);
  const Duration length = unit == "/s" ? Duration(1s) : unit == "/m" ? Duration(1min) : 1h;
  const bool good = problem == std::errc() && count >= 1 && count <= kMaxRate &&
                    (unit == "/s" || unit == "/m" || unit == "/h");
  if (good) return length / count;
  return invalid("rate", fmt::format("rate \"{}\": must be N/s, N/m or N/h, N from 1 to {}: 20/s",
                                     text.substr(0, 64), kMaxRate));
}

bool read_filter_word(JsonReader& in, std::string& into) {
  return in.string(into) && (!into.empty() || in.fail_value("must not be empty; leave it out"));
}

Result<void> check_filter(const DeadFilter& filter) {
  if (!filter.queue.empty()) MS_TRY(check_name("queue", filter.queue));
  if (!filter.kind.empty()) MS_TRY(check_name("kind", filter.kind));
  if (!filter.fingerprint.empty()) MS_TRY(check_fingerprint("fingerprint", filter.fingerprint));
  if (filter.tag.size() <= kMaxTagBytes) return {};
  return invalid(
      "tag", fmt::format("tag of {} bytes: must be at most {}", filter.tag.size(), kMaxTagBytes));
}

Result<void> validate(const RedriveOrder& order) {
  MS_TRY(check_filter(order.filter));
  MS_TRY(parse_rate(order.pace.rate));
  if (order.pace.limit >= 1 && order.pace.limit <= RedrivePace::kMaxRedriven) return {};
  return invalid("limit", fmt::format("limit {}: must be 1 to {}", order.pace.limit,
                                      RedrivePace::kMaxRedriven));
}

Result<RedriveOrder> decode_redrive_order(std::string_view json) {
  RedriveOrder order;
  if (!json.empty()) {
    MS_TRY_ASSIGN(order, decode_request(json, kOrder));
  }
  MS_TRY(validate(order));
  return order;
}

void encode_redrive_order(const RedriveOrder& order, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  write_filter(w, order.filter);
  if (!order.pace.rate.empty()) w.key("rate").string(order.pace.rate);
  if (order.pace.canary) w.key("canary").boolean(true);
  if (order.pace.limit != RedrivePace::kMaxRedriven) w.key("limit").number(order.pace.limit);
  w.end_object();
}

std::vector<std::string_view> redrive_request_fields(std::string_view schema) {
  if (schema == "RedriveOrder") return field_names(kOrder);
  return {};
}

NewJob redrive_job(const RedriveOrder& order) {
  NewJob job;
  job.queue = kRedriveQueue;
  job.kind = kRedriveKind;
  job.args.clear();
  encode_redrive_order(order, job.args);
  job.max_attempts = kMaxAttempts;
  job.timeout = kForever;  // at its rate it may take days
  std::string filter;
  JsonWriter w(filter);
  w.begin_object();
  write_filter(w, order.filter);
  w.end_object();
  job.unique = Unique{.key = fmt::format("{:016x}", fnv1a(filter))};
  return job;
}

}  // namespace mainspring
