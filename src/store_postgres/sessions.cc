// Sessions: jobs of one key that run one at a time, and who holds them.
#include "store_postgres/store_impl.h"

namespace mainspring::pg {
namespace {

Error not_there() {
  return {.code = ErrorCode::unavailable, .message = "sessions: this store has none yet"};
}

}  // namespace

OperationResult PostgresStore::operator()(const AcceptSession&) {
  return not_there();
}

OperationResult PostgresStore::operator()(const RenewSession&) {
  return not_there();
}

OperationResult PostgresStore::operator()(const ReleaseSession&) {
  return not_there();
}

OperationResult PostgresStore::operator()(const PutSessionState&) {
  return not_there();
}

OperationResult PostgresStore::operator()(const ResumeSession&) {
  return not_there();
}

Result<SessionInfo> PostgresStore::session(const SessionKey&, Instant) const {
  return not_there();
}

Result<SessionPage> PostgresStore::sessions(const std::string&, const SessionKey&, int,
                                            Instant) const {
  return not_there();
}

}  // namespace mainspring::pg
