// The checks must catch a broken promise in a hand-made history: a canary for each invariant.
#include <doctest/doctest.h>

#include <algorithm>

#include "checks.h"

using namespace blackbox;

namespace {

// One job, enqueued at 0, claimed at 100 with token 1 for a second, completed at 300.
History sound() {
  History h;
  h.enqueues.push_back({.at = {0, 50},
                        .done = Done::yes,
                        .status = 201,
                        .queue = "q",
                        .jobs = {{.nonce = 7, .id = 1, .state = "available"}}});
  h.grants.push_back({.at = {100, 150},
                      .request = 1,
                      .id = 1,
                      .token = 1,
                      .attempt = 1,
                      .max_attempts = 3,
                      .nonce = 7,
                      .queue = "q",
                      .lease = 1'000'000});
  h.finishes.push_back({.at = {300, 350},
                        .done = Done::yes,
                        .id = 1,
                        .token = 1,
                        .outcome = "complete",
                        .status = "ok",
                        .text = "{\"r\":1}"});
  h.jobs[1] = {.id = 1,
               .nonce = 7,
               .queue = "q",
               .state = "completed",
               .attempt = 1,
               .max_attempts = 3,
               .result = "{\"r\":1}"};
  h.queues["q"] = {.counts = {{"completed", 1}}, .enqueued = 1};
  h.complete = true;
  return h;
}

// The invariants that it breaks, by the word before the space.
std::vector<std::string> broken(const History& history) {
  std::vector<std::string> names;
  for (const Verdict& verdict : check(history)) {
    if (verdict.violated > 0)
      names.push_back(verdict.invariant.substr(0, verdict.invariant.find(' ')));
  }
  return names;
}

bool breaks(const History& history, const std::string& invariant) {
  const std::vector<std::string> names = broken(history);
  return std::find(names.begin(), names.end(), invariant) != names.end();
}

GrantEvent grant(Span at, std::int64_t token, int attempt) {
  return {.at = at,
          .request = token,
          .id = 1,
          .token = token,
          .attempt = attempt,
          .max_attempts = 3,
          .nonce = 7,
          .queue = "q",
          .lease = 1'000'000};
}

}  // namespace

TEST_CASE("a sound history passes") {
  CHECK(broken(sound()).empty());
}

TEST_CASE("canary: a lost job, a lost result, a phantom, a double") {
  History gone = sound();
  gone.jobs.clear();
  CHECK(breaks(gone, "DUR-1"));
  History other_result = sound();
  other_result.jobs[1].result = "{\"r\":2}";
  CHECK(breaks(other_result, "DUR-2"));
  History undone = sound();
  undone.jobs[1].state = "available";
  CHECK(breaks(undone, "DUR-2"));
  CHECK(breaks(undone, "STATE-1"));
  History refused = sound();
  refused.enqueues[0].done = Done::no;
  CHECK(breaks(refused, "DUR-3"));
  History twice = sound();
  twice.jobs[2] = twice.jobs[1];
  twice.jobs[2].id = 2;
  CHECK(breaks(twice, "DUR-3"));
}

TEST_CASE("canary: half a batch") {
  History h = sound();
  h.enqueues.push_back({.at = {400, 500},
                        .done = Done::unknown,
                        .queue = "q",
                        .jobs = {{.nonce = 8}, {.nonce = 9}}});
  CHECK(broken(h).empty());
  h.jobs[2] = {.id = 2, .nonce = 8, .queue = "q", .state = "completed"};
  CHECK(breaks(h, "ATOM-1"));
}

TEST_CASE("canary: an idempotency key with two jobs, or two bodies") {
  History h = sound();
  h.enqueues[0].key = "k";
  h.enqueues[0].body = "a";
  h.enqueues.push_back(h.enqueues[0]);
  CHECK(broken(h).empty());
  History two_bodies = h;
  two_bodies.enqueues[1].body = "b";
  CHECK(breaks(two_bodies, "IDEM-1"));
  h.enqueues[1].jobs[0].id = 2;
  CHECK(breaks(h, "IDEM-1"));
}

TEST_CASE("canary: two jobs for a unique key") {
  History h = sound();
  h.finishes[0].at = {5000, 5100};
  h.enqueues[0].unique = "u";
  EnqueueEvent second = h.enqueues[0];
  second.at = {1000, 1100};
  second.jobs[0].id = 2;
  h.enqueues.push_back(second);
  CHECK(breaks(h, "UNIQ-1"));
  h.finishes[0].at = {900, 950};
  CHECK_FALSE(breaks(h, "UNIQ-1"));
}

TEST_CASE("canary: leases that overlap, also after a renewal") {
  History h = sound();
  h.finishes[0].token = 2;
  h.grants.push_back(grant({800'000, 800'100}, 2, 2));
  h.finishes[0].at = {2'000'000, 2'000'100};
  CHECK(breaks(h, "LEASE"));
  h.grants[1].at = {1'100'000, 1'100'100};
  CHECK_FALSE(breaks(h, "LEASE"));
  h.renews.push_back({.at = {500'000, 500'100},
                      .done = Done::yes,
                      .id = 1,
                      .token = 1,
                      .renewed = true,
                      .lease = 1'000'000});
  CHECK(breaks(h, "LEASE"));
  RenewEvent later = h.renews[0];
  later.at = {600'000, 600'100};
  later.lease = 100'000;  // shorter than the remaining time, as requested
  h.renews.push_back(later);
  CHECK_FALSE(breaks(h, "LEASE"));
  h.renews[1].lease = 900'000;
  CHECK(breaks(h, "LEASE"));
  h.renews[1].done = Done::unknown;  // perhaps it was shorter
  CHECK_FALSE(breaks(h, "LEASE"));
}

