// Field readers for the tables of the shapes: one reader per type of member.
#pragma once

#include <algorithm>

#include "api/json.h"
#include "mainspring/workers.h"

namespace mainspring {

// {"queue", &as_string<&NewJob::queue>}. The optional_… ones treat null as missing.

template <auto Member, class T>
bool as_string(JsonReader& in, T& into) {
  return in.string(into.*Member);
}
template <auto Member, class T>
bool as_optional_string(JsonReader& in, T& into) {
  return in.null() || in.string(into.*Member);
}
template <auto Member, class T>
bool as_boolean(JsonReader& in, T& into) {
  return in.boolean(into.*Member);
}
template <auto Member, int Min, int Max, class T>
bool as_integer(JsonReader& in, T& into) {
  return in.integer(into.*Member, Min, Max);
}
template <auto Member, class T>
bool as_id(JsonReader& in, T& into) {
  return in.integer(into.*Member, std::int64_t{1}, INT64_MAX);
}
template <auto Member, class T>
bool as_count(JsonReader& in, T& into) {
  return in.integer(into.*Member, std::int64_t{0}, INT64_MAX);
}
template <auto Member, class T>
bool as_duration(JsonReader& in, T& into) {
  return in.duration(into.*Member);
}
template <auto Member, class T>
bool as_optional_duration(JsonReader& in, T& into) {
  return in.null() || in.duration((into.*Member).emplace());
}
template <auto Member, class T>
bool as_time(JsonReader& in, T& into) {
  return in.wall_time(into.*Member);
}
template <auto Member, class T>
bool as_optional_time(JsonReader& in, T& into) {
  return in.null() || in.wall_time((into.*Member).emplace());
}
template <auto Member, class T>
bool as_raw(JsonReader& in, T& into) {
  return in.raw(into.*Member, JsonReader::Null::take);
}
template <auto Member, class T>
bool as_optional_raw(JsonReader& in, T& into) {
  return in.null() || in.raw(into.*Member);
}
template <auto Member, class T>
bool as_optional_string_map(JsonReader& in, T& into) {
  return in.null() || in.raw_string_map(into.*Member);
}

// Whole milliseconds; null is kForever.
inline bool read_milliseconds(JsonReader& in, Duration& out) {
  if (in.null()) {
    out = kForever;
    return true;
  }
  std::int64_t ms = 0;
  if (!in.integer(ms, std::int64_t{0}, INT64_MAX / 1000)) return false;
  out = std::chrono::milliseconds(ms);
  return true;
}
template <auto Member, class T>
bool as_milliseconds(JsonReader& in, T& into) {
  return read_milliseconds(in, into.*Member);
}

// "30s", or "none" for kForever.
inline bool read_limit(JsonReader& in, Duration& out) {
  std::string text;
  if (in.peek() != JsonType::string) return in.duration(out);  // refuses it
  if (!in.string(text)) return false;
  if (text == "none") {
    out = kForever;
    return true;
  }
  auto parsed = parse_duration(text);
  if (!parsed) return in.fail_here(parsed.error().message + ", or \"none\"");
  out = *parsed;
  return true;
}

inline bool read_state(JsonReader& in, JobState& out) {
  std::string text;
  if (!in.string(text)) return false;
  const auto state = parse_job_state(text);
  if (!state) return in.fail_here("\"" + text.substr(0, 64) + "\" is not a state of a job");
  out = *state;
  return true;
}
template <auto Member, class T>
bool as_state(JsonReader& in, T& into) {
  return read_state(in, into.*Member);
}

inline bool read_ids(JsonReader& in, std::vector<JobId>& out) {
  return in.array(kMaxRenewLeases, [&](std::size_t) {
    return in.integer(out.emplace_back(), std::int64_t{1}, INT64_MAX);
  });
}

// {"quiet", &as_command<WorkerCommand::quiet, RenewResult>}: true sets a result's command, unless
// it has a stronger one.
template <WorkerCommand Command, class T>
bool as_command(JsonReader& in, T& into) {
  bool wanted = false;
  if (!in.boolean(wanted)) return false;
  if (wanted) into.command = std::max(into.command, Command);
  return true;
}

// More entries than any server sends in one list: the limit of a reader of responses.
inline constexpr std::size_t kMaxResponseEntries = 1'000'000;

inline bool read_strings(JsonReader& in, std::vector<std::string>& out, std::size_t limit) {
  return in.array(limit, [&](std::size_t) { return in.string(out.emplace_back()); });
}

// The value of one whole document. `strict` for requests.
template <class T, std::size_t N>
Result<T> decode_request(std::string_view body, const JsonField<T> (&fields)[N], T into = {}) {
  JsonReader in(body, JsonReader::Unknown::refuse);
  if (!in.object(fields, into) || !in.end()) return in.error();
  return into;
}
// An unreadable response is the server's fault, or does not come from a Mainspring server.
inline Error bad_response(Error error) {
  error.code = ErrorCode::internal;
  error.message = "the server's answer is not understood: " + error.message;
  return error;
}
template <class T, std::size_t N>
Result<T> decode_response(std::string_view body, const JsonField<T> (&fields)[N], T into = {}) {
  JsonReader in(body, JsonReader::Unknown::skip);
  if (!in.object(fields, into) || !in.end()) return bad_response(in.error());
  return into;
}

template <class T, std::size_t N>
std::vector<std::string_view> field_names(const JsonField<T> (&fields)[N]) {
  std::vector<std::string_view> out;
  for (const JsonField<T>& field : fields) out.push_back(field.name);
  return out;
}

// The tables of each file, for request_fields(). Empty for unknown names.
std::vector<std::string_view> job_request_fields(std::string_view schema);
std::vector<std::string_view> work_request_fields(std::string_view schema);
std::vector<std::string_view> admin_request_fields(std::string_view schema);
std::vector<std::string_view> lease_request_fields(std::string_view schema);
std::vector<std::string_view> session_request_fields(std::string_view schema);
std::vector<std::string_view> workflow_request_fields(std::string_view schema);
std::vector<std::string_view> workflow_call_fields(std::string_view schema);
std::vector<std::string_view> schedule_request_fields(std::string_view schema);
std::vector<std::string_view> schedule_call_fields(std::string_view schema);
std::vector<std::string_view> access_request_fields(std::string_view schema);
std::vector<std::string_view> trigger_request_fields(std::string_view schema);
std::vector<std::string_view> breaker_request_fields(std::string_view schema);
std::vector<std::string_view> redrive_request_fields(std::string_view schema);
std::vector<std::string_view> mark_request_fields(std::string_view schema);

}  // namespace mainspring
