// Links of one shard to the leader: idle ones, new ones, and the requests that wait for one.
//
// Every second a ping shows whether the leader answers. While it does not, nothing else is dialed,
// and requests wait. A ping without an answer within kPatience ends every relayed request: the
// leader may be stopped, or the network cut.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "cluster/leader.h"
#include "http/transport.h"

namespace mainspring::http {

class Connection;
class Shard;

struct Link {
  Link(Socket socket, std::shared_ptr<SSL_CTX> tls)
      : transport(std::move(socket), std::move(tls), Transport::Side::client) {}
  Transport transport;
};

// On the shard's thread.
class Links {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(5);
  static constexpr Duration kPingInterval = std::chrono::seconds(1);

  Links(Shard& shard, Leadership& leadership);

  // An idle link to the present leader; nullptr = there is none.
  std::unique_ptr<Link> take();
  // Calls Connection::on_link() once a link is there.
  void want(std::weak_ptr<Connection> connection);
  // The link can take the next request.
  void give(std::unique_ptr<Link> link);
  // The node refused a request: it does not lead.
  void refused();
  void on_tick(Instant now);
  // The view has changed. Ends the requests that are relayed to a node that no longer leads.
  void leader_changed();

 private:
  struct Attempt;  // to connect, or to ping
  using ErrorCode = boost::system::error_code;

  bool serve(std::unique_ptr<Link>& link);
  void dial_for_waiting();
  void dial(bool ping);
  void resolved(const std::shared_ptr<Attempt>& attempt,
                const boost::asio::ip::tcp::resolver::results_type& ends);
  void connect(const std::shared_ptr<Attempt>& attempt, const boost::asio::ip::tcp::endpoint& end);
  void shake(const std::shared_ptr<Attempt>& attempt);
  void connected(const std::shared_ptr<Attempt>& attempt);
  void send_ping(const std::shared_ptr<Attempt>& attempt);
  void hear_pong(const std::shared_ptr<Attempt>& attempt);
  void wait(const std::shared_ptr<Attempt>& attempt, Transport::Next next,
            void (Links::*then)(const std::shared_ptr<Attempt>&));
  void failed(const std::shared_ptr<Attempt>& attempt, std::string why);
  void drop_attempts();
  void reached();
  void unreached(std::string why);
  bool is_current(const Attempt& attempt) const { return attempt_round(attempt) == round_; }
  static int attempt_round(const Attempt& attempt);

  Shard& shard_;
  Leadership& leadership_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::steady_timer retry_;
  std::shared_ptr<const LeaderView> view_;
  std::shared_ptr<const LeaderView> leader_;  // the last view with a leader
  Instant changed_at_;
  int round_ = 0;  // of the leader: attempts of earlier rounds are dropped
  bool reachable_ = true;
  std::size_t dialing_ = 0;
  std::shared_ptr<Attempt> ping_;
  Instant next_ping_;
  std::vector<std::unique_ptr<Link>> idle_;
  std::deque<std::weak_ptr<Connection>> waiting_;
};

}  // namespace mainspring::http
