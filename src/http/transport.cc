// The bytes of a connection: converts results of the kernel and OpenSSL to steps.
#include "http/transport.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "tls/tls.h"

namespace mainspring::http {
namespace {

// Maximum size of one TLS record.
constexpr std::size_t kRecordBytes = 16 << 10;

struct Address {
  std::string text;
  bool local = false;
};

// An IPv4-mapped IPv6 address is shown as IPv4.
Address address_of(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const in_addr v4 = reinterpret_cast<const sockaddr_in*>(&address)->sin_addr;
    inet_ntop(AF_INET, &v4, text, sizeof text);
    return {text, (ntohl(v4.s_addr) >> 24) == 127};
  }
  if (address.ss_family != AF_INET6) return {};
  const in6_addr v6 = reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {
    inet_ntop(AF_INET, &v6.s6_addr[12], text, sizeof text);
    return {text, v6.s6_addr[12] == 127};
  }
  inet_ntop(AF_INET6, &v6, text, sizeof text);
  return {text, static_cast<bool>(IN6_IS_ADDR_LOOPBACK(&v6))};
}

Address peer_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  const bool known = ::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (known && address.ss_family == AF_UNIX) {
    ucred peer{};
    socklen_t peer_size = sizeof peer;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) != 0) return {"unix", true};
    return {fmt::format("unix uid={}", peer.uid), true};
  }
  Address peer = known ? address_of(address) : Address{};
  if (peer.text.empty()) peer.text = "unknown";
  return peer;
}

bool would_block(int problem) {
  return problem == EAGAIN || problem == EWOULDBLOCK || problem == EINTR;
}

}  // namespace

Transport::Transport(Socket socket, std::shared_ptr<SSL_CTX> tls, Side side)
    : socket_(std::move(socket)) {
  boost::system::error_code ignored;
  socket_.non_blocking(true, ignored);
  Address peer = peer_of(socket_.native_handle());
  peer_ = std::move(peer.text);
  local_ = peer.local;
  const int on = 1;  // has no effect on a unix socket
  ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (tls == nullptr) return;
  begin_tls(tls, side);
  started_ = side == Side::client;
}

void Transport::begin_tls(const std::shared_ptr<SSL_CTX>& tls, Side side) {
  SSL_free(ssl_);
  ssl_ = SSL_new(tls.get());
  MS_ASSERT(ssl_ != nullptr && attach_socket(ssl_, socket_.native_handle()), "memory for TLS");
  side == Side::server ? SSL_set_accept_state(ssl_) : SSL_set_connect_state(ssl_);
}

std::optional<bool> Transport::takes_greeting(std::string_view greeting) {
  std::array<char, 64> first;
  MS_ASSERT(greeting.size() <= first.size(), "a greeting is short");
  const int fd = socket_.native_handle();
  const ssize_t got = ::recv(fd, first.data(), greeting.size(), MSG_PEEK);
  if (got < 0 && would_block(errno)) return std::nullopt;
  if (got <= 0) return false;
  const std::string_view seen(first.data(), static_cast<std::size_t>(got));
  if (!greeting.starts_with(seen)) return false;
  if (seen.size() < greeting.size()) return std::nullopt;
  return ::recv(fd, first.data(), greeting.size(), 0) == got;
}

Transport::~Transport() {
  SSL_free(ssl_);
}

// OpenSSL keeps errors per thread: clear earlier errors before each call.
Transport::Step Transport::after(int result) {
  if (result > 0) return {Next::done, static_cast<std::size_t>(result)};
  const int problem = SSL_get_error(ssl_, result);
  if (problem == SSL_ERROR_WANT_READ) return {Next::wait_read};
  if (problem == SSL_ERROR_WANT_WRITE) return {Next::wait_write};
  ERR_clear_error();
  if (problem == SSL_ERROR_ZERO_RETURN) return {Next::closed};
  broken_ = true;
  return {Next::broken};
}

Transport::Step Transport::handshake() {
  if (ssl_ == nullptr) return {Next::done};
  if (!started_) {
    char first = 0;
    const ssize_t got = ::recv(socket_.native_handle(), &first, 1, MSG_PEEK);
    if (got < 0 && would_block(errno)) return {Next::wait_read};
    if (got <= 0) return {got == 0 ? Next::closed : Next::broken};
    started_ = true;
    // TLS begins with 22 (a handshake), HTTP with the letters of a method.
    if ((first >= 'A' && first <= 'Z') || (first >= 'a' && first <= 'z')) {
      SSL_free(std::exchange(ssl_, nullptr));
      return {Next::plain};
    }
  }
  ERR_clear_error();
  note_refusal_in(ssl_, &refusal_);
  const int result = SSL_do_handshake(ssl_);
  if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    refusal_ = "the client has none";
  const Step step = after(result);
  if (step.next == Next::done) acknowledge();
  return step;
}

