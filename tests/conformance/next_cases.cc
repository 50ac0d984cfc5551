// What jobs posted by a completion promise: they exist once, in its transaction, if it is accepted.
#include <fmt/format.h>

#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

NewJob next_to(const std::string& queue, std::string args = "{}") {
  NewJob job;
  job.queue = queue;
  job.kind = "next";
  job.args = std::move(args);
  return job;
}

std::size_t next_number(const Bench& b, const std::string& queue = "after") {
  return b.listed({.queue = queue}).size();
}

TEST_SUITE("store: jobs that a completion posts") {
  TEST_CASE("a completion makes its posted jobs in the same commit, in order, as requested") {
    Bench b;
    const JobId id = b.enqueue();
    NewJob first = next_to("after", R"({"page":1})");
    first.priority = 2;
    first.tags = {"red"};
    first.headers = R"({"h":"1"})";
    first.correlation_id = "book-7";
    first.max_attempts = 3;
    first.reply_to = "answers";
    CHECK(b.finish(b.claim_one(), Complete{"7", {first, next_to("after", R"({"page":2})")}}) ==
          FinishStatus::ok);
    CHECK(b.became_available("after"));
    CHECK(b.get(id).result == "7");
    const auto made = b.claim(10, {"after"});
    REQUIRE(made.size() == 2);
    CHECK(made[0].args == R"({"page":1})");
    CHECK(made[1].args == R"({"page":2})");
    const Job job = b.get(made[0].id);
    CHECK(job.kind == "next");
    CHECK(job.priority == 2);
    CHECK(job.tags == first.tags);
    CHECK(job.headers == first.headers);
    CHECK(job.correlation_id == "book-7");
    CHECK(job.max_attempts == 3);
    CHECK(job.reply_to == "answers");
    CHECK(job.created_at == b.wall());
  }

  TEST_CASE("a completion that is stale, repeated or not found posts nothing") {
    Bench b;
    b.enqueue();
    const ClaimedJob first = b.claim_one();
    b.finish(first, Snooze{});
    const ClaimedJob c = b.claim_one();
    const Complete done{"", {next_to("after")}};
    CHECK(b.finish(first, done) == FinishStatus::stale);
    CHECK(b.finish(c.id + 100, c.token, done) == FinishStatus::not_found);
    CHECK(next_number(b) == 0);
    CHECK(b.finish(c, done) == FinishStatus::ok);
    CHECK(next_number(b) == 1);
    CHECK(b.finish(c, done) == FinishStatus::ok);  // the answer was lost
    CHECK(next_number(b) == 1);
    b.reopen();
    CHECK(b.finish(c, done) == FinishStatus::ok);
    CHECK(next_number(b) == 1);
  }

  TEST_CASE("a claim after the completion in the same batch gets the posted job") {
    Bench b;
    b.enqueue();
    const ClaimedJob c = b.claim_one();
    const Operation done = Finish{
        .worker = "w1", .results = {{c.id, c.token, Complete{"", {next_to("after", "[1]")}}}}};
    const Operation claim = Claim{.worker = "w2", .queues = {"after"}, .kinds = {}, .max = 5};
    const auto results = b.apply({done, claim});
    const auto jobs = std::get<ClaimResult>(results[1]).jobs;
    REQUIRE(jobs.size() == 1);
    CHECK(jobs[0].args == "[1]");
  }

  TEST_CASE("each of many completions in one request posts its own jobs") {
    Bench b;
    for (int i = 0; i < 4; ++i) b.enqueue();
    Finish f{.worker = "w1", .results = {}};
    for (const ClaimedJob& c : b.claim(4)) {
      Complete done;
      for (JobId n = 0; n < c.id % 3; ++n)
        done.next.push_back(next_to("after", fmt::to_string(c.id)));
      f.results.push_back({c.id, c.token, done});
    }
    std::string wanted, got;
    for (const JobOutcome& result : f.results) {
      for (JobId n = 0; n < result.id % 3; ++n) wanted += fmt::format("{} ", result.id);
    }
    b.one<FinishResult>(f);
    for (const ClaimedJob& c : b.claim(10, {"after"})) got += c.args + " ";
    CHECK(got == wanted);
  }

  TEST_CASE("posted jobs survive a reopen, and those for later wait until they are due") {
    Bench b;
    b.enqueue();
    NewJob later = next_to("after", "[2]");
    later.delay = seconds(30);
    b.finish(b.claim_one(), Complete{"", {next_to("after", "[1]"), later}});
    b.reopen();
    CHECK(b.claim(5, {"after"}).size() == 1);
    b.advance(seconds(31));
    CHECK(b.move_due() == 1);
    const auto due = b.claim(5, {"after"});
    REQUIRE(due.size() == 1);
    CHECK(due[0].args == "[2]");
  }

  TEST_CASE("no bound of new jobs keeps a completion from posting") {
    StoreOptions options;
    options.max_live_jobs = 1;
    Bench b(options);
    b.enqueue();
    CHECK(b.finish(b.claim_one(), Complete{"", {next_to("after"), next_to("after")}}) ==
          FinishStatus::ok);
    CHECK(next_number(b) == 2);
    CHECK(b.refused(Enqueue{.jobs = {b.job()}}) == ErrorCode::overloaded);
  }

  TEST_CASE("a completion makes its follow-ups as well as its posted jobs") {
    Bench b;
    NewJob n = b.job();
    n.follow_ups = {{.queue = "then", .kind = "told", .data = ""}};
    b.enqueue(n);
    b.finish(b.claim_one(), Complete{"", {next_to("after")}});
    CHECK(next_number(b, "then") == 1);
    CHECK(next_number(b, "after") == 1);
  }

  TEST_CASE("later outcomes of the same job post nothing") {
    Bench b;
    b.enqueue();
    const ClaimedJob c = b.claim_one();
    CHECK(b.finish(c, Dead{"poison", ""}) == FinishStatus::ok);
    CHECK(b.finish(c, Complete{"", {next_to("after")}}) == FinishStatus::stale);
    CHECK(next_number(b) == 0);
  }
}

}  // namespace
}  // namespace mainspring::conformance
