// Prints ticks for oracle_test.py. A line in: "ZONE|CRON|FROM-TO,FROM-TO,…" in seconds since 1970.
// A line out: the ticks of each window, windows separated by ",", or "refused: why".
#include <fmt/format.h>

#include <charconv>
#include <iostream>
#include <string>
#include <string_view>

#include "model/schedule.h"

using namespace mainspring;

namespace {

constexpr int kMaxTicks = 10'000'000;  // of one window
constexpr std::int64_t kSecond = 1'000'000;

std::string_view cut(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

WallTime time_of(std::string_view text) {
  std::int64_t seconds = 0;
  std::from_chars(text.data(), text.data() + text.size(), seconds);
  return WallTime::from_us(seconds * kSecond);
}

std::string answer(std::string_view line) {
  Schedule schedule;
  schedule.name = "oracle";
  schedule.job.kind = "k";
  schedule.time_zone = cut(line, '|');
  schedule.cron = cut(line, '|');
  if (const Result<void> valid = validate(schedule); !valid) {
    return "refused: " + valid.error().message;
  }
  std::string out;
  while (!line.empty()) {
    std::string_view window = cut(line, ',');
    const WallTime from = time_of(cut(window, '-'));
    for (const Tick& tick : ticks_between(schedule, from, time_of(window), kMaxTicks).ticks) {
      out += fmt::format("{} ", tick.nominal.us() / kSecond);
    }
    out += ',';
  }
  return out;
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) std::cout << answer(line) << std::endl;
}
