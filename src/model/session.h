// Sessions by name: which queue and key, and under which names claims of them wait.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>

#include "mainspring/job.h"

namespace mainspring {

struct SessionKey {
  std::string queue;
  std::string key;  // 1 to kMaxKeyBytes bytes of UTF-8
  friend bool operator==(const SessionKey&, const SessionKey&) = default;
  friend auto operator<=>(const SessionKey&, const SessionKey&) = default;
};

// What a claim may draw from besides the available jobs of queues. The broker parks claims under
// names of lines; a queue's line is its name, and these are the others. They are what Claim::queues
// has then, what has_available() is asked, and what Effects::available says; has_available() of
// one may be wrong in saying true, once, where a claim has to look.
inline constexpr std::string_view kAcceptLine = "~accept/";    // + queue; no queue's name has a ~
inline constexpr std::string_view kSessionLine = "~session/";  // + queue + '\n' + key
std::string accept_line(std::string_view queue);
std::string session_line(const SessionKey& session);
// The queue of any line: what scopes are checked with, and people are shown.
std::string_view queue_of_line(std::string_view line);
// nullopt: it is none of these.
std::optional<std::string_view> parse_accept_line(std::string_view line);  // its queue
std::optional<SessionKey> parse_session_line(std::string_view line);

enum class SessionStop : std::uint8_t { none, blocked, parked };
std::string_view to_string(SessionStop stop);

// 1 to kMaxKeyBytes bytes of UTF-8 without control characters and backslashes, not "." or ".." (it
// is a segment of paths). Errors: invalid_argument with `field`.
Result<void> check_session_key(std::string_view field, std::string_view key);

}  // namespace mainspring
