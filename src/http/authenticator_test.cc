// The authenticator: tokens, failures, rates and connections, on a manual clock.
#include "http/authenticator.h"

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

// The secret of the token of this name.
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

struct Checks {
  explicit Checks(AuthenticatorOptions options = {})
      : authenticator(options, {[this] { return tokens; }, [this] { return version; }}, registry) {
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
    return authenticator.admit(peer, &secret, false, earlier, clock.now());
  }
  Result<Pass> come(const PeerName& peer, bool forwarded = false) {
    return authenticator.admit(peer, nullptr, forwarded, {}, clock.now());
  }
  std::int64_t counted(const std::string& name) { return registry.counter(name, "").value(); }

  std::shared_ptr<const Tokens> tokens = std::make_shared<const Tokens>();
  std::int64_t version = 1;
  ManualClock clock;
  Registry registry;
  Authenticator authenticator;
};

ErrorCode refusal(const Result<Pass>& result) {
  REQUIRE_FALSE(result.has_value());
  return result.error().code;
}

}  // namespace

TEST_CASE("without a token only local peers are allowed, and none if a token is required") {
  Checks open, closed({.require_token = true});
  REQUIRE(open.come(kLocal).has_value());
  CHECK(open.come(kLocal)->caller->who == "local");
  CHECK(open.come(kLocal)->caller->may_all(Verb::define_exec));
  CHECK(refusal(open.come(kRemote)) == ErrorCode::unauthenticated);
  CHECK(refusal(closed.come(kLocal)) == ErrorCode::unauthenticated);
  CHECK(closed.come(kLocal, bearer("ci")).has_value());
  CHECK(refusal(open.come(kLocal, true)) == ErrorCode::unauthenticated);
}

TEST_CASE("a given token is checked, also from local peers; an empty one is not a token") {
  Checks checks({.free_failures = 1000});
  for (const PeerName& peer : {kLocal, kRemote}) {
    const std::string good = text_of("ci");
    for (const std::string& header : std::initializer_list<std::string>{
             "", " ", "Bearer", "Bearer ", "Bearer  \t", "Basic",
             "Basic Og==", "Basic dXNlcjo=", "Basic !!!", "Bearer wrong", bearer("ci2"),
             bearer("ci") + "A", bearer("ci").substr(0, 53), good, "Digest " + good,
             bearer("ci") + "," + bearer("ci"), bearer("ci") + " " + good}) {
      CAPTURE(header);
      CHECK(refusal(checks.come(peer, header)) == ErrorCode::unauthenticated);
    }
    const auto pass = checks.come(peer, "bearer   " + good + " ");
    REQUIRE(pass.has_value());
    CHECK(pass->caller->who == "ci");
    CHECK(pass->caller->from == peer.text);
    CHECK(pass->caller->may(Verb::enqueue, "photos"));
    CHECK_FALSE(pass->caller->may(Verb::enqueue, "films"));
    CHECK_FALSE(pass->caller->may_some(Verb::read));
  }
}

TEST_CASE("the password of Basic is the token, whatever the name") {
  Checks checks;
  for (const std::string name : {"", "user", "Ünïcode", "a b"}) {
    CHECK(checks.come(kRemote, "Basic " + base64(name + ":" + text_of("ci"))).has_value());
  }
  CHECK_FALSE(checks.come(kRemote, "Basic " + base64(text_of("ci"))).has_value());
}

TEST_CASE("an expired token is refused from its expiry on, a revoked one at once") {
  Checks checks;
  checks.add("short", "read", checks.clock.now().wall + 10s);
  auto pass = checks.come(kRemote, bearer("short"));
  REQUIRE(pass.has_value());
  checks.clock.step_wall(10s - 1us);
  CHECK(checks.authenticator.still_good(*pass, checks.clock.now().wall));
  CHECK(checks.come(kRemote, bearer("short"), *pass).has_value());
  checks.clock.step_wall(1us);
  CHECK_FALSE(checks.authenticator.still_good(*pass, checks.clock.now().wall));
  CHECK(refusal(checks.come(kRemote, bearer("short"), *pass)) == ErrorCode::unauthenticated);

  auto ci = checks.come(kRemote, bearer("ci"));
  REQUIRE(ci.has_value());
  checks.add("another", "read");
  CHECK(checks.authenticator.still_good(*ci, checks.clock.now().wall));
  checks.revoke("ci");
  CHECK_FALSE(checks.authenticator.still_good(*ci, checks.clock.now().wall));
  CHECK(refusal(checks.come(kRemote, bearer("ci"), *ci)) == ErrorCode::unauthenticated);
}

