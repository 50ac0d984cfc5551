// Notifiers connect over loopback; peers without the key, forged and repeated frames and floods are
// dropped.
#include "peer/notifier.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <map>

#include "base/mutex.h"
#include "peer/core.h"
#include "peer/frames.h"

using namespace mainspring;
using namespace std::chrono_literals;
namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr Duration kLimit = 60s;

const std::string kKey(64, 'a');

// Words relayed between nodes; each is taken once, and again if it was lost.
struct Words : PeerRelay {
  Ask asks() override {
    MutexLock lock(mutex);
    return want;
  }
  void asked(std::int64_t node, Ask what) override {
    {
      MutexLock lock(mutex);
      const bool known = askers.contains(node);
      askers[node] = what;
      news.notify_all();
      if (known) return;
    }
    changed();
  }
  bool serves(std::int64_t node) override {
    MutexLock lock(mutex);
    return askers.contains(node);
  }
  bool has(std::int64_t node) override {
    MutexLock lock(mutex);
    if (!askers.contains(node)) return false;
    calls = next[node] == words.size();
    return !calls;
  }
  std::string take(std::int64_t node, std::size_t room) override {
    MutexLock lock(mutex);
    CHECK(room == notifier::kMaxRelayed);
    taken[node] = next[node];
    news.notify_all();
    return words.at(next[node]++);  // "" = it is not for others
  }
  void lost(std::int64_t node) override {
    MutexLock lock(mutex);
    next[node] = taken[node];
  }
  void heard(std::int64_t node, std::string_view bytes) override {
    MutexLock lock(mutex);
    came += fmt::format("{}:{} ", node, bytes);
    news.notify_all();
  }
  void gone(std::int64_t node) override {
    MutexLock lock(mutex);
    left.push_back(node);
    news.notify_all();
  }
  void closing() override {}

  void say(std::string word) {
    {
      MutexLock lock(mutex);
      words.push_back(std::move(word));
      // A reader that has not yet seen the end of `words` will read the new word.
      if (!std::exchange(calls, false)) return;
    }
    changed();
  }
  void ask(Ask what) {
    {
      MutexLock lock(mutex);
      want = what;
    }
    changed();
  }
  template <class Done>
  bool wait(Done done) {
    const SystemClock clock;
    const Instant limit = clock.now().instant + kLimit;
    MutexLock lock(mutex);
    while (!done(*this)) {
      const Instant now = clock.now().instant;
      if (now >= limit) return false;
      news.wait_for(mutex, limit - now);
    }
    return true;
  }

  // For wait().
  Ask asker(std::int64_t node) const {
    const auto found = askers.find(node);
    return found == askers.end() ? Ask::nothing : found->second;
  }

  Mutex mutex;
  CondVar news;
  Ask want = Ask::nothing;
  std::map<std::int64_t, Ask> askers;
  std::map<std::int64_t, std::size_t> next, taken;
  bool calls = true;  // the next word needs a call of changed()
  std::vector<std::string> words;
  std::vector<std::int64_t> left;
  std::string came;
};

// One node's notifier, and what it received.
struct Node {
  explicit Node(std::int64_t node, PeerOptions options = {}, PeerRelay* relay = nullptr,
                std::function<bool()> waits = {}) {
    if (options.key.empty()) options.key = Secret(kKey);
    options.node = node;
    options.retry_to = 200ms;
    notifier = std::move(*PeerNotifier::open(std::move(options), clock, random, log, registry,
                                             [this](const ChangeHints& what) { note(what); }));
    if (relay != nullptr) notifier->carry(*relay);
    if (waits) notifier->set_waiting_check(std::move(waits));
    notifier->start();
  }
  void note(const ChangeHints& what) {
    MutexLock lock(mutex);
    ++frames;
    for (const std::string& queue : what.queues) ++queues[queue];
    ended.insert(ended.end(), what.ended.begin(), what.ended.end());
    ended_reported.insert(ended_reported.end(), what.ended_reported.begin(),
                          what.ended_reported.end());
    changed.notify_all();
  }
  // Waits until `done` accepts the received news; false after the time limit.
  template <class Done>
  bool wait(Done done) {
    const Instant limit = clock.now().instant + kLimit;
    MutexLock lock(mutex);
    while (!done()) {
      const Instant now = clock.now().instant;
      if (now >= limit) return false;
      changed.wait_for(mutex, limit - now);
    }
    return true;
  }
  bool hears(const std::string& queue) {
    return wait([&] { return queues.contains(queue); });
  }
  PeerNotifier::Peer as_peer(std::int64_t node) const { return {node, notifier->address()}; }
  std::int64_t dropped(const std::string& why) {
    return registry.counter("mainspring_peer_connections_dropped_total", "", {{"why", why}})
        .value();
  }
  std::int64_t counted(const std::string& name) { return registry.counter(name, "").value(); }

