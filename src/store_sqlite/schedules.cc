// Schedules and their ledger.
#include "store_sqlite/store_impl.h"

namespace mainspring::sqlite {
namespace {
Error later() {
  return {.code = ErrorCode::unavailable, .message = "not built"};
}
}  // namespace

OperationResult SqliteStore::operator()(const PutSchedule&) {
  return later();
}
OperationResult SqliteStore::operator()(const RemoveSchedule&) {
  return later();
}
OperationResult SqliteStore::operator()(const PauseSchedule&) {
  return later();
}
OperationResult SqliteStore::operator()(const SetTimer&) {
  return later();
}
OperationResult SqliteStore::operator()(const FireSchedule& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  return later();
}
Result<ScheduleInfo> SqliteStore::schedule(const std::string&) const {
  return later();
}
Result<std::vector<ScheduleInfo>> SqliteStore::schedules(const std::string&, int) const {
  return later();
}
Result<std::vector<ScheduleInfo>> SqliteStore::due_schedules(WallTime, int) const {
  return std::vector<ScheduleInfo>{};
}
Result<LedgerPage> SqliteStore::ledger(const std::string&, int, std::int64_t) const {
  return later();
}

}  // namespace mainspring::sqlite
