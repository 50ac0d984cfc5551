// Sessions: jobs of one key that run one at a time, and who holds them.
#include "store_sqlite/store_impl.h"

namespace mainspring::sqlite {
namespace {

Error not_there() {
  return {.code = ErrorCode::unavailable, .message = "sessions: this store has none yet"};
}

}  // namespace

OperationResult SqliteStore::operator()(const AcceptSession&) {
  return not_there();
}

OperationResult SqliteStore::operator()(const RenewSession&) {
  return not_there();
}

OperationResult SqliteStore::operator()(const ReleaseSession&) {
  return not_there();
}

OperationResult SqliteStore::operator()(const PutSessionState&) {
  return not_there();
}

OperationResult SqliteStore::operator()(const ResumeSession&) {
  return not_there();
}

Result<SessionInfo> SqliteStore::session(const SessionKey&, Instant) const {
  return not_there();
}

Result<SessionPage> SqliteStore::sessions(const std::string&, const SessionKey&, int,
                                          Instant) const {
  return not_there();
}

}  // namespace mainspring::sqlite
