// The strict reader of HTTP/1.1 request heads and chunked bodies: pure functions of bytes.
//
// A server and a proxy that disagree about where a request ends let one client speak in another's
// name, so everything ambiguous is refused: two lengths, a length and a transfer coding, folded
// lines, bare CR or LF, blanks before a colon, controls in values. Source: RFC 9112.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mainspring::http {

// The parts of a request head that this server looks at. The views point into the parsed text.
struct Head {
  std::string_view method;
  std::string_view target;
  std::string_view host;
  bool has_host = false;             // HTTP/1.0 may go without
  std::string_view content_type;     // "" = none
  std::string_view idempotency_key;  // "" = none
  std::optional<std::uint64_t> content_length;
  bool chunked = false;
  bool keep_alive = true;
  bool expect_continue = false;
};

enum class Parsed { done, need_more, bad, too_large };

struct HeadResult {
  Parsed status = Parsed::need_more;
  std::size_t bytes = 0;          // of the head, with its empty line; when done
  const char* problem = nullptr;  // when bad: what is wrong, for the client
};

inline constexpr std::size_t kMaxHeaderLines = 100;

// Reads a head at the beginning of `text`. Empty lines before it are part of it.
HeadResult parse_head(std::string_view text, std::size_t max_bytes, Head& head);

// Reads a chunked body, piece by piece. Extensions and trailers are passed over, within bounds.
class ChunkedReader {
 public:
  // Takes from `input` (what it took is removed), appends data to `body`. too_large when the body
  // would have more than `max_bytes`.
  Parsed feed(std::string_view& input, std::size_t max_bytes, std::string& body);

 private:
  enum class State { size, extension, size_lf, data, data_cr, data_lf, trailer, done };
  static constexpr std::size_t kMaxSideBytes = 4096;  // of all extensions and trailers
  static constexpr int kMaxSizeDigits = 8;

  Parsed size_byte(char c);
  Parsed trailer_byte(char c);

  State state_ = State::size;
  std::uint64_t left_ = 0;
  int digits_ = 0;
  std::size_t side_bytes_ = 0;
  std::size_t line_bytes_ = 0;
  bool after_cr_ = false;
};

// "%41" and so on, once. nullopt for a bad escape or a zero byte. `plus_is_space` as in queries.
enum class Plus { plain, space };
std::optional<std::string> percent_decode(std::string_view text, Plus plus);

bool iequals(std::string_view a, std::string_view b);

}  // namespace mainspring::http
