// Paths are parsed in one way. A second parser agrees or refuses.
#include "http/path.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <regex>

#include "http/routes.h"

using namespace mainspring;
using namespace mainspring::http;

namespace {

using Segments = std::vector<std::string>;

Segments segments_of(const Path& path) {
  return {path.segments.begin(), path.segments.begin() + static_cast<std::ptrdiff_t>(path.count)};
}

// The second parser decodes everything first, then looks for forbidden parts anywhere. It shares no
// code with the tested one. nullopt = refused.
std::optional<Segments> read_slowly(const std::string& raw) {
  static const std::regex kGood("(/([^%/]|%[0-9A-Fa-f]{2})*)+");
  if (!std::regex_match(raw, kGood)) return std::nullopt;
  Segments out;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] == '/') {
      out.emplace_back();
    } else if (raw[i] == '%') {
      out.back() += static_cast<char>(std::stoi(raw.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      out.back() += raw[i];
    }
  }
  static const std::string kBad("\\\x7f");
  for (const std::string& segment : out) {
    if (segment == "." || segment == "..") return std::nullopt;
    for (const char c : segment) {
      const int byte = static_cast<unsigned char>(c);
      if (byte < 32 || kBad.find(c) != std::string::npos) return std::nullopt;
      if (byte > 127) return std::nullopt;  // generated paths have no valid UTF-8 beyond ASCII
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a path is split, then decoded, once") {
  const auto path = read_path("/v1/queues/a%2Fb/%252e%252e");
  REQUIRE(path);
  CHECK(segments_of(*path) == Segments{"v1", "queues", "a/b", "%2e%2e"});
  CHECK(path->rests[2] == "a%2Fb/%252e%252e");
  const auto blank = read_path("/");
  REQUIRE(blank);
  CHECK(segments_of(*blank) == Segments{""});
}

TEST_CASE("paths that programs read in different ways are refused") {
  for (std::string_view raw : {"",
                               "v1",
                               "*",
                               "/..",
                               "/../v1",
                               "/v1/..",
                               "/v1/.",
                               "/v1/./jobs",
                               "/v1/%2e%2e/jobs",
                               "/v1/.%2E",
                               "/v1/%2e",
                               "/v1\\jobs",
                               "/v1/%5c..",
                               "/v1/%00",
                               "/v1/a%0d%0ab",
                               "/v1/a%0",
                               "/v1/%",
                               "/v1/%g0",
                               "/v1/\x7f",
                               "/v1/%7f",
                               "/v1/\xff",
                               "/v1/%c0%ae%c0%ae",
                               "/v1/%ed%a0%80",
                               "/v1/a\tb",
                               "/a/b/c/d/e/f/g/h/i/%2e%2e",
                               "/a/b/c/d/e/f/g/h/\x01"}) {
    CAPTURE(raw);
    const auto path = read_path(raw);
    REQUIRE_FALSE(path);
    CHECK(path.error().code == ErrorCode::invalid_argument);
  }
}

TEST_CASE("paths that only look odd are accepted unchanged") {
  for (std::string_view raw : {"/v1/...", "/v1/a..b", "/v1/.a", "/v1/%C3%A9", "/v1/é", "/v1/a b",
                               "/v1/%20", "/v1//jobs", "/a/b/c/d/e/f/g/h"}) {
    CAPTURE(raw);
    CHECK(read_path(raw));
  }
}

TEST_CASE("two parsers of the same path agree, or both refuse it") {
  const bool held = rc::check([] {
    const auto piece = rc::gen::element<std::string>(
        "/", "/", "/", "a", "v1", "jobs", ".", ".", "..", "%2e", "%2E", "%2f", "%2F", "%25", "%00",
        "%5c", "\\", "%", "%4", "%zz", " ", "%c0%ae", "\xc0", "%7F", "\n", ":", "%41", "?");
    std::string raw = "/";
    for (const std::string& part : *rc::gen::container<std::vector<std::string>>(piece))
      raw += part;
    const auto fast = read_path(raw);
    const auto slow = read_slowly(raw);
    RC_ASSERT(fast.has_value() == slow.has_value());
    if (!slow) return;
    RC_ASSERT(fast->longer == (slow->size() > kMaxSegments));
    if (!fast->longer) RC_ASSERT(segments_of(*fast) == *slow);
  });
  CHECK(held);
}

TEST_CASE("no spelling of a path reaches another route than its plain one") {
  const bool held = rc::check([] {
    // Every character of a literal segment, plain or escaped in either case.
    const auto& table = routes();
    const Route& route = table[*rc::gen::inRange<std::size_t>(0, table.size())];
    std::string plain, spelled;
    for (const char c : route.pattern) {
      if (c == '{' || c == '}' || c == '*') continue;
      plain += c;
      const int how = c == '/' ? 0 : *rc::gen::inRange(0, 4);
      char escape[4];
      std::snprintf(escape, sizeof(escape), how == 1 ? "%%%02x" : "%%%02X", c);
      spelled += how == 0 || how == 3 ? std::string(1, c) : escape;
    }
    const Match a = match(route.method, plain), b = match(route.method, spelled);
    RC_ASSERT(a.route == b.route);
    RC_ASSERT(a.request.param == b.request.param);
  });
  CHECK(held);
}
