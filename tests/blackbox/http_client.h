// A small HTTP/1.1 client on a raw socket that reports unknown outcomes as unknown.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace blackbox {

// The knowledge of a caller about a request.
enum class Sent {
  answered,  // it has a status
  never,     // it certainly did not reach the server: the connection was refused
  unknown,   // it may have taken effect: the connection broke, or no answer came in time
};

struct Answer {
  Sent sent = Sent::never;
  int status = 0;
  std::string head;  // status line and header fields
  std::string body;
  std::int64_t invoke_us = 0;
  std::int64_t return_us = 0;

  // The value of a header field, "" if it is not there. `name` in lower case.
  std::string header(std::string_view name) const;
};

class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port) : port_(port) {}
  ~HttpClient() { close(); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // One request and its answer; keeps the connection if the server does. `headers` are whole lines
  // without their end.
  Answer request(std::string_view method, std::string_view target, std::string_view body = "",
                 const std::vector<std::string>& headers = {}, int timeout_ms = 15'000);
  Answer get(std::string_view target, int timeout_ms = 15'000) {
    return request("GET", target, "", {}, timeout_ms);
  }
  Answer post(std::string_view target, std::string_view body,
              const std::vector<std::string>& headers = {}, int timeout_ms = 15'000) {
    return request("POST", target, body, headers, timeout_ms);
  }

  // Sends the bytes unchanged and returns all data until `timeout_ms` or the end of the connection.
  std::string raw(std::string_view bytes, int timeout_ms);
  // Connects and sends a request without waiting for the answer. False if the server is down.
  bool send_only(std::string_view method, std::string_view target, std::string_view body);
  // The answer of send_only.
  Answer receive(int timeout_ms = 15'000);
  void close();

 private:
  bool connect();
  bool stale() const;
  bool send_all(std::string_view bytes, std::int64_t deadline_us);
  // Appends received data to buffer_. False at the end of the connection or the deadline.
  bool fill(std::int64_t deadline_us);
  bool read_answer(Answer& answer, std::int64_t deadline_us);
  bool read_chunks(Answer& answer, std::int64_t deadline_us);
  std::string compose(std::string_view method, std::string_view target, std::string_view body,
                      const std::vector<std::string>& headers) const;

  std::uint16_t port_;
  int fd_ = -1;
  std::string buffer_;
};

}  // namespace blackbox
