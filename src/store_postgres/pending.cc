// Operations whose files are being written.
#include "store_postgres/store_impl.h"

namespace mainspring::pg {

AccessStatements::AccessStatements(std::string_view) {}

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

// access.cc, audit.cc
OperationResult PostgresStore::operator()(const CreateToken&) {
  return pending();
}
OperationResult PostgresStore::operator()(const RevokeToken&) {
  return pending();
}
OperationResult PostgresStore::operator()(const Audit&) {
  return pending();
}
void PostgresStore::load_tokens() {}
void PostgresStore::look_before(std::span<const Operation>, std::size_t) {}
std::string PostgresStore::image_of(const AuditObject&) {
  return "";
}
bool PostgresStore::prune_audit(int) {
  return false;
}
void PostgresStore::load_audit() {}
std::shared_ptr<const Tokens> PostgresStore::tokens() const {
  return std::make_shared<const Tokens>();
}
Result<AuditPage> PostgresStore::audit(const AuditFilter&, AuditOrder, int, std::int64_t) const {
  return pending();
}
AuditState PostgresStore::audit_state() const {
  return {};
}

// read.cc, verify.cc
Result<VerifyReport> PostgresStore::verify() const {
  return pending();
}
Result<void> PostgresStore::backup(const std::string&) const {
  return pending();
}

}  // namespace mainspring::pg
