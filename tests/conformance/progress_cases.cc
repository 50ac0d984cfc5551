// What follow-ups on progress promise: each renewal with a changed progress makes one job for each
// entry on progress, in the same batch, before its messages.
#include <fmt/format.h>

#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

FollowUp on_progress(std::string queue, std::string data = "") {
  return {.queue = std::move(queue),
          .kind = "told",
          .on = FollowUp::kProgress,
          .data = std::move(data)};
}

NewJob progress_with(const Bench& b, std::vector<FollowUp> all) {
  NewJob n = b.job();
  n.follow_ups = std::move(all);
  return n;
}

Renewal progress_report(const ClaimedJob& job, Progress progress,
                        std::vector<std::string> messages = {}) {
  Renewal renewal{.id = job.id, .token = job.token, .progress = std::move(progress)};
  renewal.messages = std::move(messages);
  return renewal;
}

Renew one_renewal(Renewal renewal) {
  return Renew{.worker = "w1", .leases = {std::move(renewal)}};
}

// The progress and messages in a queue, in the order in which they are claimed.
std::string progress_reported(Bench& b, const std::string& queue) {
  const auto member = [](const std::string& args, const std::string& name) {
    const std::size_t at = args.find(name);
    return at == std::string::npos ? "" : args.substr(at, args.find_first_of(",}", at) - at) + " ";
  };
  std::string all;
  for (const ClaimedJob& c : b.claim(100, {queue})) {
    const std::string message = member(c.args, "\"message\":");
    all += message.empty() ? member(c.args, "\"value\":") : message;
    b.finish(c, Complete{});
  }
  return all;
}

std::size_t progress_number(const Bench& b, const std::string& queue) {
  return b.listed({.queue = queue}).size();
}

