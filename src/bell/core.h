// What all connections of a bell share. Private to the module.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <string>

#include "bell/bell.h"
#include "bell/frames.h"

namespace mainspring::bell {

// HOST:PORT, [V6]:PORT or HOST (port 0). Errors: invalid_argument.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};
Result<HostPort> parse_host_port(std::string_view field, const std::string& text);
std::string host_port_text(const std::string& host, std::uint16_t port);

struct Core {
  Core(BellOptions options_, const Clock& clock_, Random& random_, Log& log_, Registry& registry,
       std::function<void(const Heard&)> heard_);
  std::string nonce();
  // Somebody who should not, or cannot, ring: counted, and logged now and then.
  void dropped(std::string_view why, const std::string& address);

  const BellOptions options;
  const Digest key;
  const Clock& clock;
  Random& random;
  Log& log;
  const std::function<void(const Heard&)> heard;
  BellRelay* relay = nullptr;   // set before the bell starts
  std::function<void()> freed;  // a dialer is connected, or may send again
  std::function<bool()> waits;  // set before the bell starts; may be empty
  // An answer may be kept back. Set before waits() is asked, so that who begins to wait behind
  // that sees it.
  std::atomic<bool> resting{false};
  Registry& metrics;
  Counter& rung_total;
  Counter& heard_total;
  std::atomic<int> ready{0};  // peers that are connected
  Instant next_complaint;     // on the bell's thread
};

// No delays, and a dead peer is noticed within seconds though nobody says anything.
void set_socket_options(boost::asio::ip::tcp::socket& socket);
Digest digest_of(std::string_view bytes);  // of kMacBytes
std::string address_of(const boost::asio::ip::tcp::socket& socket);

}  // namespace mainspring::bell
