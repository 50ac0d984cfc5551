// The database's clock, estimated from fast and slow responses.
#include <doctest/doctest.h>

#include "store_postgres/postgres_store.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

const WallTime kNoon = WallTime::from_us(1'800'000'000'000'000);

// A node whose wall clock is an hour slow, and its database.
struct Asked {
  ManualClock base{kNoon - 1h};
  DatabaseClock clock{base};
  Duration set_by{0};  // the database's clock was set by this much

  WallTime truth() const { return base.now().wall + 1h + set_by; }
  // The request takes `there`, the response `back`.
  void ask(Duration there, Duration back) {
    const Now sent = base.now();
    base.advance(there);
    const WallTime answer = truth();
    base.advance(back);
    clock.note(answer, sent, base.now());
  }
  Duration off() const { return clock.now().wall - truth(); }
};

Duration size(Duration d) {
  return d < Duration(0) ? -d : d;
}

}  // namespace

TEST_CASE("the database time is known to half a round trip") {
  Asked asked;
  CHECK(size(asked.off()) >= 1h);
  asked.ask(40ms, 0ms);
  CHECK(size(asked.off()) <= 20ms);
  asked.ask(1ms, 1ms);
  CHECK(size(asked.off()) <= 1ms);
}

TEST_CASE("a delayed response does not change the time, even after a long silence") {
  for (const Duration pause : {1s, 11s, 60s}) {
    CAPTURE(pause.count());
    Asked asked;
    asked.ask(1ms, 1ms);
    asked.base.advance(pause);
    asked.ask(0ms, 9s);
    CHECK(size(asked.off()) <= 1ms);
    asked.ask(9s, 0ms);
    CHECK(size(asked.off()) <= 1ms);
  }
}

TEST_CASE("responses that are all slow count after a while") {
  Asked asked;
  asked.ask(0ms, 2ms);
  const WallTime first = asked.clock.now().wall;
  for (int i = 0; i < 120; ++i) {
    asked.base.advance(1s);
    asked.ask(50ms, 50ms);
  }
  CHECK(asked.clock.now().wall > first);
  CHECK(size(asked.off()) == Duration(0));
}

TEST_CASE("a changed database clock, or another database, is followed at once") {
  for (const Duration set_by : {Duration(5s), Duration(-5s), Duration(1h)}) {
    Asked asked;
    asked.ask(1ms, 1ms);
    asked.base.advance(1s);
    asked.set_by = set_by;
    asked.ask(20ms, 20ms);
    CHECK(size(asked.off()) <= 20ms);
  }
}
