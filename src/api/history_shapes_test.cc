// The history in JSON and back.
#include "api/history_shapes.h"

#include <doctest/doctest.h>

namespace mainspring {
namespace {

TEST_CASE("a history decodes to what was encoded") {
  const WallTime at = WallTime::from_ms(1'767'225'600'000);
  History history{.queue = "photos",
                  .from = at,
                  .to = at + std::chrono::hours(1),
                  .step = std::chrono::hours(1)};
  HistoryPoint point{.at = at,
                     .enqueued = 6,
                     .started = 5,
                     .completed = 4,
                     .failed = 3,
                     .dead = 2,
                     .cancelled = 1};
  point.wait = {.count = 5, .p50 = Duration(1500), .p95 = Duration(2'000'000), .p99 = Duration(1)};
  history.points = {point};
  history.total = point;
  std::string text;
  encode_history(history, text);
  CHECK(text.find(R"("queue":"photos","kind":null,)") != std::string::npos);
  CHECK(text.find(R"("wait":{"count":5,"p50_ms":1.5,"p95_ms":2000)") != std::string::npos);
  CHECK(text.find(R"("run":{"count":0,"p50_ms":null,)") != std::string::npos);
  const auto read = decode_history(text);
  REQUIRE_MESSAGE(read, read.error().message);
  CHECK(read->queue == "photos");
  CHECK(read->kind.empty());
  CHECK(read->from == history.from);
  CHECK(read->to == history.to);
  CHECK(read->step == history.step);
  REQUIRE(read->points.size() == 1);
  for (const HistoryPoint& got : {read->points[0], read->total}) {
    CHECK(got.at == at);
    CHECK(got.enqueued == 6);
    CHECK(got.started == 5);
    CHECK(got.completed == 4);
    CHECK(got.failed == 3);
    CHECK(got.dead == 2);
    CHECK(got.cancelled == 1);
    CHECK(got.wait == point.wait);
    CHECK(got.run == HistoryTimes{});
  }
  CHECK_FALSE(decode_history("[]"));
}

}  // namespace
}  // namespace mainspring
