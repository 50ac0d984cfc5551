// NodeChannel: a node's own connection to the database for what is no batch: who else there is, and
// NOTIFY where nodes cannot reach each other.
//
// It says by which address the node is reached, reads the addresses of the others, and listens. It
// is a connection of its own because a NOTIFY in the transaction of jobs would let only one of them
// commit at a time, and because a pooler may not pass on what LISTEN asks for. What it hears is a
// hint (see SharedStore): nothing is lost while it is away; when it is back it says that everything
// may have changed.
//
//   connects ─▶ LISTEN, says its address, NOTIFY to itself ─▶ heard it: listening
//      ▲                                                     └▶ did not: says so once, polls
//      └── no answer to a ping within 3 s, every 4 s: a half-open connection is noticed in 7 s
//
// The payload is JSON, so that clients can ring by SQL: NOTIFY mainspring, '{"queues":["mail"]}'.
//
// Idle it costs one read in 30 s; a ping is no transaction. Threads: one of its own; say() and the
// rest from every thread; handlers are called on its own one and must not block.
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
  Secret url;  // straight to the server, not to a pooler that mixes transactions
  std::string schema = "mainspring";  // also the name of the channel
  bool prepared = true;
  std::int64_t node = 0;    // SharedStore::node_number()
  std::string incarnation;  // of this process
  std::string program;      // its version
  std::string address;      // of its bell
  Duration connect_timeout = std::chrono::seconds(2);
  Duration answer_timeout = std::chrono::seconds(3);
  Duration ping_every = std::chrono::seconds(4);
  // The others are read anew so often; at once when one says that it has come.
  Duration peers_every = std::chrono::seconds(30);
  // Between two NOTIFY: what is said meanwhile goes with the next.
  Duration least_gap = std::chrono::milliseconds(2);
  // A node that has not been seen for so long is not rung; after `forget`, its row goes.
  Duration alive = std::chrono::seconds(15);
  Duration forget = std::chrono::minutes(10);
};

class NodeChannel {
 public:
  struct Peer {
    std::int64_t node = 0;
    std::string address;  // "" = it has no bell
  };
  enum class Listening { not_yet, works, does_not_work, away };
  struct Handlers {
    std::function<void(const Heard&)> heard;
    std::function<void(const std::vector<Peer>&)> peers;  // alive, without this node
  };
  // All references outlive it.
  NodeChannel(NodeChannelOptions options, const Clock& clock, Random& random, Log& log,
              Registry& registry, Handlers handlers);
  ~NodeChannel();  // stops

  // May be called twice, in any order; stop waits.
  void start();
  void stop();
  // To all other nodes, by NOTIFY; never blocks.
  void say(const Heard& what);
  Listening listening() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string_view to_string(NodeChannel::Listening listening);

// The payload of a NOTIFY: under 8,000 bytes, else it says "everything".
std::string encode_notice(const Heard& what, std::int64_t node);
struct Notice {
  Heard heard;
  std::int64_t node = 0;  // 0 = a client
  bool joined = false;    // a node has come or goes
};
// Errors: invalid_argument, too_large.
Result<Notice> decode_notice(std::string_view payload);

// kSharedSecretBytes that all nodes of a store know by this name; made by the first that asks.
// Errors as open_postgres_store().
inline constexpr std::size_t kSharedSecretBytes = 32;
Result<Secret> shared_secret(const NodeChannelOptions& options, const std::string& name,
                             const Clock& clock, Random& random);
// What bells prove to each other: the one named "bell", as 64 hex digits.
Result<Secret> shared_bell_key(const NodeChannelOptions& options, const Clock& clock,
                               Random& random);

}  // namespace mainspring
