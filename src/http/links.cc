// Dials links to the leader and checks that it answers.
#include "http/links.h"

#include <charconv>

#include "cluster/link.h"
#include "http/connection.h"
#include "http/shard.h"

namespace mainspring::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr std::size_t kMaxDialing = 64;
constexpr std::size_t kMaxIdle = 256;
constexpr auto kRetry = std::chrono::milliseconds(50);
constexpr const char* kDoesNotLead = "the node does not lead (yet)";

}  // namespace

struct Links::Attempt {
  int round = 0;
  bool ping = false;
  Instant since;
  std::unique_ptr<Socket> socket;  // while it connects
  std::unique_ptr<Link> link;
  std::string out;  // the ping, as far as it is not sent
};

int Links::attempt_round(const Attempt& attempt) {
  return attempt.round;
}

Links::Links(Shard& shard, Leadership& leadership)
    : shard_(shard),
      leadership_(leadership),
      resolver_(shard.io()),
      retry_(shard.io()),
      view_(leadership.view()),
      leader_(view_->node == 0 ? nullptr : view_) {}

// A link that the leader has closed is dropped here, before a request is written to it.
std::unique_ptr<Link> Links::take() {
  while (!idle_.empty()) {
    auto link = std::move(idle_.back());
    idle_.pop_back();
    if (link->transport.peek().next == Transport::Next::wait_read) return link;
  }
  return nullptr;
}

void Links::want(std::weak_ptr<Connection> connection) {
  waiting_.push_back(std::move(connection));
  dial_for_waiting();
}

bool Links::serve(std::unique_ptr<Link>& link) {
  while (!waiting_.empty()) {
    const auto connection = waiting_.front().lock();
    waiting_.pop_front();
    if (connection != nullptr && connection->on_link(link)) return true;
  }
  return false;
}

void Links::give(std::unique_ptr<Link> link) {
  if (!serve(link) && idle_.size() < kMaxIdle) idle_.push_back(std::move(link));
}

void Links::dial_for_waiting() {
  if (!reachable_ || view_->node == 0 || view_->is_me) return;
  while (dialing_ < std::min(waiting_.size(), kMaxDialing)) dial(false);
}

void Links::dial(bool ping) {
  auto attempt = std::make_shared<Attempt>();
  attempt->round = round_;
  attempt->ping = ping;
  attempt->since = shard_.now();
  if (ping)
    ping_ = attempt;
  else
    ++dialing_;
  const std::string& address = view_->address;
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  std::uint16_t port = 0;
  if (colon != std::string::npos)
    std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
  ErrorCode not_an_address;
  const auto numeric = asio::ip::make_address(host, not_an_address);
  if (!not_an_address) return connect(attempt, {numeric, port});
  resolver_.async_resolve(host, std::to_string(port),
                          [this, attempt](const ErrorCode& problem, const auto& ends) {
                            if (!is_current(*attempt)) return;
                            problem ? failed(attempt, problem.message()) : resolved(attempt, ends);
                          });
}

void Links::resolved(const std::shared_ptr<Attempt>& attempt,
                     const tcp::resolver::results_type& ends) {
  ends.empty() ? failed(attempt, "the name has no address")
               : connect(attempt, ends.begin()->endpoint());
}

void Links::connect(const std::shared_ptr<Attempt>& attempt, const tcp::endpoint& end) {
  attempt->socket = std::make_unique<Socket>(shard_.io());
  attempt->socket->async_connect(
      asio::generic::stream_protocol::endpoint(end), [this, attempt](const ErrorCode& problem) {
        if (!is_current(*attempt)) return;
        if (problem) return failed(attempt, problem.message());
        const auto& keys = *shard_.shared().services.options.links;
        // Before TLS, and small: an empty send buffer takes it whole.
        ErrorCode not_sent;
        asio::write(*attempt->socket, asio::buffer(kLinkGreeting), not_sent);
        if (not_sent) return failed(attempt, not_sent.message());
        attempt->link = std::make_unique<Link>(std::move(*attempt->socket), keys.dialing());
        shake(attempt);
      });
}

void Links::wait(const std::shared_ptr<Attempt>& attempt, Transport::Next next,
                 void (Links::*then)(const std::shared_ptr<Attempt>&)) {
  const auto what = next == Transport::Next::wait_write ? Socket::wait_write : Socket::wait_read;
  attempt->link->transport.socket().async_wait(
      what, [this, attempt, then](const ErrorCode& problem) {
        if (!is_current(*attempt)) return;
        problem ? failed(attempt, problem.message()) : (this->*then)(attempt);
      });
}

