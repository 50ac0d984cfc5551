// The shapes of requests and answers about schedules: put, state, ticks, ledger.
#include <fmt/format.h>

#include <algorithm>
#include <climits>

#include "api/schedule_fields.h"
#include "api/schedule_shapes.h"
#include "api/shapes.h"
#include "base/mutant.h"

namespace mainspring {
namespace {

// -- put

bool read_paused(JsonReader& in, PutScheduleRequest& request) {
  if (in.null()) return true;
  if (!in.boolean(request.paused.emplace())) return false;
  if (MS_MUTANT(paused_dropped)) request.paused.reset();
  return true;
}
bool read_restart_count(JsonReader& in, PutScheduleRequest& request) {
  bool restart = false;
  if (in.null()) return true;
  if (!in.boolean(restart)) return false;
  if (restart) request.runs = RunCount::restart;
  return true;
}
constexpr JsonField<PutScheduleRequest> kPutOnly[] = {{"paused", &read_paused},
                                                      {"restart_count", &read_restart_count}};
constexpr auto kPutSchedule = with_part<kScheduleFields, &PutScheduleRequest::schedule>(kPutOnly);

struct PutAnswer {
  PutScheduleResult result;
  bool outcome_given = false;
};
constexpr PutOutcome kOutcomes[] = {PutOutcome::created, PutOutcome::replaced,
                                    PutOutcome::unchanged};
bool read_schedule_outcome(JsonReader& in, PutAnswer& answer) {
  std::string text;
  if (!in.string(text)) return false;
  for (const PutOutcome outcome : kOutcomes) {
    if (text != to_string(outcome)) continue;
    answer.result.outcome = outcome;
    answer.outcome_given = true;
    return true;
  }
  return in.fail_here("is not an outcome");
}
constexpr JsonField<PutAnswer> kPutAnswer[] = {
    {"outcome", &read_schedule_outcome},
    {"version",
     [](JsonReader& in, PutAnswer& a) {
       return in.integer(a.result.version, std::int64_t{1}, INT64_MAX);
     }},
};

// -- state

// null = never.
template <auto Member>
bool as_time_or_never(JsonReader& in, ScheduleInfo& info) {
  return in.null() || in.wall_time(info.*Member);
}
constexpr JsonField<ScheduleInfo> kScheduleState[] = {
    {"version", &as_id<&ScheduleInfo::version>},
    {"paused", &as_boolean<&ScheduleInfo::paused>},
    {"paused_reason", &as_string<&ScheduleInfo::paused_reason>},
    {"problem", &as_string<&ScheduleInfo::problem>},
    {"next", &as_time_or_never<&ScheduleInfo::next>},
    {"next_fire", &as_time_or_never<&ScheduleInfo::next_fire>},
    {"remaining",
     [](JsonReader& in, ScheduleInfo& info) {
       return in.null() || in.integer(info.remaining.emplace(), std::int64_t{0}, INT64_MAX);
     }},
    {"fired", &as_count<&ScheduleInfo::fired>},
    {"last_fired", &as_optional_time<&ScheduleInfo::last_fired>},
    {"last_job", &as_count<&ScheduleInfo::last_job>},
    {"live",
     [](JsonReader& in, ScheduleInfo& info) {
       return in.array(kMaxResponseEntries, [&](std::size_t) {
         return in.integer(info.live.emplace_back(), std::int64_t{1}, INT64_MAX);
       });
     }},
    {"buffered", &as_integer<&ScheduleInfo::buffered, 0, INT_MAX>},
    {"timeout_override", &as_optional_duration<&ScheduleInfo::timeout_override>},
    {"created_at", &as_time<&ScheduleInfo::created_at>},
    {"updated_at", &as_time<&ScheduleInfo::updated_at>},
};
constexpr auto kScheduleInfo = with_part<kScheduleFields, &ScheduleInfo::schedule>(kScheduleState);

bool read_info(JsonReader& in, ScheduleInfo& info) {
  return in.object(kScheduleInfo.fields, info) &&
         (!info.schedule.name.empty() || in.missing("name"));
}

constexpr JsonField<NamePage<ScheduleInfo>> kSchedules[] = {
    {"schedules",
     [](JsonReader& in, NamePage<ScheduleInfo>& page) {
       return in.array(kMaxResponseEntries,
                       [&](std::size_t) { return read_info(in, page.items.emplace_back()); });
     }},
    {"next", &as_optional_string<&NamePage<ScheduleInfo>::next>},
};

void write_time_or_never(JsonWriter& w, std::string_view key, WallTime time) {
  w.key(key);
  time == WallTime::never() ? w.null() : w.time(time);
}

void write_schedule_info(JsonWriter& w, const ScheduleInfo& info, Payload payload) {
  if (payload == Payload::masked) {
    Schedule shown = info.schedule;
    shown.job.args = "null";
    if (!shown.job.headers.empty()) shown.job.headers = "null";
    for (FollowUp& one : shown.job.follow_ups) one.data = one.data.empty() ? "" : "null";
    write_definition(w, shown);
    w.key("masked").boolean(true);
  } else {
    write_definition(w, info.schedule);
  }
  w.key("version").number(info.version).key("paused").boolean(info.paused);
  if (!info.paused_reason.empty()) w.key("paused_reason").string(info.paused_reason);
  if (!info.problem.empty()) w.key("problem").string(info.problem);
  write_time_or_never(w, "next", info.next);
  write_time_or_never(w, "next_fire", info.next_fire);
  if (info.remaining) w.key("remaining").number(*info.remaining);
  w.key("fired").number(info.fired);
  if (info.last_fired) w.key("last_fired").time(*info.last_fired);
  if (info.last_job != 0) w.key("last_job").number(info.last_job);
  w.key("live").begin_array();
  for (std::size_t i = 0; i < std::min(info.live.size(), kMaxLiveShown); ++i)
    w.number(info.live[i]);
  w.end_array().key("live_count").number(static_cast<std::int64_t>(info.live.size()));
  w.key("buffered").number(info.buffered);
  if (info.timeout_override) w.key("timeout_override").duration(*info.timeout_override);
  w.key("created_at").time(info.created_at).key("updated_at").time(info.updated_at);
}

// -- pause, trigger, timer, backfill

constexpr JsonField<PauseSchedule> kPause[] = {
    {"reason", [](JsonReader& in,
                  PauseSchedule& p) { return in.null() || in.text(p.reason, kMaxTextBytes); }},
};

struct TimerRequest {
  SetTimer operation;
  bool given = false;
};
constexpr JsonField<TimerRequest> kTimer[] = {
    {"timeout",
     [](JsonReader& in, TimerRequest& r) {
       r.given = true;
       if (in.null()) return true;
       if (!in.duration(r.operation.timeout)) return false;
       return r.operation.timeout.count() > 0 ||
              in.fail_value("must be more than 0, or null for the timer's own");
     }},
};

bool read_optional_overlap(JsonReader& in, std::optional<Overlap>& out) {
  return in.null() || read_overlap_word(in, out.emplace());
}
struct TriggerRequest {
  std::optional<Overlap> overlap;
};
constexpr JsonField<TriggerRequest> kTriggerRequest[] = {
    {"overlap",
     [](JsonReader& in, TriggerRequest& r) { return read_optional_overlap(in, r.overlap); }},
};
struct TriggerAnswer {
  JobId job = 0;
};
constexpr JsonField<TriggerAnswer> kTriggerAnswer[] = {{"job", &as_id<&TriggerAnswer::job>}};

constexpr JsonField<BackfillRequest> kBackfill[] = {
    {"from", &as_optional_time<&BackfillRequest::from>},
    {"to", &as_optional_time<&BackfillRequest::to>},
    {"overlap",
     [](JsonReader& in, BackfillRequest& r) { return read_optional_overlap(in, r.overlap); }},
};
constexpr JsonField<BackfillResponse> kBackfillAnswer[] = {
    {"fired", &as_integer<&BackfillResponse::fired, 0, INT_MAX>},
    {"skipped", &as_integer<&BackfillResponse::skipped, 0, INT_MAX>},
    {"next", &as_optional_time<&BackfillResponse::next>},
};

// -- preview and ledger

constexpr JsonField<PreviewRequest> kPreview[] = {
    {"schedule",
     [](JsonReader& in, PreviewRequest& r) { return in.object(kScheduleFields, r.schedule); }},
    {"from", &as_optional_time<&PreviewRequest::from>},
    {"count", &as_integer<&PreviewRequest::count, 1, kMaxPreview>},
};
constexpr JsonField<PreviewTick> kPreviewTick[] = {
    {"nominal", &as_time<&PreviewTick::nominal>},
    {"fires_at", &as_time<&PreviewTick::fires_at>},
    {"note", &as_string<&PreviewTick::note>},
};
struct PreviewAnswer {
  std::vector<PreviewTick> ticks;
};
constexpr JsonField<PreviewAnswer> kPreviewAnswer[] = {
    {"ticks",
     [](JsonReader& in, PreviewAnswer& a) {
       return in.array(kMaxResponseEntries, [&](std::size_t) {
         return in.object(kPreviewTick, a.ticks.emplace_back());
       });
     }},
};

bool read_source(JsonReader& in, LedgerRow& row) {
  std::string text;
  if (!in.string(text)) return false;
  const auto source = parse_tick_source(text);
  if (!source) return in.fail_here("is not a source of ticks");
  row.source = *source;
  return true;
}
bool read_tick_state(JsonReader& in, LedgerRow& row) {
  std::string text;
  if (!in.string(text)) return false;
  const auto state = parse_tick_state(text);
  if (!state) return in.fail_here("is not a state of a tick");
  row.state = *state;
  return true;
}
bool read_tick_count(JsonReader& in, LedgerRow& row) {
  if (!in.null()) return in.integer(row.count, std::int64_t{0}, INT64_MAX);
  row.count = 0;
  return true;
}
constexpr JsonField<LedgerRow> kRow[] = {
    {"seq", &as_id<&LedgerRow::seq>},
    {"version", &as_id<&LedgerRow::version>},
    {"nominal", &as_time<&LedgerRow::nominal>},
    {"until", &as_optional_time<&LedgerRow::until>},
    {"count", &read_tick_count},
    {"source", &read_source},
    {"state", &read_tick_state},
    {"past_due", &as_boolean<&LedgerRow::past_due>},
    {"job", &as_count<&LedgerRow::job>},
    {"job_state",
     [](JsonReader& in, LedgerRow& row) {
       return in.null() || read_state(in, row.job_state.emplace());
     }},
    {"reason", &as_string<&LedgerRow::reason>},
    {"note", &as_string<&LedgerRow::note>},
    {"decided_at", &as_time<&LedgerRow::decided_at>},
};
struct LedgerAnswer {
  LedgerPage page;
  std::string cursor;
};
constexpr JsonField<LedgerAnswer> kLedger[] = {
    {"ticks",
     [](JsonReader& in, LedgerAnswer& a) {
       return in.array(kMaxResponseEntries,
                       [&](std::size_t) { return in.object(kRow, a.page.rows.emplace_back()); });
     }},
    {"next_cursor", &as_optional_string<&LedgerAnswer::cursor>},
};

void write_row(JsonWriter& w, const LedgerRow& row) {
  w.begin_object().key("seq").number(row.seq).key("version").number(row.version);
  w.key("nominal").time(row.nominal);
  if (row.until) w.key("until").time(*row.until);
  if (row.count == 0) w.key("count").null();
  if (row.count > 1) w.key("count").number(row.count);
  w.key("source").string(to_string(row.source)).key("state").string(to_string(row.state));
  if (row.past_due) w.key("past_due").boolean(true);
  if (row.job != 0) w.key("job").number(row.job);
  if (row.job_state) w.key("job_state").string(to_string(*row.job_state));
  if (!row.reason.empty()) w.key("reason").string(row.reason);
  if (!row.note.empty()) w.key("note").string(row.note);
  w.key("decided_at").time(row.decided_at).end_object();
}

Error must_be_given(std::string_view field) {
  return invalid(std::string(field), fmt::format("{}: must be given", field));
}

}  // namespace

std::string_view to_string(PutOutcome outcome) {
  switch (outcome) {
    case PutOutcome::created:
      return "created";
    case PutOutcome::replaced:
      return "replaced";
    case PutOutcome::unchanged:
      return "unchanged";
  }
  return "";
}

Result<PutScheduleRequest> decode_put_schedule_request(std::string name, std::string_view body) {
  MS_TRY_ASSIGN(PutScheduleRequest request, decode_request(body, kPutSchedule.fields));
  std::string& given = request.schedule.name;
  if (!given.empty() && given != name) {
    return invalid("name", fmt::format("name \"{}\": must be that of the path, \"{}\", or left out",
                                       cut_text(given, 64), cut_text(name, 64)));
  }
  given = std::move(name);
  return request;
}

void encode_put_schedule_request(const PutScheduleRequest& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  write_definition(w, request.schedule);
  if (request.paused) w.key("paused").boolean(*request.paused);
  if (request.runs == RunCount::restart) w.key("restart_count").boolean(true);
  w.end_object();
}

void encode_schedule_info(const ScheduleInfo& info, std::string& out, Payload payload) {
  JsonWriter w(out);
  w.begin_object();
  write_schedule_info(w, info, payload);
  w.end_object();
}

Result<ScheduleInfo> decode_schedule_info(std::string_view body) {
  JsonReader in(body, JsonReader::Unknown::skip);
  ScheduleInfo info;
  if (!read_info(in, info) || !in.end()) return bad_response(in.error());
  return info;
}

void encode_put_schedule_response(const ScheduleInfo& info, const PutScheduleResult& result,
                                  std::string& out, Payload payload) {
  JsonWriter w(out);
  w.begin_object().key("outcome").string(to_string(result.outcome));
  write_schedule_info(w, info, payload);
  w.end_object();
}

Result<PutScheduleResult> decode_put_schedule_response(std::string_view body) {
  MS_TRY_ASSIGN(PutAnswer answer, decode_response(body, kPutAnswer));
  if (!answer.outcome_given) return bad_response(must_be_given("outcome"));
  return answer.result;
}

void encode_schedules(std::span<const ScheduleInfo> schedules, bool more, std::string& out,
                      const Within& payloads) {
  JsonWriter w(out);
  w.begin_object().key("schedules").begin_array();
  for (const ScheduleInfo& info : schedules) {
    w.begin_object();
    const bool shown = payloads.has(info.schedule.job.queue);
    write_schedule_info(w, info, shown ? Payload::shown : Payload::masked);
    w.end_object();
  }
  w.end_array().key("next");
  more ? w.string(schedules.back().schedule.name) : w.null();
  w.end_object();
}

Result<NamePage<ScheduleInfo>> decode_schedules(std::string_view body) {
  return decode_response(body, kSchedules);
}

void encode_schedule_removed(std::string_view name, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("name").string(name).key("removed").boolean(true).end_object();
}

Result<PauseSchedule> decode_pause_request(std::string name, std::string_view body) {
  PauseSchedule pause{.name = std::move(name), .paused = true, .reason = {}};
  if (body.empty()) return pause;
  return decode_request(body, kPause, std::move(pause));
}

void encode_pause_request(const PauseSchedule& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  if (!request.reason.empty()) w.key("reason").string(request.reason);
  w.end_object();
}

Result<SetTimer> decode_timer_request(std::string name, std::string_view body) {
  MS_TRY_ASSIGN(TimerRequest request, decode_request(body, kTimer));
  if (!request.given) return must_be_given("timeout");
  request.operation.name = std::move(name);
  return std::move(request.operation);
}

void encode_timer_request(const SetTimer& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("timeout");
  request.timeout.count() == 0 ? w.null() : w.duration(request.timeout);
  w.end_object();
}

Result<std::optional<Overlap>> decode_trigger_request(std::string_view body) {
  if (body.empty()) return std::optional<Overlap>{};
  MS_TRY_ASSIGN(const TriggerRequest request, decode_request(body, kTriggerRequest));
  return request.overlap;
}

void encode_trigger_request(std::optional<Overlap> overlap, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  if (overlap) w.key("overlap").string(to_string(*overlap));
  w.end_object();
}

void encode_trigger_response(JobId job, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("job").number(job).end_object();
}

Result<JobId> decode_trigger_response(std::string_view body) {
  MS_TRY_ASSIGN(const TriggerAnswer answer, decode_response(body, kTriggerAnswer));
  if (answer.job == 0) return bad_response(must_be_given("job"));
  return answer.job;
}

Result<BackfillRequest> decode_backfill_request(std::string_view body) {
  MS_TRY_ASSIGN(const BackfillRequest request, decode_request(body, kBackfill));
  if (!request.from) return must_be_given("from");
  if (!request.to) return must_be_given("to");
  return request;
}

void encode_backfill_request(const BackfillRequest& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  if (request.from) w.key("from").time(*request.from);
  if (request.to) w.key("to").time(*request.to);
  if (request.overlap) w.key("overlap").string(to_string(*request.overlap));
  w.end_object();
}

void encode_backfill_response(const BackfillResponse& response, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("fired").number(response.fired).key("skipped").number(response.skipped);
  w.key("next");
  response.next ? w.time(*response.next) : w.null();
  w.end_object();
}

Result<BackfillResponse> decode_backfill_response(std::string_view body) {
  return decode_response(body, kBackfillAnswer);
}

Result<PreviewRequest> decode_preview_request(std::string_view body) {
  MS_TRY_ASSIGN(PreviewRequest request, decode_request(body, kPreview));
  // The rules of schedules require both; the calendar needs neither.
  if (request.schedule.name.empty()) request.schedule.name = "preview";
  if (request.schedule.job.kind.empty()) request.schedule.job.kind = "preview";
  return request;
}

void encode_preview_request(const PreviewRequest& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("schedule").begin_object();
  write_definition(w, request.schedule);
  w.end_object();
  if (request.from) w.key("from").time(*request.from);
  w.key("count").number(request.count).end_object();
}

void encode_preview(std::span<const PreviewTick> ticks, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("ticks").begin_array();
  for (const PreviewTick& tick : ticks) {
    w.begin_object().key("nominal").time(tick.nominal).key("fires_at").time(tick.fires_at);
    if (!tick.note.empty()) w.key("note").string(tick.note);
    w.end_object();
  }
  w.end_array().end_object();
}

Result<std::vector<PreviewTick>> decode_preview(std::string_view body) {
  MS_TRY_ASSIGN(PreviewAnswer answer, decode_response(body, kPreviewAnswer));
  return std::move(answer.ticks);
}

void encode_ledger(const LedgerPage& page, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("ticks").begin_array();
  for (const LedgerRow& row : page.rows) write_row(w, row);
  w.end_array().key("next_cursor");
  page.next ? w.string(encode_cursor(*page.next)) : w.null();
  w.end_object();
}

Result<LedgerPage> decode_ledger(std::string_view body) {
  MS_TRY_ASSIGN(LedgerAnswer answer, decode_response(body, kLedger));
  if (!answer.cursor.empty()) {
    auto next = decode_cursor(answer.cursor);
    if (!next) return bad_response(next.error());
    answer.page.next = *next;
  }
  return std::move(answer.page);
}

void encode_ledger_row(const LedgerRow& row, std::string& out) {
  JsonWriter w(out);
  write_row(w, row);
}

std::vector<std::string_view> schedule_call_fields(std::string_view schema) {
  if (schema == "ScheduleRequest") return field_names(kPutSchedule.fields);
  if (schema == "PauseRequest") return field_names(kPause);
  if (schema == "TimerRequest") return field_names(kTimer);
  if (schema == "TriggerRequest") return field_names(kTriggerRequest);
  if (schema == "BackfillRequest") return field_names(kBackfill);
  if (schema == "PreviewRequest") return field_names(kPreview);
  return {};
}

}  // namespace mainspring
