// Input and output of a connection: heads, bodies, limits, replies.
#include "http/connection.h"

#include <fmt/format.h>

#include <array>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <charconv>

#include "api/json.h"
#include "base/mutant.h"
#include "base/secret.h"
#include "broker/broker.h"
#include "cluster/link.h"
#include "http/relay.h"

namespace mainspring::http {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using namespace std::chrono_literals;

// After the last reply the peer may still send. Closing at once could destroy the reply in transit.
constexpr Duration kDrainTime = 2s;
constexpr Duration kDrainTimeAtStop = 300ms;
constexpr auto kProgressWindow = 10s;
constexpr std::size_t kBlankBytes = 64;  // of a body that counts as empty

std::string_view reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 413:
      return "Content Too Large";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    case 507:
      return "Insufficient Storage";
    default:
      return status >= 500 ? "Internal Server Error" : status >= 400 ? "Error" : "Other";
  }
}

bool is_blank_object(std::string_view body) {
  std::string packed;
  for (const char c : body.substr(0, kBlankBytes)) {
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') packed += c;
  }
  return body.size() <= kBlankBytes && (packed.empty() || packed == "{}");
}

// JSON, or the default type of `curl -d`. A page of another site could send the latter without a
// preflight; check_origin() refuses such a page by its Origin.
bool is_json_type(std::string_view type) {
  const std::string_view media = type.substr(0, type.find(';'));
  const std::size_t end = media.find_last_not_of(" \t");
  if (end == std::string_view::npos) return false;
  const std::string_view name = media.substr(0, end + 1);
  return iequals(name, kJson) || iequals(name, "application/x-www-form-urlencoded");
}

// A route that checks the secret itself never gets the secret of a browser's session.
bool takes_secret(const Route& route, const Head& head) {
  return route.keeps_token || (route.own_secret && !head.by_cookie);
}

Error too_many_bodies() {
  return {.code = ErrorCode::overloaded,
          .message = "too many bytes of bodies are arriving already",
          .retry_after_ms = 1000};
}

// "name:80" is "name", "[::1]:80" is "::1".
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    return end == std::string_view::npos ? host : host.substr(1, end - 1);
  }
  return host.substr(0, host.find(':'));
}

// 0 = none is given.
std::uint16_t port_of(std::string_view host) {
  std::uint16_t port = 0;
  const std::size_t colon = host.rfind(':');
  if (colon == std::string_view::npos || host.ends_with(']')) return 0;
  std::from_chars(host.data() + colon + 1, host.data() + host.size(), port);
  return port;
}

bool is_loopback_name(std::string_view name) {
  error_code not_an_address;
  const auto address = asio::ip::make_address(std::string(name), not_an_address);
  return not_an_address ? iequals(name, "localhost") : address.is_loopback();
}

}  // namespace

Connection::Connection(Shard& shard, Socket socket, std::shared_ptr<SSL_CTX> tls,
                       std::uint32_t slot)
    : shard_(shard), transport_(std::move(socket), std::move(tls)), slot_(slot) {}

Connection::~Connection() = default;

void turn_away(Socket& socket) {
  static constexpr std::string_view kRefusal =
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
      "Content-Length: 76\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
      R"({"error":{"code":"unavailable","message":"there are too many connections"}})"
      "\n";
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(kRefusal), ignored);
}

void Connection::start() {
  Shared& shared = shard_.shared();
  counted_ = !transport_.local() && shared.addresses.enter(transport_.peer());
  if (!counted_ && !transport_.local()) {
    shared.refused.add();
    if (!transport_.tls()) turn_away(transport_.socket());
    return close();
  }
  greets_ = shared.services.options.links != nullptr;
  if (transport_.tls()) {
    set_deadline(shard_.shared().services.options.header_timeout);
  } else {
    become_idle();
  }
  arm_read();
}

