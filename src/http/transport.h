// Transport: the bytes of one connection, plain or TLS, over TCP or a unix socket. Never blocks.
//
// A connection waits until the socket is ready and then reads or writes. TLS may need to write in
// order to read, and the reverse, so every call returns what to wait for.
#pragma once

#include <openssl/ssl.h>

#include <boost/asio/generic/stream_protocol.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mainspring::http {

using Socket = boost::asio::generic::stream_protocol::socket;

class Transport {
 public:
  // `tls` = nullptr: plain. The socket is made non-blocking.
  enum class Side { server, client };
  Transport(Socket socket, std::shared_ptr<SSL_CTX> tls, Side side = Side::server);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  enum class Next {
    done,        // `bytes` were moved, at least one; for a handshake: complete
    wait_read,   // call again when the socket is readable
    wait_write,  // … writable
    closed,      // the peer closed cleanly
    broken,      // it did not, or does not speak TLS
    plain,       // for a handshake: the peer speaks plain HTTP; so does this object from now on
  };
  struct Step {
    Next next = Next::broken;
    std::size_t bytes = 0;
  };
  // Call first; done at once if plain. read() and write() are not allowed before it is done.
  Step handshake();
  // Returns whether the peer's first bytes are `greeting`, and removes them; nullopt = more bytes
  // are needed to know. Before everything else, also under TLS.
  std::optional<bool> takes_greeting(std::string_view greeting);
  // The peer speaks TLS with this context from now on.
  void begin_tls(const std::shared_ptr<SSL_CTX>& tls, Side side = Side::server);
  // Acknowledges received data at once. Call it while the rest of a request is awaited: a client
  // with Nagle's algorithm holds the rest back until the acknowledgement arrives, and the kernel
  // would delay the acknowledgement by 40 ms.
  void acknowledge();
  Step read(std::span<char> into);
  // Writes both parts as if they were one. After wait_write it must be called again with the same
  // bytes, possibly at another address and with more bytes after them.
  Step write(std::string_view head, std::string_view body = {});
  // Written bytes that the peer has received; only differences count. The kernel's buffer may take
  // megabytes from the writer while the peer reads nothing.
  std::int64_t received_by_peer() const;
  // True if there are buffered bytes that do not make the socket readable. Then call read() first.
  bool pending() const;
  // Checks the peer: done = it has sent data (which is kept), closed or broken = it has
  // disconnected, wait_read = it is connected and silent.
  Step peek();
  // Discards input; read() cannot be called any more.
  Step discard(std::span<char> scratch);
  // Sends close_notify to the peer, without blocking.
  void finish();
  void close();

  bool tls() const { return ssl_ != nullptr; }
  Socket& socket() { return socket_; }
  // "192.0.2.7", "unix uid=1000"; known from the start.
  const std::string& peer() const { return peer_; }
  // "192.0.2.1"; "" for a unix socket.
  std::string local_address() const;
  std::uint16_t local_port() const;      // 0 for a unix socket
  bool local() const { return local_; }  // loopback or unix
  std::string certificate_name() const;  // CN of the peer's certificate, "" = none
  // After a broken handshake: the certificate of the peer that was refused, and why; "" = none was.
  const std::string& refusal() const { return refusal_; }

 private:
  Step after(int result);
  Step write_some(std::string_view head, std::string_view body);
  Socket socket_;
  SSL* ssl_ = nullptr;
  bool started_ = false;  // the peer has sent data
  bool broken_ = false;   // OpenSSL allows no further calls
  std::string peer_;
  std::string refusal_;
  bool local_ = false;
  std::int64_t written_ = 0;
};

}  // namespace mainspring::http
