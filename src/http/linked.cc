// Connections of a cluster: both ends of links, and the handover between relayed and own requests.
#include "base/assert.h"
#include "broker/broker.h"
#include "cluster/leader.h"
#include "cluster/link.h"
#include "http/connection.h"
#include "http/relay.h"

namespace mainspring::http {
namespace {

// A follower answers what concerns only this process.
bool is_of_node(const Route* route) {
  if (route == nullptr) return false;
  for (const auto plan : {&plan_livez, &plan_readyz, &plan_healthz, &plan_metrics, &plan_openapi,
                          &plan_dashboard, &plan_dashboard_moved}) {
    if (route->plan == plan) return true;
  }
  return false;
}

}  // namespace

void Connection::become_idle() {
  state_ = State::idle;
  caller_known_ = false;
  // A link stays open without requests; pings show whether its other end is there.
  deadline_ = Instant::never();
  if (!is_link_) set_deadline(shard_.shared().services.options.idle_timeout);
}

bool Connection::continues() const {
  return is_link_ ? read_whole_ && !shard_.stopping() : keep_alive_;
}

// On a link the caller line names the peer.
void Connection::name_peer() {
  if (is_link_ || !peer_.text.empty()) return;
  peer_ = {transport_.peer(), transport_.local(), transport_.certificate_name()};
  secure_ = transport_.tls();
}

// Checks what depends on the address that the client used.
Result<void> Connection::check_site(const Head& head) const {
  if (is_link_) return {};  // the other node has checked it
  if (head.has_host) MS_TRY(check_host(head.host));
  MS_TRY(check_origin(head));
  const std::size_t scheme = head.target.find("://");
  if (scheme == 4 || scheme == 5) {  // http, https: a whole URL
    const std::string_view rest = std::string_view(head.target).substr(scheme + 3);
    MS_TRY(check_host(rest.substr(0, rest.find('/'))));
  }
  return {};
}

// -- at the leader

// The other end has proved the key. A node has many links from one address.
void Connection::link_opened() {
  if (std::exchange(counted_, false)) shard_.shared().addresses.leave(transport_.peer());
}

// Returns false if more bytes are needed.
bool Connection::hear_greeting() {
  const std::optional<bool> is_link = transport_.takes_greeting(kLinkGreeting);
  if (!is_link) {
    arm_read();
    return false;
  }
  greets_ = false;
  if (!*is_link) return true;
  is_link_ = true;
  transport_.begin_tls(shard_.shared().services.options.links->accepting());
  state_ = State::handshake;
  set_deadline(shard_.shared().services.options.header_timeout);
  return true;
}

// Returns whether the caller of the next request is known. Answers pings.
bool Connection::read_caller(std::string_view& window) {
  while (!caller_known_) {
    const std::size_t end = window.substr(0, kMaxCallerLine).find('\n');
    if (end == std::string_view::npos) {
      if (window.size() >= kMaxCallerLine) close();
      return false;
    }
    auto line = decode_caller(window.substr(0, end));
    window.remove_prefix(end + 1);
    if (!line) {
      close();
      return false;
    }
    const auto view = shard_.shared().services.options.leadership->view();
    const bool refused = !view->is_me || view->term != line->term;
    if (refused || line->ping) {
      const std::string frame = encode_frame({.ends = true, .refused = refused});
      if (transport_.write(frame).bytes != frame.size() || refused) {
        close();
        return false;
      }
      continue;
    }
    caller_known_ = true;
    secure_ = line->secure;
    if (peer_.text != line->peer || peer_.local != line->local ||
        peer_.certificate != line->certificate) {
      peer_ = {std::move(line->peer), line->local, std::move(line->certificate)};
      pass_ = {};
    }
  }
  return !window.empty();
}

std::string Connection::frame_of(std::size_t bytes) const {
  const bool ends = stream_ == nullptr || stream_->ended;
  return encode_frame({.bytes = static_cast<std::uint32_t>(bytes),
                       .ends = ends,
                       .closes_client = ends && !keep_alive_,
                       .closes_link = ends && !continues()});
}

void Connection::end_local_wait() {
  if (is_link_ ? state_ == State::idle : relay_ != nullptr) return;
  if (stream_ != nullptr) return end_stream_early();
  if (park_id_ != 0 || (wait_ != nullptr && wait_->id != 0)) close();
}

// -- at a follower

bool Connection::is_relayed() const {
  const Leadership* const leadership = shard_.shared().services.options.leadership;
  return leadership != nullptr && !is_link_ && !is_of_node(route_) && !leadership->view()->is_me;
}

void Connection::begin_relay(const Head& head, std::string_view& rest) {
  state_ = State::busy;
  deadline_ = Instant::never();
  relay_ = std::make_unique<Relay>(*this, head, rest);
  relay_->start();
}

Relay* Connection::relay_of(Ticket ticket) {
  return ticket == ticket_ ? relay_.get() : nullptr;
}

bool Connection::on_link(std::unique_ptr<Link>& link) {
  return relay_ != nullptr && relay_->on_link(link);
}

void Connection::end_relay() {
  if (relay_ != nullptr) relay_->end();
}

void Connection::after_relay() {
  relay_.reset();
  ticket_ = shard_.new_ticket(slot_);
  after_write();
}

void Connection::refuse_relay() {
  relay_.reset();
  reply(error_reply({.code = ErrorCode::unavailable,
                     .message = "the leader of the cluster does not answer this node; try again",
                     .retry_after_ms = 1000}));
}

// This node leads now: the request is read again, and answered here.
void Connection::unread(std::string request) {
  relay_.reset();
  in_.insert(0, request);
  become_idle();
  process(in_, true);
}

}  // namespace mainspring::http