void Connection::shake_hands() {
  switch (transport_.handshake().next) {
    case Transport::Next::done:
      if (is_link_) link_opened();
      become_idle();
      return arm_read();
    case Transport::Next::wait_read:
      return arm_read();
    case Transport::Next::wait_write:
      return wait_to_write(Transport::Next::wait_write);
    case Transport::Next::plain:
      return refuse_plain();
    case Transport::Next::broken:
      shard_.shared().certificate_refused(transport_.peer(), transport_.refusal());
      return drain();  // the alert has the reason; a close with unread input would destroy it
    default:
      return close();
  }
}

// Sends the last reply on a connection that should have used TLS.
void Connection::refuse_plain() {
  keep_alive_ = false;
  started_ = shard_.now();
  Reply last{.status = 400, .content_type = "text/plain"};
  last.body = "This server speaks HTTPS here: use https:// and try again.\n";
  reply(std::move(last));
}

void Connection::close() {
  if (state_ == State::closed) return;
  // In other states the peer may miss the end of a message, and must not take it for complete.
  const bool in_order = state_ == State::idle;
  state_ = State::closed;
  relay_.reset();
  if (wait_ != nullptr) end_wait();
  if (stream_ != nullptr) drop_stream();
  if (park_id_ != 0) {
    if (!claim_worker_.empty()) shard_.note_abandoned(ticket_, std::move(claim_worker_));
    if (!MS_MUTANT(gone_caller_waits_on)) shard_.shared().services.broker.abandon(park_id_);
    park_id_ = 0;
  }
  free_body();
  std::string().swap(out_);
  out_room_.reset();
  if (in_order) transport_.finish();
  transport_.close();
  if (counted_) shard_.shared().addresses.leave(transport_.peer());
  shard_.remove(slot_);
}

void Connection::begin_stop() {
  // A request may be on its way: the other node must see that it was not started.
  if (state_ == State::idle && is_link_) return drain();
  if (state_ == State::idle || state_ == State::handshake) return close();
  if (stream_ != nullptr) return end_stream_early();
  if (wait_ != nullptr && wait_->id != 0) {
    wait_->last = true;
    if (!wait_->reading) read_waited_job();
  }
}

void Connection::on_tick(Instant now) {
  if (relay_ != nullptr) return relay_->on_tick(now);
  if (state_ == State::busy && !welcome()) end_unwelcome();
  if (stream_ != nullptr) retry_stream();
  if (state_ == State::writing) note_read_by_peer();
  if (now < deadline_ || state_ == State::closed) return;
  if (state_ == State::head || state_ == State::body) {
    return refuse_early({ErrorCode::request_timeout, "the request did not arrive in time"});
  }
  close();
}

// -- input

void Connection::arm_read() {
  if (armed_ || state_ == State::closed) return;
  armed_ = true;
  if (state_ == State::head || state_ == State::body) transport_.acknowledge();
  auto on_ready = [self = shared_from_this()](const error_code& problem) {
    self->armed_ = false;
    if (self->state_ == State::closed) return;
    problem ? self->close() : self->on_readable();
  };
  // Data that TLS has buffered does not make the socket readable.
  if (transport_.pending() && state_ != State::draining) {
    asio::post(shard_.io(), [on_ready = std::move(on_ready)] { on_ready(error_code()); });
  } else {
    transport_.socket().async_wait(Socket::wait_read, std::move(on_ready));
  }
}

void Connection::on_readable() {
  if (greets_ && !hear_greeting()) return;
  switch (state_) {
    case State::handshake:
      return shake_hands();
    case State::busy:
      return relay_ != nullptr ? relay_->on_client_readable() : on_peer_in_busy();
    case State::draining:
      return discard_input();
    case State::writing:
    case State::closed:
      return;  // the end of the write arms the read again
    default:
      break;
  }
  std::string_view data;
  if (!receive(data)) return;
  if (state_ == State::body) {
    feed_body(data);
    if (state_ == State::closed) return;
    // Data after the body belongs to the next request.
    if (!data.empty()) in_.append(data);
    if (state_ == State::idle && !in_.empty()) return process(in_, true);
  } else if (in_.empty()) {
    return process(data, false);
  } else {
    in_.append(data);
    return process(in_, true);
  }
  if (state_ == State::idle || state_ == State::head || state_ == State::body) arm_read();
}

