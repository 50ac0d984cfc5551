// Durations, instants and the error table.
#include <doctest/doctest.h>

#include "mainspring/result.h"
#include "mainspring/time.h"

using namespace mainspring;
using namespace std::chrono_literals;

TEST_CASE("a duration is a number with a unit") {
  CHECK(*parse_duration("250ms") == 250ms);
  CHECK(*parse_duration("30s") == 30s);
  CHECK(*parse_duration("15m") == 15min);
  CHECK(*parse_duration("7d") == 168h);
  CHECK(*parse_duration("1.5s") == 1500ms);
  CHECK(*parse_duration("1h30m") == 90min);
  CHECK(*parse_duration("0") == 0s);
  for (const char* bad :
       {"", "5", "s", "-1s", "1 s", "1y", "1.s", "99999999999999999999s", "36501d", "1s2"}) {
    CHECK_MESSAGE(!parse_duration(bad), bad);
  }
}

TEST_CASE("a formatted duration reads back as itself") {
  for (Duration d : {Duration(0), Duration(1), Duration(250ms), Duration(90min), Duration(168h),
                     Duration(1001ms)}) {
    CHECK(*parse_duration(format_duration(d)) == d);
  }
  CHECK(format_duration(90min) == "90m");
  CHECK(format_duration(kForever) == "none");
}

TEST_CASE("instants are RFC 3339: any zone is read, UTC is written") {
  CHECK(format_wall_time(*parse_wall_time("2026-01-31T09:00:00Z")) == "2026-01-31T09:00:00Z");
  CHECK(format_wall_time(*parse_wall_time("2026-01-31T09:00:00.25+02:00")) ==
        "2026-01-31T07:00:00.250Z");
  CHECK(format_wall_time(*parse_wall_time("2024-02-29T23:59:59.000001-00:30")) ==
        "2024-03-01T00:29:59.000001Z");
  for (const char* bad : {"", "2026-01-31", "2026-01-31T09:00:00", "2026-02-30T00:00:00Z",
                          "2026-13-01T00:00:00Z", "1969-12-31T23:59:59Z", "2026-01-31T24:00:00Z",
                          "2026-01-31T09:00:00.Z", "2026-1-1T00:00:00Z"}) {
    CHECK_MESSAGE(!parse_wall_time(bad), bad);
  }
}

TEST_CASE("now plus forever is never, and the sum does not overflow") {
  CHECK(Instant::from_ms(5) + kForever == Instant::never());
  CHECK(WallTime::never() + Duration(1) == WallTime::never());
}

TEST_CASE("every error code has a row with its name") {
  CHECK(info(ErrorCode::storage_full).http_status == 507);
  CHECK(find_error("overloaded")->code == ErrorCode::overloaded);
  CHECK(find_error("no_such_code") == nullptr);
}
