// Input checks for sessions: for calls in this process and for the HTTP server.
#pragma once

#include "store/session_operations.h"

namespace mainspring {

// Checks the queue (not one of the engine's) and the key. Errors: invalid_argument (queue,
// session).
Result<void> check_session(const SessionKey& session);
Result<void> validate(const AcceptSession& request);
Result<void> validate(const RenewSession& request);
Result<void> validate(const ReleaseSession& request);
Result<void> validate(const PutSessionState& request);

}  // namespace mainspring
