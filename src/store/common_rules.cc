// Rules of schedules, tokens and named locks that do not depend on how a store keeps its rows.
#include "store/common_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "store/ended_sessions.h"

namespace mainspring {
namespace {

// A scheduler with a fast clock fires nothing early: the store's clock decides.
bool is_early(const FireSchedule& op, WallTime now) {
  return std::any_of(op.ticks.begin(), op.ticks.end(),
                     [&](const Tick& tick) { return tick.until.value_or(tick.nominal) > now; });
}

// Applies the overlap policy when jobs of earlier ticks have not ended.
TickDecision overlap(Overlap policy, const std::set<JobId>& live, const std::set<JobId>& waiting) {
  if (live.empty() || MS_MUTANT(overlap_ignored)) return {};
  switch (policy) {
    case Overlap::skip:
      return {.skip = fmt::format("overlap: job {} has not ended", *live.begin())};
    case Overlap::buffer_one:
      if (!waiting.empty())
        return {.skip = fmt::format("overlap: job {} already waits", *waiting.begin())};
      break;
    case Overlap::buffer_all:
      if (waiting.size() >= std::size_t{kMaxBuffered})
        return {.skip = fmt::format("overlap: {} jobs wait", waiting.size())};
      break;
    case Overlap::cancel_other:
    case Overlap::terminate_other:
      return {.stops_others = true, .waits = true};
    case Overlap::allow:
      return {};
  }
  return {.waits = true};
}

// The oldest token that is revoked or expired, not an ended session.
Tokens::const_iterator oldest_unusable(const Tokens& tokens, WallTime now) {
  auto oldest = tokens.end();
  for (auto it = tokens.begin(); it != tokens.end(); ++it) {
    if (it->second.usable(now) || is_ended_session(it->first)) continue;
    if (oldest == tokens.end() || it->second.created_at < oldest->second.created_at) oldest = it;
  }
  return oldest;
}

}  // namespace

// -- schedules ------------------------------------------------------------------------------------

Error no_schedule(const std::string& name) {
  return {.code = ErrorCode::not_found,
          .message = fmt::format("schedule {}: there is no such schedule", name)};
}

void define_schedule(ScheduleInfo& info, const PutSchedule& op, WallTime now) {
  info.schedule = op.schedule;
  info.next = op.next;
  info.next_fire = op.next_fire;
  info.paused = op.paused.value_or(false);
  if (op.schedule.max_runs > 0) info.remaining = op.schedule.max_runs;
  info.created_at = info.updated_at = now;
}

std::optional<LedgerRow> replaced_ticks(const ScheduleInfo& info, WallTime now) {
  if (info.next > now) return std::nullopt;
  LedgerRow row{.version = info.version, .nominal = info.next, .state = TickState::skipped};
  row.reason = "replaced";
  if (!info.schedule.at) {  // one or more: only the calendar knows
    row.until = now;
    row.count = 0;
  }
  return row;
}

void pause_schedule(ScheduleInfo& info, bool paused, std::string reason, WallTime now) {
  info.paused = paused;
  info.paused_reason = paused ? std::move(reason) : "";
  if (!paused && !MS_MUTANT(paused_ticks_fire)) {
    info.skip_before = now;
    info.skip_reason = "paused";
  }
  info.updated_at = now;
}

Result<bool> set_timer(ScheduleInfo& info, const SetTimer& op, WallTime now) {
  if (!info.schedule.continuous) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format(
                     "schedule {} is not continuous: it has no timeout of its own", op.name)};
  }
  const auto timeout = op.timeout > Duration(0) ? std::optional(op.timeout) : std::nullopt;
  if (info.timeout_override == timeout) return false;
  info.timeout_override = timeout;
  info.updated_at = now;
  return true;
}

std::optional<Error> check_ticks(const FireSchedule& op, const ScheduleInfo& info, WallTime now) {
  // Also of a paused schedule, for the time when it resumes.
  const bool only_plans = !op.ticks.empty() && op.ticks[0].count == 0;
  const bool as_planned =
      info.version == op.version && info.next == op.expected_next && (!info.paused || only_plans);
  if (op.source == TickSource::schedule && !as_planned) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format(
                     "schedule {}: changed since its ticks were planned: plan again", op.name)};
  }
  if (op.source == TickSource::schedule && is_early(op, now) && !MS_MUTANT(early_tick_taken)) {
    return Error{.code = ErrorCode::unavailable,
                 .message = fmt::format("schedule {}: by the store's clock its tick is not due yet",
                                        op.name),
                 .retry_after_ms = 1000};
  }
  if (op.ticks.size() > kMaxFireTicks) {
    return Error{.code = ErrorCode::too_large,
                 .message = fmt::format("schedule {}: {} ticks at once: must be at most {}",
                                        op.name, op.ticks.size(), kMaxFireTicks)};
  }
  return std::nullopt;
}

