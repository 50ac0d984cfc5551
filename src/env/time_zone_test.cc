// Clock changes of real places: gaps, repeats, a missing day, and the time after 2037.
#include "env/time_zone.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

using namespace mainspring;

namespace {

const TimeZone& zone(std::string_view name) {
  const Result<const TimeZone*> found = TimeZone::find(name);
  REQUIRE_MESSAGE(found, name);
  return **found;
}
WallTime at(const char* text) {
  return *parse_wall_time(text);
}
// A local time, written as if it were UTC.
std::int64_t local(const char* text) {
  return at(text).us() / 1'000'000;
}
std::string shows(const char* name, const char* text) {
  return format_wall_time(WallTime::from_us(zone(name).local_seconds(at(text)) * 1'000'000));
}
void check(const char* name, const char* text, TimeZone::Kind kind, const char* first,
           const char* second) {
  const TimeZone::Resolved found = zone(name).resolve(local(text));
  INFO(name, " ", text);
  CHECK(found.kind == kind);
  CHECK(format_wall_time(found.first) == first);
  CHECK(format_wall_time(found.second) == second);
}
void check_once(const char* name, const char* text, const char* expected) {
  check(name, text, TimeZone::Kind::once, expected, expected);
}
void check_gap(const char* name, const char* text, const char* end) {
  check(name, text, TimeZone::Kind::skipped, end, end);
}

TEST_CASE("Berlin skips 02:00 to 03:00 in March and repeats it in October") {
  check_once("Europe/Berlin", "2026-03-29T01:59:59Z", "2026-03-29T00:59:59Z");
  check_gap("Europe/Berlin", "2026-03-29T02:00:00Z", "2026-03-29T01:00:00Z");
  check_gap("Europe/Berlin", "2026-03-29T02:59:59Z", "2026-03-29T01:00:00Z");
  check_once("Europe/Berlin", "2026-03-29T03:00:00Z", "2026-03-29T01:00:00Z");
  check_once("Europe/Berlin", "2026-10-25T01:59:59Z", "2026-10-24T23:59:59Z");
  check("Europe/Berlin", "2026-10-25T02:30:00Z", TimeZone::Kind::twice, "2026-10-25T00:30:00Z",
        "2026-10-25T01:30:00Z");
  check_once("Europe/Berlin", "2026-10-25T03:00:00Z", "2026-10-25T02:00:00Z");
  CHECK(shows("Europe/Berlin", "2026-07-01T00:00:00Z") == "2026-07-01T02:00:00Z");
  CHECK(shows("Europe/Berlin", "2026-01-01T00:00:00Z") == "2026-01-01T01:00:00Z");
}

TEST_CASE("New York changes at its own dates, west of Greenwich") {
  check_gap("America/New_York", "2026-03-08T02:30:00Z", "2026-03-08T07:00:00Z");
  check("America/New_York", "2026-11-01T01:30:00Z", TimeZone::Kind::twice, "2026-11-01T05:30:00Z",
        "2026-11-01T06:30:00Z");
}

TEST_CASE("Lord Howe changes by half an hour") {
  check_gap("Australia/Lord_Howe", "2026-10-04T02:15:00Z", "2026-10-03T15:30:00Z");
  check_once("Australia/Lord_Howe", "2026-10-04T02:30:00Z", "2026-10-03T15:30:00Z");
  check("Australia/Lord_Howe", "2026-04-05T01:45:00Z", TimeZone::Kind::twice,
        "2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z");
  check_once("Australia/Lord_Howe", "2026-04-05T01:29:00Z", "2026-04-04T14:29:00Z");
}

TEST_CASE("Apia had no 30 December 2011, and Kwajalein no 21 August 1993") {
  check_once("Pacific/Apia", "2011-12-29T23:59:59Z", "2011-12-30T09:59:59Z");
  check_gap("Pacific/Apia", "2011-12-30T00:00:00Z", "2011-12-30T10:00:00Z");
  check_gap("Pacific/Apia", "2011-12-30T23:59:59Z", "2011-12-30T10:00:00Z");
  check_once("Pacific/Apia", "2011-12-31T00:00:00Z", "2011-12-30T10:00:00Z");
  check_gap("Pacific/Kwajalein", "1993-08-21T12:00:00Z", "1993-08-21T12:00:00Z");
}

TEST_CASE("Kolkata is 5:30 ahead all year; UTC is UTC") {
  check_once("Asia/Kolkata", "2026-06-01T05:30:00Z", "2026-06-01T00:00:00Z");
  CHECK(zone("Asia/Kolkata").span(at("2026-06-01T00:00:00Z")).end == WallTime::never());
  check_once("UTC", "2026-06-01T05:30:00Z", "2026-06-01T05:30:00Z");
  CHECK(zone("UTC").span(at("2026-06-01T00:00:00Z")).offset_s == 0);
}

TEST_CASE("the rules apply after 2037, up to the year 9999") {
  CHECK(shows("Europe/Berlin", "2037-07-01T00:00:00Z") == "2037-07-01T02:00:00Z");
  CHECK(shows("Europe/Berlin", "2038-07-01T00:00:00Z") == "2038-07-01T02:00:00Z");
  CHECK(shows("Europe/Berlin", "2099-01-01T00:00:00Z") == "2099-01-01T01:00:00Z");
  check_gap("Europe/Berlin", "2099-03-29T02:30:00Z", "2099-03-29T01:00:00Z");
  check("Europe/Berlin", "2099-10-25T02:30:00Z", TimeZone::Kind::twice, "2099-10-25T00:30:00Z",
        "2099-10-25T01:30:00Z");
  check_gap("Europe/Berlin", "2499-03-29T02:30:00Z", "2499-03-29T01:00:00Z");
  check_gap("Europe/Berlin", "9999-03-28T02:30:00Z", "9999-03-28T01:00:00Z");
  check_gap("Australia/Lord_Howe", "2099-10-04T02:15:00Z", "2099-10-03T15:30:00Z");
  // There, winter time is formally the daylight saving time.
  CHECK(shows("Europe/Dublin", "2099-07-01T00:00:00Z") == "2099-07-01T01:00:00Z");
  CHECK(shows("Europe/Dublin", "2099-12-31T23:00:00Z") == "2099-12-31T23:00:00Z");
}

TEST_CASE("rules that start before midnight or after the next midnight apply after 2037 too") {
  check_gap("America/Nuuk", "2099-03-28T23:30:00Z", "2099-03-29T01:00:00Z");
  check("America/Nuuk", "2099-10-24T23:30:00Z", TimeZone::Kind::twice, "2099-10-25T00:30:00Z",
        "2099-10-25T01:30:00Z");
  check_gap("Asia/Gaza", "2099-03-28T02:30:00Z", "2099-03-28T00:00:00Z");
}

TEST_CASE("every zone of the database is read to its end") {
  std::ifstream table("/usr/share/zoneinfo/zone1970.tab");
  int zones = 0;
  for (std::string line; std::getline(table, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream fields(line);
    std::string country, place, name;
    fields >> country >> place >> name;
    zone(name).resolve(local("2500-06-01T00:00:00Z"));
    ++zones;
  }
  CHECK(zones > 200);
}

TEST_CASE("a span is the time between two changes") {
  const TimeZone::Span summer = zone("Europe/Berlin").span(at("2026-03-29T01:00:00Z"));
  CHECK(format_wall_time(summer.begin) == "2026-03-29T01:00:00Z");
  CHECK(format_wall_time(summer.end) == "2026-10-25T01:00:00Z");
  CHECK(summer.offset_s == 7200);
}

TEST_CASE("every second around a year's changes resolves to the instant that shows it") {
  for (const char* name : {"Europe/Berlin", "America/St_Johns", "Asia/Gaza", "Africa/Casablanca",
                           "America/Nuuk", "Antarctica/Troll", "Pacific/Chatham"}) {
    const TimeZone& place = zone(name);
    WallTime t = at("2026-01-01T00:00:00Z");
    for (int change = 0; change < 6; ++change) {
      t = place.span(t).end;
      for (int s = -3 * 3600; s < 3 * 3600; s += 600) {
        const WallTime real = t + std::chrono::seconds(s);
        const TimeZone::Resolved found = place.resolve(place.local_seconds(real));
        INFO(name, " ", format_wall_time(real));
        CHECK((found.first == real || found.second == real));
        CHECK(found.kind != TimeZone::Kind::skipped);
      }
    }
  }
}

TEST_CASE("a file that is replaced by another version is read again") {
  const auto directory = std::filesystem::temp_directory_path() / "zones-test";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory / "Test");
  const auto place = [&](const char* name) {
    const auto file = std::filesystem::path("/usr/share/zoneinfo") / name;
    std::filesystem::copy_file(file, directory / "fresh");
    std::filesystem::rename(directory / "fresh", directory / "Test/Place");
  };
  std::size_t seen = 0;
  TimeZone::read_from(directory.string() + "/");
  place("Asia/Kolkata");
  CHECK(zone("Test/Place").span(at("2026-01-01T00:00:00Z")).offset_s == 19800);
  (void)TimeZone::changes(seen);
  place("Asia/Kolkata");
  CHECK(TimeZone::changes(seen).empty());
  place("Asia/Tokyo");
  const auto changes = TimeZone::changes(seen);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].name == "Test/Place");
  CHECK(changes[0].old->span(at("2026-01-01T00:00:00Z")).offset_s == 19800);
  CHECK(zone("Test/Place").span(at("2026-01-01T00:00:00Z")).offset_s == 32400);
  CHECK(TimeZone::changes(seen).empty());
  // While it is being replaced, and with a damaged file, the rules stay.
  std::filesystem::remove(directory / "Test/Place");
  std::ofstream(directory / "Test/Place") << "TZif2";
  CHECK(TimeZone::changes(seen).empty());
  CHECK(zone("Test/Place").span(at("2026-01-01T00:00:00Z")).offset_s == 32400);
  TimeZone::read_from("/usr/share/zoneinfo/");
  std::filesystem::remove_all(directory);
}

TEST_CASE("an unknown zone is refused with the rule; no name reaches outside the database") {
  for (const char* name :
       {"", "Europe/Atlantis", "../../etc/passwd", "/etc/passwd", "europe/berlin",
        "right/Europe/Berlin", "posix/Europe/Berlin", "Europe", "zone.tab"}) {
    const Result<const TimeZone*> found = TimeZone::find(name);
    INFO(name);
    REQUIRE_FALSE(found);
    CHECK(found.error().code == ErrorCode::invalid_argument);
    CHECK(found.error().field == "time_zone");
    CHECK(found.error().message.find("IANA") != std::string::npos);
  }
  CHECK(*TimeZone::find("Europe/Berlin") == *TimeZone::find("Europe/Berlin"));
}

}  // namespace
