// The bell's thread: who dials in, who is dialled, what is to be said.
#include "bell/bell.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <map>
#include <set>
#include <thread>

#include "base/mutant.h"
#include "base/mutex.h"
#include "bell/core.h"
#include "bell/dialer.h"
#include "bell/inbound.h"

namespace mainspring {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

// Connections that have not proved the key yet. Beyond: refused.
constexpr std::size_t kMaxStrangers = 32;
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);
// Between the news that a node has left and what it said last.
constexpr Duration kLastWords = std::chrono::seconds(1);

}  // namespace

std::vector<Error> BellOptions::validate() const {
  std::vector<Error> errors;
  const auto check = [&](bool ok, std::string field, std::string_view value,
                         std::string_view rule) {
    if (!ok) errors.push_back(invalid(field, fmt::format("{} {}: must {}", field, value, rule)));
  };
  const auto at = bell::parse_host_port("bell_listen", listen);
  if (!at) errors.push_back(at.error());
  error_code problem;
  asio::ip::address address = asio::ip::address_v4::loopback();
  if (at && at->host != "localhost") address = asio::ip::make_address(at->host, problem);
  check(!problem, "bell_listen", listen, "be an IP address or localhost, and a port");
  check(!address.is_unspecified() || !advertise.empty(), "bell_advertise", "\"\"",
        fmt::format("say by which address others reach this node: bell_listen is {}", listen));
  if (!advertise.empty()) {
    const auto as = bell::parse_host_port("bell_advertise", advertise);
    if (!as) errors.push_back(as.error());
  }
  check(digest_from_hex(key.reveal()).has_value(), "bell_key", "(not shown)", "be 64 hex digits");
  check(max_connections > 0, "bell_max_connections", fmt::to_string(max_connections),
        "be at least 1");
  check(max_rate > 0, "bell_max_rate", fmt::to_string(max_rate), "be at least 1");
  return errors;
}

struct Bell::Impl {
  Impl(BellOptions options, const Clock& clock, Random& random, Log& log, Registry& registry,
       std::function<void(const Heard&)> heard)
      : core(std::move(options), clock, random, log, registry, std::move(heard)),
        acceptor(io),
        accept_pause(io),
        ask_pause(io),
        work(asio::make_work_guard(io)) {
    core.freed = [this] { distribute(); };
    core.metrics.gauge("mainspring_bell_reached", "Nodes that the bell reaches now.",
                       [this] { return static_cast<double>(core.ready.load()); });
  }
  ~Impl() {
    stop();
    core.metrics.gauge("mainspring_bell_reached", "Nodes that the bell reaches now.",
                       [] { return 0.0; });
  }

  Result<void> bind();
  void accept();
  void adopt(tcp::socket socket);
  void changed(bell::Inbound& inbound);
  void distribute();
  void answer_all();
  void apply_peers();
  void left(std::int64_t node);
  void relay_changed();
  void ask();
  void ask_again();
  void start();
  void stop();

  bell::Core core;
  asio::io_context io{1};
  tcp::acceptor acceptor;
  asio::steady_timer accept_pause;
  asio::steady_timer ask_pause;  // until others are asked again
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::string address;
  std::set<std::shared_ptr<bell::Inbound>> inbound;               // on the bell's thread
  std::map<std::int64_t, std::shared_ptr<bell::Dialer>> dialers;  // on the bell's thread
  bool closing = false;                                           // on the bell's thread
  BellRelay::Ask asked = BellRelay::Ask::nothing;                 // on the bell's thread

  Mutex mutex;
  // distribute() comes: it is posted, or a dialer that is busy calls it when it is not any more.
  bool posted MS_GUARDED_BY(mutex) = false;
  HeardSet to_say MS_GUARDED_BY(mutex);
  std::vector<Peer> peers MS_GUARDED_BY(mutex);
  std::size_t left_out MS_GUARDED_BY(mutex) = 0;  // beyond kMaxPeers
  std::jthread thread;
};

