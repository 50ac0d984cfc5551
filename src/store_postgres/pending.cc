// Operations whose files are being written.
#include "store_postgres/store_impl.h"

namespace mainspring::pg {

namespace {
Error pending() {
  return Error{.code = ErrorCode::internal, .message = "not there yet"};
}
}  // namespace

// schedules.cc, firing.cc
OperationResult PostgresStore::operator()(const PutSchedule&) {
  return pending();
}
OperationResult PostgresStore::operator()(const RemoveSchedule&) {
  return pending();
}
OperationResult PostgresStore::operator()(const PauseSchedule&) {
  return pending();
}
OperationResult PostgresStore::operator()(const SetTimer&) {
  return pending();
}
OperationResult PostgresStore::operator()(const FireSchedule&) {
  return pending();
}
void PostgresStore::schedule_job_ended(JobInHand&) {}
void PostgresStore::schedule_job_revived(JobInHand&) {}
void PostgresStore::load_schedules() {}
WallTime PostgresStore::next_schedule() const {
  return WallTime::never();
}
Result<ScheduleInfo> PostgresStore::schedule(const std::string&) const {
  return pending();
}
Result<std::vector<ScheduleInfo>> PostgresStore::schedules(const std::string&, int) const {
  return pending();
}
Result<std::vector<ScheduleInfo>> PostgresStore::due_schedules(WallTime, int) const {
  return pending();
}
Result<LedgerPage> PostgresStore::ledger(const std::string&, int, std::int64_t) const {
  return pending();
}

}  // namespace mainspring::pg
