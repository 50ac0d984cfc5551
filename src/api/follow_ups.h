// Follow-ups: their JSON in requests and stores, and the jobs that they create when a job ends or
// reports while it runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "mainspring/job.h"

namespace mainspring {

// [{"queue", "kind", "on"?: ["completed", "cancelled", "dead", "message", "progress"], "priority"?,
// "session"?, "expires_in"?, "data"?}], or null.
bool read_follow_ups(JsonReader& in, std::vector<FollowUp>& out);
// Without default values. Masked: data is null.
void write_follow_ups(JsonWriter& w, const std::vector<FollowUp>& all,
                      Payload payload = Payload::shown);

// ["completed", …], null for every end; and "on": […], omitted if it is exactly every end.
bool read_ends(JsonReader& in, FollowUp& follow_up);
void write_ends(JsonWriter& w, const FollowUp& follow_up);

// Adds follow-ups that replace the reply and the messages, and expire after `after`.
void add_reply_expiry(NewJob& job, Duration after);

// The bit of FollowUp::on for one of those words; nullopt: unknown word.
std::optional<std::uint8_t> parse_occasion(std::string_view name);

std::vector<std::string_view> follow_up_fields();  // for request_fields()

// The same as text, for a store; "" = none.
std::string encode_follow_ups(const std::vector<FollowUp>& all);
// Errors: invalid_argument.
Result<std::vector<FollowUp>> decode_follow_ups(std::string_view text);

// Returns whether any job is created when it ends or reports.
inline bool is_followed(const NewJob& job) {
  return !job.follow_ups.empty() || !job.reply_to.empty();
}

// The facts of a job that its follow-ups get.
struct EndedJob {
  JobId id = 0;
  std::string queue, kind;
  JobState state = JobState::completed;  // terminal; running for reports
  int attempt = 0;
  int trigger_depth = 0;            // its follow-ups inherit it
  std::string result;               // JSON, "" = none
  std::string reason, description;  // of cancelled and dead jobs
  std::vector<std::string> tags;
  std::string headers, correlation_id, reply_to, reply_session;
  std::optional<Duration> reply_expires_in{};  // of the jobs for reply_to; nullopt = never
  std::vector<FollowUp> follow_ups;
};
// The reports of a running job in one renewal.
struct News {
  EndedJob from;                     // without result, reason and description
  std::optional<Progress> progress;  // of this renewal, or else the last one
  bool progressed = false;           // this renewal changed the progress
  Token token = 0;
  std::int64_t first_seq = 0;  // 0 = not numbered
  std::vector<std::string> messages;
};
// The jobs that follow this end: the follow-ups on it, in order, and last the reply, unless one of
// them is a reply.
std::vector<NewJob> follow(const EndedJob& ended);
// If it progressed, the follow-ups on progress. Then for each message: the follow-ups on messages,
// and last a "message" for reply_to.
std::vector<NewJob> follow_news(const News& news);

}  // namespace mainspring
