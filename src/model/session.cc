// Session keys, and the ready queues of sessions.
#include "model/session.h"

#include <fmt/format.h>

#include <algorithm>

namespace mainspring {

std::string_view to_string(OnDead policy) {
  switch (policy) {
    case OnDead::skip:
      return "skip";
    case OnDead::block:
      return "block";
    case OnDead::park:
      return "park";
  }
  return "";
}

std::optional<OnDead> parse_on_dead(std::string_view text) {
  for (const OnDead policy : {OnDead::skip, OnDead::block, OnDead::park}) {
    if (to_string(policy) == text) return policy;
  }
  return std::nullopt;
}

std::string_view to_string(SessionStop stop) {
  switch (stop) {
    case SessionStop::none:
      return "none";
    case SessionStop::blocked:
      return "blocked";
    case SessionStop::parked:
      return "parked";
  }
  return "";
}

std::string accept_queue(std::string_view queue) {
  return std::string(kAcceptLine).append(queue);
}

std::string session_queue(const SessionKey& session) {
  return std::string(kSessionQueue).append(session.queue).append(1, '\n').append(session.key);
}

std::optional<std::string_view> parse_accept_queue(std::string_view line) {
  if (!line.starts_with(kAcceptLine)) return std::nullopt;
  return line.substr(kAcceptLine.size());
}

std::optional<SessionKey> parse_session_queue(std::string_view line) {
  if (!line.starts_with(kSessionQueue)) return std::nullopt;
  line.remove_prefix(kSessionQueue.size());
  const std::size_t end = line.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  return SessionKey{.queue = std::string(line.substr(0, end)),
                    .key = std::string(line.substr(end + 1))};
}

std::string_view base_queue_of(std::string_view line) {
  if (const auto queue = parse_accept_queue(line)) return *queue;
  if (!line.starts_with(kSessionQueue)) return line;
  line.remove_prefix(kSessionQueue.size());
  return line.substr(0, line.find('\n'));
}

Result<void> check_session_key(std::string_view field, std::string_view key) {
  // Refuse a key that no request path can name: its session could be held but never renewed.
  const bool ok = !key.empty() && key.size() <= kMaxKeyBytes && key != "." && key != ".." &&
                  std::none_of(key.begin(), key.end(), [](char c) {
                    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\';
                  });
  if (ok) return {};
  return Error{.code = ErrorCode::invalid_argument,
               .message = fmt::format("{} \"{}\": must be 1 to {} bytes without control characters "
                                      "and backslashes, and not . or ..",
                                      field, key.substr(0, 64), kMaxKeyBytes),
               .field = std::string(field)};
}

}  // namespace mainspring
