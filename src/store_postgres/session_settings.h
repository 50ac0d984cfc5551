// Settings of a session that change what the store's statements mean, or end them: defaults of the
// server, the database and the role may be anything.
#pragma once

#include "store_postgres/connection.h"

namespace mainspring::pg {

// What a connection of the store's own sets at its begin. Not behind a pooler that mixes
// transactions: there it would be for other clients.
extern const char* const kSessionSettings;

// Throws Error `conflict` with the setting's name, and the command that changes it: for what the
// store cannot set itself. `limit` is how long one of its statements may take.
void check_settings(Connection& connection, bool pooled, Duration limit);

}  // namespace mainspring::pg
