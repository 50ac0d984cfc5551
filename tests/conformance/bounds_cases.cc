// Bounds in bytes, and properties of single queues: pages, claims, idempotency keys, unused queues.
#include "conformance/bench.h"
#include "store/bounds.h"

namespace mainspring::conformance {
namespace {

NewJob big_job(std::size_t bytes, std::string queue = "q") {
  NewJob n;
  n.queue = std::move(queue);
  n.kind = "k";
  n.args = "\"" + std::string(bytes - 2, 'x') + "\"";
  return n;
}

bool has_queue(const Bench& b, const std::string& name) {
  const auto queues = b.store->queues();
  REQUIRE(queues.has_value());
  return std::any_of(queues->begin(), queues->end(),
                     [&](const QueueStats& queue) { return queue.name == name; });
}

TEST_SUITE("store: bounds") {
  TEST_CASE("a list leaves out large args, says so, and shows them when asked") {
    Bench b;
    const JobId small = b.enqueue(big_job(kListedArgsBytes));
    const JobId large = b.enqueue(big_job(kListedArgsBytes + 1));
    const auto page = b.store->list({}, 10, 0);
    REQUIRE(page.has_value());
    REQUIRE(page->jobs.size() == 2);
    CHECK(page->jobs[0].id == large);
    CHECK(page->jobs[0].args.empty());
    CHECK(page->jobs[0].args_omitted == kListedArgsBytes + 1);
    CHECK(page->jobs[1].id == small);
    CHECK(page->jobs[1].args.size() == kListedArgsBytes);
    CHECK(page->jobs[1].args_omitted == 0);
    const auto whole = b.store->list({.whole_args = true}, 10, 0);
    REQUIRE(whole.has_value());
    CHECK(whole->jobs.at(0).args.size() == kListedArgsBytes + 1);
    CHECK(whole->jobs.at(0).args_omitted == 0);
    CHECK(b.get(large).args.size() == kListedArgsBytes + 1);
    b.claim(10);
    const auto running = b.store->list({.state = JobState::running}, 10, 0);
    REQUIRE(running.has_value());
    CHECK(running->jobs.at(0).args_omitted == kListedArgsBytes + 1);
  }

  TEST_CASE("a page ends at its bytes, and the next one continues: available, running, dead") {
    Bench b;
    std::vector<JobId> ids;
    for (int i = 0; i < 20; ++i) ids.push_back(b.enqueue(big_job(kMaxArgsBytes)));
    JobFilter filter{.whole_args = true};
    SUBCASE("of any state") {}
    SUBCASE("available") {
      filter.state = JobState::available;
    }
    SUBCASE("running") {
      while (!b.claim(100).empty()) {
      }
      filter.state = JobState::running;
    }
    SUBCASE("dead") {
      for (auto jobs = b.claim(100); !jobs.empty(); jobs = b.claim(100)) {
        for (const ClaimedJob& job : jobs) b.finish(job, Dead{"d", ""});
      }
      filter.state = JobState::dead;
    }
    std::vector<JobId> seen;
    JobId before = 0;
    int pages = 0;
    do {
      const auto page = b.store->list(filter, 1000, before);
      REQUIRE(page.has_value());
      std::size_t bytes = 0;
      for (const Job& job : page->jobs) seen.push_back(job.id), bytes += listed_bytes(job);
      CHECK(bytes < kPageBytes + kMaxArgsBytes + kMaxArgsBytes / 2);
      before = page->next.value_or(0);
      ++pages;
    } while (before != 0);
    CHECK(pages >= 3);
    CHECK(seen == std::vector<JobId>(ids.rbegin(), ids.rend()));
  }

  TEST_CASE("a claim ends at its bytes; the next one gets the rest, in order") {
    Bench b;
    std::vector<JobId> ids;
    for (int i = 0; i < 20; ++i) ids.push_back(b.enqueue(big_job(kMaxArgsBytes)));
    std::vector<JobId> got;
    for (auto jobs = b.claim(1000); !jobs.empty(); jobs = b.claim(1000)) {
      CHECK(jobs.size() <= 9);
      for (const ClaimedJob& job : jobs) got.push_back(job.id);
    }
    CHECK(got == ids);
  }

  TEST_CASE("a claim from several queues ends at its bytes") {
    Bench b;
    for (int i = 0; i < 10; ++i) b.enqueue(big_job(kMaxArgsBytes, "a"));
    for (int i = 0; i < 10; ++i) b.enqueue(big_job(kMaxArgsBytes, "b"));
    std::size_t all = 0;
    for (auto jobs = b.claim(1000, {"a", "b"}); !jobs.empty(); jobs = b.claim(1000, {"a", "b"})) {
      CHECK(jobs.size() <= 9);
      all += jobs.size();
    }
    CHECK(all == 20);
  }

  TEST_CASE("a claim from a queue with limits ends at its bytes") {
    Bench b;
    b.one<Done>(SetQueueLimits{.queue = "q", .limits = {.concurrency = 100}});
    for (int i = 0; i < 20; ++i) b.enqueue(big_job(kMaxArgsBytes));
    std::size_t all = 0;
    for (auto jobs = b.claim(1000); !jobs.empty(); jobs = b.claim(1000)) {
      CHECK(jobs.size() <= 9);
      all += jobs.size();
    }
    CHECK(all == 20);
  }

  TEST_CASE("idempotency keys of different queues are different keys") {
    Bench b;
    const Enqueue a{.jobs = {b.job("a")}, .idempotency_key = "k", .fingerprint = "f"};
    const Enqueue other{.jobs = {b.job("b")}, .idempotency_key = "k", .fingerprint = "g"};
    const auto first = b.one<EnqueueResult>(a);
    const auto second = b.one<EnqueueResult>(other);
    CHECK_FALSE(second.replayed);
    CHECK(second.jobs[0].id != first.jobs[0].id);
    CHECK(b.one<EnqueueResult>(a).jobs[0].id == first.jobs[0].id);
    CHECK(b.one<EnqueueResult>(other).replayed);
    CHECK(b.refused(Enqueue{.jobs = {b.job("a")}, .idempotency_key = "k", .fingerprint = "h"}) ==
          ErrorCode::conflict);
  }

  TEST_CASE("the idempotency key of a batch for several queues ignores the order of its jobs") {
    Bench b;
    const Enqueue one{.jobs = {b.job("a")}, .idempotency_key = "k", .fingerprint = "f"};
    const Enqueue both{
        .jobs = {b.job("a"), b.job("b")}, .idempotency_key = "k", .fingerprint = "g"};
    const Enqueue turned{
        .jobs = {b.job("b"), b.job("a")}, .idempotency_key = "k", .fingerprint = "h"};
    b.one<EnqueueResult>(one);
    const auto first = b.one<EnqueueResult>(both);
    CHECK_FALSE(first.replayed);
    CHECK(b.one<EnqueueResult>(both).jobs[1].id == first.jobs[1].id);
    CHECK(b.refused(turned) == ErrorCode::conflict);
    b.reopen();
    CHECK(b.one<EnqueueResult>(both).replayed);
  }

  TEST_CASE("an empty queue is removed with its settings, and an enqueue creates it again") {
    Bench b;
    CHECK(b.refused(RemoveQueue{"q"}) == ErrorCode::not_found);
    const JobId id = b.enqueue();
    CHECK(b.refused(RemoveQueue{"q"}) == ErrorCode::conflict);
    b.one<Done>(SetRetention{.queue = "q", .completed = Duration(0), .dead = {}});
    b.one<Done>(SetQueueLimits{.queue = "q", .limits = {.concurrency = 1}});
    b.finish(b.claim_one(), Complete{});
    CHECK(b.refused(RemoveQueue{"q"}) == ErrorCode::conflict);  // it keeps a finished job
    b.prune();
    CHECK(b.store->get(id).error().code == ErrorCode::expired);
    b.one<Done>(PauseQueue{"q", true});
    b.one<Done>(RemoveQueue{"q"});
    CHECK_FALSE(has_queue(b, "q"));
    CHECK(b.refused(RemoveQueue{"q"}) == ErrorCode::not_found);
    b.reopen();
    CHECK_FALSE(has_queue(b, "q"));
    b.enqueue();
    b.enqueue();
    REQUIRE(has_queue(b, "q"));
    CHECK(b.claim(2).size() == 2);  // neither paused nor limited
    b.reopen();
    CHECK(has_queue(b, "q"));
  }

  TEST_CASE("a removed queue exists again when it gets settings") {
    Bench b;
    b.one<Done>(PauseQueue{"q", false});
    REQUIRE(has_queue(b, "q"));
    b.one<Done>(RemoveQueue{"q"});
    CHECK_FALSE(has_queue(b, "q"));
    SUBCASE("paused") {
      b.one<Done>(PauseQueue{"q", true});
    }
    SUBCASE("resumed") {
      b.one<Done>(PauseQueue{"q", false});
    }
    SUBCASE("retention") {
      b.one<Done>(SetRetention{.queue = "q", .completed = hours(1), .dead = {}});
    }
    SUBCASE("limits") {
      b.one<Done>(SetQueueLimits{.queue = "q", .limits = {.concurrency = 1}});
    }
    CHECK(has_queue(b, "q"));
    b.reopen();
    CHECK(has_queue(b, "q"));
  }

  TEST_CASE("queues that were empty and without settings for a week are forgotten") {
    Bench b;
    const ForgetQueues forget{.idle = hours(24 * 7), .limit = 1000, .fence = {}};
    for (const char* name : {"used", "idle", "paused", "kept"})
      b.one<Done>(PauseQueue{name, std::string(name) == "paused"});
    b.enqueue(b.job("kept"));
    CHECK(b.one<StepResult>(forget).changed == 0);
    const std::int64_t commits = b.store->commits();
    CHECK(b.one<StepResult>(forget).changed == 0);
    CHECK(b.store->commits() == commits);  // a call that changes nothing writes nothing
    b.advance(hours(24 * 6));
    b.one<Done>(SetRetention{.queue = "used", .completed = Duration(0), .dead = {}});
    b.enqueue(b.job("used"));
    b.finish(b.claim(1, {"used"}).at(0), Complete{});
    b.prune();
    b.one<Done>(SetRetention{.queue = "used", .completed = {}, .dead = {}});
    b.reopen();
    b.advance(hours(24));
    CHECK(b.one<StepResult>(forget).changed == 1);
    CHECK_FALSE(has_queue(b, "idle"));
    for (const char* name : {"used", "paused", "kept"}) CHECK(has_queue(b, name));
    b.advance(hours(24 * 7));
    CHECK(b.one<StepResult>(forget).changed == 1);
    CHECK_FALSE(has_queue(b, "used"));
    for (const char* name : {"paused", "kept"}) CHECK(has_queue(b, name));
  }

  TEST_CASE("an empty queue seen by a clock that was ahead is forgotten a week after now") {
    Bench b;
    const ForgetQueues forget{.idle = hours(24 * 7), .limit = 1000, .fence = {}};
    b.one<Done>(PauseQueue{"idle", false});
    b.advance(hours(24 * 365));
    b.one<StepResult>(forget);
    b.clock.step_wall(-hours(24 * 365));
    b.one<StepResult>(forget);
    b.advance(hours(24 * 7));
    CHECK(b.one<StepResult>(forget).changed == 1);
  }

  TEST_CASE("each step of forgetting is bounded") {
    Bench b;
    for (int i = 0; i < 5; ++i) b.one<Done>(PauseQueue{"q" + std::to_string(i), false});
    const ForgetQueues forget{.idle = hours(1), .limit = 2, .fence = {}};
    CHECK(b.one<StepResult>(forget).more);
    CHECK(b.one<StepResult>(forget).more);
    CHECK_FALSE(b.one<StepResult>(forget).more);
    b.advance(hours(1));
    CHECK(b.one<StepResult>(forget).changed == 2);
    CHECK(b.one<StepResult>(forget).changed == 2);
    CHECK(b.one<StepResult>(forget).changed == 1);
    CHECK(b.store->queues()->empty());
  }
}

}  // namespace
}  // namespace mainspring::conformance
