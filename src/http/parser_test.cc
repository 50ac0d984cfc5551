// Heads, chunks and percent-encoding: valid input, and refusal of everything ambiguous.
#include "http/parser.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

using namespace mainspring::http;

namespace {

Parsed status_of(std::string_view text, std::size_t limit = 16384) {
  Head head;
  return parse_head(text, limit, head).status;
}

std::string problem_of(std::string_view text) {
  Head head;
  return parse_head(text, 16384, head).problem;
}

}  // namespace

TEST_CASE("a head is read, with the fields that matter") {
  const std::string_view text =
      "POST /v1/jobs?wait=1s HTTP/1.1\r\nhost: localhost:8080\r\nContent-Length:  12 \r\n"
      "Content-Type: application/json\r\nIdempotency-Key: abc\r\nExpect: 100-Continue\r\n"
      "X-Other: \t \r\n\r\nbody";
  Head head;
  const HeadResult result = parse_head(text, 16384, head);
  REQUIRE(result.status == Parsed::done);
  CHECK(text.substr(result.bytes) == "body");
  CHECK(head.method == "POST");
  CHECK(head.target == "/v1/jobs?wait=1s");
  CHECK(head.host == "localhost:8080");
  CHECK(head.content_length == 12u);
  CHECK(head.content_type == "application/json");
  CHECK(head.idempotency_key == "abc");
  CHECK(head.expect_continue);
  CHECK(head.keep_alive);
  CHECK_FALSE(head.chunked);
}

