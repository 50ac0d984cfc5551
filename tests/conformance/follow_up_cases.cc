// What follow-ups promise: each end of a job makes its requested follow-ups once, in the same
// batch.
#include <fmt/format.h>

#include "api/follow_ups.h"
#include "conformance/schedule_bench.h"

namespace mainspring::conformance {
namespace {

FollowUp to(std::string queue, std::uint8_t on = FollowUp::kEveryEnd) {
  return {.queue = std::move(queue), .kind = "next", .on = on, .data = ""};
}

NewJob followed(const Bench& b, std::vector<FollowUp> all = {to("then")}) {
  NewJob n = b.job();
  n.follow_ups = std::move(all);
  return n;
}

// The only job of the queue.
Job only(const Bench& b, const std::string& queue) {
  const std::vector<JobId> all = b.listed({.queue = queue});
  REQUIRE(all.size() == 1);
  return b.get(all[0]);
}

std::size_t number(const Bench& b, const std::string& queue = "then") {
  return b.listed({.queue = queue}).size();
}

// A follow-up for each end, in a queue named for it.
std::vector<FollowUp> one_for_each_end() {
  return {to("on-completed", FollowUp::kCompleted), to("on-cancelled", FollowUp::kCancelled),
          to("on-dead", FollowUp::kDead), to("then")};
}
std::string followed_in(const Bench& b) {
  std::string all;
  for (const char* queue : {"on-completed", "on-cancelled", "on-dead", "then"}) {
    for (std::size_t n = number(b, queue); n > 0; --n) all += fmt::format("{} ", queue);
  }
  return all;
}

TEST_SUITE("store: follow-ups") {
  TEST_CASE("a completed job makes a follow-up with all its details") {
    Bench b;
    NewJob n =
        followed(b, {{.queue = "then", .kind = "mail", .priority = 2, .data = R"({"a": 1})"}});
    n.headers = R"({"h":"1"})";
    n.tags = {"red", "blue"};
    n.correlation_id = "order-7";
    const JobId id = b.enqueue(n);
    CHECK(b.get(id).follow_ups == n.follow_ups);
    CHECK(number(b) == 0);
    b.finish(b.claim_one(), Complete{R"({"sum":[3]})"});
    CHECK(b.became_available("then"));
    CHECK(b.store->has_available("then"));
    const Job next = only(b, "then");
    CHECK(next.kind == "mail");
    CHECK(next.state == JobState::available);
    CHECK(next.priority == 2);
    CHECK(next.run_at == b.wall());
    CHECK(next.headers == n.headers);
    CHECK(next.correlation_id == "order-7");
    CHECK(next.tags.empty());
    CHECK(next.follow_ups.empty());
    CHECK(next.reply_to.empty());
    CHECK(next.args ==
          fmt::format(R"({{"job":{},"queue":"q","kind":"work","state":"completed","attempt":1,)"
                      R"("result":{{"sum":[3]}},"tags":["red","blue"],"data":{{"a": 1}}}})",
                      id));
    const auto claimed = b.claim(1, {"then"});
    REQUIRE(claimed.size() == 1);
    CHECK(claimed[0].args == next.args);
    CHECK(b.finish(claimed[0], Complete{}) == FinishStatus::ok);
    CHECK(b.get(id).follow_ups == n.follow_ups);
    CHECK(b.stats("then").enqueued == 1);  // a follow-up has no follow-ups
  }

  TEST_CASE("a reply is a follow-up on every end, after the other follow-ups") {
    Bench b;
    NewJob n = followed(b);
    n.reply_to = "answers";
    const JobId id = b.enqueue(n);
    b.finish(b.claim_one(), Complete{"5"});
    const Job reply = only(b, "answers");
    CHECK(reply.kind == "reply");
    CHECK(reply.correlation_id == std::to_string(id));
    CHECK(reply.args == fmt::format(R"({{"job":{},"queue":"q","kind":"work","state":"completed",)"
                                    R"("attempt":1,"result":5,"data":null}})",
                                    id));
    CHECK(reply.id == only(b, "then").id + 1);
    NewJob alone = b.job();
    alone.reply_to = "other";
    const JobId second = b.enqueue(alone);
    CHECK(b.get(second).follow_ups.empty());
    b.cancel(second, "no");
    CHECK(only(b, "other").args ==
          fmt::format(R"({{"job":{},"queue":"q","kind":"work","state":"cancelled","attempt":0,)"
                      R"("result":null,"reason":"no","description":"","data":null}})",
                      second));
  }

  TEST_CASE("replies and messages that nothing starts expire") {
    StoreOptions options;
    options.retention_replies = hours(24);
    Bench b(options);
    NewJob n = b.job();
    n.reply_to = "answers";
    n.follow_ups = {{.queue = "answers", .kind = "progress", .on = FollowUp::kProgress, .data = ""},
                    {.queue = "then", .kind = "next", .data = ""}};
    b.enqueue(n);
    const ClaimedJob c = b.claim_one();
    Renewal renewal{.id = c.id, .token = c.token, .progress = Progress{0.5, "half"}};
    renewal.messages = {"1"};
    b.one<RenewResult>(Renew{.worker = "w1", .leases = {renewal}});
    b.finish(c, Complete{"5"});
    CHECK(b.stats("answers").enqueued == 3);
    b.advance(hours(23));
    CHECK(b.expire() == 0);
    const ClaimedJob read = b.claim(1, {"answers"}).at(0);
    b.reopen();
    b.advance(hours(1));
    CHECK(b.expire() == 2);
    CHECK(b.finish(read, Complete{}) == FinishStatus::ok);
    CHECK(b.stats("answers").expired == 2);
    CHECK(b.count(JobState::available, "then") == 1);
  }

  TEST_CASE("a follow-up with its own expiry, of the queue and kind of the reply, replaces it") {
    Bench b;
    NewJob n = b.job();
    n.reply_to = "answers";
    n.follow_ups = {{.queue = "answers", .kind = "reply", .data = "", .expires_in = minutes(1)}};
    const JobId id = b.enqueue(n);
    b.reopen();
    CHECK(b.get(id).follow_ups == n.follow_ups);
    b.finish(b.claim_one(), Complete{});
    const Job reply = only(b, "answers");
    CHECK(reply.expires_at == b.wall() + minutes(1));
    b.advance(minutes(1));
    CHECK(b.expire() == 1);
    CHECK(b.state(reply.id) == JobState::cancelled);
  }

  TEST_CASE("follow-ups are made for the requested ends, however a job reaches them") {
    const auto after = [](auto&& end) {
      Bench b;
      NewJob n = followed(b, one_for_each_end());
      n.max_attempts = 1;
      n.expires_in = minutes(5);
      const JobId id = b.enqueue(n);
      end(b, id);
      return followed_in(b);
    };
    CHECK(after([](Bench& b, JobId) { b.finish(b.claim_one(), Complete{}); }) ==
          "on-completed then ");
    CHECK(after([](Bench& b, JobId id) { b.cancel(id); }) == "on-cancelled then ");
    CHECK(after([](Bench& b, JobId) { b.finish(b.claim_one(), CancelJob{"own wish"}); }) ==
          "on-cancelled then ");
    CHECK(after([](Bench& b, JobId id) {
            const ClaimedJob c = b.claim_one();
            b.cancel(id);
            CHECK(followed_in(b).empty());
            b.finish(c, Retry{"stopped", {}});
          }) == "on-cancelled then ");
    CHECK(after([](Bench& b, JobId id) {
            const ClaimedJob c = b.claim_one();
            b.cancel(id);
            b.finish(c, Snooze{});
          }) == "on-cancelled then ");
    CHECK(after([](Bench& b, JobId) {
            b.finish(b.claim_one(), Dead{"poison", "text"});
          }) == "on-dead then ");
    CHECK(after([](Bench& b, JobId) {
            b.finish(b.claim_one(), Retry{"boom", {}});
          }) == "on-dead then ");
    CHECK(after([](Bench& b, JobId) {
            b.claim_one();
            b.advance(kDefaultLease);
            CHECK(b.rescue() == 1);
          }) == "on-dead then ");
    CHECK(after([](Bench& b, JobId id) {
            b.claim_one();
            b.cancel(id);
            b.advance(kDefaultLease);
            CHECK(b.rescue() == 1);
          }) == "on-cancelled then ");
    CHECK(after([](Bench& b, JobId) {
            b.advance(minutes(5));
            CHECK(b.expire() == 1);
          }) == "on-cancelled then ");
  }

  TEST_CASE("outcomes that do not end the job make no follow-ups") {
    Bench b;
    const JobId id = b.enqueue(followed(b));
    b.finish(b.claim_one(), Snooze{});
    b.finish(b.claim_one(), Retry{"again", seconds(0)});
    b.claim_one();
    b.advance(kDefaultLease);
    CHECK(b.rescue() == 1);
    CHECK(b.state(id) == JobState::retryable);
    b.retry(id);
    CHECK(number(b) == 0);
  }

  TEST_CASE("the follow-up of a dead job has its reason, description and attempt") {
    Bench b;
    const JobId id = b.enqueue(followed(b));
    b.finish(b.claim_one(), Retry{"first", seconds(0)});
    b.finish(b.claim_one(), Dead{"poison", "it \"cannot\" be read"});
    CHECK(only(b, "then").args ==
          fmt::format(R"({{"job":{},"queue":"q","kind":"work","state":"dead","attempt":2,)"
                      R"("result":null,"reason":"poison","description":"it \"cannot\" be read",)"
                      R"("data":null}})",
                      id));
  }

