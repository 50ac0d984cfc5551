// Bells ring each other over loopback; strangers, forgers, repeaters and floods are dropped.
#include "bell/bell.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <map>

#include "base/mutex.h"
#include "bell/core.h"
#include "bell/frames.h"

using namespace mainspring;
using namespace std::chrono_literals;
namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr Duration kLimit = 20s;

const std::string kKey(64, 'a');

// Words that go from node to node; each is taken once, and again if it was lost.
struct Words : BellRelay {
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
    CHECK(room == bell::kMaxRelayed);
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
      if (!std::exchange(calls, false)) return;  // whoever did not see that there is nothing comes
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
  bool calls = true;  // somebody is to be called when there is a word
  std::vector<std::string> words;
  std::vector<std::int64_t> left;
  std::string came;
};

// One node's bell, and what it heard.
struct Ringer {
  explicit Ringer(std::int64_t node, BellOptions options = {}, BellRelay* relay = nullptr,
                  std::function<bool()> waits = {}) {
    if (options.key.empty()) options.key = Secret(kKey);
    options.node = node;
    options.retry_to = 200ms;
    bell = std::move(*Bell::open(std::move(options), clock, random, log, registry,
                                 [this](const Heard& what) { note(what); }));
    if (relay != nullptr) bell->carry(*relay);
    if (waits) bell->ask_who_waits(std::move(waits));
    bell->start();
  }
  void note(const Heard& what) {
    MutexLock lock(mutex);
    ++frames;
    for (const std::string& queue : what.queues) ++queues[queue];
    ended.insert(ended.end(), what.ended.begin(), what.ended.end());
    ended_told.insert(ended_told.end(), what.ended_told.begin(), what.ended_told.end());
    changed.notify_all();
  }
  // Waits until `done` says so of what was heard; false if it never does.
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
  Bell::Peer as_peer(std::int64_t node) const { return {node, bell->address()}; }
  std::int64_t dropped(const std::string& why) {
    return registry.counter("mainspring_bell_dropped_total", "", {{"why", why}}).value();
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
  std::vector<JobId> ended, ended_told;
  std::unique_ptr<Bell> bell;
};

// Somebody who speaks to a bell by hand, byte by byte.
struct ByHand {
  explicit ByHand(const Bell& bell) : socket(io) {
    const auto at = *bell::parse_host_port("address", bell.address());
    socket.connect(tcp::endpoint(asio::ip::make_address(at.host), at.port));
  }
  // True if it was let in.
  bool greet(const std::string& hex_key, std::int64_t self, std::int64_t other) {
    talk = {.acceptor_nonce = read(bell::kHelloBytes).substr(bell::kGreeting.size()),
            .dialer_nonce = std::string(bell::kNonceBytes, 'n'),
            .acceptor = other,
            .dialer = self};
    const Digest key = *digest_from_hex(hex_key);
    std::string answer;
    bell::put_u64(answer, static_cast<std::uint64_t>(self));
    answer += talk.dialer_nonce;
    answer += bytes_of(bell::proof(key, bell::Role::dials, talk));
    write(answer);
    session = bell::proof(key, bell::Role::session, talk);
    return read(bell::kMacBytes) == bytes_of(bell::proof(key, bell::Role::accepts, talk));
  }
  // As far as it comes before the other end closes.
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
  bell::Talk talk;
  Digest session{};
};

}  // namespace

TEST_CASE("what one node rings, all others hear") {
  Ringer a(1), b(2), c(3);
  a.bell->set_peers({b.as_peer(2), c.as_peer(3), a.as_peer(1)});
  a.bell->ring({.queues = {"mail"}, .ended = {7}});
  CHECK(b.hears("mail"));
  CHECK(c.hears("mail"));
  CHECK(a.frames == 0);  // it does not ring itself
}

TEST_CASE("what is rung while a frame is under way goes with the next one") {
  constexpr Duration kGap = 300ms;  // far longer than a frame and its answer take, on any machine
  Ringer a(1, {.least_gap = kGap}), b(2);
  a.bell->set_peers({b.as_peer(2)});
  const Instant begin = a.clock.now().instant;
  a.bell->ring({.queues = {"first"}});
  REQUIRE(b.hears("first"));
  const Instant heard = a.clock.now().instant;
  int rung = 0;
  while (a.clock.now().instant < heard + 50ms)
    a.bell->ring({.queues = {fmt::format("q{}", rung++ % 10)}});
  a.bell->ring({.queues = {"last"}});
  REQUIRE(b.hears("last"));
  const Duration passed = a.clock.now().instant - begin;
  CHECK(passed >= kGap);
  MutexLock lock(b.mutex);
  CHECK(b.frames <= passed / kGap + 2);
  CHECK(b.frames < rung / 10);
  for (int i = 0; i < 10; ++i) CHECK(b.queues.contains(fmt::format("q{}", i)));
}

