// Brokers of several nodes over one store: what one does, the others hear of; an outage is waited
// out.
#include <doctest/doctest.h>

#include "broker/nodes_bench.h"

using namespace mainspring;

TEST_CASE_FIXTURE(Nodes, "a job enqueued on one node wakes a claim that is parked on another") {
  const auto got = claim(*b);
  CHECK_FALSE(got->has_value());
  enqueue(*a);
  REQUIRE(a->told.size() == 1);
  CHECK(a->told[0].queues == std::vector<std::string>{"q"});
  settle(*b);
  CHECK_FALSE(got->has_value());  // nobody told it
  carry();
  CHECK(jobs(got) == 1);
}

TEST_CASE_FIXTURE(Nodes, "an end that is heard of another node is told to those who listen here") {
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
  CHECK(a->broker->events().recorded() == 0);  // nobody listens there
}

TEST_CASE_FIXTURE(Nodes, "a cancel on one node is told over the claim that is parked on another") {
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
  // Whoever has no claim parked is told with the next one.
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

TEST_CASE_FIXTURE(Nodes, "what one node counts, the others see after its next poll") {
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

TEST_CASE_FIXTURE(Nodes, "a claim whose commit was slow has so much less of its lease left") {
  enqueue(*a, 3);
  const auto lease_left = [this] { return std::get<ClaimResult>(**claim(*a)).jobs.at(0).lease; };
  CHECK(lease_left() == kDefaultLease);
  db.slow = [this] { clock.advance(12s); };
  CHECK(lease_left() == kDefaultLease - 12s);
  db.slow = [this] { clock.advance(1h); };
  CHECK(lease_left() == 1ms);  // 0 would say that it is not known
}

TEST_CASE_FIXTURE(Nodes, "what a node hands over to its own claims is not told to others") {
  const auto got = claim(*a);
  enqueue(*a);
  CHECK(jobs(got) == 1);
  for (const Heard& told : a->told) CHECK(told.queues.empty());
}

TEST_CASE_FIXTURE(Nodes, "work that nobody told of is found by the poll, within 6 s") {
  const auto got = claim(*b);
  enqueue(*a);
  const Instant next = settle(*b);
  CHECK(next <= clock.now().instant + 6s);
  CHECK(next >= clock.now().instant + 3s);
  clock.advance(6s);
  settle(*b);
  CHECK(jobs(got) == 1);
}

TEST_CASE_FIXTURE(Nodes, "an idle node asks once in 4 to 6 s, however often it is stepped") {
  const int before = b->store.refreshes;
  for (int i = 0; i < 600; ++i) {
    clock.advance(100ms);
    settle(*b);
  }
  CHECK(b->store.refreshes - before >= 60 / 6);
  CHECK(b->store.refreshes - before <= 60 / 4);
}

TEST_CASE_FIXTURE(Nodes, "a bell for nothing leaves the claims parked") {
  const auto got = claim(*b);
  b->broker->hear({.queues = {"q", "elsewhere"}});
  settle(*b);
  CHECK_FALSE(got->has_value());
  CHECK(b->broker->parked_claims() == 1);
  enqueue(*a);
  carry();
  CHECK(jobs(got) == 1);
}

TEST_CASE_FIXTURE(Nodes, "of many parked claims few are tried until work is found, then the rest") {
  std::vector<Answered> parked;
  for (int i = 0; i < 40; ++i) parked.push_back(claim(*b));
  enqueue(*a, 40);
  carry();
  for (const Answered& one : parked) CHECK(jobs(one) == 1);
}

TEST_CASE_FIXTURE(Nodes, "a claim whose node hears that everything may have changed gets its job") {
  const auto got = claim(*b);
  enqueue(*a);
  clock.advance(1s);
  b->broker->hear({.everything = true});
  settle(*b);
  CHECK(jobs(got) == 1);
}

TEST_CASE_FIXTURE(Nodes,
                  "whoever shouts everything makes a node ask no more than ten times a second") {
  const int before = b->store.refreshes;
  for (int i = 0; i < 1000; ++i) {
    clock.advance(1ms);
    b->broker->hear({.everything = true});
    settle(*b);
  }
  CHECK(b->store.refreshes - before <= 11);
}

TEST_CASE_FIXTURE(Nodes, "a lease released on one node is had at once by who waits on another") {
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

TEST_CASE_FIXTURE(Nodes, "who waits for a job hears that it has ended on another node") {
  enqueue(*a);
  int woken = 0;
  b->broker->watch(job, [&] { ++woken; });
  a->broker->submit(Cancel{.id = job}, [](const OperationResult&) {});
  settle(*a);
  settle(*b);
  SUBCASE("it is told") {
    carry();
    CHECK(woken == 1);
  }
  SUBCASE("nobody told it: it looks") {
    CHECK(woken == 0);
    CHECK(settle(*b) <= clock.now().instant + 1s);
    clock.advance(1s);
    settle(*b);
    CHECK(woken == 1);
  }
}

TEST_CASE_FIXTURE(Nodes, "a node knows whether somebody waits for what others say") {
  int begun = 0;
  b->broker->on_wait([&] { ++begun; });
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
  begun = 0;
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
    begun = 1;  // others hear of it by the word that asks for them
  }
  CHECK(b->broker->waits_for_news());
  CHECK(begun == 1);
}

TEST_CASE_FIXTURE(Nodes,
                  "a job due earlier on another node is heard by those who keep the agenda") {
  int changes = 0;
  b->broker->add_agenda_listener([&] { ++changes; });
  b->broker->hear({.next_due = clock.now().wall + 3s});
  settle(*b);
  CHECK(changes == 1);
  CHECK(b->broker->agenda().next_due == clock.now().wall + 3s);
}

TEST_CASE_FIXTURE(Nodes, "while the database is away callers are told when to come again") {
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

TEST_CASE_FIXTURE(Nodes, "a parked claim waits an outage out, and gets its job when it is over") {
  enqueue(*a);
  b->broker->hear({.queues = {"q"}});
  settle(*b);
  db.away = true;
  const auto got = claim(*b, 30s);  // seems to have work: it is tried, and parks
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

TEST_CASE_FIXTURE(Nodes, "a claim parked all through an outage ends when its own wait does") {
  db.away = true;
  const auto got = claim(*b, 5s);
  clock.advance(5s);
  settle(*b);
  CHECK(jobs(got) == 0);
}