  SystemClock clock;
  SystemRandom random;
  NullLog log;
  Registry registry;
  Mutex mutex;
  CondVar changed;
  int frames = 0;
  std::map<std::string, int> queues;
  std::vector<JobId> ended, ended_reported;
  std::unique_ptr<PeerNotifier> notifier;
};

// Talks to a notifier by hand, byte by byte.
struct ByHand {
  explicit ByHand(const PeerNotifier& notifier) : socket(io) {
    const auto at = *notifier::parse_host_port("address", notifier.address());
    socket.connect(tcp::endpoint(asio::ip::make_address(at.host), at.port));
  }
  // True if the handshake succeeded.
  bool greet(const std::string& hex_key, std::int64_t self, std::int64_t other) {
    talk = {.acceptor_nonce = read(notifier::kHelloBytes).substr(notifier::kGreeting.size()),
            .dialer_nonce = std::string(notifier::kNonceBytes, 'n'),
            .acceptor = other,
            .dialer = self};
    const Digest key = *digest_from_hex(hex_key);
    std::string answer;
    notifier::put_u64(answer, static_cast<std::uint64_t>(self));
    answer += talk.dialer_nonce;
    answer += bytes_of(notifier::proof(key, notifier::Role::dials, talk));
    write(answer);
    session = notifier::proof(key, notifier::Role::session, talk);
    return read(notifier::kMacBytes) ==
           bytes_of(notifier::proof(key, notifier::Role::accepts, talk));
  }
  // Reads up to this many bytes, or until the other end closes.
  std::string read(std::size_t bytes) {
    std::string out(bytes, '\0');
    boost::system::error_code problem;
    out.resize(asio::read(socket, asio::buffer(out), problem));
    return out;
  }
  void write(const std::string& bytes) {
    boost::system::error_code ignored;
    asio::write(socket, asio::buffer(bytes), ignored);
  }
  bool is_closed() { return read(1).empty(); }

  asio::io_context io;
  tcp::socket socket;
  notifier::Talk talk;
  Digest session{};
};

}  // namespace

TEST_CASE("a notification of one node reaches all others") {
  Node a(1), b(2), c(3);
  a.notifier->set_peers({b.as_peer(2), c.as_peer(3), a.as_peer(1)});
  a.notifier->notify({.queues = {"mail"}, .ended = {7}});
  CHECK(b.hears("mail"));
  CHECK(c.hears("mail"));
  CHECK(a.frames == 0);  // it does not notify itself
}

TEST_CASE("notifications during a frame in flight go with the next one") {
  constexpr Duration kGap =
      300ms;  // far longer than a frame and its acknowledgement take, on any machine
  Node a(1, {.least_gap = kGap}), b(2);
  a.notifier->set_peers({b.as_peer(2)});
  const Instant begin = a.clock.now().instant;
  a.notifier->notify({.queues = {"first"}});
  REQUIRE(b.hears("first"));
  int notified = 0;
  while (notified < 2000) a.notifier->notify({.queues = {fmt::format("q{}", notified++ % 10)}});
  a.notifier->notify({.queues = {"last"}});
  REQUIRE(b.hears("last"));
  const Duration passed = a.clock.now().instant - begin;
  CHECK(passed >= kGap);
  MutexLock lock(b.mutex);
  CHECK(b.frames <= passed / kGap + 2);
  CHECK(b.frames < notified / 10);
  for (int i = 0; i < 10; ++i) CHECK(b.queues.contains(fmt::format("q{}", i)));
}

