// Reads and writes the values of the conformance protocol.
#include "values.h"

#include <fmt/format.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <stdexcept>

namespace conformance {

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t kSafe = (std::int64_t{1} << 53) - 1;
using Allocator = Document::AllocatorType;

std::string_view view_of(const Json& value) {
  return {value.GetString(), value.GetStringLength()};
}

Json json_string(std::string_view text, Allocator& allocator) {
  return Json(text.data(), static_cast<rapidjson::SizeType>(text.size()), allocator);
}

void unmark(Json& value, Allocator& allocator) {
  if (value.IsArray()) {
    for (Json& one : value.GetArray()) unmark(one, allocator);
  }
  if (!value.IsObject()) return;
  if (value.MemberCount() == 1 && value.HasMember("$int")) {
    const std::int64_t number = std::stoll(value["$int"].GetString());
    value.SetInt64(number);
    return;
  }
  if (value.MemberCount() == 2 && value.HasMember("$text")) {
    std::string text;
    for (int i = 0; i < value["times"].GetInt(); ++i) text += view_of(value["$text"]);
    value = json_string(text, allocator);
    return;
  }
  for (auto& member : value.GetObject()) unmark(member.value, allocator);
}

void mark(Json& value, Allocator& allocator) {
  if (value.IsArray()) {
    for (Json& one : value.GetArray()) mark(one, allocator);
  } else if (value.IsObject()) {
    for (auto& member : value.GetObject()) mark(member.value, allocator);
  } else if (value.IsInt64() && (value.GetInt64() > kSafe || value.GetInt64() < -kSafe)) {
    Json marked(rapidjson::kObjectType);
    marked.AddMember("$int", json_string(fmt::to_string(value.GetInt64()), allocator), allocator);
    value = marked;
  }
}

Document parsed(std::string_view text) {
  Document out;
  out.Parse<rapidjson::kParseFullPrecisionFlag>(text.data(), text.size());
  if (out.HasParseError()) throw std::runtime_error("not JSON: " + std::string(text));
  return out;
}

const Json* find(const Json& object, const char* name) {
  const auto at = object.FindMember(name);
  return at == object.MemberEnd() || at->value.IsNull() ? nullptr : &at->value;
}

Duration parsed_duration(const Json& value) {
  const auto duration = parse_duration(view_of(value));
  if (!duration) throw std::runtime_error(duration.error().message);
  return *duration;
}

FollowUp follow_up_of(const Json& then) {
  FollowUp out{.queue = string_of(then, "queue"), .kind = string_of(then, "kind")};
  out.on = 0;
  for (const std::string& on : strings_of(then, "on")) {
    if (on == "completed") out.on |= FollowUp::kCompleted;
    if (on == "cancelled") out.on |= FollowUp::kCancelled;
    if (on == "dead") out.on |= FollowUp::kDead;
    if (on == "message") out.on |= FollowUp::kMessage;
    if (on == "progress") out.on |= FollowUp::kProgress;
  }
  return out;
}

}  // namespace

Document parse_request(std::string_view text) {
  Document out = parsed(text);
  unmark(out, out.GetAllocator());
  return out;
}

std::string text_of(const Json& value) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  value.Accept(writer);
  return {buffer.GetString(), buffer.GetSize()};
}

std::string member_text(const Json& object, const char* name) {
  const auto at = object.FindMember(name);
  return at == object.MemberEnd() ? "" : text_of(at->value);
}

std::string string_of(const Json& object, const char* name, std::string_view fallback) {
  const Json* value = find(object, name);
  return std::string(value != nullptr ? view_of(*value) : fallback);
}

int int_of(const Json& object, const char* name, int fallback) {
  const Json* value = find(object, name);
  return value != nullptr ? value->GetInt() : fallback;
}

Duration duration_of(const Json& object, const char* name, Duration fallback) {
  const Json* value = find(object, name);
  return value != nullptr ? parsed_duration(*value) : fallback;
}

std::vector<std::string> strings_of(const Json& object, const char* name) {
  std::vector<std::string> out;
  if (const Json* list = find(object, name)) {
    for (const Json& one : list->GetArray()) out.emplace_back(view_of(one));
  }
  return out;
}

void Object::name(std::string_view name) {
  if (out_.size() > 1) out_ += ',';
  out_ += fmt::format("\"{}\":", name);
}
Object& Object::string(std::string_view n, std::string_view value) {
  return raw(n, json_text(value));
}
Object& Object::number(std::string_view n, std::int64_t value) {
  return raw(n, fmt::to_string(value));
}
Object& Object::boolean(std::string_view n, bool value) {
  return raw(n, value ? "true" : "false");
}
Object& Object::payload(std::string_view n, std::string_view json) {
  if (json.empty()) return raw(n, "null");
  Document document = parsed(json);
  mark(document, document.GetAllocator());
  return raw(n, text_of(document));
}
Object& Object::raw(std::string_view n, std::string_view json) {
  name(n);
  out_ += json;
  return *this;
}

std::string json_text(std::string_view text) {
  Document document;
  return text_of(json_string(text, document.GetAllocator()));
}

std::string array_of(const std::vector<std::string>& elements) {
  return fmt::format("[{}]", fmt::join(elements, ","));
}