// Frames of two peers: what stands behind the second peer's first frame came later than all of the
// first peer's.
TEST_CASE("where nobody waits a frame is answered late, and at once when somebody begins to") {
  std::atomic<bool> waits{false};
  Ringer a(1, {.rest = 1h}, nullptr, [&] { return waits.load(); });
  ByHand peer(*a.bell);
  REQUIRE(peer.greet(kKey, 2, 1));
  peer.write(bell::encode_frame(peer.session, 1, {.queues = {"one"}}) +
             bell::encode_frame(peer.session, 2, {.queues = {"two"}}));
  REQUIRE(a.hears("one"));
  ByHand other(*a.bell);
  REQUIRE(other.greet(kKey, 3, 1));
  other.write(bell::encode_frame(other.session, 1, {.queues = {"other"}}));
  REQUIRE(a.hears("other"));
  {
    MutexLock lock(a.mutex);
    CHECK_FALSE(a.queues.contains("two"));
  }
  waits = true;
  a.bell->somebody_waits();
  REQUIRE(a.hears("two"));  // which is answered without rest
  CHECK(peer.read(2 * bell::kAckBytes) ==
        bell::encode_ack(peer.session, 1) + bell::encode_ack(peer.session, 2));
  CHECK(other.read(bell::kAckBytes) == bell::encode_ack(other.session, 1));
}

TEST_CASE("where nobody waits, what is rung is heard all the same") {
  Ringer a(1), b(2, {.rest = 1ms}, nullptr, [] { return false; });
  a.bell->set_peers({b.as_peer(2)});
  for (int i = 0; i < 100; ++i) {
    const std::string queue = fmt::format("q{}", i);
    a.bell->ring({.queues = {queue}});
    REQUIRE(b.hears(queue));
  }
}

TEST_CASE("a node that comes later hears what was rung before") {
  Ringer a(1);
  std::string address;
  {
    const Ringer gone(2);
    address = gone.bell->address();
  }
  a.bell->set_peers({{2, address}});
  a.bell->ring({.queues = {"early"}});
  CHECK_FALSE(a.bell->reaches_all());
  Ringer b(2, {.listen = address});
  CHECK(b.hears("early"));
  CHECK(a.bell->reaches_all());
}

TEST_CASE("a node that was restarted elsewhere is rung at its new address") {
  Ringer a(1);
  auto b = std::make_unique<Ringer>(2);
  a.bell->set_peers({b->as_peer(2)});
  a.bell->ring({.queues = {"one"}});
  REQUIRE(b->hears("one"));
  b = std::make_unique<Ringer>(3);
  a.bell->set_peers({b->as_peer(3)});
  a.bell->ring({.queues = {"two"}});
  CHECK(b->hears("two"));
}

TEST_CASE("what is relayed goes to those that ask, and ends that they hear by it are marked") {
  Words says, hears;
  Ringer a(1, {}, &says), b(2, {}, &hears), c(3);
  a.bell->set_peers({b.as_peer(2), c.as_peer(3)});
  b.bell->set_peers({a.as_peer(1)});
  says.say("early");
  a.bell->ring({.queues = {"one"}, .ended = {1}});
  REQUIRE(b.hears("one"));
  REQUIRE(c.hears("one"));
  CHECK(hears.came.empty());
  hears.ask(BellRelay::Ask::here);
  REQUIRE(says.wait([](Words& w) { return w.asker(2) == BellRelay::Ask::here; }));
  REQUIRE(hears.wait([](Words& w) { return w.came == "1:early "; }));
  for (int i = 0; i < 100; ++i) {
    says.say(fmt::format("{}", i));
    a.bell->ring({.queues = {fmt::format("q{}", i)}});
  }
  a.bell->ring({.queues = {"two"}, .ended = {2}});
  REQUIRE(b.hears("two"));
  REQUIRE(c.hears("two"));
  REQUIRE(hears.wait([](Words& w) { return w.came.ends_with("1:99 "); }));
  std::string wanted = "1:early ";
  for (int i = 0; i < 100; ++i) wanted += fmt::format("1:{} ", i);
  CHECK(hears.came == wanted);
  CHECK(b.ended == std::vector<JobId>{1});
  CHECK(b.ended_told == std::vector<JobId>{2});
  CHECK(c.ended == std::vector<JobId>{1, 2});
  a.bell->set_peers({c.as_peer(3)});
  CHECK(says.wait([](Words& w) { return w.left == std::vector<std::int64_t>{2}; }));
}

