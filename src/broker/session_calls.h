// The rules of sessions at the door: of calls in this process, and of the HTTP server.
#pragma once

#include "store/session_operations.h"

namespace mainspring {

// A queue that is not the engine's, and a key. Errors: invalid_argument (queue, session).
Result<void> check_session(const SessionKey& session);
Result<void> validate(const AcceptSession& request);
Result<void> validate(const RenewSession& request);
Result<void> validate(const ReleaseSession& request);
Result<void> validate(const PutSessionState& request);

}  // namespace mainspring