TEST_CASE("canary: tokens that fall, repeat, or are accepted when they are old") {
  History h = sound();
  h.finishes[0].at = {2'000'000, 2'000'100};
  h.grants.push_back(grant({1'200'000, 1'200'100}, 2, 2));
  CHECK(breaks(h, "FENCE-3"));
  h.finishes[0].token = 2;
  CHECK(broken(h).empty());
  h.grants[1].request = h.grants[0].request;
  h.grants[1].token = 1;
  CHECK(breaks(h, "FENCE-1"));
  h.grants[1].request = 99;
  CHECK(breaks(h, "FENCE-2"));
}

TEST_CASE("canary: attempts and back-off") {
  History h = sound();
  h.grants[0].attempt = 4;
  CHECK(breaks(h, "ATT-1"));
  h = sound();
  h.finishes[0].token = 2;
  h.finishes[0].at = {3'000'000, 3'000'100};
  h.finishes.push_back({.at = {200, 250},
                        .done = Done::yes,
                        .id = 1,
                        .token = 1,
                        .outcome = "retry",
                        .status = "ok",
                        .text = "e",
                        .after = 500'000});
  h.jobs[1].errors = {{1, "e"}};
  h.grants.push_back(grant({100'000, 100'100}, 2, 2));
  CHECK(breaks(h, "ATT-1"));
  h.grants[1].at = {600'000, 600'100};
  CHECK(broken(h).empty());
  h.grants[1].attempt = 1;
  CHECK(breaks(h, "ATT-1"));
  h.jobs[1].errors.clear();
  CHECK(breaks(h, "DUR-2"));
}

TEST_CASE("canary: a deferred job that is claimed again without a retry") {
  History h = sound();
  h.finishes[0].token = 2;
  h.finishes[0].at = {3'000'000, 3'000'100};
  h.finishes.push_back({.at = {200, 250},
                        .done = Done::yes,
                        .id = 1,
                        .token = 1,
                        .outcome = "defer",
                        .status = "ok",
                        .text = "later"});
  h.grants.push_back(grant({100'000, 100'100}, 2, 1));
  CHECK(breaks(h, "ATT-1"));
  h.retries.push_back({.at = {1000, 1100}, .done = Done::unknown, .id = 1});
  CHECK(broken(h).empty());
}

TEST_CASE(
    "canary: a delay that is not kept, an attempt that fails twice, a request without answer") {
  History h = sound();
  h.enqueues[0].jobs[0].delay = 500'000;
  CHECK(breaks(h, "ATT-1"));
  h.enqueues[0].jobs[0].delay = 50;
  CHECK(broken(h).empty());
  h.jobs[1].errors = {{1, "a"}, {1, "b"}};
  CHECK(breaks(h, "ATT-1"));
  h.jobs[1].errors = {{1, "a"}, {2, "b"}};
  CHECK(broken(h).empty());
  h.unanswered = {"POST /v1/claim"};
  CHECK(breaks(h, "LIVE-1"));
}

TEST_CASE("canary: dead letter, counters, terminal states") {
  History h = sound();
  h.dead_listing = {1};
  CHECK(breaks(h, "DLQ-1"));
  h = sound();
  h.queues["q"].counts["completed"] = 2;
  CHECK(breaks(h, "CONS-1"));
  h = sound();
  h.queues["q"].enqueued = 2;
  CHECK(breaks(h, "CONS-1"));
  h = sound();
  h.counts.push_back({.at = {60, 70}, .queue = "q", .enqueued = 1, .accounted = 0});
  CHECK(breaks(h, "CONS-1"));
  h = sound();
  h.reads.push_back({.at = {400, 410}, .id = 1, .status = 200, .state = "dead", .attempt = 1});
  CHECK(breaks(h, "STATE-1"));
}

TEST_CASE("canary: a cancel that loses after it won, and one that is not passed on") {
  History h = sound();
  h.cancels.push_back(
      {.at = {200, 210}, .done = Done::yes, .id = 1, .status = 200, .state = "cancelled"});
  CHECK(breaks(h, "CAN-1"));
  h = sound();
  h.cancels.push_back({.at = {160, 170},
                       .done = Done::yes,
                       .id = 1,
                       .status = 200,
                       .state = "running",
                       .requested = true});
  CHECK(broken(h).empty());
  h.renews.push_back(
      {.at = {200, 250}, .done = Done::yes, .id = 1, .token = 1, .renewed = true, .lease = 1});
  CHECK(breaks(h, "CAN-1"));
  h.renews[0].cancel = true;
  CHECK(broken(h).empty());
}

TEST_CASE("canary: a lost checkpoint, a paused queue that gives") {
  History h = sound();
  h.finishes[0].token = 2;
  h.finishes[0].at = {3'000'000, 3'000'100};
  h.renews.push_back({.at = {200, 250},
                      .done = Done::yes,
                      .id = 1,
                      .token = 1,
                      .renewed = true,
                      .checkpoint = "{\"c\":1}",
                      .lease = 1'000'000});
  h.grants.push_back(grant({1'200'000, 1'200'100}, 2, 2));
  CHECK(breaks(h, "DUR-2"));
  h.grants[1].checkpoint = "{\"c\":1}";
  CHECK(broken(h).empty());
  h.pauses.push_back({.at = {10, 20}, .done = Done::yes, .queue = "q", .paused = true});
  CHECK(breaks(h, "CTL-1"));
  h.pauses.push_back({.at = {90, 95}, .done = Done::unknown, .queue = "q", .paused = false});
  CHECK_FALSE(breaks(h, "CTL-1"));
}

TEST_CASE("a run without the required events is reported") {
  CHECK(not_met(sound()).size() >= 6);
}
