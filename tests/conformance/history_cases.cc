// What the history promises: counts come with the commit of a batch, add up over writers and
// restarts, and stay within their bounds.
#include <fmt/format.h>

#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

HistoryRow counted(const Bench& b, std::int64_t n, std::string queue = "q",
                   std::string kind = "k") {
  HistoryRow row{.at = step_start(b.wall(), kHistoryMinute),
                 .queue = std::move(queue),
                 .kind = std::move(kind)};
  row.counts = {.enqueued = n,
                .started = n + 1,
                .completed = n + 2,
                .failed = n + 3,
                .dead = n + 4,
                .cancelled = n + 5};
  for (std::int64_t i = 0; i < n; ++i) row.counts.wait.add(milliseconds(10 * i));
  row.counts.run.add(seconds(n));
  return row;
}

void offer(Bench& b, HistoryRows rows, HistoryWrite when = HistoryWrite::with_batch) {
  b.store->offer_history(std::make_shared<const HistoryRows>(std::move(rows)), when);
}
bool apply_offered(Bench& b, std::vector<Operation> batch) {
  const auto report = b.store->apply(batch, b.clock.now());
  REQUIRE_MESSAGE(report, report.error().message);
  return report->history_written;
}
bool write_counts(Bench& b, HistoryRows rows) {
  offer(b, std::move(rows), HistoryWrite::always);
  return apply_offered(b, {});
}

struct HistoryWhich {
  std::string queue{}, kind{};
  Within within{};
};
// The current hour, and the earlier ones.
HistoryCounts counts_of(const Bench& b, const HistoryWhich& which = {},
                        Duration step = kHistoryHour, int steps = 1) {
  const WallTime end = step_start(b.wall(), step) + step;
  const auto counts = b.store->history({.queue = which.queue,
                                        .kind = which.kind,
                                        .from = end - step * steps,
                                        .to = end,
                                        .step = step,
                                        .within = which.within},
                                       b.wall());
  REQUIRE_MESSAGE(counts, counts.error().message);
  REQUIRE(std::ssize(*counts) == steps);
  HistoryCounts sum;
  for (const HistoryCounts& one : *counts) sum.add(one);
  return sum;
}

Within scope_of(const std::string& queue) {
  auto scopes = Scopes::parse(queue.empty() ? "read" : "read=" + queue);
  REQUIRE(scopes);
  return {.scopes = std::make_shared<const Scopes>(std::move(*scopes)), .verb = Verb::read};
}

