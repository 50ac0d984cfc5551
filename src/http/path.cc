// Splits and decodes paths once, and refuses ambiguous ones.
#include "http/path.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "http/parser.h"

namespace mainspring::http {
namespace {

Error refused(std::string_view raw, std::string_view rule) {
  return invalid("path", fmt::format("path \"{}\": {}", cut_text(raw, 200), rule));
}

// The problem of a decoded segment; "" = none.
std::string_view problem_of(std::string_view segment) {
  if (segment == "." || segment == "..") return "must have no segment . or ..";
  const bool plain = std::all_of(segment.begin(), segment.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte != 0x7f && c != '\\';
  });
  if (!plain) return "must have no backslash and no control character";
  if (!is_utf8(segment)) return "must be UTF-8";
  return {};
}

}  // namespace

Result<Path> read_path(std::string_view raw) {
  Path out;
  std::string_view rest = raw;
  if (!rest.starts_with('/')) return refused(raw, "must begin with /");
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view segment = rest.substr(0, rest.find('/'));
    std::string decoded(segment);
    if (segment.find('%') != std::string_view::npos) {
      auto unescaped = percent_decode(segment, Plus::plain);
      if (!unescaped) return refused(raw, "a % must be followed by two hex digits, and not by 00");
      decoded = std::move(*unescaped);
    }
    if (const auto problem = problem_of(decoded); !problem.empty()) return refused(raw, problem);
    if (out.count == kMaxSegments) {
      out.longer = true;  // still check the other segments: a {rest*} may take them
    } else {
      out.rests[out.count] = rest;
      out.segments[out.count++] = std::move(decoded);
    }
    rest.remove_prefix(segment.size());
  }
  return out;
}

}  // namespace mainspring::http