bool Connection::receive(std::string_view& data) {
  auto& scratch = shard_.scratch();
  const Transport::Step step = transport_.read(scratch);
  switch (step.next) {
    case Transport::Next::done:
      data = std::string_view(scratch.data(), step.bytes);
      return true;
    case Transport::Next::wait_read:
      arm_read();
      return false;
    case Transport::Next::wait_write:
      wait_to_read();
      return false;
    default:
      close();
      return false;
  }
}

// TLS has to write before it can continue to read.
void Connection::wait_to_read() {
  if (armed_) return;
  armed_ = true;
  transport_.socket().async_wait(Socket::wait_write,
                                 [self = shared_from_this()](const error_code& problem) {
                                   self->armed_ = false;
                                   if (self->state_ == State::closed) return;
                                   problem ? self->close() : self->on_readable();
                                 });
}

// The peer of a parked claim sent data, or disconnected.
void Connection::on_peer_in_busy() {
  switch (transport_.peek().next) {
    case Transport::Next::done:
      return;  // the next request: it is read after the current one is answered
    case Transport::Next::wait_read:
      return arm_read();
    case Transport::Next::wait_write:
      return wait_to_read();
    default:
      return close();
  }
}

// Sends nothing more; discards input until the peer closes.
void Connection::drain() {
  transport_.finish();
  state_ = State::draining;
  set_deadline(shard_.stopping() ? kDrainTimeAtStop : kDrainTime);
  arm_read();
}

void Connection::discard_input() {
  constexpr int kReadsAtOnce = 16;
  for (int i = 0; i < kReadsAtOnce; ++i) {
    const Transport::Step step = transport_.discard(shard_.scratch());
    if (step.next == Transport::Next::wait_read) break;
    if (step.next != Transport::Next::done) return close();
  }
  arm_read();
}

// Takes requests from the window until one is in progress or the rest is incomplete.
void Connection::process(std::string_view window, bool owned) {
  const HttpOptions& options = shard_.shared().services.options;
  const std::size_t before = window.size();
  in_process_ = true;
  while ((state_ == State::idle || state_ == State::head) && !window.empty()) {
    if (is_link_ && !read_caller(window)) break;
    Head head;
    const HeadResult result = parse_head(window, options.max_header_bytes, head);
    if (result.status == Parsed::need_more) {
      if (state_ == State::idle) set_deadline(options.header_timeout);
      state_ = State::head;
      break;
    }
    if (result.status == Parsed::too_large) {
      refuse_early({ErrorCode::headers_too_large,
                    fmt::format("the head of the request is over {} bytes or {} lines",
                                options.max_header_bytes, kMaxHeaderLines)});
    } else if (result.status == Parsed::bad) {
      refuse_early(invalid("", fmt::format("malformed request: {}", result.problem)));
    } else {
      window.remove_prefix(result.bytes);
      begin_request(std::move(head), window);
    }
  }
  in_process_ = false;
  if (state_ == State::closed) return;
  if (owned) {
    in_.erase(0, before - window.size());
    if (in_.empty()) std::string().swap(in_);
  } else {
    in_.assign(window);
  }
  const bool reads = state_ == State::idle || state_ == State::head || state_ == State::body ||
                     state_ == State::draining;
  if (reads) arm_read();
}

Result<void> Connection::check_host(std::string_view host) const {
  const Shared& shared = shard_.shared();
  const std::string_view name = without_port(host);
  for (const std::string& known : shared.host_names) {
    if (iequals(name, known)) return {};
  }
  error_code not_an_address;
  const auto address = asio::ip::make_address(std::string(name), not_an_address);
  if (!not_an_address) {
    if (address.is_loopback()) return {};
    if (transport_.local_address() == address.to_string()) return {};
  }
  return Error{ErrorCode::forbidden,
               fmt::format("Host \"{}\": must be localhost, the server's address or a name of its "
                           "configuration (allowed_hosts)",
                           without_password(cut_text(host, 128)))};
}

