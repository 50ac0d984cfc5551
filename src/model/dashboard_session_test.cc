// Dashboard sessions: what is accepted as one.
#include "model/dashboard_session.h"

#include <doctest/doctest.h>

using namespace mainspring;
using namespace std::chrono_literals;

namespace {
const Secret kSessionKey(std::string(32, 'k'));
const DashboardSession kSession{0xfedcba9876543210, WallTime::from_us(0) + 1'700'000'000s};
}  // namespace

TEST_CASE("a dashboard session decodes to what was signed") {
  for (const std::uint64_t id : {std::uint64_t{1}, kSession.token_id, ~std::uint64_t{0}}) {
    const DashboardSession session{id, kSession.expires_at, id / 2};
    CHECK(read_dashboard_session(sign_dashboard_session(session, kSessionKey), kSessionKey) ==
          session);
  }
}

TEST_CASE("a session that was changed anywhere, or signed with another key, is refused") {
  const std::string text = sign_dashboard_session(kSession, kSessionKey);
  CHECK(text.size() <= kMaxDashboardSessionBytes);
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const char c : {'0', 'a', '.', 'x'}) {
      if (text[i] == c) continue;
      std::string other = text;
      other[i] = c;
      CHECK_FALSE(read_dashboard_session(other, kSessionKey));
    }
    CHECK_FALSE(read_dashboard_session(text.substr(0, i), kSessionKey));
  }
  CHECK_FALSE(read_dashboard_session(text + "0", kSessionKey));
  CHECK_FALSE(read_dashboard_session(text, Secret(std::string(32, 'K'))));
  CHECK_FALSE(read_dashboard_session(std::string(500, 'a'), kSessionKey));
}
