// Follow-ups: how they stand in JSON, in requests as in the stores, and the jobs that are made of
// them when a job ends, or says something while it runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "mainspring/job.h"

namespace mainspring {

// [{"queue", "kind", "on"?: ["completed", "cancelled", "dead", "message", "progress"], "priority"?,
// "session"?, "data"?}], or null.
bool read_follow_ups(JsonReader& in, std::vector<FollowUp>& out);
// Without what is as by default. Masked: their data as null.
void write_follow_ups(JsonWriter& w, const std::vector<FollowUp>& all,
                      Payload payload = Payload::shown);

// ["completed", …], null for every end; and "on": […], unless it is every end and nothing else.
bool read_ends(JsonReader& in, FollowUp& follow_up);
void write_ends(JsonWriter& w, const FollowUp& follow_up);

// The bit of FollowUp::on for one of those words; nullopt: it is none.
std::optional<std::uint8_t> parse_occasion(std::string_view name);

std::vector<std::string_view> follow_up_fields();  // for request_fields()

// As a store keeps them: the same, as text; "" = none.
std::string encode_follow_ups(const std::vector<FollowUp>& all);
// Errors: invalid_argument.
Result<std::vector<FollowUp>> decode_follow_ups(std::string_view text);

// Is anything made when it ends, or says something while it runs?
inline bool is_followed(const NewJob& job) {
  return !job.follow_ups.empty() || !job.reply_to.empty();
}

// What the follow-ups of a job are told of it.
struct EndedJob {
  JobId id = 0;
  std::string queue, kind;
  JobState state = JobState::completed;  // terminal; running where it says something
  int attempt = 0;
  int trigger_depth = 0;            // that what follows it has too
  std::string result;               // JSON, "" = none
  std::string reason, description;  // of cancelled and dead ones
  std::vector<std::string> tags;
  std::string headers, correlation_id, reply_to, reply_session;
  std::vector<FollowUp> follow_ups;
};
// What a running job said in one renewal.
struct News {
  EndedJob from;                     // without result, reason and description
  std::optional<Progress> progress;  // with this renewal, or else its last one
  bool progressed = false;           // it came with this renewal, and is another one than the last
  Token token = 0;
  std::int64_t first_seq = 0;  // 0 = not numbered
  std::vector<std::string> messages;
};
// The jobs that this end is followed by: those that are on it, in order, and last the reply.
std::vector<NewJob> follow(const EndedJob& ended);
// If it progressed, those that are on progress. Then for one message after the other: those that
// are on messages, and last a "message" for reply_to.
std::vector<NewJob> follow_news(const News& news);

}  // namespace mainspring
