// The checks of sessions must catch a broken invariant in a hand-made history.
#include "session_checks.h"

#include <doctest/doctest.h>

#include <functional>

using namespace blackbox;

namespace {

constexpr Micros kSecond = 1'000'000;

// Jobs 1 and 2 of a session, enqueued one after the other. Each is claimed, leaves a state and
// ends. Between them a worker holds the session for a while.
History session_checks_sound() {
  History h;
  for (const std::int64_t n : {1, 2}) {
    h.enqueues.push_back({.at = {n * 10, n * 10 + 5},
                          .done = Done::yes,
                          .queue = "q",
                          .jobs = {{.nonce = n, .id = n}}});
    const Micros at = n * 10 * kSecond;
    h.grants.push_back({.at = {at, at + 10},
                        .id = n,
                        .token = n * 10,
                        .nonce = n,
                        .queue = "q",
                        .lease = 5 * kSecond,
                        .session = "s",
                        .session_state = n == 1 ? "" : "[1]"});
    h.finishes.push_back({.at = {at + 50, at + 60},
                          .done = Done::yes,
                          .id = n,
                          .token = n * 10,
                          .outcome = "complete",
                          .status = "ok"});
    h.session_writes.push_back({.queue = "q",
                                .session = "s",
                                .state = n == 1 ? "[1]" : "[2]",
                                .invoke = at + 50,
                                .acked = at + 60});
  }
  h.session_holds.push_back({.granted = 12 * kSecond,
                             .queue = "q",
                             .session = "s",
                             .token = 15,
                             .valid_until = 17 * kSecond});
  return h;
}

// The invariant that is broken by this change to the history; "" = none.
std::string broken_by(const std::function<void(History&)>& change) {
  History h = session_checks_sound();
  change(h);
  for (const Verdict& verdict : check_sessions(h)) {
    if (verdict.violated > 0) return verdict.invariant.substr(0, verdict.invariant.find(' '));
  }
  return "";
}

TEST_CASE("a sound history of a session breaks no invariant") {
  CHECK(broken_by([](History&) {}) == "");
  for (const Verdict& verdict : check_sessions(session_checks_sound())) CHECK(verdict.checked > 0);
}

TEST_CASE("ORD-1: two jobs of a session that run at once are found") {
  const auto at_once = [](History& h) {
    h.grants[1].at = {10 * kSecond + 20, 10 * kSecond + 30};
    h.grants[1].session_state = "";
  };
  CHECK(broken_by(at_once) == "ORD-1");
  CHECK(broken_by([&](History& h) {
          at_once(h);
          h.finishes[0].done = Done::no;  // and not because the first may have ended
        }) == "ORD-1");
  CHECK(broken_by([](History& h) {  // it was renewed after the second was given
          h.renews.push_back({.at = {21 * kSecond, 21 * kSecond + 1},
                              .done = Done::yes,
                              .id = 1,
                              .token = 10,
                              .renewed = true});
        }) == "ORD-1");
  const auto renewed = [&](History& h, Micros longer, Micros shorter) {
    at_once(h);
    h.finishes[0].done = Done::no;
    for (const Micros lease : {longer, shorter}) {
      const Micros at = 10 * kSecond + 10 + std::ssize(h.renews);
      h.renews.push_back({.at = {at, at + 1},
                          .done = Done::yes,
                          .id = 1,
                          .token = 10,
                          .renewed = true,
                          .lease = lease});
    }
    h.grants[1].at = {12 * kSecond, 12 * kSecond + 10};
    h.grants[1].session_state = "[1]";
    h.session_holds.clear();
  };
  CHECK(broken_by([&](History& h) { renewed(h, kSecond, 5 * kSecond); }) == "ORD-1");
  CHECK(broken_by([&](History& h) { renewed(h, 5 * kSecond, kSecond); }) == "");
}

TEST_CASE("ORD-1: a job that is given again after the next one is found, unless it was revived") {
  const auto again = [](History& h) {
    GrantEvent g = h.grants[0];
    g.at = {30 * kSecond, 30 * kSecond + 10};
    g.token = 30;
    g.session_state = "[2]";
    h.grants.push_back(g);
  };
  CHECK(broken_by(again) == "ORD-1");
  CHECK(broken_by([&](History& h) {
          again(h);
          h.retries.push_back({.at = {25 * kSecond, 26 * kSecond}, .done = Done::yes, .id = 1});
        }) == "");
}

TEST_CASE("ORD-1: jobs that begin in another order than they were enqueued in are found") {
  CHECK(broken_by([](History& h) {
          std::swap(h.grants[0].id, h.grants[1].id);
          std::swap(h.grants[0].nonce, h.grants[1].nonce);
          std::swap(h.finishes[0].id, h.finishes[1].id);
        }) == "ORD-1");
  CHECK(broken_by([](History& h) { h.enqueues[0].at = {100, 105}; }) == "ORD-1");
}

TEST_CASE("ORD-2: a state that is not the last one is found") {
  CHECK(broken_by([](History& h) { h.grants[1].session_state = ""; }) == "ORD-2");
  CHECK(broken_by([](History& h) { h.grants[1].session_state = "[7]"; }) == "ORD-2");
  CHECK(broken_by([](History& h) { h.grants[0].session_state = "[2]"; }) == "ORD-2");
  CHECK(broken_by([](History& h) {
          h.session_writes.push_back({.queue = "q",
                                      .session = "s",
                                      .state = "[9]",
                                      .invoke = 13 * kSecond,
                                      .acked = 14 * kSecond});
        }) == "ORD-2");
  CHECK(broken_by([](History& h) {
          h.grants[1].session_state = "";
          h.sessions_are_forgotten = true;
        }) == "");
}

TEST_CASE("ORD-3: a job that is given past the holder, and a second holder, are found") {
  const auto longer = [](History& h) { h.session_holds[0].valid_until = 40 * kSecond; };
  CHECK(broken_by(longer) == "ORD-3");
  CHECK(broken_by([&](History& h) {
          longer(h);
          h.grants[1].hold = 15;
        }) == "");
  CHECK(broken_by([](History& h) {
          SessionHold second = h.session_holds[0];
          second.token = 16;
          second.granted = 14 * kSecond;
          h.session_holds.push_back(second);
        }) == "ORD-3");
}

}  // namespace
