// The shapes of triggers.
#include "api/trigger_shapes.h"

#include "api/audit_images.h"
#include "api/redrive_shapes.h"
#include "api/schedule_fields.h"
#include "api/schedule_shapes.h"

namespace mainspring {
namespace {

bool read_auth(JsonReader& in, HookSource& http) {
  std::string text;
  if (!in.string(text)) return false;
  const auto auth = parse_hook_auth(text);
  if (!auth) return in.fail_value("must be \"token\" or \"signature\"");
  http.auth = *auth;
  return true;
}

constexpr JsonField<HookSource> kHook[] = {
    {"auth", &read_auth},
    {"event_id", &as_optional_string<&HookSource::event_id>},
    {"rate", &as_integer<&HookSource::rate, 1, kMaxHookRate>},
};
constexpr JsonField<FolderSource> kFolder[] = {
    {"path", &as_string<&FolderSource::path>},
    {"pattern", &as_string<&FolderSource::pattern>},
    {"stable", &as_duration<&FolderSource::stable>},
    {"node", &as_optional_string<&FolderSource::node>},
};
bool read_on(JsonReader& in, EndedSource& ended) {
  if (in.null()) return true;
  ended.on = 0;
  const bool read = in.array(3, [&](std::size_t) {
    std::string name;
    if (!in.string(name)) return false;
    const auto bit = parse_occasion(name);
    if (!bit || (*bit & FollowUp::kEveryEnd) == 0)
      return in.fail_value("must be \"completed\", \"cancelled\" or \"dead\"");
    ended.on |= *bit;
    return true;
  });
  if (!read) return false;
  return ended.on != 0 ||
         in.fail_here("must name at least one of \"completed\", \"cancelled\" and \"dead\"");
}
constexpr JsonField<EndedSource> kEnded[] = {
    {"queue",
     [](JsonReader& in, EndedSource& e) { return in.null() || read_filter_word(in, e.queue); }},
    {"kind",
     [](JsonReader& in, EndedSource& e) { return in.null() || read_filter_word(in, e.kind); }},
    {"on", &read_on},
};
constexpr JsonField<Trigger> kTrigger[] = {
    {"name", &as_optional_string<&Trigger::name>},
    {"http",
     [](JsonReader& in, Trigger& t) { return in.null() || in.object(kHook, t.http.emplace()); }},
    {"folder", [](JsonReader& in,
                  Trigger& t) { return in.null() || in.object(kFolder, t.folder.emplace()); }},
    {"ended",
     [](JsonReader& in, Trigger& t) { return in.null() || in.object(kEnded, t.ended.emplace()); }},
    {"schedule",
     [](JsonReader& in, Trigger&) {
       return in.null() ||
              in.fail_here("must not be given: create a schedule with PUT /v1/schedules/{name}");
     }},
    {"job", [](JsonReader& in, Trigger& t) { return read_kept_job(in, t.job); }},
};
constexpr JsonField<PutTriggerRequest> kMorePut[] = {
    {"secret", &as_optional_string<&PutTriggerRequest::secret>},
    {"paused", [](JsonReader& in,
                  PutTriggerRequest& r) { return in.null() || in.boolean(r.paused.emplace()); }},
};
constexpr auto kPutTrigger = with_part<kTrigger, &PutTriggerRequest::trigger>(kMorePut);

constexpr JsonField<TriggerInfo> kMoreInfo[] = {
    {"version", &as_count<&TriggerInfo::version>},
    {"paused", &as_boolean<&TriggerInfo::paused>},
    {"paused_reason", &as_string<&TriggerInfo::paused_reason>},
    {"fired", &as_count<&TriggerInfo::fired>},
    {"refused", &as_count<&TriggerInfo::refused>},
    {"last_fired", &as_optional_time<&TriggerInfo::last_fired>},
    {"last_job", &as_count<&TriggerInfo::last_job>},
    {"last_event", &as_string<&TriggerInfo::last_event>},
    {"created_at", &as_time<&TriggerInfo::created_at>},
    {"updated_at", &as_time<&TriggerInfo::updated_at>},
};
constexpr auto kTriggerInfo = with_part<kTrigger, &TriggerInfo::trigger>(kMoreInfo);

bool read_trigger_outcome(JsonReader& in, PutTriggerAnswer& answer) {
  std::string text;
  if (!in.string(text)) return false;
  for (const PutOutcome one : {PutOutcome::created, PutOutcome::replaced, PutOutcome::unchanged}) {
    if (to_string(one) == text) answer.result.outcome = one;
  }
  return true;
}
constexpr JsonField<PutTriggerAnswer> kMoreAnswer[] = {
    {"outcome", &read_trigger_outcome},
    {"secret", &as_string<&PutTriggerAnswer::secret>},
};
constexpr auto kAnswer = with_part<kTriggerInfo, &PutTriggerAnswer::info>(kMoreAnswer);

constexpr JsonField<NamePage<TriggerInfo>> kTriggerList[] = {
    {"triggers",
     [](JsonReader& in, NamePage<TriggerInfo>& page) {
       return in.array(kMaxResponseEntries, [&](std::size_t) {
         return in.object(kTriggerInfo.fields, page.items.emplace_back());
       });
     }},
    {"next", &as_optional_string<&NamePage<TriggerInfo>::next>},
};

constexpr JsonField<FireTriggerRequest> kFire[] = {
    {"event", &as_optional_string<&FireTriggerRequest::event>},
    {"body", &as_raw<&FireTriggerRequest::body>},
    {"headers", &as_raw<&FireTriggerRequest::headers>},
    {"query", &as_raw<&FireTriggerRequest::query>},
    {"file", &as_raw<&FireTriggerRequest::file>},
    {"job", &as_raw<&FireTriggerRequest::job>},
};
constexpr JsonField<TriggerFired> kFired[] = {
    {"job",
     [](JsonReader& in, TriggerFired& f) {
       return in.null() || in.integer(f.job, std::int64_t{0}, INT64_MAX);
     }},
    {"duplicate", &as_boolean<&TriggerFired::duplicate>},
};

constexpr JsonField<TriggerEvent> kTriggerEvent[] = {
    {"seq", &as_count<&TriggerEvent::seq>},
    {"event", &as_string<&TriggerEvent::event>},
    {"fired_at", &as_time<&TriggerEvent::fired_at>},
    {"made_at", &as_optional_time<&TriggerEvent::made_at>},
    {"job",
     [](JsonReader& in, TriggerEvent& e) {
       return in.null() || in.integer(e.job, std::int64_t{0}, INT64_MAX);
     }},
    {"reason", &as_string<&TriggerEvent::reason>},
};
constexpr JsonField<TriggerEventPage> kEvents[] = {
    {"events",
     [](JsonReader& in, TriggerEventPage& page) {
       return in.array(kMaxResponseEntries, [&](std::size_t) {
         return in.object(kTriggerEvent, page.rows.emplace_back());
       });
     }},
    {"next",
     [](JsonReader& in, TriggerEventPage& page) {
       return in.null() || in.integer(page.next.emplace(), std::int64_t{0}, INT64_MAX);
     }},
};

template <auto Member>
bool as_us(JsonReader& in, TriggerState& state) {
  std::int64_t us = 0;
  if (!in.integer(us, INT64_MIN, INT64_MAX)) return false;
  state.info.*Member = WallTime::from_us(us);
  return true;
}
constexpr JsonField<TriggerState> kTriggerState[] = {
    {"version",
     [](JsonReader& in, TriggerState& s) {
       return in.integer(s.info.version, std::int64_t{1}, INT64_MAX);
     }},
    {"paused", [](JsonReader& in, TriggerState& s) { return in.boolean(s.info.paused); }},
    {"reason", [](JsonReader& in, TriggerState& s) { return in.string(s.info.paused_reason); }},
    {"fired", [](JsonReader& in,
                 TriggerState& s) { return in.integer(s.info.fired, std::int64_t{0}, INT64_MAX); }},
    {"refused",
     [](JsonReader& in, TriggerState& s) {
       return in.integer(s.info.refused, std::int64_t{0}, INT64_MAX);
     }},
    {"last_fired",
     [](JsonReader& in, TriggerState& s) {
       std::int64_t us = 0;
       if (!in.integer(us, std::int64_t{0}, INT64_MAX)) return false;
       s.info.last_fired = WallTime::from_us(us);
       return true;
     }},
    {"last_job",
     [](JsonReader& in, TriggerState& s) {
       return in.integer(s.info.last_job, std::int64_t{0}, INT64_MAX);
     }},
    {"last_event", [](JsonReader& in, TriggerState& s) { return in.string(s.info.last_event); }},
    {"forgotten", &as_us<&TriggerInfo::forgotten>},
    {"created_at", &as_us<&TriggerInfo::created_at>},
    {"updated_at", &as_us<&TriggerInfo::updated_at>},
    {"next_seq", &as_count<&TriggerState::next_seq>},
};

void write_trigger(JsonWriter& w, const Trigger& trigger) {
  if (!trigger.name.empty()) w.key("name").string(trigger.name);
  if (trigger.http) {
    w.key("http").begin_object().key("auth").string(to_string(trigger.http->auth));
    if (!trigger.http->event_id.empty()) w.key("event_id").string(trigger.http->event_id);
    w.key("rate").number(trigger.http->rate).end_object();
  }
  if (trigger.folder) {
    w.key("folder").begin_object().key("path").string(trigger.folder->path);
    w.key("pattern").string(trigger.folder->pattern);
    w.key("stable").duration(trigger.folder->stable);
    if (!trigger.folder->node.empty()) w.key("node").string(trigger.folder->node);
    w.end_object();
  }
  if (trigger.ended) {
    w.key("ended").begin_object();
    if (!trigger.ended->queue.empty()) w.key("queue").string(trigger.ended->queue);
    if (!trigger.ended->kind.empty()) w.key("kind").string(trigger.ended->kind);
    FollowUp as;
    as.on = trigger.ended->on;
    write_ends(w, as);
    w.end_object();
  }
  w.key("job");
  write_new_job(w, trigger.job);
}

// The members of an info, into an open object.
void write_trigger_info(JsonWriter& w, const TriggerInfo& info, Payload payload) {
  if (payload == Payload::shown) {
    write_trigger(w, info.trigger);
  } else {
    Trigger masked = info.trigger;
    masked.job.args = "null";
    masked.job.headers.clear();
    write_trigger(w, masked);
  }
  w.key("version").number(info.version).key("paused").boolean(info.paused);
  if (!info.paused_reason.empty()) w.key("paused_reason").string(info.paused_reason);
  w.key("fired").number(info.fired);
  if (info.refused != 0) w.key("refused").number(info.refused);
  if (info.last_fired) w.key("last_fired").time(*info.last_fired);
  if (info.last_job != 0) w.key("last_job").number(info.last_job);
  if (!info.last_event.empty()) w.key("last_event").string(info.last_event);
  w.key("created_at").time(info.created_at).key("updated_at").time(info.updated_at);
}

}  // namespace

void encode_trigger(const Trigger& trigger, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  write_trigger(w, trigger);
  w.end_object();
}

Result<Trigger> decode_trigger(std::string_view body) {
  return decode_request(body, kTrigger);
}

Result<PutTriggerRequest> decode_put_trigger_request(std::string name, std::string_view body) {
  MS_TRY_ASSIGN(PutTriggerRequest request, decode_request(body, kPutTrigger.fields));
  std::string& given = request.trigger.name;
  if (!given.empty() && given != name) {
    return invalid("name", "name \"" + std::string(cut_text(given, 64)) +
                               "\": must be that of the path, or left out");
  }
  given = std::move(name);
  MS_TRY(validate(request.trigger));
  return request;
}

void encode_put_trigger_request(const PutTriggerRequest& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  write_trigger(w, request.trigger);
  if (!request.secret.empty()) w.key("secret").string(request.secret);
  if (request.paused) w.key("paused").boolean(*request.paused);
  w.end_object();
}

void encode_trigger_info(const TriggerInfo& info, std::string& out, Payload payload) {
  JsonWriter w(out);
  w.begin_object();
  write_trigger_info(w, info, payload);
  w.end_object();
}

Result<TriggerInfo> decode_trigger_info(std::string_view body) {
  return decode_response(body, kTriggerInfo.fields);
}

void encode_put_trigger_response(const TriggerInfo& info, const PutTriggerResult& result,
                                 std::string_view secret, std::string& out, Payload payload) {
  JsonWriter w(out);
  w.begin_object().key("outcome").string(to_string(result.outcome));
  if (!secret.empty()) w.key("secret").string(secret);
  write_trigger_info(w, info, payload);
  w.end_object();
}

Result<PutTriggerAnswer> decode_put_trigger_response(std::string_view body) {
  MS_TRY_ASSIGN(PutTriggerAnswer answer, decode_response(body, kAnswer.fields));
  answer.result.version = answer.info.version;
  answer.result.secret_taken = !answer.secret.empty();
  return answer;
}

void encode_triggers(std::span<const TriggerInfo> triggers, bool more, std::string& out,
                     const Within& payloads) {
  JsonWriter w(out);
  w.begin_object().key("triggers").begin_array();
  for (const TriggerInfo& info : triggers) {
    w.begin_object();
    write_trigger_info(w, info,
                       payloads.has(info.trigger.job.queue) ? Payload::shown : Payload::masked);
    w.end_object();
  }
  w.end_array().key("next");
  more ? w.string(triggers.back().trigger.name) : w.null();
  w.end_object();
}

Result<NamePage<TriggerInfo>> decode_triggers(std::string_view body) {
  return decode_response(body, kTriggerList);
}

void encode_trigger_removed(std::string_view name, std::string& out) {
  JsonWriter(out).begin_object().key("name").string(name).key("removed").boolean(true).end_object();
}

Result<FireTriggerRequest> decode_fire_trigger_request(std::string_view body) {
  if (body.empty()) return FireTriggerRequest{};
  return decode_request(body, kFire);
}

void encode_fire_trigger_request(const FireTriggerRequest& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  if (!request.event.empty()) w.key("event").string(request.event);
  w.key("body").raw(request.body).key("headers").raw(request.headers);
  w.key("query").raw(request.query).key("file").raw(request.file);
  w.key("job").raw(request.job).end_object();
}

void encode_trigger_fired(const TriggerFired& fired, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("job");
  fired.job == 0 ? w.null() : w.number(fired.job);
  w.key("duplicate").boolean(fired.duplicate).end_object();
}

Result<TriggerFired> decode_trigger_fired(std::string_view body) {
  return decode_response(body, kFired);
}

void encode_trigger_events(const TriggerEventPage& page, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("events").begin_array();
  for (const TriggerEvent& row : page.rows) {
    w.begin_object().key("seq").number(row.seq);
    if (!row.event.empty()) w.key("event").string(row.event);
    w.key("fired_at").time(row.fired_at);
    if (row.made_at) w.key("made_at").time(*row.made_at);
    w.key("job");
    row.job == 0 ? w.null() : w.number(row.job);
    if (!row.reason.empty()) w.key("reason").string(row.reason);
    w.end_object();
  }
  w.end_array().key("next");
  page.next ? w.number(*page.next) : w.null();
  w.end_object();
}

Result<TriggerEventPage> decode_trigger_events(std::string_view body) {
  return decode_response(body, kEvents);
}

std::string encode_trigger_state(const TriggerInfo& info, std::int64_t next_seq) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("version").number(info.version);
  if (info.paused) w.key("paused").boolean(true);
  if (!info.paused_reason.empty()) w.key("reason").string(info.paused_reason);
  w.key("fired").number(info.fired);
  if (info.refused != 0) w.key("refused").number(info.refused);
  if (info.last_fired) w.key("last_fired").number(info.last_fired->us());
  if (info.last_job != 0) w.key("last_job").number(info.last_job);
  if (!info.last_event.empty()) w.key("last_event").string(info.last_event);
  if (info.forgotten.us() != 0) w.key("forgotten").number(info.forgotten.us());
  w.key("created_at").number(info.created_at.us());
  w.key("updated_at").number(info.updated_at.us());
  w.key("next_seq").number(next_seq).end_object();
  return out;
}

