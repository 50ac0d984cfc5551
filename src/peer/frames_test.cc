// Frames decode to what was encoded; invalid frames are refused.
#include "peer/frames.h"

#include <doctest/doctest.h>

#include "env/random.h"

using namespace mainspring;
using namespace mainspring::notifier;

namespace {

bool same(const ChangeHints& a, const ChangeHints& b) {
  return a.queues == b.queues && a.released == b.released && a.cancels == b.cancels &&
         a.commands == b.commands && a.ended == b.ended && a.ended_reported == b.ended_reported &&
         a.next_due == b.next_due && a.catalog == b.catalog && a.everything == b.everything;
}

}  // namespace

TEST_CASE("a frame decodes to what was encoded") {
  const ChangeHints all[] = {{},
                             {.queues = {"a", "mail.high"}},
                             {.released = {"mainspring/leader"}, .catalog = true},
                             {.ended = {1, 9'007'199'254'740'993}},
                             {.released = {"l"}, .ended_reported = {1, 2}},
                             {.cancels = {{.job = 7, .worker = "w"}, {.job = 1, .worker = "x"}}},
                             {.commands = {{"w", WorkerCommand::stop}, {"x", WorkerCommand::none}}},
                             {.next_due = WallTime::from_ms(1'767'225'600'000)},
                             {.queues = {std::string(128, 'x')}, .everything = true}};
  for (const ChangeHints& what : all) {
    for (const auto ask : {PeerRelay::Ask::nothing, PeerRelay::Ask::along, PeerRelay::Ask::here}) {
      const auto back = decode_body(encode_body(what, ask));
      REQUIRE(back.has_value());
      CHECK(same(back->what, what));
      CHECK(back->ask == ask);
    }
  }
}

TEST_CASE("news that do not fit into a frame become a frame for everything") {
  ChangeHints much;
  for (int i = 0; i < 2000; ++i) much.queues.push_back(std::string(100, 'q') + std::to_string(i));
  const ChangeHints too_long{.cancels = {{.job = 7, .worker = std::string(1000, 'w')}}};
  for (const ChangeHints& what : {much, too_long}) {
    const std::string body = encode_body(what, PeerRelay::Ask::here);
    CHECK(body.size() <= kMaxBody);
    const auto back = decode_body(body);
    REQUIRE(back.has_value());
    CHECK(back->what.everything);
    CHECK(back->what.catalog);
    CHECK(back->what.queues.empty());
    CHECK(back->what.cancels.empty());
    CHECK(back->ask == PeerRelay::Ask::here);
  }
}

TEST_CASE("a body that is truncated, too long or has unknown flags is refused with the rule") {
  const std::string body = encode_body({.queues = {"a", "b"},
                                        .released = {"l"},
                                        .cancels = {{.job = 7, .worker = "w"}},
                                        .ended = {7}});
  for (std::size_t n = 0; n < body.size(); ++n) CHECK_FALSE(decode_body(body.substr(0, n)));
  CHECK_FALSE(decode_body(body + "x"));
  std::string flagged = body;
  flagged[0] = 4;
  const auto refused = decode_body(flagged);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("must be one that a node makes") != std::string::npos);
  CHECK_FALSE(decode_body(std::string(kMaxBody + 1, '\0')));
}

TEST_CASE("relayed bytes arrive unchanged, and cannot be read or moved to another frame") {
  const Digest session = sha256("session");
  for (const std::string& bytes :
       {std::string(), std::string("secret words"), std::string(kMaxRelayed, 'x')}) {
    const std::string frame = encode_relayed(session, 7, bytes);
    const std::string body = frame.substr(kLengthBytes, frame.size() - kLengthBytes - kMacBytes);
    CHECK(get_u32(frame) == body.size());
    CHECK(body.size() <= kMaxBody);
    CHECK(is_relayed(body));
    CHECK_FALSE(decode_body(body));
    CHECK(decode_relayed(session, 7, body) == bytes);
    CHECK(frame.find("secret") == std::string::npos);
    CHECK_FALSE(decode_relayed(session, 8, body));
    CHECK_FALSE(decode_relayed(sha256("other"), 7, body));
    std::string changed = body;
    changed.back() = static_cast<char>(changed.back() ^ 1);
    CHECK_FALSE(decode_relayed(session, 7, changed));
    CHECK_FALSE(decode_relayed(session, 7, body.substr(0, 10)));
  }
  CHECK_FALSE(is_relayed(encode_body({.queues = {"q"}})));
}

TEST_CASE("random bytes are refused without a crash") {
  SeededRandom random(1);
  const std::string good = encode_body({.queues = {"abc", "def"},
                                        .released = {"l"},
                                        .cancels = {{.job = 7, .worker = "w"}},
                                        .ended = {7}});
  for (int i = 0; i < 20'000; ++i) {
    std::string body = good;
    for (int changes = 0; changes < 3; ++changes)
      body[random.below(body.size())] = static_cast<char>(random.next());
    const auto what = decode_body(body);
    if (what) CHECK(encode_body(what->what).size() <= kMaxBody);
  }
}

TEST_CASE("a proof is bound to its role, both nonces and both nodes") {
  const Digest key = sha256("key");
  const Talk talk{.acceptor_nonce = std::string(kNonceBytes, 'a'),
                  .dialer_nonce = std::string(kNonceBytes, 'd'),
                  .acceptor = 1,
                  .dialer = 2};
  const Digest proved = proof(key, Role::dials, talk);
  CHECK(proved == proof(key, Role::dials, talk));
  CHECK(proved != proof(key, Role::accepts, talk));
  CHECK(proved != proof(sha256("other"), Role::dials, talk));
  Talk other = talk;
  other.acceptor = 3;
  CHECK(proved != proof(key, Role::dials, other));
  other = talk;
  other.dialer = 3;
  CHECK(proved != proof(key, Role::dials, other));
  other = talk;
  other.acceptor_nonce[0] = 'x';
  CHECK(proved != proof(key, Role::dials, other));
  other = talk;
  other.dialer_nonce[0] = 'x';
  CHECK(proved != proof(key, Role::dials, other));
}

TEST_CASE("a frame's code is bound to its number and its bytes") {
  const Digest session = sha256("session");
  CHECK(frame_mac(session, 1, "body") == frame_mac(session, 1, "body"));
  CHECK(frame_mac(session, 1, "body") != frame_mac(session, 2, "body"));
  CHECK(frame_mac(session, 1, "body") != frame_mac(session, 1, "bodY"));
  CHECK(frame_mac(session, 1, "") != ack_mac(session, 1));
}
