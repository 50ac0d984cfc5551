// Session keys, and the names of ready queues on which claims of sessions wait.
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

// Names of ready queues beyond the queues themselves. The broker parks claims under the name of a
// ready queue: a queue's own ready queue has the queue's name, and these are the others. They
// appear in Claim::queues, has_available() and Effects::available. has_available() may return true
// for one of them, once, although no job is available: only a claim finds out.
inline constexpr std::string_view kAcceptLine = "~accept/";    // + queue; queue names have no ~
inline constexpr std::string_view kSessionQueue = "~session/";  // + queue + '\n' + key
std::string accept_queue(std::string_view queue);
std::string session_queue(const SessionKey& session);
// The queue of any ready queue: used to check scopes and to show to people.
std::string_view base_queue_of(std::string_view line);
// nullopt: not the name of such a ready queue.
std::optional<std::string_view> parse_accept_queue(std::string_view line);  // its queue
std::optional<SessionKey> parse_session_queue(std::string_view line);

enum class SessionStop : std::uint8_t { none, blocked, parked };
std::string_view to_string(SessionStop stop);

// 1 to kMaxKeyBytes bytes of UTF-8 without control characters and backslashes, not "." or ".."
// (keys are path segments). Errors: invalid_argument with `field`.
Result<void> check_session_key(std::string_view field, std::string_view key);

}  // namespace mainspring
