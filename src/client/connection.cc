// Sockets without blocking calls: every wait is a poll with a time limit that a stop can end.
#include "client/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <charconv>
#include <optional>
#include <utility>

#include "tls/tls.h"

namespace mainspring {
namespace {

namespace http = boost::beast::http;

constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::size_t kMaxResponseBytes = std::size_t{1} << 30;  // 1,000 jobs with 1 MiB each
constexpr std::uint32_t kMaxHeaderBytes = 16 << 10;
constexpr std::int64_t kMaxRetryAfterSeconds = 24 * 3600;
constexpr std::size_t kRecordBytes = 16 << 10;  // of TLS
constexpr int kMaxHandshakeTurns = 1000;
constexpr unsigned kUserTimeoutMs = 20'000;  // sent but not acknowledged: the peer is dead

Error unavailable(std::string message) {
  return Error{.code = ErrorCode::unavailable, .message = std::move(message)};
}
ExchangeError broken(std::string message, bool answered = false) {
  return {unavailable(std::move(message)), answered, false};
}
ExchangeError timed_out(std::string message, bool answered = false) {
  return {Error{.code = ErrorCode::timeout, .message = std::move(message)}, answered, false};
}
ExchangeError stopped() {
  return {unavailable("the call was stopped"), false, true};
}

int to_poll_ms(Duration limit) {
  if (limit == kForever) return -1;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
  return static_cast<int>(std::clamp<std::int64_t>(ms, 0, 1'000'000'000));
}

// Makes `fd` readable when stop is requested.
auto waker(int fd) {
  return [fd] {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(fd, &one, sizeof one);
  };
}

void drain(int event_fd) {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = read(event_fd, &count, sizeof count);
}

void set_options(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs);
}

template <class Message>
std::string header_of(const Message& message, http::field name) {
  const auto it = message.find(name);
  return it == message.end() ? std::string() : std::string(it->value());
}

// Seconds since 1970 of "Sun, 06 Nov 1994 08:49:37 GMT". Source: RFC 9110, 5.6.7.
std::optional<std::int64_t> http_date(const std::string& text) {
  tm parts{};
  const char* end = strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return timegm(&parts);
}

}  // namespace

// Seconds, or a date. A date is relative to the answer's own date: the two clocks may differ.
int retry_after_seconds(const std::string& header, const std::string& date) {
  std::int64_t seconds = 0;
  const char* const last = header.data() + header.size();
  const auto [end, error] = std::from_chars(header.data(), last, seconds);
  if (error != std::errc() || end != last) {
    const auto at = http_date(header), from = http_date(date);
    seconds = at && from ? *at - *from : 0;
  }
  return static_cast<int>(std::clamp<std::int64_t>(seconds, 0, kMaxRetryAfterSeconds));
}

namespace {

// Describes why TLS failed, for the administrator who set it up.
ExchangeError tls_refusal(const HttpUrl& url, SSL* ssl, const std::string& problem) {
  const long verdict = SSL_get_verify_result(ssl);
  if (verdict != X509_V_OK) {
    return broken(fmt::format("TLS with {}: its certificate is refused: {}", url.authority,
                              X509_verify_cert_error_string(verdict)));
  }
  if (problem.find("wrong version number") != std::string::npos) {
    return broken(fmt::format(
        "TLS with {}: it does not speak TLS; use http:// for a server without TLS", url.authority));
  }
  return broken(fmt::format("TLS with {}: {}", url.authority, problem));
}

}  // namespace

Connection::Opened Connection::open(const HttpUrl& url, SSL_CTX* tls, Duration limit,
                                    std::stop_token stop) {
  auto opened = url.unix_path.empty() ? open_tcp(url, limit, stop) : open_unix(url, limit, stop);
  if (!opened || !url.tls) return opened;
  if (auto good = (*opened)->shake_hands(url, tls, limit, stop); !good) {
    return tl::unexpected(std::move(good.error()));
  }
  return opened;
}

Connection::Opened Connection::open_tcp(const HttpUrl& url, Duration limit,
                                        const std::stop_token& stop) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &list);
      error != 0) {
    return tl::unexpected(
        broken(fmt::format("looking up \"{}\": {}", url.host, gai_strerror(error))));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(list, freeaddrinfo);
  ExchangeError last = broken(fmt::format("\"{}\" has no address", url.host));
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    auto made = connect_to(url, at->ai_family, at->ai_addr, at->ai_addrlen, limit, stop);
    if (made || made.error().stopped) return made;
    last = std::move(made.error());
  }
  return tl::unexpected(std::move(last));
}

