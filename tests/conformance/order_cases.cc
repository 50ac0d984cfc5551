// Conformance: the order of jobs in queues with ageing and with fair keys.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

void age(Bench& b, std::optional<Duration> ageing, const std::string& queue = "q") {
  QueueLimits limits;
  limits.ageing = ageing;
  b.one<Done>(SetQueueLimits{queue, limits});
}
QueueLimits fair(std::map<std::string, double, std::less<>> weights = {}) {
  QueueLimits limits;
  limits.per_key.fair = true;
  limits.per_key.weights = std::move(weights);
  return limits;
}
void set(Bench& b, const QueueLimits& limits, const std::string& queue = "q") {
  b.one<Done>(SetQueueLimits{queue, limits});
}
JobId order_enqueue(Bench& b, int priority, const std::string& key = "",
                    const std::string& queue = "q") {
  NewJob job = b.job(queue);
  job.priority = priority;
  job.limit_key = key;
  return b.enqueue(job);
}
void enqueue_many(Bench& b, const std::string& key, int n) {
  Enqueue all;
  for (int i = 0; i < n; ++i) {
    all.jobs.push_back(b.job());
    all.jobs.back().limit_key = key;
  }
  b.one<EnqueueResult>(all);
}
// Completes the next jobs and returns their keys, a letter each; "-" = no key.
std::string keys(Bench& b, int n, int at_once = 1) {
  std::string out;
  while (static_cast<int>(out.size()) < n) {
    const auto jobs = b.claim(std::min(at_once, n - static_cast<int>(out.size())));
    if (jobs.empty()) break;
    for (const ClaimedJob& job : jobs) {
      const std::string key = b.get(job.id).limit_key;
      out += key.empty() ? "-" : key;
      b.finish(job, Complete{});
    }
  }
  return out;
}

}  // namespace

