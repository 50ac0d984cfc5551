// ClusterPeers connects a node to the other nodes of a shared store: it owns the notifier and the
// database channel, and chooses which of them carries a hint.
//
//   broker ──tell──▶ notifier ──▶ every peer that it reaches
//                └─▶ NOTIFY, while there is one that it does not reach
//   notifier, LISTEN ──▶ Broker::hear()
//   events in both directions use only the notifier: EventRelay
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
  automatic,  // the notifier, and NOTIFY while a peer is unreachable
  notify,     // NOTIFY only: for nodes that cannot connect to each other
  poll,       // neither: changes of other nodes are detected within 6 s
};

struct ClusterPeersOptions {
  std::string peer_listen = "127.0.0.1:0";  // see PeerOptions
  std::string peer_advertise;
  Wake wake = Wake::automatic;
  // Direct connection for LISTEN and NOTIFY; empty = the store's. Needed if the store uses a pooler
  // that multiplexes transactions.
  Secret listen_url;
  // Requires that each commit waits for at least one standby. Otherwise the node does not open, is
  // not ready, and refuses changes. Checked every 2 s.
  bool require_rpo0 = false;

  std::vector<Error> validate() const;
};

class ClusterPeers {
 public:
  // Connects `broker` and its store to the other nodes; call before the broker starts. All
  // references must outlive the result. Errors: those of PeerNotifier::open() and of the store;
  // conflict (require_rpo0 is not satisfied).
  static Result<std::unique_ptr<ClusterPeers>> open(ClusterPeersOptions options,
                                                    const PostgresOptions& postgres,
                                                    SharedStore& store, Broker& broker,
                                                    const Clock& clock, Random& random, Log& log,
                                                    Registry& registry);
  ~ClusterPeers();  // stops
  ClusterPeers(const ClusterPeers&) = delete;
  ClusterPeers& operator=(const ClusterPeers&) = delete;

  void start();
  // Call after the broker's stop: its last hints are still sent.
  void stop();
  void tell(const ChangeHints& what);
  // Why this node should not get requests now; nullopt = it is ready. Any thread.
  std::optional<std::string> not_ready() const;
  // {"kind":"postgres","away":…,"durability":{…},"others":…,"peers_reached":…,"listen":…}. Queries
  // the database.
  std::string describe() const;

 private:
  struct Impl;
  explicit ClusterPeers(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Checks that no acknowledged change is lost with the database server. Errors: conflict, with what
// is missing.
Result<void> check_rpo0(const Durability& durability);

}  // namespace mainspring
