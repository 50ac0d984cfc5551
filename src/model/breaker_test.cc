// The states of a breaker: what opens it, which jobs it admits, what closes it, and its text.
#include "model/breaker.h"

#include <doctest/doctest.h>

namespace mainspring {
namespace {

using namespace std::chrono_literals;
using End = BreakerMeter::End;

const WallTime kStart = WallTime::from_us(1'800'000'000'000'000);
const BreakerSettings kSettings{
    .failures = 3, .within = 60s, .open_for = 30s, .max_open_for = 100s, .probes = 2};

struct Rig {
  BreakerMeter meter;
  WallTime now = kStart;
  JobId last = 0;
  BreakerMeter::Probe begin() {
    ++last;
    meter.begin({last, last});
    return {last, last};
  }
  void end(BreakerMeter::Probe attempt, End how) { meter.end(kSettings, attempt, now, how, now); }
  void fail(int times) {
    for (int i = 0; i < times; ++i) end(begin(), End::failed);
  }
  void pass(Duration time) {
    now = now + time;
    meter.step(kSettings, now);
  }
};

}  // namespace

TEST_CASE("`failures` failures within the time open a breaker for open_for") {
  Rig rig;
  rig.fail(2);
  rig.pass(61s);
  rig.fail(2);
  CHECK(rig.meter.state() == BreakerState::closed);
  CHECK(rig.meter.room() > 1'000'000);
  rig.fail(1);
  CHECK(rig.meter.state() == BreakerState::open);
  CHECK(rig.meter.open_until() == rig.now + 30s);
  CHECK(rig.meter.room() == 0);
  CHECK(rig.meter.opened() == 1);
}

TEST_CASE("a half-open breaker counts its probes and closes when enough of them succeed") {
  Rig rig;
  rig.fail(3);
  rig.pass(30s);
  CHECK(rig.meter.state() == BreakerState::half_open);
  int succeeded = 0;
  for (int room = 2; room < kBreakerFullRoom; room *= 2) {
    CHECK(rig.meter.room() == room);
    for (int i = 0; i < room; ++i, ++succeeded) rig.end(rig.begin(), End::succeeded);
  }
  CHECK(succeeded == 30);
  CHECK(rig.meter.state() == BreakerState::closed);
  rig.end({1, 1}, End::failed);
  rig.meter.end(kSettings, {2, 2}, kStart, End::failed, rig.now);  // it started before
  BreakerInfo info;
  rig.meter.describe(kSettings, rig.now, info);
  CHECK(info.failures == 1);
}

TEST_CASE("a failed probe opens it for twice as long; other ends of a probe free its place") {
  Rig rig;
  rig.fail(3);
  rig.pass(30s);
  const auto first = rig.begin(), second = rig.begin();
  CHECK(rig.meter.room() == 0);
  rig.end({99, 99}, End::failed);
  rig.end(first, End::neither);
  CHECK(rig.meter.room() == 1);
  rig.end(second, End::failed);
  CHECK(rig.meter.open_until() == rig.now + 60s);
  rig.pass(60s);
  rig.fail(1);
  CHECK(rig.meter.open_until() == rig.now + 100s);
}

TEST_CASE("a handler's request only lengthens the time, to the maximum; an operator's is exact") {
  Rig rig;
  rig.meter.open_for(kSettings, 50s, rig.now);
  CHECK(rig.meter.open_until() == rig.now + 50s);
  rig.meter.open_for(kSettings, 20s, rig.now);
  CHECK(rig.meter.open_until() == rig.now + 50s);
  rig.meter.set_open(kSettings, 20s, rig.now);
  CHECK(rig.meter.open_until() == rig.now + 20s);
  CHECK(rig.meter.opened() == 1);
  rig.meter.open_for(kSettings, 24h, rig.now);
  CHECK(rig.meter.open_until() == rig.now + kSettings.max_open_for);
  rig.meter.set_closed(rig.now);
  CHECK(rig.meter.state() == BreakerState::closed);
}

TEST_CASE("its text decodes to the same state, and an invalid text is closed") {
  Rig rig;
  CHECK(rig.meter.text().empty());
  CHECK(BreakerMeter::parse("") == BreakerMeter());
  CHECK(BreakerMeter::parse("1,2,nonsense") == BreakerMeter());
  const auto kept = [&] { return BreakerMeter::parse(rig.meter.text()) == rig.meter; };
  rig.fail(2);
  CHECK(kept());
  rig.fail(1);
  CHECK(kept());
  rig.pass(30s);
  rig.begin(), rig.begin();
  CHECK(rig.meter.probes().size() == 2);
  CHECK(kept());
  BreakerMeter most;
  BreakerSettings settings = kSettings;
  settings.failures = kMaxBreakerFailures;
  for (int i = 1; i < kMaxBreakerFailures; ++i)
    most.end(settings, {i, i}, rig.now, End::failed, rig.now);
  CHECK(most.text().size() < 4096);
  CHECK(BreakerMeter::parse(most.text()) == most);
}

TEST_CASE("settings out of range are refused by name") {
  const auto field = [](auto change) {
    BreakerSettings settings;
    change(settings);
    const auto good = validate(settings);
    return good ? std::string() : good.error().field;
  };
  CHECK(field([](BreakerSettings&) {}).empty());
  CHECK(field([](BreakerSettings& s) { s.failures = 0; }) == "failures");
  CHECK(field([](BreakerSettings& s) { s.failures = 101; }) == "failures");
  CHECK(field([](BreakerSettings& s) { s.within = 1ms; }) == "within");
  CHECK(field([](BreakerSettings& s) { s.open_for = 25h; }) == "open_for");
  CHECK(field([](BreakerSettings& s) { s.max_open_for = 10s; }) == "max_open_for");
  CHECK(field([](BreakerSettings& s) { s.probes = 17; }) == "probes");
  CHECK(check_open_for("open_breaker_for", 0s).error().field == "open_breaker_for");
}

}  // namespace mainspring
