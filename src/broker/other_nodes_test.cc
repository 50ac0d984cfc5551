// Brokers of several nodes over one store: what one does, the others hear of; an outage is waited
// out.
#include <doctest/doctest.h>

#include "broker/nodes_bench.h"

using namespace mainspring;

TEST_CASE_FIXTURE(Nodes, "a job enqueued on one node wakes a claim that is parked on another") {
  const auto got = claim(*b);
  CHECK_FALSE(got->has_value());
  enqueue(*a);
  REQUIRE(a->notified.size() == 1);
  CHECK(a->notified[0].queues == std::vector<std::string>{"q"});
  settle(*b);
  CHECK_FALSE(got->has_value());  // no message has reached it
  carry();
  CHECK(jobs(got) == 1);
}

TEST_CASE_FIXTURE(Nodes, "a lock of another client refuses only the operations that need it") {
  a->store.locked_queue = "locked";
  std::vector<OperationResult> answers;
  const auto submit = [&](Operation operation) {
    a->broker->submit(std::move(operation),
                      [&](OperationResult result) { answers.push_back(std::move(result)); });
  };
  submit(Enqueue{.jobs = {{.queue = "q", .kind = "k"}}});
  submit(Enqueue{.jobs = {{.queue = "locked", .kind = "k"}}});
  submit(Enqueue{.jobs = {{.queue = "q", .kind = "k"}}});
  const auto got = claim(*a);
  CHECK(jobs(got) == 1);
  REQUIRE(answers.size() == 3);
  CHECK(std::holds_alternative<EnqueueResult>(answers[0]));
  REQUIRE(std::holds_alternative<Error>(answers[1]));
  CHECK(std::get<Error>(answers[1]).code == ErrorCode::unavailable);
  CHECK(std::holds_alternative<EnqueueResult>(answers[2]));
}

TEST_CASE_FIXTURE(Nodes, "a housekeeping step that fails is counted and shown until it works") {
  const auto poll = [&] {
    clock.advance(10s);
    settle(*a);
    return a->broker->housekeeping().failing();
  };
  CHECK(poll() == "");
  a->store.fold_failed = "no key";
  CHECK(poll() == "housekeeping fails: fold_counts: no key");
  db.away = true;
  CHECK(poll() ==
        "housekeeping fails: fold_counts: no key; refresh: the database cannot be reached");
  db.away = false;
  a->store.fold_failed = "";
  CHECK(poll() == "");
  const std::string metrics = a->registry.render();
  CHECK(metrics.find("mainspring_housekeeping_failures_total{step=\"fold_counts\"} 1") !=
        std::string::npos);
}

TEST_CASE_FIXTURE(Nodes, "local listeners receive the event of a job that ended on another node") {
  const auto listener = b->broker->events().listen(1);
  enqueue(*a);
  const auto got = claim(*a);
  const ClaimedJob running = std::get<ClaimResult>(**got).jobs.at(0);
  a->broker->submit(Finish{.worker = "w", .results = {{running.id, running.token, Complete{}}}},
                    [](const OperationResult&) {});
  settle(*a);
  CHECK(b->broker->events().newest() == 0);
  carry();
  const auto page = b->broker->events().read(0, 10);
  REQUIRE(page.events.size() == 1);
  CHECK(page.events[0]->type == EventType::completed);
  CHECK(page.events[0]->job == running.id);
  CHECK(page.events[0]->facts->queue == "q");
  CHECK(a->broker->events().recorded() == 0);  // no listener there
}

TEST_CASE_FIXTURE(Nodes,
                  "a cancel on one node reaches the worker through its claim parked on another") {
  enqueue(*b);
  const auto running = claim(*b);
  REQUIRE(jobs(running) == 1);
  const JobId id = std::get<ClaimResult>(**running).jobs[0].id;
  const auto parked = claim(*b);
  CHECK_FALSE(parked->has_value());
  a->broker->submit(Cancel{.id = id, .reason = "enough"}, [](const OperationResult&) {});
  settle(*a);
  CHECK_FALSE(parked->has_value());
  carry();
  REQUIRE(parked->has_value());
  CHECK(std::get<ClaimResult>(**parked).cancel == std::vector<JobId>{id});
  // A worker without a parked claim learns it from its next claim.
  a->broker->submit(Cancel{.id = id, .reason = "enough"}, [](const OperationResult&) {});
  settle(*a);
  carry();
  CHECK(std::get<ClaimResult>(**claim(*b)).cancel == std::vector<JobId>{id});
}

