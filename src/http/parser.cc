// Request heads, chunked bodies, percent-encoding.
#include "http/parser.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "base/mutant.h"

namespace mainspring::http {
namespace {

namespace beast = boost::beast;
using beast::http::field;
using HeadParser = beast::http::request_parser<beast::http::empty_body>;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Finds the end of the head, or the reason to refuse it before it is parsed. The library accepts
// bare line feeds, folded lines and the like; a proxy may read these differently, so they are
// refused here.
HeadResult frame(std::string_view text, std::size_t max_bytes) {
  // Input that does not start like a method (TLS, for example) never becomes a head: do not wait.
  if (!text.empty() && (text.front() < 'A' || text.front() > 'Z') && text.front() != '\r') {
    return {Parsed::bad, 0, "the method: must be a word in capitals"};
  }
  std::size_t at = 0;
  std::size_t lines = 0;  // including the request line
  for (;;) {
    const std::size_t lf = text.find('\n', at);
    const std::size_t end = lf == std::string_view::npos ? text.size() : lf;
    if (end >= max_bytes) return {Parsed::too_large};
    if (lf == std::string_view::npos) return {Parsed::need_more};
    if (lf == at || text[lf - 1] != '\r') return {Parsed::bad, 0, "a line does not end with CR LF"};
    const std::string_view line = text.substr(at, lf - 1 - at);
    at = lf + 1;
    if (line.find('\r') != std::string_view::npos) return {Parsed::bad, 0, "a CR without LF"};
    if (line.empty() && lines == 0) continue;
    if (line.empty()) return {Parsed::done, at};
    if (line.front() == ' ' || line.front() == '\t') {
      return {Parsed::bad, 0, "a line begins with a blank"};
    }
    if (++lines > kMaxHeaderLines) return {Parsed::too_large};
  }
}

// Calls each(pair, name, value) for each pair of a Cookie header.
template <typename Each>
void each_cookie(std::string_view cookies, const Each& each) {
  while (!cookies.empty()) {
    std::string_view pair = cookies.substr(0, cookies.find(';'));
    cookies.remove_prefix(std::min(cookies.size(), pair.size() + 1));
    pair.remove_prefix(std::min(pair.size(), pair.find_first_not_of(" \t")));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) continue;
    each(pair, pair.substr(0, equals), pair.substr(equals + 1));
  }
}

// The value of the session cookie; "" = none.
std::string_view session_of(std::string_view cookies) {
  std::string_view found;
  each_cookie(cookies, [&](std::string_view, std::string_view name, std::string_view value) {
    if (name == kSessionCookie && found.empty()) found = value;
  });
  return found;
}

// A Cookie header without the session cookie.
std::string other_cookies(std::string_view cookies) {
  std::string out;
  each_cookie(cookies, [&](std::string_view pair, std::string_view name, std::string_view) {
    if (name != kSessionCookie) out.append(out.empty() ? "" : "; ").append(pair);
  });
  return out;
}

// Refuses fields that the library accepts and this server does not.
std::string check_fields(const HeadParser::value_type& request) {
  const auto many = [&](field name) { return request.count(name) > 1; };
  for (const field name :
       {field::host, field::content_length, field::transfer_encoding, field::content_type,
        field::expect, field::origin, field::authorization, field::cookie}) {
    if (many(name)) return std::string(to_string(name)) + " is given twice";
  }
  if (request.count("Idempotency-Key") > 1) return "Idempotency-Key is given twice";
  if (request.count("Idempotency-Key") == 1 && request["Idempotency-Key"].empty())
    return "Idempotency-Key is empty: leave it out, or give a key";
  if (request.count(field::content_length) != 0) {
    constexpr std::size_t kMaxDigits = 18;
    const auto length = request[field::content_length];
    const bool digits =
        !length.empty() && length.size() <= kMaxDigits &&
        std::all_of(length.begin(), length.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits) return "Content-Length: must be a number of bytes";
  }
  if (request.version() != 11 && request.version() != 10) return "the version: must be HTTP/1.1";
  if (request.count(field::transfer_encoding) != 0) {
    if (!iequals(request[field::transfer_encoding], "chunked")) {
      return "Transfer-Encoding: must be chunked";
    }
    if (request.count(field::content_length) != 0) {
      return "Content-Length and Transfer-Encoding: must not be given both";
    }
    if (request.version() == 10) return "Transfer-Encoding: needs HTTP/1.1";
  }
  if (request.count(field::expect) != 0 && !iequals(request[field::expect], "100-continue")) {
    return "Expect: must be 100-continue";
  }
  if (request.count(field::host) == 0 && request.version() == 11) return "Host: must be given";
  const auto target = request.target();
  const bool visible =
      std::all_of(target.begin(), target.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (!visible) return "the target: must be visible ASCII, anything else percent-encoded";
  for (const auto& header : request) {
    for (const char c : header.value()) {
      const auto byte = static_cast<unsigned char>(c);
      if ((byte < 0x20 && c != '\t') || byte == 0x7f) {
        return "a header value has a control character";
      }
    }
  }
  return "";
}

}  // namespace

bool iequals(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](char x, char y) { return lower(x) == lower(y); });
}

