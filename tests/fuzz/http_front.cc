// Fuzz target: from the bytes of a socket to a request plan.
#include "http/parser.h"
#include "http/path.h"
#include "http/routes.h"
#include "targets.h"

namespace mainspring::fuzz {
namespace {

// How a body is cut into pieces must not matter.
void chunked(std::string_view bytes) {
  constexpr std::size_t kMaxBody = 4096;
  std::string whole, pieces;
  http::ChunkedReader one(kMaxBody), many(kMaxBody);
  std::string_view rest = bytes;
  const http::Parsed done = one.feed(rest, whole);
  http::Parsed status = http::Parsed::need_more;
  std::size_t used = 0;
  std::string window;
  for (; used < bytes.size() && status == http::Parsed::need_more; ++used) {
    window += bytes[used];
    std::string_view input = window;
    status = many.feed(input, pieces);
    window.erase(0, window.size() - input.size());
  }
  FUZZ_CHECK(whole.size() <= kMaxBody && pieces.size() <= kMaxBody);
  if (done != http::Parsed::done) {
    FUZZ_CHECK(status != http::Parsed::done);
    return;
  }
  FUZZ_CHECK(status == http::Parsed::done);
  FUZZ_CHECK(pieces == whole);
}

}  // namespace

void http_front(std::string_view bytes) {
  http::Head head;
  const http::HeadResult result = http::parse_head(bytes, 16 << 10, head);
  chunked(bytes);
  (void)http::read_path(bytes);
  (void)http::percent_decode(bytes, http::Plus::space);
  (void)http::match("GET", bytes);
  if (result.status != http::Parsed::done) return;
  FUZZ_CHECK(result.bytes <= bytes.size());
  FUZZ_CHECK(!(head.chunked && head.content_length));
  (void)http::header_fields(head.text);
  const http::Match match = http::match(head.method, head.target);
  FUZZ_CHECK(match.route != nullptr || match.error.status >= 400);
  if (head.chunked) chunked(bytes.substr(result.bytes));
  // A head is a head with whatever follows, and none without its last byte.
  http::Head again;
  const std::string_view exact = bytes.substr(0, result.bytes);
  FUZZ_CHECK(http::parse_head(exact, 16 << 10, again).status == http::Parsed::done);
  FUZZ_CHECK(again.target == head.target && again.method == head.method);
  const auto shorter = exact.substr(0, exact.size() - 1);
  FUZZ_CHECK(http::parse_head(shorter, 16 << 10, again).status != http::Parsed::done);
}

}  // namespace mainspring::fuzz
