// The rules of a job that need no store.
#include "mainspring/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/callback.h"
#include "model/session.h"

namespace mainspring {
namespace {

constexpr std::array<std::string_view, kJobStateCount> kStateNames = {
    "waiting", "scheduled", "available", "running", "completed", "retryable", "cancelled", "dead"};
constexpr std::array<std::string_view, kRemarkFaults> kRemarkFaultNames = {
    "progress", "checkpoint",    "message",  "session_state", "step",
    "outcome",  "unknown_field", "not_json", "too_long",      "unasked"};
constexpr std::array<std::string_view, 3> kConflictNames = {"keep", "replace", "postpone"};

Result<void> check_size(std::string field, std::size_t size, std::size_t limit) {
  if (size <= limit) return {};
  return Error{.code = ErrorCode::too_large,
               .message = fmt::format("{} has {} bytes: must be at most {}", field, size, limit),
               .field = field};
}

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == ':' || c == '/' || c == '-';
}

Result<void> check_follow_up(const FollowUp& follow_up, const std::string& at) {
  MS_TRY(check_name(at + ".queue", follow_up.queue));
  if (!is_callback(follow_up)) MS_TRY(check_not_reserved(at + ".queue", follow_up.queue));
  MS_TRY(check_name(at + ".kind", follow_up.kind));
  MS_TRY(check_size(at + ".data", follow_up.data.size(), kMaxFollowUpDataBytes));
  if (follow_up.on == 0 || follow_up.on > FollowUp::kEverything) {
    return invalid(at + ".on",
                   fmt::format("{}.on {}: must be at least one of \"completed\", \"cancelled\", "
                               "\"dead\", \"message\" and \"progress\"",
                               at, follow_up.on));
  }
  if (!follow_up.session.empty()) MS_TRY(check_session_key(at + ".session", follow_up.session));
  if (follow_up.expires_in && *follow_up.expires_in <= Duration(0))
    return invalid(at + ".expires_in", fmt::format("{}.expires_in {}: must be more than 0", at,
                                                   format_duration(*follow_up.expires_in)));
  if (follow_up.priority < 0 || follow_up.priority > kLowestPriority) {
    return invalid(at + ".priority", fmt::format("{}.priority {}: must be 0 to {}", at,
                                                 follow_up.priority, kLowestPriority));
  }
  return {};
}

Result<void> check_follow_ups(const std::vector<FollowUp>& all, std::string_view prefix) {
  const std::string field = std::string(prefix).append("then");
  if (all.size() > kMaxFollowUps) {
    return invalid(
        field, fmt::format("then has {} entries: must be at most {}", all.size(), kMaxFollowUps));
  }
  if (std::count_if(all.begin(), all.end(), is_callback) > 1) {
    return invalid(std::string(prefix).append("callback"), "callback: must be given at most once");
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    MS_TRY(check_follow_up(all[i], fmt::format("{}[{}]", field, i)));
  return {};
}

constexpr Duration kMaxUniqueWindow = std::chrono::hours(24 * 365);

Result<void> check_unique(const Unique& unique, std::string_view prefix) {
  const auto at = [&](std::string_view name) { return std::string(prefix).append(name); };
  if (unique.key.empty()) return invalid(at("unique.key"), "unique.key: must not be empty");
  MS_TRY(check_size(at("unique.key"), unique.key.size(), kMaxKeyBytes));
  if (unique.window >= Duration(0) && unique.window <= kMaxUniqueWindow) return {};
  return invalid(at("unique.for"),
                 fmt::format("unique.for {}: must be 0s to {}", format_duration(unique.window),
                             format_duration(kMaxUniqueWindow)));
}

Result<void> check_limit_key(const NewJob& job, std::string_view prefix) {
  const std::string field = std::string(prefix).append("limit_key");
  MS_TRY(check_session_key(field, job.limit_key));  // the same bytes
  if (job.session.empty()) return {};
  return invalid(field,
                 "limit_key: must not be given together with session, whose jobs run one at "
                 "a time");
}

Result<void> check_sessions(const NewJob& job, std::string_view prefix) {
  const auto at = [&](std::string_view name) { return std::string(prefix).append(name); };
  if (!job.reply_session.empty()) {
    if (job.reply_to.empty())
      return invalid(at("reply_session"), "reply_session: is for replies, and needs reply_to");
    MS_TRY(check_session_key(at("reply_session"), job.reply_session));
  }
  if (job.session.empty()) {
    if (job.on_dead == OnDead::skip) return {};
    return invalid(at("session_on_dead"),
                   "session_on_dead: is for jobs of a session, and needs session");
  }
  MS_TRY(check_session_key(at("session"), job.session));
  if (job.unique && job.unique->on_conflict != OnConflict::keep) {
    return invalid(at("unique.on_conflict"),
                   fmt::format("unique.on_conflict \"{}\": must be keep for a job of a session",
                               to_string(job.unique->on_conflict)));
  }
  return {};
}

}  // namespace

std::string_view to_string(JobState state) {
  return kStateNames[static_cast<std::size_t>(state)];
}

std::optional<JobState> parse_job_state(std::string_view text) {
  const auto found = std::find(kStateNames.begin(), kStateNames.end(), text);
  if (found == kStateNames.end()) return std::nullopt;
  return static_cast<JobState>(found - kStateNames.begin());
}

std::string_view to_string(OnConflict policy) {
  return kConflictNames[static_cast<std::size_t>(policy)];
}

std::optional<OnConflict> parse_on_conflict(std::string_view text) {
  const auto found = std::find(kConflictNames.begin(), kConflictNames.end(), text);
  if (found == kConflictNames.end()) return std::nullopt;
  return static_cast<OnConflict>(found - kConflictNames.begin());
}

std::string_view to_string(RemarkFault fault) {
  return kRemarkFaultNames.at(static_cast<std::size_t>(fault));
}
std::optional<RemarkFault> parse_remark_fault(std::string_view text) {
  const auto found = std::find(kRemarkFaultNames.begin(), kRemarkFaultNames.end(), text);
  if (found == kRemarkFaultNames.end()) return std::nullopt;
  return static_cast<RemarkFault>(found - kRemarkFaultNames.begin());
}

std::string_view to_string(OnExpiry policy) {
  return policy == OnExpiry::dead ? "dead" : "cancel";
}

std::optional<OnExpiry> parse_on_expiry(std::string_view text) {
  for (const OnExpiry policy : {OnExpiry::cancel, OnExpiry::dead}) {
    if (to_string(policy) == text) return policy;
  }
  return std::nullopt;
}

Duration default_back_off(JobId id, int attempt) {
  constexpr std::int64_t kCapMs = 6 * 3600 * 1000LL;
  constexpr int kCapAttempt = 13;  // 13^4 s is over 6 h: larger attempts hit the cap
  const std::int64_t n = std::clamp(attempt, 1, kCapAttempt);
  const std::int64_t base_ms = std::min(n * n * n * n * 1000 + 2000, kCapMs);
  std::uint64_t h =
      static_cast<std::uint64_t>(id) * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(attempt);
  h = (h ^ (h >> 31)) * 0xbf58476d1ce4e5b9u;
  h ^= h >> 29;
  const std::int64_t per_mille = 800 + static_cast<std::int64_t>(h % 401);  // 80 % to 120 %
  return std::chrono::milliseconds(base_ms * per_mille / 1000);
}

Result<void> check_name(std::string_view field, std::string_view name) {
  const bool ok = !name.empty() && name.size() <= kMaxNameBytes &&
                  std::all_of(name.begin(), name.end(), is_name_char) && is_name_char(name[0]) &&
                  name[0] != '.' && name[0] != '-' && name[0] != '/' && name[0] != ':' &&
                  name[0] != '_';
  if (ok) return {};
  return invalid(std::string(field), fmt::format("{} \"{}\": must be 1 to {} letters, digits or . "
                                                 "_ : / -, beginning with a letter or a digit",
                                                 field, name.substr(0, 64), kMaxNameBytes));
}

Result<void> check_memo_name(std::string_view field, std::string_view name) {
  const bool ok = !name.empty() && name.size() <= kMaxMemoNameBytes &&
                  std::all_of(name.begin(), name.end(), [](char c) {
                    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                           (c >= '0' && c <= '9') || c == '_' || c == '-';
                  });
  if (ok) return {};
  return invalid(std::string(field),
                 fmt::format("{} \"{}\": must be 1 to {} of A-Z, a-z, 0-9, _ and -", field,
                             name.substr(0, kMaxMemoNameBytes), kMaxMemoNameBytes));
}

Result<void> check_starts(const NewJob& job, WallTime now, std::string_view prefix) {
  if (!job.run_at || !job.expires_in || *job.run_at < now + *job.expires_in) return {};
  return invalid(std::string(prefix) + "expires_in",
                 fmt::format("expires_in {}: must end after run_at {}, or the job never starts",
                             format_duration(*job.expires_in), format_wall_time(*job.run_at)));
}

Result<void> validate(const NewJob& job, std::string_view prefix) {
  // Runs for every job of every batch: format nothing unless there is an error.
  const auto at = [&](std::string_view name) { return std::string(prefix).append(name); };
  MS_TRY(check_name(at("queue"), job.queue));
  MS_TRY(check_not_reserved(at("queue"), job.queue));
  MS_TRY(check_name(at("kind"), job.kind));
  MS_TRY(check_size(at("args"), job.args.size(), kMaxArgsBytes));
  MS_TRY(check_size(at("headers"), job.headers.size(), kMaxHeadersBytes));
  MS_TRY(check_size(at("correlation_id"), job.correlation_id.size(), kMaxKeyBytes));
  if (!job.reply_to.empty()) {
    MS_TRY(check_name(at("reply_to"), job.reply_to));
    MS_TRY(check_not_reserved(at("reply_to"), job.reply_to));
  }
  const bool sessions =
      !job.session.empty() || !job.reply_session.empty() || job.on_dead != OnDead::skip;
  if (sessions) MS_TRY(check_sessions(job, prefix));
  if (!job.limit_key.empty()) MS_TRY(check_limit_key(job, prefix));
  if (job.args.empty()) return invalid(at("args"), "args: must be a JSON value");
  if (job.trigger_depth != 0)
    return invalid(at("trigger_depth"), "trigger_depth: must be 0: it is the engine's");
  if (job.priority < 0 || job.priority > kLowestPriority) {
    return invalid(at("priority"),
                   fmt::format("priority {}: must be 0 to {}", job.priority, kLowestPriority));
  }
  if (job.max_attempts < 1 || job.max_attempts > kMaxMaxAttempts) {
    return invalid(at("max_attempts"), fmt::format("max_attempts {}: must be 1 to {}",
                                                   job.max_attempts, kMaxMaxAttempts));
  }
  if (job.run_at && job.delay)
    return invalid(at("delay"), "delay and run_at: give at most one of them");
  if (job.delay && job.delay->count() < 0)
    return invalid(at("delay"),
                   fmt::format("delay {}: must not be negative", format_duration(*job.delay)));
  if (job.timeout <= Duration(0))
    return invalid(at("timeout"), fmt::format("timeout {}: must be more than 0, or \"none\"",
                                              format_duration(job.timeout)));
  if (job.expires_in && *job.expires_in <= Duration(0)) {
    return invalid(at("expires_in"), fmt::format("expires_in {}: must be more than 0",
                                                 format_duration(*job.expires_in)));
  }
  if (job.expires_in && job.delay && *job.expires_in <= *job.delay) {
    return invalid(at("expires_in"),
                   fmt::format("expires_in {}: must be more than delay {}, or the job never starts",
                               format_duration(*job.expires_in), format_duration(*job.delay)));
  }
  if (job.on_expiry != OnExpiry::cancel && !job.expires_in) {
    return invalid(at("on_expiry"), "on_expiry: is for jobs that expire, and needs expires_in");
  }
  if (job.tags.size() > kMaxTags) {
    return invalid(at("tags"), fmt::format("tags has {} entries: must be at most {}",
                                           job.tags.size(), kMaxTags));
  }
  for (const std::string& tag : job.tags) {
    if (tag.empty() || tag.size() > kMaxTagBytes || tag.find('\x1f') != std::string::npos) {
      return invalid(at("tags"), fmt::format("tag \"{}\": must be 1 to {} bytes of text",
                                             tag.substr(0, 80), kMaxTagBytes));
    }
  }
  if (job.unique) MS_TRY(check_unique(*job.unique, prefix));
  if (!job.follow_ups.empty()) MS_TRY(check_follow_ups(job.follow_ups, prefix));
  return {};
}

Result<void> validate_next(const std::vector<NewJob>& next, std::string_view prefix) {
  if (next.size() > kMaxNextJobs) {
    return invalid(fmt::format("{}next", prefix),
                   fmt::format("next has {} jobs: must be at most {}", next.size(), kMaxNextJobs));
  }
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < next.size(); ++i) {
    const std::string at = fmt::format("{}next[{}].", prefix, i);
    MS_TRY(validate(next[i], at));
    if (next[i].unique) {
      return invalid(at + "unique", "unique: cannot be given with a job that a completion makes");
    }
    bytes += next[i].args.size() + next[i].headers.size();
  }
  return check_size(fmt::format("{}next", prefix), bytes, kMaxNextBytes);
}

}  // namespace mainspring
