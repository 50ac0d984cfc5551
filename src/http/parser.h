// A strict parser of HTTP/1.1 request heads and chunked bodies: Boost.Beast's parser plus rules.
//
// If a server and a proxy disagree about where a request ends, one client can send requests in
// another's name. So everything ambiguous is refused: two lengths, a length and a transfer coding,
// folded lines, bare CR or LF, blanks before a colon, control characters in values. Source: RFC
// 9112.
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

// The parts of a request head that this server uses.
struct Head {
  std::string method;
  std::string target;
  std::string host;
  bool has_host = false;        // HTTP/1.0 may omit it
  std::string content_type;     // "" = none
  std::string origin;           // sent by browsers; "" = none
  std::string idempotency_key;  // "" = none
  std::shared_ptr<const TraceHeaders> trace;  // nullptr = none
  bool has_authorization = false;
  // A proxy passed the request on and says so in a header. Only matters without an
  // authorization.
  bool forwarded = false;
  // From the Authorization header or, without one, from the dashboard's session cookie.
  Secret authorization;
  bool by_cookie = false;
  bool same_origin = false;  // Sec-Fetch-Site says that a page of this server sent it
  bool forwarded_https = false;
  std::optional<std::uint64_t> content_length;
  bool chunked = false;
  bool keep_alive = true;
  bool expect_continue = false;
  bool http10 = false;
  std::string_view text;  // the whole head, in the input of parse_head()
  std::vector<std::pair<std::string, std::string>> fields;  // filled only for header_fields()
};
// The cookie of a dashboard session (model/dashboard_session.h), and the scheme under which
// parse_head() puts its value into Head::authorization.
inline constexpr std::string_view kSessionCookie = "mainspring_session";
inline constexpr std::string_view kSessionScheme = "Session";

// The header lines of a head that parse_head() accepted, in order; without Authorization and the
// session cookie, which only the authenticator reads.
std::vector<std::pair<std::string, std::string>> header_fields(std::string_view head_text);

enum class Parsed { done, need_more, bad, too_large };

struct HeadResult {
  Parsed status = Parsed::need_more;
  std::size_t bytes = 0;     // of the head, including its empty line; if done
  std::string problem = {};  // if bad: the problem, for the client
};

inline constexpr std::size_t kMaxHeaderLines = 100;

// Parses a head at the start of `text`. Empty lines before it are part of it.
HeadResult parse_head(std::string_view text, std::size_t max_bytes, Head& head);

// Reads a chunked body piece by piece. Skips extensions and trailers, within bounds.
class ChunkedReader {
 public:
  // `max_bytes`: the limit of the body.
  explicit ChunkedReader(std::size_t max_bytes);
  ~ChunkedReader();
  // Consumes `input` and appends data to `body`.
  Parsed feed(std::string_view& input, std::string& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Decodes "%41" and so on, once. nullopt for a bad escape or a zero byte. `plus_is_space` as in
// queries.
enum class Plus { plain, space };
std::optional<std::string> percent_decode(std::string_view text, Plus plus);

bool iequals(std::string_view a, std::string_view b);

}  // namespace mainspring::http
