// Session settings that change the meaning of the store's statements, or abort them: the defaults
// of the server, the database and the role are unknown.
#pragma once

#include "store_postgres/connection.h"

namespace mainspring::pg {

// What each of the store's own connections sets when it opens. Not used with a pooler that shares
// connections: it would affect other clients.
extern const char* const kSessionSettings;

// Throws Error `conflict` with the setting's name, and the command that changes it: for settings
// that the store cannot change. `limit` is the maximum time of one of its statements.
void check_settings(Connection& connection, bool pooled, Duration limit);

}  // namespace mainspring::pg
