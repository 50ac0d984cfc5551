// The notifier's thread: accepts connections, connects to peers, and distributes notifications.
#include "peer/notifier.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <map>
#include <set>
#include <thread>

#include "base/mutant.h"
#include "base/mutex.h"
#include "peer/core.h"
#include "peer/dialer.h"
#include "peer/inbound.h"

namespace mainspring {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

// Maximum connections that have not proved the key yet. Further ones are refused.
constexpr std::size_t kMaxStrangers = 32;
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);
// How long frames of a node that has left are still accepted.
constexpr Duration kLastWords = std::chrono::seconds(1);

}  // namespace

std::vector<Error> PeerOptions::validate() const {
  std::vector<Error> errors;
  const auto check = [&](bool ok, std::string field, std::string_view value,
                         std::string_view rule) {
    if (!ok) errors.push_back(invalid(field, fmt::format("{} {}: must {}", field, value, rule)));
  };
  const auto at = notifier::parse_host_port("peer_listen", listen);
  if (!at) errors.push_back(at.error());
  error_code problem;
  asio::ip::address address = asio::ip::address_v4::loopback();
  if (at && at->host != "localhost") address = asio::ip::make_address(at->host, problem);
  check(!problem, "peer_listen", listen, "be an IP address or localhost, and a port");
  check(
      !address.is_unspecified() || !advertise.empty(), "peer_advertise", "\"\"",
      fmt::format("be the address at which other nodes reach this one: peer_listen is {}", listen));
  if (!advertise.empty()) {
    const auto as = notifier::parse_host_port("peer_advertise", advertise);
    if (!as) errors.push_back(as.error());
  }
  check(digest_from_hex(key.reveal()).has_value(), "peer_key", "(not shown)", "be 64 hex digits");
  check(max_connections > 0, "peer_max_connections", fmt::to_string(max_connections),
        "be at least 1");
  check(max_rate > 0, "peer_max_rate", fmt::to_string(max_rate), "be at least 1");
  return errors;
}

struct PeerNotifier::Impl {
  Impl(PeerOptions options, const Clock& clock, Random& random, Log& log, Registry& registry,
       std::function<void(const ChangeHints&)> heard)
      : core(std::move(options), clock, random, log, registry, std::move(heard)),
        acceptor(io),
        accept_pause(io),
        ask_pause(io),
        work(asio::make_work_guard(io)) {
    core.freed = [this] { distribute(); };
    core.metrics.gauge("mainspring_peers_reached", "Peers that are reachable.",
                       [this] { return static_cast<double>(core.ready.load()); });
  }
  ~Impl() {
    stop();
    core.metrics.gauge("mainspring_peers_reached", "Peers that are reachable.", [] { return 0.0; });
  }

  Result<void> bind();
  void accept();
  void adopt(tcp::socket socket);
  void changed(notifier::Inbound& inbound);
  void distribute();
  void answer_all();
  void apply_peers();
  void left(std::int64_t node);
  void relay_changed();
  void ask();
  void ask_again();
  void start();
  void stop();

  notifier::Core core;
  asio::io_context io{1};
  tcp::acceptor acceptor;
  asio::steady_timer accept_pause;
  asio::steady_timer ask_pause;  // delay until other nodes are asked again
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::string address;
  std::set<std::shared_ptr<notifier::Inbound>> inbound;               // on the notifier's thread
  std::map<std::int64_t, std::shared_ptr<notifier::Dialer>> dialers;  // on the notifier's thread
  bool closing = false;                                               // on the notifier's thread
  PeerRelay::Ask asked = PeerRelay::Ask::nothing;                     // on the notifier's thread

  Mutex mutex;
  // A call of distribute() is pending: it is posted, or a busy dialer calls it when it becomes
  // free.
  bool posted MS_GUARDED_BY(mutex) = false;
  ChangeHintSet to_say MS_GUARDED_BY(mutex);
  std::vector<Peer> peers MS_GUARDED_BY(mutex);
  std::size_t left_out MS_GUARDED_BY(mutex) = 0;  // beyond kMaxPeers
  std::jthread thread;
};

Result<void> PeerNotifier::Impl::bind() {
  MS_TRY_ASSIGN(const notifier::HostPort at,
                notifier::parse_host_port("listen", core.options.listen));
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
                 fmt::format("peer_listen {}: {}", core.options.listen, problem.message())};
  }
  address = notifier::host_port_text(bound.address().to_string(), bound.port());
  if (core.options.advertise.empty()) return {};
  MS_TRY_ASSIGN(const notifier::HostPort as,
                notifier::parse_host_port("peer_advertise", core.options.advertise));
  address = notifier::host_port_text(as.host, as.port == 0 ? bound.port() : as.port);
  return {};
}

void PeerNotifier::Impl::accept() {
  acceptor.async_accept([this](const error_code& error, tcp::socket socket) {
    if (closing) return;
    if (!error) {
      adopt(std::move(socket));
      return accept();
    }
    // Most likely out of file descriptors.
    accept_pause.expires_after(kAcceptPause);
    accept_pause.async_wait([this](const error_code& cancelled) {
      if (!cancelled && !closing) accept();
    });
  });
}

