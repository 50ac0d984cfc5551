// What triggers on the ends of jobs promise: each end fires once, in the transaction that ends the
// job, however it ends. Chains of triggers are bounded.
#include <fmt/format.h>

#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

// Ends of the queue "q" make jobs of the queue "then".
Trigger on_ends(std::uint8_t on = FollowUp::kEveryEnd) {
  Trigger trigger{.name = "t",
                  .http = {},
                  .folder = {},
                  .ended = EndedSource{.queue = "q", .on = on},
                  .job = {}};
  trigger.job.queue = "then";
  trigger.job.kind = "next";
  return trigger;
}

class EndBench : public Bench {
 public:
  using Bench::Bench;
  void put(Trigger trigger) {
    one<PutTriggerResult>(PutTrigger{.trigger = std::move(trigger), .secret = ""});
  }
  TriggerInfo info(const std::string& name = "t") const {
    auto found = store->trigger(name);
    if (!found) FAIL("trigger " << name << ": " << found.error().message);
    return *found;
  }
  std::vector<TriggerEvent> rows(const std::string& name = "t") const {
    auto page = store->trigger_events(name, 1000, 0);
    if (!page) FAIL(page.error().message);
    return page->rows;
  }
  std::size_t number(const std::string& queue = "then") const {
    return listed({.queue = queue}).size();
  }
  Job only(const std::string& queue = "then") const {
    const std::vector<JobId> all = listed({.queue = queue});
    REQUIRE(all.size() == 1);
    return get(all[0]);
  }
  // Completes the oldest job of the queue.
  JobId complete(const std::string& queue) {
    const auto jobs = claim(1, {queue});
    REQUIRE(jobs.size() == 1);
    CHECK(finish(jobs[0], Complete{}) == FinishStatus::ok);
    return jobs[0].id;
  }
};

