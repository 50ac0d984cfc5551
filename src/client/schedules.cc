// Leases and schedules of a remote server.
#include "client/client.h"

namespace mainspring {
namespace {
Error later() {
  return {.code = ErrorCode::unavailable, .message = "not built"};
}
}  // namespace

Result<LeaseGrant> Client::acquire_lease(AcquireLease, Duration, std::stop_token) {
  return later();
}
Result<LeaseGrant> Client::renew_lease(RenewLease) {
  return later();
}
Result<void> Client::release_lease(ReleaseLease) {
  return later();
}
Result<LeaseInfo> Client::get_lease(const std::string&) {
  return later();
}
Result<std::vector<LeaseInfo>> Client::leases(const std::string&, int) {
  return later();
}
Result<PutScheduleResult> Client::put_schedule(Schedule, std::optional<bool>) {
  return later();
}
Result<void> Client::remove_schedule(const std::string&) {
  return later();
}
Result<void> Client::pause_schedule(PauseSchedule) {
  return later();
}
Result<void> Client::set_timer(SetTimer) {
  return later();
}
Result<FireResult> Client::trigger_schedule(const std::string&, TickSource,
                                            std::optional<Overlap>) {
  return later();
}
Result<BackfillResult> Client::backfill_schedule(Backfill) {
  return later();
}
Result<ScheduleInfo> Client::get_schedule(const std::string&) {
  return later();
}
Result<std::vector<ScheduleInfo>> Client::schedules(const std::string&, int) {
  return later();
}
Result<LedgerPage> Client::ledger(const std::string&, int, std::int64_t) {
  return later();
}
Result<std::vector<PreviewTick>> Client::preview_schedule(const std::string&,
                                                          std::optional<WallTime>, int) {
  return later();
}

}  // namespace mainspring
