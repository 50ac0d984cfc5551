// Conformance: rates per key.
#include <algorithm>

#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

QueueLimits key_rate(int count, Duration per, RateKind kind = RateKind::bucket, int burst = 0) {
  QueueLimits limits;
  limits.per_key.rate = RateLimit{.count = count, .per = per, .kind = kind, .burst = burst};
  return limits;
}
void set_key_rates(Bench& b, const QueueLimits& limits) {
  b.one<Done>(SetQueueLimits{"q", limits});
}
NewJob keyed(Bench& b, const std::string& key) {
  NewJob job = b.job();
  job.limit_key = key;
  return job;
}
JobId key_rate_enqueue(Bench& b, const std::string& key) {
  return b.enqueue(keyed(b, key));
}
void key_rate_fill(Bench& b, const std::string& key, int jobs) {
  for (int i = 0; i < jobs; ++i) key_rate_enqueue(b, key);
}
void key_rate_open(Bench& b) {
  b.one<StepResult>(OpenQueues{});
}

}  // namespace

TEST_SUITE("store: limits per key, rates") {
  TEST_CASE("each key starts no more jobs than its rate allows and does not block other keys") {
    Bench b;
    set_key_rates(b, key_rate(2, minutes(1)));
    const JobId a1 = key_rate_enqueue(b, "a"), a2 = key_rate_enqueue(b, "a"),
                a3 = key_rate_enqueue(b, "a");
    const JobId b1 = key_rate_enqueue(b, "b"), free1 = b.enqueue(b.job()),
                free2 = b.enqueue(b.job());
    const JobId free3 = b.enqueue(b.job());
    const auto first = b.claim(9);
    CHECK(ids(first) == std::vector<JobId>{a1, a2, b1, free1, free2, free3});
    CHECK(b.claim(9).empty());
    CHECK_FALSE(b.store->has_available("q"));
    CHECK(b.store->limit_key("q", "a")->opens_at == b.wall() + seconds(30));
    CHECK_FALSE(b.store->limit_key("q", "b")->opens_at);
    for (const ClaimedJob& job : first) b.finish(job, Complete{});
    CHECK(b.claim(9).empty());  // an end gives nothing back
    b.advance(seconds(30) - milliseconds(1));
    CHECK(b.claim(9).empty());
    b.advance(milliseconds(1));
    CHECK(ids(b.claim(9)) == std::vector<JobId>{a3});
    CHECK(b.stats().limits == key_rate(2, minutes(1)));
    CHECK(b.store->verify()->problems.empty());
  }

  TEST_CASE("every attempt counts, for the key of its job") {
    Bench b;
    set_key_rates(b, key_rate(3, hours(1), RateKind::sliding));
    key_rate_fill(b, "a", 2);
    const auto first = b.claim(9);
    b.finish(first[0], Retry{"e", Duration(0)});
    b.finish(first[1], Snooze{Duration(0)});
    CHECK(b.claim(9).size() == 1);
    CHECK(b.claim(9).empty());
    const JobId other = key_rate_enqueue(b, "b");
    CHECK(ids(b.claim(9)) == std::vector<JobId>{other});
  }

  TEST_CASE("a queue becomes available when its first key with jobs opens, then at the next one") {
    Bench b;
    set_key_rates(b, key_rate(1, seconds(10)));
    key_rate_fill(b, "a", 3);
    CHECK(b.claim(9).size() == 1);
    b.advance(seconds(4));
    key_rate_fill(b, "b", 2);
    CHECK(b.claim(9).size() == 1);
    CHECK(b.claim(9).empty());
    const WallTime a_opens = b.wall() + seconds(6), b_opens = b.wall() + seconds(10);
    CHECK(b.store->agenda().next_opening == a_opens);
    b.advance(seconds(6));
    CHECK(b.store->agenda().next_opening == a_opens);
    key_rate_open(b);
    CHECK(b.became_available("q"));
    CHECK(b.store->has_available("q"));
    CHECK(b.store->agenda().next_opening == b_opens);
    CHECK(b.claim(9).size() == 1);
    CHECK(b.claim(9).empty());
    b.advance(seconds(4));
    key_rate_open(b);
    CHECK(b.became_available("q"));
    CHECK(b.claim(9).size() == 1);
    CHECK(b.store->agenda().next_opening == a_opens + seconds(10));
  }

  TEST_CASE("a key that opened during other operations is reported at the next opening") {
    Bench b;
    set_key_rates(b, key_rate(1, seconds(10)));
    key_rate_fill(b, "a", 2);
    CHECK(b.claim(9).size() == 1);
    CHECK(b.claim(9).empty());
    b.advance(seconds(11));
    b.enqueue(b.job("other"));  // not of the queue
    CHECK(b.store->agenda().next_opening <= b.wall());
    key_rate_open(b);
    CHECK(b.became_available("q"));
    CHECK(b.claim(9).size() == 1);
  }

  TEST_CASE("the jobs started per key are kept over a restart") {
    Bench b;
    set_key_rates(b, key_rate(2, minutes(1), RateKind::sliding));
    key_rate_fill(b, "a", 4), key_rate_fill(b, "b", 3);
    CHECK(b.claim(3).size() == 3);  // two of a, one of b
    const WallTime opens = *b.store->limit_key("q", "a")->opens_at;
    b.reopen();
    CHECK(b.claim(9).size() == 1);
    CHECK(b.claim(9).empty());
    CHECK(b.store->agenda().next_opening == opens);
    b.advance(minutes(2));
    CHECK(b.claim(9).size() == 3);
  }

  TEST_CASE("a fixed window gives each key its count, and again in the next window") {
    Bench b;
    set_key_rates(b, key_rate(2, hours(1), RateKind::fixed));
    key_rate_fill(b, "a", 5), key_rate_fill(b, "b", 3);
    const WallTime next = WallTime::from_us((b.wall().us() / 3'600'000'000 + 1) * 3'600'000'000);
    CHECK(b.claim(99).size() == 4);
    CHECK(b.claim(99).empty());
    CHECK(b.store->agenda().next_opening == next);
    b.advance(next - b.wall());
    key_rate_open(b);
    CHECK(b.became_available("q"));
    CHECK(b.claim(99).size() == 3);
  }

  TEST_CASE("a key's rate applies together with its concurrency and the limits of the queue") {
    Bench b;
    QueueLimits limits = key_rate(3, minutes(1), RateKind::sliding);
    limits.per_key.concurrency = 2;
    limits.concurrency = 3;
    set_key_rates(b, limits);
    key_rate_fill(b, "a", 9), key_rate_fill(b, "b", 9);
    auto running = b.claim(9);
    CHECK(running.size() == 3);  // two of a, one of b
    for (const ClaimedJob& job : running) b.finish(job, Complete{});
    running = b.claim(9);
    CHECK(running.size() == 3);  // the third of a, two of b
    for (const ClaimedJob& job : running) b.finish(job, Complete{});
    CHECK(b.claim(9).empty());
    b.advance(minutes(2));
    CHECK(b.claim(9).size() == 3);
    CHECK(b.stats().limits == limits);
  }

  TEST_CASE("fair keys are served as far as their rates allow") {
    Bench b;
    QueueLimits limits = key_rate(2, minutes(1));
    limits.per_key.fair = true;
    set_key_rates(b, limits);
    key_rate_fill(b, "a", 4), key_rate_fill(b, "b", 4);
    const JobId free = b.enqueue(b.job());
    const auto first = b.claim(9);
    REQUIRE(first.size() == 5);
    const auto key = [&](std::size_t i) { return b.get(first[i].id).limit_key; };
    CHECK(key(0) != key(1));
    CHECK(std::any_of(first.begin(), first.end(), [&](const auto& j) { return j.id == free; }));
    b.advance(minutes(1));
    CHECK(b.claim(9).size() == 4);
    CHECK(b.claim(9).empty());
  }

  TEST_CASE("an aged job of a low priority waits for its key like others") {
    Bench b;
    QueueLimits limits = key_rate(1, minutes(1));
    limits.ageing = seconds(10);
    set_key_rates(b, limits);
    NewJob low = keyed(b, "a");
    low.priority = 9;
    const JobId old = b.enqueue(low);
    b.advance(minutes(2));
    const JobId urgent = key_rate_enqueue(b, "a"), other = key_rate_enqueue(b, "b");
    CHECK(ids(b.claim(9)) == std::vector<JobId>{old, other});
    b.advance(minutes(1));
    CHECK(ids(b.claim(9)) == std::vector<JobId>{urgent});
  }

  TEST_CASE("a changed rate resets the count, removing it lifts the limit, other limits keep it") {
    Bench b;
    set_key_rates(b, key_rate(1, hours(1)));
    key_rate_fill(b, "a", 9);
    CHECK(b.claim(9).size() == 1);
    QueueLimits more = key_rate(1, hours(1));
    more.concurrency = 100;
    set_key_rates(b, more);
    CHECK(b.claim(9).empty());
    set_key_rates(b, key_rate(2, hours(1)));
    CHECK(b.became_available("q"));
    CHECK(b.claim(9).size() == 2);
    CHECK(b.claim(9).empty());
    set_key_rates(b, {});
    CHECK(b.became_available("q"));
    CHECK(b.claim(9).size() == 6);
    CHECK(b.store->agenda().next_opening == WallTime::never());
    CHECK(b.store->verify()->problems.empty());
  }

  TEST_CASE("a claim by id of a closed key is refused; one that starts counts against the rate") {
    Bench b;
    set_key_rates(b, key_rate(1, minutes(1)));
    const JobId first = key_rate_enqueue(b, "a"), second = key_rate_enqueue(b, "a");
    const auto named = [&](JobId id) {
      return b.apply({Claim{.worker = "w", .queues = {"q"}, .kinds = {}, .job = id}}).at(0);
    };
    CHECK(std::get<ClaimResult>(named(second)).jobs.size() == 1);
    const auto refused = named(first);
    REQUIRE(std::holds_alternative<Error>(refused));
    CHECK(std::get<Error>(refused).code == ErrorCode::conflict);
    CHECK(b.claim(9).empty());
    b.advance(minutes(1));
    CHECK(std::get<ClaimResult>(named(first)).jobs.size() == 1);
  }

  TEST_CASE("dropping an unused key meter changes nothing for callers") {
    Bench b;
    set_key_rates(b, key_rate(1, seconds(10)));
    for (int i = 0; i < 150; ++i) key_rate_enqueue(b, "k" + std::to_string(i));
    CHECK(b.claim(200).size() == 150);
    b.advance(hours(1));
    for (int i = 0; i < 3; ++i) {
      key_rate_fill(b, "a", 2);
      CHECK(b.claim(1).size() == 1);
      b.advance(hours(1));
    }
    key_rate_fill(b, "k1", 2);
    CHECK(b.claim(99).size() == 2);  // one of each key
    CHECK(b.store->verify()->problems.empty());
  }

  TEST_CASE("ahead_of_key() counts the earlier jobs of a job's key, up to a limit") {
    Bench b;
    set_key_rates(b, key_rate(1, minutes(1)));
    const JobId a1 = key_rate_enqueue(b, "a");
    key_rate_fill(b, "b", 3);
    const JobId a2 = key_rate_enqueue(b, "a"), a3 = key_rate_enqueue(b, "a");
    CHECK(*b.store->ahead_of_key(b.get(a1), 10) == 0);
    CHECK(*b.store->ahead_of_key(b.get(a3), 10) == 2);
    CHECK(*b.store->ahead_of_key(b.get(a3), 1) == 1);
    CHECK(b.claim(9).size() == 2);  // one of each key
    CHECK(*b.store->ahead_of_key(b.get(a2), 10) == 0);
    CHECK(*b.store->ahead_of_key(b.get(a3), 10) == 1);
  }

  TEST_CASE("many jobs of a closed key do not block jobs of other keys") {
    Bench b;
    set_key_rates(b, key_rate(2, hours(1)));
    constexpr int kMany = 3000;
    Enqueue many;
    for (int i = 0; i < kMany; ++i) many.jobs.push_back(keyed(b, "a"));
    b.one<EnqueueResult>(many);
    const JobId other = key_rate_enqueue(b, "b");
    const auto first = b.claim(3);
    REQUIRE(first.size() == 3);
    CHECK(first[2].id == other);
    CHECK(b.claim(9).empty());
    set_key_rates(b, {});
    CHECK(b.claim(900).size() == 900);
    CHECK(b.store->verify()->problems.empty());
  }

  TEST_CASE("a key that opens because the clock is set back is reported at once") {
    Bench b;
    set_key_rates(b, key_rate(1, minutes(60)));
    key_rate_fill(b, "a", 2);
    REQUIRE(b.claim(9).size() == 1);
    CHECK_FALSE(b.store->has_available("q"));
    b.clock.step_wall(-minutes(180));
    b.enqueue(b.job("other"));
    CHECK(b.store->agenda().next_opening <= b.wall());
    key_rate_open(b);
    CHECK(b.became_available("q"));
    CHECK(b.claim(9).size() == 1);
  }

  TEST_CASE("starts before a clock step back count again when the clock returns, after a reopen") {
    Bench b;
    set_key_rates(b, key_rate(1, seconds(25), RateKind::sliding));
    key_rate_fill(b, "a", 2);
    REQUIRE(b.claim(1).size() == 1);
    const WallTime opens = b.store->agenda().next_opening;
    CHECK(opens > b.wall() + seconds(25));
    b.clock.step_wall(-seconds(117));
    b.reopen();
    b.clock.step_wall(seconds(112));
    b.one<StepResult>(MoveDue{});
    CHECK(b.store->limit_key("q", "a")->opens_at == opens);
    CHECK(b.claim(1).empty());
  }
}

}  // namespace mainspring::conformance
