// Addresses, nonces, socket options and warnings.
#include "peer/core.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <charconv>

namespace mainspring::notifier {
namespace {

constexpr Duration kBetweenComplaints = std::chrono::seconds(10);

}  // namespace

Result<HostPort> parse_host_port(std::string_view field, const std::string& text) {
  const auto wrong = [&](std::string_view rule) {
    return invalid(std::string(field), fmt::format("{} \"{}\": {}", field, text, rule));
  };
  HostPort out;
  std::string_view rest = text;
  if (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    if (end == std::string_view::npos) return wrong("must have a ] after its address");
    out.host = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
  } else {
    out.host = rest.substr(0, rest.find(':'));
    rest.remove_prefix(out.host.size());
  }
  if (out.host.empty()) return wrong("must be HOST:PORT, for example 10.0.0.7:7461");
  if (rest.empty()) return out;
  const char* end = rest.data() + rest.size();
  const auto [at, error] = std::from_chars(rest.data() + 1, end, out.port);
  if (rest.front() != ':' || error != std::errc() || at != end) {
    return wrong("the port must be a number from 0 to 65535");
  }
  return out;
}

std::string host_port_text(const std::string& host, std::uint16_t port) {
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

Core::Core(PeerOptions options_, const Clock& clock_, Random& random_, Log& log_,
           Registry& registry, std::function<void(const ChangeHints&)> heard_)
    : options(std::move(options_)),
      key(digest_from_hex(options.key.reveal()).value_or(Digest{})),
      clock(clock_),
      random(random_),
      log(log_),
      heard(std::move(heard_)),
      metrics(registry),
      rung_total(registry.counter("mainspring_peer_notifications_sent_total",
                                  "Notifications acknowledged by peers.")),
      received_total(registry.counter("mainspring_peer_notifications_received_total",
                                      "Notifications received from peers.")) {}

std::string Core::nonce() {
  std::string out;
  while (out.size() < kNonceBytes) put_u64(out, random.next());
  return out;
}

void Core::dropped(std::string_view why, const std::string& address) {
  metrics
      .counter("mainspring_peer_connections_dropped_total", "Peer connections dropped by reason.",
               {{"why", std::string(why)}})
      .add();
  const Instant now = clock.now().instant;
  if (now < next_complaint) return;
  next_complaint = now + kBetweenComplaints;
  log.warn("dropped a peer connection", {{"why", std::string(why)}, {"address", address}});
}

void set_socket_options(boost::asio::ip::tcp::socket& socket) {
  boost::system::error_code ignored;
  socket.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
  socket.set_option(boost::asio::socket_base::keep_alive(true), ignored);
  const int fd = socket.native_handle();
  const auto set = [fd](int name, int value) {
    (void)::setsockopt(fd, IPPROTO_TCP, name, &value, sizeof value);
  };
  set(TCP_KEEPIDLE, 5);
  set(TCP_KEEPINTVL, 2);
  set(TCP_KEEPCNT, 2);
  set(TCP_USER_TIMEOUT, 8000);
}

Digest digest_of(std::string_view bytes) {
  Digest out{};
  bytes.copy(reinterpret_cast<char*>(out.data()), out.size());
  return out;
}

std::string address_of(const boost::asio::ip::tcp::socket& socket) {
  boost::system::error_code problem;
  const auto end = socket.remote_endpoint(problem);
  return problem ? std::string("?") : host_port_text(end.address().to_string(), end.port());
}

}  // namespace mainspring::notifier
