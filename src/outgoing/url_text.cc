// The rules of URLs that need no parser.
#include <fmt/format.h>

#include <algorithm>

#include "outgoing/url_check.h"

namespace mainspring {

// Refuses what URL parsers are known to disagree about: blanks, control characters, '\' and
// non-ASCII letters, some of which become digits and dots.
Result<void> check_url_text(const std::string& text) {
  const bool plain = !text.empty() && text.size() <= kMaxUrlBytes &&
                     std::all_of(text.begin(), text.end(),
                                 [](char c) { return c > 0x20 && c < 0x7f && c != '\\'; });
  if (plain) return {};
  return invalid("url", fmt::format("url: must be http://… or https://… with a host, at most {} "
                                    "bytes of ASCII without blanks and '\\'",
                                    kMaxUrlBytes));
}

}  // namespace mainspring
