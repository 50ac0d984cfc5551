// The shared store: one PostgreSQL database (15 or newer), any number of nodes. The store uses a
// schema of its own; docs/internals/store_postgres.md describes the layout.
//
// Differences from a store that one process owns:
//   - Other nodes change it too. The data that this store keeps in memory (queues that may have
//     jobs, the agenda, tokens, schedules) is a hint or a copy. heard() reports changes of other
//     nodes, and a heartbeat compares. The database decides, by row locks and fencing tokens.
//   - The database can be unreachable. apply() then answers `unavailable` with retry_after_ms:
//     nothing of the batch was applied. It never answers io_error for this.
//   - If the connection is lost during a commit, the store looks the batch up by its number when
//     the database is back. A committed batch is answered as done; otherwise it is applied again.
//     If the database does not return in time, the answer is `timeout`: the outcome is unknown.
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
  // postgres://USER:PASSWORD@HOST:PORT,HOST2:PORT2/DATABASE?sslmode=…, or key=value words. All
  // libpq options, its environment variables and its password file work. With several hosts, the
  // store uses the one that accepts writes.
  Secret url;
  std::string schema = "mainspring";
  StoreOptions store;
  // Creates or migrates the schema at open. Off: a schema that is too old is a conflict.
  bool migrate = true;
  // Off for connection poolers that share a connection between transactions of several clients.
  bool prepared = true;
  int readers = 4;                                        // connections for reads
  Duration connect_timeout = std::chrono::seconds(2);     // for each host
  Duration statement_timeout = std::chrono::seconds(10);  // for each round trip of a batch
  Duration read_timeout = std::chrono::seconds(5);        // for each read
  // How long apply() tries to reach the database again before it answers `unavailable`.
  Duration patience = std::chrono::seconds(1);
  // How long a batch waits for a lock of another transaction. After it, its operations are applied
  // one by one, and those that need the lock are refused as `unavailable`. Raise for disks that
  // stall. Without effect with a connection pooler: set `lock_timeout` of the role.
  Duration lock_wait = std::chrono::milliseconds(500);
  // The clock that leases use: the shared clock is the database's. Tests use their own.
  enum class LeaseClock { wall, instant };
  LeaseClock lease_clock = LeaseClock::wall;
  // Random, new for each process start; "" = generate one. Names the node in the table `nodes`.
  std::string incarnation;
  // Off: a further connection of a node that has already joined. It is in no table, receives no
  // hints, and resets no leases. It applies completions of jobs that the node's first connection
  // gave out. Completions that the fast-path statement cannot apply are answered as stale without a
  // read.
  bool joins = true;
  // Reserves ids of workflow jobs in blocks; unused ids leave gaps. Off: one by one, for tests that
  // compare ids.
  bool ids_ahead = true;
  // At least `least_of_pack` simple jobs that are enqueued together become packed ready entries of
  // up to `most_of_pack` jobs (1 to 1000). A claim for fewer than `least_of_pack` jobs unpacks
  // an entry. Off: each job has an entry of its own (tests and measurements).
  bool packs = true;
  int least_of_pack = 8, most_of_pack = 100;
  // Stores small workflows in few rows. Off: like large workflows (tests).
  bool packed_workflows = true;
  // Whether a moved store is refused, or opened for reads only and not joined.
  IfMoved if_moved = IfMoved::refuse;
};

// Wall time as reported by the database, extrapolated by this machine's steady clock: all nodes of
// a store agree on it. Before the first answer it is the time of `base`.
class DatabaseClock final : public Clock {
 public:
  explicit DatabaseClock(const Clock& base);
  ~DatabaseClock() override;
  Now now() const override;
  // An answer received between `sent` and `received` reported the time `database`.
  void note(WallTime database, Now sent, Now received);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Connects, checks the versions of the server and of the schema, and migrates if `options` allow
// it. If no other node of this store is alive, every lease starts again, as after a restart.
// `clock` may be nullptr; it receives the database's time from each answer. Errors: unavailable
// (unreachable or read-only), unauthenticated (the server refused user or password), conflict
// (schema too new, too old without `migrate`, of a development build, or of another program; the
// store has moved, or is an unfinished copy, with the other store), invalid_argument (the URL, the
// schema's name).
Result<std::unique_ptr<SharedStore>> open_postgres_store(PostgresOptions options, Now now, Log& log,
                                                         DatabaseClock* clock = nullptr);

}  // namespace mainspring
