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
//     the database is back: done is answered as done, not done is done again.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/secret.h"
#include "env/clock.h"
#include "store/store.h"
#include "telemetry/log.h"

namespace mainspring {

struct PostgresOptions {
  // postgres://USER:PASSWORD@HOST:PORT,HOST2:PORT2/DATABASE?sslmode=…, or key=value words: all that
  // libpq takes, its environment variables and password file too. With several hosts the one that
  // accepts writes is looked for.
  Secret url;
  std::string schema = "mainspring";
  StoreOptions store;
  // Applies migrations when it opens; off: a schema that is too old is a conflict.
  bool migrate = true;
  // Off for connection poolers that mix transactions of several clients on one connection.
  bool prepared = true;
  int readers = 4;                                         // connections for reads
  Duration connect_timeout = std::chrono::seconds(2);      // for each host
  Duration statement_timeout = std::chrono::seconds(10);   // for each round trip of a batch
  Duration read_timeout = std::chrono::seconds(5);         // for each read
  // How long apply() tries to reach the database again before it answers `unavailable`.
  Duration patience = std::chrono::seconds(1);
  // What leases are measured on: the shared clock is the database's. Tests give their own.
  enum class LeaseClock { wall, instant };
  LeaseClock lease_clock = LeaseClock::wall;
  // Random, new for each process start; "" = one is made. Names the node in the table `nodes`.
  std::string incarnation;
};

// What a change of another node (or of a client by SQL) made possible here.
struct Heard {
  std::vector<std::string> queues;               // may have work
  WallTime next_due = WallTime::never();         // something becomes due or fires then
  bool catalog = false;                          // queues, schedules or tokens changed
};

// The durability that the database gives now.
struct Durability {
  std::string synchronous_commit;  // as the server says: on, remote_apply, local, off, …
  int synchronous_standbys = 0;    // that a commit waits for now
  bool read_only = false;          // a standby, or told to be
};

class SharedStore : public Store {
 public:
  // Notes what others changed. Like apply(), from one thread at a time. Cheap; asks nothing.
  virtual void heard(const Heard& what) = 0;
  // What this store's own last batch changed that others should hear of; emptied.
  virtual Heard take_news() = 0;
  // Compares the copies in memory with the database, if it is time; like apply().
  virtual Result<Heard> refresh(Now now) = 0;
  // One more number for each node that opens; never given twice.
  virtual std::int64_t node_number() const = 0;
  // From any thread. Errors: unavailable.
  virtual Result<Durability> durability() const = 0;
  // True while the last try to reach the database failed.
  virtual bool away() const = 0;
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
// old without `migrate`, or not ours), invalid_argument (the URL, the schema's name).
Result<std::unique_ptr<SharedStore>> open_postgres_store(PostgresOptions options, Now now, Log& log,
                                                         DatabaseClock* clock = nullptr);

}  // namespace mainspring
