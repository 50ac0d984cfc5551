// Greets, checks the proof, and receives frames one by one.
#include "peer/inbound.h"

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "base/mutant.h"

namespace mainspring::notifier {
namespace {

namespace asio = boost::asio;

}  // namespace

Inbound::Inbound(asio::ip::tcp::socket socket, Core& core, std::function<void(Inbound&)> changed)
    : core_(core),
      changed_(std::move(changed)),
      socket_(std::move(socket)),
      deadline_(socket_.get_executor()),
      address_(address_of(socket_)),
      tokens_(core.options.max_rate),
      filled_(core.clock.now().instant) {}

template <class Next>
auto Inbound::then(Next next) {
  return [self = shared_from_this(), next](const Error& error, std::size_t) {
    if (self->closed_) return;
    if (error) return self->close();
    (self.get()->*next)();
  };
}

void Inbound::start() {
  set_socket_options(socket_);
  talk_.acceptor_nonce = core_.nonce();
  talk_.acceptor = core_.options.node;
  out_ = std::string(kGreeting) + talk_.acceptor_nonce;
  deadline_.expires_after(core_.options.patience);
  deadline_.async_wait([self = shared_from_this()](const Error& error) {
    if (!error && !self->known_) self->drop("late");
  });
  asio::async_write(socket_, asio::buffer(out_), then(&Inbound::hear_answer));
}

void Inbound::hear_answer() {
  in_.resize(kAnswerBytes);
  asio::async_read(socket_, asio::buffer(in_), then(&Inbound::check_answer));
}

void Inbound::check_answer() {
  const std::string_view answer = in_;
  talk_.dialer = static_cast<std::int64_t>(get_u64(answer));
  talk_.dialer_nonce = answer.substr(8, kNonceBytes);
  const Digest wanted = proof(core_.key, Role::dials, talk_);
  if (!equal_in_constant_time(wanted, digest_of(answer.substr(8 + kNonceBytes))) &&
      !MS_MUTANT(peer_takes_any_key)) {
    return drop("stranger");
  }
  session_ = proof(core_.key, Role::session, talk_);
  known_ = true;
  deadline_.cancel();
  changed_(*this);
  out_ = bytes_of(proof(core_.key, Role::accepts, talk_));
  asio::async_write(socket_, asio::buffer(out_), then(&Inbound::hear_length));
}

void Inbound::hear_length() {
  in_.resize(kLengthBytes);
  asio::async_read(socket_, asio::buffer(in_), then(&Inbound::hear_body));
}

void Inbound::hear_body() {
  const std::uint32_t length = get_u32(in_);
  if (length > kMaxBody) return drop("oversized");
  if (too_fast()) return drop("flood");
  in_.resize(length + kMacBytes);
  asio::async_read(socket_, asio::buffer(in_), then(&Inbound::check_frame));
}

void Inbound::check_frame() {
  const std::string_view body = std::string_view(in_).substr(0, in_.size() - kMacBytes);
  const Digest wanted = frame_mac(session_, ++number_, body);
  if (!equal_in_constant_time(wanted, digest_of(std::string_view(in_).substr(body.size()))) &&
      !MS_MUTANT(peer_believes_forgeries)) {
    return drop("forged");
  }
  if (!take(body)) return drop("malformed");
  core_.received_total.add();
  if (!may_rest(body)) return answer();
  rests_ = true;
  deadline_.expires_after(core_.options.ack_delay);
  deadline_.async_wait([self = shared_from_this()](const Error& error) {
    if (!error) self->answer_now();
  });
}

// Acknowledge relayed bytes at once: a subscriber waits for them, and more may follow.
bool Inbound::may_rest(std::string_view body) {
  if (!core_.waits || is_relayed(body) || core_.options.ack_delay == Duration(0)) return false;
  core_.resting = true;
  return !core_.waits() && !MS_MUTANT(peer_never_delays_ack);
}

void Inbound::answer_now() {
  if (closed_ || !std::exchange(rests_, false)) return;
  deadline_.cancel();
  answer();
}

void Inbound::answer() {
  out_ = encode_ack(session_, number_);
  // A peer that stops closes after its last frame: its frames are read although no acknowledgement
  // reaches it.
  asio::async_write(socket_, asio::buffer(out_),
                    [self = shared_from_this()](const Error&, std::size_t) {
                      if (!self->closed_) self->hear_length();
                    });
}

bool Inbound::take(std::string_view body) {
  if (is_relayed(body)) {
    const auto bytes = decode_relayed(session_, number_, body);
    if (bytes && core_.relay != nullptr) core_.relay->heard(talk_.dialer, *bytes);
    return bytes.has_value();
  }
  const auto notified = decode_body(body);
  if (!notified) return false;
  if (notified->ask != PeerRelay::Ask::nothing && core_.relay != nullptr)
    core_.relay->asked(talk_.dialer, notified->ask);
  if (!notified->what.empty()) core_.heard(notified->what);
  return true;
}

bool Inbound::too_fast() {
  const Instant now = core_.clock.now().instant;
  const double rate = core_.options.max_rate;
  tokens_ = std::min(rate, tokens_ + rate * static_cast<double>((now - filled_).count()) / 1e6);
  filled_ = now;
  if (tokens_ < 1) return true;
  tokens_ -= 1;
  return false;
}

void Inbound::drop(std::string_view why) {
  if (closed_) return;
  core_.dropped(why, address_);
  close();
}

void Inbound::close() {
  if (std::exchange(closed_, true)) return;
  Error ignored;
  socket_.close(ignored);
  deadline_.cancel();
  changed_(*this);
}

}  // namespace mainspring::notifier
