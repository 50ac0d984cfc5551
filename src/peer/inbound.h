// Inbound: the incoming connection of one peer. Private to the module; runs on its thread.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>

#include "peer/core.h"

namespace mainspring::notifier {

class Inbound : public std::enable_shared_from_this<Inbound> {
 public:
  // Calls `changed` after the peer has proved its identity, and after the connection has closed.
  Inbound(boost::asio::ip::tcp::socket socket, Core& core, std::function<void(Inbound&)> changed);

  void start();
  void close();
  // Sends a delayed acknowledgement now.
  void answer_now();
  bool known() const { return known_; }
  bool closed() const { return closed_; }
  std::int64_t node() const { return talk_.dialer; }  // once it is known

 private:
  using Error = boost::system::error_code;
  void hear_answer();
  void check_answer();
  void hear_length();
  void hear_body();
  void check_frame();
  bool may_rest(std::string_view body);
  void answer();
  // Returns false if the body is invalid.
  bool take(std::string_view body);
  bool too_fast();
  void drop(std::string_view why);
  template <class Next>
  auto then(Next next);

  Core& core_;
  std::function<void(Inbound&)> changed_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer deadline_;
  const std::string address_;
  bool known_ = false;
  bool closed_ = false;
  bool rests_ = false;  // acknowledgement delayed until the deadline
  Talk talk_;
  Digest session_{};
  std::uint64_t number_ = 0;
  double tokens_ = 0;  // frames that the peer may send now
  Instant filled_;     // when tokens_ was updated
  std::string in_, out_;
};

}  // namespace mainspring::notifier
