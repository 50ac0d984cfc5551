// Inbound: the connection over which one peer rings here. Private to the module; on its thread.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>

#include "bell/core.h"

namespace mainspring::bell {

class Inbound : public std::enable_shared_from_this<Inbound> {
 public:
  // `changed` is told when it has proved who it is, and when it has closed.
  Inbound(boost::asio::ip::tcp::socket socket, Core& core, std::function<void(Inbound&)> changed);

  void start();
  void close();
  // What it keeps back.
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
  // False: it is none.
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
  bool rests_ = false;  // until the deadline, with its answer
  Talk talk_;
  Digest session_{};
  std::uint64_t number_ = 0;
  double tokens_ = 0;  // frames that it may send at once
  Instant filled_;     // when they were counted
  std::string in_, out_;
};

}  // namespace mainspring::bell