  TEST_CASE("a stale, repeated or unknown finish makes no follow-ups") {
    Bench b;
    b.enqueue(followed(b));
    const ClaimedJob first = b.claim_one();
    b.finish(first, Snooze{});
    const ClaimedJob c = b.claim_one();
    CHECK(b.finish(first, Complete{}) == FinishStatus::stale);
    CHECK(b.finish(c.id + 100, c.token, Complete{}) == FinishStatus::not_found);
    CHECK(number(b) == 0);
    CHECK(b.finish(c, Complete{}) == FinishStatus::ok);
    CHECK(b.finish(c, Complete{}) == FinishStatus::ok);
    CHECK(b.finish(c, Dead{"late", ""}) == FinishStatus::stale);
    CHECK(b.refused(Cancel{.id = c.id, .reason = "late"}) == ErrorCode::conflict);
    CHECK(number(b) == 1);
    const JobId cancelled = b.enqueue(followed(b));
    b.cancel(cancelled);
    b.cancel(cancelled);
    CHECK(number(b) == 2);
  }

  TEST_CASE("a claim after the end in the same batch gets the follow-up") {
    Bench b;
    b.enqueue(followed(b));
    const JobId cancelled = b.enqueue(followed(b));
    const ClaimedJob c = b.claim_one();
    const Operation done = Finish{.worker = "w1", .results = {{c.id, c.token, Complete{"1"}}}};
    const Operation claim = Claim{.worker = "w2", .queues = {"then"}, .kinds = {}, .max = 1};
    const auto results =
        b.apply({done, claim, Cancel{.id = cancelled, .reason = "no"}, claim, claim});
    const auto first = std::get<ClaimResult>(results[1]).jobs;
    const auto second = std::get<ClaimResult>(results[3]).jobs;
    REQUIRE(first.size() == 1);
    REQUIRE(second.size() == 1);
    CHECK(first[0].correlation_id == std::to_string(c.id));
    CHECK(second[0].correlation_id == std::to_string(cancelled));
    CHECK(std::get<ClaimResult>(results[4]).jobs.empty());
    CHECK_FALSE(b.store->has_available("then"));
  }