HeadResult parse_head(std::string_view text, std::size_t max_bytes, Head& head) {
  HeadResult result = frame(text, max_bytes);
  if (result.status != Parsed::done) return result;
  std::string_view framed = text.substr(0, result.bytes);
  while (framed.starts_with("\r\n")) framed.remove_prefix(2);
  HeadParser parser;
  parser.header_limit(static_cast<std::uint32_t>(std::min<std::size_t>(max_bytes + 1, 1U << 30)));
  parser.body_limit(boost::none);  // not used here: each route has its own limit
  beast::error_code error;
  parser.put(boost::asio::buffer(framed.data(), framed.size()), error);
  if (error && error != beast::http::error::need_more) {
    return {Parsed::bad, 0, error.message()};
  }
  if (!parser.is_header_done()) return {Parsed::bad, 0, "the head is not complete"};
  const auto& request = parser.get();
  if (auto problem = check_fields(request); !problem.empty()) {
    return {Parsed::bad, 0, std::move(problem)};
  }
  head = Head{};
  head.method = request.method_string();
  head.target = request.target();
  head.has_host = request.count(field::host) != 0;
  head.host = request[field::host];
  head.content_type = request[field::content_type];
  head.origin = request[field::origin];
  head.idempotency_key = request["Idempotency-Key"];
  if (request.count("traceparent") == 1)
    head.trace = std::make_shared<TraceHeaders>(request["traceparent"], request["tracestate"]);
  head.has_authorization = request.count(field::authorization) != 0;
  if (head.has_authorization) {
    // A session's value is accepted as a cookie only, where scripts cannot read it.
    const std::string_view value = request[field::authorization];
    head.authorization = Secret(value.starts_with(kSessionScheme) ? "" : std::string(value));
  } else if (const auto token = session_of(request[field::cookie]); !token.empty()) {
    head.authorization = Secret(std::string(kSessionScheme).append(" ").append(token));
    head.has_authorization = head.by_cookie = true;
  } else {
    for (const std::string_view name : {"X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"}) {
      head.forwarded = head.forwarded || request.count(name) != 0;
    }
  }
  head.same_origin = request["Sec-Fetch-Site"] == "same-origin";
  head.forwarded_https = iequals(request["X-Forwarded-Proto"], "https");
  head.chunked = parser.chunked();
  if (const auto length = parser.content_length()) head.content_length = *length;
  head.keep_alive = request.keep_alive();
  head.expect_continue = request.count(field::expect) != 0;
  head.http10 = request.version() == 10;
  head.text = framed;
  return result;
}

std::vector<std::pair<std::string, std::string>> header_fields(std::string_view head_text) {
  std::vector<std::pair<std::string, std::string>> fields;
  const auto trimmed = [](std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return std::string_view();
    return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
  };
  std::size_t at = head_text.find("\r\n");
  while (at != std::string_view::npos) {
    head_text.remove_prefix(at + 2);
    at = head_text.find("\r\n");
    const std::string_view line = head_text.substr(0, at);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) break;  // the empty line
    const std::string_view name = line.substr(0, colon);
    if (iequals(name, "Authorization") && !MS_MUTANT(token_passed_on)) continue;
    if (iequals(name, "Cookie")) {
      std::string rest = other_cookies(line.substr(colon + 1));
      if (!rest.empty()) fields.emplace_back(name, std::move(rest));
      continue;
    }
    fields.emplace_back(name, trimmed(line.substr(colon + 1)));
  }
  return fields;
}

// The library reads chunked bodies only after a head; the real head is read already, so it gets a
// dummy.
constexpr std::size_t kEmptyBodyBytes = std::string_view("0\r\n\r\n").size();

struct ChunkedReader::Impl {
  beast::http::request_parser<beast::http::string_body> parser;
  std::string pending;  // a part of a chunk's line that the library could not take yet
};

ChunkedReader::ChunkedReader(std::size_t max_bytes) : impl_(std::make_unique<Impl>()) {
  static constexpr std::string_view kHead = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  impl_->parser.body_limit(max_bytes);
  beast::error_code error;
  impl_->parser.put(boost::asio::buffer(kHead.data(), kHead.size()), error);
  impl_->parser.eager(true);
}

ChunkedReader::~ChunkedReader() = default;

Parsed ChunkedReader::feed(std::string_view& input, std::string& body) {
  constexpr std::size_t kMaxPending =
      4096;  // of a chunk's line with its extensions, or the trailers
  std::string& pending = impl_->pending;
  pending.append(input);
  // Once the library has seen the line of a last chunk that is also the first, it asserts that it
  // is given all of "0\r\n\r\n".
  if (!pending.empty() && pending.front() == '0' && pending.size() < kEmptyBodyBytes) {
    input = {};
    return Parsed::need_more;
  }
  beast::error_code error;
  const std::size_t used =
      impl_->parser.put(boost::asio::buffer(pending.data(), pending.size()), error);
  std::string& data = impl_->parser.get().body();
  body.append(data);
  data.clear();
  pending.erase(0, used);
  if (error == beast::http::error::body_limit) return Parsed::too_large;
  if (error && error != beast::http::error::need_more) return Parsed::bad;
  if (impl_->parser.is_done()) {
    input.remove_prefix(input.size() - pending.size());  // the rest belongs to the next request
    pending.clear();
    return Parsed::done;
  }
  input = {};
  return pending.size() > kMaxPending ? Parsed::bad : Parsed::need_more;
}

std::optional<std::string> percent_decode(std::string_view text, Plus plus) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_value(text[i + 1]), low = hex_value(text[i + 2]);
      if (high < 0 || low < 0 || (high == 0 && low == 0)) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus == Plus::space) {
      c = ' ';
    }
    out += c;
  }
  return out;
}

}  // namespace mainspring::http
