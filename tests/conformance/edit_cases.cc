// What edits and deletes promise: they change the named jobs and keep the order, the counters and
// the rules of sessions, keys and limits. An edit refuses a started job, a delete a live one.
#include <fmt/format.h>

#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

JobState edit(Bench& b, EditJob e) {
  return b.one<EditResult>(std::move(e)).state;
}
void remove(Bench& b, JobId id) {
  b.one<Done>(DeleteJob{.id = id});
}
JobId later(Bench& b, Duration delay) {
  NewJob n = b.job();
  n.delay = delay;
  return b.enqueue(n);
}

}  // namespace

TEST_SUITE("store: edit") {
  TEST_CASE("an edit changes what it names, and nothing else") {
    Bench b;
    NewJob n = b.job();
    n.args = R"({"order":1})";
    n.tags = {"old"};
    n.headers = R"({"h":"v"})";
    const JobId id = b.enqueue(n);
    CHECK(edit(b, {.id = id, .args = R"({"order":2})", .priority = 1}) == JobState::available);
    Job j = b.get(id);
    CHECK(j.args == R"({"order":2})");
    CHECK(j.priority == 1);
    CHECK(j.tags == std::vector<std::string>{"old"});
    CHECK(j.headers == R"({"h":"v"})");
    CHECK(j.version == 2);
    edit(b, {.id = id, .tags = std::vector<std::string>{"a", "b"}});
    CHECK(b.get(id).tags == std::vector<std::string>{"a", "b"});
    edit(b, {.id = id, .tags = std::vector<std::string>()});
    CHECK(b.get(id).tags.empty());
    b.reopen();
    j = b.get(id);
    CHECK(j.args == R"({"order":2})");
    CHECK(j.version == 4);
    const ClaimedJob c = b.claim_one();
    CHECK(c.args == R"({"order":2})");
    CHECK(c.tags.empty());
    CHECK(b.get(id).version == 5);
    CHECK(b.finish(c, Complete{}) == FinishStatus::ok);
  }

  TEST_CASE("another priority or run_at moves a job in the order of its queue") {
    Bench b;
    const JobId first = b.enqueue(), second = b.enqueue(), third = b.enqueue();
    edit(b, {.id = third, .priority = 0});
    edit(b, {.id = first, .run_at = b.wall() - seconds(1)});
    SUBCASE("at once") {}
    SUBCASE("after a reopen") {
      b.reopen();
    }
    const auto claimed = b.claim(3);
    CHECK(ids(claimed) == std::vector<JobId>{third, first, second});
  }

  TEST_CASE("jobs of one batch keep their order when some of them are edited") {
    Bench b;
    Enqueue many;
    for (int i = 0; i < 20; ++i) many.jobs.push_back(b.job());
    std::vector<JobId> order;
    for (const EnqueuedJob& job : b.one<EnqueueResult>(many).jobs) order.push_back(job.id);
    edit(b, {.id = order[7], .args = "[7]"});
    edit(b, {.id = order[9], .priority = 9});
    const auto claimed = b.claim(20);
    const JobId last = order[9];
    order.erase(order.begin() + 9);
    order.push_back(last);
    CHECK(ids(claimed) == order);
    for (const ClaimedJob& job : claimed) CHECK(b.finish(job, Complete{}) == FinishStatus::ok);
  }

  TEST_CASE("a future run_at schedules a job, a past one makes it available") {
    Bench b;
    const JobId id = b.enqueue();
    CHECK(edit(b, {.id = id, .run_at = b.wall() + hours(1)}) == JobState::scheduled);
    CHECK(b.claim().empty());
    CHECK(b.count(JobState::scheduled) == 1);
    CHECK(b.store->agenda().next_due == b.wall() + hours(1));
    CHECK(edit(b, {.id = id, .run_at = b.wall() + hours(2)}) == JobState::scheduled);
    CHECK(b.store->agenda().next_due == b.wall() + hours(2));
    b.advance(hours(1));
    CHECK(b.move_due() == 0);
    CHECK(edit(b, {.id = id, .run_at = b.wall()}) == JobState::available);
    CHECK(b.became_available("q"));
    CHECK(b.store->agenda().next_due == WallTime::never());
    CHECK(b.claim_one().id == id);
  }

  TEST_CASE("a retryable job stays so with another run_at, and keeps its errors and attempts") {
    Bench b;
    const JobId id = b.enqueue();
    b.finish(b.claim_one(), Retry{"e", hours(1)});
    CHECK(edit(b, {.id = id, .run_at = b.wall() + minutes(1)}) == JobState::retryable);
    b.advance(minutes(1));
    CHECK(b.move_due() == 1);
    const ClaimedJob c = b.claim_one();
    CHECK(c.attempt == 2);
    CHECK(b.get(id).errors.size() == 1);
  }

  TEST_CASE("changed args drop the checkpoint and the other traces of earlier attempts") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob c = b.claim_one();
    Renewal renewal{.id = id, .token = c.token, .progress = Progress{0.5, "half"}};
    renewal.checkpoint = "[1]";
    renewal.memos = {{"step", "[2]"}};
    b.one<RenewResult>(Renew{.worker = "w1", .leases = {renewal}});
    b.finish(c, Retry{"e", seconds(0)});
    edit(b, {.id = id, .priority = 1});
    CHECK(b.get(id).checkpoint == "[1]");
    edit(b, {.id = id, .args = "[3]"});
    CHECK(b.get(id).checkpoint.empty());
    CHECK_FALSE(b.get(id).progress);
    CHECK(b.get(id).errors.size() == 1);
    CHECK(b.store->memos(id, "", 10)->memos.empty());
    const ClaimedJob again = b.claim_one();
    CHECK(again.attempt == 1);
    CHECK(again.max_attempts == c.max_attempts);
    CHECK(again.checkpoint.empty());
    CHECK_FALSE(again.has_memos);
  }

  TEST_CASE("running, ended and unknown jobs cannot be edited") {
    Bench b;
    const JobId running = b.enqueue();
    const ClaimedJob c = b.claim_one();
    CHECK(b.refused(EditJob{.id = running, .priority = 1}) == ErrorCode::conflict);
    b.finish(c, Complete{});
    CHECK(b.refused(EditJob{.id = running, .priority = 1}) == ErrorCode::conflict);
    CHECK(b.refused(EditJob{.id = b.dead(b.job()), .priority = 1}) == ErrorCode::conflict);
    CHECK(b.refused(EditJob{.id = 4711, .priority = 1}) == ErrorCode::not_found);
    b.advance(hours(25));
    b.prune();
    CHECK(b.refused(EditJob{.id = running, .priority = 1}) == ErrorCode::expired);
  }

  TEST_CASE("an edit that changes nothing or breaks a rule of jobs is refused") {
    Bench b;
    const JobId id = b.enqueue();
    CHECK(b.refused(EditJob{.id = id}) == ErrorCode::invalid_argument);
    CHECK(b.refused(EditJob{.id = id, .priority = 10}) == ErrorCode::invalid_argument);
    CHECK(b.refused(EditJob{.id = id, .args = ""}) == ErrorCode::invalid_argument);
    CHECK(b.refused(EditJob{.id = id, .args = std::string(kMaxArgsBytes + 1, '1')}) ==
          ErrorCode::too_large);
    CHECK(b.refused(EditJob{.id = id, .tags = std::vector<std::string>(kMaxTags + 1, "t")}) ==
          ErrorCode::invalid_argument);
    CHECK(b.get(id).version == 1);
  }

  TEST_CASE("an edit with an outdated job version is refused") {
    Bench b;
    const JobId id = b.enqueue();
    edit(b, {.id = id, .priority = 1, .version = 1});
    CHECK(b.refused(EditJob{.id = id, .priority = 2, .version = 1}) == ErrorCode::conflict);
    CHECK(b.refused(Cancel{.id = id, .version = 1}) == ErrorCode::conflict);
    CHECK(b.refused(RetryJob{.id = id, .version = 1}) == ErrorCode::conflict);
    const ClaimedJob c = b.claim_one();
    CHECK(b.refused(Cancel{.id = id, .version = 2}) == ErrorCode::conflict);
    CHECK(b.one<CancelResult>(Cancel{.id = id, .version = b.get(id).version}).cancel_requested);
    b.finish(c, CancelJob{"ok"});
    CHECK(b.refused(DeleteJob{.id = id, .version = 2}) == ErrorCode::conflict);
    b.one<Done>(DeleteJob{.id = id, .version = b.get(id).version});
  }

  TEST_CASE("jobs outside of the caller's queues are not found by an edit or a delete") {
    Bench b;
    const JobId id = b.enqueue();
    const Within none{.scopes = std::make_shared<const Scopes>(), .verb = Verb::admin};
    CHECK(b.refused(EditJob{.id = id, .priority = 1, .within = none}) == ErrorCode::not_found);
    b.cancel(id);
    CHECK(b.refused(DeleteJob{.id = id, .within = none}) == ErrorCode::not_found);
    CHECK(b.get(id).priority == 5);
  }

  TEST_CASE("a deferred job keeps waiting, and its run_at cannot be edited") {
    Bench b;
    const JobId id = b.enqueue();
    b.finish(b.claim_one(), Defer{"later"});
    CHECK(edit(b, {.id = id, .args = "[1]"}) == JobState::waiting);
    CHECK(b.get(id).deferred);
    CHECK(b.get(id).reason == "later");
    CHECK(b.refused(EditJob{.id = id, .run_at = b.wall()}) == ErrorCode::conflict);
    b.retry(id);
    CHECK(b.claim_one().args == "[1]");
  }

  TEST_CASE("limits count an edited job under its key as before") {
    Bench b;
    b.one<Done>(SetQueueLimits{.queue = "q", .limits = {.per_key = {.concurrency = 1}}});
    NewJob n = b.job();
    n.limit_key = "k";
    const JobId first = b.enqueue(n), second = b.enqueue(n), third = b.enqueue(n);
    edit(b, {.id = third, .priority = 0});
    edit(b, {.id = second, .args = "[2]"});
    const auto one = b.claim(3);
    CHECK(ids(one) == std::vector<JobId>{third});
    b.finish(one[0], Complete{});
    const auto two = b.claim(3);
    CHECK(ids(two) == std::vector<JobId>{first});
    edit(b, {.id = second, .priority = 9});
    b.finish(two[0], Complete{});
    const auto last = b.claim(3);
    CHECK(ids(last) == std::vector<JobId>{second});
    CHECK(last[0].args == "[2]");
  }

  TEST_CASE("a unique key stays with an edited job") {
    Bench b;
    NewJob n = b.job();
    n.unique = Unique{.key = "k"};
    const JobId id = b.enqueue(n);
    edit(b, {.id = id, .args = "[1]", .run_at = b.wall() + hours(1)});
    const auto again = b.one<EnqueueResult>(Enqueue{.jobs = {n}});
    CHECK(again.jobs[0].id == id);
    CHECK(again.jobs[0].duplicate);
  }

  TEST_CASE("an edited job keeps its expiry time") {
    Bench b;
    NewJob n = b.job();
    n.expires_in = seconds(10);
    const JobId id = b.enqueue(n);
    edit(b, {.id = id, .priority = 2, .run_at = b.wall() + seconds(9)});
    // At its expiry or later it would never start.
    CHECK(b.refused(EditJob{.id = id, .run_at = b.wall() + seconds(10)}) == ErrorCode::conflict);
    b.advance(seconds(10));
    CHECK(b.expire() == 1);
    CHECK(b.state(id) == JobState::cancelled);
  }

  TEST_CASE("a new job and its edit in one batch") {
    Bench b;
    const JobId next = b.enqueue() + 1;
    const auto results =
        b.apply({Enqueue{.jobs = {b.job()}}, EditJob{.id = next, .args = "[1]", .priority = 0}});
    REQUIRE(std::holds_alternative<EditResult>(results[1]));
    const ClaimedJob c = b.claim_one();
    CHECK(c.id == next);
    CHECK(c.args == "[1]");
  }
}