// A browser sends the origin of the page: only pages of this server are allowed. Other programs of
// this machine serve pages too, from the same names and other ports. Behind a proxy the port is
// another one, and the browser says that the page is of the same origin.
Result<void> Connection::check_origin(const Head& head) const {
  const std::string_view origin = head.origin;
  if (origin.empty()) return {};
  const std::size_t scheme = origin.find("://");
  if (scheme != std::string_view::npos) {
    const std::string_view page = origin.substr(scheme + 3);
    const bool ours = head.same_origin || iequals(page, head.host) ||
                      port_of(page) == transport_.local_port() ||
                      !is_loopback_name(without_port(page));
    if (ours && check_host(page)) return {};
  }
  return Error{ErrorCode::forbidden,
               fmt::format("Origin \"{}\": pages of other sites may not use this server",
                           cut_text(origin, 128))};
}

// A browser also sends the cookie with requests that other sites cause, and marks these.
Result<void> Connection::check_cookie_use(const Head& head) {
  const bool reads = head.method == "GET" || head.method == "HEAD";
  if (!head.by_cookie || reads || head.same_origin || MS_MUTANT(cookie_used_by_other_sites)) {
    return {};
  }
  return Error{ErrorCode::forbidden,
               "a change by the session cookie needs Sec-Fetch-Site: same-origin; programs send "
               "Authorization: Bearer TOKEN"};
}

std::size_t Connection::body_limit(const Route& route) const {
  const HttpOptions& options = shard_.shared().services.options;
  if (route.body == BodyRule::none) return kBlankBytes;
  if (route.upload) return shard_.shared().services.host_routes.max_upload_bytes;
  return route.batch ? options.max_batch_body_bytes : options.max_body_bytes;
}

// A proxy on this machine sends the requests of many callers from one address.
Room::Payer Connection::payer() {
  name_peer();
  using Account = Room::Account;
  Room::Payer out{.accounts = {}, .vital = route_ != nullptr && route_->vital};
  const std::string who = pass_.caller == nullptr ? std::string() : pass_.caller->who;
  const bool full_access = !who.empty() && pass_.caller->scopes == nullptr;
  if (full_access) return out;
  if (who.empty() || !peer_.local) {
    out.accounts.emplace_back(who.empty() ? Account::anonymous_address : Account::address,
                              address_group(peer_.text));
  }
  out.accounts.emplace_back(who.empty() ? Account::anonymous : Account::caller, who);
  return out;
}

// Authenticates and authorises the caller: before the body is read, and before an unknown path is
// reported.
Result<void> Connection::admit(const Head& head, Match& match) {
  Authenticator& authenticator = shard_.shared().authenticator;
  const Now now = shard_.shared().services.clock.now();
  const bool own = match.route != nullptr && match.route->own_secret;
  const Secret* const presented = head.has_authorization && !own ? &head.authorization : nullptr;
  const bool open = match.route != nullptr && match.route->access.on == On::open;
  if (open || (MS_MUTANT(auth_skipped_for_head) && match.head_only)) {
    pass_ = authenticator.admit_anybody(peer_, presented, now);
  } else {
    MS_TRY_ASSIGN(pass_, authenticator.admit(peer_, presented, head.forwarded, pass_, now));
  }
  if (match.route == nullptr) return {};
  match.request.caller = pass_.caller;
  if (MS_MUTANT(auth_skipped_for_head) && match.head_only) return {};
  return check_access(*match.route, match.request);
}

Result<void> Connection::check_request(const Head& head, Match& match) {
  MS_TRY(check_site(head));
  MS_TRY(check_cookie_use(head));
  MS_TRY(admit(head, match));
  if (match.route == nullptr) return {};
  match.request.secure = secure_ || head.forwarded_https;
  const bool has_body = head.chunked || head.content_length.value_or(0) > 0;
  const std::size_t limit = body_limit(*match.route);
  if (match.route->body == BodyRule::none && head.content_length.value_or(0) > limit)
    return invalid("", "the body: must be empty");
  const bool any_type = match.route->body == BodyRule::bytes;
  if (has_body && !any_type && !head.content_type.empty() && !is_json_type(head.content_type)) {
    return invalid("Content-Type",
                   fmt::format("Content-Type \"{}\": must be application/json (curl: --json)",
                               cut_text(head.content_type, 128)));
  }
  if (head.content_length.value_or(0) > limit) {
    return Error{ErrorCode::too_large, fmt::format("the body has {} bytes: must be at most {}",
                                                   *head.content_length, limit)};
  }
  return {};
}

