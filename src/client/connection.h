// Connection: one keep-alive HTTP/1.1 connection, one request at a time, with time limits; can be
// interrupted. Private to the module.
#pragma once

#include <openssl/ssl.h>
#include <sys/socket.h>

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"
#include "model/trace_context.h"

namespace mainspring {

// The parts of http://HOST:PORT/PREFIX, https://HOST:PORT/PREFIX or unix:PATH. HOST may be a name,
// an IPv4 or a bracketed IPv6 address.
struct HttpUrl {
  std::string host;  // without brackets
  std::string port;  // "80" or "443" if the URL has none
  std::string authority;
  std::string prefix;  // "/jobs": comes before each path; "" = none
  bool tls = false;
  std::string unix_path;  // "" = TCP
  // True if all traffic stays on this machine: "localhost", loopback addresses, unix sockets.
  bool local() const;
};
// Errors: invalid_argument (another scheme, a query, a user, a bad port).
Result<HttpUrl> parse_http_url(std::string_view url);
// One URL or several, separated by commas.
Result<std::vector<HttpUrl>> parse_http_urls(std::string_view urls);

struct HttpRequest {
  std::string_view method;
  std::string_view target;
  std::string_view body;                               // "" = none
  std::string_view idempotency_key;                    // "" = none
  std::string_view content_type = "application/json";  // of a body
  std::string_view file_name = "";                     // for Content-Disposition; "" = none
  std::string_view token = "";                         // for Authorization; "" = none
  const TraceHeaders* trace = nullptr;                 // nullptr = none
  // Gets the pieces of the body of a 200 as they arrive, instead of the response. If it returns
  // false, the exchange is stopped. nullptr = none.
  const std::function<bool(std::string_view)>* sink = nullptr;
  // Called when stop is requested while the answer is awaited: asks the server on another
  // connection to answer now. Returns false if it could not. nullptr = not possible.
  const std::function<bool()>* ask_to_end = nullptr;
};
struct HttpResponse {
  int status = 0;
  int retry_after_s = 0;  // 0 = no such header
  std::string body;
};

// The header Retry-After in seconds: a number, or a date relative to the header Date of the same
// answer. 0 = missing, in the past, or invalid.
int retry_after_seconds(const std::string& header, const std::string& date);

// Why an exchange failed, so that the caller can decide whether to repeat it.
struct ExchangeError {
  Error error;
  bool answered = false;  // a part of the answer had arrived
  bool stopped = false;   // stop was requested
  bool unsent = false;    // no connection: the server has not received it
};
using ExchangeResult = tl::expected<HttpResponse, ExchangeError>;

class Connection {
 public:
  struct Limits {
    Duration connect;  // until connected
    Duration first;    // from the request to the first byte of the answer
    Duration next;     // between its bytes
    // How long an answer is still awaited after a stop. The server is informed that no further
    // request will come. For claims: jobs in the answer would be lost.
    Duration after_stop{0};
  };
  // Uses `tls` if the URL says so. Errors: unavailable (no server, or not in time; an invalid
  // certificate).
  static tl::expected<std::unique_ptr<Connection>, ExchangeError> open(const HttpUrl& url,
                                                                       SSL_CTX* tls, Duration limit,
                                                                       std::stop_token stop);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // After an error the connection is not usable. Errors: unavailable (it broke), timeout, internal
  // (the answer is not HTTP).
  ExchangeResult exchange(const HttpUrl& url, const HttpRequest& request, const Limits& limits,
                          std::stop_token stop);
  // True if it can take another request: the server has not closed it or announced the close.
  bool usable() const;

 private:
  Connection(int fd, int event_fd) : fd_(fd), event_fd_(event_fd) {}
  enum class Wait { ready, timeout, stopped };
  enum class Heed { stop, nothing };
  // The result of one read or write: a number of bytes, or what to wait for.
  struct Moved {
    std::size_t bytes = 0;
    short events = 0;  // poll for these, then try again
    bool ended = false;
    std::string problem = {};
  };
  using Opened = tl::expected<std::unique_ptr<Connection>, ExchangeError>;

  static Opened connect_to(const HttpUrl& url, int family, const sockaddr* address, socklen_t size,
                           Duration limit, const std::stop_token& stop);
  static Opened open_tcp(const HttpUrl& url, Duration limit, const std::stop_token& stop);
  static Opened open_unix(const HttpUrl& url, Duration limit, const std::stop_token& stop);
  tl::expected<void, ExchangeError> shake_hands(const HttpUrl& url, SSL_CTX* tls, Duration limit,
                                                const std::stop_token& stop);
  Wait wait_for(short events, Duration limit, Heed heed = Heed::stop) const;
  Moved write_some(std::string_view head, std::string_view body);
  Moved read_some(char* into, std::size_t size);
  Moved after(int result) const;
  void say_no_more();
  tl::expected<void, ExchangeError> send_all(const std::string& head, std::string_view body,
                                             Duration limit);
  ExchangeResult receive(const HttpRequest& request, const Limits& limits);

  int fd_;
  SSL* ssl_ = nullptr;
  int event_fd_;  // becomes readable when the stop token is requested
  bool keep_alive_ = true;
};

}  // namespace mainspring
