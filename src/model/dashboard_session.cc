// The key also signs job tokens. The purpose keeps one from being accepted as the other.
#include "model/dashboard_session.h"

#include <fmt/format.h>

#include <charconv>

#include "env/digest.h"

namespace mainspring {
namespace {

constexpr std::string_view kSessionPrefix = "mss_";

Digest session_signature(std::string_view text, const Secret& key) {
  return hmac_sha256(key.reveal(), fmt::format("mainspring dashboard session 1\n{}", text));
}

template <class T>
bool read_hex(std::string_view text, T& out) {
  const char* const end = text.data() + text.size();
  const auto [stopped, problem] = std::from_chars(text.data(), end, out, 16);
  return problem == std::errc() && stopped == end;
}

}  // namespace

std::string sign_dashboard_session(const DashboardSession& session, const Secret& key) {
  const auto seconds =
      std::chrono::floor<std::chrono::seconds>(session.expires_at - WallTime::from_us(0)).count();
  std::string text = fmt::format("{}{:x}.{:x}.{:x}", kSessionPrefix, session.token_id, seconds,
                                 session.nonce);
  const std::string signature = to_hex(session_signature(text, key));
  return text.append(".").append(signature);
}

std::optional<DashboardSession> read_dashboard_session(std::string_view text, const Secret& key) {
  if (text.size() > kMaxDashboardSessionBytes || !text.starts_with(kSessionPrefix)) {
    return std::nullopt;
  }
  const std::size_t last = text.rfind('.');
  if (last == std::string_view::npos) return std::nullopt;
  const std::string_view is_signed = text.substr(0, last);
  const auto given = digest_from_hex(text.substr(last + 1));
  if (!given || !equal_in_constant_time(*given, session_signature(is_signed, key))) {
    return std::nullopt;
  }
  const std::size_t dot = is_signed.find('.'), next = is_signed.rfind('.');
  if (dot == next) return std::nullopt;
  DashboardSession session;
  std::int64_t seconds = 0;
  const auto id = is_signed.substr(kSessionPrefix.size(), dot - kSessionPrefix.size());
  if (!read_hex(id, session.token_id) ||
      !read_hex(is_signed.substr(dot + 1, next - dot - 1), seconds) ||
      !read_hex(is_signed.substr(next + 1), session.nonce)) {
    return std::nullopt;
  }
  session.expires_at = WallTime::from_us(0) + std::chrono::seconds(seconds);
  return session;
}

}  // namespace mainspring
