// Dashboard sessions: the value of a browser's session cookie. It is signed and not stored, so that
// every node of a store accepts it.
//
//   mss_<token id>.<expiry, Unix seconds>.<nonce>.<HMAC-SHA-256 of the part before>, each as hex
//
// The access token itself is not part of the value. The session ends with that token.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/secret.h"
#include "mainspring/time.h"

namespace mainspring {

inline constexpr Duration kDashboardSessionLifetime = std::chrono::hours(12);
inline constexpr std::size_t kMaxDashboardSessionBytes = 128;

struct DashboardSession {
  std::uint64_t token_id = 0;  // Caller::token_id of the access token that opened it; never 0
  WallTime expires_at;         // whole seconds count
  std::uint64_t nonce = 0;     // microseconds: no two sessions are equal, signing out ends one
  friend bool operator==(const DashboardSession&, const DashboardSession&) = default;
};

inline WallTime opened_at(const DashboardSession& session) {
  return WallTime::from_us(static_cast<std::int64_t>(session.nonce));
}

std::string sign_dashboard_session(const DashboardSession& session, const Secret& key);
// nullopt: it is not a session, or not signed with this key. The caller checks the expiry.
std::optional<DashboardSession> read_dashboard_session(std::string_view text, const Secret& key);

}  // namespace mainspring
