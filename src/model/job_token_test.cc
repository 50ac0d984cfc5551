// Job tokens: what they allow, and what is not one.
#include "model/job_token.h"

#include <doctest/doctest.h>

using namespace mainspring;
using namespace std::chrono_literals;

namespace {
const Secret kTokenKey(std::string(32, 'k'));
JobToken a_token() {
  return {.queue = "photos of\n2026",
          .folder = "",
          .issuer = 0xfedcba9876543210,
          .expires_at = WallTime::from_us(0) + 1'700'000'000s};
}
}  // namespace

TEST_CASE("a job token decodes to what was signed") {
  for (JobToken token : {a_token(), JobToken{.queue = "host",
                                    .folder = "report",
                                    .issuer = 0,
                                    .expires_at = WallTime::from_us(0) + 5s}}) {
    const auto text = sign_job_token(token, kTokenKey);
    REQUIRE(text);
    CHECK(read_job_token(text->reveal(), kTokenKey) == token);
  }
}

TEST_CASE("a job token that was changed, or signed with another key, is invalid") {
  const std::string text = sign_job_token(a_token(), kTokenKey)->reveal();
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const char c : {'0', 'a', '.', 'x'}) {
      if (text[i] == c) continue;
      std::string other = text;
      other[i] = c;
      CHECK_FALSE(read_job_token(other, kTokenKey));
    }
    CHECK_FALSE(read_job_token(text.substr(0, i), kTokenKey));
  }
  CHECK_FALSE(read_job_token(text + "0", kTokenKey));
  CHECK_FALSE(read_job_token(text, Secret(std::string(32, 'K'))));
  CHECK_FALSE(read_job_token(std::string(2000, 'a'), kTokenKey));
}

TEST_CASE("a job token is limited to its queue, and a folder's to its folder") {
  const Scopes scopes = JobToken{.queue = "photos"}.scopes();
  CHECK(scopes.allows(Verb::enqueue, "photos"));
  CHECK(scopes.allows(Verb::read, "photos"));
  CHECK(scopes.allows(Verb::result, "photos"));
  for (const Verb verb : {Verb::work, Verb::lease, Verb::read_payload, Verb::schedule,
                          Verb::metrics, Verb::admin, Verb::define_exec}) {
    CHECK_FALSE(scopes.allows_some(verb));
  }
  CHECK_FALSE(scopes.allows(Verb::enqueue, "photos2"));
  const Scopes of_folder = JobToken{.queue = "host", .folder = "report"}.scopes();
  CHECK(of_folder.allows(Verb::enqueue, "folder/report"));
  CHECK_FALSE(of_folder.allows(Verb::enqueue, "folder/other"));
  CHECK_FALSE(of_folder.allows(Verb::enqueue, "host"));  // this would allow runs of any folder
  CHECK(of_folder.allows(Verb::read, "host"));
  CHECK_FALSE(sign_job_token({.queue = "photos*"}, kTokenKey));
}
