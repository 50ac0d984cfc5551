// The doorman: tokens, failures, rates, connections, all on a clock that is moved by hand.
#include "http/doorman.h"

#include <doctest/doctest.h>
#include <openssl/evp.h>

#include "env/clock.h"
#include "model/token_text.h"

using namespace mainspring;
using namespace mainspring::http;
using namespace std::chrono_literals;

namespace {

std::uint64_t first_seed(std::string_view name) {
  std::uint64_t seed = 7;
  for (const char c : name) seed = seed * 131 + static_cast<unsigned char>(c);
  return seed;
}

const PeerName kLocal{"127.0.0.1", true, {}};
const PeerName kRemote{"192.0.2.7", false, {}};

// The text of the token of this name.
std::string text_of(std::string_view name) {
  SeededRandom random(first_seed(name));
  return make_token_text(random).reveal();
}
std::string bearer(std::string_view name) {
  return "Bearer " + text_of(name);
}

std::string base64(const std::string& text) {
  std::string out(4 * ((text.size() + 2) / 3) + 1, '\0');
  const int bytes = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                    reinterpret_cast<const unsigned char*>(text.data()),
                                    static_cast<int>(text.size()));
  out.resize(static_cast<std::size_t>(bytes));
  return out;
}

struct Door {
  explicit Door(DoormanOptions options = {})
      : doorman(options, {[this] { return tokens; }, [this] { return version; }}, registry) {
    add("ci", "enqueue=photos");
  }
  void add(const std::string& name, std::string_view scopes,
           WallTime expires_at = WallTime::never(), int rate = 0) {
    change([&](Tokens& all) {
      TokenRecord token;
      token.name = name;
      token.digest = sha256(text_of(name));
      token.scopes = *Scopes::parse(scopes);
      token.expires_at = expires_at;
      token.rate = rate;
      all[name] = token;
    });
  }
  void revoke(const std::string& name) {
    change([&](Tokens& all) { all[name].revoked_at = clock.now().wall; });
  }
  template <class F>
  void change(F edit) {
    Tokens all = *tokens;
    edit(all);
    tokens = std::make_shared<const Tokens>(std::move(all));
    ++version;
  }
  Result<Pass> come(const PeerName& peer, std::string_view header, const Pass& earlier = {}) {
    const Secret secret{std::string(header)};
    return doorman.admit(peer, &secret, false, earlier, clock.now());
  }
  Result<Pass> come(const PeerName& peer, bool forwarded = false) {
    return doorman.admit(peer, nullptr, forwarded, {}, clock.now());
  }
  std::int64_t counted(const std::string& name) { return registry.counter(name, "").value(); }

  std::shared_ptr<const Tokens> tokens = std::make_shared<const Tokens>();
  std::int64_t version = 1;
  ManualClock clock;
  Registry registry;
  Doorman doorman;
};

ErrorCode refusal(const Result<Pass>& result) {
  REQUIRE_FALSE(result.has_value());
  return result.error().code;
}

}  // namespace

TEST_CASE("without a token only peers on this machine come in, and they not if one is required") {
  Door open, closed({.require_token = true});
  REQUIRE(open.come(kLocal).has_value());
  CHECK(open.come(kLocal)->caller->who == "local");
  CHECK(open.come(kLocal)->caller->may_all(Verb::define_exec));
  CHECK(refusal(open.come(kRemote)) == ErrorCode::unauthenticated);
  CHECK(refusal(closed.come(kLocal)) == ErrorCode::unauthenticated);
  CHECK(closed.come(kLocal, bearer("ci")).has_value());
  CHECK(refusal(open.come(kLocal, true)) == ErrorCode::unauthenticated);
}

