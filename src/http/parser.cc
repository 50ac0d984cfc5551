// Request heads, chunked bodies, percent-encoding.
#include "http/parser.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace mainspring::http {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

constexpr std::array<bool, 256> make_token_table() {
  std::array<bool, 256> table{};
  for (int c = '0'; c <= '9'; ++c) table[static_cast<std::size_t>(c)] = true;
  for (int c = 'a'; c <= 'z'; ++c) table[static_cast<std::size_t>(c)] = true;
  for (int c = 'A'; c <= 'Z'; ++c) table[static_cast<std::size_t>(c)] = true;
  for (char c : {'!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~'})
    table[static_cast<std::size_t>(c)] = true;
  return table;
}
constexpr std::array<bool, 256> kToken = make_token_table();

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char c) { return kToken[static_cast<unsigned char>(c)]; });
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// What was seen in the header lines, to refuse what contradicts.
struct Seen {
  bool host = false;
  bool transfer_encoding = false;
  bool content_type = false;
  bool idempotency_key = false;
  bool expect = false;
  int minor_version = 1;
};

const char* once(bool& seen, const char* problem) {
  if (seen) return problem;
  seen = true;
  return nullptr;
}

const char* read_content_length(std::string_view value, Head& head) {
  constexpr std::size_t kMaxDigits = 18;
  if (head.content_length) return "Content-Length is given twice";
  const bool digits =
      !value.empty() && value.size() <= kMaxDigits &&
      std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) return "Content-Length: must be a number of bytes";
  std::uint64_t length = 0;
  std::from_chars(value.data(), value.data() + value.size(), length);
  head.content_length = length;
  return nullptr;
}

void read_connection(std::string_view value, Head& head) {
  while (!value.empty()) {
    const std::size_t comma = value.find(',');
    const std::string_view option = trim(value.substr(0, comma));
    if (iequals(option, "close")) head.keep_alive = false;
    if (iequals(option, "keep-alive")) head.keep_alive = true;
    if (comma == std::string_view::npos) return;
    value.remove_prefix(comma + 1);
  }
}

const char* read_field(std::string_view name, std::string_view value, Head& head, Seen& seen) {
  switch (name.size()) {
    case 4:
      if (!iequals(name, "host")) break;
      head.host = value;
      head.has_host = true;
      return once(seen.host, "Host is given twice");
    case 6:
      if (!iequals(name, "expect")) break;
      if (!iequals(value, "100-continue")) return "Expect: only 100-continue is known";
      head.expect_continue = true;
      return once(seen.expect, "Expect is given twice");
    case 10:
      if (iequals(name, "connection")) read_connection(value, head);
      break;
    case 12:
      if (!iequals(name, "content-type")) break;
      head.content_type = value;
      return once(seen.content_type, "Content-Type is given twice");
    case 14:
      if (iequals(name, "content-length")) return read_content_length(value, head);
      break;
    case 15:
      if (!iequals(name, "idempotency-key")) break;
      head.idempotency_key = value;
      return once(seen.idempotency_key, "Idempotency-Key is given twice");
    case 17:
      if (!iequals(name, "transfer-encoding")) break;
      if (!iequals(value, "chunked")) return "Transfer-Encoding: only chunked is known";
      head.chunked = true;
      return once(seen.transfer_encoding, "Transfer-Encoding is given twice");
    default:
      break;
  }
  return nullptr;
}

const char* read_request_line(std::string_view line, Head& head, Seen& seen) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    return "the request line: must be METHOD TARGET HTTP/1.1";
  }
  head.method = line.substr(0, first);
  head.target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(head.method)) return "the method: must be a word";
  const bool visible =
      !head.target.empty() && std::all_of(head.target.begin(), head.target.end(),
                                          [](char c) { return c > ' ' && c < 0x7f; });
  if (!visible) return "the target: must be visible ASCII, anything else percent-encoded";
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return "the version: must be HTTP/1.1";
  seen.minor_version = version.back() - '0';
  head.keep_alive = seen.minor_version == 1;
  return nullptr;
}

const char* read_header_line(std::string_view line, Head& head, Seen& seen) {
  if (line.front() == ' ' || line.front() == '\t') return "a header line is folded";
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return "a header line has no colon";
  const std::string_view name = line.substr(0, colon);
  if (!is_token(name)) return "a header name: must be a word right before its colon";
  const std::string_view value = trim(line.substr(colon + 1));
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\t') || byte == 0x7f) return "a header value has a control character";
  }
  return read_field(name, value, head, seen);
}

