// A node with writer connections: what the writers do, what the commit loop does, and that neither
// blocks the other.
#include <doctest/doctest.h>

#include "broker/nodes_bench.h"

using namespace mainspring;

namespace {

// A node with writers. Its commit loop can be held in the middle of a commit.
struct WriterNode : Nodes {
  WriterNode() : enqueues(db), completions(db) {
    a->broker->add_writer(enqueues, Broker::WriterFor::enqueues);
    a->broker->add_writer(completions, Broker::WriterFor::completions);
    enqueue(*a);
    const auto got = claim(*a);
    claimed = std::get<ClaimResult>(**got).jobs.at(0);
    a->broker->start();
  }
  ~WriterNode() {
    go_on();
    a->broker->stop();
  }
  // The commit loop has committed and does not return.
  void hold_the_commit_loop() {
    db.slow = [this, first = std::make_shared<std::atomic<bool>>(true)] {
      if (!first->exchange(false)) return;
      held.release();
      on.acquire();
    };
    a->broker->submit(PauseQueue{.queue = "other"}, [](const OperationResult&) {});
    REQUIRE(held.try_acquire_for(30s));
    holding = true;
  }
  void go_on() {
    if (std::exchange(holding, false)) on.release();
  }
  void finish(std::optional<std::string> session_state = std::nullopt) {
    a->broker->submit(Finish{.worker = "w",
                             .results = {{.id = claimed.id,
                                          .token = claimed.token,
                                          .outcome = Complete{},
                                          .session_state = std::move(session_state)}}},
                      [this](OperationResult result) {
                        answer = std::move(result);
                        answered.release();
                      });
  }
  void enqueue_many(std::binary_semaphore& done) {
    Enqueue request;
    request.jobs.assign(100, NewJob{.queue = "q", .kind = "work"});
    a->broker->submit(std::move(request), [&done](const OperationResult&) { done.release(); });
  }
  NodeStore enqueues, completions;
  ClaimedJob claimed;
  std::binary_semaphore held{0}, on{0}, answered{0};
  bool holding = false;
  std::optional<OperationResult> answer;
};

}  // namespace

TEST_CASE_FIXTURE(WriterNode,
                  "a job completes while the commit loop commits, and its watchers are notified") {
  hold_the_commit_loop();
  std::binary_semaphore ended{0};
  a->broker->watch(claimed.id, [&] { ended.release(); });
  finish();
  REQUIRE(answered.try_acquire_for(30s));
  CHECK(std::get<FinishResult>(*answer).results.at(0) == FinishStatus::ok);
  REQUIRE(ended.try_acquire_for(30s));
  go_on();
  a->broker->stop();
  CHECK(a->store.gone == std::vector<std::pair<JobId, Token>>{{claimed.id, claimed.token}});
}

TEST_CASE_FIXTURE(WriterNode, "the commit loop does a completion that its writer does not do") {
  completions.looks_at_nothing = true;
  hold_the_commit_loop();
  finish();
  CHECK_FALSE(answered.try_acquire());
  go_on();
  REQUIRE(answered.try_acquire_for(30s));
  CHECK(std::get<FinishResult>(*answer).results.at(0) == FinishStatus::ok);
  CHECK(db.store->get(claimed.id)->state == JobState::completed);
}

TEST_CASE_FIXTURE(
    WriterNode,
    "after a writer fails for a worker, the commit loop handles that worker for a while") {
  std::counting_semaphore<> tried{0};
  completions.looks_at_nothing = true;
  completions.slow = [&] { tried.release(); };
  hold_the_commit_loop();
  finish();
  REQUIRE(tried.try_acquire_for(30s));
  go_on();
  REQUIRE(answered.try_acquire_for(30s));
  hold_the_commit_loop();
  finish();
  go_on();
  REQUIRE(answered.try_acquire_for(30s));
  CHECK(completions.batches == 1);
  clock.advance(10s);
  hold_the_commit_loop();
  finish();
  REQUIRE(tried.try_acquire_for(30s));
  go_on();
  REQUIRE(answered.try_acquire_for(30s));
}

TEST_CASE_FIXTURE(WriterNode,
                  "the commit loop does a completion that sets the state of its session") {
  hold_the_commit_loop();
  finish("{}");
  CHECK_FALSE(answered.try_acquire_for(50ms));
  go_on();
  REQUIRE(answered.try_acquire_for(30s));
}

TEST_CASE_FIXTURE(WriterNode, "a job is enqueued while the commit loop commits") {
  hold_the_commit_loop();
  a->broker->submit(Enqueue{.jobs = {NewJob{.queue = "q", .kind = "work"}}},
                    [this](OperationResult result) {
                      answer = std::move(result);
                      answered.release();
                    });
  REQUIRE(answered.try_acquire_for(30s));
  CHECK(std::holds_alternative<EnqueueResult>(*answer));
}

