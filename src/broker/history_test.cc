// What the broker counts for the history, and when a commit writes it.
#include <doctest/doctest.h>

#include "broker/history.h"

namespace mainspring {
namespace {

constexpr WallTime kMinuteOne = WallTime::from_ms(60'000);
constexpr WallTime kMinuteTwo = WallTime::from_ms(120'000);
constexpr Instant kStart = Instant::from_ms(1'000'000);

HistoryCounts sum_of(const HistoryRows& rows, const std::string& queue = "") {
  HistoryCounts sum;
  for (const HistoryRow& row : rows)
    if (queue.empty() || row.queue == queue) sum.add(row.counts);
  return sum;
}

TEST_SUITE("broker: history") {
  TEST_CASE("each completed minute becomes a row") {
    HistoryCounter counter;
    const auto series = counter.series("q", "k");
    ++counter.at(*series, kMinuteOne).started;
    counter.at(*series, kMinuteOne + std::chrono::seconds(59)).started += 2;
    ++counter.at(*series, kMinuteTwo).started;
    const auto rows = counter.take();
    REQUIRE(rows != nullptr);
    REQUIRE(rows->size() == 2);
    CHECK((*rows)[0].at == kMinuteOne);
    CHECK((*rows)[0].counts.started == 3);
    CHECK((*rows)[1].at == kMinuteTwo);
    CHECK((*rows)[1].counts.started == 1);
    counter.written(kStart);
    CHECK(counter.empty());
    CHECK(counter.take() == nullptr);
  }
  TEST_CASE(
      "rows that could not be written are kept, and those of a lost commit are not repeated") {
    using Tried = HistoryCounter::Tried;
    HistoryCounter counter;
    ++counter.at(*counter.series("q", "k"), kMinuteOne).started;
    REQUIRE(counter.take() != nullptr);
    CHECK(sum_of(counter.unwritten()).started == 1);
    counter.not_written(Tried::nothing_to_write, kStart);
    CHECK(sum_of(counter.unwritten()).started == 1);
    CHECK_FALSE(counter.due(kStart));
    CHECK(counter.due(kStart + HistoryCounter::kTryAgain));
    REQUIRE(counter.take() != nullptr);
    counter.not_written(Tried::failed, kStart);
    CHECK(sum_of(counter.unwritten()).started == 1);
    REQUIRE(counter.take() != nullptr);
    counter.not_written(Tried::outcome_unknown, kStart);
    CHECK(counter.empty());
  }
  TEST_CASE("a write is due once per second, and less often with many queues") {
    HistoryCounter counter;
    CHECK(counter.due(kStart));
    ++counter.at(*counter.series("q", "k"), kMinuteOne).started;
    (void)counter.take();
    counter.written(kStart);
    CHECK_FALSE(counter.due(kStart + std::chrono::milliseconds(999)));
    CHECK(counter.due(kStart + std::chrono::seconds(1)));
    for (int i = 0; i < 1000; ++i)
      ++counter.at(*counter.series("q" + std::to_string(i), "k"), kMinuteOne).started;
    (void)counter.take();
    counter.written(kStart);
    CHECK_FALSE(counter.due(kStart + std::chrono::milliseconds(4999)));
    CHECK(counter.due(kStart + std::chrono::seconds(5)));
  }
  TEST_CASE("jobs unknown to the broker are counted after a look-up in the store") {
    HistoryCounter counter;
    for (const JobId id : {1, 2, 3, 4, 5}) counter.made(id, nullptr, kMinuteOne);
    counter.claimed(1, counter.series("q", "k"));
    counter.ended(2, nullptr, HistoryCounter::Lost::no, kMinuteTwo);
    counter.ended(3, nullptr, HistoryCounter::Lost::maybe, kMinuteTwo);
    counter.failed(4, kMinuteTwo);
    CHECK(sum_of(counter.unwritten()).enqueued == 1);
    auto asked = counter.look_up();
    CHECK(asked.size() == 4);
    CHECK_FALSE(counter.wants_look_up());
    const auto fact = [](JobId id, JobState state) {
      return JobFact{.id = id,
                     .queue = "r",
                     .kind = "l",
                     .state = state,
                     .created_at = kMinuteOne,
                     .started_at = kMinuteOne};
    };
    counter.looked_up(std::move(asked), {fact(2, JobState::completed), fact(3, JobState::dead),
                                         fact(4, JobState::retryable)});  // 5 was pruned since
    const HistoryCounts sum = sum_of(counter.unwritten(), "r");
    CHECK(sum.enqueued == 3);
    CHECK(sum.completed == 1);
    CHECK(sum.dead == 1);
    CHECK(sum.failed == 2);
    CHECK(sum_of(counter.unwritten()).enqueued == 4);
  }
  TEST_CASE("the number of jobs to look up is limited") {
    HistoryCounter counter;
    for (std::size_t i = 0; i < HistoryCounter::kMaxLookUps + 10; ++i)
      counter.made(static_cast<JobId>(i + 1), nullptr, kMinuteOne);
    CHECK(counter.dropped() == 10);
    CHECK(counter.look_up().size() == HistoryCounter::kLookUpsAtOnce);
    CHECK(counter.wants_look_up());
  }
}

}  // namespace
}  // namespace mainspring
