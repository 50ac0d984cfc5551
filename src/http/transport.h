// Transport: the bytes of one connection, plain or under TLS, TCP or a unix socket. Never blocks.
//
// A connection waits for readiness and then reads and writes; TLS may want to write in order to
// read and the reverse, so every call says what it waits for.
#pragma once

#include <openssl/ssl.h>

#include <boost/asio/generic/stream_protocol.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace mainspring::http {

using Socket = boost::asio::generic::stream_protocol::socket;

class Transport {
 public:
  // `tls` = nullptr: plain. The socket is made non-blocking.
  Transport(Socket socket, std::shared_ptr<SSL_CTX> tls);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  enum class Next {
    done,        // `bytes` were moved, at least one; of a handshake: it is over
    wait_read,   // come again when the socket is readable
    wait_write,  // … writable
    closed,      // the peer closed in good order
    broken,      // it did not, or does not speak TLS
    plain,       // of a handshake: the peer speaks plain HTTP; so does this from now on
  };
  struct Step {
    Next next = Next::broken;
    std::size_t bytes = 0;
  };
  // Before anything else; done at once when plain. Until it is done read() and write() are not
  // called.
  Step handshake();
  // Sends the acknowledgement of what was read at once. Call it while the rest of a request is
  // awaited: a client under Nagle's algorithm holds that rest back until the acknowledgement
  // arrives, and the kernel would delay it by 40 ms.
  void acknowledge();
  Step read(std::span<char> into);
  // Both parts as if they were one. After wait_write it must be called again with the same bytes,
  // wherever they lie then, and maybe more behind them.
  Step write(std::string_view head, std::string_view body = {});
  // Has it bytes that a wait for readiness would not tell of? Then read() first.
  bool pending() const;
  // Is the peer still there? done = it has sent something (which is kept), closed or broken = it
  // has gone, wait_read = it is there and silent.
  Step peek();
  // Passes over what the peer sends, as it comes; read() cannot be called any more.
  Step discard(std::span<char> scratch);
  // Tells the peer that nothing more comes (close_notify), as far as it goes at once.
  void finish();
  void close();

  bool tls() const { return ssl_ != nullptr; }
  Socket& socket() { return socket_; }
  // "192.0.2.7", "unix uid=1000"; known from the beginning.
  const std::string& peer() const { return peer_; }
  // "192.0.2.1"; "" of a unix socket.
  std::string local_address() const;
  bool local() const { return local_; }  // loopback or unix
  std::string certificate_name() const;  // CN of the peer's certificate, "" = none

 private:
  Step after(int result);
  Socket socket_;
  SSL* ssl_ = nullptr;
  bool begun_ = false;   // the peer has sent something
  bool broken_ = false;  // OpenSSL wants no further calls
  std::string peer_;
  bool local_ = false;
};

}  // namespace mainspring::http