NewJob new_job(const Json& job) {
  NewJob out;
  out.kind = string_of(job, "kind");
  out.queue = string_of(job, "queue", "default");
  if (job.HasMember("args")) out.args = member_text(job, "args");
  out.priority = int_of(job, "priority", out.priority);
  out.max_attempts = int_of(job, "max_attempts", out.max_attempts);
  if (job.HasMember("delay")) out.delay = duration_of(job, "delay", 0s);
  if (job.HasMember("expires_in")) out.expires_in = duration_of(job, "expires_in", 0s);
  if (job.HasMember("run_at")) out.run_at = parse_wall_time(string_of(job, "run_at")).value();
  out.timeout = duration_of(job, "timeout", out.timeout);
  out.tags = strings_of(job, "tags");
  out.headers = member_text(job, "headers");
  out.correlation_id = string_of(job, "correlation_id");
  out.limit_key = string_of(job, "limit_key");
  out.session = string_of(job, "session");
  if (const Json* unique = find(job, "unique")) {
    out.unique =
        Unique{.key = string_of(*unique, "key"),
               .window = duration_of(*unique, "for", 0s),
               .on_conflict = parse_on_conflict(string_of(*unique, "on_conflict", "keep")).value()};
  }
  if (const Json* then = find(job, "then")) {
    for (const Json& one : then->GetArray()) out.follow_ups.push_back(follow_up_of(one));
  }
  return out;
}

LeaseFence fence_of(const Json& job) {
  const Json* fence = find(job, "fence");
  if (fence == nullptr) return {};
  return {string_of(*fence, "lease"), std::stoll(string_of(*fence, "token"))};
}

Schedule schedule_of(const Json& schedule, const std::string& name) {
  Schedule out;
  out.name = name;
  out.cron = string_of(schedule, "cron");
  out.every = duration_of(schedule, "every", out.every);
  out.time_zone = string_of(schedule, "time_zone", out.time_zone);
  out.overlap = parse_overlap(string_of(schedule, "overlap", "skip")).value();
  out.job = new_job(schedule["job"]);
  return out;
}

WorkflowSpec workflow_of(const Json& workflow) {
  WorkflowSpec out;
  out.name = string_of(workflow, "name");
  out.key = string_of(workflow, "key");
  for (const Json& one : workflow["steps"].GetArray()) {
    StepSpec step;
    step.name = string_of(one, "name");
    step.after = strings_of(one, "after");
    step.signal = string_of(one, "signal");
    if (one.HasMember("sleep")) step.sleep = duration_of(one, "sleep", 0s);
    if (const Json* job = find(one, "job")) step.job = new_job(*job);
    if (const Json* undo = find(one, "undo")) step.undo = new_job(*undo);
    out.steps.push_back(std::move(step));
  }
  return out;
}

QueueLimits limits_of(const Json& limits) {
  QueueLimits out;
  if (limits.HasMember("concurrency")) out.concurrency = int_of(limits, "concurrency", 0);
  if (const Json* costs = find(limits, "costs")) {
    for (const auto& cost : costs->GetObject())
      out.costs[std::string(view_of(cost.name))] = cost.value.GetInt();
  }
  return out;
}

std::string error_json(const Error& error) {
  Object out;
  out.string("code", error.name()).string("message", error.message);
  if (!error.field.empty()) out.string("field", error.field);
  if (error.retry_after_ms > 0) out.number("retry_after_ms", error.retry_after_ms);
  if (info(error.code).retryable == Retryable::unknown) out.boolean("maybe_done", true);
  return out.text();
}

std::string job_json(const Job& job) {
  std::vector<std::string> errors, tags;
  for (const AttemptError& error : job.errors) {
    errors.push_back(
        Object().number("attempt", error.attempt).string("message", error.message).text());
  }
  for (const std::string& tag : job.tags) tags.push_back(json_text(tag));
  Object out;
  out.string("id", fmt::to_string(job.id)).string("queue", job.queue).string("kind", job.kind);
  out.string("state", to_string(job.state)).payload("args", job.args);
  out.number("attempt", job.attempt).boolean("deferred", job.deferred);
  out.payload("result", job.result).payload("checkpoint", job.checkpoint);
  out.payload("headers", job.headers).raw("tags", array_of(tags));
  out.string("reason", job.reason).string("description", job.description);
  return out.raw("errors", array_of(errors)).text();
}

std::string claimed_json(const ClaimedJob& job) {
  Object out;
  out.string("id", fmt::to_string(job.id)).string("token", fmt::to_string(job.token));
  out.string("kind", job.kind).payload("args", job.args);
  return out.payload("session_state", job.session_state).text();
}

std::string enqueued_json(const Enqueued& job) {
  Object out;
  out.string("id", fmt::to_string(job.id)).string("state", to_string(job.state));
  return out.boolean("duplicate", job.duplicate).text();
}

std::string event_json(const EngineEvent& event) {
  Object out;
  out.string("type", to_string(event.type)).string("queue", event.queue);
  if (event.job != 0) out.string("job", fmt::to_string(event.job));
  return out.string("kind", event.kind).string("reason", event.reason).text();
}

std::string schedule_json(const ScheduleInfo& info) {
  Object out;
  out.string("name", info.schedule.name).number("version", info.version);
  if (!info.schedule.cron.empty()) out.string("cron", info.schedule.cron);
  if (info.schedule.every > 0s) out.string("every", format_duration(info.schedule.every));
  if (info.next != WallTime::never()) out.string("next", format_wall_time(info.next));
  return out.text();
}

}  // namespace conformance
