// The shared store: one PostgreSQL database (15 or newer), any number of nodes. A schema of its own
// holds everything; docs/internals/store_postgres.md draws the layout.
//
// What differs from a store that one process owns:
//   - Other nodes change it too. What this store keeps in memory (which queues may have work, the
//     agenda, tokens, schedules) is a hint or a copy: heard() says that others changed something,
//     and a heartbeat compares. The database decides, by row locks and fencing tokens.
//   - It can be away. apply() then answers `unavailable` with retry_after_ms: nothing of the batch
//     happened. It never answers io_error for that.
//   - Where the connection was lost while it committed, the batch is looked up by its number when
//     the database is back: done is answered as done, not done is done again. If it does not come
//     back in time the answer is `timeout`: unknown.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/secret.h"
#include "env/clock.h"
#include "store/shared_store.h"
#include "telemetry/log.h"

namespace mainspring {

struct PostgresOptions {
  // postgres://USER:PASSWORD@HOST:PORT,HOST2:PORT2/DATABASE?sslmode=…, or key=value words: all that
  // libpq takes, its environment variables and password file too. With several hosts the one that
  // accepts writes is looked for.
  Secret url;
  std::string schema = "mainspring";
  StoreOptions store;
  // Creates or migrates the schema when it opens. Off: a schema that is too old is a conflict.
  bool migrate = true;
  // Off for connection poolers that mix transactions of several clients on one connection.
  bool prepared = true;
  int readers = 4;                                        // connections for reads
  Duration connect_timeout = std::chrono::seconds(2);     // for each host
  Duration statement_timeout = std::chrono::seconds(10);  // for each round trip of a batch
  Duration read_timeout = std::chrono::seconds(5);        // for each read
  // How long apply() tries to reach the database again before it answers `unavailable`.
  Duration patience = std::chrono::seconds(1);
  // What leases are measured on: the shared clock is the database's. Tests give their own.
  enum class LeaseClock { wall, instant };
  LeaseClock lease_clock = LeaseClock::wall;
  // Random, new for each process start; "" = one is made. Names the node in the table `nodes`.
  std::string incarnation;
  // Off: a further connection of a node that has joined. It stands in no table, hears nothing, and
  // begins no lease anew. It takes completions of jobs that the node's first one gave out; those
  // that are not done by the one statement for plain ones it answers as stale without looking.
  bool joins = true;
  // Ids of jobs of workflows are taken some at a time, and what is left over is a gap. Off: one by
  // one, for tests that compare ids.
  bool ids_ahead = true;
  // At least `least_of_bundle` plain jobs that are enqueued together become packed ready entries of
  // up to `most_of_bundle` jobs (1 to 1000). A claim for fewer than `least_of_bundle` jobs unpacks
  // an entry. Off: each job has an entry of its own (tests and measurements).
  bool bundles = true;
  int least_of_bundle = 8, most_of_bundle = 100;
  // Workflows of few steps are stored in few rows. Off: as large workflows are (tests).
  bool packed_workflows = true;
  // A store that goes on elsewhere is opened for nothing but reads, and not joined.
  IfMoved if_moved = IfMoved::refuse;
};

// Wall time as the database tells it, carried on between its answers by this machine's steady
// clock: what every node of one store agrees on. Before the first answer it is `base`'s.
class DatabaseClock final : public Clock {
 public:
  explicit DatabaseClock(const Clock& base);
  ~DatabaseClock() override;
  Now now() const override;
  // An answer that arrived between `sent` and `received` says that the time was `database`.
  void note(WallTime database, Now sent, Now received);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Connects, checks the version of the server and of the schema, and migrates if `options` say so.
// If no other node of this store lives, every lease begins anew, as after a restart. `clock` may be
// nullptr: it is told the database's time with each answer. Errors: unavailable (not reached;
// read-only), unauthenticated (the server refused user or password), conflict (schema too new, too
// old without `migrate`, of a development build, or not ours; it has moved, or is an unfinished
// copy: the message says of what), invalid_argument (the URL, the schema's name).
Result<std::unique_ptr<SharedStore>> open_postgres_store(PostgresOptions options, Now now, Log& log,
                                                         DatabaseClock* clock = nullptr);

}  // namespace mainspring