TEST_CASE("a token that is presented is checked, also of local peers; nothing is no token") {
  Door door({.free_failures = 1000});
  for (const PeerName& peer : {kLocal, kRemote}) {
    const std::string good = text_of("ci");
    for (const std::string& header : std::initializer_list<std::string>{
             "", " ", "Bearer", "Bearer ", "Bearer  \t", "Basic",
             "Basic Og==", "Basic dXNlcjo=", "Basic !!!", "Bearer wrong", bearer("ci2"),
             bearer("ci") + "A", bearer("ci").substr(0, 53), good, "Digest " + good,
             bearer("ci") + "," + bearer("ci"), bearer("ci") + " " + good}) {
      CAPTURE(header);
      CHECK(refusal(door.come(peer, header)) == ErrorCode::unauthenticated);
    }
    const auto pass = door.come(peer, "bearer   " + good + " ");
    REQUIRE(pass.has_value());
    CHECK(pass->caller->who == "ci");
    CHECK(pass->caller->from == peer.text);
    CHECK(pass->caller->may(Verb::enqueue, "photos"));
    CHECK_FALSE(pass->caller->may(Verb::enqueue, "films"));
    CHECK_FALSE(pass->caller->may_some(Verb::read));
  }
}

TEST_CASE("the password of Basic is the token, whatever the name") {
  Door door;
  for (const std::string name : {"", "user", "Ünïcode", "a b"}) {
    CHECK(door.come(kRemote, "Basic " + base64(name + ":" + text_of("ci"))).has_value());
  }
  CHECK_FALSE(door.come(kRemote, "Basic " + base64(text_of("ci"))).has_value());
}

TEST_CASE("an expired token is refused from that moment on, a revoked one at once") {
  Door door;
  door.add("short", "read", door.clock.now().wall + 10s);
  auto pass = door.come(kRemote, bearer("short"));
  REQUIRE(pass.has_value());
  door.clock.step_wall(10s - 1us);
  CHECK(door.doorman.still_good(*pass, door.clock.now().wall));
  CHECK(door.come(kRemote, bearer("short"), *pass).has_value());
  door.clock.step_wall(1us);
  CHECK_FALSE(door.doorman.still_good(*pass, door.clock.now().wall));
  CHECK(refusal(door.come(kRemote, bearer("short"), *pass)) == ErrorCode::unauthenticated);

  auto ci = door.come(kRemote, bearer("ci"));
  REQUIRE(ci.has_value());
  door.add("another", "read");
  CHECK(door.doorman.still_good(*ci, door.clock.now().wall));
  door.revoke("ci");
  CHECK_FALSE(door.doorman.still_good(*ci, door.clock.now().wall));
  CHECK(refusal(door.come(kRemote, bearer("ci"), *ci)) == ErrorCode::unauthenticated);
}

TEST_CASE("the scopes of a token that was made anew are the new ones") {
  Door door;
  const auto before = door.come(kRemote, bearer("ci"));
  REQUIRE(before.has_value());
  CHECK(door.come(kRemote, bearer("ci"), *before)->caller == before->caller);
  door.add("ci", "read=films");
  const auto after = door.come(kRemote, bearer("ci"), *before);
  REQUIRE(after.has_value());
  CHECK(after->caller->may(Verb::read, "films"));
  CHECK_FALSE(after->caller->may(Verb::enqueue, "photos"));
}

TEST_CASE("ten failures of an address are free, then it waits; a good token passes all the same") {
  Door door;
  for (int i = 0; i < 10; ++i) {
    CHECK(refusal(door.come(kRemote, "Bearer no")) == ErrorCode::unauthenticated);
  }
  const auto late = door.come(kRemote, "Bearer no");
  CHECK(refusal(late) == ErrorCode::overloaded);
  CHECK(late.error().retry_after_ms == 6000);
  CHECK(refusal(door.come(kRemote)) == ErrorCode::overloaded);
  CHECK(door.come(kRemote, bearer("ci")).has_value());
  CHECK(refusal(door.come({"192.0.2.8", false, {}}, "Bearer no")) == ErrorCode::unauthenticated);
  CHECK(door.counted("mainspring_http_unauthenticated_total") == 11);
  CHECK(door.counted("mainspring_http_throttled_total") == 2);
  door.clock.advance(6s);
  CHECK(refusal(door.come(kRemote, "Bearer no")) == ErrorCode::unauthenticated);
  CHECK(refusal(door.come(kRemote, "Bearer no")) == ErrorCode::overloaded);
}

