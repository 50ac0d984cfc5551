// Metrics read as Prometheus expects them.
#include <doctest/doctest.h>

#include <chrono>
#include <future>

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

TEST_CASE("too many label values share one series instead of growing without end") {
  Registry registry;
  for (std::size_t i = 0; i < Registry::kMaxSeries + 50; ++i) {
    registry.counter("jobs", "help", {{"queue", std::to_string(i)}}).add();
  }
  CHECK(registry.render().find("jobs{queue=\"other\"} 50\n") != std::string::npos);
}

TEST_CASE("a gauge may wait for somebody who is making a metric") {
  Registry registry;
  std::future<void> other;  // joined behind render(), however that ends
  registry.gauge("mainspring_depth", "How deep.", [&] {
    other =
        std::async(std::launch::async, [&] { registry.counter("mainspring_met", "New.").add(); });
    const bool made = other.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
    return made ? 1.0 : 0.0;
  });
  CHECK(registry.render().find("mainspring_depth 1\n") != std::string::npos);
}
