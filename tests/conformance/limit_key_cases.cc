// Conformance: limits per key.
#include <algorithm>

#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

void limit_keys(Bench& b, int concurrency, const std::string& queue = "q") {
  QueueLimits limits;
  limits.per_key.concurrency = concurrency;
  b.one<Done>(SetQueueLimits{queue, limits});
}
NewJob job_with_key(Bench& b, const std::string& key, const std::string& queue = "q") {
  NewJob job = b.job(queue);
  job.limit_key = key;
  return job;
}
JobId limit_key_enqueue(Bench& b, const std::string& key, int priority = 5) {
  NewJob job = job_with_key(b, key);
  job.priority = priority;
  return b.enqueue(job);
}
std::int64_t running(Bench& b, const std::string& key) {
  return b.store->limit_key("q", key)->running;
}

}  // namespace

TEST_SUITE("store: limits per key") {
  TEST_CASE("no more jobs of a key run at once than its limit, and other keys are not blocked") {
    Bench b;
    limit_keys(b, 1);
    const JobId a1 = limit_key_enqueue(b, "a"), a2 = limit_key_enqueue(b, "a"),
                a3 = limit_key_enqueue(b, "a");
    const JobId b1 = limit_key_enqueue(b, "b"), free1 = b.enqueue(b.job()),
                free2 = b.enqueue(b.job());
    const auto first = b.claim(9);
    CHECK(ids(first) == std::vector<JobId>{a1, b1, free1, free2});
    CHECK(running(b, "a") == 1);
    CHECK(b.claim(9).empty());
    CHECK_FALSE(b.store->has_available("q"));
    b.finish(first[1], Complete{});  // of b, which has no other
    CHECK(b.claim(9).empty());
    b.finish(first[0], Complete{});
    CHECK(b.became_available("q"));
    CHECK(b.store->has_available("q"));
    const auto next = b.claim(9);
    CHECK(ids(next) == std::vector<JobId>{a2});
    b.finish(next[0], Retry{"e", Duration(0)});
    CHECK(running(b, "a") == 0);
    CHECK(b.claim(9).size() == 1);
    CHECK(b.get(a3).state == JobState::available);
    CHECK(b.get(a3).limit_key == "a");
  }

  TEST_CASE("a claim takes no more of a key than its free slots, in the order of the whole queue") {
    Bench b;
    limit_keys(b, 2);
    const JobId a1 = limit_key_enqueue(b, "a"), a2 = limit_key_enqueue(b, "a");
    limit_key_enqueue(b, "a");
    const JobId b1 = limit_key_enqueue(b, "b"), urgent = limit_key_enqueue(b, "a", 0);
    CHECK(ids(b.claim(9)) == std::vector<JobId>{urgent, a1, b1});
    CHECK(b.get(a2).state == JobState::available);
  }

  TEST_CASE("a later job of a higher priority goes first when its key has a free slot") {
    Bench b;
    limit_keys(b, 1);
    limit_key_enqueue(b, "a");
    const JobId a2 = limit_key_enqueue(b, "a");
    const auto first = b.claim(9);
    CHECK(b.claim(9).empty());
    const JobId urgent = limit_key_enqueue(b, "a", 0);
    CHECK(b.claim(9).empty());
    b.finish(first[0], Complete{});
    const auto next = b.claim(9);
    CHECK(ids(next) == std::vector<JobId>{urgent});
    b.finish(next[0], Complete{});
    CHECK(ids(b.claim(9)) == std::vector<JobId>{a2});
  }

  TEST_CASE("running jobs count over a restart") {
    Bench b;
    limit_keys(b, 1);
    limit_key_enqueue(b, "a"), limit_key_enqueue(b, "a");
    const auto first = b.claim(9);
    b.reopen();
    CHECK(running(b, "a") == 1);
    CHECK(b.claim(9).empty());
    b.finish(first[0], Complete{});
    CHECK(b.claim(9).size() == 1);
  }

  TEST_CASE("a new limit counts running jobs; a lower one stops none, removing it opens all keys") {
    Bench b;
    for (int i = 0; i < 6; ++i) limit_key_enqueue(b, "a");
    const auto first = b.claim(2);
    limit_keys(b, 1);
    CHECK(running(b, "a") == 2);
    CHECK(b.claim(9).empty());
    b.finish(first[0], Complete{});
    CHECK(b.claim(9).empty());
    b.finish(first[1], Complete{});
    CHECK(b.claim(9).size() == 1);
    limit_keys(b, 3);
    CHECK(b.became_available("q"));
    CHECK(b.claim(9).size() == 2);
    CHECK(b.claim(9).empty());
    b.one<Done>(SetQueueLimits{"q", {}});
    CHECK(b.became_available("q"));
    CHECK(b.claim(9).size() == 1);
  }

  TEST_CASE("a lease that expired counts until its job is rescued") {
    Bench b;
    limit_keys(b, 1);
    limit_key_enqueue(b, "a"), limit_key_enqueue(b, "a");
    b.claim_one();
    b.advance(minutes(1));
    CHECK(b.claim(9).empty());
    CHECK(b.rescue() == 1);
    CHECK(b.became_available("q"));
    CHECK(b.claim(9).size() == 1);
  }

  TEST_CASE("the limits of key and queue apply together, and kinds share the slots of a key") {
    Bench b;
    QueueLimits limits{.concurrency = 3, .rate = {}};
    limits.per_key.concurrency = 2;
    b.one<Done>(SetQueueLimits{"q", limits});
    for (const char* key : {"a", "a", "a", "b", "b"}) {
      NewJob job = job_with_key(b, key);
      job.kind = "other";
      b.enqueue(job);
      b.enqueue(job_with_key(b, key));
    }
    const auto first = b.claim(1);
    CHECK(b.one<ClaimResult>(Claim{.worker = "w", .queues = {"q"}, .kinds = {"other"}, .max = 1})
              .jobs.size() == 1);
    CHECK(running(b, "a") == 2);
    const auto last = b.claim(9);
    REQUIRE(last.size() == 1);
    CHECK(b.get(last[0].id).limit_key == "b");
    CHECK(b.claim(9).empty());
    b.finish(first[0], Complete{});
    CHECK(b.claim(9).size() == 1);
    CHECK(b.stats().limits == limits);
  }

  TEST_CASE("other queues and jobs without a key are not limited; a key belongs to one queue") {
    Bench b;
    limit_keys(b, 1);
    limit_key_enqueue(b, "a"), limit_key_enqueue(b, "a");
    b.enqueue(job_with_key(b, "a", "r"));
    b.enqueue(job_with_key(b, "a", "r"));
    CHECK(b.claim(9, {"q", "r"}).size() == 3);
    CHECK(b.claim(9, {"q", "r"}).empty());
  }

  TEST_CASE("cancelled, expired, postponed and replaced jobs leave the ready queue of their key") {
    Bench b;
    limit_keys(b, 1);
    limit_key_enqueue(b, "a");
    const JobId gone = limit_key_enqueue(b, "a");
    NewJob expires = job_with_key(b, "a");
    expires.expires_in = seconds(5);
    b.enqueue(expires);
    NewJob changes = job_with_key(b, "a");
    changes.unique = Unique{.key = "u", .on_conflict = OnConflict::replace};
    const JobId changed = b.enqueue(changes);
    const JobId last = limit_key_enqueue(b, "a");
    const auto first = b.claim_one();
    CHECK(b.claim(9).empty());
    b.one<CancelResult>(Cancel{gone, "no", {}});
    changes.limit_key = "b";
    b.enqueue(changes);
    CHECK(b.get(changed).limit_key == "b");
    CHECK(ids(b.claim(9)) == std::vector<JobId>{changed});
    b.advance(seconds(6));
    b.one<StepResult>(ExpireJobs{});
    b.finish(first, Complete{});
    CHECK(ids(b.claim(9)) == std::vector<JobId>{last});
    CHECK(b.claim(9).empty());
  }

  TEST_CASE("many jobs of a full key do not block jobs of other keys") {
    Bench b;
    limit_keys(b, 2);
    constexpr int kMany = 3000;
    Enqueue many;
    for (int i = 0; i < kMany; ++i) many.jobs.push_back(job_with_key(b, "a"));
    b.one<EnqueueResult>(many);
    const JobId other = limit_key_enqueue(b, "b");
    const auto first = b.claim(3);
    REQUIRE(first.size() == 3);
    CHECK(first[2].id == other);
    CHECK(b.claim(9).empty());
    for (const ClaimedJob& job : first) b.finish(job, Complete{});
    CHECK(b.claim(9).size() == 2);
    b.one<Done>(SetQueueLimits{"q", {}});
    CHECK(b.claim(900).size() == 900);
    CHECK(b.store->verify()->problems.empty());
  }
}

}  // namespace mainspring::conformance