Connection::Opened Connection::open_unix(const HttpUrl& url, Duration limit,
                                         const std::stop_token& stop) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  url.unix_path.copy(address.sun_path, sizeof address.sun_path - 1);
  return connect_to(url, AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof address,
                    limit, stop);
}

Connection::Opened Connection::connect_to(const HttpUrl& url, int family, const sockaddr* address,
                                          socklen_t size, Duration limit,
                                          const std::stop_token& stop) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::unique_ptr<Connection> connection(new Connection(fd, event));
  if (fd < 0 || event < 0) {
    return tl::unexpected(broken(fmt::format("making a socket: {}", strerror(errno))));
  }
  const std::stop_callback wake(stop, waker(event));
  if (family != AF_UNIX) set_options(fd);
  int error = connect(fd, address, size) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    switch (connection->wait_for(POLLOUT, limit)) {
      case Wait::stopped:
        return tl::unexpected(stopped());
      case Wait::timeout:
        error = ETIMEDOUT;
        break;
      case Wait::ready:
        socklen_t error_size = sizeof error;
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_size);
    }
  }
  if (error == 0) return connection;
  return tl::unexpected(broken(fmt::format(
      "connecting to {}: {}", url.unix_path.empty() ? url.authority : "unix:" + url.unix_path,
      strerror(error))));
}

tl::expected<void, ExchangeError> Connection::shake_hands(const HttpUrl& url, SSL_CTX* tls,
                                                          Duration limit,
                                                          const std::stop_token& stop) {
  const std::stop_callback wake(stop, waker(event_fd_));
  ssl_ = SSL_new(tls);
  if (ssl_ == nullptr || !attach_socket(ssl_, fd_) || !expect_host(ssl_, url.host)) {
    return tl::unexpected(broken(fmt::format("TLS with {}: {}", url.authority, tls_problem())));
  }
  SSL_set_connect_state(ssl_);
  for (int turn = 0; turn < kMaxHandshakeTurns; ++turn) {
    ERR_clear_error();
    const Moved moved = after(SSL_do_handshake(ssl_));
    if (moved.bytes > 0) return {};
    if (moved.ended) {
      return tl::unexpected(
          broken(fmt::format("TLS with {}: the server closed the connection", url.authority)));
    }
    if (moved.events == 0) return tl::unexpected(tls_refusal(url, ssl_, moved.problem));
    const Wait waited = wait_for(moved.events, limit);
    if (waited == Wait::stopped) return tl::unexpected(stopped());
    if (waited == Wait::timeout) {
      return tl::unexpected(broken(fmt::format("TLS with {}: no answer in time", url.authority)));
    }
  }
  return tl::unexpected(
      broken(fmt::format("TLS with {}: the handshake does not finish", url.authority)));
}

Connection::~Connection() {
  SSL_free(ssl_);
  if (fd_ >= 0) close(fd_);
  if (event_fd_ >= 0) close(event_fd_);
}

Connection::Wait Connection::wait_for(short events, Duration limit, Heed heed) const {
  for (;;) {
    pollfd fds[] = {{fd_, events, 0}, {heed == Heed::stop ? event_fd_ : -1, POLLIN, 0}};
    const int ready = poll(fds, 2, to_poll_ms(limit));
    if (ready < 0 && errno == EINTR) continue;
    if (fds[1].revents != 0) return Wait::stopped;
    return ready <= 0 ? Wait::timeout : Wait::ready;
  }
}

