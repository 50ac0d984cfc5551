// Leases and schedules: the broker's calls that wait for their answer.
#include "broker/broker.h"

namespace mainspring {
namespace {
Error later() {
  return {.code = ErrorCode::unavailable, .message = "not built"};
}
}  // namespace

Result<LeaseGrant> Broker::acquire_lease(AcquireLease, Duration, std::stop_token) {
  return later();
}
Result<LeaseGrant> Broker::renew_lease(RenewLease) {
  return later();
}
Result<void> Broker::release_lease(ReleaseLease) {
  return later();
}
Result<LeaseInfo> Broker::get_lease(const std::string&) {
  return later();
}
Result<std::vector<LeaseInfo>> Broker::leases(const std::string&, int) {
  return later();
}
Result<PutScheduleResult> Broker::put_schedule(Schedule, std::optional<bool>) {
  return later();
}
Result<void> Broker::remove_schedule(const std::string&) {
  return later();
}
Result<void> Broker::pause_schedule(PauseSchedule) {
  return later();
}
Result<void> Broker::set_timer(SetTimer) {
  return later();
}
Result<FireResult> Broker::trigger_schedule(const std::string&, TickSource,
                                            std::optional<Overlap>) {
  return later();
}
Result<BackfillResult> Broker::backfill_schedule(Backfill) {
  return later();
}
Result<ScheduleInfo> Broker::get_schedule(const std::string&) {
  return later();
}
Result<std::vector<ScheduleInfo>> Broker::schedules(const std::string&, int) {
  return later();
}
Result<LedgerPage> Broker::ledger(const std::string&, int, std::int64_t) {
  return later();
}
Result<std::vector<PreviewTick>> Broker::preview_schedule(const std::string&,
                                                          std::optional<WallTime>, int) {
  return later();
}

}  // namespace mainspring