TEST_SUITE("store: progress that is followed") {
  TEST_CASE("a changed progress is a job for each follow-up on progress, with all details") {
    Bench b;
    NewJob n = progress_with(b, {{.queue = "then",
                                  .kind = "show",
                                  .on = FollowUp::kProgress,
                                  .priority = 2,
                                  .data = R"({"a": 1})"}});
    n.headers = R"({"h":"1"})";
    n.tags = {"red"};
    n.correlation_id = "order-7";
    const JobId id = b.enqueue(n);
    CHECK(b.get(id).follow_ups == n.follow_ups);
    const ClaimedJob c = b.claim_one();
    CHECK(b.renew(c, Progress{0.5, "half"}).renewed.size() == 1);
    CHECK(b.became_available("then"));
    CHECK(b.get(id).progress == Progress{0.5, "half"});
    const std::vector<JobId> made = b.listed({.queue = "then"});
    REQUIRE(made.size() == 1);
    const Job next = b.get(made[0]);
    CHECK(next.kind == "show");
    CHECK(next.state == JobState::available);
    CHECK(next.priority == 2);
    CHECK(next.run_at == b.wall());
    CHECK(next.headers == n.headers);
    CHECK(next.correlation_id == "order-7");
    CHECK(next.tags.empty());
    CHECK(next.args ==
          fmt::format(R"({{"job":{},"queue":"q","kind":"work","state":"running","attempt":1,)"
                      R"("result":null,"tags":["red"],"progress":{{"value":0.5,"text":"half"}},)"
                      R"("token":{},"data":{{"a": 1}}}})",
                      id, c.token));
    b.finish(c, Complete{});
    CHECK(progress_number(b, "then") == 1);  // it was not on ends
  }

  TEST_CASE("repeated progress makes no job, a changed value or text makes one") {
    Bench b;
    b.enqueue(progress_with(b, {on_progress("then")}));
    const ClaimedJob c = b.claim_one();
    b.renew(c, Progress{0, ""});  // there was none before
    CHECK(progress_number(b, "then") == 1);
    b.renew(c, Progress{0, ""});
    CHECK_FALSE(b.became_available("then"));
    b.renew(c);
    CHECK(progress_number(b, "then") == 1);
    b.renew(c, Progress{0, "started"});
    CHECK(progress_number(b, "then") == 2);
    b.renew(c, Progress{0.25, "started"});
    b.renew(c, Progress{0.25, "started"});
    CHECK(progress_number(b, "then") == 3);
    b.renew(c, Progress{0, "started"});  // also a value that was reported before
    CHECK(progress_number(b, "then") == 4);
  }

  TEST_CASE("several renewals of a job in one request are compared one after the other") {
    Bench b;
    const JobId id = b.enqueue(progress_with(b, {on_progress("then")}));
    const ClaimedJob c = b.claim_one();
    b.renew(c, Progress{0.5, ""});
    Renew renew{.worker = "w1", .leases = {}};
    for (const double value : {0.5, 0.75, 0.75, 0.5, 0.5})
      renew.leases.push_back(progress_report(c, {value, ""}));
    b.one<RenewResult>(renew);
    b.apply({one_renewal(progress_report(c, {1, ""})), one_renewal(progress_report(c, {1, ""}))});
    CHECK(progress_reported(b, "then") ==
          "\"value\":0.5 \"value\":0.75 \"value\":0.5 \"value\":1 ");
    CHECK(b.get(id).progress == Progress{1, ""});
  }

  TEST_CASE("progress makes jobs only for follow-ups on progress, and none for reply_to") {
    Bench b;
    FollowUp both = on_progress("both");
    both.on |= FollowUp::kMessage;
    NewJob n =
        progress_with(b, {{.queue = "rest", .kind = "told", .on = FollowUp::kEndsAndMessages},
                          on_progress("progress"),
                          both});
    n.reply_to = "answers";
    b.enqueue(n);
    const ClaimedJob c = b.claim_one();
    b.renew(c, Progress{0.5, ""});
    CHECK(progress_number(b, "rest") == 0);
    CHECK(progress_number(b, "answers") == 0);
    CHECK(progress_number(b, "progress") == 1);
    CHECK(progress_number(b, "both") == 1);
    b.one<RenewResult>(one_renewal(progress_report(c, {0.5, ""}, {"1"})));
    CHECK(progress_number(b, "rest") == 1);
    CHECK(progress_number(b, "answers") == 1);
    CHECK(progress_number(b, "progress") == 1);
    CHECK(progress_number(b, "both") == 2);
    b.finish(c, Complete{});
    CHECK(progress_number(b, "progress") == 1);
    CHECK(progress_number(b, "both") == 2);
  }

  TEST_CASE("jobs for the progress of a renewal come before those for its messages") {
    Bench b;
    FollowUp on_messages = on_progress("then");
    on_messages.on = FollowUp::kMessage;
    b.enqueue(progress_with(b, {on_messages, on_progress("then"), on_progress("then")}));
    const ClaimedJob c = b.claim_one();
    b.one<RenewResult>(one_renewal(progress_report(c, {0.25, ""}, {"1", "2"})));
    b.one<RenewResult>(one_renewal(progress_report(c, {0.75, ""}, {"3"})));
    CHECK(progress_reported(b, "then") ==
          "\"value\":0.25 \"value\":0.25 \"message\":1 \"message\":2 \"value\":0.75 "
          "\"value\":0.75 \"message\":3 ");
  }

  TEST_CASE("progress without listeners makes no jobs") {
    Bench b;
    const JobId plain = b.enqueue();
    const JobId followed = b.enqueue(
        progress_with(b, {{.queue = "ends", .kind = "told", .on = FollowUp::kEndsAndMessages}}));
    for (const ClaimedJob& c : b.claim(2)) b.renew(c, Progress{0.5, ""});
    CHECK(b.listed({}).size() == 2);
    CHECK(b.get(plain).progress == Progress{0.5, ""});
    CHECK(b.get(followed).progress == Progress{0.5, ""});
  }

  TEST_CASE("the progress of a worker that has lost the job is ignored") {
    Bench b;
    const JobId id = b.enqueue(progress_with(b, {on_progress("then")}));
    const ClaimedJob first = b.claim_one();
    const auto lost = [&](ClaimedJob c) {
      return b.one<RenewResult>(one_renewal(progress_report(c, {0.5, ""}))).lost.size() == 1;
    };
    CHECK(lost({.id = first.id, .token = first.token + 1}));
    CHECK(lost({.id = first.id + 9, .token = first.token}));
    b.finish(first, Snooze{});
    const ClaimedJob second = b.claim_one();
    CHECK(lost(first));
    Renew outside = one_renewal(progress_report(second, {0.5, ""}));
    outside.within = {std::make_shared<const Scopes>(*Scopes::parse("work=other")), Verb::work};
    CHECK(b.one<RenewResult>(outside).lost.size() == 1);
    b.advance(kDefaultLease);
    CHECK(lost(second));
    CHECK(b.rescue() == 1);
    CHECK(lost(second));
    CHECK_FALSE(b.became_available("then"));
    CHECK(progress_number(b, "then") == 0);
    CHECK_FALSE(b.get(id).progress.has_value());
  }

  TEST_CASE("a later attempt is compared with the last progress of the one before") {
    Bench b;
    b.enqueue(progress_with(b, {on_progress("then")}));
    const ClaimedJob first = b.claim_one();
    b.renew(first, Progress{0.5, "half"});
    b.finish(first, Retry{"again", seconds(0)});
    const ClaimedJob second = b.claim_one();
    b.renew(second, Progress{0.5, "half"});
    CHECK(progress_number(b, "then") == 1);
    b.renew(second, Progress{0.75, "more"});
    const auto claimed = b.claim(2, {"then"});
    REQUIRE(claimed.size() == 2);
    CHECK(claimed[1].args.find(R"("attempt":2,)") != std::string::npos);
    CHECK(claimed[1].args.find(fmt::format(R"("token":{},)", second.token)) != std::string::npos);
  }

  TEST_CASE("the jobs made and the last progress survive a restart") {
    Bench b;
    b.enqueue(progress_with(b, {on_progress("then")}));
    const ClaimedJob c = b.claim_one();
    b.renew(c, Progress{1.0 / 3, "a \xc3\xa4 third"});
    b.reopen();
    CHECK(progress_number(b, "then") == 1);
    b.renew(c, Progress{1.0 / 3, "a \xc3\xa4 third"});
    CHECK(progress_number(b, "then") == 1);
    b.renew(c, Progress{2.0 / 3, "a \xc3\xa4 third"});
    b.reopen();
    CHECK(progress_number(b, "then") == 2);
  }

  TEST_CASE("no bound refuses a follow-up on progress, because its renewal is never refused") {
    StoreOptions options;
    options.max_live_jobs = 1;
    Bench b(options);
    b.enqueue(progress_with(b, {on_progress("then")}));
    const ClaimedJob c = b.claim_one();
    b.advance(seconds(20));
    CHECK(b.renew(c, Progress{0.5, ""}).renewed.size() == 1);
    CHECK(progress_number(b, "then") == 1);
    CHECK(b.refused(Enqueue{.jobs = {b.job()}}) == ErrorCode::overloaded);
    // Messages may be refused, and then the renewal has no effect.
    CHECK(b.refused(one_renewal(progress_report(c, {0.75, ""}, {"1"}))) == ErrorCode::overloaded);
    CHECK(progress_number(b, "then") == 1);
    CHECK(b.get(c.id).progress == Progress{0.5, ""});
    CHECK(b.renew(c, Progress{0.75, ""}).renewed.size() == 1);
    CHECK(progress_number(b, "then") == 2);
  }

  TEST_CASE("the progress of a job that a completion posted is followed too") {
    Bench b;
    b.enqueue();
    Complete done;
    done.next = {progress_with(b, {on_progress("then")})};
    b.finish(b.claim_one(), done);
    const ClaimedJob c = b.claim_one();
    b.renew(c, Progress{0.5, ""});
    CHECK(progress_number(b, "then") == 1);
    // A follow-up has no follow-ups.
    const auto next = b.claim(1, {"then"});
    REQUIRE(next.size() == 1);
    b.renew(next[0], Progress{0.5, ""});
    CHECK(progress_number(b, "then") == 1);
  }
}

}  // namespace
}  // namespace mainspring::conformance
