// Listener: the listening socket, TCP or in the file system.
#pragma once

#include <sys/types.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <string>

#include "http/server.h"

namespace mainspring::http {

// Parses an address, or "localhost". Errors: invalid_argument.
Result<boost::asio::ip::address> parse_host(const std::string& host);
// Checks that the path is short enough for a socket and not a directory; absolute or relative.
// Errors: invalid_argument.
Result<void> check_unix_path(const std::string& path);

class Listener {
 public:
  using Acceptor = boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol>;

  explicit Listener(boost::asio::io_context& io) : acceptor_(io) {}
  ~Listener() { close(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Errors: conflict (in use, by another program or another server), io_error.
  Result<void> open(const HttpOptions& options);
  bool is_open() const { return acceptor_.is_open(); }
  // Also removes a socket in the file system, if it is still this one.
  void close();
  Acceptor& acceptor() { return acceptor_; }

  // The bound port and address; 0 and "" for a unix socket.
  std::uint16_t port() const { return port_; }
  const std::string& address() const { return address_; }
  std::string host_and_port() const;  // "127.0.0.1:8080", "[::1]:8080"

 private:
  Result<void> open_tcp(const HttpOptions& options);
  Result<void> open_unix(const std::string& path);
  Result<void> bind_unix(const std::string& path);

  Acceptor acceptor_;
  std::uint16_t port_ = 0;
  std::string address_;
  std::string unix_path_;  // to be removed; "" = none
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace mainspring::http