  TEST_CASE("many ends in one batch make their follow-ups in order, once each") {
    Bench b;
    std::vector<JobId> all;
    for (int i = 0; i < 6; ++i) all.push_back(b.enqueue(i % 2 == 0 ? followed(b) : b.job()));
    const auto claimed = b.claim(10);
    Finish f{.worker = "w1", .results = {}};
    for (const ClaimedJob& c : claimed) f.results.push_back({c.id, c.token, Complete{}});
    b.one<FinishResult>(f);
    std::vector<std::string> of;
    for (const ClaimedJob& c : b.claim(10, {"then"})) of.push_back(c.correlation_id);
    CHECK(of == std::vector<std::string>{std::to_string(all[0]), std::to_string(all[2]),
                                         std::to_string(all[4])});
  }

  TEST_CASE("a retried job makes its follow-ups again when it ends again") {
    Bench b;
    const JobId id = b.enqueue(followed(b));
    b.finish(b.claim_one(), Dead{"poison", ""});
    CHECK(number(b) == 1);
    b.retry(id);
    CHECK(number(b) == 1);
    CHECK(b.get(id).follow_ups.size() == 1);
    b.finish(b.claim_one(), Dead{"poison", "again"});
    CHECK(number(b) == 2);
    CHECK(b.one<RedriveResult>(Redrive{}).redriven == 1);
    b.finish(b.claim_one(), Complete{"7"});
    CHECK(number(b) == 3);
    const auto all = b.claim(10, {"then"});
    REQUIRE(all.size() == 3);
    CHECK(all[2].args == fmt::format(R"({{"job":{},"queue":"q","kind":"work","state":"completed",)"
                                     R"("attempt":3,"result":7,"data":null}})",
                                     id));
  }

