// Neighbours: what stands between a node and the other nodes of a shared store: the bell, the
// channel to the database, and who is told by which.
//
//   broker ──tell──▶ bell ──▶ every peer that it reaches
//                └─▶ NOTIFY, while there is one that it does not reach
//   bell, LISTEN ──▶ Broker::hear()
//   events of both ways, by bell alone: EventRelay
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/secret.h"
#include "env/clock.h"
#include "env/random.h"
#include "store_postgres/postgres_store.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace mainspring {

class Broker;

enum class Wake : std::uint8_t {
  automatic,  // the bell, and NOTIFY while it does not reach all
  notify,     // NOTIFY always, no bell: for nodes that may not connect to each other
  poll,       // neither: others are heard within 6 s
};

struct NeighbourOptions {
  std::string bell_listen = "127.0.0.1:0";  // see BellOptions
  std::string bell_advertise;
  Wake wake = Wake::automatic;
  // For LISTEN and NOTIFY, straight to the server; empty = as the store. Needed where the store is
  // behind a pooler that mixes transactions.
  Secret listen_url;
  // Refuse to open, be unready, and refuse changes, unless a commit waits for at least one standby.
  // Looked at every 2 s.
  bool require_rpo0 = false;

  std::vector<Error> validate() const;
};

class Neighbours {
 public:
  // Joins `broker` and its store to the others: before the broker starts. All references outlive
  // it. Errors: those of Bell::open() and of the store; conflict (require_rpo0 does not hold).
  static Result<std::unique_ptr<Neighbours>> open(NeighbourOptions options,
                                                  const PostgresOptions& postgres,
                                                  SharedStore& store, Broker& broker,
                                                  const Clock& clock, Random& random, Log& log,
                                                  Registry& registry);
  ~Neighbours();  // stops
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  void start();
  // After the broker's stop: what it told last still goes out.
  void stop();
  void tell(const Heard& what);
  // Why this node should get no requests now; nothing = it may. From every thread.
  std::optional<std::string> not_ready() const;
  // {"kind":"postgres","away":…,"durability":{…},"others":…,"bell_reaches":…,"listen":…}. Asks the
  // database.
  std::string describe() const;

 private:
  struct Impl;
  explicit Neighbours(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Does it hold that no acknowledged change is lost with the server? Errors: conflict, which says
// what is missing.
Result<void> check_rpo0(const Durability& durability);

}  // namespace mainspring
