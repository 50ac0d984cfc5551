// Worker pools of a server's settings: their file, their windows and their marks.
#include "scale/pools.h"

#include <doctest/doctest.h>

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view kFile = R"(
[mail]
queues = ["mail", "tenant/*"]
slots = 4
max = 20
target = "1m"

[[mail.window]]
min = 4
cron = "0 8 * * 1-5"
for = "10h"
time_zone = "Europe/Berlin"

[[mail.window]]
max = 2
cron = "0 1 * * *"
for = "4h"

[video]
queues = "video"
)";

WallTime at(std::string_view text) {
  return *parse_wall_time(text);
}

std::string refusal(std::string_view text) {
  const auto pools = parse_scale_pools("pools.toml", text);
  return pools ? "" : pools.error().message;
}

}  // namespace

TEST_CASE("pools have the parameters of a request, and their windows") {
  const auto pools = parse_scale_pools("pools.toml", kFile);
  REQUIRE(pools);
  REQUIRE(pools->size() == 2);
  const ScaleRequest& mail = pools->at("mail");
  CHECK(mail.pool == "mail");
  CHECK(mail.queues == std::vector<std::string>{"mail", "tenant/*"});
  CHECK(mail.options.slots == 4);
  CHECK(mail.options.max == 20);
  CHECK(mail.options.target == 1min);
  CHECK(mail.windows.size() == 2);
  CHECK(pools->at("video").queues == std::vector<std::string>{"video"});
}

TEST_CASE("a file of pools that is not valid is refused with the file and the pool") {
  CHECK(refusal("[mail]\nmim = 4") ==
        "pools.toml: pool mail: \"mim\": must be one of queues, slots, target, min, max, lead, "
        "hold, window");
  CHECK(refusal("mail = 4") == "pools.toml: pool mail: must be a table, such as [mail]");
  CHECK(refusal("[mail]\nmin = 4\nmax = 3").starts_with("pools.toml: pool mail: min 4: must be"));
  CHECK(refusal("[mail]\nwindow = 4") ==
        "pools.toml: pool mail: window: must be tables, such as [[mail.window]]");
  CHECK(
      refusal("[[mail.window]]\nmin = 1").starts_with("pools.toml: pool mail: window: must have"));
  CHECK(refusal("[\"a b\"]\nmax = 3").starts_with("pools.toml: pool a b: pool"));
  CHECK(refusal("[mail").starts_with("pools.toml:1: not TOML"));
}

TEST_CASE("windows of a pool are listed by their start, also those that are open") {
  const auto pools = parse_scale_pools("pools.toml", kFile);
  REQUIRE(pools);
  // A Monday, 10:00 in Berlin.
  const auto windows =
      pool_windows(pools->at("mail"), at("2026-11-30T09:00:00Z"), at("2026-12-01T09:00:00Z"));
  REQUIRE(windows.size() == 3);
  CHECK(windows[0].min == 4);
  CHECK_FALSE(windows[0].max);
  CHECK(windows[0].from == at("2026-11-30T07:00:00Z"));
  CHECK(windows[0].to == at("2026-11-30T17:00:00Z"));
  CHECK(windows[1].max == 2);
  CHECK(windows[1].from == at("2026-12-01T01:00:00Z"));
  CHECK(windows[2].from == at("2026-12-01T07:00:00Z"));
}

TEST_CASE("a window whose times meet is one time, and a window that is always open is bounded") {
  const auto open = [](const char* text) {
    return open_times(*parse_scale_window(text), at("2026-11-30T00:00:00Z"),
                      at("2026-12-01T00:00:00Z"), kMaxUpcomingWindows);
  };
  CHECK(open("min=1; cron=0 6,8 * * *; for=2h").size() == 1);
  CHECK(open("min=1; cron=0 6,9 * * *; for=2h").size() == 2);
  const auto always = open("min=1; cron=* * * * *; for=1m");
  REQUIRE(always.size() == 1);
  CHECK(always[0].to >= at("2026-12-01T00:00:00Z"));
}

TEST_CASE("marks follow the starts of windows, once each") {
  const auto pools = parse_scale_pools("pools.toml", R"(
[a]
[[a.window]]
min = 4
cron = "0 8 * * *"
for = "1h"
[b]
[[b.window]]
max = 2
cron = "0 8 * * *"
for = "2h"
)");
  REQUIRE(pools);
  WallTime after = at("2026-11-30T08:30:00Z");
  std::string last;
  std::vector<std::string> texts;
  for (int i = 0; i < 3; ++i) {
    const auto mark = next_window_mark(*pools, after, last);
    REQUIRE(mark);
    CHECK(check_mark_text(mark->text));
    texts.push_back(format_wall_time(*mark->at) + " " + mark->text);
    after = *mark->at;
    last = mark->text;
  }
  CHECK(texts ==
        std::vector<std::string>{"2026-12-01T08:00:00Z a: min 4 until 2026-12-01T09:00:00Z",
                                 "2026-12-01T08:00:00Z b: max 2 until 2026-12-01T10:00:00Z",
                                 "2026-12-02T08:00:00Z a: min 4 until 2026-12-02T09:00:00Z"});
  CHECK_FALSE(next_window_mark({}, after, ""));
}