TEST_CASE_FIXTURE(Nodes, "a cancel for a worker of another node leaves the claims parked") {
  const auto parked = claim(*b);
  b->broker->hear({.cancels = {{.job = 7, .worker = "elsewhere"}}});
  settle(*b);
  CHECK_FALSE(parked->has_value());
}

TEST_CASE_FIXTURE(Nodes, "counts of one node are visible to the others after its next poll") {
  enqueue(*a, 3);
  const auto enqueued = [](Node& node) { return node.broker->history({})->total.enqueued; };
  CHECK(enqueued(*a) == 3);
  CHECK(enqueued(*b) == 0);
  const auto before = db.store->commits();
  clock.advance(10s);
  settle(*a);
  CHECK(db.store->commits() == before + 1);
  CHECK(enqueued(*a) == 3);
  CHECK(enqueued(*b) == 3);
  clock.advance(10s);
  settle(*a);
  CHECK(db.store->commits() == before + 1);
}

TEST_CASE_FIXTURE(Nodes, "a claim whose commit was slow has a lease shorter by that time") {
  enqueue(*a, 3);
  const auto lease_left = [this] { return std::get<ClaimResult>(**claim(*a)).jobs.at(0).lease; };
  CHECK(lease_left() == kDefaultLease);
  db.slow = [this] { clock.advance(12s); };
  CHECK(lease_left() == kDefaultLease - 12s);
  db.slow = [this] { clock.advance(1h); };
  CHECK(lease_left() == 1ms);  // 0 would mean unknown
}

TEST_CASE_FIXTURE(Nodes, "jobs that a node hands to its own claims are not announced to others") {
  const auto got = claim(*a);
  enqueue(*a);
  CHECK(jobs(got) == 1);
  for (const ChangeHints& told : a->notified) CHECK(told.queues.empty());
}

TEST_CASE_FIXTURE(Nodes, "the poll finds jobs that no message announced, within 6 s") {
  const auto got = claim(*b);
  enqueue(*a);
  const Instant next = settle(*b);
  CHECK(next <= clock.now().instant + 6s);
  CHECK(next >= clock.now().instant + 3s);
  clock.advance(6s);
  settle(*b);
  CHECK(jobs(got) == 1);
}

TEST_CASE_FIXTURE(Nodes, "an idle node polls once in 4 to 6 s, however often it is stepped") {
  const int before = b->store.refreshes;
  for (int i = 0; i < 600; ++i) {
    clock.advance(100ms);
    settle(*b);
  }
  CHECK(b->store.refreshes - before >= 60 / 6);
  CHECK(b->store.refreshes - before <= 60 / 4);
}

TEST_CASE_FIXTURE(Nodes, "a notification without a job leaves the claims parked") {
  const auto got = claim(*b);
  b->broker->hear({.queues = {"q", "elsewhere"}});
  settle(*b);
  CHECK_FALSE(got->has_value());
  CHECK(b->broker->parked_claims() == 1);
  enqueue(*a);
  carry();
  CHECK(jobs(got) == 1);
}

TEST_CASE_FIXTURE(Nodes,
                  "a few of many parked claims are tried until one finds work, then the rest") {
  std::vector<Answered> parked;
  for (int i = 0; i < 40; ++i) parked.push_back(claim(*b));
  enqueue(*a, 40);
  carry();
  for (const Answered& one : parked) CHECK(jobs(one) == 1);
}

TEST_CASE_FIXTURE(Nodes,
                  "a claim gets its job after a notification that everything may have changed") {
  const auto got = claim(*b);
  enqueue(*a);
  clock.advance(1s);
  b->broker->hear({.everything = true});
  settle(*b);
  CHECK(jobs(got) == 1);
}

TEST_CASE_FIXTURE(
    Nodes, "a node asks the store at most ten times a second, however many messages arrive") {
  const int before = b->store.refreshes;
  for (int i = 0; i < 1000; ++i) {
    clock.advance(1ms);
    b->broker->hear({.everything = true});
    settle(*b);
  }
  CHECK(b->store.refreshes - before <= 11);
}

TEST_CASE_FIXTURE(Nodes, "a lease released on one node is granted at once to a waiter on another") {
  const auto first = acquire(*a, "a");
  REQUIRE(first->has_value());
  const Token token = std::get<LeaseGrant>(**first).token;
  const auto second = acquire(*b, "b");
  CHECK_FALSE(second->has_value());
  a->broker->submit(ReleaseLease{.name = "l", .holder = "a", .token = token},
                    [](const OperationResult&) {});
  settle(*a);
  CHECK_FALSE(second->has_value());
  carry();
  REQUIRE(second->has_value());
  CHECK(std::holds_alternative<LeaseGrant>(**second));
}

