// Breakers over several nodes of one database.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "postgres/sql_place.h"

namespace mainspring::pg_testing {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

void finish(Store& store, const ClaimedJob& job, Outcome outcome, const Clock& clock) {
  const Finish finish{.worker = "w", .results = {{job.id, job.token, std::move(outcome)}}};
  CHECK(apply<FinishResult>(store, finish, clock).results.at(0) == FinishStatus::ok);
}
const Outcome kFailed = Retry{.error = "no answer", .after = hours(1)};

// A breaker that three failures open, and a queue with `jobs` jobs that names it.
void depend(Place& place, int jobs) {
  BreakerSettings settings;
  settings.failures = 3;
  place.apply<Done>(PutBreaker{"b", settings});
  QueueLimits limits;
  limits.breaker = "b";
  place.apply<Done>(SetQueueLimits{"q", limits});
  for (int i = 0; i < jobs; ++i) place.enqueue(NewJob{.queue = "q", .kind = "k"});
}
BreakerInfo info(Place& place) {
  return must(place.store->breakers(place.clock.now().wall)).at(0);
}

}  // namespace

TEST_CASE("failures at several nodes open a breaker together, and then no node gives jobs") {
  Place one;
  depend(one, 9);
  const auto two = one.open(), three = one.open();
  for (Store* node : {static_cast<Store*>(one.store.get()), static_cast<Store*>(two.get()),
                      static_cast<Store*>(three.get())})
    finish(*node, claim(*node, 1, one.clock).at(0), kFailed, one.clock);
  CHECK(info(one).state == BreakerState::open);
  CHECK(claim(*one.store, 9, one.clock).empty());
  CHECK(claim(*two, 9, one.clock).empty());
  CHECK(claim(*three, 9, one.clock).empty());
  one.clock.advance(seconds(30));
  CHECK(claim(*two, 9, one.clock).size() == 1);
  CHECK(claim(*three, 9, one.clock).empty());
  CHECK(claim(*one.store, 9, one.clock).empty());
  one.check_invariants();
}

TEST_CASE("the end of a probe at one node wakes claims that wait at others") {
  Place one;
  depend(one, 4);
  const auto two = one.open();
  one.apply<Done>(OpenBreaker{"b", seconds(5)});
  two->heard({.catalog = true});
  one.clock.advance(seconds(5));
  const auto probes = claim(*one.store, 9, one.clock);
  REQUIRE(probes.size() == 1);
  two->heard({.queues = {"q"}, .catalog = true});
  CHECK(claim(*two, 9, one.clock).empty());
  CHECK_FALSE(two->has_available("q"));
  (void)one.store->take_news();
  finish(*one.store, probes[0], Complete{}, one.clock);
  const ChangeHints news = one.store->take_news();
  CHECK(news.catalog);
  CHECK(std::find(news.queues.begin(), news.queues.end(), "q") != news.queues.end());
  two->heard(news);
  CHECK(two->has_available("q"));
  CHECK(claim(*two, 9, one.clock).size() == 2);
}

TEST_CASE("a claim waits for the lock of a breaker and sees the changes of its last holder") {
  Place place;
  depend(place, 3);
  auto other = Place::connect();
  must(other.sql("BEGIN"));
  must(
      other.sql(place.named("UPDATE ms.breakers SET state = '1,0,9000000000000000,1000000,0,0,1,"
                            "0,0;'")));
  std::atomic<bool> over{false};
  std::size_t given = 0;
  std::jthread claims([&] {
    given = claim(*place.store, 9, place.clock).size();
    over = true;
  });
  const auto waits = [&] {
    return place.sql("SELECT count(*) FROM pg_locks WHERE NOT granted").at(0).at(0) != "0";
  };
  while (!over && !waits()) std::this_thread::yield();
  CHECK_FALSE(over);
  must(other.sql("COMMIT"));
  claims.join();
  CHECK(given == 0);
  CHECK(info(place).state == BreakerState::open);
}

TEST_CASE("nodes that claim and complete at once close a breaker after enough successes") {
  constexpr int kNodes = 3, kJobs = 60, kSuccesses = 31;  // 1 + 2 + 4 + 8 + 16
  Place place;
  depend(place, kJobs / 2);
  QueueLimits limits;
  limits.breaker = "b";
  place.apply<Done>(SetQueueLimits{"r", limits});
  for (int i = 0; i < kJobs / 2; ++i) place.enqueue(NewJob{.queue = "r", .kind = "k"});
  place.apply<Done>(OpenBreaker{"b", seconds(1)});
  place.clock.advance(seconds(1));
  std::atomic<int> running{0}, most{0}, done{0};
  const std::vector<std::vector<std::string>> queues = {{"q"}, {"r"}, {"q", "r"}};
  {
    std::vector<std::jthread> nodes;
    for (int n = 0; n < kNodes; ++n) {
      nodes.emplace_back([&, n] {
        const auto store = place.open();
        while (done < kJobs) {
          const auto jobs = claim(*store, 2, place.clock, queues.at(static_cast<std::size_t>(n)));
          const int now = running += static_cast<int>(jobs.size());
          if (done < kSuccesses - kNodes) {
            for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
            }
          }
          for (const ClaimedJob& job : jobs) {
            --running;
            const Finish finish{.worker = "w", .results = {{job.id, job.token, Complete{}}}};
            (void)apply<FinishResult>(*store, finish, place.clock);
            ++done;
          }
        }
      });
    }
  }
  CHECK(done == kJobs);
  CHECK(most <= kBreakerFullRoom / 2);
  CHECK(info(place).state == BreakerState::closed);
  place.check_invariants();
}

TEST_CASE("a job that is completed by SQL counts as a probe that succeeded") {
  Place place;
  depend(place, 3);
  place.apply<Done>(OpenBreaker{"b", seconds(1)});
  place.clock.advance(seconds(1));
  const auto probe = claim(*place.store, 9, place.clock);
  REQUIRE(probe.size() == 1);
  place.sql(fmt::format("SELECT ms.complete({}, {})", probe[0].id, probe[0].token));
  CHECK(place.store->agenda().next_opening <= place.clock.now().wall + seconds(1));
  place.clock.advance(seconds(1));
  place.apply<StepResult>(OpenQueues{});
  CHECK(info(place).room == 2);
  CHECK(claim(*place.store, 9, place.clock).size() == 2);
}

TEST_CASE("an end during another transaction's breaker lock is counted by the next claim") {
  Place place;
  depend(place, 9);
  const auto running = claim(*place.store, 3, place.clock);
  auto other = Place::connect();
  must(other.sql("BEGIN"));
  must(other.sql(place.named("SELECT name FROM ms.breakers FOR UPDATE")));
  for (const ClaimedJob& job : running) finish(*place.store, job, kFailed, place.clock);
  CHECK(info(place).state == BreakerState::closed);
  CHECK(place.sql("SELECT count(*) FROM ms.breaker_notes").at(0).at(0) == "3");
  must(other.sql("COMMIT"));
  CHECK(claim(*place.store, 9, place.clock).empty());
  CHECK(info(place).state == BreakerState::open);
  CHECK(place.sql("SELECT count(*) FROM ms.breaker_notes").at(0).at(0) == "0");
}

TEST_CASE("a breaker that loses its row while queues name it is found by verify") {
  Place place;
  depend(place, 1);
  place.sql("DELETE FROM ms.breakers");
  const auto report = must(place.store->verify());
  REQUIRE(report.problems.size() == 1);
  CHECK(report.problems[0].find("queues with a missing breaker") != std::string::npos);
}

}  // namespace mainspring::pg_testing
