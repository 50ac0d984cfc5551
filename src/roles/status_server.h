// StatusServer: answers GET /healthz, /readyz and /metrics of a program.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "mainspring/result.h"

namespace mainspring::roles {

struct StatusAnswer {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
};

class StatusServer {
 public:
  // Returns the answer; called on the server's thread. The path is without its query.
  using Answer = std::function<StatusAnswer(const std::string& path)>;

  // Listens on "HOST:PORT" (an address or "localhost", "[::1]:0" too; port 0 = any free one) and
  // serves on a thread of its own. Errors: invalid_argument with field "listen", conflict (the
  // address is in use), io_error.
  static Result<std::unique_ptr<StatusServer>> start(const std::string& listen, Answer answer);
  ~StatusServer();  // closes all connections; blocks

  std::string url() const;  // "http://127.0.0.1:4711", as bound

  static constexpr int kMaxConnections = 100;  // beyond: closed at once
  static constexpr std::size_t kMaxHeaderBytes = 8 << 10;
  static constexpr int kTimeoutS = 10;  // of a whole exchange

 private:
  struct Impl;
  explicit StatusServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring::roles