WallTime nominal_of(const FireSchedule& op, const Tick& tick, WallTime now) {
  return op.source != TickSource::schedule && tick.nominal == WallTime() ? now : tick.nominal;
}

TickDecision decide_tick(const FireSchedule& op, const ScheduleInfo& info,
                         const std::set<JobId>& live, const std::set<JobId>& waiting) {
  if (op.source == TickSource::wake && info.paused) return {.skip = "paused"};
  if (info.remaining == 0) return {.skip = "no runs remain"};
  if (op.source == TickSource::wake) {
    const bool there = live.size() + waiting.size() >= 2 && !MS_MUTANT(third_standby);
    return {.skip = there ? "the next run is already queued" : ""};
  }
  return overlap(op.overlap.value_or(info.schedule.overlap), live, waiting);
}

LedgerRow row_of(const FireSchedule& op, const ScheduleInfo& info, const Tick& tick) {
  LedgerRow row{.version = info.version,
                .nominal = tick.nominal,
                .until = tick.until,
                .count = tick.count,
                .source = op.source,
                .past_due = tick.past_due};
  row.note = tick.note;
  return row;
}

NewJob job_of(const ScheduleInfo& info, const Tick& tick) {
  NewJob job = info.schedule.job;
  job.headers = tick_headers(info.schedule, tick.nominal, tick.past_due);
  return job;
}

WallTime tick_run_at(const FireSchedule& op, const ScheduleInfo& info, const Tick& tick,
                     WallTime now) {
  if (op.source != TickSource::schedule) return now;
  // All ticks of a schedule have the same jitter.
  return std::min(tick.nominal + (info.next_fire - info.next), now);
}

void note_fired(ScheduleInfo& info, WallTime nominal, JobId job) {
  ++info.fired;
  info.last_fired = nominal;
  info.last_job = job;
  if (info.remaining) --*info.remaining;
}

void set_next(ScheduleInfo& info, const FireSchedule& op) {
  if (op.source == TickSource::schedule && !MS_MUTANT(next_not_advanced)) {
    info.next = op.next;
    info.next_fire = op.next_fire;
  }
  if (info.remaining == 0) info.next = info.next_fire = WallTime::never();
}

// -- tokens ---------------------------------------------------------------------------------------

Result<std::set<std::string>> tokens_to_remove(const Tokens& tokens, const TokenRecord& token,
                                               WallTime now) {
  const std::string& name = token.name;
  if (is_ended_session(name)) {
    const auto useless = useless_sessions(tokens, token, now);
    return std::set<std::string>(useless.begin(), useless.end());
  }
  const auto same_digest = std::find_if(tokens.begin(), tokens.end(), [&](const auto& entry) {
    return equal_in_constant_time(entry.second.digest, token.digest);
  });
  if (same_digest != tokens.end()) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format(
                     "token {}: its text was used by another token: create a new one", name)};
  }
  const auto old = tokens.find(name);
  if (old != tokens.end() && old->second.usable(now)) {
    return Error{
        .code = ErrorCode::conflict,
        .message = fmt::format("token {} exists: revoke it first, or choose another name", name)};
  }
  std::set<std::string> out;
  if (old == tokens.end() && tokens.size() - count_ended_sessions(tokens) >= kMaxTokens) {
    const auto oldest = oldest_unusable(tokens, now);
    if (oldest == tokens.end()) {
      return Error{.code = ErrorCode::overloaded,
                   .message = fmt::format("there are {} tokens: must be at most that many; revoke "
                                          "some",
                                          kMaxTokens)};
    }
    out.insert(oldest->first);
  }
  return out;
}

TokenRecord created_token(const CreateToken& op, WallTime now) {
  TokenRecord token = op.token;
  token.created_at = now;
  token.revoked_at = is_ended_session(token.name) ? std::optional(now) : std::nullopt;
  return token;
}

Error no_token(const std::string& name) {
  return {.code = ErrorCode::not_found,
          .message = fmt::format("token {}: there is no such token", name)};
}

// -- named locks ----------------------------------------------------------------------------------

Error lost_lease(const std::string& name, Token token) {
  return {
      .code = ErrorCode::lease_lost,
      .message = fmt::format("lease {}: is not, or no longer, held with token {}", name, token)};
}

Result<void> check_lease_value(const std::optional<std::string>& value) {
  if (!value || value->size() <= kMaxLeaseValueBytes) return {};
  return Error{.code = ErrorCode::too_large,
               .message = fmt::format("value has {} bytes: must be at most {}", value->size(),
                                      kMaxLeaseValueBytes),
               .field = "value"};
}

}  // namespace mainspring