// Frames of two peers. Once the second peer's first frame is heard, all earlier frames of the first
// peer have arrived.
TEST_CASE(
    "a frame is acknowledged late while no caller waits, and at once when one starts to wait") {
  std::atomic<bool> waits{false};
  Node a(1, {.ack_delay = 1h}, nullptr, [&] { return waits.load(); });
  ByHand peer(*a.notifier);
  REQUIRE(peer.greet(kKey, 2, 1));
  peer.write(notifier::encode_frame(peer.session, 1, {.queues = {"one"}}) +
             notifier::encode_frame(peer.session, 2, {.queues = {"two"}}));
  REQUIRE(a.hears("one"));
  ByHand other(*a.notifier);
  REQUIRE(other.greet(kKey, 3, 1));
  other.write(notifier::encode_frame(other.session, 1, {.queues = {"other"}}));
  REQUIRE(a.hears("other"));
  {
    MutexLock lock(a.mutex);
    CHECK_FALSE(a.queues.contains("two"));
  }
  waits = true;
  a.notifier->note_waiting();
  REQUIRE(a.hears("two"));  // acknowledged without delay
  CHECK(peer.read(2 * notifier::kAckBytes) ==
        notifier::encode_ack(peer.session, 1) + notifier::encode_ack(peer.session, 2));
  CHECK(other.read(notifier::kAckBytes) == notifier::encode_ack(other.session, 1));
}

TEST_CASE("a notification is received although nothing waits for it") {
  Node a(1), b(2, {.ack_delay = 1ms}, nullptr, [] { return false; });
  a.notifier->set_peers({b.as_peer(2)});
  for (int i = 0; i < 100; ++i) {
    const std::string queue = fmt::format("q{}", i);
    a.notifier->notify({.queues = {queue}});
    REQUIRE(b.hears(queue));
  }
}

TEST_CASE("a node that connects later receives earlier notifications") {
  Node a(1);
  std::string address;
  {
    const Node gone(2, {.listen = "127.77.0.1:0"});  // an address whose ports no other test takes
    address = gone.notifier->address();
  }
  a.notifier->set_peers({{2, address}});
  a.notifier->notify({.queues = {"early"}});
  CHECK_FALSE(a.notifier->reaches_all());
  Node b(2, {.listen = address});
  CHECK(b.hears("early"));
  CHECK(a.notifier->reaches_all());
}

TEST_CASE("a node that was restarted elsewhere is notified at its new address") {
  Node a(1);
  auto b = std::make_unique<Node>(2);
  a.notifier->set_peers({b->as_peer(2)});
  a.notifier->notify({.queues = {"one"}});
  REQUIRE(b->hears("one"));
  b = std::make_unique<Node>(3);
  a.notifier->set_peers({b->as_peer(3)});
  a.notifier->notify({.queues = {"two"}});
  CHECK(b->hears("two"));
}

TEST_CASE("relayed words go to peers that ask, and ends that they learn that way are marked") {
  Words says, hears;
  Node a(1, {}, &says), b(2, {}, &hears), c(3);
  a.notifier->set_peers({b.as_peer(2), c.as_peer(3)});
  b.notifier->set_peers({a.as_peer(1)});
  says.say("early");
  a.notifier->notify({.queues = {"one"}, .ended = {1}});
  REQUIRE(b.hears("one"));
  REQUIRE(c.hears("one"));
  CHECK(hears.came.empty());
  hears.ask(PeerRelay::Ask::here);
  REQUIRE(says.wait([](Words& w) { return w.asker(2) == PeerRelay::Ask::here; }));
  REQUIRE(hears.wait([](Words& w) { return w.came == "1:early "; }));
  for (int i = 0; i < 100; ++i) {
    says.say(fmt::format("{}", i));
    a.notifier->notify({.queues = {fmt::format("q{}", i)}});
  }
  a.notifier->notify({.queues = {"two"}, .ended = {2}});
  REQUIRE(b.hears("two"));
  REQUIRE(c.hears("two"));
  REQUIRE(hears.wait([](Words& w) { return w.came.ends_with("1:99 "); }));
  std::string wanted = "1:early ";
  for (int i = 0; i < 100; ++i) wanted += fmt::format("1:{} ", i);
  CHECK(hears.came == wanted);
  CHECK(b.ended == std::vector<JobId>{1});
  CHECK(b.ended_reported == std::vector<JobId>{2});
  CHECK(c.ended == std::vector<JobId>{1, 2});
  a.notifier->set_peers({c.as_peer(3)});
  CHECK(says.wait([](Words& w) { return w.left == std::vector<std::int64_t>{2}; }));
}

