// Dashboard sessions that were signed out before their expiry: revoked records among the tokens,
// because every node of a store reads the tokens, and a restart keeps them.
#pragma once

#include <string>
#include <vector>

#include "store/access_operations.h"

namespace mainspring {

// No token has this prefix: check_name() refuses a colon as the first character.
inline constexpr std::string_view kEndedSessionPrefix = ":session:";

inline bool is_ended_session(std::string_view token_name) {
  return token_name.starts_with(kEndedSessionPrefix);
}

// The ended sessions that have expired, so that their records are of no more use.
inline std::vector<std::string> expired_sessions(const Tokens& tokens, WallTime now) {
  std::vector<std::string> out;
  const std::string first(kEndedSessionPrefix);
  for (auto it = tokens.lower_bound(first); it != tokens.end(); ++it) {
    if (!is_ended_session(it->first)) break;
    if (it->second.expires_at <= now) out.push_back(it->first);
  }
  return out;
}

}  // namespace mainspring
