// Client, worker and engine against a real server over real sockets, all in this process.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <latch>
#include <set>
#include <thread>

#include "broker/broker.h"
#include "client/client.h"
#include "mainspring/engine.h"
#include "server.h"
#include "worker/worker.h"

using namespace mainspring;
using mainspring::test::Server;
using namespace std::chrono_literals;

namespace {

struct Rig {
  Server server;
  SystemRandom random;
  std::unique_ptr<Client> client;

  Rig() {
    auto opened = Client::open(server.client_options(), random);
    REQUIRE(opened.has_value());
    client = std::move(*opened);
  }
  JobId add(std::string kind = "k", std::string args = "{}", int max_attempts = 20) {
    Enqueue enqueue;
    enqueue.jobs.push_back({.queue = "q", .kind = std::move(kind), .args = std::move(args)});
    enqueue.jobs[0].max_attempts = max_attempts;
    const auto made = client->enqueue(std::move(enqueue));
    REQUIRE(made.has_value());
    return made->jobs.at(0).id;
  }
  std::vector<ClaimedJob> claim(int max, Duration wait = 0s) {
    auto claimed = client->claim({.worker = "w1", .queues = {"q"}, .max = max}, wait, {});
    REQUIRE(claimed.has_value());
    return std::move(claimed->jobs);
  }
  FinishStatus finish(const ClaimedJob& job, Outcome outcome) {
    const auto done = client->finish({.worker = "w1", .results = {{job.id, job.token, outcome}}});
    REQUIRE(done.has_value());
    return done->results.at(0);
  }
  WorkerOptions worker_options() const {
    WorkerOptions options;
    options.queues = {"q"};
    options.slots = 2;
    return options;
  }
};

struct Pages {
  static constexpr std::string_view queue = "q";
  int pages = 0;
};
BOOST_DESCRIBE_STRUCT(Pages, (), (pages))

}  // namespace

TEST_CASE("a job's life by the client's calls, field by field") {
  Rig rig;
  NewJob job{.queue = "q", .kind = "k", .args = "{ \"x\" : [1, null, \"\\u00e4\"] }"};
  job.priority = 2;
  job.tags = {"a", "b"};
  job.headers = "{\"h\":\"v\"}";
  job.correlation_id = "c \"1\"";
  job.reply_to = "replies";
  job.timeout = 90s;
  Enqueue enqueue;
  enqueue.jobs = {job};
  const JobId id = rig.client->enqueue(enqueue)->jobs.at(0).id;

  const std::vector<ClaimedJob> claimed = rig.claim(5);
  REQUIRE(claimed.size() == 1);
  CHECK(claimed[0].id == id);
  CHECK(claimed[0].args == job.args);  // byte for byte
  CHECK(claimed[0].headers == job.headers);
  CHECK(claimed[0].correlation_id == job.correlation_id);
  CHECK(claimed[0].tags == job.tags);
  CHECK(claimed[0].timeout == Duration(90s));
  CHECK(claimed[0].lease > 29s);

  const auto renewed = rig.client->renew(
      {.worker = "w1",
       .leases = {{id, claimed[0].token, Progress{0.5, "half"}, "{\"page\":3}"}, {99, 1, {}, {}}}});
  REQUIRE(renewed.has_value());
  CHECK(renewed->renewed.at(0).id == id);
  CHECK(renewed->lost == std::vector<JobId>{99});
  CHECK(rig.client->get(id)->progress == Progress{0.5, "half"});

  CHECK(rig.finish(claimed[0], Retry{"no \"luck\"", Duration(0)}) == FinishStatus::ok);
  CHECK(rig.finish(claimed[0], Complete{}) == FinishStatus::stale);
  const std::vector<ClaimedJob> again = rig.claim(1, 20s);
  REQUIRE(again.size() == 1);
  CHECK(again[0].attempt == 2);
  CHECK(again[0].token > claimed[0].token);
  CHECK(again[0].checkpoint == "{\"page\":3}");
  CHECK(rig.finish(again[0], Complete{"{\"done\":true}"}) == FinishStatus::ok);

  const auto ended = rig.client->wait(id, 20s, {});
  REQUIRE(ended.has_value());
  CHECK(ended->state == JobState::completed);
  CHECK(ended->result == "{\"done\":true}");
  CHECK(ended->errors.at(0).message == "no \"luck\"");
  CHECK(ended->tags == job.tags);
  CHECK(rig.client->cancel({id, ""}).error().code == ErrorCode::conflict);
  CHECK(rig.client->get(4711).error().code == ErrorCode::not_found);
}

