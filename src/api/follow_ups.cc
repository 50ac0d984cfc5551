// Follow-ups to and from JSON, and the jobs that are made of them.
#include "api/follow_ups.h"

#include <fmt/format.h>

#include <array>

#include "api/fields.h"
#include "base/assert.h"
#include "base/mutant.h"

namespace mainspring {
namespace {

constexpr std::string_view kReplyKind = "reply";

struct End {
  JobState state;
  std::uint8_t bit;
};
constexpr std::array<End, 3> kEnds = {{{JobState::completed, FollowUp::kCompleted},
                                       {JobState::cancelled, FollowUp::kCancelled},
                                       {JobState::dead, FollowUp::kDead}}};

}  // namespace

bool read_ends(JsonReader& in, FollowUp& follow_up) {
  if (in.null()) return true;
  follow_up.on = 0;
  const bool read = in.array(kEnds.size(), [&](std::size_t) {
    std::string name;
    if (!in.string(name)) return false;
    for (const End& end : kEnds) {
      if (name != to_string(end.state)) continue;
      follow_up.on |= end.bit;
      return true;
    }
    return in.fail_here("must be \"completed\", \"cancelled\" or \"dead\"");
  });
  if (!read) return false;
  if (follow_up.on != 0) return true;
  return in.fail_here("must name at least one of \"completed\", \"cancelled\" and \"dead\"");
}

void write_ends(JsonWriter& w, const FollowUp& follow_up) {
  if (follow_up.on == FollowUp::kEveryEnd) return;
  w.key("on").begin_array();
  for (const End& end : kEnds) {
    if ((follow_up.on & end.bit) != 0) w.string(to_string(end.state));
  }
  w.end_array();
}

namespace {

constexpr JsonField<FollowUp> kFollowUp[] = {
    {"queue", &as_string<&FollowUp::queue>},
    {"kind", &as_string<&FollowUp::kind>},
    {"on", &read_ends},
    {"priority", &as_integer<&FollowUp::priority, 0, kLowestPriority>},
    {"session", &as_optional_string<&FollowUp::session>},
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

std::string follow_up_args(const EndedJob& ended, const std::string& data) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("job").number(ended.id).key("queue").string(ended.queue);
  w.key("kind").string(ended.kind).key("state").string(to_string(ended.state));
  w.key("attempt").number(ended.attempt);
  w.key("result").raw(ended.result.empty() ? "null" : std::string_view(ended.result));
  if (ended.state != JobState::completed) {
    w.key("reason").string(ended.reason).key("description").string(ended.description);
  }
  if (!ended.tags.empty()) {
    w.key("tags").begin_array();
    for (const std::string& tag : ended.tags) w.string(tag);
    w.end_array();
  }
  w.key("data").raw(data.empty() ? "null" : std::string_view(data)).end_object();
  return out;
}

}  // namespace

std::vector<NewJob> follow(const EndedJob& ended) {
  MS_ASSERT(is_terminal(ended.state), "only an end is followed");
  std::vector<FollowUp> all = ended.follow_ups;
  if (!ended.reply_to.empty()) {
    all.push_back({.queue = ended.reply_to,
                   .kind = std::string(kReplyKind),
                   .session = ended.reply_session,
                   .data = ""});
  }
  std::vector<NewJob> out;
  for (const FollowUp& follow_up : all) {
    bool wanted = false;
    for (const End& end : kEnds) {
      if (end.state == ended.state) wanted = (follow_up.on & end.bit) != 0;
    }
    if (!wanted && !MS_MUTANT(follow_up_on_every_end)) continue;
    NewJob& job = out.emplace_back();
    job.queue = follow_up.queue;
    job.kind = follow_up.kind;
    job.args = follow_up_args(ended, follow_up.data);
    job.priority = follow_up.priority;
    job.session = follow_up.session;
    job.headers = ended.headers;
    job.correlation_id =
        ended.correlation_id.empty() ? fmt::to_string(ended.id) : ended.correlation_id;
  }
  return out;
}

}  // namespace mainspring
