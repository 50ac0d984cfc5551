// Builds images of objects for audit records.
#include "api/audit_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "api/json.h"
#include "api/limit_shapes.h"
#include "api/pause_shapes.h"
#include "api/schedule_shapes.h"

namespace mainspring {
namespace {

void write_limit(JsonWriter& w, std::string_view key, std::optional<Duration> value) {
  w.key(key);
  value ? w.milliseconds(*value) : w.null();
}

// A record is for reading: a large value is replaced by its digest.
std::string bounded(std::string image) {
  if (image.size() <= kMaxAuditImageBytes) return image;
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("bytes").number(static_cast<std::int64_t>(image.size()));
  w.key("sha256").string(to_hex(sha256(image))).end_object();
  return out;
}

std::string cut(const std::string& text) {
  return std::string(cut_text(text, kMaxAuditTextBytes));
}

}  // namespace

std::string queue_image(bool paused, std::optional<Duration> retention_completed,
                        std::optional<Duration> retention_dead, const QueueLimits& limits,
                        const std::optional<QueuePause>& pause) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("paused").boolean(paused);
  write_limit(w, "retention_completed_ms", retention_completed);
  write_limit(w, "retention_dead_ms", retention_dead);
  if (!limits.is_default()) write_limits(w.key("limits"), limits);
  if (pause) write_pause(w.key("pause"), pause);
  w.end_object();
  return out;
}

Audit resumed_by_itself(const std::string& queue) {
  return {.who = "mainspring", .action = "resume_queue", .object = "queue/" + queue};
}

std::string job_image(const Job& job) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("state").string(to_string(job.state)).key("queue").string(job.queue);
  w.key("cancel_requested").boolean(job.cancel_requested);
  w.key("priority").number(job.priority).key("run_at").time(job.run_at);
  w.key("tags").begin_array();
  for (const std::string& tag : job.tags) w.string(tag);
  w.end_array().end_object();
  return out;
}

// Records are kept for a year and shown to callers that may not see payloads.
std::string content_image(std::string_view content) {
  return fmt::format(R"({{"bytes":{},"sha256":"{}"}})", content.size(), to_hex(sha256(content)));
}

std::string schedule_image(const ScheduleInfo& info) {
  Schedule schedule = info.schedule;
  schedule.job.args = content_image(schedule.job.args);
  if (!schedule.job.headers.empty()) schedule.job.headers = content_image(schedule.job.headers);
  std::string out;
  encode_schedule(schedule, out);
  out.pop_back();  // the bracket: more members follow
  out += fmt::format(",\"paused\":{}", info.paused);
  if (info.timeout_override) {
    out += fmt::format(R"(,"timeout_override":"{}")", format_duration(*info.timeout_override));
  }
  out += fmt::format(",\"version\":{}}}", info.version);
  return out;
}

std::string token_image(const TokenRecord& token) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("scopes").begin_array();
  for (const Scope& scope : token.scopes.list()) w.string(to_string(scope));
  w.end_array().key("expires_at");
  token.expires_at == WallTime::never() ? w.null() : w.time(token.expires_at);
  w.key("revoked").boolean(token.revoked_at.has_value());
  w.key("rate").number(token.rate).end_object();
  return out;
}

AuditObject parse_audit_object(std::string_view object) {
  using Kind = AuditObject::Kind;
  const std::size_t slash = object.find('/');
  if (slash == std::string_view::npos) return {};
  const std::string_view kind = object.substr(0, slash);
  const std::string_view name = object.substr(slash + 1);
  if (kind == "queue") return {.kind = Kind::queue, .name = std::string(name)};
  if (kind == "schedule") return {.kind = Kind::schedule, .name = std::string(name)};
  if (kind == "token") return {.kind = Kind::token, .name = std::string(name)};
  if (kind != "job") return {};
  AuditObject job{.kind = Kind::job, .name = ""};
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), job.id);
  if (error != std::errc() || end != name.data() + name.size()) job.id = 0;
  return job;
}

AuditRecord audit_record(const Audit& op, std::string before, std::string after, WallTime at) {
  AuditRecord record;
  record.at = at;
  record.who = cut(op.who);
  record.from = cut(op.from);
  record.action = cut(op.action);
  record.object = cut(op.object);
  record.before = bounded(std::move(before));
  record.after = bounded(std::move(after));
  return record;
}

bool names_created_job(const Audit& op) {
  return op.object == kCreatedJob;
}

AuditRecord audit_record(const Audit& op, const OperationResult& about, std::string before,
                         std::string after, WallTime at) {
  AuditRecord record = audit_record(op, std::move(before), std::move(after), at);
  const auto* const made = std::get_if<EnqueueResult>(&about);
  if (names_created_job(op) && made != nullptr && made->jobs.size() == 1)
    record.object += fmt::to_string(made->jobs[0].id);
  return record;
}

bool worth_a_record(const OperationResult& result) {
  if (std::holds_alternative<Error>(result)) return false;
  if (const auto* claimed = std::get_if<ClaimResult>(&result)) return !claimed->jobs.empty();
  if (const auto* renewed = std::get_if<RenewResult>(&result)) return !renewed->renewed.empty();
  if (const auto* finished = std::get_if<FinishResult>(&result)) {
    return std::find(finished->results.begin(), finished->results.end(), FinishStatus::ok) !=
           finished->results.end();
  }
  return true;
}

}  // namespace mainspring