Result<TriggerState> decode_trigger_state(std::string_view text) {
  return decode_request(text, kTriggerState);
}

std::string encode_ended_job(const EndedJob& job) {
  std::string out;
  JsonWriter w(out);
  const auto text = [&w](std::string_view key, const std::string& value) {
    w.key(key);
    value.empty() ? w.null() : w.string(value);
  };
  w.begin_object().key("id").number(job.id).key("queue").string(job.queue);
  w.key("kind").string(job.kind).key("outcome").string(to_string(job.state));
  w.key("attempt").number(job.attempt);
  w.key("result").raw(job.result.empty() ? "null" : std::string_view(job.result));
  text("error", job.description.empty() ? job.reason : job.description);
  text("reason", job.reason);
  text("description", job.description);
  w.end_object();
  return out;
}

std::string trigger_image(const Trigger& trigger) {
  Trigger shown = trigger;
  shown.job.args = content_image(trigger.job.args);
  if (!trigger.job.headers.empty()) shown.job.headers = content_image(trigger.job.headers);
  std::string out;
  encode_trigger(shown, out);
  return out;
}

std::vector<std::string_view> trigger_request_fields(std::string_view schema) {
  if (schema == "TriggerDefinition") return field_names(kPutTrigger.fields);
  if (schema == "HookSource") return field_names(kHook);
  if (schema == "FolderSource") return field_names(kFolder);
  if (schema == "EndedSource") return field_names(kEnded);
  if (schema == "FireTriggerRequest") return field_names(kFire);
  return {};
}

}  // namespace mainspring