TEST_CASE("a word that is not for a peer does not hold back later words for it") {
  Words says, hears;
  Node a(1, {}, &says), b(2, {}, &hears);
  a.notifier->set_peers({b.as_peer(2)});
  b.notifier->set_peers({a.as_peer(1)});
  hears.ask(PeerRelay::Ask::here);
  std::string wanted;
  for (int i = 0; i < 50; ++i) {
    says.say("");
    REQUIRE(says.wait([](Words& w) { return w.next[2] == w.words.size(); }));
    says.say(fmt::format("{}", i));
    wanted += fmt::format("1:{} ", i);
    REQUIRE(hears.wait([&](Words& w) { return w.came == wanted; }));
  }
}

TEST_CASE("a node that comes back is asked again and receives the words it missed") {
  Words says, first, second;
  Node a(1, {}, &says);
  auto b = std::make_unique<Node>(2, PeerOptions{.listen = "127.77.0.2:0"}, &first);
  const std::string address = b->notifier->address();
  a.notifier->set_peers({b->as_peer(2)});
  b->notifier->set_peers({a.as_peer(1)});
  first.ask(PeerRelay::Ask::along);
  says.say("one");
  REQUIRE(first.wait([](Words& w) { return w.came == "1:one "; }));
  b.reset();
  says.say("two");
  second.want = PeerRelay::Ask::here;
  b = std::make_unique<Node>(2, PeerOptions{.listen = address}, &second);
  b->notifier->set_peers({a.as_peer(1)});
  REQUIRE(second.wait([](Words& w) { return w.came == "1:two "; }));
  REQUIRE(says.wait([](Words& w) { return w.asker(2) == PeerRelay::Ask::here; }));
}

TEST_CASE("a peer without the key is disconnected and receives nothing") {
  Node a(1);
  ByHand stranger(*a.notifier);
  CHECK_FALSE(stranger.greet(std::string(64, 'b'), 2, 1));
  CHECK(stranger.is_closed());
  CHECK(a.dropped("stranger") == 1);
}

TEST_CASE("a handshake that was meant for another node is refused") {
  Node a(1);
  ByHand relayed(*a.notifier);
  CHECK_FALSE(relayed.greet(kKey, 2, 3));
  CHECK(a.dropped("stranger") == 1);
}

TEST_CASE("a handshake that was recorded is refused") {
  Node a(1);
  ByHand first(*a.notifier);
  REQUIRE(first.greet(kKey, 2, 1));
  std::string answer;
  notifier::put_u64(answer, 2);
  answer += first.talk.dialer_nonce;
  answer += bytes_of(notifier::proof(*digest_from_hex(kKey), notifier::Role::dials, first.talk));
  ByHand second(*a.notifier);
  CHECK(second.read(notifier::kHelloBytes).size() == notifier::kHelloBytes);
  second.write(answer);
  CHECK(second.is_closed());
  CHECK(a.dropped("stranger") == 1);
}