TEST_SUITE("store: history") {
  TEST_CASE("counts are written in the commit of the batch they were offered to") {
    Bench b;
    const HistoryRow row = counted(b, 3);
    offer(b, {row});
    CHECK(counts_of(b) == HistoryCounts{});
    const auto before = b.store->commits();
    CHECK(apply_offered(b, {Enqueue{.jobs = {b.job()}}}));
    CHECK(b.store->commits() == before + 1);
    CHECK(counts_of(b) == row.counts);
    // Once.
    CHECK_FALSE(apply_offered(b, {Enqueue{.jobs = {b.job()}}}));
    CHECK(counts_of(b) == row.counts);
    b.reopen();
    CHECK(counts_of(b) == row.counts);
  }
  TEST_CASE("a batch that writes nothing does not write counts, so an idle store commits nothing") {
    Bench b;
    b.enqueue();
    const auto before = b.store->commits();
    offer(b, {counted(b, 3)});
    CHECK_FALSE(apply_offered(b, {Claim{.worker = "w", .queues = {"another"}}}));
    CHECK_FALSE(apply_offered(b, {Enqueue{.jobs = {b.job()}}}));
    CHECK(b.store->commits() == before + 1);
    CHECK(counts_of(b) == HistoryCounts{});
  }
  TEST_CASE("counts can be written without a batch, at a stop") {
    Bench b;
    const auto before = b.store->commits();
    CHECK(write_counts(b, {counted(b, 3)}));
    CHECK(b.store->commits() == before + 1);
    CHECK(counts_of(b) == counted(b, 3).counts);
  }
  TEST_CASE("counts of one minute add up, sketches too, also over a restart") {
    Bench b;
    HistoryCounts sum;
    for (int i = 0; i < 10; ++i) {
      const HistoryRow row = counted(b, i);
      CHECK(write_counts(b, {row, row}));
      sum.add(row.counts), sum.add(row.counts);
      if (i == 5) b.reopen();
      CHECK(counts_of(b) == sum);
      CHECK(counts_of(b, {}, kHistoryMinute) == sum);
    }
    CHECK(sum.wait.count() == 90);
  }
  TEST_CASE("each minute, each hour, each queue and each kind has its own counts") {
    Bench b;
    b.advance(hours(30));
    CHECK(write_counts(b, {counted(b, 1), counted(b, 2, "q", "l"), counted(b, 4, "r", "k")}));
    b.advance(minutes(1));
    CHECK(write_counts(b, {counted(b, 8)}));
    b.advance(minutes(59));
    CHECK(write_counts(b, {counted(b, 16)}));
    const auto enqueued = [&](const HistoryWhich& which, Duration step, int steps) {
      return counts_of(b, which, step, steps).enqueued;
    };
    CHECK(enqueued({}, kHistoryMinute, 1) == 16);
    CHECK(enqueued({}, kHistoryMinute, 60) == 24);
    CHECK(enqueued({}, kHistoryMinute, 61) == 31);
    CHECK(enqueued({}, 5 * kHistoryMinute, 13) == 31);
    CHECK(enqueued({}, kHistoryHour, 1) == 16);
    CHECK(enqueued({}, kHistoryHour, 2) == 31);
    CHECK(enqueued({}, hours(24), 1) == 31);
    CHECK(enqueued({"q"}, kHistoryHour, 2) == 27);
    CHECK(enqueued({"q", "k"}, kHistoryHour, 2) == 25);
    CHECK(enqueued({"q", "l"}, kHistoryMinute, 61) == 2);
    CHECK(enqueued({"r", "k"}, kHistoryHour, 2) == 4);
    CHECK(enqueued({"", "k"}, kHistoryHour, 2) == 29);
    CHECK(enqueued({"unknown"}, kHistoryHour, 2) == 0);
  }
  TEST_CASE("queues outside the caller's scopes do not count") {
    Bench b;
    CHECK(write_counts(b, {counted(b, 1, "mine"), counted(b, 2, "yours")}));
    CHECK(counts_of(b).enqueued == 3);
    CHECK(counts_of(b, {.within = scope_of("mine")}).enqueued == 1);
    CHECK(counts_of(b, {"", "k", scope_of("mine")}).enqueued == 1);
    CHECK(counts_of(b, {"yours", "", scope_of("mine")}).enqueued == 0);
    CHECK(counts_of(b, {"yours", "k", scope_of("mine")}).enqueued == 0);
    CHECK(counts_of(b, {.within = scope_of("")}).enqueued == 3);
  }
  TEST_CASE("queues and kinds beyond the bounds are counted under ~other") {
    Bench b;
    HistoryRows rows;
    for (std::size_t i = 0; i < kMaxHistoryQueues + 5; ++i)
      rows.push_back(counted(b, 1, fmt::format("q{:04}", i)));
    for (std::size_t i = 0; i < kMaxHistoryKinds + 5; ++i)
      rows.push_back(counted(b, 1, "q0000", fmt::format("k{:04}", i)));
    const auto all = std::ssize(rows);
    CHECK(write_counts(b, rows));
    const std::string other(kHistoryOther);
    CHECK(counts_of(b).enqueued == all);
    CHECK(counts_of(b, {other}).enqueued == 5);
    CHECK(counts_of(b, {"q0001"}).enqueued == 1);
    CHECK(counts_of(b, {"q1004"}).enqueued == 0);
    CHECK(counts_of(b, {"q0000"}).enqueued == 106);
    CHECK(counts_of(b, {"q0000", other}).enqueued == 6);
    // The same ones, however often, and after a restart.
    b.reopen();
    CHECK(write_counts(b, {counted(b, 1, "q1004"), counted(b, 1, "q0001")}));
    CHECK(counts_of(b, {other}).enqueued == 6);
    CHECK(counts_of(b, {"q0001"}).enqueued == 2);
  }
  TEST_CASE("minutes and hours are kept as long as the options say") {
    StoreOptions options;
    options.history = {.minutes = hours(2), .hours = hours(48)};
    Bench b(options);
    CHECK(write_counts(b, {counted(b, 1, "old")}));
    b.advance(hours(1));
    CHECK(write_counts(b, {counted(b, 2)}));
    CHECK(counts_of(b, {}, kHistoryMinute, 120).enqueued == 3);
    b.advance(hours(1) + minutes(2));
    CHECK(write_counts(b, {counted(b, 4)}));
    CHECK(counts_of(b, {}, kHistoryMinute, 180).enqueued == 6);
    CHECK(counts_of(b, {}, kHistoryHour, 4).enqueued == 7);
    b.advance(hours(47));
    CHECK(write_counts(b, {counted(b, 8)}));
    CHECK(counts_of(b, {}, kHistoryHour, 100).enqueued == 14);
    CHECK(counts_of(b, {"old"}, kHistoryHour, 100).enqueued == 0);
  }
  TEST_CASE("unused names make room for new ones") {
    StoreOptions options;
    options.history = {.minutes = hours(2), .hours = hours(48)};
    Bench b(options);
    HistoryRows rows;
    for (std::size_t i = 0; i < kMaxHistoryQueues; ++i)
      rows.push_back(counted(b, 1, fmt::format("q{:04}", i)));
    CHECK(write_counts(b, rows));
    CHECK(write_counts(b, {counted(b, 1, "new")}));
    CHECK(counts_of(b, {"new"}).enqueued == 0);
    for (int i = 0; i < 6; ++i) {
      b.advance(hours(20));
      CHECK(write_counts(b, {counted(b, 1, "q0000")}));
    }
    CHECK(write_counts(b, {counted(b, 1, "new")}));
    CHECK(counts_of(b, {"new"}).enqueued == 1);
  }
  TEST_CASE("a read of too many rows is refused with a hint what to change") {
    Bench b;
    HistoryRows rows;
    for (int i = 0; i < 300; ++i) rows.push_back(counted(b, 1, fmt::format("q{:04}", i)));
    CHECK(write_counts(b, rows));
    const WallTime end = step_start(b.wall(), kHistoryHour);
    const HistoryRead wide{.kind = "k", .from = end - hours(40), .to = end, .step = kHistoryMinute};
    const auto refused = b.store->history(wide, b.wall());
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::invalid_argument);
    CHECK(refused.error().field == "from");
    CHECK(refused.error().message.find("must be at most 500000") != std::string::npos);
  }
  TEST_CASE("a commit writes its counts even if one of its jobs is refused") {
    StoreOptions options;
    options.max_live_jobs = 1;
    Bench b(options);
    b.enqueue();
    offer(b, {counted(b, 3)});
    CHECK(apply_offered(b, {Enqueue{.jobs = {b.job()}}, PauseQueue{.queue = "q"}}));
    CHECK(counts_of(b).enqueued == 3);
  }
  TEST_CASE("facts() returns the data that the history needs, for many jobs at once") {
    Bench b;
    const JobId waits = b.enqueue(), done = b.completed(b.job("other"));
    const auto facts = b.store->facts({waits, done, done + 1000});
    REQUIRE(facts);
    REQUIRE(facts->size() == 2);
    for (const JobFact& fact : *facts) {
      const Job job = b.get(fact.id);
      CHECK(fact.queue == job.queue);
      CHECK(fact.kind == job.kind);
      CHECK(fact.state == job.state);
      CHECK(fact.created_at == job.created_at);
      CHECK(fact.started_at == job.started_at);
      CHECK(fact.finished_at == job.finished_at);
    }
    CHECK(b.store->facts({})->empty());
  }
}

}  // namespace
}  // namespace mainspring::conformance