void PeerNotifier::Impl::adopt(tcp::socket socket) {
  const auto strangers =
      std::count_if(inbound.begin(), inbound.end(), [](const auto& one) { return !one->known(); });
  if (inbound.size() >= static_cast<std::size_t>(core.options.max_connections) ||
      strangers >= static_cast<std::ptrdiff_t>(kMaxStrangers)) {
    return core.dropped("full", notifier::address_of(socket));  // the socket closes
  }
  auto one = std::make_shared<notifier::Inbound>(std::move(socket), core,
                                                 [this](notifier::Inbound& it) { changed(it); });
  inbound.insert(one);
  one->start();
}

void PeerNotifier::Impl::changed(notifier::Inbound& which) {
  const auto same = which.shared_from_this();  // lives until this returns
  if (which.closed()) {
    inbound.erase(same);
    return;
  }
  // A node that connects again has lost its previous connection.
  for (auto it = inbound.begin(); it != inbound.end();) {
    const auto one = *it++;
    if (one != same && one->known() && one->node() == which.node()) one->close();
  }
}

void PeerNotifier::Impl::distribute() {
  ChangeHints what;
  {
    MutexLock lock(mutex);
    what = to_say.take();
    posted = !what.empty() && !MS_MUTANT(peer_not_coalesced);
    if (what.empty()) return;
  }
  // All connected dialers are busy now, so later commits need not wake this thread.
  for (const auto& [node, dialer] : dialers) dialer->add(what);
}

void PeerNotifier::Impl::answer_all() {
  for (const auto& one : inbound) one->answer_now();
}

void PeerNotifier::Impl::apply_peers() {
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
    const auto dialer = std::make_shared<notifier::Dialer>(io, core, peer);
    dialers.emplace(peer.node, dialer);
    if (asked != PeerRelay::Ask::nothing) dialer->ask(asked);
    dialer->dial();
  }
}

// Its last frame may still be on its way.
void PeerNotifier::Impl::left(std::int64_t node) {
  const auto grace = std::make_shared<asio::steady_timer>(io, kLastWords);
  grace->async_wait([this, node, grace](const error_code&) {
    if (!closing && !dialers.contains(node)) core.relay->gone(node);
  });
}

// A subscriber was added here, or there is more data for nodes that asked.
void PeerNotifier::Impl::relay_changed() {
  if (closing) return;
  if (core.relay->asks() > asked) ask();
  for (const auto& [node, dialer] : dialers) dialer->flush();
}

void PeerNotifier::Impl::ask() {
  asked = core.relay->asks();
  if (asked == PeerRelay::Ask::nothing) return;
  for (const auto& [node, dialer] : dialers) dialer->ask(asked);
}

void PeerNotifier::Impl::ask_again() {
  ask();
  ask_pause.expires_after(std::chrono::seconds(PeerRelay::kAskSeconds));
  ask_pause.async_wait([this](const error_code& cancelled) {
    if (!cancelled && !closing) ask_again();
  });
}

void PeerNotifier::Impl::start() {
  if (thread.joinable() || closing) return;
  asio::post(io, [this] { accept(); });
  if (core.relay != nullptr) asio::post(io, [this] { ask_again(); });
  thread = std::jthread([this] { io.run(); });
}

void PeerNotifier::Impl::stop() {
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

Result<std::unique_ptr<PeerNotifier>> PeerNotifier::open(
    PeerOptions options, const Clock& clock, Random& random, Log& log, Registry& registry,
    std::function<void(const ChangeHints&)> heard) {
  if (auto errors = options.validate(); !errors.empty()) return errors.front();
  auto impl =
      std::make_unique<Impl>(std::move(options), clock, random, log, registry, std::move(heard));
  MS_TRY(impl->bind());
  return std::unique_ptr<PeerNotifier>(new PeerNotifier(std::move(impl)));
}

PeerNotifier::PeerNotifier(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PeerNotifier::~PeerNotifier() = default;

const std::string& PeerNotifier::address() const {
  return impl_->address;
}

void PeerNotifier::carry(PeerRelay& relay) {
  impl_->core.relay = &relay;
  relay.changed = [impl = impl_.get()] { asio::post(impl->io, [impl] { impl->relay_changed(); }); };
}

void PeerNotifier::set_waiting_check(std::function<bool()> waits) {
  impl_->core.waits = std::move(waits);
}

void PeerNotifier::note_waiting() {
  if (MS_MUTANT(peer_delays_ack_on)) return;
  if (!impl_->core.resting.load() || !impl_->core.resting.exchange(false)) return;
  asio::post(impl_->io, [impl = impl_.get()] { impl->answer_all(); });
}

void PeerNotifier::set_peers(std::vector<Peer> peers) {
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

void PeerNotifier::notify(const ChangeHints& what) {
  {
    MutexLock lock(impl_->mutex);
    impl_->to_say.add(what);
    if (std::exchange(impl_->posted, true)) return;
  }
  asio::post(impl_->io, [impl = impl_.get()] { impl->distribute(); });
}

bool PeerNotifier::reaches_all() const {
  MutexLock lock(impl_->mutex);
  return impl_->left_out == 0 && impl_->core.ready.load() >= static_cast<int>(impl_->peers.size());
}

int PeerNotifier::reached() const {
  return impl_->core.ready.load();
}

void PeerNotifier::start() {
  impl_->start();
}
void PeerNotifier::stop() {
  impl_->stop();
}

}  // namespace mainspring