Result<void> Bell::Impl::bind() {
  MS_TRY_ASSIGN(const bell::HostPort at, bell::parse_host_port("listen", core.options.listen));
  error_code problem;
  const tcp::endpoint wanted(
      asio::ip::make_address(at.host == "localhost" ? "127.0.0.1" : at.host, problem), at.port);
  if (!problem) acceptor.open(wanted.protocol(), problem);
  if (!problem) acceptor.set_option(asio::socket_base::reuse_address(true), problem);
  if (!problem) acceptor.bind(wanted, problem);
  if (!problem) acceptor.listen(asio::socket_base::max_listen_connections, problem);
  tcp::endpoint bound;
  if (!problem) bound = acceptor.local_endpoint(problem);
  if (problem) {
    return Error{problem == asio::error::address_in_use ? ErrorCode::conflict : ErrorCode::io_error,
                 fmt::format("bell_listen {}: {}", core.options.listen, problem.message())};
  }
  address = bell::host_port_text(bound.address().to_string(), bound.port());
  if (core.options.advertise.empty()) return {};
  MS_TRY_ASSIGN(const bell::HostPort as,
                bell::parse_host_port("bell_advertise", core.options.advertise));
  address = bell::host_port_text(as.host, as.port == 0 ? bound.port() : as.port);
  return {};
}

void Bell::Impl::accept() {
  acceptor.async_accept([this](const error_code& error, tcp::socket socket) {
    if (closing) return;
    if (!error) {
      adopt(std::move(socket));
      return accept();
    }
    // Out of file descriptors, most likely.
    accept_pause.expires_after(kAcceptPause);
    accept_pause.async_wait([this](const error_code& cancelled) {
      if (!cancelled && !closing) accept();
    });
  });
}

void Bell::Impl::adopt(tcp::socket socket) {
  const auto strangers =
      std::count_if(inbound.begin(), inbound.end(), [](const auto& one) { return !one->known(); });
  if (inbound.size() >= static_cast<std::size_t>(core.options.max_connections) ||
      strangers >= static_cast<std::ptrdiff_t>(kMaxStrangers)) {
    return core.dropped("full", bell::address_of(socket));  // the socket closes
  }
  auto one = std::make_shared<bell::Inbound>(std::move(socket), core,
                                             [this](bell::Inbound& it) { changed(it); });
  inbound.insert(one);
  one->start();
}

void Bell::Impl::changed(bell::Inbound& which) {
  const auto same = which.shared_from_this();  // lives until this returns
  if (which.closed()) {
    inbound.erase(same);
    return;
  }
  // A node that dials anew has lost the connection that it had.
  for (auto it = inbound.begin(); it != inbound.end();) {
    const auto one = *it++;
    if (one != same && one->known() && one->node() == which.node()) one->close();
  }
}

void Bell::Impl::distribute() {
  Heard what;
  {
    MutexLock lock(mutex);
    what = to_say.take();
    posted = !what.empty() && !MS_MUTANT(bell_not_coalesced);
    if (what.empty()) return;
  }
  // Whoever is connected is busy now, so that commits behind this one need not wake this thread.
  for (const auto& [node, dialer] : dialers) dialer->add(what);
}

void Bell::Impl::answer_all() {
  for (const auto& one : inbound) one->answer_now();
}

void Bell::Impl::apply_peers() {
  std::vector<Peer> wanted;
  {
    MutexLock lock(mutex);
    wanted = peers;
  }
  if (closing) return;
  for (auto it = dialers.begin(); it != dialers.end();) {
    const auto found = std::find(wanted.begin(), wanted.end(), it->second->peer());
    if (found == wanted.end()) {
      it->second->close();
      const bool gone = std::none_of(wanted.begin(), wanted.end(),
                                     [&](const Peer& peer) { return peer.node == it->first; });
      if (gone && core.relay != nullptr) left(it->first);
      it = dialers.erase(it);
    } else {
      ++it;
    }
  }
  for (const Peer& peer : wanted) {
    if (dialers.contains(peer.node)) continue;
    const auto dialer = std::make_shared<bell::Dialer>(io, core, peer);
    dialers.emplace(peer.node, dialer);
    if (asked != BellRelay::Ask::nothing) dialer->ask(asked);
    dialer->dial();
  }
}

// What it said last may still be on its way here.
void Bell::Impl::left(std::int64_t node) {
  const auto grace = std::make_shared<asio::steady_timer>(io, kLastWords);
  grace->async_wait([this, node, grace](const error_code&) {
    if (!closing && !dialers.contains(node)) core.relay->gone(node);
  });
}