TEST_CASE("what is not for a peer keeps nothing from it that comes behind") {
  Words says, hears;
  Ringer a(1, {}, &says), b(2, {}, &hears);
  a.bell->set_peers({b.as_peer(2)});
  b.bell->set_peers({a.as_peer(1)});
  hears.ask(BellRelay::Ask::here);
  std::string wanted;
  for (int i = 0; i < 50; ++i) {
    says.say("");
    REQUIRE(says.wait([](Words& w) { return w.next[2] == w.words.size(); }));
    says.say(fmt::format("{}", i));
    wanted += fmt::format("1:{} ", i);
    REQUIRE(hears.wait([&](Words& w) { return w.came == wanted; }));
  }
}

TEST_CASE("a node that comes back is asked anew, and hears what it had not") {
  Words says, first, second;
  Ringer a(1, {}, &says);
  auto b = std::make_unique<Ringer>(2, BellOptions{}, &first);
  const std::string address = b->bell->address();
  a.bell->set_peers({b->as_peer(2)});
  b->bell->set_peers({a.as_peer(1)});
  first.ask(BellRelay::Ask::along);
  says.say("one");
  REQUIRE(first.wait([](Words& w) { return w.came == "1:one "; }));
  b.reset();
  says.say("two");
  second.want = BellRelay::Ask::here;
  b = std::make_unique<Ringer>(2, BellOptions{.listen = address}, &second);
  b->bell->set_peers({a.as_peer(1)});
  REQUIRE(second.wait([](Words& w) { return w.came == "1:two "; }));
  REQUIRE(says.wait([](Words& w) { return w.asker(2) == BellRelay::Ask::here; }));
}

TEST_CASE("who does not know the key is dropped, and hears nothing") {
  Ringer a(1);
  ByHand stranger(*a.bell);
  CHECK_FALSE(stranger.greet(std::string(64, 'b'), 2, 1));
  CHECK(stranger.is_closed());
  CHECK(a.dropped("stranger") == 1);
}

TEST_CASE("a handshake that was meant for another node is refused") {
  Ringer a(1);
  ByHand relayed(*a.bell);
  CHECK_FALSE(relayed.greet(kKey, 2, 3));
  CHECK(a.dropped("stranger") == 1);
}

TEST_CASE("a handshake that was recorded is refused") {
  Ringer a(1);
  ByHand first(*a.bell);
  REQUIRE(first.greet(kKey, 2, 1));
  std::string answer;
  bell::put_u64(answer, 2);
  answer += first.talk.dialer_nonce;
  answer += bytes_of(bell::proof(*digest_from_hex(kKey), bell::Role::dials, first.talk));
  ByHand second(*a.bell);
  CHECK(second.read(bell::kHelloBytes).size() == bell::kHelloBytes);
  second.write(answer);
  CHECK(second.is_closed());
  CHECK(a.dropped("stranger") == 1);
}

