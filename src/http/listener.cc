// Binds an address and a port, or a path at which a dead server may have left its socket.
#include "http/listener.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <cstring>

#include "env/fd.h"

namespace mainspring::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr int kBacklog = 4096;

std::string url_host(const asio::ip::address& address) {
  return address.is_v6() ? fmt::format("[{}]", address.to_string()) : address.to_string();
}

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

// Returns whether a server listens there. A server that is too busy to accept counts.
bool is_alive(const sockaddr_un& address) {
  const Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return true;
  }
  return errno != ECONNREFUSED && errno != ENOENT;
}

// Removes a stale socket. Errors: conflict.
Result<void> clear_path(const std::string& path, const sockaddr_un& address) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return {};  // no file, or bind() will report the problem
  const auto conflict = [&](std::string_view why) {
    return Error{ErrorCode::conflict, fmt::format("cannot listen on unix:{}: {}", path, why)};
  };
  if (!S_ISSOCK(status.st_mode)) return conflict("the path is a file, not a socket");
  if (is_alive(address)) return conflict("another program uses it; give another path");
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return conflict(std::string("the socket of a stopped server cannot be removed: ") +
                    std::strerror(errno));
  }
  return {};
}

}  // namespace

Result<asio::ip::address> parse_host(const std::string& host) {
  if (host == "localhost") return asio::ip::address(asio::ip::address_v4::loopback());
  error_code problem;
  const auto address = asio::ip::make_address(host, problem);
  if (!problem) return address;
  return invalid("host", fmt::format("host \"{}\": must be an IP address or localhost", host));
}

Result<void> check_unix_path(const std::string& path) {
  constexpr std::size_t kMost = sizeof(sockaddr_un::sun_path) - 1;
  if (path.empty() || path.size() > kMost || path.back() == '/' ||
      path.find('\0') != std::string::npos) {
    return invalid("unix_path", fmt::format("unix_path \"{}\": must be the path of a socket, with "
                                            "at most {} bytes",
                                            path, kMost));
  }
  return {};
}

Result<void> Listener::open(const HttpOptions& options) {
  return options.unix_path.empty() ? open_tcp(options) : open_unix(options.unix_path);
}

Result<void> Listener::open_tcp(const HttpOptions& options) {
  MS_TRY_ASSIGN(const asio::ip::address address, parse_host(options.host));
  const tcp::endpoint wanted(address, options.port);
  error_code problem;
  acceptor_.open(wanted.protocol(), problem);
  if (!problem) acceptor_.set_option(asio::socket_base::reuse_address(true), problem);
  if (!problem) acceptor_.bind(wanted, problem);
  if (!problem) acceptor_.listen(kBacklog, problem);
  tcp::endpoint bound;
  if (!problem) {
    const auto generic = acceptor_.local_endpoint(problem);
    bound.resize(generic.size());
    std::memcpy(bound.data(), generic.data(), generic.size());
  }
  if (!problem) {
    port_ = bound.port();
    address_ = bound.address().to_string();
    return {};
  }
  // Both pass: the other program ends, the interface comes up. So a caller may try again.
  const bool in_use = problem == asio::error::address_in_use;
  const bool absent = problem == error_code(EADDRNOTAVAIL, boost::system::system_category());
  return Error{in_use || absent ? ErrorCode::conflict : ErrorCode::io_error,
               fmt::format("cannot listen on {}:{}: {}", url_host(address), options.port,
                           in_use   ? "another program uses it; give another port"
                           : absent ? "this machine does not have the address, or not yet"
                                    : problem.message())};
}

// Two servers that start at the same moment must not both remove the socket that the other has just
// bound. So the directory is locked meanwhile.
Result<void> Listener::open_unix(const std::string& path) {
  MS_TRY(check_unix_path(path));
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const Fd lock(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock || ::flock(lock.get(), LOCK_EX) != 0) {
    return Error{ErrorCode::io_error, fmt::format("cannot listen on unix:{}: directory {}: {}",
                                                  path, directory, std::strerror(errno))};
  }
  return bind_unix(path);
}

Result<void> Listener::bind_unix(const std::string& path) {
  const sockaddr_un address = unix_address(path);
  MS_TRY(clear_path(path, address));
  error_code problem;
  acceptor_.open(asio::generic::stream_protocol(AF_UNIX, 0), problem);
  // Before the bind, so that other users can never connect.
  if (!problem && ::fchmod(acceptor_.native_handle(), 0600) != 0) {
    problem = error_code(errno, boost::system::system_category());
  }
  if (!problem) acceptor_.bind({&address, sizeof address}, problem);
  if (!problem) acceptor_.listen(kBacklog, problem);
  struct stat status {};
  if (!problem && ::lstat(path.c_str(), &status) != 0) {
    problem = error_code(errno, boost::system::system_category());
  }
  if (problem) {
    return Error{ErrorCode::io_error,
                 fmt::format("cannot listen on unix:{}: {}", path, problem.message())};
  }
  unix_path_ = path;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  return {};
}

void Listener::close() {
  error_code ignored;
  acceptor_.close(ignored);
  if (unix_path_.empty()) return;
  struct stat status {};
  const bool ours = ::lstat(unix_path_.c_str(), &status) == 0 && status.st_dev == device_ &&
                    status.st_ino == inode_;
  if (ours) ::unlink(unix_path_.c_str());
  unix_path_.clear();
}

std::string Listener::host_and_port() const {
  const bool v6 = address_.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", address_, v6 ? "]" : "", port_);
}

}  // namespace mainspring::http
