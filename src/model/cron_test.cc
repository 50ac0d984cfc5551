// Cron expressions: their meaning and refusals.
#include "model/cron.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <rapidcheck.h>

#include <vector>

#include "mainspring/time.h"

using namespace mainspring;

namespace {

LocalSeconds local(const std::string& text) {
  return parse_wall_time(text + "Z")->us() / 1'000'000;
}
std::string text_of(LocalSeconds t) {
  return format_wall_time(WallTime::from_us(t * 1'000'000)).substr(0, 19);
}
Cron cron(std::string_view text) {
  const Result<Cron> parsed = Cron::parse(text);
  REQUIRE_MESSAGE(parsed, text);
  return *parsed;
}
// The first `count` times after `from`, in one line.
std::string times(std::string_view expression, const std::string& from, int count) {
  const Cron parsed = cron(expression);
  std::string out;
  std::optional<LocalSeconds> t = local(from);
  for (int i = 0; i < count && (t = parsed.next_after(*t)); ++i) {
    out += (i > 0 ? " " : "") + text_of(*t);
  }
  return out;
}
std::string refusal(std::string_view expression) {
  const Result<Cron> parsed = Cron::parse(expression);
  REQUIRE_MESSAGE(!parsed, expression);
  CHECK(parsed.error().code == ErrorCode::invalid_argument);
  CHECK(parsed.error().field == "cron");
  return parsed.error().message;
}

TEST_CASE("numbers, lists, ranges and steps") {
  CHECK(times("30 2 * * *", "2026-01-31T02:30:00", 2) == "2026-02-01T02:30:00 2026-02-02T02:30:00");
  CHECK(times("0,30 9-10 * * *", "2026-01-01T00:00:00", 5) ==
        "2026-01-01T09:00:00 2026-01-01T09:30:00 2026-01-01T10:00:00 2026-01-01T10:30:00 "
        "2026-01-02T09:00:00");
  CHECK(times("*/25 * * * *", "2026-01-01T00:00:00", 4) ==
        "2026-01-01T00:25:00 2026-01-01T00:50:00 2026-01-01T01:00:00 2026-01-01T01:25:00");
  CHECK(times("10-30/10 0 * * *", "2026-01-01T00:00:00", 4) ==
        "2026-01-01T00:10:00 2026-01-01T00:20:00 2026-01-01T00:30:00 2026-01-02T00:10:00");
  CHECK(times("50/5 0 * * *", "2026-01-01T00:00:00", 3) ==
        "2026-01-01T00:50:00 2026-01-01T00:55:00 2026-01-02T00:50:00");
}

TEST_CASE("with six fields the first is seconds") {
  CHECK(times("*/20 30 2 * * *", "2026-01-01T02:30:00", 3) ==
        "2026-01-01T02:30:20 2026-01-01T02:30:40 2026-01-02T02:30:00");
  CHECK(cron("0 0 0 * * *").has_seconds());
  CHECK_FALSE(cron("0 0 * * *").has_seconds());
}

TEST_CASE("names of months and weekdays, three letters or more, in any case") {
  CHECK(times("0 0 1 feb,SEPTEMBER *", "2026-01-01T00:00:00", 3) ==
        "2026-02-01T00:00:00 2026-09-01T00:00:00 2027-02-01T00:00:00");
  CHECK(times("0 0 * * mon-Tues", "2026-01-01T00:00:00", 3) ==
        "2026-01-05T00:00:00 2026-01-06T00:00:00 2026-01-12T00:00:00");
}

TEST_CASE("Sunday is 0 and 7, with five fields and with six") {
  CHECK(times("0 0 * * 7", "2026-01-01T00:00:00", 2) == "2026-01-04T00:00:00 2026-01-11T00:00:00");
  CHECK(times("0 0 * * 0", "2026-01-01T00:00:00", 1) == "2026-01-04T00:00:00");
  CHECK(times("0 0 * * 6-7", "2026-01-01T00:00:00", 2) ==
        "2026-01-03T00:00:00 2026-01-04T00:00:00");
  CHECK(times("0 0 0 * * SUN", "2026-01-01T00:00:00", 1) == "2026-01-04T00:00:00");
  CHECK(times("0 0 0 * * 7", "2026-01-01T00:00:00", 2) ==
        "2026-01-04T00:00:00 2026-01-11T00:00:00");
  CHECK(times("0 0 0 * * 7#1", "2026-01-01T00:00:00", 2) ==
        "2026-01-04T00:00:00 2026-02-01T00:00:00");
}

TEST_CASE("a range that goes backwards continues at the start of its field") {
  const std::vector<std::pair<const char*, const char*>> same = {
      {"0 0 * * FRI-MON", "0 0 * * 5,6,0,1"},
      {"0 0 * * MON-SUN", "0 0 * * 0-6"},
      {"0 0 * * 7-2", "0 0 * * 0,1,2"},
      {"0 0 * * 6-1/2", "0 0 * * 6,1"},
      {"0 22-2 * * *", "0 22,23,0,1,2 * * *"},
      {"0 22-3/2 * * *", "0 22,0,2 * * *"},
      {"50-10/5 * * * *", "50,55,0,5,10 * * * *"},
      {"0 0 1 NOV-FEB *", "0 0 1 11,12,1,2 *"},
      {"0 0 28-3/2 * *", "0 0 28,30,1,3 * *"},
      {"58-1 0 0 * * *", "58,59,0,1 0 0 * * *"}};
  for (const auto& [backwards, list] : same) {
    CAPTURE(backwards);
    CHECK(times(backwards, "2026-01-27T00:00:00", 60) == times(list, "2026-01-27T00:00:00", 60));
  }
}

TEST_CASE("a question mark is a day field that is not given") {
  CHECK(times("0 0 13 * ?", "2026-01-01T00:00:00", 2) == "2026-01-13T00:00:00 2026-02-13T00:00:00");
  CHECK(times("0 0 ? * 5", "2026-01-01T00:00:00", 2) == "2026-01-02T00:00:00 2026-01-09T00:00:00");
  CHECK(times("0 0 0 ? * ?", "2026-01-01T00:00:00", 1) == "2026-01-02T00:00:00");
  CHECK(refusal("? 0 * * *").find("minute \"?\"") != std::string::npos);
  CHECK(refusal("0 0 ?/2 * *").find("day-of-month \"?/2\"") != std::string::npos);
}

TEST_CASE("W is the Monday to Friday nearest to a day, in the same month") {
  // 2026-08-15 is a Saturday and 2026-11-15 a Sunday.
  CHECK(times("0 0 15W 8-11 *", "2026-08-01T00:00:00", 4) ==
        "2026-08-14T00:00:00 2026-09-15T00:00:00 2026-10-15T00:00:00 2026-11-16T00:00:00");
  // 2026-08-01 is a Saturday, 2026-05-31 and 2027-01-31 are Sundays, 2026-10-31 a Saturday.
  CHECK(times("0 0 1W * *", "2026-07-15T00:00:00", 1) == "2026-08-03T00:00:00");
  CHECK(times("0 0 31w 5,6,10 *", "2026-05-01T00:00:00", 3) ==
        "2026-05-29T00:00:00 2026-10-30T00:00:00 2027-05-31T00:00:00");
  CHECK(times("0 0 LW * *", "2026-01-01T00:00:00", 5) ==
        "2026-01-30T00:00:00 2026-02-27T00:00:00 2026-03-31T00:00:00 2026-04-30T00:00:00 "
        "2026-05-29T00:00:00");
  CHECK(times("0 0 L-1W * *", "2026-02-01T00:00:00", 2) ==
        "2026-02-27T00:00:00 2026-03-30T00:00:00");
  CHECK(times("0 0 1W,15W,L * *", "2026-08-01T00:00:00", 3) ==
        "2026-08-03T00:00:00 2026-08-14T00:00:00 2026-08-31T00:00:00");
  CHECK(text_of(*cron("0 0 1W * *").last_until(local("2026-08-31T00:00:00"))) ==
        "2026-08-03T00:00:00");
  for (const char* text : {"0 0 1-5W * *", "0 0 W * *", "0 0 */2W * *", "0 0 32W * *", "0 0 * * 5W",
                           "0 0 WL * *", "0W 0 * * *", "0 0 0 6W * ?0"}) {
    refusal(text);
  }
  CHECK(refusal("0 0 1-5W * *").find("one day, such as 15W") != std::string::npos);
}

TEST_CASE("with five fields either day is enough where both are given (POSIX)") {
  CHECK(times("0 0 13 * 5", "2026-01-01T00:00:00", 4) ==
        "2026-01-02T00:00:00 2026-01-09T00:00:00 2026-01-13T00:00:00 2026-01-16T00:00:00");
  // A day field that begins with * is not given: both must match.
  CHECK(times("0 0 */2 * 5", "2026-01-01T00:00:00", 2) ==
        "2026-01-09T00:00:00 2026-01-23T00:00:00");
  CHECK(times("0 0 13 * *", "2026-01-01T00:00:00", 1) == "2026-01-13T00:00:00");
}

TEST_CASE("with six fields both days must match (NCRONTAB)") {
  CHECK(times("0 0 0 13 * 5", "2026-01-01T00:00:00", 2) ==
        "2026-02-13T00:00:00 2026-03-13T00:00:00");
}

TEST_CASE("L is the last day of the month, L-n is n days before it") {
  CHECK(times("0 0 L * *", "2026-01-01T00:00:00", 3) ==
        "2026-01-31T00:00:00 2026-02-28T00:00:00 2026-03-31T00:00:00");
  CHECK(times("0 0 L 2 *", "2027-03-01T00:00:00", 1) == "2028-02-29T00:00:00");
  CHECK(times("0 0 L-2,1 * *", "2026-01-01T00:00:00", 3) ==
        "2026-01-29T00:00:00 2026-02-01T00:00:00 2026-02-26T00:00:00");
  CHECK(times("0 0 L-30 * *", "2026-01-01T00:00:00", 2) ==
        "2026-03-01T00:00:00 2026-05-01T00:00:00");
}

TEST_CASE("a#k is the k-th weekday of the month, aL the last") {
  CHECK(times("0 0 * * MON#2", "2026-01-01T00:00:00", 2) ==
        "2026-01-12T00:00:00 2026-02-09T00:00:00");
  CHECK(times("0 0 * * 5L", "2026-01-01T00:00:00", 2) == "2026-01-30T00:00:00 2026-02-27T00:00:00");
  CHECK(times("0 0 * * friL,7#1", "2026-01-01T00:00:00", 3) ==
        "2026-01-04T00:00:00 2026-01-30T00:00:00 2026-02-01T00:00:00");
  CHECK(times("0 0 * * 4#5", "2026-01-01T00:00:00", 2) ==
        "2026-01-29T00:00:00 2026-04-30T00:00:00");
  CHECK(times("0 0 * * MON-WED#1", "2026-01-01T00:00:00", 4) ==
        "2026-01-05T00:00:00 2026-01-06T00:00:00 2026-01-07T00:00:00 2026-02-02T00:00:00");
  CHECK(times("0 0 * * SAT-SUNL", "2026-01-01T00:00:00", 3) ==
        "2026-01-25T00:00:00 2026-01-31T00:00:00 2026-02-22T00:00:00");
  CHECK(times("0 0 * * FRI#L", "2026-01-01T00:00:00", 2) ==
        times("0 0 * * 5L", "2026-01-01T00:00:00", 2));
}

TEST_CASE("nicknames stand for their expressions") {
  CHECK(times("@yearly", "2026-01-01T00:00:00", 1) == "2027-01-01T00:00:00");
  CHECK(times("@Annually", "2026-01-01T00:00:00", 1) == "2027-01-01T00:00:00");
  CHECK(times("@monthly", "2026-01-01T00:00:00", 1) == "2026-02-01T00:00:00");
  CHECK(times("@weekly", "2026-01-01T00:00:00", 1) == "2026-01-04T00:00:00");
  CHECK(times("@daily", "2026-01-01T00:00:00", 1) == "2026-01-02T00:00:00");
  CHECK(times("@midnight", "2026-01-01T00:00:00", 1) == "2026-01-02T00:00:00");
  CHECK(times("@hourly", "2026-01-01T00:00:00", 1) == "2026-01-01T01:00:00");
  CHECK(refusal("@reboot").find("@hourly") != std::string::npos);
}

TEST_CASE("leap days come every four years, but not in 2100") {
  CHECK(times("0 0 29 2 *", "2026-01-01T00:00:00", 2) == "2028-02-29T00:00:00 2032-02-29T00:00:00");
  CHECK(times("0 0 29 2 *", "2096-03-01T00:00:00", 1) == "2104-02-29T00:00:00");
  // The rarest date: 29 February on one weekday, and across 2100.
  CHECK(times("0 0 0 29 2 MON", "2072-03-01T00:00:00", 1) == "2112-02-29T00:00:00");
  CHECK(text_of(*cron("0 0 0 29 2 1").last_until(local("2026-01-01T00:00:00"))) ==
        "2016-02-29T00:00:00");
}

TEST_CASE("an hour field that starts with * runs in every real hour") {
  CHECK(cron("0 * * * *").every_hour());
  CHECK(cron("0 */2 * * *").every_hour());
  CHECK(cron("@hourly").every_hour());
  CHECK_FALSE(cron("* 2 * * *").every_hour());
  CHECK_FALSE(cron("0 0-23 * * *").every_hour());
}

TEST_CASE("a wrong expression is refused with the part, the value and the rule") {
  CHECK(refusal("60 * * * *") == "cron: minute \"60\": 60 must be 0 to 59");
  CHECK(refusal("0 24 * * *") == "cron: hour \"24\": 24 must be 0 to 23");
  CHECK(refusal("0 0 0 * *") == "cron: day-of-month \"0\": 0 must be 1 to 31");
  CHECK(refusal("0 0 1 13 *") == "cron: month \"13\": 13 must be 1 to 12");
  CHECK(refusal("0 0 * * 8") == "cron: day-of-week \"8\": 8 must be 0 to 7");
  CHECK(refusal("*/0 * * * *") == "cron: minute \"*/0\": step \"0\" must be 1 to 60");
  CHECK(refusal("*/90 * * * *") == "cron: minute \"*/90\": step \"90\" must be 1 to 60");
  CHECK(refusal("0 0 1 ja *") ==
        "cron: month \"ja\": \"ja\" must be a number from 1 to 12 or three letters or more of a "
        "name");
  CHECK(refusal("x * * * *") == "cron: minute \"x\": \"x\" must be a number from 0 to 59");
  CHECK(refusal(", * * * *") == "cron: minute \"\": a value is missing");
  for (const char* line : {"30 2 * * * /usr/bin/x", "30 2 * * * /usr/bin/x --all", "30 2 * * * ./x",
                           "30 2 * * * x.sh"}) {
    CAPTURE(line);
    CHECK(refusal(line).find("contains a command") != std::string::npos);
    CHECK(refusal(line).find("job folder") != std::string::npos);
  }
  CHECK(refusal("0 0 0 * * 8").find("command") == std::string::npos);
  CHECK(refusal("0 0 * * *#1").find("must name the weekday") != std::string::npos);
  CHECK(refusal("0 0 * * MON#6").find("1 to 5") != std::string::npos);
  CHECK(refusal("0 0 * * L").find("must name the weekday") != std::string::npos);
  CHECK(refusal("0 0 2L * *").find("L-2") != std::string::npos);
  CHECK(refusal("0 0 L-31 * *").find("0 to 30") != std::string::npos);
  for (const char* text :
       {"", " ", "* * * *", "* * * * * * *", "1, * * * *", ",1 * * * *", "1- * * * *", "-1 * * * *",
        "1-2-3 * * * *", "*/ * * * *", "**  * * * *", "*/-1 * * * *", "99999999999 * * * *",
        "+1 * * * *", "1.5 * * * *", "0 0 * * #1", "0 0 * * 1#", "0 0 L- * *", "0 0 1 1 * x y"}) {
    refusal(text);
  }
  refusal(std::string(1000, '*'));
}

TEST_CASE("a date that never comes is refused") {
  for (const char* text : {"0 0 31 2 *", "0 0 30 FEB *", "0 0 31 4,6,9,11 *", "0 0 L-30 2 *",
                           "0 0 0 31 2 MON", "0 0 0 1 * MON#2"}) {
    CHECK(refusal(text).find("never fires") != std::string::npos);
  }
  // With a weekday given as well, POSIX accepts either.
  CHECK(times("0 0 31 2 MON", "2026-02-01T00:00:00", 1) == "2026-02-02T00:00:00");
}

TEST_CASE("times cover every local time of the years 1970 to 9999") {
  const Cron daily = cron("0 12 * * *");
  CHECK(text_of(*daily.next_after(local("9999-12-31T11:59:59"))) == "9999-12-31T12:00:00");
  const LocalSeconds end = local("9999-12-31T12:00:00");
  CHECK(daily.next_after(end) == end + 86400);
  CHECK_FALSE(daily.next_after(end + 31LL * 86400));
  CHECK(text_of(*daily.last_until(local("1970-01-01T11:59:59"))) == "1969-12-31T12:00:00");
  CHECK_FALSE(daily.last_until(-31LL * 86400 + 43199));  // 1969-12-01T11:59:59
  CHECK(text_of(*daily.next_after(-1'000'000'000)) == "1969-12-01T12:00:00");
  CHECK(daily.last_until(1LL << 60) == end + 31LL * 86400);
}

rc::Gen<std::string> field(int first, int last, bool days) {
  return rc::gen::exec([=]() -> std::string {
    const int a = *rc::gen::inRange(first, last + 1);
    const int b = *rc::gen::inRange(first, last + 1);
    const int step = *rc::gen::inRange(1, last - first + 1);
    switch (*rc::gen::inRange(0, days ? 8 : 7)) {
      case 0:
      case 1:
        return "*";
      case 2:
        return fmt::format("{}", a);
      case 3:
        return fmt::format("{}-{}", a, b);
      case 4:
        return fmt::format("*/{}", step);
      case 5:
        return fmt::format("{}-{}/{},{}", a, b, step, first);
      case 6:
        return fmt::format("{}/{}", a, step);
      default:
        if (last != 31) return fmt::format("{}-{}#{}", a, b, step % 5 + 1);
        return fmt::format("{}{}{}", step % 2 == 0 ? "L-" : "", a % 28 + 1, b % 2 == 0 ? "W" : "");
    }
  });
}
const auto kAnyCron = rc::gen::exec([]() -> std::string {
  std::string text = *field(0, 59, false) + " " + *field(0, 23, false) + " " + *field(1, 31, true) +
                     " " + *field(1, 12, false) + " " + *field(0, 6, true);
  return *rc::gen::inRange(0, 2) == 0 ? text : *field(0, 59, false) + " " + text;
});

TEST_CASE("forwards and backwards agree, and nothing lies between") {
  CHECK(rc::check([] {
    const std::string text = *kAnyCron;
    const Result<Cron> parsed = Cron::parse(text);
    RC_PRE(parsed.has_value());
    const LocalSeconds t = *rc::gen::inRange<LocalSeconds>(0, 4'000'000'000);
    const std::optional<LocalSeconds> next = parsed->next_after(t);
    RC_ASSERT(next.has_value());
    RC_ASSERT(*next > t);
    RC_ASSERT(parsed->last_until(*next) == next);
    const std::optional<LocalSeconds> before = parsed->last_until(*next - 1);
    if (before) {
      RC_ASSERT(*before <= t);
      RC_ASSERT(parsed->next_after(*before) == next);
    }
    RC_ASSERT(parsed->next_after(*next - 1) == next);
  }));
}

TEST_CASE("the times of a window equal the result of checking every second") {
  CHECK(rc::check([] {
    const Result<Cron> parsed = Cron::parse(*kAnyCron);
    RC_PRE(parsed.has_value());
    const LocalSeconds from = *rc::gen::inRange<LocalSeconds>(0, 4'000'000'000);
    std::vector<LocalSeconds> jumped, asked;
    for (auto t = parsed->next_after(from); t && *t <= from + 7200; t = parsed->next_after(*t)) {
      jumped.push_back(*t);
    }
    for (LocalSeconds t = from + 1; t <= from + 7200; ++t) {
      if (parsed->last_until(t) == t) asked.push_back(t);
    }
    RC_ASSERT(jumped == asked);
  }));
}

}  // namespace
