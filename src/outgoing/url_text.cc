// The rules of URLs that need no parser.
#include <fmt/format.h>

#include <algorithm>

#include "outgoing/url_check.h"

namespace mainspring {

// What readers of URLs are known to disagree about is left out: blanks, controls, '\' and letters
// beyond ASCII, of which some become digits and dots.
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
