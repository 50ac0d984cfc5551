// NodeChannel: a node's own database connection, besides the connections for batches. It keeps the
// list of nodes, and sends NOTIFY if nodes cannot reach each other directly.
//
// It publishes this node's address, reads the addresses of the others, and listens. It needs its
// own connection for two reasons. A NOTIFY in a transaction of jobs would serialize all commits,
// and a pooler may not support LISTEN. What it receives is a hint (see SharedStore): nothing is
// lost while the connection is down; after a reconnect it reports that everything may have changed.
//
//   connects ─▶ LISTEN, publishes its address, NOTIFY to itself ─▶ received: listening
//      ▲                                                        └▶ not received: logs once, polls
//      └── no answer to a ping within 3 s, every 4 s: a half-open connection is detected in 7 s
//
// The payload is JSON, so that clients can notify by SQL: NOTIFY mainspring, '{"queues":["mail"]}'.
//
// When idle it costs one read in 30 s; a ping is not a transaction. Threads: one of its own; say()
// and the other functions can be called from any thread; handlers are called on its own thread and
// must not block.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/secret.h"
#include "env/clock.h"
#include "env/random.h"
#include "store/shared_store.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace mainspring {

struct NodeChannelOptions {
  Secret url;                         // direct, not through a pooler that multiplexes transactions
  std::string schema = "mainspring";  // also the name of the channel
  bool prepared = true;
  std::int64_t node = 0;    // SharedStore::node_number()
  std::string incarnation;  // of this process
  std::string program;      // its program version
  std::string address;      // of its notifier
  Duration connect_timeout = std::chrono::seconds(2);
  Duration answer_timeout = std::chrono::seconds(3);
  Duration ping_every = std::chrono::seconds(4);
  // LISTEN counts as not working until this node receives its own message. It waits this long for
  // it before it continues.
  Duration echo_limit = std::chrono::seconds(1);
  // Interval of reading the other nodes. They are read at once when a node announces itself.
  Duration peers_every = std::chrono::seconds(30);
  // Minimum time between two NOTIFY. Hints in between go with the next one.
  Duration least_gap = std::chrono::milliseconds(2);
  // A node not seen for this long is not notified. After `forget`, its row is removed.
  Duration alive = std::chrono::seconds(15);
  Duration forget = std::chrono::minutes(10);
};

class NodeChannel {
 public:
  struct Peer {
    std::int64_t node = 0;
    std::string address;  // "" = it has no notifier
  };
  enum class Listening { not_yet, works, does_not_work, away };
  struct Handlers {
    std::function<void(const ChangeHints&)> heard;
    std::function<void(const std::vector<Peer>&)> peers;  // live nodes without this node
  };
  // All references must outlive this object.
  NodeChannel(NodeChannelOptions options, const Clock& clock, Random& random, Log& log,
              Registry& registry, Handlers handlers);
  ~NodeChannel();  // stops

  // start() and stop() can be called twice, in any order; stop() waits.
  void start();
  void stop();
  // Sends a hint to all other nodes by NOTIFY; never blocks.
  void say(const ChangeHints& what);
  Listening listening() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string_view to_string(NodeChannel::Listening listening);

// The payload of a NOTIFY: under 8,000 bytes, otherwise "everything".
std::string encode_notice(const ChangeHints& what, std::int64_t node);
struct Notice {
  ChangeHints heard;
  std::int64_t node = 0;  // 0 = a client
  bool joined = false;    // a node joined or left
};
// Errors: invalid_argument, too_large.
Result<Notice> decode_notice(std::string_view payload);

// kSharedSecretBytes that all nodes of a store share under this name; created by the first call.
// Errors as open_postgres_store().
inline constexpr std::size_t kSharedSecretBytes = 32;
Result<Secret> shared_secret(const NodeChannelOptions& options, const std::string& name,
                             const Clock& clock, Random& random);
// The key of peer notifiers: the secret named "notifier", as 64 hex digits.
Result<Secret> shared_peer_key(const NodeChannelOptions& options, const Clock& clock,
                               Random& random);

}  // namespace mainspring
