// Leases by name: acquire, renew, release, and the fence of other operations.
#include "store_sqlite/store_impl.h"

namespace mainspring::sqlite {
namespace {
Error later() {
  return {.code = ErrorCode::unavailable, .message = "not built"};
}
}  // namespace

OperationResult SqliteStore::operator()(const AcquireLease&) {
  return later();
}
OperationResult SqliteStore::operator()(const RenewLease&) {
  return later();
}
OperationResult SqliteStore::operator()(const ReleaseLease&) {
  return later();
}
Instant SqliteStore::lease_free_at(const std::string&) const {
  return Instant();
}
Result<LeaseInfo> SqliteStore::lease(const std::string&, Instant) const {
  return later();
}
Result<std::vector<LeaseInfo>> SqliteStore::leases(const std::string&, int, Instant) const {
  return later();
}

}  // namespace mainspring::sqlite