  TEST_CASE("a reopen keeps the follow-ups of a job, also of a running one") {
    Bench b;
    const JobId waiting = b.enqueue(followed(b, one_for_each_end()));
    const ClaimedJob c = b.claim_one();
    b.enqueue(followed(b, {to("on-completed", FollowUp::kCompleted)}));
    b.reopen();
    CHECK(b.get(waiting).follow_ups == one_for_each_end());
    CHECK(b.finish(c, Complete{}) == FinishStatus::ok);
    b.finish(b.claim_one(), Complete{});
    CHECK(followed_in(b) == "on-completed on-completed then ");
    b.reopen();
    CHECK(followed_in(b) == "on-completed on-completed then ");
    CHECK(b.claim(9, {"on-completed"}).size() == 2);
  }

  TEST_CASE("a replaced job has the follow-ups of its replacement") {
    Bench b;
    NewJob n = followed(b, {to("old")});
    n.unique = Unique{.key = "k", .on_conflict = OnConflict::replace};
    const JobId id = b.enqueue(n);
    n.follow_ups = {to("new")};
    CHECK(b.enqueue(n) == id);
    b.finish(b.claim_one(), Complete{});
    CHECK(number(b, "old") == 0);
    CHECK(number(b, "new") == 1);
    n.follow_ups = {to("old")};
    b.enqueue(n);
    n.follow_ups.clear();
    b.enqueue(n);
    b.finish(b.claim_one(), Complete{});
    CHECK(number(b, "old") == 0);
    NewJob plain = b.job();
    plain.unique = Unique{.key = "p", .on_conflict = OnConflict::replace};
    b.enqueue(plain);
    plain.follow_ups = {to("late")};
    b.enqueue(plain);
    b.cancel(b.listed({.queue = "q", .state = JobState::available}).at(0));
    CHECK(number(b, "late") == 1);
  }

  TEST_CASE("no bound refuses a follow-up, because an end is never refused") {
    StoreOptions options;
    options.max_live_jobs = 1;
    Bench b(options);
    b.enqueue(followed(b, {to("then"), to("then"), to("then")}));
    CHECK(b.refused(Enqueue{.jobs = {b.job()}}) == ErrorCode::overloaded);
    CHECK(b.finish(b.claim_one(), Complete{}) == FinishStatus::ok);
    CHECK(number(b) == 3);
    CHECK(b.refused(Enqueue{.jobs = {b.job()}}) == ErrorCode::overloaded);
    for (const ClaimedJob& c : b.claim(3, {"then"})) b.finish(c, Complete{});
    b.enqueue();
  }

  TEST_CASE("each job of a schedule makes its follow-ups, also a replaced one") {
    ScheduleBench b;
    Schedule s = b.definition("s", Overlap::cancel_other);
    s.job.follow_ups = one_for_each_end();
    b.put(s);
    CHECK(b.info("s").schedule.job.follow_ups == s.job.follow_ups);
    const JobId first = b.trigger("s");
    CHECK(b.get(first).follow_ups == s.job.follow_ups);
    const JobId second = b.trigger("s");
    CHECK(b.state(first) == JobState::cancelled);
    CHECK(followed_in(b) == "on-cancelled then ");
    b.reopen();
    b.end(second);
    CHECK(followed_in(b) == "on-completed on-cancelled then then ");
  }
}

}  // namespace
}  // namespace mainspring::conformance
