// What messages of running jobs promise: each message of a renewal becomes a job for every
// follow-up on messages, in order, in the same batch. A worker that lost the job cannot send any.
#include <fmt/format.h>

#include "api/follow_ups.h"
#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

FollowUp on_messages(std::string queue, std::string data = "") {
  return {
      .queue = std::move(queue), .kind = "told", .on = FollowUp::kMessage, .data = std::move(data)};
}

Renew say(const ClaimedJob& job, std::vector<std::string> messages, std::int64_t first_seq = 0) {
  Renewal renewal{.id = job.id, .token = job.token};
  renewal.messages = std::move(messages);
  renewal.first_seq = first_seq;
  return Renew{.worker = "w1", .leases = {renewal}};
}

NewJob with(const Bench& b, std::vector<FollowUp> all) {
  NewJob n = b.job();
  n.follow_ups = std::move(all);
  return n;
}

// The value of the member "message" of args, which ends at "data".
std::string message_of(const std::string& args) {
  const std::string name = "\"message\":";
  const std::size_t at = args.find(name) + name.size();
  return args.substr(at, args.find(",\"data\":", at) - at);
}

// The messages in a queue, in the order in which they are claimed.
std::string told(Bench& b, const std::string& queue) {
  std::string all;
  for (const ClaimedJob& c : b.claim(100, {queue})) {
    all += message_of(c.args) + " ";
    b.finish(c, Complete{});
  }
  return all;
}

std::size_t message_number(const Bench& b, const std::string& queue) {
  return b.listed({.queue = queue}).size();
}