TEST_CASE_FIXTURE(WriterNode,
                  "few jobs that go into sessions wait for the commit loop's next commit") {
  Enqueue request;
  bool few = false;
  SUBCASE("few") {
    few = true;
    request.jobs.assign(99, NewJob{.queue = "q", .kind = "work", .session = "s"});
  }
  SUBCASE("many") {
    request.jobs.assign(100, NewJob{.queue = "q", .kind = "work", .session = "s"});
  }
  hold_the_commit_loop();
  a->broker->submit(std::move(request), [this](const OperationResult&) { answered.release(); });
  CHECK(answered.try_acquire_for(few ? Duration(50ms) : Duration(30s)) != few);
  go_on();
  if (few) REQUIRE(answered.try_acquire_for(30s));
  CHECK(enqueues.batches == (few ? 0 : 1));
}

TEST_CASE_FIXTURE(WriterNode,
                  "a commit of a writer is reported once, also if the commit loop does it") {
  SUBCASE("the writer") {}
  SUBCASE("the commit loop") {
    completions.looks_at_nothing = true;
  }
  Events& events = a->broker->events();
  const auto listener = events.listen(1);
  std::binary_semaphore enqueued{0}, paused{0};
  hold_the_commit_loop();
  a->broker->submit(Enqueue{.jobs = {NewJob{.queue = "r", .kind = "work"}}},
                    [&](const OperationResult&) { enqueued.release(); });
  REQUIRE(enqueued.try_acquire_for(30s));
  CHECK(events.newest() == 1);
  finish();
  go_on();
  REQUIRE(answered.try_acquire_for(30s));
  a->broker->submit(PauseQueue{.queue = "last"}, [&](const OperationResult&) { paused.release(); });
  REQUIRE(paused.try_acquire_for(30s));
  std::multiset<std::string> told;
  for (const EventPtr& event : events.read(0, 100).events) {
    const std::string& queue = event->facts->queue;
    told.insert(std::string(to_string(event->type)) + " " + queue);
  }
  CHECK(told == std::multiset<std::string>{"completed q", "enqueued r", "queue_paused last",
                                           "queue_paused other"});
}

TEST_CASE_FIXTURE(WriterNode,
                  "a hundred jobs are enqueued by the writer although the commit loop is free") {
  const int before = a->store.batches;
  enqueue_many(answered);
  REQUIRE(answered.try_acquire_for(30s));
  CHECK(enqueues.batches == 1);
  CHECK(a->store.batches == before);
}

TEST_CASE_FIXTURE(WriterNode, "waiting claims get jobs in the commit that enqueues them") {
  std::binary_semaphore got{0};
  std::vector<ClaimedJob> jobs;
  a->broker->submit_claim({.worker = "w", .queues = {"q"}, .max = 7}, 20s,
                          [&](OperationResult result) {
                            jobs = std::get<ClaimResult>(result).jobs;
                            got.release();
                          });
  a->broker->agenda();  // after the step that parks it
  while (a->broker->parked_claims() == 0) std::this_thread::yield();
  const int before = a->store.batches;
  enqueue_many(answered);
  REQUIRE(got.try_acquire_for(30s));
  CHECK(jobs.size() == 7);
  CHECK(enqueues.batches == 0);
  CHECK(a->store.batches == before + 1);
}

TEST_CASE_FIXTURE(WriterNode,
                  "a hundred completions are done by the writer although the commit loop is free") {
  enqueue_many(answered);
  REQUIRE(answered.try_acquire_for(30s));
  std::binary_semaphore got{0};
  Finish finish{.worker = "w", .results = {}};
  a->broker->submit_claim({.worker = "w", .queues = {"q"}, .max = 100}, 20s,
                          [&](OperationResult result) {
                            for (const ClaimedJob& one : std::get<ClaimResult>(result).jobs)
                              finish.results.push_back({one.id, one.token, Complete{}});
                            got.release();
                          });
  REQUIRE(got.try_acquire_for(30s));
  REQUIRE(finish.results.size() == 100);
  const int before = a->store.batches;
  a->broker->submit(std::move(finish), [&](OperationResult result) {
    answer = std::move(result);
    answered.release();
  });
  REQUIRE(answered.try_acquire_for(30s));
  CHECK(std::get<FinishResult>(*answer).results ==
        std::vector<FinishStatus>(100, FinishStatus::ok));
  CHECK(completions.batches == 1);
  CHECK(a->store.batches == before);
}

TEST_CASE_FIXTURE(WriterNode, "the broker does not wait for a writer that does not return") {
  std::binary_semaphore held_writer{0}, second{0};
  std::atomic<bool> first = true;
  enqueues.slow = [&] {
    if (!first.exchange(false)) return;
    held_writer.release();
    on.acquire();
  };
  enqueue_many(answered);
  REQUIRE(held_writer.try_acquire_for(30s));
  holding = true;
  enqueue_many(second);
  clock.advance(1s);
  CHECK(second.try_acquire_for(30s));
  CHECK(enqueues.batches == 1);
  go_on();
  REQUIRE(answered.try_acquire_for(30s));
}