bool Connection::usable() const {
  if (!keep_alive_) return false;
  pollfd fd = {fd_, POLLIN, 0};
  // Readable means closed, or an answer without a request; with TLS it may be only a protocol
  // message.
  if (poll(&fd, 1, 0) == 0) return true;
  if (ssl_ == nullptr) return false;
  char byte = 0;
  ERR_clear_error();
  return after(SSL_peek(ssl_, &byte, 1)).events == POLLIN;
}

Connection::Moved Connection::after(int result) const {
  if (result > 0) return {static_cast<std::size_t>(result)};
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ:
      return {.events = POLLIN};
    case SSL_ERROR_WANT_WRITE:
      return {.events = POLLOUT};
    case SSL_ERROR_ZERO_RETURN:
      return {.ended = true};
    case SSL_ERROR_SYSCALL:
      return {.problem = errno == 0 ? "the connection was cut" : strerror(errno)};
    default:
      return {.problem = tls_problem()};
  }
}

Connection::Moved Connection::write_some(std::string_view head, std::string_view body) {
  if (ssl_ != nullptr) {
    ERR_clear_error();
    errno = 0;
    const std::string_view part = head.empty() ? body : head;
    const std::size_t size = std::min(part.size(), kReadBytes);
    return after(SSL_write(ssl_, part.data(), static_cast<int>(size)));
  }
  std::array<iovec, 2> parts{iovec{const_cast<char*>(head.data()), head.size()},
                             iovec{const_cast<char*>(body.data()), body.size()}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t n = sendmsg(fd_, &message, MSG_NOSIGNAL);
  if (n >= 0) return {static_cast<std::size_t>(n)};
  if (errno == EAGAIN || errno == EINTR) return {.events = POLLOUT};
  return {.problem = strerror(errno)};
}

Connection::Moved Connection::read_some(char* into, std::size_t size) {
  if (ssl_ != nullptr) {
    ERR_clear_error();
    errno = 0;
    return after(SSL_read(ssl_, into, static_cast<int>(size)));
  }
  const ssize_t n = recv(fd_, into, size, 0);
  if (n > 0) return {static_cast<std::size_t>(n)};
  if (n == 0) return {.ended = true};
  if (errno == EAGAIN || errno == EINTR) return {.events = POLLIN};
  return {.problem = strerror(errno)};
}

void Connection::say_no_more() {
  if (ssl_ != nullptr) {
    ERR_clear_error();
    SSL_shutdown(ssl_);
    ERR_clear_error();
  }
  shutdown(fd_, SHUT_WR);
}

tl::expected<void, ExchangeError> Connection::send_all(const std::string& head,
                                                       std::string_view body, Duration limit) {
  std::size_t sent = 0;
  while (sent < head.size() + body.size()) {
    const Moved moved = write_some(std::string_view(head).substr(std::min(sent, head.size())),
                                   body.substr(sent > head.size() ? sent - head.size() : 0));
    sent += moved.bytes;
    if (moved.bytes > 0) continue;
    if (moved.events == 0) {
      return tl::unexpected(broken(fmt::format("sending a request: {}", moved.problem)));
    }
    switch (wait_for(moved.events, limit)) {
      case Wait::ready:
        break;
      case Wait::stopped:
        return tl::unexpected(stopped());
      case Wait::timeout:
        return tl::unexpected(timed_out("sending a request: timed out"));
    }
  }
  return {};
}

ExchangeResult Connection::receive(const HttpRequest& request, const Limits& limits) {
  http::response_parser<http::string_body> parser;
  parser.eager(true);
  parser.skip(request.method == "HEAD");
  parser.body_limit(kMaxResponseBytes);
  if (request.sink != nullptr) parser.body_limit(boost::none);
  parser.header_limit(kMaxHeaderBytes);
  std::array<char, kReadBytes> buffer;
  std::size_t filled = 0;
  bool answered = false;
  Heed heed = Heed::stop;
  while (!parser.is_done()) {
    const Moved moved = read_some(buffer.data() + filled, buffer.size() - filled);
    if (moved.events != 0) {
      const Duration limit = heed == Heed::nothing ? limits.after_stop
                             : answered            ? limits.next
                                                   : limits.first;
      const Wait got = wait_for(moved.events, limit, heed);
      if (got == Wait::ready) continue;
      if (heed == Heed::nothing || (got == Wait::stopped && limits.after_stop == Duration(0))) {
        return tl::unexpected(stopped());
      }
      if (got == Wait::timeout) return tl::unexpected(timed_out("no answer in time", answered));
      heed = Heed::nothing;
      if (request.ask_to_end == nullptr || !(*request.ask_to_end)()) say_no_more();
      continue;
    }
    if (moved.bytes == 0 && !moved.ended) {
      return tl::unexpected(broken(fmt::format("reading an answer: {}", moved.problem), answered));
    }
    boost::beast::error_code error;
    if (moved.ended) {
      if (answered) parser.put_eof(error);
      if (error || !parser.is_done()) {
        return tl::unexpected(heed == Heed::nothing
                                  ? stopped()
                                  : broken("the server closed the connection", answered));
      }
      break;
    }
    answered = true;
    filled += moved.bytes;
    const std::size_t used = parser.put(boost::asio::buffer(buffer.data(), filled), error);
    if (error && error != http::error::need_more) {
      return tl::unexpected(ExchangeError{
          Error{.message = fmt::format("not an HTTP answer: {}", error.message())}, true, false});
    }
    std::copy(buffer.begin() + static_cast<std::ptrdiff_t>(used),
              buffer.begin() + static_cast<std::ptrdiff_t>(filled), buffer.begin());
    filled -= used;
    if (request.sink != nullptr && parser.is_header_done() && parser.get().result_int() == 200) {
      std::string& body = parser.get().body();
      if (!body.empty() && !(*request.sink)(body)) return tl::unexpected(stopped());
      body.clear();
    }
    if (filled == buffer.size()) {
      return tl::unexpected(
          ExchangeError{Error{.message = "not an HTTP answer: a line too long"}, true, false});
    }
  }
  keep_alive_ = parser.get().keep_alive() && filled == 0 && heed == Heed::stop;
  HttpResponse response;
  response.status = static_cast<int>(parser.get().result_int());
  response.retry_after_s = retry_after_seconds(header_of(parser.get(), http::field::retry_after),
                                               header_of(parser.get(), http::field::date));
  response.body = std::move(parser.get().body());
  return response;
}

ExchangeResult Connection::exchange(const HttpUrl& url, const HttpRequest& request,
                                    const Limits& limits, std::stop_token stop) {
  std::string head = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: mainspring\r\n",
                                 request.method, url.prefix, request.target, url.authority);
  if (!request.file_name.empty()) {
    head += fmt::format("Content-Disposition: attachment; filename=\"{}\"\r\n", request.file_name);
  }
  if (!request.idempotency_key.empty()) {
    head += fmt::format("Idempotency-Key: {}\r\n", request.idempotency_key);
  }
  if (request.trace != nullptr) {
    head += fmt::format("traceparent: {}\r\n", request.trace->parent);
    if (!request.trace->state.empty())
      head += fmt::format("tracestate: {}\r\n", request.trace->state);
  }
  if (!request.token.empty()) head += fmt::format("Authorization: Bearer {}\r\n", request.token);
  if (request.method != "GET") {
    if (!request.body.empty()) {
      head += fmt::format("Content-Type: {}\r\n", request.content_type);
    }
    head += fmt::format("Content-Length: {}\r\n", request.body.size());
  }
  head += "\r\n";
  drain(event_fd_);
  const std::stop_callback wake(stop, waker(event_fd_));
  keep_alive_ = false;  // until the answer is complete
  std::string_view body = request.body;
  if (ssl_ != nullptr && body.size() <= kRecordBytes) head += std::exchange(body, {});
  if (auto sent = send_all(head, body, limits.next); !sent) {
    return tl::unexpected(std::move(sent.error()));
  }
  return receive(request, limits);
}

}  // namespace mainspring
