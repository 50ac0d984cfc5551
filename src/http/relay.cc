// Moves the bytes of a relayed request and its answer.
#include "http/relay.h"

#include <boost/asio/post.hpp>

#include "cluster/leader.h"
#include "http/connection.h"
#include "http/routes.h"

namespace mainspring::http {
namespace {

constexpr std::size_t kMaxChunkedBytes = std::size_t{1} << 40;  // the leader has the limit
constexpr int kStepsAtOnce = 16;
constexpr std::size_t kStatusBytes = 12;  // "HTTP/1.1 200"
constexpr Duration kStopGrace = std::chrono::milliseconds(500);

bool waits(Transport::Next next) {
  return next == Transport::Next::wait_read || next == Transport::Next::wait_write;
}

// A second execution changes nothing, or what a lost answer to the first one needs anyway.
bool is_repeatable(const Head& head, const Route* route) {
  if (route == nullptr) return false;
  return route->method == "GET" || route->plan == &plan_claim ||
         (route->idempotency_key && !head.idempotency_key.empty());
}

}  // namespace

Relay::Relay(Connection& client, const Head& head, std::string_view& rest)
    : client_(client),
      ticket_(client.ticket_),
      repeatable_(is_repeatable(head, client.route_)),
      kept_(head.text),
      body_left_(head.content_length.value_or(0)) {
  if (head.chunked) chunks_ = std::make_unique<ChunkedReader>(kMaxChunkedBytes);
  body_done_ = !head.chunked && body_left_ == 0;
  take_body(rest);
  kept_ += out_;
}

Relay::~Relay() {
  set_held(false);
}

void Relay::start() {
  link_ = client_.shard_.links()->take();
  link_ == nullptr ? hold() : send();
}

void Relay::set_held(bool held) {
  if (held == held_) return;
  held_ = held;
  Leadership& leadership = *client_.shard_.shared().services.options.leadership;
  if (held) held_bytes_ = kept_.size();
  leadership.held += held ? 1 : -1;
  leadership.held_bytes += held ? held_bytes_ : std::size_t{0} - held_bytes_;
}

void Relay::hold() {
  const Leadership& leadership = *client_.shard_.shared().services.options.leadership;
  if (leadership.held >= kMaxHeld || leadership.held_bytes + kept_.size() > kMaxHeldBytes)
    return refuse();
  set_held(true);
  if (until_ == Instant::never()) until_ = client_.shard_.now() + kHold;
  client_.waited_ = true;
  arm();
  client_.shard_.links()->want(client_.weak_from_this());
}

bool Relay::on_link(std::unique_ptr<Link>& link) {
  if (!held_) return false;
  set_held(false);
  if (link == nullptr) {
    client_.unread(std::move(kept_));
    return true;
  }
  link_ = std::move(link);
  send();
  return true;
}

void Relay::send() {
  const auto view = client_.shard_.shared().services.options.leadership->view();
  const PeerName& peer = client_.peer_;
  out_ = encode_caller({.term = view->term,
                        .local = peer.local,
                        .secure = client_.transport_.tls(),
                        .peer = peer.text,
                        .certificate = peer.certificate});
  out_ += kept_;
  out_at_ = 0;
  if (!client_.in_process_) return pump();
  // The input of the client is in use: nothing of it is read now.
  if (push() != Moved::over) arm();
}

void Relay::pump() {
  for (int i = 0; i < kStepsAtOnce; ++i) {
    const Moved up = push();
    if (up == Moved::over) return;
    const Moved down = link_ == nullptr ? Moved::over : pull();
    if (down == Moved::over) return;
    if (up == Moved::no && down == Moved::no) return arm();
  }
  boost::asio::post(client_.shard_.io(), [self = client_.shared_from_this(), ticket = ticket_] {
    if (Relay* const relay = self->relay_of(ticket)) relay->pump();
  });
}

// -- the request

void Relay::take_body(std::string_view& rest) {
  if (body_done_ || rest.empty()) return;
  const std::string_view before = rest;
  if (chunks_ != nullptr) {
    std::string decoded;
    const Parsed status = chunks_->feed(rest, decoded);
    if (status == Parsed::bad || status == Parsed::too_large) {
      // The leader refuses the body and ends the connection.
      malformed_ = true;
      rest = {};
    }
    body_done_ = status != Parsed::need_more;
  } else {
    const std::size_t part =
        static_cast<std::size_t>(std::min<std::uint64_t>(body_left_, rest.size()));
    rest.remove_prefix(part);
    body_left_ -= part;
    body_done_ = body_left_ == 0;
  }
  out_.append(before.substr(0, before.size() - rest.size()));
}

Relay::Moved Relay::read_body() {
  if (body_done_ || client_.in_process_) return Moved::no;
  const Transport::Step step = client_.transport_.read(client_.shard_.scratch());
  if (waits(step.next)) return Moved::no;
  if (step.next != Transport::Next::done) {
    client_.close();
    return Moved::over;
  }
  out_.clear();
  out_at_ = 0;
  std::string_view data(client_.shard_.scratch().data(), step.bytes);
  take_body(data);
  if (!data.empty()) client_.in_.append(data);  // the next request
  if (keeps_ && kept_.size() + out_.size() <= kMaxKept) {
    kept_ += out_;
  } else {
    keeps_ = false;
    std::string().swap(kept_);
  }
  return Moved::yes;
}

Relay::Moved Relay::push() {
  if (broken_) return Moved::no;
  if (out_at_ == out_.size()) return read_body();
  const Transport::Step step = link_->transport.write(std::string_view(out_).substr(out_at_));
  if (waits(step.next)) return Moved::no;
  if (step.next != Transport::Next::done) {
    // The answer, or an orderly end, may have arrived before.
    broken_ = true;
    return Moved::yes;
  }
  written_ = true;
  out_at_ += step.bytes;
  return Moved::yes;
}

// -- the answer

Relay::Moved Relay::pull() {
  if (in_at_ < in_.size()) {
    const Transport::Step step = client_.transport_.write(std::string_view(in_).substr(in_at_));
    if (waits(step.next)) return Moved::no;
    if (step.next != Transport::Next::done) {
      client_.close();
      return Moved::over;
    }
    sent_ = true;
    in_at_ += step.bytes;
    return Moved::yes;
  }
  in_.clear();
  in_at_ = 0;
  if (ended_) {
    finish();
    return Moved::over;
  }
  const Transport::Step step = link_->transport.read(client_.shard_.scratch());
  if (waits(step.next)) return Moved::no;
  if (step.next != Transport::Next::done) {
    lost(step.next == Transport::Next::closed);
    return Moved::over;
  }
  if (take_frames({client_.shard_.scratch().data(), step.bytes})) return Moved::yes;
  lost(frame_.refused);
  return Moved::over;
}

// Returns false if the node refused, or does not keep to the protocol.
bool Relay::take_frames(std::string_view bytes) {
  while (!bytes.empty()) {
    if (ended_) return false;
    if (frame_left_ == 0) {
      const std::size_t part = std::min(kFrameBytes - frame_head_.size(), bytes.size());
      frame_head_.append(bytes.substr(0, part));
      bytes.remove_prefix(part);
      if (frame_head_.size() < kFrameBytes) return true;
      frame_ = decode_frame(frame_head_);
      frame_head_.clear();
      if (frame_.refused) return false;
      frame_left_ = frame_.bytes;
    }
    const std::string_view part = bytes.substr(0, frame_left_);
    bytes.remove_prefix(part.size());
    frame_left_ -= static_cast<std::uint32_t>(part.size());
    in_ += part;
    answered_ = answered_ || !part.empty();
    ended_ = frame_left_ == 0 && frame_.ends;
  }
  const bool has_status = in_.size() >= kStatusBytes && in_.starts_with("HTTP/1.1 ");
  if (status_ == 0 && has_status && in_[9] != '1')
    status_ = (in_[9] - '0') * 100 + (in_[10] - '0') * 10 + (in_[11] - '0');
  return true;
}

// -- waits

void Relay::arm() {
  client_.arm_read();
  if (link_ == nullptr) return;
  if (out_at_ < out_.size() && !broken_)
    wait(link_->transport, Transport::Next::wait_write, writes_link_);
  if (in_at_ < in_.size()) {
    wait(client_.transport_, Transport::Next::wait_write, writes_client_);
  } else {
    wait(link_->transport, Transport::Next::wait_read, reads_link_);
  }
}

void Relay::wait(Transport& transport, Transport::Next next, bool& armed) {
  if (std::exchange(armed, true)) return;
  const auto what = next == Transport::Next::wait_write ? Socket::wait_write : Socket::wait_read;
  transport.socket().async_wait(
      what, [self = client_.shared_from_this(), ticket = ticket_, link = link_.get(),
             &armed](const boost::system::error_code&) {
        Relay* const relay = self->relay_of(ticket);
        if (relay == nullptr || relay->link_.get() != link) return;
        armed = false;
        relay->pump();
      });
}

void Relay::on_client_readable() {
  if (!body_done_ && link_ != nullptr) {
    if (out_at_ == out_.size()) pump();
    return;  // else arm() waits again once the link has taken its bytes
  }
  if (!body_done_) return;  // it waits for a link
  client_.on_peer_in_busy();
}

void Relay::on_tick(Instant now) {
  if (held_ && now >= until_) return refuse();
  // Parked claims and event streams continue at another node.
  if (client_.shard_.stopping() && repeatable_ && now - client_.started_ > kStopGrace)
    client_.close();
}

// -- ends

void Relay::end() {
  if (link_ != nullptr) lost(false);
}

// `in_order`: the leader has not started the request if it sent no part of an answer.
void Relay::lost(bool in_order) {
  link_.reset();
  const bool not_started = !written_ || (in_order && !answered_);
  const bool again = (not_started || repeatable_) && repeats_ < kMaxRepeats;
  if (sent_ || !again || !keeps_) {
    client_.shard_.shared().services.options.leadership->lost.add();
    return client_.close();
  }
  if (frame_.refused) {
    client_.shard_.links()->refused();
  } else {
    ++repeats_;
    until_ = Instant::never();
  }
  frame_ = {};
  in_.clear();
  in_at_ = 0;
  frame_head_.clear();
  frame_left_ = 0;
  status_ = 0;
  broken_ = written_ = answered_ = ended_ = false;
  reads_link_ = writes_link_ = writes_client_ = false;
  out_.clear();
  out_at_ = 0;
  hold();
}

void Relay::finish() {
  Shard& shard = client_.shard_;
  shard.shared().services.options.leadership->answered.add();
  shard.count(client_.route_, status_, shard.now() - client_.started_, client_.waited_, nullptr);
  const bool whole = body_done_ && !malformed_ && !broken_;
  if (frame_.closes_client || !whole || shard.stopping()) client_.keep_alive_ = false;
  if (whole && !frame_.closes_link) shard.links()->give(std::move(link_));
  client_.after_relay();  // destroys this
}

void Relay::refuse() {
  set_held(false);
  client_.shard_.shared().services.options.leadership->refused.add();
  if (!body_done_) client_.keep_alive_ = false;
  client_.refuse_relay();  // destroys this
}

}  // namespace mainspring::http