void Connection::begin_request(Head head, std::string_view& rest) {
  started_ = shard_.now();
  keep_alive_ = head.keep_alive && !must_end();
  waited_ = false;
  ticket_ = shard_.new_ticket(slot_);
  Match found = match(head.method, head.target, shard_.shared().more_routes);
  route_ = found.route;
  head_only_ = found.head_only;
  chunked_ = head.chunked;
  http10_ = head.http10;
  if (route_ != nullptr && route_->headers) head.fields = header_fields(head.text);
  name_peer();
  const bool relayed = is_relayed();
  auto good = relayed ? check_site(head) : check_request(head, found);
  if (good && relayed) return begin_relay(head, rest);
  head.text = {};  // its buffer is reused
  const std::uint64_t length = head.content_length.value_or(0);
  read_whole_ = true;
  if (!good || route_ == nullptr) {
    // Keep the connection only if the whole body has arrived and can be skipped.
    if (head.chunked || length > rest.size()) keep_alive_ = read_whole_ = false;
    if (read_whole_) rest.remove_prefix(static_cast<std::size_t>(length));
    Reply refusal = good ? std::move(found.error) : error_reply(good.error());
    // Remove an invalid cookie, else the browser sends it with every request.
    if (!good && head.by_cookie && good.error().code == ErrorCode::unauthenticated) {
      add_header(refusal, "Set-Cookie", session_cookie("", false));
    }
    return reply(std::move(refusal));
  }
  if (head.chunked || length > rest.size()) return begin_body(std::move(head), rest);
  found.request.body = rest.substr(0, static_cast<std::size_t>(length));
  found.request.idempotency_key = head.idempotency_key;
  found.request.trace = std::move(head.trace);
  found.request.headers = std::move(head.fields);
  if (takes_secret(*route_, head)) found.request.presented = std::move(head.authorization);
  rest.remove_prefix(static_cast<std::size_t>(length));
  if (route_->body == BodyRule::bytes) {
    found.request.upload = std::make_shared<Upload>(std::string(found.request.body));
    found.request.body = {};
  }
  run_plan(*route_, std::move(found.request), nullptr);
}

void Connection::begin_body(Head head, std::string_view& rest) {
  body_bytes_ = static_cast<std::size_t>(head.content_length.value_or(0));
  body_room_ = std::make_shared<HeldRoom>(shard_.shared().room, payer());
  if (!body_room_->fits(body_bytes_)) return refuse_early(too_many_bodies());
  body_.clear();
  if (head.chunked) chunks_ = std::make_unique<ChunkedReader>(body_limit(*route_));
  state_ = State::body;
  if (head.expect_continue && rest.empty()) {
    std::string text = "HTTP/1.1 100 Continue\r\n\r\n";
    if (is_link_) text.insert(0, encode_frame({.bytes = static_cast<std::uint32_t>(text.size())}));
    if (transport_.write(text).bytes != text.size()) return close();
  }
  head_ = std::make_unique<Head>(std::move(head));
  begin_progress();
  feed_body(rest);
}

// A peer must move min_bytes_per_second in each window: bytes of an earlier one do not count, else
// a large first part would pay for hours of silence.
void Connection::begin_progress() {
  moved_ = 0;
  set_deadline(kProgressWindow);
}

void Connection::note_progress(std::size_t bytes) {
  moved_ += bytes;
  const std::size_t rate = shard_.shared().services.options.min_bytes_per_second;
  if (moved_ >= rate * static_cast<std::size_t>(kProgressWindow.count())) begin_progress();
}