TEST_SUITE("store: messages") {
  TEST_CASE("a message is a job for each follow-up on messages, with all details") {
    Bench b;
    NewJob n = with(b, {{.queue = "then",
                         .kind = "show",
                         .on = FollowUp::kMessage,
                         .priority = 2,
                         .data = R"({"a": 1})"}});
    n.headers = R"({"h":"1"})";
    n.tags = {"red"};
    n.correlation_id = "order-7";
    const JobId id = b.enqueue(n);
    CHECK(b.get(id).follow_ups == n.follow_ups);
    const ClaimedJob c = b.claim_one();
    b.renew(c, Progress{0.5, "half"});
    const RenewResult result = b.one<RenewResult>(say(c, {R"({"rows": 7})"}, 4));
    CHECK(result.renewed.size() == 1);
    CHECK(b.became_available("then"));
    CHECK(b.store->has_available("then"));
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
                      R"("token":{},"seq":4,"message":{{"rows": 7}},"data":{{"a": 1}}}})",
                      id, c.token));
    b.finish(c, Complete{});
    CHECK(message_number(b, "then") == 1);  // it was not on ends
  }

  TEST_CASE("messages are made in order, after the progress of their renewal, the reply last") {
    Bench b;
    NewJob n = with(b, {on_messages("first"), on_messages("second")});
    n.reply_to = "answers";
    const JobId id = b.enqueue(n);
    const ClaimedJob c = b.claim_one();
    Renew renew = say(c, {"1", "2", "[3]"}, 10);
    renew.leases[0].progress = Progress{0.25, ""};
    b.one<RenewResult>(renew);
    std::vector<JobId> in_order;
    for (const char* queue : {"first", "second", "answers"}) {
      const auto ids_of = b.listed({.queue = queue});
      REQUIRE(ids_of.size() == 3);
      CHECK(b.get(ids_of[2]).args.find(R"("progress":{"value":0.25,"text":""})") !=
            std::string::npos);
    }
    const auto answers = b.claim(3, {"answers"});
    REQUIRE(answers.size() == 3);
    CHECK(answers[0].kind == "message");
    CHECK(answers[0].correlation_id == std::to_string(id));
    CHECK(answers[0].args.find(R"("seq":10,"message":1,"data":null)") != std::string::npos);
    CHECK(answers[2].args.find(R"("seq":12,"message":[3],"data":null)") != std::string::npos);
    // For each message: its follow-ups in the job's order, then the reply; then the next message.
    CHECK(answers[0].id == b.listed({.queue = "second"}).at(2) + 1);
    CHECK(b.listed({.queue = "first"}).at(1) == answers[0].id + 1);
    CHECK(told(b, "first") == "1 2 [3] ");
    b.finish(c, Complete{"5"});
    const auto end = b.claim(5, {"answers"});
    REQUIRE(end.size() == 1);
    CHECK(end[0].kind == "reply");
  }

  TEST_CASE("a follow-up on ends gets no messages, a follow-up on both gets both") {
    Bench b;
    FollowUp both = on_messages("both");
    both.on |= FollowUp::kCompleted;
    b.enqueue(with(b, {{.queue = "ends", .kind = "told", .data = ""}, both}));
    const ClaimedJob c = b.claim_one();
    b.one<RenewResult>(say(c, {"1"}));
    CHECK(message_number(b, "ends") == 0);
    CHECK(message_number(b, "both") == 1);
    b.finish(c, Complete{});
    CHECK(message_number(b, "ends") == 1);
    CHECK(message_number(b, "both") == 2);
  }

  TEST_CASE("messages of a job without listeners are dropped, and its lease is renewed") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob c = b.claim_one();
    const std::int64_t version = b.get(id).version;
    CHECK(b.one<RenewResult>(say(c, {"1", "2"})).renewed.size() == 1);
    CHECK(b.listed({}).size() == 1);
    CHECK(b.get(id).version == version);
    b.enqueue(with(b, {{.queue = "ends", .kind = "told", .data = ""}}));
    CHECK(b.one<RenewResult>(say(b.claim_one(), {"1"})).renewed.size() == 1);
    CHECK(message_number(b, "ends") == 0);
  }

  TEST_CASE("a worker that has lost the job sends nothing") {
    Bench b;
    b.enqueue(with(b, {on_messages("then")}));
    const ClaimedJob first = b.claim_one();
    CHECK(b.one<RenewResult>(say({.id = first.id, .token = first.token + 1}, {"1"})).lost.size() ==
          1);
    CHECK(b.one<RenewResult>(say({.id = first.id + 9, .token = first.token}, {"1"})).lost.size() ==
          1);
    b.finish(first, Snooze{});
    const ClaimedJob second = b.claim_one();
    CHECK(b.one<RenewResult>(say(first, {"1"})).lost == std::vector<JobId>{first.id});
    b.advance(kDefaultLease);
    CHECK(b.one<RenewResult>(say(second, {"1"})).lost == std::vector<JobId>{first.id});
    CHECK(b.rescue() == 1);
    CHECK(b.one<RenewResult>(say(second, {"1"})).lost == std::vector<JobId>{first.id});
    CHECK(message_number(b, "then") == 0);
    CHECK_FALSE(b.became_available("then"));
    b.retry(first.id);
    const ClaimedJob third = b.claim_one();
    Renew outside = say(third, {"1"});
    outside.within = {std::make_shared<const Scopes>(*Scopes::parse("work=other")), Verb::work};
    CHECK(b.one<RenewResult>(outside).lost.size() == 1);
    b.finish(third, Complete{});
    CHECK(b.one<RenewResult>(say(third, {"1"})).lost.size() == 1);
    CHECK(message_number(b, "then") == 0);
  }

  TEST_CASE("a repeated renewal sends its messages again, with the same numbers") {
    Bench b;
    b.enqueue(with(b, {on_messages("then")}));
    const ClaimedJob c = b.claim_one();
    b.one<RenewResult>(say(c, {"\"a\"", "\"b\""}, 1));
    b.one<RenewResult>(say(c, {"\"a\"", "\"b\""}, 1));
    std::string seen;
    for (const ClaimedJob& one : b.claim(10, {"then"})) {
      const std::size_t at = one.args.find("\"token\"");
      seen += one.args.substr(at, one.args.find(",\"message\"") - at) + message_of(one.args) + " ";
    }
    CHECK(seen ==
          fmt::format(R"("token":{0},"seq":1"a" "token":{0},"seq":2"b" "token":{0},"seq":1"a" )"
                      R"("token":{0},"seq":2"b" )",
                      c.token));
  }

  TEST_CASE("a message has the progress of its renewal, or else the last progress") {
    Bench b;
    const JobId id = b.enqueue(with(b, {on_messages("then")}));
    const ClaimedJob c = b.claim_one();
    Renew twice = say(c, {"1"});
    twice.leases.push_back(say(c, {"2"}).leases[0]);
    twice.leases[1].progress = Progress{0.5, "half"};
    twice.leases.push_back(say(c, {"3"}).leases[0]);
    b.one<RenewResult>(twice);
    const auto claimed = b.claim(3, {"then"});
    REQUIRE(claimed.size() == 3);
    CHECK(claimed[0].args.find(R"("progress":null,)") != std::string::npos);
    CHECK(claimed[1].args.find(R"("progress":{"value":0.5,"text":"half"})") != std::string::npos);
    CHECK(claimed[2].args.find(R"("progress":{"value":0.5,"text":"half"})") != std::string::npos);
    CHECK(b.get(id).progress == Progress{0.5, "half"});
  }

  TEST_CASE("the attempt and the token of a message are those of the claim that sent it") {
    Bench b;
    NewJob n = with(b, {on_messages("then")});
    b.enqueue(n);
    b.finish(b.claim_one(), Retry{"first", seconds(0)});
    const ClaimedJob c = b.claim_one();
    b.reopen();
    b.one<RenewResult>(say(c, {"null"}, 1));
    const auto claimed = b.claim(1, {"then"});
    REQUIRE(claimed.size() == 1);
    CHECK(claimed[0].args ==
          fmt::format(R"({{"job":{},"queue":"q","kind":"work","state":"running","attempt":2,)"
                      R"("result":null,"progress":null,"token":{},"seq":1,"message":null,)"
                      R"("data":null}})",
                      c.id, c.token));
  }

  TEST_CASE("messages of many jobs in one renewal are made in its order, and outlive a restart") {
    Bench b;
    for (int i = 0; i < 3; ++i) b.enqueue(with(b, {on_messages("then")}));
    const auto claimed = b.claim(3);
    Renew renew{.worker = "w1", .leases = {}};
    for (const std::size_t at : {2U, 0U, 1U}) {
      renew.leases.push_back(
          say(claimed.at(at), {fmt::format("{}", at), fmt::format("\"{}\"", at)}).leases[0]);
    }
    b.one<RenewResult>(renew);
    b.reopen();
    CHECK(told(b, "then") == "2 \"2\" 0 \"0\" 1 \"1\" ");
  }

  TEST_CASE("a claim after the renewal in the same batch gets the message, the end comes later") {
    Bench b;
    NewJob n = b.job();
    n.reply_to = "answers";
    b.enqueue(n);
    const ClaimedJob c = b.claim_one();
    const Operation claim = Claim{.worker = "w2", .queues = {"answers"}, .kinds = {}, .max = 9};
    const auto results =
        b.apply({say(c, {"1"}, 1), claim, say(c, {"2"}, 2),
                 Finish{.worker = "w1", .results = {{c.id, c.token, Complete{}}}}, claim});
    const auto& first = std::get<ClaimResult>(results[1]).jobs;
    REQUIRE(first.size() == 1);
    CHECK(message_of(first[0].args) == "1");
    const auto& rest = std::get<ClaimResult>(results[4]).jobs;
    REQUIRE(rest.size() == 2);
    CHECK(rest[0].kind == "message");
    CHECK(rest[1].kind == "reply");
  }

  TEST_CASE("a renewal with messages is refused in a full store, a renewal without is not") {
    StoreOptions options;
    options.max_live_jobs = 1;
    Bench b(options);
    b.enqueue(with(b, {on_messages("then")}));
    const ClaimedJob c = b.claim_one();
    b.advance(seconds(20));
    CHECK(b.refused(say(c, {"1"})) == ErrorCode::overloaded);
    CHECK(message_number(b, "then") == 0);
    CHECK(b.renew(c).renewed.size() == 1);
    CHECK(b.finish(c, Complete{}) == FinishStatus::ok);
  }
}

}  // namespace
}  // namespace mainspring::conformance