TEST_SUITE("store: delete") {
  TEST_CASE("jobs that have ended are deleted with all that belongs to them, and counted") {
    Bench b;
    const JobId done = b.completed(b.job());
    const JobId dead = b.dead(b.job());
    const JobId cancelled = b.enqueue();
    b.cancel(cancelled, "no need");
    for (const JobId id : {done, dead, cancelled}) {
      remove(b, id);
      CHECK(b.get_refused(id) == ErrorCode::expired);
      CHECK(b.refused(DeleteJob{.id = id}) == ErrorCode::expired);
    }
    CHECK(b.stats().pruned == 3);
    CHECK(b.count(JobState::dead) == 0);
    CHECK(b.listed({}).empty());
    b.reopen();
    CHECK(b.stats().pruned == 3);
    b.advance(hours(24 * 31));
    CHECK(b.prune() == 0);
    CHECK(b.stats().pruned == 3);
  }

  TEST_CASE("live jobs cannot be deleted") {
    Bench b;
    const JobId available = b.enqueue();
    const JobId scheduled = later(b, hours(1));
    CHECK(b.refused(DeleteJob{.id = available}) == ErrorCode::conflict);
    CHECK(b.refused(DeleteJob{.id = scheduled}) == ErrorCode::conflict);
    b.claim_one();
    CHECK(b.refused(DeleteJob{.id = available}) == ErrorCode::conflict);
    CHECK(b.refused(DeleteJob{.id = 4711}) == ErrorCode::not_found);
    CHECK(b.refused(DeleteJob{.id = 0}) == ErrorCode::not_found);
  }

  TEST_CASE("the window of a unique key outlives a deleted job, as it does a pruned one") {
    Bench b;
    NewJob n = b.job();
    n.unique = Unique{.key = "k", .window = hours(2)};
    const JobId id = b.completed(n);
    remove(b, id);
    const auto again = b.one<EnqueueResult>(Enqueue{.jobs = {n}});
    CHECK(again.jobs[0].id == id);
    CHECK(again.jobs[0].duplicate);
    b.advance(hours(2));
    CHECK(b.enqueue(n) != id);
  }

  TEST_CASE("a job that is deleted and retried in one batch is gone") {
    Bench b;
    const JobId id = b.dead(b.job());
    const auto results = b.apply({DeleteJob{.id = id}, RetryJob{.id = id}});
    CHECK(std::holds_alternative<Done>(results[0]));
    REQUIRE(std::holds_alternative<Error>(results[1]));
    CHECK(b.get_refused(id) == ErrorCode::expired);
  }

  TEST_CASE("a queue can be removed once all its jobs are deleted") {
    Bench b;
    const JobId id = b.completed(b.job("gone"));
    CHECK(b.refused(RemoveQueue{.queue = "gone"}) == ErrorCode::conflict);
    remove(b, id);
    b.one<Done>(RemoveQueue{.queue = "gone"});
  }
}

}  // namespace mainspring::conformance
