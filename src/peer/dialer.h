// Dialer: the outgoing connection that notifies one peer. Private to the module; runs on the
// notifier's thread.
//
//   waits ──retry──▶ dials ──proofs──▶ ready ──frame──▶ unheard ──ack──▶ ready
//     ▲                │                 │                 │
//     └──── failed ────┴─────────────────┴─────────────────┘  an unacknowledged frame is sent again
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>

#include "peer/core.h"
#include "store/change_hint_set.h"

namespace mainspring::notifier {

class Dialer : public std::enable_shared_from_this<Dialer> {
 public:
  Dialer(boost::asio::io_context& io, Core& core, PeerNotifier::Peer peer);

  void dial();
  void add(const ChangeHints& what);
  // Asks the peer for its relayed bytes.
  void ask(PeerRelay::Ask what);
  // Sends pending notifications, if the connection is ready.
  void flush();
  // Closes permanently.
  void close();
  const PeerNotifier::Peer& peer() const { return peer_; }

 private:
  using Error = boost::system::error_code;
  void connect(const boost::asio::ip::tcp::resolver::results_type& ends);
  void hear_hello();
  void answer_hello();
  void hear_proof();
  void now_ready();
  void hear_acks();
  void go_on();
  bool has_relay() const;
  bool has_words() const { return !waiting_.empty() || asks_ != PeerRelay::Ask::nothing; }
  bool has_something() const { return has_words() || has_relay(); }
  void send();
  void write(const std::string& frames);
  std::string next_frame();
  void failed(std::string_view why);
  void end_round();
  void expect_answer();
  // Wraps a handler: does nothing if a newer connection attempt has started, and fails this attempt
  // on an error.
  template <class Next>
  auto then(Next next);

  Core& core_;
  const PeerNotifier::Peer peer_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer deadline_, retry_, gap_;
  int round_ = 0;  // tries to connect
  bool closed_ = false;
  bool ready_ = false;
  bool complained_ = false;
  bool gap_armed_ = false;
  Duration pause_{0};  // before the next try
  Talk talk_;
  Digest session_{};
  std::uint64_t number_ = 0;  // of the last frame
  bool unheard_ = false;      // the last frame is not acknowledged yet
  Unsent in_flight_;
  bool relayed_ = false;  // the last frame was relayed bytes
  ChangeHintSet waiting_;
  PeerRelay::Ask asks_ = PeerRelay::Ask::nothing;  // waits to be sent
  Instant last_sent_;
  std::array<char, 64> in_{};
  std::string out_, last_words_;
};

}  // namespace mainspring::notifier