TEST_CASE("a token that is created again has its new scopes") {
  Checks checks;
  const auto before = checks.come(kRemote, bearer("ci"));
  REQUIRE(before.has_value());
  CHECK(checks.come(kRemote, bearer("ci"), *before)->caller == before->caller);
  checks.add("ci", "read=films");
  const auto after = checks.come(kRemote, bearer("ci"), *before);
  REQUIRE(after.has_value());
  CHECK(after->caller->may(Verb::read, "films"));
  CHECK_FALSE(after->caller->may(Verb::enqueue, "photos"));
}

TEST_CASE("an address has ten free failures, then it must wait; a valid token still passes") {
  Checks checks;
  for (int i = 0; i < 10; ++i) {
    CHECK(refusal(checks.come(kRemote, "Bearer no")) == ErrorCode::unauthenticated);
  }
  const auto late = checks.come(kRemote, "Bearer no");
  CHECK(refusal(late) == ErrorCode::overloaded);
  CHECK(late.error().retry_after_ms == 6000);
  CHECK(refusal(checks.come(kRemote)) == ErrorCode::overloaded);
  CHECK(checks.come(kRemote, bearer("ci")).has_value());
  CHECK(refusal(checks.come({"192.0.2.8", false, {}}, "Bearer no")) == ErrorCode::unauthenticated);
  CHECK(checks.counted("mainspring_http_unauthenticated_total") == 11);
  CHECK(checks.counted("mainspring_http_throttled_total") == 2);
  checks.clock.advance(6s);
  CHECK(refusal(checks.come(kRemote, "Bearer no")) == ErrorCode::unauthenticated);
  CHECK(refusal(checks.come(kRemote, "Bearer no")) == ErrorCode::overloaded);
}

TEST_CASE("the table of failures is limited; further addresses are counted as one") {
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

TEST_CASE("addresses of one client count as one: an IPv6 network, IPv4 in IPv6") {
  CHECK(address_group("192.0.2.7") == "192.0.2.7");
  CHECK(address_group("::ffff:192.0.2.7") == "192.0.2.7");
  CHECK(address_group("2001:db8:1:2:3:4:5:6") == "2001:db8:1:2::/64");
  CHECK(address_group("2001:db8:1:2:ffff::1") == "2001:db8:1:2::/64");
  CHECK(address_group("fe80::1%eth0") == "fe80::/64");
  CHECK(address_group("unix uid=1000") == "unix uid=1000");
}

TEST_CASE("a token has its own rate or the server's, with a burst of one second") {
  Checks checks({.rate_per_token = 5});
  checks.add("fast", "read", WallTime::never(), 50);
  const auto burst = [&](const std::string& header) {
    int passed = 0;
    while (passed < 1000 && checks.come(kRemote, header)) ++passed;
    return passed;
  };
  CHECK(burst(bearer("ci")) == 5);
  CHECK(burst(bearer("fast")) == 50);
  const auto refused = checks.come(kRemote, bearer("ci"));
  CHECK(refusal(refused) == ErrorCode::overloaded);
  CHECK(refused.error().retry_after_ms > 0);
  CHECK(refused.error().retry_after_ms <= 200);
  // It is the same bucket when other tokens change.
  checks.add("third", "read");
  CHECK(burst(bearer("ci")) == 0);
  checks.clock.advance(400ms);
  CHECK(burst(bearer("ci")) == 2);
  CHECK(checks.come(kLocal).has_value());
}

TEST_CASE("public requests are answered with any credentials; invalid ones grant no rights") {
  Checks checks;
  const Secret bad("Bearer no"), good(bearer("ci"));
  CHECK(
      checks.authenticator.admit_anybody(kRemote, nullptr, checks.clock.now()).caller->who.empty());
  CHECK_FALSE(checks.authenticator.admit_anybody(kRemote, nullptr, checks.clock.now())
                  .caller->may_some(Verb::read));
  CHECK(checks.authenticator.admit_anybody(kLocal, &bad, checks.clock.now()).caller->who.empty());
  CHECK(checks.authenticator.admit_anybody(kRemote, &good, checks.clock.now()).caller->who == "ci");
  CHECK(checks.authenticator.admit_anybody(kLocal, nullptr, checks.clock.now()).caller->who ==
        "local");
}

TEST_CASE("connections per address are limited; a closed one makes room for another") {
  AddressBook book(2);
  CHECK(book.enter("192.0.2.7"));
  CHECK(book.enter("::ffff:192.0.2.7"));
  CHECK_FALSE(book.enter("192.0.2.7"));
  CHECK(book.enter("192.0.2.8"));
  book.leave("192.0.2.7");
  CHECK(book.enter("192.0.2.7"));
  book.leave("192.0.2.99");
}