TEST_SUITE("store: order") {
  TEST_CASE("a job gains one priority level per ageing interval that it has waited") {
    Bench b;
    age(b, minutes(1));
    const JobId old = order_enqueue(b, 7);
    b.advance(minutes(2) - Duration(1));
    const JobId young = order_enqueue(b, 6), mine = order_enqueue(b, 5);
    b.advance(Duration(1));  // old counts as 5 now
    CHECK(ids(b.claim(1)) == std::vector<JobId>{old});
    CHECK(ids(b.claim(9)) == std::vector<JobId>{mine, young});
  }

  TEST_CASE("ageing ends at priority 0, and then the older job goes first") {
    Bench b;
    age(b, seconds(1));
    const JobId low = order_enqueue(b, 9);
    b.advance(seconds(5));
    const JobId high = order_enqueue(b, 1);
    b.advance(hours(5));
    const JobId urgent = order_enqueue(b, 0);
    CHECK(ids(b.claim(9)) == std::vector<JobId>{low, high, urgent});
  }

  TEST_CASE("without ageing the given priority counts; setting and removing it applies at once") {
    Bench b;
    const JobId low = order_enqueue(b, 9);
    b.advance(hours(1));
    const JobId first = order_enqueue(b, 0), second = order_enqueue(b, 0);
    CHECK(ids(b.claim(1)) == std::vector<JobId>{first});
    age(b, minutes(1));
    CHECK(b.stats().limits.ageing == minutes(1));
    b.reopen();
    CHECK(b.stats().limits.ageing == minutes(1));
    CHECK(ids(b.claim(1)) == std::vector<JobId>{low});
    const JobId again = order_enqueue(b, 9);
    b.advance(hours(1));
    age(b, {});
    CHECK(ids(b.claim(9)) == std::vector<JobId>{second, again});
  }

  TEST_CASE("each queue of a claim ages by its own rule") {
    Bench b;
    age(b, minutes(1), "a");
    const JobId a = order_enqueue(b, 9, "", "a"), plain = order_enqueue(b, 8, "", "b");
    b.advance(minutes(4));  // a counts as 5
    const JobId a6 = order_enqueue(b, 6, "", "a"), b5 = order_enqueue(b, 5, "", "b");
    CHECK(ids(b.claim(9, {"a", "b"})) == std::vector<JobId>{a, b5, a6, plain});
  }

  TEST_CASE("ageing applies together with limits per key") {
    Bench b;
    QueueLimits limits;
    limits.ageing = minutes(1);
    limits.per_key.concurrency = 1;
    set(b, limits);
    const JobId old = order_enqueue(b, 8, "a");
    b.advance(minutes(6));  // counts as 2
    const JobId young = order_enqueue(b, 3, "a"), other = order_enqueue(b, 2, "b");
    auto first = b.claim(9);
    CHECK(ids(first) == std::vector<JobId>{old, other});
    CHECK(b.claim(9).empty());
    b.finish(first[0], Complete{});
    const JobId younger = order_enqueue(b, 2, "a");
    first = b.claim(9);
    CHECK(ids(first) == std::vector<JobId>{younger});
    b.finish(first[0], Complete{});
    CHECK(ids(b.claim(9)) == std::vector<JobId>{young});
  }

  TEST_CASE("a kind is claimed in the order of ageing too") {
    Bench b;
    age(b, minutes(1));
    NewJob low = b.job();
    low.kind = "other", low.priority = 9;
    b.enqueue(low);
    const JobId mine = order_enqueue(b, 9);
    b.advance(minutes(5));
    const JobId young = order_enqueue(b, 5);
    const Claim claim{.worker = "w", .queues = {"q"}, .kinds = {b.job().kind}, .max = 9};
    CHECK(ids(b.one<ClaimResult>(claim).jobs) == std::vector<JobId>{mine, young});
  }

  TEST_CASE("fair keys get shares by their weights, at any time") {
    Bench b;
    set(b, fair({{"b", 3}}));
    enqueue_many(b, "a", 110), enqueue_many(b, "b", 310);
    const std::string given = keys(b, 400, 7);
    REQUIRE(given.size() == 400);
    int of_a = 0;
    for (std::size_t n = 1; n <= given.size(); ++n) {
      of_a += given[n - 1] == 'a' ? 1 : 0;
      INFO("after " << n << ": " << of_a);
      REQUIRE(std::abs(4 * of_a - static_cast<int>(n)) <= 4);
    }
    CHECK(of_a == 100);
  }

  TEST_CASE("a new key is served within one round, even with long backlogs of other keys") {
    Bench b;
    set(b, fair());
    enqueue_many(b, "a", 500);
    enqueue_many(b, "b", 20);
    keys(b, 30, 10);
    order_enqueue(b, 5, "c");
    CHECK(keys(b, 3).find('c') != std::string::npos);
    CHECK(keys(b, 4).find('c') == std::string::npos);
  }

  TEST_CASE("an idle key gains no credit, and a key served alone has no debt") {
    Bench b;
    set(b, fair());
    enqueue_many(b, "a", 40);
    order_enqueue(b, 5, "b");
    CHECK(keys(b, 20).find('b') == 1);
    enqueue_many(b, "b", 10);
    CHECK(keys(b, 8) == "babababa");
  }

  TEST_CASE("jobs without a key count as one key; within a key the older job goes first") {
    Bench b;
    set(b, fair());
    enqueue_many(b, "a", 4);
    enqueue_many(b, "", 6);
    enqueue_many(b, "b", 2);
    CHECK(keys(b, 12, 5) == "a-ba-ba-a---");
  }

  TEST_CASE("fairness applies within a priority level, including aged jobs") {
    Bench b;
    QueueLimits limits = fair();
    limits.ageing = minutes(1);
    set(b, limits);
    order_enqueue(b, 5, "a"), order_enqueue(b, 5, "a"), order_enqueue(b, 6, "b"),
        order_enqueue(b, 6, "b");
    order_enqueue(b, 0, "a");
    CHECK(keys(b, 2, 2) == "aa");
    b.advance(minutes(3));
    order_enqueue(b, 2, "c");  // a's count as 2 and b's as 3
    CHECK(keys(b, 4, 4) == "cabb");
  }

  TEST_CASE("fair keys apply together with limits per key and of the queue") {
    Bench b;
    QueueLimits limits = fair({{"a", 1000}});
    limits.per_key.concurrency = 2;
    limits.concurrency = 5;
    set(b, limits);
    enqueue_many(b, "a", 50), enqueue_many(b, "b", 50), enqueue_many(b, "", 50);
    const auto first = b.claim(9);
    std::map<std::string, int> of;
    for (const ClaimedJob& job : first) ++of[b.get(job.id).limit_key];
    CHECK(of == std::map<std::string, int>{{"a", 2}, {"b", 2}, {"", 1}});
    for (const ClaimedJob& job : first) b.finish(job, Complete{});
    CHECK(b.became_available("q"));
    CHECK(b.claim(9).size() == 5);
    b.reopen();
    CHECK(b.claim(9).empty());
  }

  TEST_CASE("weights and shares are kept over a restart; weights can change while jobs wait") {
    Bench b;
    set(b, fair({{"a", 0.5}}));
    enqueue_many(b, "a", 30), enqueue_many(b, "b", 30);
    CHECK(keys(b, 2) == "ab");
    b.reopen();
    CHECK(b.stats().limits == fair({{"a", 0.5}}));
    CHECK(keys(b, 6) == "babbab");
    set(b, fair({{"b", 2}, {"c", 7}}));
    CHECK(keys(b, 6, 6) == "bbabba");
    set(b, fair());
    CHECK(keys(b, 4, 4) == "baba");
    set(b, {});
    CHECK(keys(b, 5, 5) == "aaaaa");
  }

  TEST_CASE("cancelled jobs and jobs of other kinds do not count against a key's share") {
    Bench b;
    set(b, fair());
    std::vector<JobId> of_a;
    for (int i = 0; i < 30; ++i) of_a.push_back(order_enqueue(b, 5, "a"));
    enqueue_many(b, "b", 3);
    enqueue_many(b, "", 3);
    CHECK(keys(b, 3, 3) == "ab-");
    for (std::size_t i = 1; i < 29; ++i) b.cancel(of_a[i]);
    CHECK(keys(b, 9, 9) == "ab-b-");
    CHECK_FALSE(b.store->has_available("q"));
  }
}

}  // namespace mainspring::conformance
