// Relay: one request that a follower passes on to the leader, and its answer.
//
//   client ──request──▶ out_ ──▶ link ──▶ leader
//          ◀── in_ ◀──frames──  link ◀──
//
// Each buffer is bounded: when one side does not take bytes, the other side is not read. While
// there is no link, the request waits, for up to kHold. If the link breaks, the request is sent
// again if that is safe: the leader has not started it, or it may be repeated. Otherwise the
// client's connection ends without an answer, as if the client had lost the server itself.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "cluster/link.h"
#include "http/links.h"
#include "http/parser.h"

namespace mainspring::http {

// On the shard's thread. Belongs to its connection.
class Relay {
 public:
  static constexpr Duration kHold = std::chrono::seconds(5);
  static constexpr int kMaxHeld = 1024;  // per server
  static constexpr std::size_t kMaxHeldBytes = 64 << 20;
  static constexpr std::size_t kMaxKept = 64 << 10;  // of a request that may be sent again
  static constexpr int kMaxRepeats = 3;              // after broken links

  // `head` has been parsed from `text`. Takes the part of its body that is in `rest`.
  Relay(Connection& client, const Head& head, std::string_view& rest);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  void start();
  // Returns false if no link is wanted. Takes the link otherwise, or, when it is null because this
  // node leads now, hands the request back to its connection.
  bool on_link(std::unique_ptr<Link>& link);
  // The client has sent bytes or has disconnected.
  void on_client_readable();
  void on_tick(Instant now);
  // The leader is lost, or another node leads.
  void end();

 private:
  enum class Moved { no, yes, over };

  void hold();
  void set_held(bool held);
  void send();
  void pump();
  Moved push();
  Moved pull();
  Moved read_body();
  void take_body(std::string_view& rest);
  bool take_frames(std::string_view bytes);
  void arm();
  void wait(Transport& transport, Transport::Next next, bool& armed);
  void lost(bool in_order);
  void finish();
  void refuse();

  Connection& client_;
  const std::uint64_t ticket_;  // of the exchange: later handlers are dropped
  const bool repeatable_;
  std::unique_ptr<Link> link_;
  std::string kept_;  // the request so far, while it may be sent again
  bool keeps_ = true;
  bool held_ = false;
  std::size_t held_bytes_ = 0;
  Instant until_ = Instant::never();  // of the wait for a link
  int repeats_ = 0;

  // -- the request
  std::string out_;
  std::size_t out_at_ = 0;
  std::uint64_t body_left_ = 0;
  std::unique_ptr<ChunkedReader> chunks_;
  bool body_done_ = false;
  bool malformed_ = false;
  bool broken_ = false;   // the link takes nothing more
  bool written_ = false;  // the leader may have received a part of it

  // -- the answer
  std::string in_;
  std::size_t in_at_ = 0;
  std::string frame_head_;
  Frame frame_;
  std::uint32_t frame_left_ = 0;
  bool answered_ = false;  // a byte of it has arrived
  bool sent_ = false;      // a byte of it has been passed on
  bool ended_ = false;
  int status_ = 0;
  bool reads_link_ = false, writes_link_ = false, writes_client_ = false;  // armed waits
};

}  // namespace mainspring::http