TEST_CASE_FIXTURE(Nodes, "a wait for a job ends when the job ends on another node") {
  enqueue(*a);
  int woken = 0;
  b->broker->watch(job, [&] { ++woken; });
  a->broker->submit(Cancel{.id = job}, [](const OperationResult&) {});
  settle(*a);
  settle(*b);
  SUBCASE("a message arrives") {
    carry();
    CHECK(woken == 1);
  }
  SUBCASE("no message arrives: the node polls") {
    CHECK(woken == 0);
    CHECK(settle(*b) <= clock.now().instant + 1s);
    clock.advance(1s);
    settle(*b);
    CHECK(woken == 1);
  }
}

TEST_CASE_FIXTURE(Nodes, "a node knows whether a caller waits for messages of other nodes") {
  int started = 0;
  b->broker->on_wait([&] { ++started; });
  const auto submit_claim = [&](const char* queue) {
    b->broker->submit_claim({.worker = "w", .queues = {queue}, .max = 1}, 20s,
                            [](const OperationResult&) {});
    settle(*b);
  };
  const auto submit_acquire = [&](const char* lease) {
    for (const char* holder : {"one", "two"}) {
      b->broker->submit_acquire({.name = lease, .holder = holder, .ttl = 1min}, 20s,
                                [](const OperationResult&) {});
      settle(*b);
    }
  };
  submit_claim("mainspring.own");
  submit_acquire("mainspring/own");
  CHECK_FALSE(b->broker->waits_for_news());
  started = 0;
  SUBCASE("for a job") {
    submit_claim("q");
  }
  SUBCASE("for a lease") {
    submit_acquire("zz");
  }
  SUBCASE("for a lease whose name comes first") {
    submit_acquire("aa");
  }
  SUBCASE("for the end of a job") {
    b->broker->watch(1, [] {});
  }
  std::shared_ptr<void> listener;
  SUBCASE("for events") {
    listener = b->broker->events().listen(1);
    started = 1;  // other nodes learn of it from the word that asks for them
  }
  CHECK(b->broker->waits_for_news());
  CHECK(started == 1);
}

TEST_CASE_FIXTURE(Nodes, "agenda listeners learn of an earlier due job on another node") {
  int changes = 0;
  b->broker->add_agenda_listener([&] { ++changes; });
  b->broker->hear({.next_due = clock.now().wall + 3s});
  settle(*b);
  CHECK(changes == 1);
  CHECK(b->broker->agenda().next_due == clock.now().wall + 3s);
}

TEST_CASE_FIXTURE(Nodes, "while the database is unavailable, callers receive a time to retry") {
  db.away = true;
  enqueue(*a);
  REQUIRE(last.has_value());
  const auto* error = std::get_if<Error>(&*last);
  REQUIRE(error != nullptr);
  CHECK(error->code == ErrorCode::unavailable);
  CHECK(error->retry_after_ms == 1000);
  db.away = false;
  enqueue(*a);
  CHECK(std::holds_alternative<EnqueueResult>(*last));  // an outage is not fatal
}

TEST_CASE_FIXTURE(Nodes, "a parked claim survives an outage and gets its job afterwards") {
  enqueue(*a);
  b->broker->hear({.queues = {"q"}});
  settle(*b);
  db.away = true;
  const auto got = claim(*b, 30s);  // seems to have work: the claim is tried and parks
  const auto impatient = claim(*b, 0s);
  CHECK_FALSE(got->has_value());
  REQUIRE(impatient->has_value());
  CHECK(std::get<Error>(**impatient).code == ErrorCode::unavailable);
  const int before = db.tries;
  for (int i = 0; i < 100; ++i) {
    clock.advance(100ms);
    settle(*b);
  }
  CHECK(db.tries - before <= 14);  // 10 s: about once per second, no more
  CHECK_FALSE(got->has_value());
  db.away = false;
  clock.advance(1200ms);
  settle(*b);
  CHECK(jobs(got) == 1);
}

TEST_CASE_FIXTURE(Nodes, "a claim parked during an outage ends at the end of its own wait") {
  db.away = true;
  const auto got = claim(*b, 5s);
  clock.advance(5s);
  settle(*b);
  CHECK(jobs(got) == 0);
}
