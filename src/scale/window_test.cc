// Calendar windows: overlaps, lead, time zones and clock changes.
#include "scale/window.h"

#include <doctest/doctest.h>

namespace mainspring {
namespace {

using namespace std::chrono_literals;

ScaleOptions at(const char* time, std::initializer_list<const char*> texts,
                ScaleOptions options = {.min = 1, .max = 20, .lead = 0s}) {
  std::vector<ScaleWindow> windows;
  for (const char* text : texts) windows.push_back(*parse_scale_window(text));
  return with_windows(options, windows, *parse_wall_time(time));
}

constexpr const char* kOffice = "min=4; cron=0 8 * * 1-5; for=10h; time_zone=Europe/Berlin";

}  // namespace

TEST_CASE("a window raises the minimum from its start to its end, on its days") {
  CHECK(at("2026-11-27T06:59:59Z", {kOffice}).min == 1);  // Friday, 7:59 in Berlin
  CHECK(at("2026-11-27T07:00:00Z", {kOffice}).min == 4);
  CHECK(at("2026-11-27T16:59:59Z", {kOffice}).min == 4);
  CHECK(at("2026-11-27T17:00:00Z", {kOffice}).min == 1);
  CHECK(at("2026-11-28T10:00:00Z", {kOffice}).min == 1);  // Saturday
}

TEST_CASE("a window opens early by the time that a worker takes to start") {
  const ScaleOptions slow{.min = 0, .max = 20, .lead = 2min};
  CHECK(at("2026-11-27T06:57:59Z", {kOffice}, slow).min == 0);
  CHECK(at("2026-11-27T06:58:00Z", {kOffice}, slow).min == 4);
}

TEST_CASE("of windows that overlap, the largest minimum and the smallest maximum count") {
  const char* peak = "min=6; max=9; cron=0 9 * * *; for=1h; time_zone=UTC";
  const char* night = "max=3; cron=0 9 * * *; for=30m; time_zone=UTC";
  CHECK(at("2026-11-27T09:45:00Z", {kOffice, peak, night}).min == 6);
  CHECK(at("2026-11-27T09:45:00Z", {kOffice, peak, night}).max == 9);
  CHECK(at("2026-11-27T09:15:00Z", {kOffice, peak, night}).max == 3);
  CHECK(at("2026-11-27T09:15:00Z", {kOffice, peak, night}).min == 3);  // cut to the maximum
}

TEST_CASE("a window keeps its local start and its length over a change of the clock") {
  const char* night = "min=2; cron=0 1 * * *; for=4h; time_zone=Europe/Berlin";
  // 29 March 2026: 01:00 is 00:00 UTC, and 02:00 to 03:00 does not exist.
  CHECK(at("2026-03-29T00:00:00Z", {night}).min == 2);
  CHECK(at("2026-03-29T03:59:59Z", {night}).min == 2);
  CHECK(at("2026-03-29T04:00:00Z", {night}).min == 1);
  CHECK(at("2026-10-24T23:00:00Z", {night}).min == 2);  // 01:00 on 25 October, summer time
  CHECK(at("2026-10-25T03:00:00Z", {night}).min == 1);
}

TEST_CASE("an invalid window is refused with the part that is wrong") {
  for (const char* text :
       {"", "min=4", "min=4; for=1h", "min=-1; cron=* * * * *; for=1h", "cron=* * * * *; for=1h",
        "min=1; cron=61 * * * *; for=1h", "min=1; cron=* * * * *; for=1s", "min=1; colour=red",
        "min=1; cron=* * * * *; for=1h; time_zone=Mars/Base"}) {
    CAPTURE(text);
    const auto window = parse_scale_window(text);
    CHECK_FALSE(window);
    if (!window) CHECK(window.error().field == "window");
  }
}

}  // namespace mainspring