const char* check_head(const Head& head, const Seen& seen) {
  if (head.chunked && head.content_length) {
    return "Content-Length and Transfer-Encoding: must not be given both";
  }
  if (head.chunked && seen.minor_version == 0) return "Transfer-Encoding: needs HTTP/1.1";
  if (!seen.host && seen.minor_version == 1) return "Host: must be given";
  return nullptr;
}

}  // namespace

bool iequals(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](char x, char y) { return lower(x) == lower(y); });
}

HeadResult parse_head(std::string_view text, std::size_t max_bytes, Head& head) {
  const auto bad = [](const char* problem) { return HeadResult{Parsed::bad, 0, problem}; };
  head = Head{};
  Seen seen;
  std::size_t at = 0;
  std::size_t lines = 0;  // with the request line
  for (;;) {
    const std::size_t lf = text.find('\n', at);
    const std::size_t end = lf == std::string_view::npos ? text.size() : lf;
    if (end >= max_bytes) return {Parsed::too_large, 0, nullptr};
    if (lf == std::string_view::npos) return {Parsed::need_more, 0, nullptr};
    if (lf == at || text[lf - 1] != '\r') return bad("a line does not end with CR LF");
    const std::string_view line = text.substr(at, lf - 1 - at);
    at = lf + 1;
    if (line.find('\r') != std::string_view::npos) return bad("a CR without LF");
    if (line.empty() && lines == 0) continue;
    if (line.empty()) break;
    const char* problem =
        lines == 0 ? read_request_line(line, head, seen) : read_header_line(line, head, seen);
    if (problem != nullptr) return bad(problem);
    if (++lines > kMaxHeaderLines) return {Parsed::too_large, 0, nullptr};
  }
  if (const char* problem = check_head(head, seen)) return bad(problem);
  return {Parsed::done, at, nullptr};
}

Parsed ChunkedReader::size_byte(char c) {
  const int digit = hex_value(c);
  if (digit >= 0) {
    if (++digits_ > kMaxSizeDigits) return Parsed::bad;
    left_ = left_ * 16 + static_cast<std::uint64_t>(digit);
    return Parsed::need_more;
  }
  if (digits_ == 0) return Parsed::bad;
  if (c == '\r') {
    state_ = State::size_lf;
  } else if (c == ';' || c == ' ' || c == '\t') {
    state_ = State::extension;
  } else {
    return Parsed::bad;
  }
  return Parsed::need_more;
}

Parsed ChunkedReader::trailer_byte(char c) {
  if (++side_bytes_ > kMaxSideBytes) return Parsed::bad;
  if (after_cr_) {
    if (c != '\n') return Parsed::bad;
    after_cr_ = false;
    if (line_bytes_ == 0) state_ = State::done;
    line_bytes_ = 0;
  } else if (c == '\r') {
    after_cr_ = true;
  } else if (c == '\n') {
    return Parsed::bad;
  } else {
    ++line_bytes_;
  }
  return Parsed::need_more;
}

Parsed ChunkedReader::feed(std::string_view& input, std::size_t max_bytes, std::string& body) {
  while (state_ != State::done && !input.empty()) {
    if (state_ == State::data) {
      const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(left_, input.size()));
      body.append(input.substr(0, take));
      input.remove_prefix(take);
      left_ -= take;
      if (left_ == 0) state_ = State::data_cr;
      continue;
    }
    const char c = input.front();
    input.remove_prefix(1);
    Parsed status = Parsed::need_more;
    switch (state_) {
      case State::size:
        status = size_byte(c);
        break;
      case State::extension:
        if (++side_bytes_ > kMaxSideBytes || c == '\n') return Parsed::bad;
        if (c == '\r') state_ = State::size_lf;
        break;
      case State::size_lf:
        if (c != '\n') return Parsed::bad;
        if (left_ > max_bytes - body.size()) return Parsed::too_large;
        state_ = left_ == 0 ? State::trailer : State::data;
        digits_ = 0;
        break;
      case State::data_cr:
        if (c != '\r') return Parsed::bad;
        state_ = State::data_lf;
        break;
      case State::data_lf:
        if (c != '\n') return Parsed::bad;
        state_ = State::size;
        break;
      default:
        status = trailer_byte(c);
    }
    if (status == Parsed::bad) return status;
  }
  return state_ == State::done ? Parsed::done : Parsed::need_more;
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