void Connection::feed_body(std::string_view& rest) {
  const std::size_t before = rest.size();
  Parsed status = Parsed::need_more;
  if (chunked_) {
    status = chunks_->feed(rest, body_);
  } else {
    const std::string_view part = rest.substr(0, body_bytes_ - body_.size());
    body_.append(part);
    rest.remove_prefix(part.size());
    if (body_.size() == body_bytes_) status = Parsed::done;
  }
  if (status == Parsed::bad) return refuse_early(invalid("", "malformed chunked body"));
  if (status == Parsed::too_large) {
    return refuse_early({ErrorCode::too_large,
                         fmt::format("the body is larger than {} bytes", body_limit(*route_))});
  }
  if (!body_room_->grow_to(body_.size())) return refuse_early(too_many_bodies());
  if (status == Parsed::done) return end_body();
  note_progress(before - rest.size());
}

void Connection::end_body() {
  if (!welcome()) {  // the body took a while
    return refuse_early({ErrorCode::unauthenticated, "the token was revoked, or has expired"});
  }
  const std::unique_ptr<Head> head = std::move(head_);
  Match found = match(head->method, head->target, shard_.shared().more_routes);
  found.request.trace = std::move(head->trace);
  found.request.headers = std::move(head->fields);
  if (takes_secret(*route_, *head)) found.request.presented = std::move(head->authorization);
  Body body{std::move(body_), std::move(body_room_)};
  free_body();
  if (route_->body == BodyRule::bytes) {
    // The room is released with the last owner of the bytes.
    found.request.upload = std::make_shared<Upload>(std::move(body.text), std::move(body.room));
    return run_plan(*route_, std::move(found.request), nullptr);
  }
  found.request.body = body.text;
  found.request.idempotency_key = head->idempotency_key;
  run_plan(*route_, std::move(found.request), &body);
}

void Connection::free_body() {
  body_room_.reset();
  std::string().swap(body_);
  head_.reset();
  chunks_.reset();
}

// `owned_body` holds request.body and may be moved from; nullptr if the body is in a shared buffer.
void Connection::run_plan(const Route& route, Request request, Body* owned_body) {
  state_ = State::busy;
  deadline_ = Instant::never();
  request.caller = pass_.caller;
  request.action = route.id;
  Services& services = shard_.shared().services;
  if (route.body == BodyRule::none && !is_blank_object(request.body)) {
    return reply(error_reply(invalid("", "the body: must be empty")));
  }
  if (route.body == BodyRule::optional && is_blank_object(request.body)) request.body = {};
  if (request.body.size() < services.options.large_body_bytes) {
    return execute(route.plan(request, services));
  }
  struct Held {
    Request request;
    Body body;
    std::string key;
  };
  auto held = std::make_shared<Held>();
  held->key = request.idempotency_key;
  held->body = owned_body == nullptr ? Body{std::string(request.body)} : std::move(*owned_body);
  held->request = std::move(request);
  held->request.body = held->body.text;
  held->request.idempotency_key = held->key;
  const bool taken = shard_.shared().readers.submit(
      [held, &route, &services, box = shard_.mailbox(), ticket = ticket_] {
        box->deliver_unexpected({ticket, route.plan(held->request, services)});
      });
  if (!taken) overloaded_reads();
}

// The request is incomplete: the next bytes on the connection are unknown, so this is the last
// reply.
void Connection::refuse_early(const Error& error) {
  if (state_ != State::body) {
    route_ = nullptr;
    started_ = shard_.now();
    head_only_ = false;
  }
  free_body();
  keep_alive_ = read_whole_ = false;
  reply(error_reply(error));
}

// -- output

// A removed job has no queue any more: only a caller of all queues learns that its id was used.
void Connection::hide_removed(Reply& reply) const {
  if (reply.status != 410 || pass_.caller == nullptr || MS_MUTANT(removed_job_of_others)) return;
  const Caller& caller = *pass_.caller;
  if (caller.may_all(Verb::read) || caller.may_all(Verb::result) || caller.may_all(Verb::admin))
    return;
  const std::string message = decode_error(reply.status, reply.body).message;
  reply = error_reply(
      {ErrorCode::not_found, message.substr(0, message.find(':')) + ": there is no such job"});
}

