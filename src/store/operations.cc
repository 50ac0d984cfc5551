// Operations and their results as values.
#include "store/operations.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"

namespace mainspring {

Error no_queue(std::string_view name) {
  return {
      ErrorCode::not_found,
      fmt::format("there is no queue \"{}\": check the name, or create it (create=true)", name)};
}

Error removed_job(JobId id) {
  return {ErrorCode::expired,
          fmt::format("job {}: its record was removed: deleted, or its retention has ended", id)};
}

Error not_to_take_back(JobId id, JobState state) {
  return {ErrorCode::conflict,
          fmt::format("job {} is {}: only a running job can be taken back", id, to_string(state))};
}

Result<void> check_fact(std::string_view field, std::string_view text, std::size_t max_bytes) {
  if (text.size() > max_bytes) {
    return invalid(std::string(field), fmt::format("{} has {} bytes: must have at most {}", field,
                                                   text.size(), max_bytes));
  }
  const auto control = [](char c) { return (c >= 0 && c < ' ') || c == 0x7f; };
  if (std::any_of(text.begin(), text.end(), control)) {
    return invalid(std::string(field), fmt::format("{}: must not have control characters", field));
  }
  return {};
}

Result<void> check_pause(const PauseQueue& pause, WallTime now) {
  if (pause.reason.size() > kMaxPauseReasonBytes) {
    return invalid("reason", fmt::format("reason has {} bytes: must have at most {}",
                                         pause.reason.size(), kMaxPauseReasonBytes));
  }
  if (!pause.until) return {};
  const std::string text = format_wall_time(*pause.until);
  if (*pause.until <= now) {
    return invalid(
        "until", fmt::format("until {}: must be later than now, {}", text, format_wall_time(now)));
  }
  if (*pause.until > now + kMaxPause) {
    return invalid("until", fmt::format("until {}: must be at most {} from now", text,
                                        format_duration(kMaxPause)));
  }
  return {};
}

Error no_mark(std::int64_t id) {
  return {ErrorCode::not_found, fmt::format("there is no mark {}", id)};
}

Error no_view(std::string_view name) {
  return {ErrorCode::not_found, fmt::format("there is no saved view \"{}\"", name)};
}

Error too_many_views() {
  return {ErrorCode::overloaded,
          fmt::format("there are {} saved views, which is the limit: remove one", kMaxViews)};
}

Operation::Operation() = default;
Operation::Operation(const Operation& other) = default;
Operation::Operation(Operation&& other) noexcept = default;
Operation& Operation::operator=(const Operation& other) = default;
Operation& Operation::operator=(Operation&& other) noexcept = default;
Operation::~Operation() = default;

OperationResult::OperationResult() = default;
OperationResult::OperationResult(const OperationResult& other) = default;
OperationResult::OperationResult(OperationResult&& other) noexcept = default;
OperationResult& OperationResult::operator=(const OperationResult& other) = default;
OperationResult& OperationResult::operator=(OperationResult&& other) noexcept = default;
OperationResult::~OperationResult() = default;

void redefine(ScheduleInfo& info, const PutSchedule& op, bool has_run, WallTime now) {
  const bool restarts = op.runs == RunCount::restart || MS_MUTANT(redefined_schedule_runs_again);
  const std::int64_t ran = info.remaining ? info.schedule.max_runs - *info.remaining : info.fired;
  info.schedule = op.schedule;
  ++info.version;
  info.next = op.next;
  info.next_fire = op.next_fire;
  info.skip_before = WallTime::from_us(0);
  info.skip_reason.clear();
  info.remaining.reset();
  if (op.schedule.max_runs > 0)
    info.remaining =
        restarts ? op.schedule.max_runs : std::max<std::int64_t>(op.schedule.max_runs - ran, 0);
  if (info.remaining == 0 || (has_run && !restarts)) info.next = info.next_fire = WallTime::never();
  if (!op.schedule.continuous) info.timeout_override.reset();
  if (op.paused && *op.paused != info.paused) {
    info.paused = *op.paused;
    info.paused_reason.clear();
  }
  info.updated_at = now;
}

}  // namespace mainspring