// Somebody begins to listen, or there is more for those who asked.
void Bell::Impl::relay_changed() {
  if (closing) return;
  if (core.relay->asks() > asked) ask();
  for (const auto& [node, dialer] : dialers) dialer->flush();
}

void Bell::Impl::ask() {
  asked = core.relay->asks();
  if (asked == BellRelay::Ask::nothing) return;
  for (const auto& [node, dialer] : dialers) dialer->ask(asked);
}

void Bell::Impl::ask_again() {
  ask();
  ask_pause.expires_after(std::chrono::seconds(BellRelay::kAskSeconds));
  ask_pause.async_wait([this](const error_code& cancelled) {
    if (!cancelled && !closing) ask_again();
  });
}

void Bell::Impl::start() {
  if (thread.joinable() || closing) return;
  asio::post(io, [this] { accept(); });
  if (core.relay != nullptr) asio::post(io, [this] { ask_again(); });
  thread = std::jthread([this] { io.run(); });
}

void Bell::Impl::stop() {
  const auto close = [this] {
    if (std::exchange(closing, true)) return;
    error_code ignored;
    acceptor.close(ignored);
    accept_pause.cancel();
    ask_pause.cancel();
    distribute();
    if (core.relay != nullptr) core.relay->closing();
    for (const auto& [node, dialer] : dialers) dialer->close();
    dialers.clear();
    while (!inbound.empty()) {
      const auto one = *inbound.begin();
      one->close();
    }
    work.reset();
    io.stop();
  };
  if (!thread.joinable()) return close();
  asio::post(io, close);
  thread.join();
}

Result<std::unique_ptr<Bell>> Bell::open(BellOptions options, const Clock& clock, Random& random,
                                         Log& log, Registry& registry,
                                         std::function<void(const Heard&)> heard) {
  if (auto errors = options.validate(); !errors.empty()) return errors.front();
  auto impl =
      std::make_unique<Impl>(std::move(options), clock, random, log, registry, std::move(heard));
  MS_TRY(impl->bind());
  return std::unique_ptr<Bell>(new Bell(std::move(impl)));
}

Bell::Bell(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Bell::~Bell() = default;

const std::string& Bell::address() const {
  return impl_->address;
}

void Bell::carry(BellRelay& relay) {
  impl_->core.relay = &relay;
  relay.changed = [impl = impl_.get()] { asio::post(impl->io, [impl] { impl->relay_changed(); }); };
}

void Bell::ask_who_waits(std::function<bool()> waits) {
  impl_->core.waits = std::move(waits);
}

void Bell::somebody_waits() {
  if (MS_MUTANT(bell_rests_on)) return;
  if (!impl_->core.resting.load() || !impl_->core.resting.exchange(false)) return;
  asio::post(impl_->io, [impl = impl_.get()] { impl->answer_all(); });
}

void Bell::set_peers(std::vector<Peer> peers) {
  std::erase_if(peers, [&](const Peer& peer) {
    return peer.node == impl_->core.options.node || peer.address.empty();
  });
  std::size_t left_out = 0;
  if (peers.size() > kMaxPeers) {
    left_out = peers.size() - kMaxPeers;
    peers.resize(kMaxPeers);
  }
  {
    MutexLock lock(impl_->mutex);
    impl_->left_out = left_out;
    if (impl_->peers == peers) return;
    impl_->peers = std::move(peers);
  }
  asio::post(impl_->io, [impl = impl_.get()] { impl->apply_peers(); });
}

void Bell::ring(const Heard& what) {
  {
    MutexLock lock(impl_->mutex);
    impl_->to_say.add(what);
    if (std::exchange(impl_->posted, true)) return;
  }
  asio::post(impl_->io, [impl = impl_.get()] { impl->distribute(); });
}

bool Bell::reaches_all() const {
  MutexLock lock(impl_->mutex);
  return impl_->left_out == 0 && impl_->core.ready.load() >= static_cast<int>(impl_->peers.size());
}

int Bell::reached() const {
  return impl_->core.ready.load();
}

void Bell::start() {
  impl_->start();
}
void Bell::stop() {
  impl_->stop();
}

}  // namespace mainspring
