// Invalid session requests are refused before the store is read.
#include "broker/session_calls.h"

#include <doctest/doctest.h>

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

const SessionKey kSession{"orders", "customer/7"};

}  // namespace

TEST_CASE("an invalid session request is refused before it reaches the store") {
  const auto field_of = [](const Result<void>& result) {
    return result ? std::string("good") : result.error().field;
  };
  CHECK(field_of(check_session(kSession)) == "good");
  CHECK(field_of(check_session({"a b", "k"})) == "queue");
  CHECK(field_of(check_session({"mainspring.callbacks", "k"})) == "queue");
  CHECK(field_of(check_session({"q", ""})) == "session");
  CHECK(field_of(check_session({"q", "\xff"})) == "session");
  CHECK(field_of(validate(AcceptSession{.worker = "", .session = kSession})) == "worker");
  CHECK(field_of(validate(AcceptSession{.worker = "w", .session = kSession, .lease = 1ms})) ==
        "lease");
  CHECK(field_of(validate(RenewSession{.session = kSession, .token = 1})) == "good");
  CHECK(field_of(validate(RenewSession{.session = kSession})) == "token");
  CHECK(field_of(validate(ReleaseSession{.session = kSession})) == "token");
  CHECK(field_of(validate(PutSessionState{.session = kSession, .token = 1, .state = "{"})) ==
        "state");
}
