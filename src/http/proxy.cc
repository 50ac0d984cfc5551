// Passes requests on to a program on this machine, and returns its answers.
//
// Everything is a callback on the connection's io thread: a slow program blocks no thread. If the
// client has disconnected, the answer is dropped.
#include <boost/asio/post.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "base/mutant.h"
#include "http/connection.h"

namespace mainspring::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using beast::error_code;

constexpr int kMaxProxied = 16;  // at once; each may buffer an answer
constexpr auto kProxyLimit = std::chrono::seconds(60);
constexpr std::uint64_t kMaxAnswerBytes = 16 << 20;
constexpr std::uint32_t kMaxAnswerHeadBytes = 64 << 10;

// Headers of one connection that are not passed on. Source: RFC 9110, 7.6.1.
bool is_hop_by_hop(std::string_view name) {
  for (const std::string_view known :
       {"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
        "TE", "Trailer", "Transfer-Encoding", "Upgrade"}) {
    if (iequals(name, known)) return true;
  }
  return false;
}

// Headers that would act on this server's whole origin in a browser.
bool is_of_origin(std::string_view name) {
  for (const std::string_view known : {"Set-Cookie", "Clear-Site-Data", "Strict-Transport-Security",
                                       "Alt-Svc", "NEL", "Report-To", "Service-Worker-Allowed"}) {
    if (iequals(name, known)) return true;
  }
  return false;
}

// Returns whether `name` is in the list of a Connection header.
bool is_listed(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    std::string_view word = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), word.size() + 1));
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    if (iequals(word, name)) return true;
  }
  return false;
}

// One of kMaxProxied places.
class Place {
 public:
  explicit Place(std::atomic<int>& count)
      : count_(count), taken_(count.fetch_add(1) < kMaxProxied) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() { --count_; }
  bool taken() const { return taken_; }

 private:
  std::atomic<int>& count_;
  const bool taken_;
};

class Call : public std::enable_shared_from_this<Call> {
 public:
  Call(asio::io_context& io, const DoProxy& proxy, std::shared_ptr<Place> place,
       std::function<void(Reply)> done)
      : stream_(io), place_(std::move(place)), refusal_(proxy.refusal), done_(std::move(done)) {
    namespace http = beast::http;
    request_.method_string(proxy.method);
    request_.target(proxy.target);
    request_.version(11);
    const std::string_view listed = header_value(proxy.headers, "Connection");
    for (const auto& [name, value] : proxy.headers) {
      if (iequals(name, "Host") || iequals(name, "Content-Length") || iequals(name, "Expect") ||
          is_hop_by_hop(name) || is_listed(listed, name)) {
        continue;
      }
      request_.insert(name, value);
    }
    request_.set(http::field::connection, "close");
    if (proxy.body != nullptr) request_.body() = proxy.body->bytes;
    if (!request_.body().empty()) request_.prepare_payload();
    parser_.body_limit(kMaxAnswerBytes);
    parser_.header_limit(kMaxAnswerHeadBytes);
    parser_.skip(proxy.method == "HEAD");
  }

  void start(int port) {
    request_.set(beast::http::field::host, "127.0.0.1:" + std::to_string(port));
    stream_.expires_after(kProxyLimit);
    stream_.async_connect(
        asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(port)),
        [self = shared_from_this()](const error_code& problem) {
          problem ? self->refuse(problem) : self->send();
        });
  }

 private:
  void send() {
    beast::http::async_write(stream_, request_,
                             [self = shared_from_this()](const error_code& problem, std::size_t) {
                               problem ? self->refuse(problem) : self->receive();
                             });
  }
  void receive() {
    beast::http::async_read(stream_, buffer_, parser_,
                            [self = shared_from_this()](const error_code& problem, std::size_t) {
                              problem ? self->refuse(problem) : self->answer();
                            });
  }
  void refuse(const error_code& problem) {
    done_(refusal_(404, "The program did not answer: " + problem.message()));
  }
  void answer() {
    const auto& response = parser_.get();
    Reply reply{.status = static_cast<int>(response.result_int()), .content_type = {}};
    if (reply.status < 200 || reply.status > 599) {
      return done_(refusal_(404, "The program sent an invalid answer."));
    }
    const std::string_view listed = response[beast::http::field::connection];
    for (const auto& field : response) {
      const std::string_view name = field.name_string();
      if (iequals(name, "Content-Length") || iequals(name, "Date") || is_hop_by_hop(name) ||
          is_listed(listed, name) || is_of_origin(name)) {
        continue;
      }
      add_header(reply, name, field.value());
    }
    // Without this a browser would run the program's pages with the rights of the dashboard. A
    // policy of the program can only add restrictions.
    if (!MS_MUTANT(program_page_trusted)) add_header(reply, "Content-Security-Policy", "sandbox");
    reply.body = std::move(parser_.get().body());
    done_(std::move(reply));
  }

  beast::tcp_stream stream_;
  const std::shared_ptr<Place> place_;
  Reply (*const refusal_)(int status, std::string_view message);
  const std::function<void(Reply)> done_;
  beast::http::request<beast::http::string_body> request_;
  beast::http::response_parser<beast::http::string_body> parser_;
  beast::flat_buffer buffer_;
};

}  // namespace

void Connection::do_proxy(DoProxy proxy) {
  waited_ = true;
  Services& services = shard_.shared().services;
  const auto place = std::make_shared<Place>(services.proxied);
  if (!place->taken()) {
    return reply(proxy.refusal(503, "Too many requests are being passed on."));
  }
  const bool taken = shard_.shared().host_readers.submit(
      [&io = shard_.io(), box = shard_.mailbox(), ticket = ticket_, place,
       proxy = std::make_shared<DoProxy>(std::move(proxy))] {
        const auto done = [box, ticket](Reply reply) {
          box->deliver_unexpected({ticket, std::move(reply)});
        };
        const auto port = proxy->port();
        if (!port) return done(proxy->refusal(404, port.error().message));
        const auto call = std::make_shared<Call>(io, *proxy, place, done);
        asio::post(io, [call, port = *port] { call->start(port); });
      });
  if (!taken) overloaded_reads();
}

}  // namespace mainspring::http