TEST_CASE("a dialer sends no notification to a peer that cannot prove the key") {
  Node a(1, {.patience = 1min});
  asio::io_context io;
  tcp::acceptor trap(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  a.notifier->set_peers({{2, fmt::format("127.0.0.1:{}", trap.local_endpoint().port())}});
  a.notifier->notify({.queues = {"private"}});
  tcp::socket socket = trap.accept();
  asio::write(socket, asio::buffer(std::string(notifier::kGreeting) + std::string(32, 'n')));
  std::string answer(notifier::kAnswerBytes, '\0');
  asio::read(socket, asio::buffer(answer));
  asio::write(socket, asio::buffer(std::string(notifier::kMacBytes, 'x')));
  char more = 0;
  boost::system::error_code end;
  CHECK(asio::read(socket, asio::buffer(&more, 1), end) == 0);
  CHECK_FALSE(a.notifier->reaches_all());
}

TEST_CASE("forged, repeated, oversized and invalid frames end the connection and are counted") {
  Node a(1);
  ByHand peer(*a.notifier);
  REQUIRE(peer.greet(kKey, 2, 1));
  const std::string good = notifier::encode_frame(peer.session, 1, {.queues = {"good"}});
  peer.write(good);
  REQUIRE(a.hears("good"));
  CHECK(peer.read(notifier::kAckBytes) == notifier::encode_ack(peer.session, 1));
  std::string why;
  SUBCASE("repeated") {
    peer.write(good);
    why = "forged";
  }
  SUBCASE("out of order") {
    peer.write(notifier::encode_frame(peer.session, 3, {.queues = {"bad"}}));
    why = "forged";
  }
  SUBCASE("changed in transit") {
    std::string changed = notifier::encode_frame(peer.session, 2, {.queues = {"bad"}});
    changed[16] = 'B';
    peer.write(changed);
    why = "forged";
  }
  SUBCASE("of another session") {
    peer.write(notifier::encode_frame(sha256("other"), 2, {.queues = {"bad"}}));
    why = "forged";
  }
  SUBCASE("oversized") {
    std::string length;
    notifier::put_u32(length, notifier::kMaxBody + 1);
    peer.write(length);
    why = "oversized";
  }
  SUBCASE("not a frame") {
    std::string frame;
    notifier::put_u32(frame, 3);
    frame += "abc";
    frame += bytes_of(notifier::frame_mac(peer.session, 2, "abc"));
    peer.write(frame);
    why = "malformed";
  }
  CHECK(peer.is_closed());
  CHECK(a.dropped(why) == 1);
  MutexLock lock(a.mutex);
  CHECK(a.queues.size() == 1);
}

TEST_CASE("a peer that floods is disconnected") {
  Node a(1, {.max_rate = 50});
  ByHand peer(*a.notifier);
  REQUIRE(peer.greet(kKey, 2, 1));
  std::string flood;
  for (std::uint64_t i = 1; i <= 1000; ++i)
    flood += notifier::encode_frame(peer.session, i, {.queues = {"q"}});
  peer.write(flood);  // at once: the rate must not depend on how often this thread runs
  while (!peer.read(notifier::kAckBytes).empty()) {
  }
  CHECK(a.dropped("flood") == 1);
  MutexLock lock(a.mutex);
  CHECK(a.frames < 200);
}

TEST_CASE("a peer that neither reads nor answers delays no other peer") {
  Node a(1, {.patience = 300ms}), b(2);
  asio::io_context io;
  tcp::acceptor deaf(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  a.notifier->set_peers(
      {{3, fmt::format("127.0.0.1:{}", deaf.local_endpoint().port())}, b.as_peer(2)});
  for (int i = 0; i < 100; ++i) {
    a.notifier->notify({.queues = {fmt::format("q{}", i)}});
    REQUIRE(b.hears(fmt::format("q{}", i)));
  }
  CHECK_FALSE(a.notifier->reaches_all());
}

TEST_CASE("a peer that is silent after the greeting is disconnected") {
  Node a(1, {.patience = 100ms});
  ByHand silent(*a.notifier);
  CHECK(silent.read(notifier::kHelloBytes).size() == notifier::kHelloBytes);
  CHECK(silent.is_closed());
  CHECK(a.dropped("late") == 1);
}

TEST_CASE("peers without the key do not use up the connections of peers with it") {
  Node a(1);
  std::vector<std::unique_ptr<ByHand>> strangers;
  for (int i = 0; i < 40; ++i) strangers.push_back(std::make_unique<ByHand>(*a.notifier));
  CHECK(strangers.back()->is_closed());
  CHECK(a.dropped("full") >= 1);
  strangers.clear();
  Node b(2);
  b.notifier->set_peers({a.as_peer(1)});
  b.notifier->notify({.queues = {"mail"}});
  CHECK(a.hears("mail"));
}

TEST_CASE("stop waits, and may be called twice and before start") {
  SystemClock clock;
  SystemRandom random;
  NullLog log;
  Registry registry;
  const auto notifier = std::move(*PeerNotifier::open(
      {.key = Secret(kKey), .node = 1}, clock, random, log, registry, [](const ChangeHints&) {}));
  notifier->notify({.queues = {"q"}});
  notifier->set_peers({{2, "127.0.0.1:1"}});
  notifier->stop();
  notifier->start();
  notifier->stop();
}

TEST_CASE("all errors in the options are named") {
  const auto errors = PeerOptions{.listen = "nowhere:1",
                                  .advertise = ":7",
                                  .key = Secret("short"),
                                  .max_connections = 0,
                                  .max_rate = 0}
                          .validate();
  std::string all;
  for (const Error& error : errors) all += error.message + "\n";
  for (const char* field : {"peer_listen nowhere:1", "peer_advertise \":7\"", "peer_key",
                            "peer_max_connections 0", "peer_max_rate 0"})
    CHECK_MESSAGE(all.find(field) != std::string::npos, field, " is missing in ", all);
  CHECK(all.find("short") == std::string::npos);
  const auto anywhere = PeerOptions{.listen = "0.0.0.0:7461", .key = Secret(kKey)}.validate();
  REQUIRE(anywhere.size() == 1);
  CHECK(anywhere[0].message.find("peer_advertise") != std::string::npos);
}
