// The strict reader of HTTP/1.1 request heads and chunked bodies: Boost.Beast's parser behind
// rules.
//
// A server and a proxy that disagree about where a request ends let one client speak in another's
// name, so everything ambiguous is refused: two lengths, a length and a transfer coding, folded
// lines, bare CR or LF, blanks before a colon, controls in values. Source: RFC 9112.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/secret.h"
#include "model/trace_context.h"

namespace mainspring::http {

// The parts of a request head that this server looks at.
struct Head {
  std::string method;
  std::string target;
  std::string host;
  bool has_host = false;        // HTTP/1.0 may go without
  std::string content_type;     // "" = none
  std::string origin;           // sent by browsers; "" = none
  std::string idempotency_key;  // "" = none
  std::shared_ptr<const TraceHeaders> trace;  // nullptr = none
  bool has_authorization = false;
  // Without an authorization: a proxy has passed it on for somebody, and says so.
  bool forwarded = false;
  // Of the Authorization header or, without one, of the dashboard's session cookie.
  Secret authorization;
  bool by_cookie = false;
  bool same_origin = false;  // Sec-Fetch-Site says that a page of this server sends it
  bool forwarded_https = false;
  std::optional<std::uint64_t> content_length;
  bool chunked = false;
  bool keep_alive = true;
  bool expect_continue = false;
  bool http10 = false;
  std::string_view text;  // all of it, in what parse_head() was given
  std::vector<std::pair<std::string, std::string>> fields;  // for whoever asks header_fields()
};
// The cookie of a dashboard session (model/dashboard_session.h), and the scheme under which
// parse_head() puts its value into Head::authorization.
inline constexpr std::string_view kSessionCookie = "mainspring_session";
inline constexpr std::string_view kSessionScheme = "Session";

// The header lines of a head that parse_head() took, in their order; without Authorization and
// without the session cookie, which only the doorman reads.
std::vector<std::pair<std::string, std::string>> header_fields(std::string_view head_text);

enum class Parsed { done, need_more, bad, too_large };

struct HeadResult {
  Parsed status = Parsed::need_more;
  std::size_t bytes = 0;     // of the head, with its empty line; when done
  std::string problem = {};  // when bad: what is wrong, for the client
};

inline constexpr std::size_t kMaxHeaderLines = 100;

// Reads a head at the beginning of `text`. Empty lines before it are part of it.
HeadResult parse_head(std::string_view text, std::size_t max_bytes, Head& head);

// Reads a chunked body, piece by piece. Extensions and trailers are passed over, within bounds.
class ChunkedReader {
 public:
  // Of a body that may have `max_bytes`.
  explicit ChunkedReader(std::size_t max_bytes);
  ~ChunkedReader();
  // Takes from `input` (what it took is removed), appends data to `body`.
  Parsed feed(std::string_view& input, std::string& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// "%41" and so on, once. nullopt for a bad escape or a zero byte. `plus_is_space` as in queries.
enum class Plus { plain, space };
std::optional<std::string> percent_decode(std::string_view text, Plus plus);

bool iequals(std::string_view a, std::string_view b);

}  // namespace mainspring::http