TEST_CASE("follow-ups of a job go through the client and come back") {
  Rig rig;
  NewJob job{.queue = "q", .kind = "k", .args = "{}"};
  job.follow_ups = {
      {.queue = "mail", .kind = "tell", .on = FollowUp::kCompleted, .data = "{\"to\": \"anna\"}"},
      {.queue = "ops", .kind = "alarm", .on = FollowUp::kDead, .priority = 1, .data = ""}};
  Enqueue enqueue;
  enqueue.jobs = {job};
  const JobId id = rig.client->enqueue(enqueue)->jobs.at(0).id;
  CHECK(rig.client->get(id)->follow_ups == job.follow_ups);
  CHECK(rig.finish(rig.claim(1).at(0), Complete{"[7]"}) == FinishStatus::ok);
  const auto next = rig.client->list({.queue = "mail"}, 10, 0);
  REQUIRE(next.has_value());
  REQUIRE(next->jobs.size() == 1);
  CHECK(next->jobs[0].kind == "tell");
  CHECK(next->jobs[0].correlation_id == std::to_string(id));
  CHECK(next->jobs[0].args.find(R"("result":[7],"data":{"to": "anna"})") != std::string::npos);
  CHECK(rig.client->list({.queue = "ops"}, 10, 0)->jobs.empty());
  job.follow_ups[1].priority = 12;
  enqueue.jobs = {job};
  CHECK(rig.client->enqueue(enqueue).error().field == "then[1].priority");
}

TEST_CASE("queues, lists, workers and the dead letter by the client's calls") {
  Rig rig;
  for (int i = 0; i < 5; ++i) rig.add("k", "{}", 1);
  CHECK(rig.client->pause_queue({"q", true}).has_value());
  CHECK(rig.claim(5).empty());
  CHECK(rig.client->queues()->at(0).paused);
  CHECK(rig.client->pause_queue({"q", false}).has_value());
  CHECK(rig.client->set_retention({"q", Duration(1h), std::nullopt}).has_value());
  CHECK(rig.client->queues()->at(0).retention_completed == Duration(1h));

  for (const ClaimedJob& job : rig.claim(5)) {
    CHECK(rig.finish(job, Dead{"bad", "very bad"}) == FinishStatus::ok);
  }
  JobFilter dead;
  dead.state = JobState::dead;
  std::set<JobId> seen;
  JobId before = 0;
  do {
    const auto page = rig.client->list(dead, 2, before);
    REQUIRE(page.has_value());
    for (const Job& job : page->jobs) seen.insert(job.id);
    before = page->next.value_or(0);
  } while (before != 0);
  CHECK(seen.size() == 5);
  CHECK(rig.client->workers()->at(0).id == "w1");

  CHECK(rig.client->retry({1})->state == JobState::available);
  const auto redriven = rig.client->redrive({.filter = {.queue = "q"}, .limit = 10});
  REQUIRE(redriven.has_value());
  CHECK(redriven->redriven == 4);
  CHECK(rig.claim(10).size() == 5);
}

TEST_CASE("the same idempotency key is the same job over HTTP too") {
  Rig rig;
  Enqueue enqueue;
  enqueue.jobs.push_back({.queue = "q", .kind = "k"});
  enqueue.idempotency_key = "key-1";
  const auto first = rig.client->enqueue(enqueue);
  const auto again = rig.client->enqueue(enqueue);
  CHECK(first->jobs.at(0).id == again->jobs.at(0).id);
  CHECK(again->jobs.at(0).duplicate);
  enqueue.jobs[0].priority = 1;
  CHECK(rig.client->enqueue(enqueue).error().code == ErrorCode::conflict);
}

TEST_CASE("a worker's jobs continue where they were when the server is stopped and started again") {
  Rig rig;
  NullLog log;
  std::latch started(2);
  std::latch go(1);
  WorkerRuntime worker(*rig.client, rig.server.clock, rig.random, log, rig.worker_options());
  worker.on("k", [&](const ClaimedJob& job, Context&) -> HandlerResult {
    if (job.args == "1") {
      started.count_down();
      go.wait();
    }
    return Outcome(Complete{job.args});
  });
  const JobId ids[] = {rig.add("k", "1"), rig.add("k", "1"), rig.add("k", "2")};
  REQUIRE(worker.start().has_value());
  started.wait();
  rig.server.stop();
  go.count_down();
  rig.server.start();
  for (const JobId id : ids) {
    const auto job = rig.client->wait(id, 30s, {});
    REQUIRE(job.has_value());
    CHECK(job->state == JobState::completed);
    CHECK(job->attempt == 1);
  }
  worker.stop();
  CHECK(worker.stats().completed == 3);
}

