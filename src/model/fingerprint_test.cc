// Errors that differ only in numbers and names are the same error.
#include "model/fingerprint.h"

#include <doctest/doctest.h>

using namespace mainspring;

TEST_CASE("parts that differ from job to job are masked, and nothing else") {
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
    const std::string said = message;  // a copy: clang 14 cannot capture bindings
    CAPTURE(said);
    CHECK(mask_error(said) == masked);
  }
}

TEST_CASE("jobs that died of the same error have one fingerprint, others another") {
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

TEST_CASE("the main line of an error is the first, or the exception of a traceback") {
  const std::string frames =
      "  File \"/srv/a.py\", line 3, in <module>\n    read()\n    ^^^^^^\n"
      "  File \"/srv/b.py\", line 9, in read\n    raise ValueError(\"no page\")\n";
  const std::string traceback = "Traceback (most recent call last):\n" + frames;
  for (const auto& [error, line] : std::initializer_list<std::pair<std::string, std::string>>{
           {"", ""},
           {"no disk\nat line 7", "no disk"},
           {traceback + "ValueError: no page\n", "ValueError: no page"},
           {"exit code 1: " + traceback + "ValueError: no page\nwith more\n",
            "exit code 1: ValueError: no page"},
           {"exit code 1: " + frames + "ValueError: no page", "exit code 1: ValueError: no page"},
           {traceback + "KeyError: 1\n\nDuring handling of it, another exception occurred:\n\n" +
                traceback + "ValueError: no page",
            "ValueError: no page"},
           {"Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n",
            "Traceback (most recent call last):"},
           {"the file  File \"x\" is missing", "the file  File \"x\" is missing"}}) {
    CAPTURE(error);
    CHECK(telling_line(error) == line);
  }
}

TEST_CASE("long tracebacks that differ only in their exception have different fingerprints") {
  std::string traceback = "Traceback (most recent call last):\n";
  while (traceback.size() < 2 * kMaxMaskedBytes)
    traceback += "  File \"/srv/a.py\", line 3, in read\n    read()\n";
  const Job one{.kind = "k", .reason = "r", .description = traceback + "ValueError: no page"};
  const Job two{.kind = "k", .reason = "r", .description = traceback + "OSError: no disk"};
  CHECK(fingerprint_of(one) != fingerprint_of(two));
}
