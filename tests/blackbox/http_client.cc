// HTTP/1.1 over a blocking loopback socket, with deadlines by poll.
#include "http_client.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "process.h"

namespace blackbox {
namespace {

constexpr std::size_t kMaxAnswerBytes = 256u << 20;

int left_ms(std::int64_t deadline_us) {
  return static_cast<int>(std::max<std::int64_t>(0, (deadline_us - now_us() + 999) / 1000));
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

std::string Answer::header(std::string_view name) const {
  std::size_t at = head.find("\r\n");
  while (at != std::string::npos) {
    at += 2;
    const std::size_t end = head.find("\r\n", at);
    const std::string_view line = std::string_view(head).substr(at, end - at);
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos && lower(line.substr(0, colon)) == name) {
      std::string_view value = line.substr(colon + 1);
      while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
      return std::string(value);
    }
    at = end;
  }
  return "";
}

void HttpClient::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  buffer_.clear();
}

bool HttpClient::connect() {
  close();
  fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return false;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    close();
    return false;
  }
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return true;
}

bool HttpClient::stale() const {
  char byte = 0;
  const ssize_t n = recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

bool HttpClient::send_all(std::string_view bytes, std::int64_t deadline_us) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
      continue;
    }
    if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
    pollfd fd{fd_, POLLOUT, 0};
    if (poll(&fd, 1, left_ms(deadline_us)) <= 0) return false;
  }
  return true;
}

bool HttpClient::fill(std::int64_t deadline_us) {
  pollfd fd{fd_, POLLIN, 0};
  if (poll(&fd, 1, left_ms(deadline_us)) <= 0) return false;
  char bytes[16384];
  const ssize_t n = recv(fd_, bytes, sizeof bytes, 0);
  if (n <= 0 || buffer_.size() > kMaxAnswerBytes) return false;
  buffer_.append(bytes, static_cast<std::size_t>(n));
  return true;
}

bool HttpClient::read_chunks(Answer& answer, std::int64_t deadline_us) {
  while (true) {
    std::size_t end = 0;
    while ((end = buffer_.find("\r\n")) == std::string::npos) {
      if (!fill(deadline_us)) return false;
    }
    const std::size_t size = std::strtoul(buffer_.c_str(), nullptr, 16);
    buffer_.erase(0, end + 2);
    while (buffer_.size() < size + 2) {
      if (!fill(deadline_us)) return false;
    }
    answer.body.append(buffer_, 0, size);
    buffer_.erase(0, size + 2);
    if (size == 0) return true;
  }
}

bool HttpClient::read_answer(Answer& answer, std::int64_t deadline_us) {
  std::size_t end = 0;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!fill(deadline_us)) return false;
  }
  answer.head = buffer_.substr(0, end + 2);
  buffer_.erase(0, end + 4);
  if (answer.head.size() < 12 || answer.head.compare(0, 5, "HTTP/") != 0) return false;
  answer.status = std::atoi(answer.head.c_str() + 9);
  if (answer.status == 100) return read_answer(answer, deadline_us);
  if (lower(answer.header("transfer-encoding")) == "chunked") {
    if (!read_chunks(answer, deadline_us)) return false;
  } else {
    const std::size_t size = std::strtoul(answer.header("content-length").c_str(), nullptr, 10);
    while (buffer_.size() < size) {
      if (!fill(deadline_us)) return false;
    }
    answer.body = buffer_.substr(0, size);
    buffer_.erase(0, size);
  }
  if (lower(answer.header("connection")) == "close") close();
  return true;
}

std::string HttpClient::compose(std::string_view method, std::string_view target,
                                std::string_view body,
                                const std::vector<std::string>& headers) const {
  std::string out;
  out.append(method).append(" ").append(target).append(" HTTP/1.1\r\nHost: 127.0.0.1:");
  out.append(std::to_string(port_)).append("\r\n");
  for (const std::string& line : headers) out.append(line).append("\r\n");
  if (!body.empty() || method == "POST" || method == "PUT") {
    out.append("Content-Type: application/json\r\nContent-Length: ");
    out.append(std::to_string(body.size())).append("\r\n");
  }
  return out.append("\r\n").append(body);
}

Answer HttpClient::request(std::string_view method, std::string_view target, std::string_view body,
                           const std::vector<std::string>& headers, int timeout_ms) {
  Answer answer;
  answer.invoke_us = now_us();
  const std::int64_t deadline = answer.invoke_us + timeout_ms * 1000LL;
  if (fd_ >= 0 && stale()) close();
  if (fd_ < 0 && !connect()) {
    answer.return_us = now_us();
    return answer;
  }
  answer.sent = Sent::unknown;
  if (send_all(compose(method, target, body, headers), deadline) && read_answer(answer, deadline)) {
    answer.sent = Sent::answered;
  } else {
    close();
  }
  answer.return_us = now_us();
  return answer;
}

std::string HttpClient::raw(std::string_view bytes, int timeout_ms) {
  if (!connect()) return "";
  const std::int64_t deadline = now_us() + timeout_ms * 1000LL;
  send_all(bytes, deadline);
  while (fill(deadline)) {
  }
  std::string out = buffer_;
  close();
  return out;
}

bool HttpClient::send_only(std::string_view method, std::string_view target,
                           std::string_view body) {
  if (!connect()) return false;
  return send_all(compose(method, target, body, {}), now_us() + 5'000'000);
}

Answer HttpClient::receive(int timeout_ms) {
  Answer answer;
  answer.invoke_us = now_us();
  answer.sent = Sent::unknown;
  if (fd_ >= 0 && read_answer(answer, answer.invoke_us + timeout_ms * 1000LL)) {
    answer.sent = Sent::answered;
  } else {
    close();
  }
  answer.return_us = now_us();
  return answer;
}

}  // namespace blackbox
