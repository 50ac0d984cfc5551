// State shared by all connections of a notifier. Private to the module.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <string>

#include "peer/frames.h"
#include "peer/notifier.h"

namespace mainspring::notifier {

// HOST:PORT, [V6]:PORT or HOST (port 0). Errors: invalid_argument.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};
Result<HostPort> parse_host_port(std::string_view field, const std::string& text);
std::string host_port_text(const std::string& host, std::uint16_t port);

struct Core {
  Core(PeerOptions options_, const Clock& clock_, Random& random_, Log& log_, Registry& registry,
       std::function<void(const ChangeHints&)> heard_);
  std::string nonce();
  // Counts a rejected or failed peer connection; logs at a limited rate.
  void dropped(std::string_view why, const std::string& address);

  const PeerOptions options;
  const Digest key;
  const Clock& clock;
  Random& random;
  Log& log;
  const std::function<void(const ChangeHints&)> heard;
  PeerRelay* relay = nullptr;   // set before the notifier starts
  std::function<void()> freed;  // a dialer connected, or can send again
  std::function<bool()> waits;  // set before the notifier starts; may be empty
  // An acknowledgement may be delayed. Set before waits() is called, so that a caller that starts
  // to wait after the call sees the flag.
  std::atomic<bool> resting{false};
  Registry& metrics;
  Counter& rung_total;
  Counter& received_total;
  std::atomic<int> ready{0};  // peers that are connected
  Instant next_complaint;     // on the notifier's thread
};

// Disables send delays; detects a dead peer within seconds on an idle connection.
void set_socket_options(boost::asio::ip::tcp::socket& socket);
Digest digest_of(std::string_view bytes);  // `bytes` has kMacBytes
std::string address_of(const boost::asio::ip::tcp::socket& socket);

}  // namespace mainspring::notifier
