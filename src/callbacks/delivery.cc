// Converts a job's args to a signed request, and the answer to an outcome.
#include "callbacks/delivery.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "api/json.h"
#include "base/mutant.h"

namespace mainspring {
namespace {

struct Data {
  std::string url;
};
constexpr JsonField<Data> kData[] = {
    {"url", [](JsonReader& in, Data& data) { return in.string(data.url); }},
};

}  // namespace

Result<Delivery> delivery_of(const Job& job) {
  JsonReader in(job.args, JsonReader::Unknown::skip);
  Data data;
  JobId about = 0;
  std::string state;
  bool message = false;
  std::string rest;
  JsonWriter w(rest);
  w.begin_object();
  const bool read = in.members([&](std::string_view name) {
    if (name == "data") return in.object(kData, data);
    std::string value;
    if (!in.raw(value, JsonReader::Null::take)) return false;
    if (name == "state" && value.size() > 2) state = value.substr(1, value.size() - 2);
    if (name == "job") std::from_chars(value.data(), value.data() + value.size(), about);
    message = message || name == "message";
    w.key(name).raw(value);
    return true;
  });
  if (!read || !in.end()) return in.error();
  if (data.url.empty() || !parse_job_state(state)) {
    return invalid("args", "args: must have a state, and data with a url");
  }
  w.end_object();
  Delivery out;
  out.about = about;
  out.url = std::move(data.url);
  const int attempt = MS_MUTANT(callback_id_of_attempt) ? job.attempt : 0;
  out.id = fmt::format("msg_{:x}_{}", job.created_at.us() + attempt,
                       MS_MUTANT(callback_id_of_time) ? 0 : job.id);
  JsonWriter body(out.body);
  if (state == to_string(JobState::running))
    state = message || MS_MUTANT(progress_posted_as_message) ? "message" : "progress";
  body.begin_object()
      .key("type")
      .string("job." + state)
      .key("timestamp")
      .time(MS_MUTANT(callback_body_of_attempt) ? job.run_at : job.created_at);
  body.key("data").raw(rest).end_object();
  return out;
}

OutgoingRequest request_of(const Delivery& delivery, const SigningKeys& keys, WallTime now) {
  const std::string timestamp = fmt::to_string(now.us() / 1'000'000);
  OutgoingRequest request{.url = delivery.url, .body = delivery.body};
  request.headers = {
      {"content-type", "application/json"},
      {"webhook-id", delivery.id},
      {"webhook-timestamp", timestamp},
      {"webhook-signature", sign(keys, {delivery.id, timestamp, delivery.body})},
  };
  return request;
}

Outcome outcome_of(const OutgoingResponse& response, Duration back_off) {
  const int status = response.status;
  const bool redirect = status >= 300 && status < 400;
  if ((status >= 200 && status < 300) || (redirect && MS_MUTANT(callback_redirect_is_success))) {
    return Complete{fmt::format("{{\"status\":{}}}", status)};
  }
  if (status == 410 && !MS_MUTANT(callback_gone_ignored)) return CancelJob{"gone"};
  if (MS_MUTANT(callback_given_up)) return CancelJob{"refused"};
  std::string why = fmt::format("the receiver answered {} {}", status, response.reason);
  if (redirect) why += "; redirects are not followed: give the URL that it leads to";
  const Duration asked = std::min(response.retry_after.value_or(Duration(0)), kMaxRetryAfter);
  const Duration after =
      MS_MUTANT(callback_never_waits_longer) ? back_off : std::max(back_off, asked);
  return Retry{std::move(why), after};
}

}  // namespace mainspring