TEST_CASE("a dialer does not ring whoever cannot prove the key") {
  Ringer a(1, {.patience = 200ms});
  asio::io_context io;
  tcp::acceptor trap(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  a.bell->set_peers({{2, fmt::format("127.0.0.1:{}", trap.local_endpoint().port())}});
  a.bell->ring({.queues = {"private"}});
  tcp::socket socket = trap.accept();
  asio::write(socket, asio::buffer(std::string(bell::kGreeting) + std::string(32, 'n')));
  std::string answer(bell::kAnswerBytes, '\0');
  asio::read(socket, asio::buffer(answer));
  asio::write(socket, asio::buffer(std::string(bell::kMacBytes, 'x')));
  char more = 0;
  boost::system::error_code end;
  CHECK(asio::read(socket, asio::buffer(&more, 1), end) == 0);
  CHECK_FALSE(a.bell->reaches_all());
}

TEST_CASE("frames that are forged, repeated, oversized or no frames end the connection, counted") {
  Ringer a(1);
  ByHand peer(*a.bell);
  REQUIRE(peer.greet(kKey, 2, 1));
  const std::string good = bell::encode_frame(peer.session, 1, {.queues = {"good"}});
  peer.write(good);
  REQUIRE(a.hears("good"));
  CHECK(peer.read(bell::kAckBytes) == bell::encode_ack(peer.session, 1));
  std::string why;
  SUBCASE("repeated") {
    peer.write(good);
    why = "forged";
  }
  SUBCASE("out of order") {
    peer.write(bell::encode_frame(peer.session, 3, {.queues = {"bad"}}));
    why = "forged";
  }
  SUBCASE("changed on its way") {
    std::string changed = bell::encode_frame(peer.session, 2, {.queues = {"bad"}});
    changed[16] = 'B';
    peer.write(changed);
    why = "forged";
  }
  SUBCASE("of another session") {
    peer.write(bell::encode_frame(sha256("other"), 2, {.queues = {"bad"}}));
    why = "forged";
  }
  SUBCASE("oversized") {
    std::string length;
    bell::put_u32(length, bell::kMaxBody + 1);
    peer.write(length);
    why = "oversized";
  }
  SUBCASE("no frame") {
    std::string frame;
    bell::put_u32(frame, 3);
    frame += "abc";
    frame += bytes_of(bell::frame_mac(peer.session, 2, "abc"));
    peer.write(frame);
    why = "malformed";
  }
  CHECK(peer.is_closed());
  CHECK(a.dropped(why) == 1);
  MutexLock lock(a.mutex);
  CHECK(a.queues.size() == 1);
}

TEST_CASE("a peer that floods is dropped") {
  Ringer a(1, {.max_rate = 50});
  ByHand peer(*a.bell);
  REQUIRE(peer.greet(kKey, 2, 1));
  for (std::uint64_t i = 1; i <= 1000; ++i)
    peer.write(bell::encode_frame(peer.session, i, {.queues = {"q"}}));
  while (!peer.read(bell::kAckBytes).empty()) {
  }
  CHECK(a.dropped("flood") == 1);
  MutexLock lock(a.mutex);
  CHECK(a.frames < 200);
}

TEST_CASE("a peer that never reads nor answers holds up nobody") {
  Ringer a(1, {.patience = 300ms}), b(2);
  asio::io_context io;
  tcp::acceptor deaf(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  a.bell->set_peers({{3, fmt::format("127.0.0.1:{}", deaf.local_endpoint().port())}, b.as_peer(2)});
  for (int i = 0; i < 100; ++i) {
    a.bell->ring({.queues = {fmt::format("q{}", i)}});
    REQUIRE(b.hears(fmt::format("q{}", i)));
  }
  CHECK_FALSE(a.bell->reaches_all());
}

TEST_CASE("who says nothing after the greeting is let go") {
  Ringer a(1, {.patience = 100ms});
  ByHand silent(*a.bell);
  CHECK(silent.read(bell::kHelloBytes).size() == bell::kHelloBytes);
  CHECK(silent.is_closed());
  CHECK(a.dropped("late") == 1);
}

TEST_CASE("strangers do not use up the room of those who know the key") {
  Ringer a(1);
  std::vector<std::unique_ptr<ByHand>> strangers;
  for (int i = 0; i < 40; ++i) strangers.push_back(std::make_unique<ByHand>(*a.bell));
  CHECK(strangers.back()->is_closed());
  CHECK(a.dropped("full") >= 1);
  strangers.clear();
  Ringer b(2);
  b.bell->set_peers({a.as_peer(1)});
  b.bell->ring({.queues = {"mail"}});
  CHECK(a.hears("mail"));
}

TEST_CASE("stop waits, may come twice, and before start") {
  SystemClock clock;
  SystemRandom random;
  NullLog log;
  Registry registry;
  const auto bell = std::move(*Bell::open({.key = Secret(kKey), .node = 1}, clock, random, log,
                                          registry, [](const Heard&) {}));
  bell->ring({.queues = {"q"}});
  bell->set_peers({{2, "127.0.0.1:1"}});
  bell->stop();
  bell->start();
  bell->stop();
}

TEST_CASE("mistakes in the options are all named") {
  const auto errors = BellOptions{.listen = "nowhere:1",
                                  .advertise = ":7",
                                  .key = Secret("short"),
                                  .max_connections = 0,
                                  .max_rate = 0}
                          .validate();
  std::string all;
  for (const Error& error : errors) all += error.message + "\n";
  for (const char* field : {"bell_listen nowhere:1", "bell_advertise \":7\"", "bell_key",
                            "bell_max_connections 0", "bell_max_rate 0"})
    CHECK_MESSAGE(all.find(field) != std::string::npos, field, " is missing in ", all);
  CHECK(all.find("short") == std::string::npos);
  const auto anywhere = BellOptions{.listen = "0.0.0.0:7461", .key = Secret(kKey)}.validate();
  REQUIRE(anywhere.size() == 1);
  CHECK(anywhere[0].message.find("bell_advertise") != std::string::npos);
}
