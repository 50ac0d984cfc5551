// Scopes: their text, what they allow, what they cover.
#include "model/access.h"

#include <doctest/doctest.h>

#include <set>

#include "model/token_text.h"

using namespace mainspring;

namespace {
Scopes scopes(std::string_view text) {
  auto parsed = Scopes::parse(text);
  REQUIRE(parsed);
  return *parsed;
}
}  // namespace

TEST_CASE("default scopes allow nothing") {
  const Scopes none;
  for (int i = 0; i < kVerbs; ++i) {
    CHECK_FALSE(none.allows(static_cast<Verb>(i), "photos"));
    CHECK_FALSE(none.allows_some(static_cast<Verb>(i)));
  }
  CHECK(none.covers(none));
}

TEST_CASE("a pattern is a name, a prefix and a star, or a star") {
  const Scopes some = scopes("enqueue=photos work=img-* read");
  CHECK(some.allows(Verb::enqueue, "photos"));
  CHECK_FALSE(some.allows(Verb::enqueue, "photos2"));
  CHECK_FALSE(some.allows(Verb::enqueue, "photo"));
  CHECK_FALSE(some.allows(Verb::enqueue, ""));
  CHECK(some.allows(Verb::work, "img-a"));
  CHECK(some.allows(Verb::work, "img-"));
  CHECK_FALSE(some.allows(Verb::work, "img"));
  CHECK(some.allows(Verb::read, "whatever"));
  CHECK(some.allows_all(Verb::read));
  CHECK_FALSE(some.allows_all(Verb::work));
  CHECK(some.allows_some(Verb::work));
  CHECK_FALSE(some.allows_some(Verb::admin));
}

TEST_CASE("one verb never grants another") {
  for (int i = 0; i < kVerbs; ++i) {
    const Scopes one({Scope{static_cast<Verb>(i), "*"}});
    for (int j = 0; j < kVerbs; ++j) CHECK(one.allows_some(static_cast<Verb>(j)) == (i == j));
  }
}

TEST_CASE("the text of scopes parses to the same scopes") {
  for (const auto* text :
       {"enqueue", "read:payload=photos define-exec=folder/a", "work=a*,read=b"}) {
    const Scopes first = scopes(text);
    CHECK(scopes(first.text()) == first);
  }
  CHECK(scopes(Scopes::all().text()) == Scopes::all());
  CHECK(scopes("read  read,read").text() == "read");
  CHECK(scopes("all") == Scopes::all());
  CHECK(scopes("read all").covers(Scopes::all()));
}

TEST_CASE("invalid scopes are refused by name") {
  for (const auto* text : {"", " , ", "fly", "read=", "READ", "read=*a", "read=a**", "read=-a",
                           "read=a b=", "enqueue =a", "read=\"", "read:", "=a", "payload"}) {
    CAPTURE(text);
    const auto parsed = Scopes::parse(text);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == ErrorCode::invalid_argument);
    CHECK(parsed.error().field == "scopes");
  }
}

TEST_CASE("scopes cover no more than they allow") {
  CHECK(scopes("admin read").covers(scopes("admin=a read=b*")));
  CHECK(scopes("read=a*").covers(scopes("read=ab* read=a* read=ac")));
  CHECK_FALSE(scopes("read=ab*").covers(scopes("read=a*")));
  CHECK_FALSE(scopes("read=a").covers(scopes("read=a*")));
  CHECK_FALSE(scopes("read=a*").covers(scopes("read")));
  CHECK_FALSE(scopes("admin").covers(scopes("define-exec=a")));
  CHECK(Scopes::all().covers(scopes("define-exec admin")));
}

TEST_CASE("an operation without scopes is unrestricted, with empty ones it reaches nothing") {
  CHECK(Within{}.has("photos"));
  const Within nothing{std::make_shared<const Scopes>(), Verb::work};
  CHECK_FALSE(nothing.has("photos"));
}

TEST_CASE("a token's text has 256 random bits") {
  SeededRandom random(1);
  std::set<std::string> seen;
  std::set<char> last, first;
  for (int i = 0; i < 2000; ++i) {
    const Secret text = make_token_text(random);
    CHECK(text.reveal().size() == kTokenBytes);
    CHECK(text.reveal().starts_with("mst_"));
    CHECK(digest_of_token(text.reveal()) == sha256(text.reveal()));
    seen.insert(text.reveal());
    first.insert(text.reveal()[4]);
    last.insert(text.reveal().back());
  }
  CHECK(seen.size() == 2000);
  CHECK(first.size() == 64);
  CHECK(last.size() == 64);
}

TEST_CASE("a text that cannot be a token has no digest") {
  SeededRandom random(2);
  const std::string good = make_token_text(random).reveal();
  for (const std::string& bad :
       {std::string(), std::string("mst_"), good.substr(1), good + "A", "xst_" + good.substr(4),
        good.substr(0, 46) + "+", good.substr(0, 46) + std::string(1, '\0'),
        good.substr(0, 46) + " "}) {
    CHECK(digest_of_token(bad) == std::nullopt);
  }
}

TEST_CASE("a secret that is moved or replaced is erased from memory") {
  Secret a(std::string(100, 's'));
  Secret b(std::move(a));
  CHECK(b.reveal().size() == 100);
  CHECK(a.empty());  // NOLINT: that is the promise
  const char* const bytes = b.reveal().data();
  b = Secret(std::string(100, 't'));
  CHECK(std::string_view(bytes, 100).find("sss") == std::string_view::npos);
}
