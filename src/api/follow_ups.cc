// Follow-ups to and from JSON, and the jobs that they create.
#include "api/follow_ups.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "api/fields.h"
#include "api/step_key.h"
#include "base/assert.h"
#include "base/mutant.h"
#include "model/callback.h"

namespace mainspring {
namespace {

constexpr std::string_view kReplyKind = "reply";
constexpr std::string_view kMessageKind = "message";

struct Occasion {
  std::string_view name;
  std::uint8_t bit;
};
constexpr std::array<Occasion, 5> kOccasions = {{{"completed", FollowUp::kCompleted},
                                                 {"cancelled", FollowUp::kCancelled},
                                                 {"dead", FollowUp::kDead},
                                                 {"message", FollowUp::kMessage},
                                                 {"progress", FollowUp::kProgress}}};

std::uint8_t occasion_of(JobState end) {
  if (end == JobState::completed) return FollowUp::kCompleted;
  return end == JobState::cancelled ? FollowUp::kCancelled : FollowUp::kDead;
}

}  // namespace

bool read_ends(JsonReader& in, FollowUp& follow_up) {
  if (in.null()) return true;
  follow_up.on = 0;
  const bool read = in.array(kOccasions.size(), [&](std::size_t) {
    std::string name;
    if (!in.string(name)) return false;
    for (const Occasion& occasion : kOccasions) {
      if (name != occasion.name) continue;
      follow_up.on |= occasion.bit;
      return true;
    }
    return in.fail_value(
        "must be \"completed\", \"cancelled\", \"dead\", \"message\" or \"progress\"");
  });
  if (!read) return false;
  if (follow_up.on != 0) return true;
  return in.fail_here(
      "must name at least one of \"completed\", \"cancelled\", \"dead\", \"message\" and "
      "\"progress\"");
}

void write_ends(JsonWriter& w, const FollowUp& follow_up) {
  if (follow_up.on == FollowUp::kEveryEnd) return;
  w.key("on").begin_array();
  for (const Occasion& occasion : kOccasions) {
    if ((follow_up.on & occasion.bit) != 0) w.string(occasion.name);
  }
  w.end_array();
}

void add_reply_expiry(NewJob& job, Duration after) {
  FollowUp reply{.queue = job.reply_to,
                 .kind = std::string(kReplyKind),
                 .session = job.reply_session,
                 .data = "",
                 .expires_in = after};
  job.follow_ups.push_back(reply);
  reply.kind = kMessageKind, reply.on = FollowUp::kMessage;
  job.follow_ups.push_back(std::move(reply));
}

std::optional<std::uint8_t> parse_occasion(std::string_view name) {
  for (const Occasion& occasion : kOccasions) {
    if (name == occasion.name) return occasion.bit;
  }
  return std::nullopt;
}

namespace {

constexpr JsonField<FollowUp> kFollowUp[] = {
    {"queue", &as_string<&FollowUp::queue>},
    {"kind", &as_string<&FollowUp::kind>},
    {"on", &read_ends},
    {"priority", &as_integer<&FollowUp::priority, 0, kLowestPriority>},
    {"session", &as_optional_string<&FollowUp::session>},
    {"expires_in", &as_optional_duration<&FollowUp::expires_in>},
    {"data", &as_optional_raw<&FollowUp::data>},
};

}  // namespace

bool read_follow_ups(JsonReader& in, std::vector<FollowUp>& out) {
  if (in.null()) return true;
  return in.array(kMaxFollowUps, [&](std::size_t) {
    FollowUp& follow_up = out.emplace_back();
    if (!in.object(kFollowUp, follow_up)) return false;
    if (follow_up.queue.empty()) return in.missing("queue");
    return !follow_up.kind.empty() || in.missing("kind");
  });
}

void write_follow_ups(JsonWriter& w, const std::vector<FollowUp>& all, Payload payload) {
  w.begin_array();
  for (const FollowUp& follow_up : all) {
    w.begin_object().key("queue").string(follow_up.queue).key("kind").string(follow_up.kind);
    write_ends(w, follow_up);
    if (follow_up.priority != FollowUp().priority) w.key("priority").number(follow_up.priority);
    if (!follow_up.session.empty()) w.key("session").string(follow_up.session);
    if (follow_up.expires_in) w.key("expires_in").string(format_duration(*follow_up.expires_in));
    if (!follow_up.data.empty())
      w.key("data").raw(payload == Payload::masked ? "null" : std::string_view(follow_up.data));
    w.end_object();
  }
  w.end_array();
}

std::vector<std::string_view> follow_up_fields() {
  return field_names(kFollowUp);
}

std::string encode_follow_ups(const std::vector<FollowUp>& all) {
  std::string out;
  if (all.empty()) return out;
  JsonWriter w(out);
  write_follow_ups(w, all);
  return out;
}

Result<std::vector<FollowUp>> decode_follow_ups(std::string_view text) {
  std::vector<FollowUp> all;
  if (text.empty()) return all;
  JsonReader in(text, JsonReader::Unknown::skip);
  if (!read_follow_ups(in, all) || !in.end()) return in.error();
  return all;
}

namespace {

// The members of the args that identify the job and its state.
void write_ended_job(JsonWriter& w, const EndedJob& job) {
  w.key("job").number(job.id).key("queue").string(job.queue);
  const bool well = job.state == JobState::dead && MS_MUTANT(dead_followed_as_completed);
  w.key("kind").string(job.kind);
  w.key("state").string(to_string(well ? JobState::completed : job.state));
  w.key("attempt").number(job.attempt);
  w.key("result").raw(job.result.empty() ? "null" : std::string_view(job.result));
}

void write_tags(JsonWriter& w, const EndedJob& job) {
  if (job.tags.empty()) return;
  w.key("tags").begin_array();
  for (const std::string& tag : job.tags) w.string(tag);
  w.end_array();
}

std::string_view json_or_null(const std::string& json) {
  return json.empty() ? "null" : std::string_view(json);
}

std::string end_args(const EndedJob& ended, const std::string& data) {
  std::string out;
  JsonWriter w(out);
  w.begin_object();
  write_ended_job(w, ended);
  if (ended.state != JobState::completed) {
    w.key("reason").string(ended.reason).key("description").string(ended.description);
  }
  write_tags(w, ended);
  w.key("data").raw(json_or_null(data)).end_object();
  return out;
}

// For the `message`-th message; nullopt: for the progress.
std::string news_args(const News& news, std::optional<std::size_t> message,
                      const std::string& data) {
  std::string out;
  JsonWriter w(out);
  w.begin_object();
  write_ended_job(w, news.from);
  write_tags(w, news.from);
  w.key("progress");
  if (news.progress) {
    w.begin_object().key("value").real(news.progress->value);
    w.key("text").string(news.progress->text).end_object();
  } else {
    w.null();
  }
  w.key("token").number(news.token);
  if (message) {
    const auto offset = static_cast<std::int64_t>(*message);
    w.key("seq");
    news.first_seq == 0 ? w.null() : w.number(news.first_seq + offset);
    w.key("message").raw(json_or_null(news.messages[*message]));
  }
  w.key("data").raw(json_or_null(data)).end_object();
  return out;
}

// All follow-ups on that occasion, without args; last the reply, of kind `reply`.
std::vector<std::pair<FollowUp, NewJob>> wanted_by(const EndedJob& job, std::uint8_t occasion,
                                                   std::string_view reply) {
  std::vector<FollowUp> all = job.follow_ups;
  const bool own = std::any_of(all.begin(), all.end(), [&](const FollowUp& follow_up) {
    return (follow_up.on & occasion) != 0 && follow_up.queue == job.reply_to &&
           follow_up.kind == reply;
  });
  if (!job.reply_to.empty() && !own) {
    all.push_back({.queue = job.reply_to,
                   .kind = std::string(reply),
                   .on = FollowUp::kEndsAndMessages,
                   .session = job.reply_session,
                   .data = "",
                   .expires_in = job.reply_expires_in});
  }
  std::vector<std::pair<FollowUp, NewJob>> out;
  for (FollowUp& follow_up : all) {
    const bool wanted = (follow_up.on & occasion) != 0;
    if (!wanted && !MS_MUTANT(follow_up_on_every_end)) continue;
    NewJob next;
    next.queue = follow_up.queue;
    next.kind = follow_up.kind;
    next.priority = follow_up.priority;
    next.session = follow_up.session;
    next.expires_in = follow_up.expires_in;
    const bool reports = follow_up.on == FollowUp::kProgress && follow_up.queue == job.reply_to;
    if (reports && !next.expires_in) next.expires_in = job.reply_expires_in;
    if (MS_MUTANT(replies_never_expire)) next.expires_in.reset();
    if (is_callback(follow_up) && !MS_MUTANT(callback_of_many_attempts))
      next.max_attempts = kCallbackAttempts;
    next.headers = without_step_key(job.headers);
    next.trigger_depth = job.trigger_depth;
    next.correlation_id = job.correlation_id.empty() ? fmt::to_string(job.id) : job.correlation_id;
    out.emplace_back(std::move(follow_up), std::move(next));
  }
  return out;
}

}  // namespace

std::vector<NewJob> follow(const EndedJob& ended) {
  MS_ASSERT(is_terminal(ended.state), "follow-ups need an ended job");
  std::vector<NewJob> out;
  for (auto& [follow_up, job] : wanted_by(ended, occasion_of(ended.state), kReplyKind)) {
    out.push_back(std::move(job));
    out.back().args = end_args(ended, follow_up.data);
  }
  return out;
}

std::vector<NewJob> follow_news(const News& news) {
  MS_ASSERT(news.from.state == JobState::running, "only a running job sends messages and progress");
  std::vector<NewJob> out;
  const auto add = [&](const auto& all, std::optional<std::size_t> message) {
    for (const auto& [follow_up, job] : all) {
      out.push_back(job);
      out.back().args = news_args(news, message, follow_up.data);
    }
  };
  const auto add_progress = [&] {
    if (news.progressed) add(wanted_by(news.from, FollowUp::kProgress, kMessageKind), {});
  };
  if (!MS_MUTANT(progress_after_messages)) add_progress();
  if (!news.messages.empty()) {
    const auto all = wanted_by(news.from, FollowUp::kMessage, kMessageKind);
    for (std::size_t i = 0; i < news.messages.size(); ++i)
      add(all, MS_MUTANT(messages_reversed) ? news.messages.size() - 1 - i : i);
  }
  if (MS_MUTANT(progress_after_messages)) add_progress();
  return out;
}

}  // namespace mainspring
