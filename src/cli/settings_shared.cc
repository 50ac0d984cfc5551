// The settings of a store that several nodes share, and of what stands between them.
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
       .meaning = "the store is this PostgreSQL database (15 or newer), which any number of "
                  "servers may share: postgres://USER@HOST:PORT,HOST2:PORT2/DATABASE; none = the "
                  "data directory",
       .raise_if = "one machine is not enough; a password belongs into store_file, PGPASSFILE or "
                   "MAINSPRING_STORE: flags are seen by everybody on this machine"},
      {.name = "store_file",
       .value = "FILE",
       .member = &Options::store_file,
       .scopes = kServeScope | kStoreScope,
       .meaning = "that URL is the first line of this file"},
      {.name = "store_schema",
       .value = "NAME",
       .member = &Options::store_schema,
       .scopes = kServeScope | kStoreScope,
       .meaning = "the schema of that database that holds everything"},
      {.name = "store_migrate",
       .value = "WHEN",
       .member = &Options::store_migrate,
       .scopes = kServeScope | kStoreScope,
       .meaning = "bring its schema up to this version at the start",
       .raise_if = "the server's role may not change tables: then `mainspring store migrate` by "
                   "one that may",
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
       .meaning = "connections of each server for reads, beside the one for changes",
       .min = 1,
       .max = 100},
      {.name = "store_connect_timeout",
       .value = "TIME",
       .member = &Options::store_connect_timeout,
       .scopes = kServeScope | kStoreScope,
       .meaning = "how long each host of the URL may take to answer",
       .min = kSecond,
       .max = 60 * kSecond},
      {.name = "store_poll",
       .value = "TIME",
       .member = &Options::store_poll,
       .scopes = kServeScope,
       .meaning = "about how often a server looks for what it did not hear of from others",
       .raise_if = "the database is to be spared and the bell works",
       .min = kSecond,
       .max = 300 * kSecond},
  };
}

std::vector<Setting> neighbour_settings() {
  return {
      {.name = "bell_listen",
       .value = "ADDRESS",
       .member = &Options::bell_listen,
       .scopes = kServeScope,
       .meaning = "where other servers of the same store ring this one: HOST:PORT, port 0 = any "
                  "free one; only those who can read the database can ring",
       .raise_if = "the servers are on several machines"},
      {.name = "bell_advertise",
       .value = "ADDRESS",
       .member = &Options::bell_advertise,
       .scopes = kServeScope,
       .meaning = "by which HOST or HOST:PORT they reach it; auto = where it listens"},
      {.name = "wake",
       .value = "HOW",
       .member = &Options::wake,
       .scopes = kServeScope,
       .meaning = "how servers wake each other: auto = by the bell, and by NOTIFY while the bell "
                  "does not reach all; notify = by NOTIFY alone; poll = not at all",
       .choices = "auto|notify|poll"},
      {.name = "listen_url",
       .value = "URL",
       .member = &Options::listen_url,
       .scopes = kServeScope,
       .meaning = "for LISTEN and NOTIFY, straight to the server, where store leads to a pooler; "
                  "none = as store"},
      {.name = "require_rpo0",
       .value = "",
       .member = &Options::require_rpo0,
       .scopes = kServeScope,
       .meaning = "refuse to start, be unready and refuse changes unless each commit waits for a "
                  "standby, which is looked at every 2 seconds: nothing acknowledged is lost with "
                  "a server"},
  };
}

}  // namespace mainspring::cli
