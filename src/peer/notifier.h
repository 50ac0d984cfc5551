// PeerNotifier: after a commit, sends hints to the other nodes of a shared store about what the
// commit made possible, and receives their hints.
//
//   node 1 ──"q may have work"──▶ node 2     one TCP connection each way, kept open
//          ◀────────ack──────────            while one frame is unacknowledged, further hints are
//                                            merged into the next frame
//
// The broker's poll finds every change whose hint is lost. So the notifier does not retry for long,
// does not block a commit and stores little. Hints make other nodes query the database, so they are
// authenticated with a key from the database (see peer/frames.h): every process that can read the
// database can notify. Hints are not encrypted.
//
// Threads: one of its own. notify() and the other functions can be called from any thread; `heard`
// is called on the notifier's thread and must not block.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/secret.h"
#include "env/clock.h"
#include "env/random.h"
#include "peer/relay.h"
#include "store/shared_store.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace mainspring {

struct PeerOptions {
  // HOST:PORT, port 0 = any free port. The host is an address or localhost. For nodes on other
  // machines it must be an address that they can reach.
  std::string listen = "127.0.0.1:0";
  // HOST:PORT or HOST under which other nodes reach this node; "" = `listen`, which must then be a
  // single address. HOST may be a name.
  std::string advertise;
  // 64 hex digits, the same on all nodes.
  Secret key;
  std::int64_t node = 0;  // this node's number
  // Maximum incoming connections. Further ones are refused.
  int max_connections = 256;
  // Frames per second of one peer, and the burst. A peer that exceeds it is disconnected.
  int max_rate = 1000;
  // Minimum time between two frames to a peer. Hints in between go with the next frame. The first
  // frame is sent at once.
  Duration least_gap = std::chrono::milliseconds(2);
  // Acknowledgement delay while nothing here waits for hints. Hints in between go with the next
  // frame. So busy nodes do not wake each other with each commit.
  Duration ack_delay = std::chrono::milliseconds(20);
  // A peer that does not answer for this long counts as unreachable.
  Duration patience = std::chrono::seconds(2);
  // Delay between two connection attempts: doubles from `retry_from` to the maximum.
  Duration retry_from = std::chrono::milliseconds(100);
  Duration retry_to = std::chrono::seconds(5);

  // All errors; empty = valid.
  std::vector<Error> validate() const;
};

class PeerNotifier {
 public:
  struct Peer {
    std::int64_t node = 0;
    std::string address;  // HOST:PORT
    friend bool operator==(const Peer&, const Peer&) = default;
  };
  static constexpr std::size_t kMaxPeers = 64;

  // Binds the socket, so that address() is known. Receives and notifies after start(). All
  // references must outlive the notifier. Errors: invalid_argument (the first of validate()),
  // conflict (the address is in use), io_error.
  static Result<std::unique_ptr<PeerNotifier>> open(PeerOptions options, const Clock& clock,
                                                    Random& random, Log& log, Registry& registry,
                                                    std::function<void(const ChangeHints&)> heard);
  ~PeerNotifier();  // stops
  PeerNotifier(const PeerNotifier&) = delete;
  PeerNotifier& operator=(const PeerNotifier&) = delete;

  // The address that other nodes connect to: from `advertise`, else `listen`.
  const std::string& address() const;
  // Sets the relay. Call before start(); the relay must outlive stop().
  void carry(PeerRelay& relay);
  // Sets the function that returns whether anything here waits for hints. It is called on the
  // notifier's thread after each frame. Call before start(). Without it, the answer is always yes.
  void set_waiting_check(std::function<bool()> waits);
  // A waiter started that the function above did not count. From any thread, never blocks, cheap.
  void note_waiting();
  // Sets the other nodes; this node is skipped. Beyond kMaxPeers, nodes are not notified and
  // reaches_all() is false.
  void set_peers(std::vector<Peer> peers);
  // Never blocks; merges into the pending hints.
  void notify(const ChangeHints& what);
  // Whether every peer is connected now. If not, use another channel too.
  bool reaches_all() const;
  int reached() const;

  // start() and stop() can be called twice, in any order; stop() waits.
  void start();
  void stop();

 private:
  struct Impl;
  explicit PeerNotifier(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