void Links::shake(const std::shared_ptr<Attempt>& attempt) {
  const Transport::Next next = attempt->link->transport.handshake().next;
  if (next == Transport::Next::done) return connected(attempt);
  if (next != Transport::Next::wait_read && next != Transport::Next::wait_write)
    return failed(attempt, "it is not a node of this cluster, or has another key");
  wait(attempt, next, &Links::shake);
}

void Links::connected(const std::shared_ptr<Attempt>& attempt) {
  if (attempt->ping) {
    attempt->out = encode_caller({.term = view_->term, .ping = true});
    return send_ping(attempt);
  }
  --dialing_;
  give(std::move(attempt->link));
}

void Links::send_ping(const std::shared_ptr<Attempt>& attempt) {
  while (!attempt->out.empty()) {
    const Transport::Step step = attempt->link->transport.write(attempt->out);
    if (step.next == Transport::Next::wait_read || step.next == Transport::Next::wait_write)
      return wait(attempt, step.next, &Links::send_ping);
    if (step.next != Transport::Next::done) return failed(attempt, "the connection broke");
    attempt->out.erase(0, step.bytes);
  }
  hear_pong(attempt);
}

void Links::hear_pong(const std::shared_ptr<Attempt>& attempt) {
  std::array<char, kFrameBytes> in;
  const Transport::Step step = attempt->link->transport.read(in);
  if (step.next == Transport::Next::wait_read || step.next == Transport::Next::wait_write)
    return wait(attempt, step.next, &Links::hear_pong);
  // A frame is one TLS record.
  if (step.next != Transport::Next::done || step.bytes != in.size())
    return failed(attempt, "the connection broke");
  if (decode_frame({in.data(), in.size()}).refused) return failed(attempt, kDoesNotLead);
  ping_.reset();
  next_ping_ = shard_.now() + kPingInterval;
  reached();
  give(std::move(attempt->link));
}

void Links::failed(const std::shared_ptr<Attempt>& attempt, std::string why) {
  if (attempt->ping)
    ping_.reset();
  else
    --dialing_;
  attempt->socket.reset();
  attempt->link.reset();
  unreached(std::move(why));
}

void Links::refused() {
  unreached(kDoesNotLead);
}

void Links::reached() {
  leadership_.note_reach("");
  reachable_ = true;
  dial_for_waiting();
}

void Links::unreached(std::string why) {
  leadership_.note_reach(std::move(why));
  reachable_ = false;
  retry_.expires_after(kRetry);
  retry_.async_wait([this, round = round_](const ErrorCode& cancelled) {
    if (!cancelled && round == round_ && ping_ == nullptr) dial(true);
  });
}

void Links::on_tick(Instant now) {
  // A leader that stops waits until its links are closed.
  std::erase_if(idle_, [](const auto& link) {
    return link->transport.peek().next != Transport::Next::wait_read;
  });
  if (view_->is_me) return;
  if (view_->node == 0) {
    // The old leader may still answer what it has, but not forever.
    if (leader_ != nullptr && now - changed_at_ > kPatience) {
      leader_.reset();
      idle_.clear();
      shard_.end_relays();
    }
    return;
  }
  if (ping_ != nullptr) {
    if (now - ping_->since < kPatience) return;
    drop_attempts();
    idle_.clear();
    unreached("it has not answered for 5 s");
    return shard_.end_relays();
  }
  if (!reachable_ || now < next_ping_) return;
  auto link = take();
  if (link == nullptr) return dial(true);
  const auto attempt = std::make_shared<Attempt>();
  attempt->round = round_;
  attempt->ping = true;
  attempt->since = now;
  attempt->link = std::move(link);
  ping_ = attempt;
  connected(attempt);  // not ping_, which the answer resets
}

void Links::drop_attempts() {
  ++round_;
  if (ping_ != nullptr) ping_->socket.reset();  // else it tries to connect for minutes
  ping_.reset();
  dialing_ = 0;
}

void Links::leader_changed() {
  const bool led = view_->is_me;
  view_ = leadership_.view();
  changed_at_ = shard_.now();
  drop_attempts();
  reachable_ = true;
  next_ping_ = Instant();
  if (led && !view_->is_me) shard_.end_waits();
  if (view_->node == 0) return;
  const auto before = std::exchange(leader_, view_);
  if (before != nullptr && (before->node != view_->node || before->address != view_->address)) {
    idle_.clear();
    shard_.end_relays();
  }
  std::unique_ptr<Link> none;
  while (view_->is_me && !waiting_.empty()) serve(none);
  on_tick(shard_.now());
  dial_for_waiting();
}

}  // namespace mainspring::http
