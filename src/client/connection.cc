// Sockets without blocking calls: every wait is a poll with a limit that a stop can end.
#include "client/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <charconv>
#include <utility>

namespace mainspring {
namespace {

namespace http = boost::beast::http;

constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::size_t kMaxResponseBytes = std::size_t{1} << 30;  // 1,000 jobs with 1 MiB each
constexpr std::uint32_t kMaxHeaderBytes = 16 << 10;
constexpr unsigned kUserTimeoutMs = 20'000;  // sent and not acknowledged: the peer is gone

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

// Makes `fd` readable when the stop comes.
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

bool is_port(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port >= 1 && port <= 65535;
}

}  // namespace

Result<HttpUrl> parse_http_url(std::string_view url) {
  const auto bad = [&](std::string_view rule) {
    return invalid("url", fmt::format("url \"{}\": {}", url.substr(0, 200), rule));
  };
  if (url.starts_with("https://")) {
    return bad("https is not supported by this version: use http://HOST:PORT");
  }
  if (!url.starts_with("http://")) return bad("must be http://HOST:PORT");
  std::string_view rest = url.substr(7);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.find_first_of("/?#@ ") != std::string_view::npos) {
    return bad("must be http://HOST:PORT, without user, path or query");
  }
  HttpUrl out;
  out.authority = rest;
  std::string_view after = rest;
  if (rest.starts_with('[')) {
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) return bad("the [ of an IPv6 address is not closed");
    out.host = rest.substr(1, close - 1);
    after = rest.substr(close + 1);
    if (!after.empty() && after[0] != ':') return bad("must have a : after the ]");
  } else {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    out.host = rest.substr(0, colon);
    after = rest.substr(colon);
  }
  out.port = after.empty() ? "80" : std::string(after.substr(1));
  if (out.host.empty()) return bad("must have a host");
  if (!is_port(out.port)) return bad("the port must be 1 to 65535");
  return out;
}

tl::expected<std::unique_ptr<Connection>, ExchangeError> Connection::open(const HttpUrl& url,
                                                                          Duration limit,
                                                                          std::stop_token stop) {
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
    const int fd =
        socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol);
    const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    std::unique_ptr<Connection> connection(new Connection(fd, event));
    if (fd < 0 || event < 0) {
      return tl::unexpected(broken(fmt::format("making a socket: {}", strerror(errno))));
    }
    const std::stop_callback wake(stop, waker(event));
    set_options(fd);
    int error = connect(fd, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      switch (connection->wait_for(POLLOUT, limit)) {
        case Wait::stopped:
          return tl::unexpected(stopped());
        case Wait::timeout:
          error = ETIMEDOUT;
          break;
        case Wait::ready:
          socklen_t size = sizeof error;
          getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
      }
    }
    if (error == 0) return connection;
    last = broken(fmt::format("connecting to {}: {}", url.authority, strerror(error)));
  }
  return tl::unexpected(std::move(last));
}

Connection::~Connection() {
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
  return poll(&fd, 1, 0) == 0;  // readable now means closed, or an answer that nobody asked for
}

tl::expected<void, ExchangeError> Connection::send_all(const std::string& head,
                                                       std::string_view body, Duration limit) {
  std::size_t sent = 0;
  while (sent < head.size() + body.size()) {
    std::array<iovec, 2> parts{};
    std::size_t count = 0;
    if (sent < head.size()) {
      parts[count++] = {const_cast<char*>(head.data()) + sent, head.size() - sent};
    }
    const std::size_t of_body = sent > head.size() ? sent - head.size() : 0;
    if (of_body < body.size()) {
      parts[count++] = {const_cast<char*>(body.data()) + of_body, body.size() - of_body};
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t n = sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      return tl::unexpected(broken(fmt::format("sending a request: {}", strerror(errno))));
    }
    switch (wait_for(POLLOUT, limit)) {
      case Wait::ready:
        break;
      case Wait::stopped:
        return tl::unexpected(stopped());
      case Wait::timeout:
        return tl::unexpected(timed_out("sending a request: no room in time"));
    }
  }
  return {};
}

