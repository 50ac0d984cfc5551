// When a run is idle, and when its liveness is logged.
#include "host/run_watch.h"

#include <doctest/doctest.h>

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

constexpr Instant kStart = Instant::from_ms(1'000'000);
std::optional<Duration> none() {
  return Duration(0);
}

}  // namespace

TEST_CASE("a silent run that uses no CPU is idle after twice the timeout") {
  RunWatch watch({.idle_timeout = 120s}, kStart);
  CHECK_FALSE(watch.step(kStart, none).idle);
  CHECK(watch.step(kStart, none).next == kStart + 120s);
  const auto looked = watch.step(kStart + 120s, none);
  CHECK_FALSE(looked.idle);
  CHECK(looked.next == kStart + 240s);
  CHECK_FALSE(watch.step(kStart + 200s, none).idle);
  CHECK(watch.step(kStart + 240s, none).idle);
}

TEST_CASE("a run that uses the CPU is not idle, however silent") {
  RunWatch watch({.idle_timeout = 120s}, kStart);
  Duration used{0};
  Instant now = kStart;
  for (int i = 0; i < 100; ++i) {
    used += 1ms;
    const auto step = watch.step(now, [&] { return std::optional(used); });
    REQUIRE_FALSE(step.idle);
    now = step.next;
  }
  CHECK(now >= kStart + 99 * 120s);
}

TEST_CASE("output resets the idle time") {
  RunWatch watch({.idle_timeout = 120s}, kStart);
  (void)watch.step(kStart + 120s, none);
  watch.on_output(kStart + 230s);
  CHECK_FALSE(watch.step(kStart + 240s, none).idle);
  CHECK_FALSE(watch.step(kStart + 350s, none).idle);
  CHECK(watch.step(kStart + 470s, none).idle);
}

TEST_CASE("unknown CPU use counts as use") {
  RunWatch watch({.idle_timeout = 1s}, kStart);
  for (int i = 1; i < 50; ++i) {
    CHECK_FALSE(watch.step(kStart + i * 1s, [] { return std::optional<Duration>(); }).idle);
  }
}

TEST_CASE("without a timeout nothing is idle") {
  RunWatch watch({}, kStart);
  CHECK_FALSE(watch.step(kStart + std::chrono::hours(1000), none).idle);
  CHECK(watch.step(kStart, none).next == Instant::never());
}

TEST_CASE("liveness is logged after one hour, then every twelve") {
  RunWatch watch({.liveness = true}, kStart);
  CHECK_FALSE(watch.step(kStart, none).say_running);
  CHECK(watch.step(kStart, none).next == kStart + 1h);
  CHECK(watch.step(kStart + 1h, none).say_running);
  CHECK_FALSE(watch.step(kStart + 2h, none).say_running);
  CHECK(watch.step(kStart + 2h, none).next == kStart + 13h);
  CHECK(watch.step(kStart + 13h, none).say_running);
}
