// The status server, on Boost.Asio and Boost.Beast: one thread, one answer per connection.
#include "roles/status_server.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <charconv>
#include <optional>
#include <thread>
#include <utility>

namespace mainspring::roles {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

Error refuse(const std::string& listen, std::string_view rule) {
  return invalid("listen", fmt::format("--listen \"{}\": {}", listen, rule));
}

Result<tcp::endpoint> endpoint_of(const std::string& listen) {
  const std::size_t colon = listen.rfind(':');
  if (colon == std::string::npos) {
    return refuse(listen, "must be HOST:PORT, for example 127.0.0.1:8081");
  }
  std::string host = listen.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  unsigned port = 0;
  const char* end = listen.data() + listen.size();
  const auto [at, error] = std::from_chars(listen.data() + colon + 1, end, port);
  if (error != std::errc() || at != end || port > 65'535) {
    return refuse(listen, "the port must be a number from 0 to 65535");
  }
  boost::system::error_code bad;
  const asio::ip::address address = asio::ip::make_address(host, bad);
  if (bad) return refuse(listen, "the host must be an address, or localhost");
  return tcp::endpoint(address, static_cast<unsigned short>(port));
}

// One connection: a request is read, answered, and the connection closed.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(tcp::socket socket, const StatusServer::Answer& answer, int& connections)
      : stream_(std::move(socket)), answer_(answer), connections_(connections) {
    ++connections_;
    parser_.header_limit(static_cast<std::uint32_t>(StatusServer::kMaxHeaderBytes));
    parser_.body_limit(0);
  }
  ~Exchange() { --connections_; }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void start() {
    stream_.expires_after(std::chrono::seconds(StatusServer::kTimeoutS));
    http::async_read_header(stream_, buffer_, parser_,
                            [self = shared_from_this()](beast::error_code error, std::size_t) {
                              if (!error) self->reply();
                            });
  }

 private:
  void reply() {
    const auto& request = parser_.get();
    const bool head = request.method() == http::verb::head;
    StatusAnswer answer{405, "{\"status\":\"only GET and HEAD\"}", "application/json"};
    if (head || request.method() == http::verb::get) {
      const std::string target(request.target());
      answer = answer_(target.substr(0, target.find('?')));
    }
    response_.version(11);
    response_.result(static_cast<unsigned>(answer.status));
    response_.set(http::field::content_type, answer.content_type);
    response_.set(http::field::cache_control, "no-store");
    if (answer.status == 405) response_.set(http::field::allow, "GET, HEAD");
    response_.keep_alive(false);
    response_.content_length(answer.body.size());
    if (!head) response_.body() = std::move(answer.body);
    http::async_write(stream_, response_,
                      [self = shared_from_this()](beast::error_code, std::size_t) {
                        beast::error_code ignored;
                        self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
                      });
  }

  beast::tcp_stream stream_;
  const StatusServer::Answer& answer_;
  int& connections_;
  beast::flat_buffer buffer_{StatusServer::kMaxHeaderBytes};
  http::request_parser<http::empty_body> parser_;
  http::response<http::string_body> response_;
};

}  // namespace

struct StatusServer::Impl {
  explicit Impl(Answer its_answer) : answer(std::move(its_answer)) {}

  Answer answer;
  int connections = 0;  // of the server's thread only; outlives `io`, whose end ends exchanges
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  std::thread thread;

  Result<void> listen(const std::string& text, const tcp::endpoint& endpoint) {
    boost::system::error_code error;
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (!error) return {};
    const bool used = error == asio::error::address_in_use;
    return Error{used ? ErrorCode::conflict : ErrorCode::io_error,
                 fmt::format("--listen \"{}\": {}", text, error.message())};
  }

  void accept() {
    acceptor.async_accept([this](boost::system::error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (!error && connections < kMaxConnections) {
        std::make_shared<Exchange>(std::move(socket), answer, connections)->start();
      }
      accept();
    });
  }
};

StatusServer::StatusServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

StatusServer::~StatusServer() {
  impl_->io.stop();
  impl_->thread.join();
}

Result<std::unique_ptr<StatusServer>> StatusServer::start(const std::string& listen,
                                                          Answer answer) {
  MS_TRY_ASSIGN(const tcp::endpoint endpoint, endpoint_of(listen));
  auto impl = std::make_unique<Impl>(std::move(answer));
  MS_TRY(impl->listen(listen, endpoint));
  impl->accept();
  impl->thread = std::thread([io = &impl->io] { io->run(); });
  return std::unique_ptr<StatusServer>(new StatusServer(std::move(impl)));
}

std::string StatusServer::url() const {
  const tcp::endpoint at = impl_->acceptor.local_endpoint();
  const std::string host = at.address().to_string();
  const bool v6 = at.address().is_v6();
  return fmt::format("http://{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", at.port());
}

}  // namespace mainspring::roles
