// A server for tests: accepts requests on a loopback port and returns preset answers.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "env/fd.h"

namespace mainspring::testing {

inline constexpr const char* kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

// After the head of an answer: sends a byte at intervals, or as much as fits; endlessly.
inline constexpr const char* kDrip = "<drip>";
inline constexpr const char* kEndless = "<endless>";

// Accepts one request after another on a loopback port and returns the preset answers, then kOk; ""
// = never answers.
class TinyServer {
 public:
  explicit TinyServer(std::deque<std::string> answers = {}, const char* at = "127.0.0.1",
                      int port = 0)
      : at_(at), answers_(std::move(answers)) {
    listener_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    REQUIRE(::inet_pton(AF_INET, at, &address.sin_addr) == 1);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(::bind(listener_.get(), generic, size) == 0);
    REQUIRE(::listen(listener_.get(), 16) == 0);
    REQUIRE(::getsockname(listener_.get(), generic, &size) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~TinyServer() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  std::string url(const std::string& path = "/", const std::string& user = "") const {
    return fmt::format("http://{}{}:{}{}", user, at_, port_, path);
  }
  int port() const { return port_; }
  std::vector<std::string> requests() {
    MutexLock lock(mutex_);
    return requests_;
  }
  void wait_for(std::size_t requests) {
    MutexLock lock(mutex_);
    while (requests_.size() < requests) changed_.wait_for(mutex_, std::chrono::seconds(30));
  }

 private:
  static std::string read_request(int fd) {
    std::string text;
    char buffer[4096];
    for (;;) {
      const std::size_t head = text.find("\r\n\r\n");
      const std::size_t at = text.find("Content-Length: ");
      const bool complete =
          head != std::string::npos &&
          (at == std::string::npos || text.size() >= head + 4 + std::stoul(text.substr(at + 16)));
      if (complete) return text;
      const ssize_t count = ::recv(fd, buffer, sizeof buffer, 0);
      if (count <= 0) return text;
      text.append(buffer, static_cast<std::size_t>(count));
    }
  }
  // Until the client or the end closes it.
  void pour(int fd, const std::string& answer) {
    const bool slow = answer.ends_with(kDrip);
    std::string out = answer.substr(0, answer.rfind('\n') + 1);
    for (;;) {
      if (::send(fd, out.data(), out.size(), MSG_NOSIGNAL) <= 0) return;
      out.assign(slow ? 1 : 1 << 16, 'x');
      pollfd closed{fd, POLLIN | POLLRDHUP, 0};  // its limit paces the drops
      if (::poll(&closed, 1, slow ? 5 : 0) != 0) return;
    }
  }
  void serve() {
    std::vector<Fd> unanswered;
    for (;;) {
      Fd fd(::accept(listener_.get(), nullptr, nullptr));
      if (!fd) return;
      const std::string request = read_request(fd.get());
      std::string answer = kOk;
      {
        MutexLock lock(mutex_);
        requests_.push_back(request);
        if (!answers_.empty()) {
          answer = answers_.front();
          answers_.pop_front();
        }
        changed_.notify_all();
      }
      if (answer.ends_with(kDrip) || answer.ends_with(kEndless)) {
        pour(fd.get(), answer);
      } else if (answer.empty()) {
        unanswered.push_back(std::move(fd));
      } else {
        (void)::send(fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      }
    }
  }

  const std::string at_;
  Fd listener_;
  int port_ = 0;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::string> answers_ MS_GUARDED_BY(mutex_);
  std::vector<std::string> requests_ MS_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace mainspring::testing