ExchangeResult Connection::receive(bool head_only, const Limits& limits) {
  http::response_parser<http::string_body> parser;
  parser.eager(true);
  parser.skip(head_only);
  parser.body_limit(kMaxResponseBytes);
  parser.header_limit(kMaxHeaderBytes);
  std::array<char, kReadBytes> buffer;
  std::size_t filled = 0;
  bool answered = false;
  Heed heed = Heed::stop;
  while (!parser.is_done()) {
    const ssize_t n = recv(fd_, buffer.data() + filled, buffer.size() - filled, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      const Duration limit = heed == Heed::nothing ? limits.after_stop
                             : answered            ? limits.next
                                                   : limits.first;
      const Wait got = wait_for(POLLIN, limit, heed);
      if (got == Wait::ready) continue;
      if (heed == Heed::nothing || (got == Wait::stopped && limits.after_stop == Duration(0))) {
        return tl::unexpected(stopped());
      }
      if (got == Wait::timeout) return tl::unexpected(timed_out("no answer in time", answered));
      heed = Heed::nothing;
      shutdown(fd_, SHUT_WR);
      continue;
    }
    if (n < 0) {
      return tl::unexpected(
          broken(fmt::format("reading an answer: {}", strerror(errno)), answered));
    }
    boost::beast::error_code error;
    if (n == 0) {
      if (answered) parser.put_eof(error);
      if (error || !parser.is_done()) {
        return tl::unexpected(heed == Heed::nothing
                                  ? stopped()
                                  : broken("the server closed the connection", answered));
      }
      break;
    }
    answered = true;
    filled += static_cast<std::size_t>(n);
    const std::size_t used = parser.put(boost::asio::buffer(buffer.data(), filled), error);
    if (error && error != http::error::need_more) {
      return tl::unexpected(ExchangeError{
          Error{.message = fmt::format("not an HTTP answer: {}", error.message())}, true, false});
    }
    std::copy(buffer.begin() + static_cast<std::ptrdiff_t>(used),
              buffer.begin() + static_cast<std::ptrdiff_t>(filled), buffer.begin());
    filled -= used;
    if (filled == buffer.size()) {
      return tl::unexpected(
          ExchangeError{Error{.message = "not an HTTP answer: a line too long"}, true, false});
    }
  }
  keep_alive_ = parser.get().keep_alive() && filled == 0 && heed == Heed::stop;
  HttpResponse response;
  response.status = static_cast<int>(parser.get().result_int());
  if (const auto it = parser.get().find(http::field::retry_after); it != parser.get().end()) {
    const auto text = it->value();
    std::from_chars(text.data(), text.data() + text.size(), response.retry_after_s);
  }
  response.body = std::move(parser.get().body());
  return response;
}

ExchangeResult Connection::exchange(const HttpUrl& url, const HttpRequest& request,
                                    const Limits& limits, std::stop_token stop) {
  std::string head = fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: mainspring\r\n",
                                 request.method, request.target, url.authority);
  if (!request.file_name.empty()) {
    head += fmt::format("Content-Disposition: attachment; filename=\"{}\"\r\n", request.file_name);
  }
  if (!request.idempotency_key.empty()) {
    head += fmt::format("Idempotency-Key: {}\r\n", request.idempotency_key);
  }
  if (request.method != "GET") {
    if (!request.body.empty()) {
      head += fmt::format("Content-Type: {}\r\n", request.content_type);
    }
    head += fmt::format("Content-Length: {}\r\n", request.body.size());
  }
  head += "\r\n";
  drain(event_fd_);
  const std::stop_callback wake(stop, waker(event_fd_));
  keep_alive_ = false;  // until the answer is whole
  if (auto sent = send_all(head, request.body, limits.next); !sent) {
    return tl::unexpected(std::move(sent.error()));
  }
  return receive(request.method == "HEAD", limits);
}

}  // namespace mainspring