void Connection::reply(Reply reply) {
  if (std::exchange(lose_answer_, false)) return close();
  hide_removed(reply);
  shard_.count(route_, reply.status, shard_.now() - started_, waited_, pass_.caller.get());
  if (must_end()) keep_alive_ = false;
  const bool no_body = reply.status == 204 || reply.status == 304;
  std::string& head = shard_.reply_head();
  head.clear();
  fmt::format_to(std::back_inserter(head),
                 "HTTP/1.1 {} {}\r\nDate: {}\r\nX-Content-Type-Options: nosniff\r\n", reply.status,
                 reason(reply.status), shard_.date());
  if (!reply.content_type.empty() && !no_body) {
    head.append("Content-Type: ").append(reply.content_type).append("\r\n");
  }
  if (no_body) {
    reply.body.clear();
  } else {
    fmt::format_to(std::back_inserter(head), "Content-Length: {}\r\n", reply.body.size());
  }
  head += reply.headers;
  if (!reply.allow.empty()) head.append("Allow: ").append(reply.allow).append("\r\n");
  if (reply.retry_after_s > 0) {
    fmt::format_to(std::back_inserter(head), "Retry-After: {}\r\n", reply.retry_after_s);
  }
  head += keep_alive_ ? "\r\n" : "Connection: close\r\n\r\n";
  ticket_ = shard_.new_ticket(slot_);
  if (head_only_) reply.body.clear();
  out_room_ = std::move(reply.room);
  write(head, std::move(reply.body));
}

void Connection::write(std::string_view head, std::string body) {
  state_ = State::writing;
  std::string framed;
  if (is_link_) {
    framed = frame_of(head.size() + body.size()).append(head);
    head = framed;
  }
  const Transport::Step step = transport_.write(head, body);
  const bool waits =
      step.next == Transport::Next::wait_read || step.next == Transport::Next::wait_write;
  if (step.next != Transport::Next::done && !waits) return close();
  const std::size_t sent = step.bytes;
  if (sent == head.size() + body.size()) return after_write();
  // The answer to a change is sent in any case; it counts as buffered while it waits for its peer.
  if (out_room_ == nullptr) {
    out_room_ = std::make_shared<HeldRoom>(shard_.shared().room, payer());
    out_room_->charge(head.size() + body.size() - sent);
  }
  if (sent < head.size()) {
    out_.assign(head.substr(sent)).append(body);
    out_at_ = 0;
  } else {
    out_ = std::move(body);
    out_at_ = sent - head.size();
  }
  read_by_peer_ = transport_.received_by_peer();
  begin_progress();
  on_writable();
}

void Connection::on_writable() {
  while (out_at_ < out_.size()) {
    const Transport::Step step = transport_.write(std::string_view(out_).substr(out_at_));
    switch (step.next) {
      case Transport::Next::done:
        out_at_ += step.bytes;
        break;
      case Transport::Next::wait_read:
      case Transport::Next::wait_write:
        return wait_to_write(step.next);
      default:
        return close();
    }
  }
  std::string().swap(out_);
  after_write();
}

void Connection::note_read_by_peer() {
  const std::int64_t read = transport_.received_by_peer();
  if (read > read_by_peer_) note_progress(static_cast<std::size_t>(read - read_by_peer_));
  read_by_peer_ = std::max(read, read_by_peer_);
}

// Waits for the socket, for a reply or a handshake.
void Connection::wait_to_write(Transport::Next next) {
  const auto what = next == Transport::Next::wait_read ? Socket::wait_read : Socket::wait_write;
  transport_.socket().async_wait(what, [self = shared_from_this()](const error_code& failed) {
    const bool shakes = self->state_ == State::handshake;
    if (self->state_ != State::writing && !shakes) return;
    if (failed) return self->close();
    shakes ? self->shake_hands() : self->on_writable();
  });
}

void Connection::after_write() {
  out_room_.reset();
  if (stream_ != nullptr) return after_piece();
  if (!continues()) return drain();
  become_idle();
  if (in_process_) return;  // process() continues by itself
  in_.empty() ? arm_read() : process(in_, true);
}

}  // namespace mainspring::http
