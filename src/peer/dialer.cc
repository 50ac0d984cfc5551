// Connects to one peer, proves the key, sends notifications, and reconnects when the connection
// ends.
#include "peer/dialer.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "base/mutant.h"

namespace mainspring::notifier {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

}  // namespace

Dialer::Dialer(asio::io_context& io, Core& core, PeerNotifier::Peer peer)
    : core_(core),
      peer_(std::move(peer)),
      resolver_(io),
      socket_(io),
      deadline_(io),
      retry_(io),
      gap_(io),
      pause_(core.options.retry_from) {}

template <class Next>
auto Dialer::then(Next next) {
  return [self = shared_from_this(), round = round_, next](const Error& error, auto&&...) {
    if (self->closed_ || round != self->round_) return;
    if (error) return self->failed(error.message());
    (self.get()->*next)();
  };
}

void Dialer::expect_answer() {
  deadline_.expires_after(core_.options.patience);
  deadline_.async_wait([self = shared_from_this(), round = round_](const Error& error) {
    if (error || self->closed_ || round != self->round_) return;
    self->failed("no answer in time");
  });
}

void Dialer::dial() {
  ++round_;
  expect_answer();
  const auto to = parse_host_port("address", peer_.address);
  if (!to) return failed(to.error().message);
  resolver_.async_resolve(to->host, fmt::to_string(to->port),
                          [self = shared_from_this(), round = round_](
                              const Error& error, const tcp::resolver::results_type& ends) {
                            if (self->closed_ || round != self->round_) return;
                            if (error) return self->failed(error.message());
                            self->connect(ends);
                          });
}

void Dialer::connect(const tcp::resolver::results_type& ends) {
  asio::async_connect(socket_, ends, then(&Dialer::hear_hello));
}

void Dialer::hear_hello() {
  set_socket_options(socket_);
  asio::async_read(socket_, asio::buffer(in_.data(), kHelloBytes), then(&Dialer::answer_hello));
}

void Dialer::answer_hello() {
  const std::string_view hello(in_.data(), kHelloBytes);
  if (!hello.starts_with(kGreeting)) return failed("it is not a peer notifier");
  talk_ = {.acceptor_nonce = std::string(hello.substr(kGreeting.size())),
           .dialer_nonce = core_.nonce(),
           .acceptor = peer_.node,
           .dialer = core_.options.node};
  out_.clear();
  put_u64(out_, static_cast<std::uint64_t>(talk_.dialer));
  out_ += talk_.dialer_nonce;
  out_ += bytes_of(proof(core_.key, Role::dials, talk_));
  asio::async_write(socket_, asio::buffer(out_), then(&Dialer::hear_proof));
}

void Dialer::hear_proof() {
  asio::async_read(socket_, asio::buffer(in_.data(), kMacBytes), then(&Dialer::now_ready));
}

void Dialer::now_ready() {
  const Digest wanted = proof(core_.key, Role::accepts, talk_);
  if (!equal_in_constant_time(wanted, digest_of({in_.data(), kMacBytes}))) {
    return failed("it does not know the key, or is another node");
  }
  session_ = proof(core_.key, Role::session, talk_);
  deadline_.cancel();
  number_ = 0;
  pause_ = core_.options.retry_from;
  ready_ = true;
  ++core_.ready;
  if (std::exchange(complained_, false)) {
    core_.log.info("the notifier reaches a node again", {{"node", fmt::to_string(peer_.node)}});
  }
  hear_acks();
  go_on();
}

// A read is always pending, so that the end of an idle connection is detected.
void Dialer::hear_acks() {
  asio::async_read(socket_, asio::buffer(in_.data(), kAckBytes),
                   [self = shared_from_this(), round = round_](const Error& error, std::size_t) {
                     if (self->closed_ || round != self->round_) return;
                     if (error) return self->failed(error.message());
                     const std::string_view ack(self->in_.data(), kAckBytes);
                     const Digest wanted = ack_mac(self->session_, self->number_);
                     if (!self->unheard_ || get_u64(ack) != self->number_ ||
                         !equal_in_constant_time(wanted, digest_of(ack.substr(8)))) {
                       return self->failed("it acknowledged a notification that was not sent");
                     }
                     self->deadline_.cancel();
                     self->unheard_ = false;
                     self->in_flight_ = {};
                     self->core_.rung_total.add();
                     self->hear_acks();
                     self->go_on();
                   });
}

