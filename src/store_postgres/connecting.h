// From a URL that may name several hosts to one connection to a server.
#pragma once

#include "store_postgres/connection.h"

namespace mainspring::pg {

// How long a host is waited for before the next one of the URL is tried beside it.
inline constexpr Duration kNextHostAfter = std::chrono::milliseconds(250);

// The first host that answers and is what `options` ask for, the hosts in the order of the URL: the
// next one is asked as soon as the one before failed, or has not answered within kNextHostAfter.
// So a machine that is switched off costs that much, not options.connect_timeout, which is the
// limit of each. While one is silent, those that refused are asked again, as often: a standby may
// become the primary meanwhile. Throws PgError: 28P01 if a server refused the user or the password.
// The caller owns the connection.
PGconn* connect_to_any(const ConnectionOptions& options, const Clock& clock);

}  // namespace mainspring::pg
