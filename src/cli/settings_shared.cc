// The settings of a store that several nodes share, and of the connections between the nodes.
#include "cli/options.h"

namespace mainspring::cli {
namespace {

constexpr std::int64_t kSecond = 1'000'000;

}  // namespace

std::vector<Setting> shared_store_settings() {
  return {
      {.name = "store",
       .value = "URL",
       .member = &Options::store,
       .scopes = kServeScope | kStoreScope,
       .meaning = "PostgreSQL database (15 or newer) as the store, for any number of servers: "
                  "postgres://USER@HOST:PORT,HOST2:PORT2/DATABASE; none = the data directory",
       .raise_if = "one machine is not enough; put a password into store_file, PGPASSFILE or "
                   "MAINSPRING_STORE: other users can read flags"},
      {.name = "store_file",
       .value = "FILE",
       .member = &Options::store_file,
       .scopes = kServeScope | kStoreScope,
       .meaning = "file whose first line is that URL"},
      {.name = "store_schema",
       .value = "NAME",
       .member = &Options::store_schema,
       .scopes = kServeScope | kStoreScope,
       .meaning = "schema of that database"},
      {.name = "store_migrate",
       .value = "WHEN",
       .member = &Options::store_migrate,
       .scopes = kServeScope | kStoreScope,
       .meaning = "upgrade its schema at the start",
       .raise_if = "the server's role may not change tables: then run `mainspring store migrate` "
                   "as the owner",
       .choices = "on|off"},
      {.name = "store_prepared",
       .value = "WHEN",
       .member = &Options::store_prepared,
       .scopes = kServeScope | kStoreScope,
       .meaning = "prepare statements",
       .raise_if = "a pooler before 1.21 mixes transactions of several clients on one connection",
       .choices = "on|off"},
      {.name = "store_readers",
       .value = "N",
       .member = &Options::store_readers,
       .scopes = kServeScope,
       .meaning = "read connections per server",
       .min = 1,
       .max = 100},
      {.name = "store_connect_timeout",
       .value = "TIME",
       .member = &Options::store_connect_timeout,
       .scopes = kServeScope | kStoreScope,
       .meaning = "time limit for each host of the URL to connect",
       .min = kSecond,
       .max = 60 * kSecond},
      {.name = "store_poll",
       .value = "TIME",
       .member = &Options::store_poll,
       .scopes = kServeScope,
       .meaning = "interval at which a server polls for changes it was not notified of",
       .raise_if = "you want less load on the database and the peer notifier works",
       .min = kSecond,
       .max = 300 * kSecond},
  };
}

std::vector<Setting> cluster_settings() {
  return {
      {.name = "peer_listen",
       .value = "ADDRESS",
       .member = &Options::peer_listen,
       .scopes = kServeScope,
       .meaning = "address at which other servers of the store notify this one: HOST:PORT, port 0 "
                  "= any free port; only those who can read the database can use it",
       .raise_if = "the servers run on several machines"},
      {.name = "peer_advertise",
       .value = "ADDRESS",
       .member = &Options::peer_advertise,
       .scopes = kServeScope,
       .meaning = "HOST or HOST:PORT at which other servers reach it; auto = the listen address"},
      {.name = "wake",
       .value = "HOW",
       .member = &Options::wake,
       .scopes = kServeScope,
       .meaning = "how servers notify each other: auto = directly, and by NOTIFY while a server is "
                  "not reachable; notify = NOTIFY only; poll = not at all",
       .choices = "auto|notify|poll"},
      {.name = "listen_url",
       .value = "URL",
       .member = &Options::listen_url,
       .scopes = kServeScope,
       .meaning = "direct URL for LISTEN and NOTIFY if store is a pooler; none = store"},
      {.name = "require_rpo0",
       .value = "",
       .member = &Options::require_rpo0,
       .scopes = kServeScope,
       .meaning = "refuse to start, be unready and refuse changes unless each commit waits for a "
                  "standby (checked every 2 seconds)"},
  };
}

}  // namespace mainspring::cli
