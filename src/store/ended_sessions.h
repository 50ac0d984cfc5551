// Dashboard sessions that were signed out before their expiry: revoked records among the tokens,
// because every node of a store reads the tokens, and a restart keeps them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "store/access_operations.h"

namespace mainspring {

// No token has this prefix: check_name() refuses a colon as the first character.
inline constexpr std::string_view kEndedSessionPrefix = ":session:";

// From these numbers of unexpired records, of all tokens and of one token, signing out ends all
// sessions that the token opened until then, with one record instead of theirs. No record is
// removed before it expires.
inline constexpr std::size_t kMostEndedSessions = 10'000, kMostEndedOfToken = 1'000;

inline bool is_ended_session(std::string_view token_name) {
  return token_name.starts_with(kEndedSessionPrefix);
}

// The record of all sessions of a token until TokenRecord::created_at. Its digest is the SHA-256 of
// its name.
inline std::string all_sessions_of(std::uint64_t token_id) {
  return fmt::format("{}all:{:x}", kEndedSessionPrefix, token_id);
}
inline bool ends_all_sessions(std::string_view token_name) {
  return is_ended_session(token_name) &&
         token_name.substr(kEndedSessionPrefix.size()).starts_with("all:");
}

inline std::size_t count_ended_sessions(const Tokens& tokens) {
  const auto first = tokens.lower_bound(std::string(kEndedSessionPrefix));
  return static_cast<std::size_t>(std::distance(
      first, std::find_if_not(first, tokens.end(),
                              [](const auto& entry) { return is_ended_session(entry.first); })));
}

// The records that `ended` makes useless: those that have expired, and if it ends all sessions of a
// token, those of the same token.
inline std::vector<std::string> useless_sessions(const Tokens& tokens, const TokenRecord& ended,
                                                 WallTime now) {
  std::vector<std::string> out;
  for (auto it = tokens.lower_bound(std::string(kEndedSessionPrefix)); it != tokens.end(); ++it) {
    const auto& [name, one] = *it;
    if (!is_ended_session(name)) break;
    const bool covered = ends_all_sessions(ended.name) && one.created_by == ended.created_by &&
                         !ends_all_sessions(name);
    if (one.expires_at <= now || covered) out.push_back(name);
  }
  return out;
}

}  // namespace mainspring