TEST_CASE("a cancel reaches a remote handler at once, over its worker's parked claim") {
  Rig rig;
  NullLog log;
  std::latch started(1);
  WorkerOptions options = rig.worker_options();
  options.lease = 1h;  // a renewal, which learns of a cancel too, would come after 20 minutes
  WorkerRuntime worker(*rig.client, rig.server.clock, rig.random, log, options);
  worker.on("k", [&](const ClaimedJob&, Context& context) -> HandlerResult {
    started.count_down();
    std::latch told(1);
    std::stop_callback wake(context.stop_token(), [&] { told.count_down(); });
    told.wait();
    return Error{.message = std::string(to_string(context.stop_reason()))};
  });
  REQUIRE(worker.start().has_value());
  const JobId id = rig.add();
  started.wait();
  CHECK(rig.client->cancel({id, "not needed"})->cancel_requested);
  const auto job = rig.client->wait(id, 60s, {});
  CHECK(job->state == JobState::cancelled);
  CHECK(job->reason == "not needed");
}

TEST_CASE("a claim that is stopped leaves nothing parked and takes no job with it") {
  Rig rig;
  std::int64_t claimed = 0;
  constexpr int kRounds = 40;
  for (int i = 0; i < kRounds; ++i) {
    std::stop_source stop;
    std::thread claimer([&] {
      const auto result =
          rig.client->claim({.worker = "w1", .queues = {"q"}, .max = 10}, 60s, stop.get_token());
      CHECK(result.has_value());
      claimed += static_cast<std::int64_t>(result->jobs.size());
    });
    // The stop and the hand-over of a job occur in every order.
    std::thread adder([&] { rig.add(); });
    if (i % 2 == 0) adder.join();
    stop.request_stop();
    claimer.join();
    if (adder.joinable()) adder.join();
  }
  // The server releases a job whose claimer was gone when it arrived, a moment later.
  const auto count = [&](JobState state) {
    return rig.client->queues()->at(0).counts[static_cast<std::size_t>(state)];
  };
  constexpr int kTries = 20'000;
  for (int i = 0; i < kTries && count(JobState::running) != claimed; ++i) std::this_thread::yield();
  CHECK(count(JobState::running) == claimed);
  CHECK(count(JobState::available) == kRounds - claimed);
  while (rig.server.node->broker().parked_claims() > 0) std::this_thread::yield();
}

TEST_CASE("messages of a handler reach the caller that waits for a remote job, in order") {
  Rig rig;
  EngineOptions options = rig.server.engine_options();
  options.log = [](std::string_view, std::string_view) {};
  auto engine = Engine::open(rig.server.url(), options);
  REQUIRE(engine.has_value());
  engine->on_kind("say", [](const ClaimedJob&, Context& context) -> HandlerResult {
    for (int i = 1; i <= 20; ++i) MS_TRY(context.send(std::to_string(i)));
    return Outcome(Complete{"\"end\""});
  });
  REQUIRE(engine->start().has_value());
  NewJob job{.kind = "say"};
  job.reply_to = "answers";
  const auto made = engine->enqueue(job);
  REQUIRE(made.has_value());
  CHECK(engine->wait(made->id, 30s)->state == JobState::completed);
  const auto heard = rig.client->claim(
      Claim{.worker = "w", .queues = {"answers"}, .kinds = {}, .max = 50}, 0s, {});
  REQUIRE(heard.has_value());
  REQUIRE(heard->jobs.size() == 21);
  for (std::size_t i = 0; i < 20; ++i) {
    CHECK(heard->jobs[i].kind == "message");
    CHECK(heard->jobs[i].args.find(fmt::format("\"seq\":{0},\"message\":{0},", i + 1)) !=
          std::string::npos);
  }
  CHECK(heard->jobs[20].kind == "reply");
}

TEST_CASE("typed jobs on a remote engine") {
  Rig rig;
  EngineOptions options = rig.server.engine_options();
  options.log = [](std::string_view, std::string_view) {};
  auto engine = Engine::open(rig.server.url(), options);
  REQUIRE(engine.has_value());
  RetryPolicy at_once;
  at_once.first_delay = 0s;
  engine->on<Pages>(
      [](const Pages& job, Context& context) -> Result<int> {
        int page = context.job().checkpoint.empty() ? 0 : *from_json<int>(context.job().checkpoint);
        for (; page < job.pages; ++page) {
          if (page == 2 && context.job().attempt == 1) return Error{.message = "power cut"};
          MS_TRY(context.checkpoint(to_json(page + 1)));
        }
        return page * 100 + context.job().attempt;
      },
      {.retry = at_once});
  REQUIRE(engine->start().has_value());
  const auto made = engine->enqueue_many(std::vector<Pages>{{.pages = 4}, {.pages = 1}});
  REQUIRE(made.has_value());
  CHECK(*Engine::result<int>(*engine->wait(made->at(0).id, 30s)) == 402);
  CHECK(*Engine::result<int>(*engine->wait(made->at(1).id, 30s)) == 101);
}
