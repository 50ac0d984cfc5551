// The helpers for tests, against the real program.
#include "mainspring/testing.h"

#include <doctest/doctest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <string>

#include "env/fd.h"

using namespace std::chrono_literals;

namespace helpers_test {

struct Mail {
  static constexpr std::string_view queue = "mail";
  std::string to;
  int copies = 1;
};
BOOST_DESCRIBE_STRUCT(Mail, (), (to, copies))

}  // namespace helpers_test

namespace mainspring::testing {
namespace {

using helpers_test::Mail;

TestServer& server() {
  static TestServer one;
  return one;
}

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

template <class F>
std::string failure_of(F run) {
  try {
    run();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a test server starts within its time, with a token and the requested seed") {
  TestServer own({.seed = 42});
  CHECK(own.url().starts_with("http://127.0.0.1:"));
  CHECK(own.token().starts_with("mst_"));
  CHECK(own.seed() == 42);
  const TestServer again({.url = own.url(), .token = own.token()});
  CHECK(again.engine().enqueue(Mail{.to = "anna"}));
  CHECK(own.all_enqueued<Mail>().size() == 1);
}

TEST_CASE("a missing binary, or one that ends, is reported with what to do") {
  CHECK(says(failure_of([] { TestServer({.binary = "/no/such/program"}); }), "MAINSPRING_BINARY"));
  CHECK(says(failure_of([] { TestServer({.binary = "/bin/false"}); }), "ended with 1"));
}

TEST_CASE("enqueued jobs can be asserted, refuted and listed, by type and args") {
  const Namespace space = server().make_namespace();
  const Where here{.queue = space.queue("mail")};
  Engine engine = server().engine();
  server().refute_enqueued<Mail>(here);
  REQUIRE(engine.enqueue(Mail{.to = "anna"}, {.queue = here.queue}));
  REQUIRE(engine.enqueue(Mail{.to = "bob"}, {.queue = here.queue, .delay = 1h}));
  const auto to = [](std::string name) {
    return [name](const Mail& mail) { return mail.to == name; };
  };
  CHECK(server().assert_enqueued<Mail>(to("bob"), here).state == JobState::scheduled);
  CHECK(server().all_enqueued<Mail>(here).size() == 2);
  server().refute_enqueued<Mail>(to("carol"), here);
  CHECK(says(failure_of([&] { server().assert_enqueued<Mail>(to("carol"), here); }), "\"anna\""));
  CHECK(says(failure_of([&] { server().refute_enqueued<Mail>(to("anna"), here); }), "\"anna\""));
}

TEST_CASE("perform runs a handler without a server and returns its outcome") {
  const auto handler = [](const Mail& mail, Context& context) -> Result<std::string> {
    context.progress(0.5, "half");
    MS_TRY(context.send(R"({"to":1})"));
    MS_TRY(context.checkpoint("[1]"));
    return context.step("charge", [&] { return Result<std::string>(std::to_string(mail.copies)); });
  };
  const Performed done = perform(handler, Mail{.to = "anna", .copies = 3});
  REQUIRE(done.outcome);
  CHECK(std::get<Complete>(*done.outcome).result == "\"3\"");
  CHECK(done.progress.size() == 1);
  CHECK(done.messages == std::vector<std::string>{R"({"to":1})"});
  CHECK(done.checkpoint == "[1]");
  CHECK(done.memos.at("charge") == "3");
  const Performed later = perform(handler, Mail{}, {.attempt = 2, .memos = {{"charge", "7"}}});
  CHECK(std::get<Complete>(*later.outcome).result == "\"7\"");
}

TEST_CASE("an advance fires due jobs, and workers have run them when a drain returns") {
  const Namespace space = server().make_namespace();
  const std::string queue = space.queue("mail");
  std::atomic<int> sent = 0;
  Engine engine = server().engine();
  engine.on<Mail>([&](const Mail&) { ++sent; }, {.queue = queue});
  REQUIRE(engine.start());
  const auto job = engine.enqueue(Mail{.to = "anna"}, {.queue = queue, .delay = 24h});
  REQUIRE(job);
  const WallTime before = server().now();
  bool fired = false;
  for (const Fired& one : server().advance(25h)) fired |= one.job == job->id;
  CHECK(fired);
  CHECK(server().now() - before >= 25h);
  CHECK(server().wait_for(job->id).state == JobState::completed);
  space.drain();
  CHECK(sent == 1);
  server().drain(queue);
}

TEST_CASE("a drain and a wait that time out list the remaining jobs") {
  const Namespace space = server().make_namespace();
  Engine engine = server().engine();
  const auto job = engine.enqueue(Mail{}, {.queue = space.queue()});
  REQUIRE(job);
  CHECK(says(failure_of([&] { space.drain(0s); }), "1 jobs"));
  CHECK(
      says(failure_of([&] { server().wait_for(job->id, JobState::completed, 0s); }), "available"));
  REQUIRE(engine.cancel(job->id));
  CHECK(says(failure_of([&] { server().wait_for(job->id); }), "cancelled"));
}

TEST_CASE("the end of a namespace deletes its jobs") {
  Engine engine = server().engine();
  JobId job = 0;
  {
    const Namespace space = server().make_namespace();
    job = engine.enqueue(Mail{}, {.queue = space.queue()})->id;
  }
  CHECK_FALSE(engine.get(job));
}

TEST_CASE("under chaos every job completes, and idempotent handlers have their effect once") {
  const Namespace space = server().make_namespace();
  const std::string queue = space.queue("mail");
  std::mutex mutex;
  std::set<std::string> sent;
  int runs = 0;
  EngineOptions options;
  options.worker.slots = 4;
  Engine engine = server().engine(std::move(options));
  engine.on<Mail>(
      [&](const Mail& mail) {
        const std::scoped_lock lock(mutex);
        ++runs;
        sent.insert(mail.to);
      },
      {.queue = queue});
  REQUIRE(engine.start());
  {
    const Chaos chaos = server().chaos({.seed = 7,
                                        .space = &space,
                                        .duplicate_delivery = 0.3,
                                        .lost_lease = 0.3,
                                        .lost_finish = 0.3});
    CHECK(chaos.seed() == 7);
    std::vector<Mail> mails;
    for (int i = 0; i < 50; ++i) mails.push_back({.to = std::to_string(i)});
    const auto made = engine.enqueue_many(mails, {.queue = queue});
    REQUIRE(made);
    for (const Enqueued& job : *made)
      CHECK(server().wait_for(job.id, JobState::completed, 30s).state == JobState::completed);
  }
  CHECK(sent.size() == 50);
  CHECK(runs > 50);
}

TEST_CASE("assert_idempotent passes a handler whose effect is by key, and catches one that adds") {
  std::set<std::string> sent;
  int counter = 0, runs = 0;
  server().assert_idempotent(
      [&](const Mail& mail) {
        ++runs;
        sent.insert(mail.to);
      },
      Mail{.to = "anna"}, [&] { return static_cast<std::int64_t>(sent.size()); });
  CHECK(runs == 3);
  bool caught = false;
  try {
    server().assert_idempotent([&](const Mail&) { ++counter; }, Mail{}, [&] { return counter; });
  } catch (const NotIdempotent& failure) {
    caught = true;
    CHECK(failure.first == "1");
    CHECK(failure.then == "2");
    CHECK(failure.run == "a second run");
    CHECK(says(failure.what(), "Mail is not idempotent"));
  }
  CHECK(caught);
  CHECK(says(failure_of([&] {
               server().assert_idempotent(
                   [](const Mail&) -> Result<void> {
                     return Error{ErrorCode::conflict, "no stamp"};
                   },
                   Mail{}, [] { return 0; });
             }),
             "no stamp"));
}

}  // namespace mainspring::testing