TEST_CASE("the table of failures is bounded; those who find no room are counted as one") {
  Failures failures(3);
  ManualClock clock;
  for (std::size_t i = 0; i < Failures::kMaxAddresses; ++i) {
    CHECK_FALSE(failures.add("10." + std::to_string(i), clock.now().instant).has_value());
  }
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(failures.add("11." + std::to_string(i), clock.now().instant).has_value());
  }
  CHECK(failures.add("11.x", clock.now().instant).has_value());
  CHECK(failures.addresses() == Failures::kMaxAddresses + 1);
  clock.advance(1h);
  CHECK_FALSE(failures.add("11.x", clock.now().instant).has_value());
  CHECK(failures.addresses() == 1);
}

TEST_CASE("addresses of one person are one: a network of IPv6, IPv4 in IPv6") {
  CHECK(address_group("192.0.2.7") == "192.0.2.7");
  CHECK(address_group("::ffff:192.0.2.7") == "192.0.2.7");
  CHECK(address_group("2001:db8:1:2:3:4:5:6") == "2001:db8:1:2::/64");
  CHECK(address_group("2001:db8:1:2:ffff::1") == "2001:db8:1:2::/64");
  CHECK(address_group("fe80::1%eth0") == "fe80::/64");
  CHECK(address_group("unix uid=1000") == "unix uid=1000");
}

TEST_CASE("a token has its rate, or the server's; a second's worth may come at once") {
  Door door({.rate_per_token = 5});
  door.add("fast", "read", WallTime::never(), 50);
  const auto burst = [&](const std::string& header) {
    int passed = 0;
    while (passed < 1000 && door.come(kRemote, header)) ++passed;
    return passed;
  };
  CHECK(burst(bearer("ci")) == 5);
  CHECK(burst(bearer("fast")) == 50);
  const auto refused = door.come(kRemote, bearer("ci"));
  CHECK(refusal(refused) == ErrorCode::overloaded);
  CHECK(refused.error().retry_after_ms > 0);
  CHECK(refused.error().retry_after_ms <= 200);
  // It is the same bucket when other tokens change.
  door.add("third", "read");
  CHECK(burst(bearer("ci")) == 0);
  door.clock.advance(400ms);
  CHECK(burst(bearer("ci")) == 2);
  CHECK(door.come(kLocal).has_value());
}

TEST_CASE("what everybody may ask is answered whatever is presented, and shows nobody's rights") {
  Door door;
  const Secret bad("Bearer no"), good(bearer("ci"));
  CHECK(door.doorman.admit_anybody(kRemote, nullptr, door.clock.now()).caller->who.empty());
  CHECK_FALSE(
      door.doorman.admit_anybody(kRemote, nullptr, door.clock.now()).caller->may_some(Verb::read));
  CHECK(door.doorman.admit_anybody(kLocal, &bad, door.clock.now()).caller->who.empty());
  CHECK(door.doorman.admit_anybody(kRemote, &good, door.clock.now()).caller->who == "ci");
  CHECK(door.doorman.admit_anybody(kLocal, nullptr, door.clock.now()).caller->who == "local");
}

TEST_CASE("an address has so many connections; places are free again") {
  AddressBook book(2);
  CHECK(book.enter("192.0.2.7"));
  CHECK(book.enter("::ffff:192.0.2.7"));
  CHECK_FALSE(book.enter("192.0.2.7"));
  CHECK(book.enter("192.0.2.8"));
  book.leave("192.0.2.7");
  CHECK(book.enter("192.0.2.7"));
  book.leave("192.0.2.99");
}