void Dialer::add(const ChangeHints& what) {
  waiting_.add(what);
  flush();
}

void Dialer::ask(PeerRelay::Ask what) {
  asks_ = std::max(asks_, what);
  flush();
}

// Sends what was added while the connection was busy.
void Dialer::go_on() {
  if (!closed_) core_.freed();
  flush();
}

bool Dialer::has_relay() const {
  return core_.relay != nullptr && core_.relay->has(peer_.node);
}

void Dialer::flush() {
  if (closed_ || !ready_ || unheard_ || gap_armed_ || !has_something()) return;
  const Instant now = core_.clock.now().instant;
  const Duration left = last_sent_ + core_.options.least_gap - now;
  if (left <= Duration(0) || MS_MUTANT(peer_not_coalesced)) return send();
  gap_armed_ = true;
  gap_.expires_after(left);
  gap_.async_wait([self = shared_from_this()](const Error&) {
    self->gap_armed_ = false;
    self->go_on();
  });
}

// Notifications and relayed bytes alternate.
std::string Dialer::next_frame() {
  // Asks the relay until it has nothing: then the relay calls back when it has more. The bytes
  // taken may be empty for this peer.
  while ((!has_words() || !relayed_) && has_relay()) {
    const std::string bytes = core_.relay->take(peer_.node, kMaxRelayed);
    if (bytes.empty() && !MS_MUTANT(relay_not_asked_again)) continue;
    if (bytes.empty()) break;
    relayed_ = true;
    return encode_relayed(session_, ++number_, bytes);
  }
  relayed_ = false;
  if (!has_words()) return {};
  in_flight_ = {.what = waiting_.take(), .ask = std::exchange(asks_, PeerRelay::Ask::nothing)};
  if (core_.relay != nullptr && core_.relay->serves(peer_.node))
    in_flight_.what.ended_reported = std::exchange(in_flight_.what.ended, {});
  return encode_frame(session_, ++number_, in_flight_.what, in_flight_.ask);
}

void Dialer::send() {
  last_sent_ = core_.clock.now().instant;
  out_ = next_frame();
  if (out_.empty()) return;
  unheard_ = true;
  expect_answer();
  write(out_);
}

void Dialer::write(const std::string& frames) {
  asio::async_write(socket_, asio::buffer(frames),
                    [self = shared_from_this(), round = round_](const Error& error, std::size_t) {
                      if (self->closed_ || round != self->round_) return;
                      if (error) self->failed(error.message());
                    });
}

void Dialer::end_round() {
  ++round_;
  if (std::exchange(ready_, false)) --core_.ready;
  Error ignored;
  resolver_.cancel();
  socket_.close(ignored);
  deadline_.cancel();
}

void Dialer::failed(std::string_view why) {
  end_round();
  if (std::exchange(unheard_, false)) {
    if (relayed_) {
      core_.relay->lost(peer_.node);
    } else {
      // The next attempt shows whether the peer is reachable.
      Unsent again = std::exchange(in_flight_, {});
      ChangeHints& what = again.what;
      what.ended.insert(what.ended.end(), what.ended_reported.begin(), what.ended_reported.end());
      what.ended_reported.clear();
      waiting_.add(what);
      asks_ = std::max(asks_, again.ask);
    }
  }
  if (!std::exchange(complained_, true)) {
    core_.log.info("the notifier does not reach a node", {{"node", fmt::to_string(peer_.node)},
                                                          {"address", peer_.address},
                                                          {"why", std::string(why)}});
  }
  const auto spread = static_cast<std::int64_t>(core_.random.below(1000));
  retry_.expires_after(pause_ * 4 / 5 + pause_ * 2 / 5 * spread / 1000);
  pause_ = std::min(2 * pause_, core_.options.retry_to);
  retry_.async_wait([self = shared_from_this(), round = round_](const Error& error) {
    if (!error && !self->closed_ && round == self->round_) self->dial();
  });
}

void Dialer::close() {
  if (closed_) return;
  // The last frame of a node that stops, for example with what it released. It does not wait for an
  // acknowledgement. Notifications go first: one long frame may fill the socket's buffer.
  relayed_ = true;
  while (ready_ && has_something()) {
    const std::string frame = next_frame();
    if (frame.empty()) break;
    last_words_ += frame;
  }
  if (!last_words_.empty()) write(last_words_);
  closed_ = true;
  end_round();
  retry_.cancel();
  gap_.cancel();
}

}  // namespace mainspring::notifier
