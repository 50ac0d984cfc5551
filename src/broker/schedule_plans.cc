// Plans of put, trigger and backfill, and the input checks of leases.
#include "broker/schedule_plans.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "base/mutant.h"
#include "model/schedule.h"

namespace mainspring {
namespace {

Result<void> check_holder(const std::string& holder) {
  if (!holder.empty() && holder.size() <= kMaxNameBytes) return {};
  return invalid("holder", fmt::format("holder \"{}\": must be 1 to {} bytes, new for each holding",
                                       holder.substr(0, 64), kMaxNameBytes));
}

Result<void> check_ttl(Duration ttl) {
  if (ttl >= kMinLease && ttl <= kMaxLease) return {};
  return invalid("ttl", fmt::format("ttl {}: must be {} to {}", format_duration(ttl),
                                    format_duration(kMinLease), format_duration(kMaxLease)));
}

Result<void> check_value(const std::optional<std::string>& value) {
  if (!value || value->empty()) return {};
  if (value->size() <= kMaxLeaseValueBytes) return check_json("value", *value);
  return Error{.code = ErrorCode::too_large,
               .message = fmt::format("value has {} bytes: must be at most {}", value->size(),
                                      kMaxLeaseValueBytes),
               .field = "value"};
}

Result<void> check_token(Token token) {
  if (token > 0) return {};
  return invalid("token", fmt::format("token {}: must be that of the acquire", token));
}

}  // namespace

Result<PutSchedule> plan_put(Schedule schedule, std::optional<bool> paused, WallTime now,
                             RunCount runs) {
  MS_TRY(validate(schedule));
  MS_TRY(check_json("job.args", schedule.job.args));
  if (!schedule.job.headers.empty()) MS_TRY(check_json("job.headers", schedule.job.headers));
  const NextTick first = first_tick(schedule, now);
  return PutSchedule{.schedule = std::move(schedule),
                     .next = first.nominal,
                     .next_fire = first.fires_at,
                     .paused = paused,
                     .runs = runs};
}

FireSchedule plan_trigger(std::string name, TickSource source, std::optional<Overlap> overlap) {
  return {.name = std::move(name), .source = source, .ticks = {Tick{}}, .overlap = overlap};
}

Result<BackfillPlan> plan_backfill(const ScheduleInfo& info, const Backfill& request) {
  if (request.to <= request.from) {
    return invalid("to", fmt::format("to {}: must be after from {}", format_wall_time(request.to),
                                     format_wall_time(request.from)));
  }
  const Overlap overlap = request.overlap.value_or(Overlap::buffer_all);
  int limit = kMaxMisfires;
  if (overlap == Overlap::buffer_all) {
    // One of them may run at once, the others wait: none is dropped for lack of buffer space.
    limit = std::min(limit, kMaxBuffered - info.buffered);
    if (limit <= 0) {
      return Error{.code = ErrorCode::overloaded,
                   .message = fmt::format("{} jobs of schedule {} wait for their turn: must be "
                                          "fewer than {} before more are added",
                                          info.buffered, request.name, kMaxBuffered),
                   .retry_after_ms = 1000};
    }
  }
  TickRange range = ticks_between(info.schedule, request.from, request.to, limit);
  return BackfillPlan{.fire = {.name = request.name,
                               .source = TickSource::backfill,
                               .ticks = std::move(range.ticks),
                               .overlap = overlap},
                      .next = range.next};
}

Result<void> check_lease_name(const std::string& name) {
  MS_TRY(check_name("name", name));
  if (!name.starts_with(kReservedLeases) || MS_MUTANT(reserved_lease_for_all)) return {};
  return invalid("name", fmt::format("name \"{}\": must not begin with {}, which is the engine's",
                                     name, kReservedLeases));
}

Result<void> validate(const AcquireLease& request) {
  MS_TRY(check_lease_name(request.name));
  MS_TRY(check_holder(request.holder));
  return check_ttl(request.ttl);
}

Result<void> validate(const RenewLease& request) {
  MS_TRY(check_lease_name(request.name));
  MS_TRY(check_holder(request.holder));
  MS_TRY(check_token(request.token));
  if (request.ttl != Duration(0)) MS_TRY(check_ttl(request.ttl));
  return check_value(request.value);
}

Result<void> validate(const ReleaseLease& request) {
  MS_TRY(check_lease_name(request.name));
  MS_TRY(check_holder(request.holder));
  MS_TRY(check_token(request.token));
  return check_value(request.value);
}

Result<void> check_preview_count(int count) {
  if (count >= 1 && count <= kMaxPreview) return {};
  return invalid("count", fmt::format("count {}: must be 1 to {}", count, kMaxPreview));
}

}  // namespace mainspring