TEST_SUITE("store: triggers on ends") {
  TEST_CASE("a completion makes a job of the template, with the ended job's data, and a row") {
    EndBench b;
    Trigger trigger = on_ends();
    trigger.job.priority = 2;
    trigger.job.args = R"({"order":{"$ref":"job.result.order"},"of":{"$ref":"job.id"},"how":)"
                       R"({"$ref":"job.outcome"},"by":{"$ref":"trigger.name"},)"
                       R"("error":{"$ref":"job.error"},"n":{"$ref":"job.attempt"}})";
    b.put(trigger);
    const JobId id = b.enqueue();
    CHECK(b.finish(b.claim_one(), Complete{R"({"order": 7})"}) == FinishStatus::ok);
    CHECK(b.became_available("then"));
    CHECK(b.store->has_available("then"));
    const Job next = b.only();
    CHECK(next.kind == "next");
    CHECK(next.priority == 2);
    CHECK(next.state == JobState::available);
    CHECK(next.trigger_depth == 1);
    CHECK(next.args == fmt::format(R"({{"order":7,"of":{},"how":"completed","by":"t","error":)"
                                   R"(null,"n":1}})",
                                   id));
    REQUIRE(b.rows().size() == 1);
    const TriggerEvent row = b.rows()[0];
    CHECK(row.event == fmt::format("{}/completed", id));
    CHECK(row.job == next.id);
    CHECK(row.reason.empty());
    CHECK(row.fired_at == b.wall());
    CHECK(b.info().fired == 1);
    CHECK(b.info().refused == 0);
    CHECK(b.info().last_job == next.id);
    CHECK(b.info().last_fired == b.wall());
    CHECK(b.info().last_event == row.event);
    const auto claimed = b.claim(1, {"then"});
    REQUIRE(claimed.size() == 1);
    CHECK(claimed[0].args == next.args);
  }

  TEST_CASE("without args the job gets all data of the ended job") {
    EndBench b;
    b.put(on_ends());
    const JobId id = b.dead(b.job());
    CHECK(b.only().args ==
          fmt::format(R"({{"id":{},"queue":"q","kind":"work","outcome":"dead","attempt":1,)"
                      R"("result":null,"error":"cannot be read","reason":"poison",)"
                      R"("description":"cannot be read"}})",
                      id));
  }

  TEST_CASE("only the configured ends, kinds and queues fire a trigger") {
    EndBench b;
    Trigger trigger = on_ends(FollowUp::kDead);
    trigger.ended->kind = "work";
    b.put(trigger);
    b.completed(b.job());
    b.cancel(b.enqueue());
    b.dead(b.job("other"));
    NewJob another = b.job();
    another.kind = "else";
    b.dead(another);
    CHECK(b.number() == 0);
    b.dead(b.job());
    CHECK(b.number() == 1);
  }

  TEST_CASE("a trigger on every queue fires for all queues except the engine's own") {
    EndBench b;
    Trigger trigger = on_ends(FollowUp::kCompleted);
    trigger.ended->queue.clear();
    b.put(trigger);
    b.completed(b.job());
    b.completed(b.job("other"));
    NewJob callback = b.job();
    callback.follow_ups = {{.queue = "mainspring.callbacks", .kind = "callback", .data = "{}"}};
    b.completed(callback);
    CHECK(b.number() == 3);
    b.complete("mainspring.callbacks");
    CHECK(b.number() == 3);
  }

  TEST_CASE("every kind of end fires: cancelled, dead, expired, rescued for the last time") {
    EndBench b;
    Trigger trigger = on_ends();
    trigger.job.args = R"({"$ref":"job.outcome"})";
    b.put(trigger);
    const auto last = [&] { return b.get(b.info().last_job).args; };
    b.cancel(b.enqueue());
    CHECK(last() == "\"cancelled\"");
    b.enqueue();
    b.finish(b.claim_one(), CancelJob{"no"});
    CHECK(b.info().fired == 2);
    b.dead(b.job());
    CHECK(last() == "\"dead\"");
    NewJob once = b.job();
    once.max_attempts = 1;
    b.enqueue(once);
    b.finish(b.claim_one(), Retry{"broken", {}});
    CHECK(b.info().fired == 4);
    b.enqueue(once);
    b.claim_one();
    b.advance(minutes(1));
    CHECK(b.rescue() == 1);
    CHECK(b.info().fired == 5);
    CHECK(last() == "\"dead\"");
    NewJob brief = b.job();
    brief.expires_in = seconds(1);
    b.enqueue(brief);
    b.advance(seconds(2));
    CHECK(b.expire() == 1);
    CHECK(b.info().fired == 6);
    CHECK(last() == "\"cancelled\"");
  }

  TEST_CASE("a retried attempt is not an end") {
    EndBench b;
    b.put(on_ends());
    b.enqueue();
    b.finish(b.claim_one(), Snooze{});
    b.finish(b.claim_one(), Retry{"broken", seconds(0)});
    b.claim_one();
    b.advance(minutes(1));
    b.rescue();
    CHECK(b.number() == 0);
  }

  TEST_CASE("a job fires once for an outcome, even if its end is repeated, also after a restart") {
    EndBench b;
    b.put(on_ends());
    const JobId id = b.dead(b.job());
    CHECK(b.number() == 1);
    for (int i = 0; i < 2; ++i) {
      b.retry(id);
      CHECK(b.finish(b.claim_one(), Dead{"poison", "again"}) == FinishStatus::ok);
      CHECK(b.number() == 1);
      b.reopen();
    }
    b.retry(id);
    const ClaimedJob claimed = b.claim_one();
    CHECK(b.finish(claimed, Complete{}) == FinishStatus::ok);
    CHECK(b.finish(claimed, Complete{}) == FinishStatus::ok);  // repeated
    CHECK(b.number() == 2);
    CHECK(b.rows().size() == 2);
    CHECK(b.rows()[0].event == fmt::format("{}/completed", id));
  }

  TEST_CASE("many ends of one batch fire in their order, for each trigger") {
    EndBench b;
    b.put(on_ends());
    Trigger second = on_ends(FollowUp::kDead);
    second.name = "u";
    second.job.queue = "dead-then";
    b.put(second);
    for (int i = 0; i < 3; ++i) b.enqueue();
    const auto jobs = b.claim(3);
    REQUIRE(jobs.size() == 3);
    b.apply({Finish{.worker = "w",
                    .results = {{jobs[0].id, jobs[0].token, Complete{}, {}},
                                {jobs[1].id, jobs[1].token, Dead{"poison", ""}, {}}}},
             Finish{.worker = "w", .results = {{jobs[2].id, jobs[2].token, Complete{}, {}}}}});
    const auto rows = b.rows();
    REQUIRE(rows.size() == 3);
    CHECK(rows[2].event == fmt::format("{}/completed", jobs[0].id));
    CHECK(rows[1].event == fmt::format("{}/dead", jobs[1].id));
    CHECK(rows[0].event == fmt::format("{}/completed", jobs[2].id));
    CHECK(b.rows("u").size() == 1);
    CHECK(b.number("dead-then") == 1);
  }

  TEST_CASE("a paused trigger does not fire, and does not catch up later") {
    EndBench b;
    b.put(on_ends());
    b.one<Done>(PauseTrigger{.name = "t", .paused = true});
    b.completed(b.job());
    CHECK(b.number() == 0);
    CHECK(b.rows().empty());
    b.one<Done>(PauseTrigger{.name = "t", .paused = false});
    CHECK(b.number() == 0);
    b.completed(b.job());
    CHECK(b.number() == 1);
  }

  TEST_CASE("a trigger is active from its definition to its removal, also within a batch") {
    EndBench b;
    b.completed(b.job());
    b.enqueue();
    const ClaimedJob claimed = b.claim_one();
    b.apply({PutTrigger{.trigger = on_ends(), .secret = ""},
             Finish{.worker = "w", .results = {{claimed.id, claimed.token, Complete{}, {}}}}});
    CHECK(b.number() == 1);
    Trigger other = on_ends();
    other.ended->queue = "elsewhere";
    b.put(other);
    b.completed(b.job());
    CHECK(b.number() == 1);
    b.put(on_ends());
    b.reopen();
    b.completed(b.job());
    CHECK(b.number() == 2);
    b.one<Done>(RemoveTrigger{.name = "t"});
    b.completed(b.job());
    CHECK(b.number() == 2);
  }

  TEST_CASE("a batch that changes a trigger applies the change to jobs that it ends afterwards") {
    EndBench b;
    b.put(on_ends());
    Trigger elsewhere = on_ends();
    elsewhere.ended->queue = "elsewhere";
    const auto done = [&b] {
      b.enqueue();
      const ClaimedJob claimed = b.claim_one();
      return Finish{.worker = "w", .results = {{claimed.id, claimed.token, Complete{}, {}}}};
    };
    b.apply({PutTrigger{.trigger = elsewhere, .secret = ""}, done()});
    CHECK(b.number() == 0);
    b.apply({PutTrigger{.trigger = on_ends(), .secret = ""}, done()});
    CHECK(b.number() == 1);
    b.apply({RemoveTrigger{.name = "t"}, done()});
    CHECK(b.number() == 1);
    b.apply({PutTrigger{.trigger = on_ends(), .secret = ""}, done()});
    CHECK(b.number() == 2);
  }

  TEST_CASE("args that refer to a missing value make a row with the reason, and no job") {
    EndBench b;
    Trigger trigger = on_ends();
    trigger.job.args = R"({"order":{"$ref":"job.result.order"}})";
    b.put(trigger);
    const JobId id = b.completed(b.job());
    CHECK(b.state(id) == JobState::completed);
    CHECK(b.number() == 0);
    REQUIRE(b.rows().size() == 1);
    CHECK(b.rows()[0].job == 0);
    CHECK(b.rows()[0].reason.find("job.result.order") != std::string::npos);
    CHECK(b.info().fired == 0);
    CHECK(b.info().refused == 1);
    CHECK_FALSE(b.info().last_fired.has_value());
    b.reopen();
    CHECK(b.rows()[0].reason.find("job.result.order") != std::string::npos);
    CHECK(b.info().refused == 1);
  }

  TEST_CASE("no bound of live jobs refuses the job of a trigger") {
    StoreOptions options;
    options.max_live_jobs = 1;
    EndBench b(options);
    b.put(on_ends());
    Trigger second = on_ends();
    second.name = "u";
    b.put(second);
    b.completed(b.job());
    CHECK(b.number() == 2);
  }

  TEST_CASE("an endless chain of triggers is stopped, and its last row has the reason") {
    EndBench b;
    Trigger back = on_ends();
    b.put(back);
    back.name = "u";
    back.ended->queue = "then";
    back.job.queue = "q";
    b.put(back);
    b.enqueue();
    int ended = 0;
    constexpr int kMost = 3 * kMaxTriggerDepth;
    for (; ended < kMost; ++ended) {
      const auto jobs = b.claim(1, {"q", "then"});
      if (jobs.empty()) break;
      CHECK(b.get(jobs[0].id).trigger_depth == ended);
      CHECK(b.finish(jobs[0], Complete{}) == FinishStatus::ok);
      if (ended == 5) b.reopen();
    }
    CHECK(ended == kMaxTriggerDepth + 1);
    CHECK(b.info("t").refused + b.info("u").refused == 1);
    const TriggerEvent row = b.rows()[0];
    CHECK(row.job == 0);
    CHECK(row.reason.find("16") != std::string::npos);
  }

  TEST_CASE("follow-ups and posted jobs have the same chain depth as their job") {
    EndBench b;
    Trigger trigger = on_ends();
    trigger.job.follow_ups = {{.queue = "followed", .kind = "k", .data = ""}};
    b.put(trigger);
    b.completed(b.job());
    const auto claimed = b.claim(1, {"then"});
    REQUIRE(claimed.size() == 1);
    CHECK(b.get(claimed[0].id).trigger_depth == 1);
    NewJob next = b.job("posted");
    CHECK(b.finish(claimed[0], Complete{"", {next}}) == FinishStatus::ok);
    CHECK(b.only("followed").trigger_depth == 1);
    CHECK(b.only("posted").trigger_depth == 1);
    const JobId id = b.dead(b.job());
    const Job deep = b.get(b.info().last_job);
    CHECK(deep.trigger_depth == 1);
    CHECK(b.get(id).trigger_depth == 0);
  }

  TEST_CASE("an existing job with the unique key counts as the job of the end") {
    EndBench b;
    Trigger trigger = on_ends();
    trigger.job.unique = Unique{.key = "one"};
    b.put(trigger);
    b.completed(b.job());
    b.completed(b.job());
    CHECK(b.number() == 1);
    REQUIRE(b.rows().size() == 2);
    CHECK(b.rows()[0].job == b.rows()[1].job);
  }

  TEST_CASE("the job of a trigger may belong to a session") {
    EndBench b;
    Trigger trigger = on_ends();
    trigger.job.session = "s";
    b.put(trigger);
    b.completed(b.job());
    b.completed(b.job());
    CHECK(b.number() == 2);
    b.complete("then");
    b.complete("then");
  }
}

}  // namespace
}  // namespace mainspring::conformance
