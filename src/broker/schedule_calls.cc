// Leases and schedules: the broker's blocking calls.
#include "broker/schedule_plans.h"
#include "broker/sync_call.h"
#include "model/schedule.h"

namespace mainspring {

Result<LeaseGrant> Broker::acquire_lease(AcquireLease request, Duration wait,
                                         std::stop_token stop) {
  MS_TRY(validate(request));
  SyncCall sync;
  const ParkId id = submit_acquire(std::move(request), wait, sync.answer());
  std::stop_callback on_stop(stop, [&] { abandon(id); });
  wait_for(sync);
  return sync.take<LeaseGrant>();
}

Result<LeaseGrant> Broker::renew_lease(RenewLease request) {
  MS_TRY(validate(request));
  return call<LeaseGrant>(std::move(request));
}

Result<void> Broker::release_lease(ReleaseLease request) {
  MS_TRY(validate(request));
  MS_TRY(call<Done>(std::move(request)));
  return {};
}

Result<LeaseInfo> Broker::get_lease(const std::string& name) {
  MS_TRY(check_name("name", name));
  return store_.lease(name, clock_.now().instant);
}

Result<std::vector<LeaseInfo>> Broker::leases(const std::string& after, int limit) {
  return store_.leases(after, limit, clock_.now().instant);
}

Result<PutScheduleResult> Broker::put_schedule(Schedule schedule, std::optional<bool> paused,
                                               RunCount runs) {
  MS_TRY_ASSIGN(PutSchedule put, plan_put(std::move(schedule), paused, clock_.now().wall, runs));
  return call<PutScheduleResult>(std::move(put));
}

Result<void> Broker::remove_schedule(const std::string& name) {
  MS_TRY(call<Done>(RemoveSchedule{name}));
  return {};
}

Result<void> Broker::pause_schedule(PauseSchedule request) {
  MS_TRY(call<Done>(std::move(request)));
  return {};
}

Result<void> Broker::set_timer(SetTimer request) {
  if (request.timeout < Duration(0))
    return invalid("timeout", "timeout: must be more than 0, or 0 for the schedule's own");
  MS_TRY(call<Done>(std::move(request)));
  return {};
}

Result<FireResult> Broker::trigger_schedule(const std::string& name, TickSource source,
                                            std::optional<Overlap> overlap) {
  return call<FireResult>(plan_trigger(name, source, overlap));
}

Result<BackfillResult> Broker::backfill_schedule(Backfill request) {
  MS_TRY_ASSIGN(const ScheduleInfo info, store_.schedule(request.name));
  if (!request.within.has(info.schedule.job.queue)) {
    return Error{ErrorCode::not_found, "schedule " + request.name + ": there is no such schedule"};
  }
  MS_TRY_ASSIGN(BackfillPlan plan, plan_backfill(info, request));
  plan.fire.within = request.within;
  if (plan.fire.ticks.empty()) return BackfillResult{.next = plan.next};
  MS_TRY_ASSIGN(const FireResult done, call<FireResult>(std::move(plan.fire)));
  return BackfillResult{.fired = done.fired, .skipped = done.skipped, .next = plan.next};
}

Result<ScheduleInfo> Broker::get_schedule(const std::string& name) {
  MS_TRY_ASSIGN(ScheduleInfo info, store_.schedule(name));
  info.problem = schedule_problem(info.schedule);
  return info;
}

Result<std::vector<ScheduleInfo>> Broker::schedules(const std::string& after, int limit) {
  MS_TRY_ASSIGN(std::vector<ScheduleInfo> page, store_.schedules(after, limit));
  for (ScheduleInfo& info : page) info.problem = schedule_problem(info.schedule);
  return page;
}

Result<LedgerPage> Broker::ledger(const std::string& name, int limit, std::int64_t before) {
  return store_.ledger(name, limit, before);
}

Result<std::vector<PreviewTick>> Broker::preview_schedule(const std::string& name,
                                                          std::optional<WallTime> from, int count) {
  MS_TRY(check_preview_count(count));
  MS_TRY_ASSIGN(const ScheduleInfo info, store_.schedule(name));
  return preview(info.schedule, from.value_or(clock_.now().wall), count);
}

}  // namespace mainspring
