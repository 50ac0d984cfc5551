// A node with lanes: what goes by them, what is the runner's, and that neither is waited for.
#include <doctest/doctest.h>

#include "broker/nodes_bench.h"

using namespace mainspring;

namespace {

// A node with lanes, whose runner can be held in the middle of a commit.
struct Laned : Nodes {
  Laned() : enqueues(db), completions(db) {
    a->broker->add_lane(enqueues, Broker::LaneFor::enqueues);
    a->broker->add_lane(completions, Broker::LaneFor::completions);
    enqueue(*a);
    const auto got = claim(*a);
    claimed = std::get<ClaimResult>(**got).jobs.at(0);
    a->broker->start();
  }
  ~Laned() {
    go_on();
    a->broker->stop();
  }
  // The runner has committed and does not return.
  void hold_the_runner() {
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

TEST_CASE_FIXTURE(Laned, "a job is completed while the runner commits, and its watchers are told") {
  hold_the_runner();
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

TEST_CASE_FIXTURE(Laned, "a completion that its lane does not do is done by the runner") {
  completions.looks_at_nothing = true;
  hold_the_runner();
  finish();
  CHECK_FALSE(answered.try_acquire());
  go_on();
  REQUIRE(answered.try_acquire_for(30s));
  CHECK(std::get<FinishResult>(*answer).results.at(0) == FinishStatus::ok);
  CHECK(db.store->get(claimed.id)->state == JobState::completed);
}

TEST_CASE_FIXTURE(Laned, "what a lane could not do of a worker's is the runner's for a while") {
  std::counting_semaphore<> tried{0};
  completions.looks_at_nothing = true;
  completions.slow = [&] { tried.release(); };
  hold_the_runner();
  finish();
  REQUIRE(tried.try_acquire_for(30s));
  go_on();
  REQUIRE(answered.try_acquire_for(30s));
  hold_the_runner();
  finish();
  go_on();
  REQUIRE(answered.try_acquire_for(30s));
  CHECK(completions.batches == 1);
  clock.advance(10s);
  hold_the_runner();
  finish();
  REQUIRE(tried.try_acquire_for(30s));
  go_on();
  REQUIRE(answered.try_acquire_for(30s));
}

TEST_CASE_FIXTURE(Laned, "a completion that leaves a state for its session is the runner's") {
  hold_the_runner();
  finish("{}");
  CHECK_FALSE(answered.try_acquire_for(50ms));
  go_on();
  REQUIRE(answered.try_acquire_for(30s));
}

TEST_CASE_FIXTURE(Laned, "a job is enqueued while the runner commits") {
  hold_the_runner();
  a->broker->submit(Enqueue{.jobs = {NewJob{.queue = "q", .kind = "work"}}},
                    [this](OperationResult result) {
                      answer = std::move(result);
                      answered.release();
                    });
  REQUIRE(answered.try_acquire_for(30s));
  CHECK(std::holds_alternative<EnqueueResult>(*answer));
}

TEST_CASE_FIXTURE(Laned, "few jobs that go into sessions wait for the runner's next commit") {
  Enqueue request;
  bool few = false;
  SUBCASE("few") {
    few = true;
    request.jobs.assign(99, NewJob{.queue = "q", .kind = "work", .session = "s"});
  }
  SUBCASE("many") {
    request.jobs.assign(100, NewJob{.queue = "q", .kind = "work", .session = "s"});
  }
  hold_the_runner();
  a->broker->submit(std::move(request), [this](const OperationResult&) { answered.release(); });
  CHECK(answered.try_acquire_for(few ? Duration(50ms) : Duration(30s)) != few);
  go_on();
  if (few) REQUIRE(answered.try_acquire_for(30s));
  CHECK(enqueues.batches == (few ? 0 : 1));
}

TEST_CASE_FIXTURE(Laned, "what a lane commits is told of, once, whoever does it in the end") {
  SUBCASE("the lane") {}
  SUBCASE("the runner") {
    completions.looks_at_nothing = true;
  }
  Events& events = a->broker->events();
  const auto listener = events.listen(1);
  std::binary_semaphore enqueued{0}, paused{0};
  hold_the_runner();
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

TEST_CASE_FIXTURE(Laned, "a hundred jobs are enqueued by the lane although the runner is free") {
  const int before = a->store.batches;
  enqueue_many(answered);
  REQUIRE(answered.try_acquire_for(30s));
  CHECK(enqueues.batches == 1);
  CHECK(a->store.batches == before);
}

TEST_CASE_FIXTURE(Laned, "claims that wait for such jobs get them in the commit that makes them") {
  std::binary_semaphore got{0};
  std::vector<ClaimedJob> jobs;
  a->broker->submit_claim({.worker = "w", .queues = {"q"}, .max = 7}, 20s,
                          [&](OperationResult result) {
                            jobs = std::get<ClaimResult>(result).jobs;
                            got.release();
                          });
  a->broker->agenda();  // behind the step that parks it
  while (a->broker->parked_claims() == 0) std::this_thread::yield();
  const int before = a->store.batches;
  enqueue_many(answered);
  REQUIRE(got.try_acquire_for(30s));
  CHECK(jobs.size() == 7);
  CHECK(enqueues.batches == 0);
  CHECK(a->store.batches == before + 1);
}

TEST_CASE_FIXTURE(Laned, "a hundred completions are done by the lane although the runner is free") {
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

TEST_CASE_FIXTURE(Laned, "a lane that does not come back is not waited for") {
  std::binary_semaphore held_lane{0}, second{0};
  std::atomic<bool> first = true;
  enqueues.slow = [&] {
    if (!first.exchange(false)) return;
    held_lane.release();
    on.acquire();
  };
  enqueue_many(answered);
  REQUIRE(held_lane.try_acquire_for(30s));
  holding = true;
  enqueue_many(second);
  clock.advance(1s);
  CHECK(second.try_acquire_for(30s));
  CHECK(enqueues.batches == 1);
  go_on();
  REQUIRE(answered.try_acquire_for(30s));
}