// No effect on a unix socket. The kernel leaves this mode by itself, so it is set each time.
void Transport::acknowledge() {
  const int now = 1;
  ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_QUICKACK, &now, sizeof now);
}

Transport::Step Transport::read(std::span<char> into) {
  if (ssl_ != nullptr) {
    ERR_clear_error();
    const std::size_t size = std::min(into.size(), kRecordBytes);
    return after(SSL_read(ssl_, into.data(), static_cast<int>(size)));
  }
  const ssize_t got = ::recv(socket_.native_handle(), into.data(), into.size(), 0);
  if (got > 0) return {Next::done, static_cast<std::size_t>(got)};
  if (got == 0) return {Next::closed};
  return {would_block(errno) ? Next::wait_read : Next::broken};
}

Transport::Step Transport::write(std::string_view head, std::string_view body) {
  const Step step = write_some(head, body);
  if (step.next == Next::done) written_ += static_cast<std::int64_t>(step.bytes);
  return step;
}

std::int64_t Transport::received_by_peer() const {
  int queued = 0;
  ::ioctl(const_cast<Socket&>(socket_).native_handle(), SIOCOUTQ, &queued);
  return written_ - queued;
}

Transport::Step Transport::write_some(std::string_view head, std::string_view body) {
  if (ssl_ != nullptr) {
    ERR_clear_error();
    std::array<char, kRecordBytes> record;
    const std::size_t size = std::min(head.size() + body.size(), record.size());
    if (body.empty()) return after(SSL_write(ssl_, head.data(), static_cast<int>(size)));
    if (head.empty()) return after(SSL_write(ssl_, body.data(), static_cast<int>(size)));
    const std::size_t of_head = std::min(head.size(), size);
    std::copy_n(head.data(), of_head, record.data());
    std::copy_n(body.data(), size - of_head, record.data() + of_head);
    return after(SSL_write(ssl_, record.data(), static_cast<int>(size)));
  }
  std::array<iovec, 2> parts{iovec{const_cast<char*>(head.data()), head.size()},
                             iovec{const_cast<char*>(body.data()), body.size()}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL);
  if (sent > 0) return {Next::done, static_cast<std::size_t>(sent)};
  return {sent < 0 && would_block(errno) ? Next::wait_write : Next::broken};
}

bool Transport::pending() const {
  return ssl_ != nullptr && SSL_pending(ssl_) > 0;
}

Transport::Step Transport::peek() {
  char byte = 0;
  if (ssl_ != nullptr) {
    ERR_clear_error();
    return after(SSL_peek(ssl_, &byte, 1));
  }
  const ssize_t got = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK);
  if (got > 0) return {Next::done, 1};
  if (got == 0) return {Next::closed};
  return {would_block(errno) ? Next::wait_read : Next::broken};
}

Transport::Step Transport::discard(std::span<char> scratch) {
  const ssize_t got = ::recv(socket_.native_handle(), scratch.data(), scratch.size(), 0);
  if (got > 0) return {Next::done, static_cast<std::size_t>(got)};
  if (got == 0) return {Next::closed};
  return {would_block(errno) ? Next::wait_read : Next::broken};
}

void Transport::finish() {
  if (ssl_ != nullptr && !broken_ && SSL_is_init_finished(ssl_) == 1) {
    ERR_clear_error();
    SSL_shutdown(ssl_);
    ERR_clear_error();
  }
  ::shutdown(socket_.native_handle(), SHUT_WR);
}

void Transport::close() {
  boost::system::error_code ignored;
  socket_.close(ignored);
}

std::string Transport::local_address() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  const int fd = const_cast<Socket&>(socket_).native_handle();
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  return address_of(address).text;
}

std::uint16_t Transport::local_port() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  const int fd = const_cast<Socket&>(socket_).native_handle();
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }
  if (address.ss_family != AF_INET6) return 0;
  return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

std::string Transport::certificate_name() const {
  const X509* const certificate = ssl_ == nullptr ? nullptr : SSL_get0_peer_certificate(ssl_);
  if (certificate == nullptr) return "";
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0) return "";
  unsigned char* text = nullptr;
  const ASN1_STRING* const name = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
  const int size = ASN1_STRING_to_UTF8(&text, name);
  if (size < 0) {
    ERR_clear_error();
    return "";
  }
  std::string out(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
  OPENSSL_free(text);
  // The text is used inside log lines.
  for (char& c : out) {
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f) c = '?';
  }
  return out;
}

}  // namespace mainspring::http
