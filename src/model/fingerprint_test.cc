// Errors that differ in numbers and names only are the same error.
#include "model/fingerprint.h"

#include <doctest/doctest.h>

using namespace mainspring;

TEST_CASE("what differs from job to job is masked, and nothing else") {
  for (const auto& [message, masked] : std::initializer_list<std::pair<const char*, const char*>>{
           {"", ""},
           {"timed out after 30s", "timed out after *s"},
           {"disk 7 of '/a b': 0x1F", "disk * of *: *"},
           {"no \"photo 17\" in `album`", "no * in *"},
           {"order 2f1b3a04-9c3e-4d2a-8f00-0123456789ab is gone", "order * is gone"},
           {"commit 9fceb02d0ae598e95dc970b74767f19372d61af8", "commit *"},
           {"defaced facade 12", "defaced facade *"},
           {"utf8 of x86: it's bad", "utf8 of x86: it's bad"},
           {"10.0.0.7:5432 refused", "*.*.*.*:* refused"},
           {"  two\n\n\tlines 1 ", "two lines *"},
           {"at 2026-01-31T09:00:00.25Z", "at *-*-*:*:*.*Z"},
           {"'open and 5", "'open and *"}}) {
    const std::string said = message;  // no binding: clang 14 lets no lambda have one
    CAPTURE(said);
    CHECK(mask_error(said) == masked);
  }
}

TEST_CASE("jobs that died of the same thing have one fingerprint, others another") {
  const Job one{.kind = "resize", .reason = "max_attempts", .description = "no disk 7"};
  Job two = one;
  two.description = "no disk 12";
  two.id = 5;
  CHECK(fingerprint_of(one) == fingerprint_of(two));
  CHECK(check_fingerprint("f", fingerprint_of(one)).has_value());
  two.kind = "cut";
  CHECK(fingerprint_of(one) != fingerprint_of(two));
  two = one;
  two.reason = "broken";
  CHECK(fingerprint_of(one) != fingerprint_of(two));
  two = one;
  two.description = "no memory";
  CHECK(fingerprint_of(one) != fingerprint_of(two));
  CHECK_FALSE(check_fingerprint("f", "0123").has_value());
  CHECK_FALSE(check_fingerprint("f", "0123456789ABCDEF").has_value());
}
