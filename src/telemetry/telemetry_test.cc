// Metrics have the format that Prometheus expects.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <future>

#include "telemetry/log.h"
#include "telemetry/metrics.h"

using namespace mainspring;

TEST_CASE("a histogram's buckets are cumulative and end in +Inf") {
  Registry registry;
  Histogram& h = registry.histogram("commit_seconds", "help", {0.5, 1}, {{"queue", "a\"b"}});
  h.observe(0.5);
  h.observe(0.7);
  h.observe(9);
  const std::string text = registry.render();
  CHECK(text.find("commit_seconds_bucket{queue=\"a\\\"b\",le=\"0.5\"} 1\n") != std::string::npos);
  CHECK(text.find("commit_seconds_bucket{queue=\"a\\\"b\",le=\"1\"} 2\n") != std::string::npos);
  CHECK(text.find("commit_seconds_bucket{queue=\"a\\\"b\",le=\"+Inf\"} 3\n") != std::string::npos);
  CHECK(text.find("commit_seconds_count{queue=\"a\\\"b\"} 3\n") != std::string::npos);
}

TEST_CASE("a histogram with labels appears with its first observation") {
  Registry registry;
  Histogram& called = registry.histogram("request_seconds", "help", {1}, {{"route", "/a"}});
  registry.histogram("request_seconds", "help", {1}, {{"route", "/b"}});
  registry.histogram("commit_seconds", "help", {1});
  called.observe(2);
  const std::string text = registry.render();
  CHECK(text.find("request_seconds_count{route=\"/a\"} 1\n") != std::string::npos);
  CHECK(text.find("route=\"/b\"") == std::string::npos);
  CHECK(text.find("commit_seconds_count 0\n") != std::string::npos);
}

TEST_CASE("a value of a log line has no character that a terminal obeys") {
  const std::string line = log_line(LogFormat::text, LogLevel::warn, WallTime(), "m",
                                    {{"why",
                                      "§\x1b[2J\xc2\x9b"
                                      "2J\xc2"}});
  CHECK(line.find(R"(why="§\x1b[2J\u009b2J)") != std::string::npos);
}

TEST_CASE("too many label values share one series instead of growing without limit") {
  Registry registry;
  for (std::size_t i = 0; i < Registry::kMaxSeries + 50; ++i) {
    registry.counter("jobs", "help", {{"queue", std::to_string(i)}}).add();
  }
  CHECK(registry.render().find("jobs{queue=\"other\"} 50\n") != std::string::npos);
}

TEST_CASE("OpenMetrics has counter names without suffix, bounds as floats, and an EOF line") {
  Registry registry;
  registry.counter("jobs_total", "Jobs.", {{"queue", "a"}}).add(3);
  registry.counter_of("commits_total", "Commits.", [] { return 7.0; });
  registry.counters_of("opened_total", "Opened.", [] {
    return Registry::Samples{{{{"breaker", "b"}}, 2.0}};
  });
  registry.histogram("ran_seconds", "Ran.", {0.5, 1}).observe(0.7);
  registry.gauge("odd", "Odd.", [] { return std::nan(""); });
  CHECK(registry.render(MetricsFormat::openmetrics) ==
        "# HELP commits Commits.\n# TYPE commits counter\ncommits_total 7\n"
        "# HELP jobs Jobs.\n# TYPE jobs counter\njobs_total{queue=\"a\"} 3\n"
        "# HELP odd Odd.\n# TYPE odd gauge\nodd NaN\n"
        "# HELP opened Opened.\n# TYPE opened counter\nopened_total{breaker=\"b\"} 2\n"
        "# HELP ran_seconds Ran.\n# TYPE ran_seconds histogram\n"
        "ran_seconds_bucket{le=\"0.5\"} 0\nran_seconds_bucket{le=\"1.0\"} 1\n"
        "ran_seconds_bucket{le=\"+Inf\"} 1\nran_seconds_sum 0.7\nran_seconds_count 1\n"
        "# EOF\n");
  const std::string text = registry.render();
  CHECK(text.find("# TYPE commits_total counter\ncommits_total 7\n") != std::string::npos);
  CHECK(text.find("# EOF") == std::string::npos);
}

TEST_CASE("OpenMetrics shows the latest trace of each histogram bucket, the text format none") {
  Registry registry;
  Histogram& h = registry.histogram("ran_seconds", "Ran.", {0.5, 1});
  const auto observe = [&](double value, char digit, std::int64_t ms) {
    h.observe(value, std::string(32, digit), WallTime::from_ms(ms));
  };
  observe(0.3, 'a', 1'000'000);
  observe(0.4, 'b', 2'000'007);
  observe(7, 'c', 3'000'000);
  h.observe(0.7);                                          // not traced
  h.observe(0.7, "not a trace id", WallTime::from_ms(4));  // counted, not shown
  const std::string open = registry.render(MetricsFormat::openmetrics);
  CHECK(open.find("ran_seconds_bucket{le=\"0.5\"} 2 # {trace_id=\"" + std::string(32, 'b') +
                  "\"} 0.4 2000.007\nran_seconds_bucket{le=\"1.0\"} 4\n"
                  "ran_seconds_bucket{le=\"+Inf\"} 5 # {trace_id=\"" +
                  std::string(32, 'c') + "\"} 7 3000.000\nran_seconds_sum") != std::string::npos);
  CHECK(registry.render().find(" # ") == std::string::npos);
}

TEST_CASE("a gauge may wait for a thread that registers a metric") {
  Registry registry;
  std::future<void> other;  // joined after render(), however render() ends
  registry.gauge("mainspring_depth", "How deep.", [&] {
    other =
        std::async(std::launch::async, [&] { registry.counter("mainspring_met", "New.").add(); });
    const bool made = other.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
    return made ? 1.0 : 0.0;
  });
  CHECK(registry.render().find("mainspring_depth 1\n") != std::string::npos);
}
