// Connects to one of the hosts in a URL.
#pragma once

#include "store_postgres/connection.h"

namespace mainspring::pg {

// How long to wait for a host before the next host of the URL is tried in parallel.
inline constexpr Duration kNextHostAfter = std::chrono::milliseconds(250);

// Connects to the first host that answers and satisfies `options`. Hosts are tried in the order of
// the URL: the next one after the previous one failed, or has not answered within kNextHostAfter.
// So a machine that is down costs kNextHostAfter, not options.connect_timeout, which limits each
// attempt. While a host is silent, the hosts that refused are retried at the same interval: a
// standby may become the primary. Throws PgError: 28P01 if a server refused the user or the
// password. The caller owns the connection.
PGconn* connect_to_any(const ConnectionOptions& options, const Clock& clock);

}  // namespace mainspring::pg