TEST_CASE("keep-alive is HTTP/1.1's default and HTTP/1.0's exception") {
  const auto keeps = [](std::string_view text) {
    Head head;
    REQUIRE(parse_head(text, 16384, head).status == Parsed::done);
    return head.keep_alive;
  };
  CHECK(keeps("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  CHECK_FALSE(keeps("GET / HTTP/1.1\r\nHost: a\r\nConnection: foo, Close\r\n\r\n"));
  CHECK_FALSE(keeps("GET / HTTP/1.0\r\n\r\n"));
  CHECK(keeps("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
  CHECK(keeps("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"));
}

TEST_CASE("everything ambiguous is refused") {
  for (std::string_view text : {
           "GET / HTTP/1.1\nHost: a\n\n",
           "GET / HTTP/1.1\r\nHost: a\n\r\n",
           "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
           "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
           "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
           "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
           "GET / HTTP/1.1\r\n\r\n",
           "GET / HTTP/1.1\r\nHost: a\r\nX: a\x01\r\n\r\n",
           "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
           "GET / HTTP/1.1\r\nHost: a\r\n: empty\r\n\r\n",
           "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
           "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
           "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
           "GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n",
           "G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
           "GET\r\nHost: a\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999999999999\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
           "Transfer-Encoding: chunked\r\n\r\n",
           "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\n\r\n",
       }) {
    CAPTURE(text);
    CHECK(status_of(text) == Parsed::bad);
    CHECK_FALSE(problem_of(text).empty());
  }
}

TEST_CASE("a head is limited") {
  const std::string begin = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
  CHECK(status_of(begin + std::string(16384, 'x')) == Parsed::too_large);
  CHECK(status_of(begin + std::string(1000, 'x') + "\r\n\r\n", 1000) == Parsed::too_large);
  CHECK(status_of(begin + std::string(1000, 'x') + "\r\n\r\n") == Parsed::done);
  std::string many = "GET / HTTP/1.1\r\n";
  for (std::size_t i = 0; i < kMaxHeaderLines + 1; ++i) many += "X: y\r\n";
  CHECK(status_of(many + "\r\n") == Parsed::too_large);
}

TEST_CASE("an incomplete head needs more, at every byte") {
  const std::string text = "GET /a HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n";
  for (std::size_t i = 0; i < text.size(); ++i) {
    CAPTURE(i);
    CHECK(status_of(std::string_view(text).substr(0, i)) == Parsed::need_more);
  }
  CHECK(status_of(text) == Parsed::done);
}

TEST_CASE("chunks are assembled, however they arrive") {
  const std::string text =
      "4;x=y\r\nWiki\r\n5\r\npedia\r\nA\r\n0123456789\r\n0\r\nT: v\r\n\r\nnext";
  const bool ok = rc::check("split anywhere", [&] {
    ChunkedReader reader(100);
    std::string body;
    std::string_view rest = text;
    Parsed status = Parsed::need_more;
    std::string left;
    while (!rest.empty()) {
      const auto size = *rc::gen::inRange<std::size_t>(1, rest.size() + 1);
      std::string_view piece = rest.substr(0, size);
      rest.remove_prefix(size);
      if (status == Parsed::need_more) status = reader.feed(piece, body);
      left += piece;
    }
    RC_ASSERT(status == Parsed::done);
    RC_ASSERT(body == "Wikipedia0123456789");
    RC_ASSERT(left == "next");
  });
  CHECK(ok);
}

TEST_CASE("an empty chunked body may come byte by byte") {
  for (const std::string_view text :
       {"0\r\n\r\n", "00\r\n\r\n", "0;x\r\n\r\n", "0\r\nT: v\r\n\r\n"}) {
    ChunkedReader reader(100);
    std::string body;
    Parsed status = Parsed::need_more;
    for (const char& c : text) {
      CHECK(status == Parsed::need_more);
      std::string_view piece(&c, 1);
      status = reader.feed(piece, body);
    }
    CHECK(status == Parsed::done);
    CHECK(body.empty());
  }
}

TEST_CASE("bad chunks are refused") {
  const auto feed = [](std::string_view text, std::size_t limit = 100) {
    ChunkedReader reader(limit);
    std::string body;
    return reader.feed(text, body);
  };
  CHECK(feed("x\r\n") == Parsed::bad);
  CHECK(feed("\r\n") == Parsed::bad);
  CHECK(feed("4\nWiki\r\n0\r\n\r\n") == Parsed::bad);
  CHECK(feed("4\r\nWikiXY\r\n0\r\n\r\n") == Parsed::bad);
  CHECK(feed("4\r\nWiki\rX0\r\n\r\n") == Parsed::bad);
  CHECK(feed("123456789\r\n") == Parsed::too_large);
  CHECK(feed("12345678912345678\r\n") == Parsed::bad);
  CHECK(feed("-1\r\n") == Parsed::bad);
  CHECK(feed("65\r\n") == Parsed::too_large);
  CHECK(feed("4\r\nWiki\r\n5\r\n", 8) == Parsed::too_large);
  CHECK(feed("0\r\nT: v\n\n\r\n\r\n") == Parsed::bad);
  CHECK(feed("0;" + std::string(5000, 'x')) == Parsed::bad);
  CHECK(feed("0\r\n" + std::string(5000, 'x')) == Parsed::bad);
}

TEST_CASE("any bytes are refused without a crash") {
  const bool ok = rc::check("any text", [](const std::string& text) {
    Head head;
    parse_head("GET / HTTP/1.1\r\nHost: a\r\n" + text, 16384, head);
    ChunkedReader reader(1000);
    std::string body;
    std::string_view input = text;
    reader.feed(input, body);
    percent_decode(text, Plus::space);
  });
  CHECK(ok);
}

TEST_CASE("percent-encoding is decoded once") {
  CHECK(percent_decode("a%2Fb%41", Plus::plain) == "a/bA");
  CHECK(percent_decode("a%252F", Plus::plain) == "a%2F");
  CHECK(percent_decode("a+b", Plus::plain) == "a+b");
  CHECK(percent_decode("a+b", Plus::space) == "a b");
  CHECK_FALSE(percent_decode("%4", Plus::plain));
  CHECK_FALSE(percent_decode("%zz", Plus::plain));
  CHECK_FALSE(percent_decode("%00", Plus::plain));
}
