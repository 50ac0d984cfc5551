// Schedules of an engine, forwarded to the broker or the server.
#include "broker/jobs.h"
#include "engine/checks.h"
#include "mainspring/schedules.h"

namespace mainspring {

std::string_view to_string(DefinitionOutcome outcome) {
  switch (outcome) {
    case DefinitionOutcome::created:
      return "created";
    case DefinitionOutcome::replaced:
      return "replaced";
    case DefinitionOutcome::unchanged:
      return "unchanged";
  }
  return "";
}

Result<DefinedSchedule> EngineSchedules::put(Schedule schedule, RunCount runs) {
  MS_TRY_ASSIGN(const PutScheduleResult result,
                jobs_->put_schedule(std::move(schedule), std::nullopt, runs));
  DefinedSchedule out{.version = result.version};
  if (result.outcome == PutOutcome::replaced) out.outcome = DefinitionOutcome::replaced;
  if (result.outcome == PutOutcome::unchanged) out.outcome = DefinitionOutcome::unchanged;
  return out;
}

Result<void> EngineSchedules::remove(const std::string& name) {
  MS_TRY(check_name("name", name));
  return jobs_->remove_schedule(name);
}

Result<void> EngineSchedules::pause(const std::string& name, std::string reason) {
  MS_TRY(check_name("name", name));
  return jobs_->pause_schedule({.name = name, .paused = true, .reason = std::move(reason)});
}

Result<void> EngineSchedules::resume(const std::string& name) {
  MS_TRY(check_name("name", name));
  return jobs_->pause_schedule({.name = name, .paused = false, .reason = ""});
}

Result<ScheduleChanges> EngineSchedules::pause_all(ScheduleSet which, std::string reason) {
  return jobs_->pause_schedules(
      {.which = std::move(which), .paused = true, .reason = std::move(reason)});
}

Result<ScheduleChanges> EngineSchedules::resume_all(ScheduleSet which) {
  return jobs_->pause_schedules({.which = std::move(which), .paused = false, .reason = ""});
}

Result<Upcoming> EngineSchedules::upcoming(Duration within, int limit) {
  return jobs_->upcoming(within, limit);
}

Result<JobId> EngineSchedules::trigger(const std::string& name) {
  MS_TRY(check_name("name", name));
  MS_TRY_ASSIGN(const FireResult result,
                jobs_->trigger_schedule(name, TickSource::trigger, std::nullopt));
  return result.jobs.empty() ? 0 : result.jobs.front();
}

Result<void> EngineSchedules::set_timeout(const std::string& name, Duration timeout) {
  MS_TRY(check_name("name", name));
  return jobs_->set_timer({.name = name, .timeout = timeout});
}

Result<ScheduleInfo> EngineSchedules::get(const std::string& name) {
  MS_TRY(check_name("name", name));
  return jobs_->get_schedule(name);
}

Result<std::vector<ScheduleInfo>> EngineSchedules::list(int limit, const std::string& after) {
  MS_TRY(check_limit(limit));
  return jobs_->schedules(after, limit);
}

Result<LedgerPage> EngineSchedules::ledger(const std::string& name, int limit,
                                           std::int64_t before) {
  MS_TRY(check_name("name", name));
  MS_TRY(check_limit(limit));
  MS_TRY(check_position("before", before));
  return jobs_->ledger(name, limit, before);
}

Result<std::vector<PreviewTick>> EngineSchedules::preview(const std::string& name, int count,
                                                          std::optional<WallTime> from) {
  MS_TRY(check_name("name", name));
  return jobs_->preview_schedule(name, from, count);
}

}  // namespace mainspring
