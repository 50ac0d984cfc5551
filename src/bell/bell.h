// Bell: tells the other nodes of a shared store, after a commit, what it made possible, and hears
// it from them.
//
//   node 1 ──"q may have work"──▶ node 2     one TCP connection each way, kept open
//          ◀────────ack──────────            while one frame is on its way, all else folds into the
//          next
//
// It is a hint: what is not heard is found by the poll of the broker, so nothing here retries for
// long, blocks a commit or keeps much. It is authenticated, because whoever rings makes others ask
// the database: by a key that stands in the database (see bell/frames.h), so that whoever may read
// that may ring. What it says is not encrypted.
//
// Threads: one of its own. ring() and the rest from every thread; `heard` is called on its own one
// and must not block.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/secret.h"
#include "bell/relay.h"
#include "env/clock.h"
#include "env/random.h"
#include "store/shared_store.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace mainspring {

struct BellOptions {
  // HOST:PORT, port 0 = any free one. The host is an address or localhost. Beyond this machine it
  // must be one that other nodes reach.
  std::string listen = "127.0.0.1:0";
  // HOST:PORT or HOST by which other nodes reach it; "" = where it listens, which then must be one
  // address. HOST may be a name.
  std::string advertise;
  // 64 hex digits, the same on all nodes.
  Secret key;
  std::int64_t node = 0;  // this one's number
  // Connections of others at once. Beyond: refused.
  int max_connections = 256;
  // Frames per second of one peer, and as many at once. Beyond, it is dropped.
  int max_rate = 1000;
  // Between two frames to one peer: what is said meanwhile goes with the next. The first goes at
  // once.
  Duration least_gap = std::chrono::milliseconds(2);
  // Where nobody waits for what others say, a frame is answered so much later: what is said
  // meanwhile goes with the next. Busy nodes then do not wake each other with each commit.
  Duration rest = std::chrono::milliseconds(20);
  // A peer that has not answered for so long is not reached.
  Duration patience = std::chrono::seconds(2);
  // Between two tries to reach it: from, doubled up to.
  Duration retry_from = std::chrono::milliseconds(100);
  Duration retry_to = std::chrono::seconds(5);

  // All mistakes; empty = none.
  std::vector<Error> validate() const;
};

class Bell {
 public:
  struct Peer {
    std::int64_t node = 0;
    std::string address;  // HOST:PORT
    friend bool operator==(const Peer&, const Peer&) = default;
  };
  static constexpr std::size_t kMaxPeers = 64;

  // Binds, so that address() is known; hears and rings from start() on. All references outlive it.
  // Errors: invalid_argument (the first of validate()), conflict (the address is taken), io_error.
  static Result<std::unique_ptr<Bell>> open(BellOptions options, const Clock& clock, Random& random,
                                            Log& log, Registry& registry,
                                            std::function<void(const Heard&)> heard);
  ~Bell();  // stops
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  // What others are to dial: of `advertise`, else where it listens.
  const std::string& address() const;
  // Carries what it has from now on. Before start(); it outlives the bell's stop.
  void carry(BellRelay& relay);
  // Whether somebody here waits for what others say, asked on the bell's thread behind each frame.
  // Before start(); without, somebody always does.
  void ask_who_waits(std::function<bool()> waits);
  // Somebody begins to, who was not among those. From every thread, never blocks, mostly does
  // nothing.
  void somebody_waits();
  // Who else there is; this node itself is left out. Beyond kMaxPeers: not rung, and reaches_all()
  // is false.
  void set_peers(std::vector<Peer> peers);
  // Never blocks; folds into what is still to be said.
  void ring(const Heard& what);
  // Is every peer connected now? If not, say it by other means too.
  bool reaches_all() const;
  int reached() const;

  // May be called twice, in any order; stop waits.
  void start();
  void stop();

 private:
  struct Impl;
  explicit Bell(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
