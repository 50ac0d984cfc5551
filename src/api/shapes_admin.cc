// The shapes of queues, workers, the dead letter, verification and errors.
#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cmath>

#include "api/bulk_shapes.h"
#include "api/fields.h"
#include "api/job_edit_shapes.h"
#include "api/limit_shapes.h"
#include "api/pause_shapes.h"
#include "api/redrive_shapes.h"
#include "api/search_shapes.h"
#include "api/shapes.h"

namespace mainspring {
namespace {

// -- queues

struct Retention {
  std::optional<Duration> completed, dead;
};
bool read_retention_time(JsonReader& in, std::optional<Duration>& out) {
  if (in.null()) return true;
  if (!in.duration(out.emplace())) return false;
  return out->count() > 0 || in.fail_value("must be more than 0, or null for the default");
}
constexpr JsonField<Retention> kRetention[] = {
    {"completed",
     [](JsonReader& in, Retention& r) { return read_retention_time(in, r.completed); }},
    {"dead", [](JsonReader& in, Retention& r) { return read_retention_time(in, r.dead); }},
};

struct RetentionRequest {
  std::optional<Retention> retention;
};
constexpr JsonField<RetentionRequest> kRetentionRequest[] = {
    {"retention", [](JsonReader& in,
                     RetentionRequest& r) { return in.object(kRetention, r.retention.emplace()); }},
};

void write_retention(JsonWriter& w, std::optional<Duration> completed,
                     std::optional<Duration> dead) {
  const auto write = [&](std::string_view key, std::optional<Duration> value) {
    w.key(key);
    value ? w.duration(*value) : w.null();
  };
  w.key("retention").begin_object();
  write("completed", completed);
  write("dead", dead);
  w.end_object();
}

constexpr double kLongestBacklogMs = 9.0e15;  // still fits a Duration as microseconds

template <int State>
bool as_state_count(JsonReader& in, QueueStats& queue) {
  return in.integer(queue.counts[State], std::int64_t{0}, INT64_MAX);
}
constexpr JsonField<QueueStats> kQueueCounts[] = {
    {"waiting", &as_state_count<static_cast<int>(JobState::waiting)>},
    {"scheduled", &as_state_count<static_cast<int>(JobState::scheduled)>},
    {"available", &as_state_count<static_cast<int>(JobState::available)>},
    {"running", &as_state_count<static_cast<int>(JobState::running)>},
    {"completed", &as_state_count<static_cast<int>(JobState::completed)>},
    {"retryable", &as_state_count<static_cast<int>(JobState::retryable)>},
    {"cancelled", &as_state_count<static_cast<int>(JobState::cancelled)>},
    {"dead", &as_state_count<static_cast<int>(JobState::dead)>},
};
bool read_backlog_service(JsonReader& in, QueueBacklog& b) {
  double ms = 0;
  if (in.null()) return true;
  if (!in.number(ms, 0, kLongestBacklogMs)) return false;
  b.service = Duration(std::llround(ms * 1e3));
  return true;
}
bool read_backlog_drain(JsonReader& in, QueueBacklog& b) {
  double seconds = 0;
  if (in.null()) return true;
  if (!in.number(seconds, 0, kLongestBacklogMs / 1e3)) return false;
  b.drain = Duration(std::llround(seconds * 1e6));
  return true;
}
template <auto Member>
bool as_rate(JsonReader& in, QueueBacklog& b) {
  return in.number(b.*Member, 0, 1e18);
}
constexpr JsonField<QueueBacklog> kBacklog[] = {
    {"jobs", &as_count<&QueueBacklog::jobs>},
    {"arrivals_per_second", &as_rate<&QueueBacklog::arrivals_per_second>},
    {"completions_per_second", &as_rate<&QueueBacklog::completions_per_second>},
    {"service_ms", &read_backlog_service},
    {"drain_seconds", &read_backlog_drain},
    {"oldest_ms",
     [](JsonReader& in, QueueBacklog& b) {
       return in.null() || read_milliseconds(in, b.oldest.emplace());
     }},
};
constexpr JsonField<QueueStats> kQueue[] = {
    {"name", &as_string<&QueueStats::name>},
    {"paused", &as_boolean<&QueueStats::paused>},
    {"counts", [](JsonReader& in, QueueStats& q) { return in.object(kQueueCounts, q); }},
    {"oldest_available_at", &as_optional_time<&QueueStats::oldest_available>},
    {"enqueued", &as_count<&QueueStats::enqueued>},
    {"pruned", &as_count<&QueueStats::pruned>},
    {"expired", &as_count<&QueueStats::expired>},
    {"retention",
     [](JsonReader& in, QueueStats& q) {
       Retention retention;
       if (!in.object(kRetention, retention)) return false;
       q.retention_completed = retention.completed;
       q.retention_dead = retention.dead;
       return true;
     }},
    {"limits", [](JsonReader& in, QueueStats& q) { return read_limits(in, q.limits); }},
    {"opens_at", &as_optional_time<&QueueStats::opens_at>},
    {"quarantined", &as_count<&QueueStats::quarantined>},
    {"slots_taken", &as_count<&QueueStats::slots_taken>},
    {"pause", [](JsonReader& in, QueueStats& q) { return read_pause(in, q.pause); }},
    {"backlog",
     [](JsonReader& in, QueueStats& q) {
       return in.null() || in.object(kBacklog, q.backlog.emplace());
     }},
};
using QueuesAnswer = NamePage<QueueStats>;
constexpr JsonField<QueuesAnswer> kQueues[] = {
    {"queues",
     [](JsonReader& in, QueuesAnswer& a) {
       return in.array(kMaxResponseEntries,
                       [&](std::size_t) { return in.object(kQueue, a.items.emplace_back()); });
     }},
    {"next", &as_optional_string<&QueuesAnswer::next>},
};

// Three digits after the point are enough for people, and short.
double rounded(double value) {
  return std::round(value * 1000) / 1000;
}

void write_backlog(JsonWriter& w, const QueueBacklog& backlog) {
  w.key("backlog").begin_object().key("jobs").number(backlog.jobs);
  w.key("arrivals_per_second").real(rounded(backlog.arrivals_per_second));
  w.key("completions_per_second").real(rounded(backlog.completions_per_second));
  w.key("service_ms");
  backlog.service ? w.real(static_cast<double>(backlog.service->count()) / 1e3) : w.null();
  w.key("drain_seconds");
  backlog.drain ? w.real(rounded(static_cast<double>(backlog.drain->count()) / 1e6)) : w.null();
  w.key("oldest_ms");
  backlog.oldest ? w.milliseconds(*backlog.oldest) : w.null();
  w.end_object();
}

void write_queue(JsonWriter& w, const QueueStats& queue, WallTime now) {
  w.begin_object().key("name").string(queue.name).key("paused").boolean(queue.paused);
  write_pause(w.key("pause"), queue.pause);
  w.key("counts").begin_object();
  for (int i = 0; i < kJobStateCount; ++i) {
    w.key(to_string(static_cast<JobState>(i))).number(queue.counts[static_cast<std::size_t>(i)]);
  }
  w.end_object().key("oldest_available_ms");
  if (queue.oldest_available) {
    w.milliseconds(std::max(now - *queue.oldest_available, Duration(0)));
    w.key("oldest_available_at").time(*queue.oldest_available);
  } else {
    w.null();
  }
  w.key("enqueued").number(queue.enqueued).key("pruned").number(queue.pruned);
  w.key("expired").number(queue.expired);
  write_retention(w, queue.retention_completed, queue.retention_dead);
  if (!queue.limits.is_default()) write_limits(w.key("limits"), queue.limits);
  if (queue.opens_at) w.key("opens_at").time(*queue.opens_at);
  if (queue.quarantined > 0) w.key("quarantined").number(queue.quarantined);
  if (!queue.limits.costs.empty() && queue.limits.concurrency)
    w.key("slots_taken").number(queue.slots_taken);
  if (queue.backlog) write_backlog(w, *queue.backlog);
  w.end_object();
}

// -- workers

constexpr JsonField<WorkerInfo> kWorker[] = {
    {"id", &as_string<&WorkerInfo::id>},
    {"queues", [](JsonReader& in,
                  WorkerInfo& worker) { return read_strings(in, worker.queues, kMaxClaimQueues); }},
    {"running", &as_integer<&WorkerInfo::running, 0, INT_MAX>},
    {"last_seen_ms", &as_milliseconds<&WorkerInfo::last_seen>},
    {"parked", &as_boolean<&WorkerInfo::parked>},
    {"host", [](JsonReader& in, WorkerInfo& worker) { return in.string(worker.facts.host); }},
    {"pid",
     [](JsonReader& in, WorkerInfo& worker) {
       return in.integer(worker.facts.pid, std::int64_t{0}, INT64_MAX);
     }},
    {"version", [](JsonReader& in, WorkerInfo& worker) { return in.string(worker.facts.version); }},
    {"language",
     [](JsonReader& in, WorkerInfo& worker) { return in.string(worker.facts.language); }},
    {"slots",
     [](JsonReader& in, WorkerInfo& worker) { return in.integer(worker.facts.slots, 0, INT_MAX); }},
    {"trouble", [](JsonReader& in, WorkerInfo& worker) { return in.string(worker.facts.trouble); }},
    {"stuck",
     [](JsonReader& in, WorkerInfo& worker) { return in.integer(worker.facts.stuck, 0, INT_MAX); }},
    {"command",
     [](JsonReader& in, WorkerInfo& worker) {
       if (in.null()) return true;
       std::string text;
       if (!in.string(text)) return false;
       const auto command = parse_worker_command(text);
       if (!command) return in.fail_here("must be quiet or stop");
       worker.command = *command;
       return true;
     }},
};
struct WorkersAnswer {
  std::vector<WorkerInfo> workers;
};
constexpr JsonField<WorkersAnswer> kWorkers[] = {
    {"workers",
     [](JsonReader& in, WorkersAnswer& a) {
       return in.array(kMaxResponseEntries,
                       [&](std::size_t) { return in.object(kWorker, a.workers.emplace_back()); });
     }},
};

// -- the dead letter, verification

template <auto Member>
bool as_redrive_filter(JsonReader& in, RedriveRequest& r) {
  return in.null() || read_filter_word(in, r.operation.filter.*Member);
}
constexpr JsonField<RedriveRequest> kRedriveRequest[] = {
    {"queue", &as_redrive_filter<&JobFilter::queue>},
    {"kind", &as_redrive_filter<&JobFilter::kind>},
    {"tag", &as_redrive_filter<&JobFilter::tag>},
    {"limit", [](JsonReader& in,
                 RedriveRequest& r) { return in.integer(r.operation.limit, 1, kMaxRedriveJobs); }},
    {"after",
     [](JsonReader& in, RedriveRequest& r) {
       return in.null() || in.integer(r.operation.after, std::int64_t{0}, INT64_MAX);
     }},
    {"dry_run", &as_boolean<&RedriveRequest::dry_run>}};
constexpr JsonField<RedriveResult> kRedriveAnswer[] = {
    {"redriven", &as_integer<&RedriveResult::redriven, 0, INT_MAX>},
    {"next",
     [](JsonReader& in, RedriveResult& r) {
       return in.null() || in.integer(r.next.emplace(), std::int64_t{1}, INT64_MAX);
     }},
    {"ids", [](JsonReader& in, RedriveResult& r) { return read_ids(in, r.ids); }},
};
static_assert(kMaxRedriveJobs <= kMaxRenewLeases, "all ids of a redrive can be read");
constexpr JsonField<VerifyReport> kVerify[] = {
    {"jobs", &as_count<&VerifyReport::jobs>},
    {"problems", [](JsonReader& in,
                    VerifyReport& r) { return read_strings(in, r.problems, kMaxResponseEntries); }},
};

// -- errors

struct WireError {
  std::string code, message, field;
  int retry_after_ms = 0;
  bool given = false;
};
constexpr JsonField<WireError> kErrorFields[] = {
    {"code", &as_string<&WireError::code>},
    {"message", &as_string<&WireError::message>},
    {"field", &as_optional_string<&WireError::field>},
    {"retry_after_ms", &as_integer<&WireError::retry_after_ms, 0, INT_MAX>},
};
constexpr JsonField<WireError> kErrorBody[] = {
    {"error",
     [](JsonReader& in, WireError& e) {
       e.given = true;
       return in.object(kErrorFields, e);
     }},
};

constexpr ErrorCode kAllCodes[] = {
#define MS_ERROR(code, http, exit, retry, summary) ErrorCode::code,
#include "mainspring/errors.def"
#undef MS_ERROR
};

constexpr JsonField<WhyAnswer> kWhy[] = {
    {"id", &as_id<&WhyAnswer::id>},
    {"state", &as_string<&WhyAnswer::state>},
    {"gate", &as_string<&WhyAnswer::gate>},
    {"why", &as_string<&WhyAnswer::why>},
    {"until", &as_optional_time<&WhyAnswer::until>},
    {"ahead",
     [](JsonReader& in, WhyAnswer& w) { return in.integer(w.ahead.emplace(), 0, INT64_MAX); }},
    {"estimated_start", &as_optional_time<&WhyAnswer::estimated_start>},
};

}  // namespace

void encode_queue(const QueueStats& queue, WallTime now, std::string& out) {
  JsonWriter w(out);
  write_queue(w, queue, now);
}

void encode_queues(std::span<const QueueStats> queues, WallTime now, bool more, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("queues").begin_array();
  for (const QueueStats& queue : queues) write_queue(w, queue, now);
  w.end_array().key("next");
  more ? w.string(queues.back().name) : w.null();
  w.end_object();
}

Result<QueueStats> decode_queue(std::string_view body) {
  return decode_response(body, kQueue);
}

Result<NamePage<QueueStats>> decode_queues(std::string_view body) {
  return decode_response(body, kQueues);
}

void encode_why(const WhyAnswer& answer, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("id").number(answer.id).key("state").string(answer.state);
  w.key("gate").string(answer.gate).key("why").string(answer.why);
  if (answer.until) w.key("until").time(*answer.until);
  if (answer.ahead) w.key("ahead").number(*answer.ahead);
  if (answer.estimated_start) w.key("estimated_start").time(*answer.estimated_start);
  w.end_object();
}

Result<WhyAnswer> decode_why(std::string_view body) {
  return decode_response(body, kWhy);
}

void encode_paused(const PauseQueue& queue, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("name").string(queue.queue).key("paused").boolean(queue.paused);
  if (queue.until) w.key("until").time(*queue.until);
  w.end_object();
}

void encode_queue_removed(const std::string& name, std::string& out) {
  JsonWriter(out).begin_object().key("name").string(name).key("removed").boolean(true).end_object();
}

Result<SetRetention> decode_retention_request(std::string queue, std::string_view body) {
  MS_TRY_ASSIGN(RetentionRequest request, decode_request(body, kRetentionRequest));
  if (!request.retention) return invalid("retention", "retention: must be given");
  return SetRetention{std::move(queue), request.retention->completed, request.retention->dead};
}

void encode_retention_request(const SetRetention& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  write_retention(w, request.completed, request.dead);
  w.end_object();
}

void encode_retention_response(const SetRetention& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("name").string(request.queue);
  write_retention(w, request.completed, request.dead);
  w.end_object();
}

void write_facts(JsonWriter& w, const WorkerFacts& facts) {
  if (!facts.host.empty()) w.key("host").string(facts.host);
  if (facts.pid != 0) w.key("pid").number(facts.pid);
  if (!facts.version.empty()) w.key("version").string(facts.version);
  if (!facts.language.empty()) w.key("language").string(facts.language);
  if (facts.slots != 0) w.key("slots").number(facts.slots);
  if (!facts.trouble.empty()) w.key("trouble").string(facts.trouble);
  if (facts.stuck != 0) w.key("stuck").number(facts.stuck);
}

void write_worker(JsonWriter& w, const WorkerInfo& worker) {
  w.begin_object().key("id").string(worker.id).key("queues").begin_array();
  for (const std::string& queue : worker.queues) w.string(queue);
  w.end_array().key("running").number(worker.running);
  w.key("last_seen_ms").milliseconds(worker.last_seen);
  w.key("parked").boolean(worker.parked);
  write_facts(w, worker.facts);
  w.key("command");
  write_command(w, worker.command);
  w.end_object();
}

void write_command(JsonWriter& w, WorkerCommand command) {
  command == WorkerCommand::none ? void(w.null()) : void(w.string(to_string(command)));
}

Result<WorkerInfo> decode_worker(std::string_view body) {
  return decode_response(body, kWorker);
}

void encode_workers(std::span<const WorkerInfo> workers, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("workers").begin_array();
  for (const WorkerInfo& worker : workers) write_worker(w, worker);
  w.end_array().end_object();
}

Result<std::vector<WorkerInfo>> decode_workers(std::string_view body) {
  MS_TRY_ASSIGN(WorkersAnswer answer, decode_response(body, kWorkers));
  return std::move(answer.workers);
}

Result<RedriveRequest> decode_redrive_request(std::string_view body) {
  if (body.empty()) return RedriveRequest{};
  MS_TRY_ASSIGN(RedriveRequest request, decode_request(body, kRedriveRequest));
  const JobFilter& filter = request.operation.filter;
  MS_TRY(check_filter({.queue = filter.queue, .kind = filter.kind, .tag = filter.tag}));
  return request;
}

void encode_redrive_request(const RedriveRequest& request, std::string& out) {
  const Redrive& redrive = request.operation;
  JsonWriter w(out);
  w.begin_object();
  if (!redrive.filter.queue.empty()) w.key("queue").string(redrive.filter.queue);
  if (!redrive.filter.kind.empty()) w.key("kind").string(redrive.filter.kind);
  if (!redrive.filter.tag.empty()) w.key("tag").string(redrive.filter.tag);
  w.key("limit").number(redrive.limit);
  if (redrive.after != 0) w.key("after").number(redrive.after);
  if (request.dry_run) w.key("dry_run").boolean(true);
  w.end_object();
}

void encode_redrive_response(const RedriveResult& result, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("redriven").number(result.redriven).key("next");
  result.next ? w.number(*result.next) : w.null();
  w.key("ids").begin_array();
  for (const JobId id : result.ids) w.number(id);
  w.end_array().end_object();
}

Result<RedriveResult> decode_redrive_response(std::string_view body) {
  return decode_response(body, kRedriveAnswer);
}

void encode_verify(const VerifyReport& report, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("jobs").number(report.jobs).key("problems").begin_array();
  for (const std::string& problem : report.problems) w.string(problem);
  w.end_array().end_object();
}

Result<VerifyReport> decode_verify(std::string_view body) {
  return decode_response(body, kVerify);
}

void encode_error(const Error& error, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("error").begin_object().key("code").string(error.name());
  w.key("message").string(error.message);
  if (!error.field.empty()) w.key("field").string(error.field);
  if (error.retry_after_ms != 0) w.key("retry_after_ms").number(error.retry_after_ms);
  w.end_object().end_object();
}

Error decode_error(int http_status, std::string_view body) {
  constexpr std::size_t kShownBytes = 200;
  WireError wire;
  JsonReader in(body, JsonReader::Unknown::skip);
  const bool ours = in.object(kErrorBody, wire) && in.end() && wire.given;
  const ErrorInfo* row = ours ? find_error(wire.code) : nullptr;
  if (row == nullptr) {
    const auto* found =
        std::find_if(std::begin(kAllCodes), std::end(kAllCodes),
                     [&](ErrorCode code) { return info(code).http_status == http_status; });
    row = &info(found == std::end(kAllCodes) ? ErrorCode::internal : *found);
  }
  if (ours) return Error{row->code, wire.message, wire.field, wire.retry_after_ms};
  return Error{
      .code = row->code,
      .message = fmt::format("HTTP status {}: {}", http_status, cut_text(body, kShownBytes))};
}

std::vector<std::string_view> admin_request_fields(std::string_view schema) {
  if (schema == "RedriveRequest") return field_names(kRedriveRequest);
  if (schema == "RetentionRequest") return field_names(kRetentionRequest);
  if (schema == "Retention") return field_names(kRetention);
  return {};
}

std::vector<std::string_view> request_fields(std::string_view schema) {
  for (auto* of : {&job_request_fields, &work_request_fields, &admin_request_fields,
                   &lease_request_fields, &session_request_fields, &schedule_request_fields,
                   &schedule_call_fields, &access_request_fields, &workflow_request_fields,
                   &workflow_call_fields, &trigger_request_fields, &breaker_request_fields,
                   &redrive_request_fields, &job_edit_request_fields, &search_request_fields,
                   &bulk_request_fields, &mark_request_fields}) {
    auto names = of(schema);
    if (!names.empty()) return names;
  }
  return {};
}

}  // namespace mainspring
