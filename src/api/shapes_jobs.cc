// The shapes to enqueue, read, list, cancel and retry jobs.
#include <fmt/format.h>

#include <charconv>

#include "api/callback_shapes.h"
#include "api/fields.h"
#include "api/follow_ups.h"
#include "api/program_end.h"
#include "api/schedule_fields.h"
#include "api/shapes.h"
#include "base/mutant.h"

namespace mainspring {
namespace {

// -- the enqueue request

bool read_on_conflict(JsonReader& in, Unique& unique) {
  std::string text;
  if (!in.string(text)) return false;
  const auto policy = parse_on_conflict(text);
  if (!policy) return in.fail_value("must be \"keep\", \"replace\" or \"postpone\"");
  unique.on_conflict = *policy;
  return true;
}

constexpr JsonField<Unique> kUnique[] = {
    {"key", &as_string<&Unique::key>},
    {"for", &as_duration<&Unique::window>},
    {"on_conflict", &read_on_conflict},
};

bool read_unique(JsonReader& in, NewJob& job) {
  if (in.null()) return true;
  Unique& unique = job.unique.emplace();
  return in.object(kUnique, unique) && (!unique.key.empty() || in.missing("key"));
}

bool read_tags(JsonReader& in, NewJob& job) {
  return in.null() || read_strings(in, job.tags, kMaxTags);
}

template <class T>
bool read_on_dead(JsonReader& in, T& job) {
  std::string text;
  if (in.null()) return true;
  if (!in.string(text)) return false;
  const auto policy = parse_on_dead(text);
  if (!policy) return in.fail_value("must be \"skip\", \"block\" or \"park\"");
  job.on_dead = *policy;
  return true;
}

template <class T>
bool read_on_expiry(JsonReader& in, T& job) {
  std::string text;
  if (in.null()) return true;
  if (!in.string(text)) return false;
  const auto policy = parse_on_expiry(text);
  if (!policy) return in.fail_value("must be \"cancel\" or \"dead\"");
  job.on_expiry = *policy;
  return true;
}

// null = no session; an empty key is refused, as it would mean the same.
bool read_session(JsonReader& in, NewJob& job) {
  if (in.null()) return true;
  if (!in.string(job.session)) return false;
  return !job.session.empty() || in.fail_here("must not be empty; leave it out");
}

// Follow-ups of reply_to get their queue at the end, as reply_to may come after them.
bool read_reply_expires_in(JsonReader& in, NewJob& job) {
  Duration after{0};
  if (in.null()) return true;
  if (!in.duration(after)) return false;
  add_reply_expiry(job, after);
  return true;
}

bool read_reply_progress(JsonReader& in, NewJob& job) {
  bool asked = false;
  if (!in.null() && !in.boolean(asked)) return false;
  if (asked) job.follow_ups.push_back({.queue = "", .kind = "progress", .on = FollowUp::kProgress});
  return true;
}

bool settle_reply_progress(JsonReader& in, NewJob& job) {
  std::optional<Duration> expires_in;
  for (const FollowUp& follow_up : job.follow_ups) {
    if (follow_up.queue.empty() && follow_up.expires_in) expires_in = follow_up.expires_in;
  }
  for (FollowUp& follow_up : job.follow_ups) {
    if (!follow_up.queue.empty()) continue;
    if (job.reply_to.empty()) {
      const std::string name =
          follow_up.on == FollowUp::kProgress ? "reply_progress" : "reply_expires_in";
      const std::string at = in.path();
      return in.fail(ErrorCode::invalid_argument, name + ": is for replies, and needs reply_to",
                     at.empty() ? name : at + "." + name);
    }
    follow_up.queue = job.reply_to;
    follow_up.session = job.reply_session;
    follow_up.expires_in = expires_in;
  }
  return true;
}

constexpr JsonField<NewJob> kNewJob[] = {
    {"queue", &as_string<&NewJob::queue>},
    {"kind", &as_string<&NewJob::kind>},
    {"args", &as_raw<&NewJob::args>},
    {"delay", &as_optional_duration<&NewJob::delay>},
    {"run_at", &as_optional_time<&NewJob::run_at>},
    {"priority", &as_integer<&NewJob::priority, 0, kLowestPriority>},
    {"max_attempts", &as_integer<&NewJob::max_attempts, 1, kMaxMaxAttempts>},
    {"unique", &read_unique},
    {"expires_in", &as_optional_duration<&NewJob::expires_in>},
    {"on_expiry", &read_on_expiry<NewJob>},
    {"timeout", [](JsonReader& in, NewJob& job) { return read_limit(in, job.timeout); }},
    {"tags", &read_tags},
    {"headers", &as_optional_string_map<&NewJob::headers>},
    {"correlation_id", &as_optional_string<&NewJob::correlation_id>},
    {"reply_to", &as_optional_string<&NewJob::reply_to>},
    {"then", [](JsonReader& in, NewJob& job) { return read_then(in, job.follow_ups); }},
    {"callback", [](JsonReader& in, NewJob& job) { return read_callback(in, job.follow_ups); }},
    {"session", &read_session},
    {"session_on_dead", &read_on_dead<NewJob>},
    {"reply_session", &as_optional_string<&NewJob::reply_session>},
    {"limit_key", &as_optional_string<&NewJob::limit_key>},
    {"reply_progress", &read_reply_progress},
    {"reply_expires_in", &read_reply_expires_in},
};

// Checks of a job beyond its members.
bool check_new_job(JsonReader& in, NewJob& job) {
  if (job.kind.empty()) return in.missing("kind");
  if (!settle_reply_progress(in, job)) return false;
  if (validate(job)) return true;
  std::string prefix = in.path();
  if (!prefix.empty()) prefix += '.';
  Error error = validate(job, prefix).error();
  return in.fail(error.code, std::move(error.message), error.field);
}

}  // namespace

bool read_new_job(JsonReader& in, NewJob& job) {
  return in.object(kNewJob, job) && check_new_job(in, job);
}

bool read_kept_job(JsonReader& in, NewJob& job) {
  return in.object(kNewJob, job) && (!job.kind.empty() || in.missing("kind")) &&
         settle_reply_progress(in, job);
}

namespace {

constexpr JsonField<Fence> kFence[] = {
    {"lease", &as_string<&Fence::lease>},
    {"token", &as_id<&Fence::token>},
};

bool read_fence(JsonReader& in, Enqueue& request) {
  Fence& fence = request.fence;
  if (in.null()) return true;
  if (!in.object(kFence, fence)) return false;
  if (fence.lease.empty()) return in.missing("lease");
  if (auto good = check_name("lease", fence.lease); !good)
    return in.fail(good.error().code, good.error().message, in.path("lease"));
  if (fence.token == 0) return in.missing("token");
  if (MS_MUTANT(fence_dropped)) fence = {};
  return true;
}

bool read_jobs(JsonReader& in, Enqueue& request) {
  return in.array(kMaxEnqueueJobs, [&](std::size_t i) {
    // Jobs of a batch are often of one size: estimate their number from the first.
    if (i == 1) request.jobs.reserve(in.remaining() / (in.consumed() + 1) + 2);
    return read_new_job(in, request.jobs.emplace_back());
  });
}

constexpr JsonField<Enqueue> kJobs[] = {
    {"jobs", &read_jobs},
    {"fence", &read_fence},
};

// A single job has a fence next to its members: NewJob's table and one more row.
template <std::size_t Row>
bool read_single_member(JsonReader& in, Enqueue& request) {
  return kNewJob[Row].read(in, request.jobs.front());
}
struct SingleTable {
  JsonField<Enqueue> fields[std::size(kNewJob) + 1];
};
template <std::size_t... Row>
constexpr SingleTable make_single_table(std::index_sequence<Row...>) {
  return {{{kNewJob[Row].name, &read_single_member<Row>}..., {"fence", &read_fence}}};
}
constexpr SingleTable kSingle = make_single_table(std::make_index_sequence<std::size(kNewJob)>());

// Returns whether the first member's name begins with `name`.
bool begins_with(std::string_view body, std::string_view name) {
  const auto skip_space = [&] {
    const std::size_t at = body.find_first_not_of(" \t\r\n");
    body.remove_prefix(at == std::string_view::npos ? body.size() : at);
  };
  skip_space();
  if (!body.starts_with('{')) return false;
  body.remove_prefix(1);
  skip_space();
  return body.starts_with(name);
}

struct Seen {
  bool jobs = false;
};
constexpr JsonField<Seen> kSeen[] = {
    {"jobs", [](JsonReader& in, Seen& seen) { return (seen.jobs = true) && in.skip(); }},
};

// Returns whether the body has many jobs. Usually the first member decides; a fence may come first.
bool is_many(std::string_view body) {
  if (begins_with(body, "\"jobs\"")) return true;
  if (!begins_with(body, "\"fence\"")) return false;
  JsonReader in(body, JsonReader::Unknown::skip);
  Seen seen;
  return in.object(kSeen, seen) && seen.jobs;
}

void write_fence(JsonWriter& w, const Fence& fence) {
  if (fence.lease.empty()) return;
  w.key("fence").begin_object().key("lease").string(fence.lease);
  w.key("token").number(fence.token).end_object();
}

// Of a NewJob or a Job, without default values.
template <class T>
void write_sessions(JsonWriter& w, const T& job) {
  if (!job.reply_session.empty()) w.key("reply_session").string(job.reply_session);
  if (!job.session.empty()) w.key("session").string(job.session);
  if (job.on_dead != OnDead::skip) w.key("session_on_dead").string(to_string(job.on_dead));
  if (!job.limit_key.empty()) w.key("limit_key").string(job.limit_key);
}

template <class T>
void write_on_expiry(JsonWriter& w, const T& job) {
  if (job.on_expiry != OnExpiry::cancel) w.key("on_expiry").string(to_string(job.on_expiry));
}

void write_job_and_fence(JsonWriter& w, const NewJob& job, const Fence& fence) {
  w.begin_object().key("queue").string(job.queue).key("kind").string(job.kind);
  w.key("args").raw(job.args.empty() ? "{}" : job.args);
  if (job.delay) w.key("delay").duration(*job.delay);
  if (job.run_at) w.key("run_at").time(*job.run_at);
  const NewJob standard;
  if (job.priority != standard.priority) w.key("priority").number(job.priority);
  if (job.max_attempts != standard.max_attempts) w.key("max_attempts").number(job.max_attempts);
  if (job.unique) {
    w.key("unique").begin_object().key("key").string(job.unique->key);
    if (job.unique->window.count() != 0) w.key("for").duration(job.unique->window);
    w.key("on_conflict").string(to_string(job.unique->on_conflict)).end_object();
  }
  if (job.expires_in) w.key("expires_in").duration(*job.expires_in);
  write_on_expiry(w, job);
  if (job.timeout != standard.timeout) w.key("timeout").duration(job.timeout);
  if (!job.tags.empty()) {
    w.key("tags").begin_array();
    for (const std::string& tag : job.tags) w.string(tag);
    w.end_array();
  }
  if (!job.headers.empty()) w.key("headers").raw(job.headers);
  if (!job.correlation_id.empty()) w.key("correlation_id").string(job.correlation_id);
  if (!job.reply_to.empty()) w.key("reply_to").string(job.reply_to);
  write_sessions(w, job);
  write_follow_up_fields(w, job.follow_ups);
  write_fence(w, fence);
  w.end_object();
}

}  // namespace

void write_new_job(JsonWriter& w, const NewJob& job) {
  write_job_and_fence(w, job, {});
}

namespace {

// -- the enqueue response

constexpr JsonField<EnqueuedJob> kEnqueuedJob[] = {
    {"id", &as_id<&EnqueuedJob::id>},
    {"state", &as_state<&EnqueuedJob::state>},
    {"duplicate", &as_boolean<&EnqueuedJob::duplicate>},
};

void write_enqueued(JsonWriter& w, const EnqueuedJob& job) {
  w.begin_object().key("id").number(job.id).key("state").string(to_string(job.state));
  if (job.duplicate) w.key("duplicate").boolean(true);
}

struct EnqueueAnswer {
  EnqueueResult result;
  EnqueuedJob single;
  bool many = false;
};
constexpr JsonField<EnqueueAnswer> kEnqueueAnswer[] = {
    {"id", [](JsonReader& in, EnqueueAnswer& a) { return kEnqueuedJob[0].read(in, a.single); }},
    {"state", [](JsonReader& in, EnqueueAnswer& a) { return kEnqueuedJob[1].read(in, a.single); }},
    {"duplicate",
     [](JsonReader& in, EnqueueAnswer& a) { return kEnqueuedJob[2].read(in, a.single); }},
    {"jobs",
     [](JsonReader& in, EnqueueAnswer& a) {
       a.many = true;
       return in.array(kMaxEnqueueJobs, [&](std::size_t) {
         EnqueuedJob& job = a.result.jobs.emplace_back();
         return in.object(kEnqueuedJob, job) && (job.id != 0 || in.missing("id"));
       });
     }},
    {"replayed", [](JsonReader& in, EnqueueAnswer& a) { return in.boolean(a.result.replayed); }},
};

// -- a job

constexpr JsonField<Progress> kProgress[] = {
    {"value", [](JsonReader& in, Progress& p) { return in.number(p.value, 0, 1); }},
    {"text", &as_optional_string<&Progress::text>},
};
constexpr JsonField<AttemptError> kAttemptError[] = {
    {"attempt", &as_integer<&AttemptError::attempt, 0, INT_MAX>},
    {"at", &as_time<&AttemptError::at>},
    {"worker", &as_string<&AttemptError::worker>},
    {"message", &as_optional_string<&AttemptError::message>},
    {"after_ms", &as_milliseconds<&AttemptError::ran_for>},
    {"exit_code", &as_exit_code<&AttemptError::program>},
    {"signal", &as_signal<&AttemptError::program>},
    {"oom", &as_oom<&AttemptError::program>},
    {"peak_memory", &as_peak_memory<&AttemptError::program>},
};

bool read_errors(JsonReader& in, Job& job) {
  return in.array(kMaxResponseEntries,
                  [&](std::size_t) { return in.object(kAttemptError, job.errors.emplace_back()); });
}

constexpr JsonField<Quarantine> kQuarantine[] = {
    {"since", &as_time<&Quarantine::since>},
    {"lost", &as_integer<&Quarantine::lost, 0, INT_MAX>},
    {"released", &as_boolean<&Quarantine::released>},
};
constexpr JsonField<Job> kJob[] = {
    {"id", &as_id<&Job::id>},
    {"queue", &as_string<&Job::queue>},
    {"kind", &as_string<&Job::kind>},
    {"state", &as_state<&Job::state>},
    {"args", &as_raw<&Job::args>},
    {"args_omitted",
     [](JsonReader& in, Job& job) {
       std::int64_t bytes = 0;
       if (!in.integer(bytes, 0, INT64_MAX)) return false;
       job.args_omitted = static_cast<std::size_t>(bytes);
       return true;
     }},
    {"priority", &as_integer<&Job::priority, 0, kLowestPriority>},
    {"run_at", &as_time<&Job::run_at>},
    {"attempt", &as_integer<&Job::attempt, 0, INT_MAX>},
    {"max_attempts", &as_integer<&Job::max_attempts, 0, INT_MAX>},
    {"token", &as_count<&Job::token>},
    {"version", &as_count<&Job::version>},
    {"worker", &as_string<&Job::worker>},
    {"cancel_requested", &as_boolean<&Job::cancel_requested>},
    {"unique_key", &as_string<&Job::unique_key>},
    {"headers", &as_optional_raw<&Job::headers>},
    {"tags", [](JsonReader& in, Job& job) { return read_strings(in, job.tags, kMaxTags); }},
    {"correlation_id", &as_string<&Job::correlation_id>},
    {"reply_to", &as_string<&Job::reply_to>},
    {"reply_session", &as_string<&Job::reply_session>},
    {"session", &as_string<&Job::session>},
    {"session_on_dead", &read_on_dead<Job>},
    {"limit_key", &as_string<&Job::limit_key>},
    {"deferred", &as_boolean<&Job::deferred>},
    {"quarantined",
     [](JsonReader& in, Job& job) {
       return in.null() || in.object(kQuarantine, job.quarantined.emplace());
     }},
    {"then", [](JsonReader& in, Job& job) { return read_follow_ups(in, job.follow_ups); }},
    {"callback", [](JsonReader& in, Job& job) { return read_shown_callback(in, job.follow_ups); }},
    {"timeout", [](JsonReader& in, Job& job) { return read_limit(in, job.timeout); }},
    {"expires_at", &as_optional_time<&Job::expires_at>},
    {"on_expiry", &read_on_expiry<Job>},
    {"trigger_depth", &as_integer<&Job::trigger_depth, 0, INT_MAX>},
    {"created_at", &as_time<&Job::created_at>},
    {"started_at", &as_optional_time<&Job::started_at>},
    {"finished_at", &as_optional_time<&Job::finished_at>},
    {"progress",
     [](JsonReader& in, Job& job) {
       return in.null() || in.object(kProgress, job.progress.emplace());
     }},
    {"warning", &as_optional_string<&Job::warning>},
    {"checkpoint", &as_optional_raw<&Job::checkpoint>},
    {"result", &as_optional_raw<&Job::result>},
    {"reason", &as_string<&Job::reason>},
    {"description", &as_optional_string<&Job::description>},
    {"errors", &read_errors},
};

bool read_job(JsonReader& in, Job& job) {
  if (!in.object(kJob, job)) return false;
  if (job.args_omitted != 0) job.args.clear();
  return job.id != 0 || in.missing("id");
}

void write_optional(JsonWriter& w, std::string_view key, const std::string& text) {
  if (!text.empty()) w.key(key).string(text);
}
void write_optional_raw(JsonWriter& w, std::string_view key, const std::string& json) {
  if (!json.empty()) w.key(key).raw(json);
}
void write_optional_time(JsonWriter& w, std::string_view key, const std::optional<WallTime>& t) {
  if (t) w.key(key).time(*t);
}

// null = present but not shown.
void write_text(JsonWriter& w, std::string_view key, const std::string& text, Payload payload) {
  w.key(key);
  payload == Payload::masked ? w.null() : w.string(text);
}
void write_payload(JsonWriter& w, std::string_view key, const std::string& json, Payload payload) {
  if (!json.empty()) w.key(key).raw(payload == Payload::masked ? "null" : std::string_view(json));
}

void write_job_end(JsonWriter& w, const Job& job, Payload payload, Payload of_result) {
  if (!job.warning.empty()) write_text(w, "warning", job.warning, payload);
  write_payload(w, "checkpoint", job.checkpoint, payload);
  write_payload(w, "result", job.result, of_result);
  w.key("errors").begin_array();
  for (const AttemptError& error : job.errors) {
    w.begin_object().key("attempt").number(error.attempt).key("at").time(error.at);
    w.key("worker").string(error.worker);
    write_text(w, "message", error.message, payload);
    w.key("after_ms").milliseconds(error.ran_for);
    write_program_end(w, error.program);
    w.end_object();
  }
  w.end_array();
}

// The part of a job for callers that wait for it.
void write_outcome(JsonWriter& w, const Job& job, JobDetail detail) {
  w.begin_object().key("id").number(job.id).key("queue").string(job.queue);
  w.key("state").string(to_string(job.state));
  if (detail == JobDetail::outcome) write_optional_raw(w, "result", job.result);
  w.key("masked").boolean(true).end_object();
}

void write_job(JsonWriter& w, const Job& job, JobDetail detail, Payload payload) {
  if (detail == JobDetail::outcome || detail == JobDetail::state) {
    return write_outcome(w, job, detail);
  }
  w.begin_object().key("id").number(job.id).key("queue").string(job.queue);
  w.key("kind").string(job.kind).key("state").string(to_string(job.state));
  if (job.args_omitted != 0) {
    w.key("args").null().key("args_omitted").number(static_cast<std::int64_t>(job.args_omitted));
  } else {
    write_payload(w, "args", job.args.empty() ? "{}" : job.args, payload);
  }
  w.key("priority").number(job.priority).key("run_at").time(job.run_at);
  w.key("attempt").number(job.attempt).key("max_attempts").number(job.max_attempts);
  if (job.token != 0) w.key("token").number(job.token);
  w.key("version").number(job.version);
  write_optional(w, "worker", job.worker);
  if (job.cancel_requested) w.key("cancel_requested").boolean(true);
  if (job.deferred) w.key("deferred").boolean(true);
  if (job.quarantined) {
    w.key("quarantined").begin_object().key("since").time(job.quarantined->since);
    w.key("lost").number(job.quarantined->lost);
    w.key("released").boolean(job.quarantined->released).end_object();
  }
  write_optional(w, "unique_key", job.unique_key);
  write_payload(w, "headers", job.headers, payload);
  w.key("tags").begin_array();
  for (const std::string& tag : job.tags) w.string(tag);
  w.end_array();
  write_optional(w, "correlation_id", job.correlation_id);
  write_optional(w, "reply_to", job.reply_to);
  write_sessions(w, job);
  write_follow_up_fields(w, job.follow_ups, payload);
  w.key("timeout").duration(job.timeout);
  write_optional_time(w, "expires_at", job.expires_at);
  write_on_expiry(w, job);
  if (job.trigger_depth != 0) w.key("trigger_depth").number(job.trigger_depth);
  w.key("created_at").time(job.created_at);
  write_optional_time(w, "started_at", job.started_at);
  write_optional_time(w, "finished_at", job.finished_at);
  if (job.progress) {
    w.key("progress").begin_object().key("value").real(job.progress->value);
    write_text(w, "text", job.progress->text, payload);
    w.end_object();
  }
  write_optional(w, "reason", job.reason);
  if (!job.description.empty()) write_text(w, "description", job.description, payload);
  if (detail == JobDetail::full) write_job_end(w, job, payload, payload);
  if (detail == JobDetail::full_with_result) write_job_end(w, job, payload, Payload::shown);
  if (payload == Payload::masked) w.key("masked").boolean(true);
  w.end_object();
}

struct JobPageAnswer {
  JobPage page;
  std::string cursor;
};
constexpr JsonField<JobPageAnswer> kJobPage[] = {
    {"jobs",
     [](JsonReader& in, JobPageAnswer& answer) {
       return in.array(kMaxResponseEntries,
                       [&](std::size_t) { return read_job(in, answer.page.jobs.emplace_back()); });
     }},
    {"next_cursor", &as_optional_string<&JobPageAnswer::cursor>},
    {"examined",
     [](JsonReader& in, JobPageAnswer& answer) {
       return in.integer(answer.page.examined, std::int64_t{0}, INT64_MAX);
     }},
    {"of",
     [](JsonReader& in, JobPageAnswer& answer) {
       return in.integer(answer.page.of, std::int64_t{0}, INT64_MAX);
     }},
};

constexpr JsonField<Cancel> kCancelRequest[] = {
    {"reason",
     [](JsonReader& in, Cancel& c) { return in.null() || in.text(c.reason, kMaxTextBytes); }},
};
constexpr JsonField<CancelResult> kCancelAnswer[] = {
    {"state", &as_state<&CancelResult::state>},
    {"cancel_requested", &as_boolean<&CancelResult::cancel_requested>},
    {"worker", &as_string<&CancelResult::worker>},
};
constexpr JsonField<RetryResult> kRetryAnswer[] = {
    {"state", &as_state<&RetryResult::state>},
};

}  // namespace

Result<EnqueueRequest> decode_enqueue_request(std::string_view body) {
  JsonReader in(body, JsonReader::Unknown::refuse);
  EnqueueRequest request;
  request.single = !is_many(body);
  if (request.single) {
    NewJob& job = request.operation.jobs.emplace_back();
    if (!in.object(kSingle.fields, request.operation) || !check_new_job(in, job)) return in.error();
  } else {
    if (!in.object(kJobs, request.operation)) return in.error();
    if (request.operation.jobs.empty()) return invalid("jobs", "jobs: must not be empty");
  }
  if (!in.end()) return in.error();
  return request;
}

void encode_enqueue_request(const Enqueue& request, std::string& out) {
  JsonWriter w(out);
  if (request.jobs.size() == 1) return write_job_and_fence(w, request.jobs.front(), request.fence);
  w.begin_object().key("jobs").begin_array();
  for (const NewJob& job : request.jobs) write_new_job(w, job);
  w.end_array();
  write_fence(w, request.fence);
  w.end_object();
}

void encode_enqueue_response(const EnqueueResult& result, bool single, std::string& out) {
  JsonWriter w(out);
  if (single && result.jobs.size() == 1) {
    write_enqueued(w, result.jobs.front());
  } else {
    out.reserve(out.size() + 48 * result.jobs.size() + 64);
    w.begin_object().key("jobs").begin_array();
    for (const EnqueuedJob& job : result.jobs) {
      write_enqueued(w, job);
      w.end_object();
    }
    w.end_array();
  }
  if (result.replayed) w.key("replayed").boolean(true);
  w.end_object();
}

Result<EnqueueResult> decode_enqueue_response(std::string_view body) {
  MS_TRY_ASSIGN(EnqueueAnswer answer, decode_response(body, kEnqueueAnswer));
  if (!answer.many) {
    if (answer.single.id == 0) return bad_response(invalid("id", "id: must be given"));
    answer.result.jobs.push_back(answer.single);
  }
  return std::move(answer.result);
}

void encode_job(const Job& job, JobDetail detail, std::string& out, Payload payload) {
  JsonWriter w(out);
  write_job(w, job, detail, payload);
}

Result<Job> decode_job(std::string_view body) {
  JsonReader in(body, JsonReader::Unknown::skip);
  Job job;
  if (!read_job(in, job) || !in.end()) return bad_response(in.error());
  return job;
}

void encode_job_page(const JobPage& page, std::string& out, const Within& payloads) {
  JsonWriter w(out);
  w.begin_object().key("jobs").begin_array();
  for (const Job& job : page.jobs) {
    const bool shown = payloads.has(job.queue) || MS_MUTANT(mask_forgotten_in_list);
    write_job(w, job, JobDetail::summary, shown ? Payload::shown : Payload::masked);
  }
  w.end_array().key("next_cursor");
  page.next ? w.string(encode_cursor(*page.next)) : w.null();
  w.key("examined").number(page.examined).key("of").number(page.of).end_object();
}

Result<JobPage> decode_job_page(std::string_view body) {
  MS_TRY_ASSIGN(JobPageAnswer answer, decode_response(body, kJobPage));
  if (!answer.cursor.empty()) {
    auto next = decode_cursor(answer.cursor);
    if (!next) return bad_response(next.error());
    answer.page.next = *next;
  }
  return std::move(answer.page);
}

std::string encode_cursor(JobId before) {
  return fmt::to_string(before);
}

Result<JobId> decode_cursor(std::string_view cursor) {
  JobId id = 0;
  if (cursor.empty()) return id;
  const char* const end = cursor.data() + cursor.size();
  const auto [last, problem] = std::from_chars(cursor.data(), end, id);
  if (problem != std::errc() || last != end || id < 1) {
    return invalid("cursor", fmt::format("cursor \"{}\": must be a next_cursor of an earlier page",
                                         cut_text(cursor, 64)));
  }
  return id;
}

Result<Cancel> decode_cancel_request(JobId id, std::string_view body) {
  if (body.empty()) return Cancel{.id = id};
  return decode_request(body, kCancelRequest, Cancel{.id = id});
}

void encode_cancel_request(const Cancel& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("reason").string(request.reason).end_object();
}

void encode_cancel_response(JobId id, const CancelResult& result, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("id").number(id).key("state").string(to_string(result.state));
  if (result.cancel_requested) w.key("cancel_requested").boolean(true);
  write_optional(w, "worker", result.worker);
  w.end_object();
}

Result<CancelResult> decode_cancel_response(std::string_view body) {
  return decode_response(body, kCancelAnswer);
}

void encode_retry_response(JobId id, const RetryResult& result, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("id").number(id).key("state").string(to_string(result.state)).end_object();
}

Result<RetryResult> decode_retry_response(std::string_view body) {
  return decode_response(body, kRetryAnswer);
}

std::vector<std::string_view> job_request_fields(std::string_view schema) {
  if (schema == "NewJob") return field_names(kNewJob);
  if (schema == "Unique") return field_names(kUnique);
  if (schema == "SingleJob") return field_names(kSingle.fields);
  if (schema == "FollowUp") return follow_up_fields();
  if (schema == "Callback") return callback_fields();
  if (schema == "Fence") return field_names(kFence);
  if (schema == "EnqueueRequest") return field_names(kJobs);
  if (schema == "CancelRequest") return field_names(kCancelRequest);
  return {};
}

}  // namespace mainspring
