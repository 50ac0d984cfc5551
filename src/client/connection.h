// Connection: one keep-alive HTTP/1.1 connection, a request at a time, with time limits and a way
// to be interrupted. Private to the module.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring {

// http://HOST:PORT, taken apart. HOST may be a name, an IPv4 or a bracketed IPv6 address.
struct HttpUrl {
  std::string host;  // without brackets
  std::string port;  // "80" if the URL has none
  std::string authority;
};
// Errors: invalid_argument (another scheme, a path, a user, a bad port).
Result<HttpUrl> parse_http_url(std::string_view url);

struct HttpRequest {
  std::string_view method;
  std::string_view target;
  std::string_view body;                               // "" = none
  std::string_view idempotency_key;                    // "" = none
  std::string_view content_type = "application/json";  // of a body
  std::string_view file_name = "";                     // for Content-Disposition; "" = none
};
struct HttpResponse {
  int status = 0;
  int retry_after_s = 0;  // 0 = no such header
  std::string body;
};

// Why an exchange failed, for whoever decides whether to repeat it.
struct ExchangeError {
  Error error;
  bool answered = false;  // some of the answer had come
  bool stopped = false;   // the stop token was the reason
  bool unsent = false;    // there was no connection: the server has not seen it
};
using ExchangeResult = tl::expected<HttpResponse, ExchangeError>;

class Connection {
 public:
  struct Limits {
    Duration connect;  // to be connected
    Duration first;    // from the request to the first byte of the answer
    Duration next;     // between its bytes
    // How long an answer that is on its way is still waited for after a stop, with the server
    // told that nothing else will come. For claims: jobs in it would be missed.
    Duration after_stop{0};
  };
  // Errors: unavailable (nobody there, in time or at all), not_found is never used.
  static tl::expected<std::unique_ptr<Connection>, ExchangeError> open(const HttpUrl& url,
                                                                       Duration limit,
                                                                       std::stop_token stop);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // After an error the connection is not usable. Errors: unavailable (it broke), timeout, internal
  // (what came is not HTTP).
  ExchangeResult exchange(const HttpUrl& url, const HttpRequest& request, const Limits& limits,
                          std::stop_token stop);
  // Can it take another request? False when the server said or did close it.
  bool usable() const;

 private:
  Connection(int fd, int event_fd) : fd_(fd), event_fd_(event_fd) {}
  enum class Wait { ready, timeout, stopped };
  enum class Heed { stop, nothing };
  Wait wait_for(short events, Duration limit, Heed heed = Heed::stop) const;
  tl::expected<void, ExchangeError> send_all(const std::string& head, std::string_view body,
                                             Duration limit);
  ExchangeResult receive(bool head_only, const Limits& limits);

  int fd_;
  int event_fd_;  // becomes readable when the stop token is requested
  bool keep_alive_ = true;
};

}  // namespace mainspring
