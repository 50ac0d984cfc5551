// Listeners receive events of committed changes in commit order. No events are built without
// listeners.
#include "broker/events.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "broker/broker.h"
#include "disk_sqlite/sqlite_store.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

struct EventsFixture {
  explicit EventsFixture(EventOptions options = {}) {
    char name[] = "/tmp/mainspring_test_XXXXXX";
    directory = mkdtemp(name);
    store = std::move(
        *open_sqlite_store({.directory = directory, .reserve_bytes = 0}, clock.now(), log));
    open(options);
  }
  ~EventsFixture() {
    broker.reset();
    store.reset();
    std::filesystem::remove_all(directory);
  }
  void open(EventOptions options) {
    broker.reset();
    clock.advance(1s);
    broker =
        std::make_unique<Broker>(*store, clock, log, registry, BrokerOptions{.events = options});
  }
  Events& events() { return broker->events(); }
  OperationResult apply(Operation operation) {
    OperationResult out;
    broker->submit(std::move(operation), [&](OperationResult result) { out = std::move(result); });
    broker->step(clock.now());
    return out;
  }
  JobId enqueue(NewJob job) {
    return std::get<EnqueueResult>(apply(Enqueue{.jobs = {std::move(job)}})).jobs.at(0).id;
  }
  ClaimedJob claim(const std::string& queue = "photos") {
    return std::get<ClaimResult>(apply(Claim{.worker = "w", .queues = {queue}})).jobs.at(0);
  }
  void finish(const ClaimedJob& job, Outcome outcome) {
    apply(Finish{.worker = "w", .results = {{job.id, job.token, std::move(outcome)}}});
  }
  // "started 1 photos/resize 1 why" for each event after `after`.
  std::vector<std::string> texts(std::uint64_t after = 0) {
    std::vector<std::string> out;
    for (const EventPtr& event : events().read(after, 1000).events) {
      std::string line(to_string(event->type));
      if (event->job != 0) line += " " + std::to_string(event->job);
      line += " " + (event->breaker != nullptr ? event->breaker->name
                     : !event->object.empty()  ? event->object
                     : event->facts == nullptr ? "?"
                                               : event->facts->queue + "/" + event->facts->kind);
      if (event->attempt != 0) line += " " + std::to_string(event->attempt);
      if (!event->reason.empty()) line += " " + event->reason;
      out.push_back(std::move(line));
    }
    return out;
  }
  using Lines = std::vector<std::string>;

  std::string directory;
  ManualClock clock;
  NullLog log;
  Registry registry;
  std::unique_ptr<Store> store;
  std::unique_ptr<Broker> broker;
};

const NewJob kPhoto{.queue = "photos", .kind = "resize"};

}  // namespace

TEST_CASE_FIXTURE(EventsFixture, "events come in the order of the commits, each end once") {
  const auto listener = events().listen(1);
  REQUIRE(listener != nullptr);
  enqueue(kPhoto);
  const ClaimedJob job = claim();
  apply(Renew{.worker = "w",
              .leases = {{.id = job.id, .token = job.token, .progress = Progress{0.5, "half"}}}});
  finish(job, Retry{.error = "no", .after = 0s});
  finish(claim(), Snooze{});
  finish(claim(), Defer{"no answer yet"});
  const ClaimedJob last =
      std::get<ClaimResult>(apply(Claim{.worker = "w", .queues = {"photos"}, .job = job.id}))
          .jobs.at(0);
  finish(last, Complete{});
  finish(last, Complete{});  // repeated: the same answer and no change
  apply(PauseQueue{.queue = "photos"});
  apply(PauseQueue{.queue = "photos", .paused = false});
  CHECK(texts() == Lines{"enqueued 1 photos/resize", "started 1 photos/resize 1",
                         "progress 1 photos/resize 1", "retrying 1 photos/resize 1",
                         "started 1 photos/resize 2", "snoozed 1 photos/resize 2",
                         "started 1 photos/resize 2", "deferred 1 photos/resize 2 no answer yet",
                         "started 1 photos/resize 2", "completed 1 photos/resize 2",
                         "queue_paused photos/", "queue_resumed photos/"});
  const auto page = events().read(2, 1);
  REQUIRE(page.events.size() == 1);
  CHECK(page.events[0]->progress == Progress{0.5, "half"});
  CHECK(page.events[0]->at == clock.now().wall);
  CHECK(page.next == 3);
}

TEST_CASE_FIXTURE(EventsFixture,
                  "a job that enters quarantine and leaves it alive makes one event of each") {
  const auto listener = events().listen(1);
  enqueue(kPhoto);
  const auto lose = [&] {
    const ClaimedJob job = claim();
    clock.advance(1s);
    apply(Renew{.worker = "w", .leases = {{job.id, job.token}}});
    clock.advance(31s);
    apply(RescueExpired{});
    clock.advance(3h);
    apply(MoveDue{});
  };
  lose();
  lose();
  CHECK(texts() == Lines{"enqueued 1 photos/resize", "started 1 photos/resize 1",
                         "retrying 1 photos/resize 1", "changed queue/photos",
                         "started 1 photos/resize 2", "retrying 1 photos/resize 2",
                         "quarantined 1 photos/resize 2"});
  apply(OpenQueues{});
  lose();  // it goes back into quarantine, so it has not left
  apply(OpenQueues{});
  finish(claim(), Retry{.error = "no", .after = 0s});
  CHECK(texts(7) == Lines{"started 1 photos/resize 3", "retrying 1 photos/resize 3",
                          "started 1 photos/resize 4", "retrying 1 photos/resize 4",
                          "quarantine_left 1 photos/resize 4"});
  lose();
  lose();
  const std::uint64_t before = events().newest();
  apply(RetryJob{.id = 1});
  CHECK(texts(before) == Lines{"retrying 1 photos/resize", "quarantine_left 1 photos/resize"});
  lose();
  lose();
  apply(OpenQueues{});
  const std::uint64_t last = events().newest();
  finish(claim(), Complete{});  // the end event implies it
  CHECK(texts(last) == Lines{"started 1 photos/resize 9", "completed 1 photos/resize 9"});
}

TEST_CASE_FIXTURE(EventsFixture, "a breaker that opens, half-opens or closes makes an event") {
  const auto listener = events().listen(1);
  apply(PutBreaker{.name = "geo", .settings = {.failures = 1, .open_for = 1min}});
  apply(SetQueueLimits{.queue = "photos", .limits = {.breaker = "geo"}});
  enqueue(kPhoto);
  enqueue(kPhoto);
  finish(claim(), Retry{.error = "no", .after = 1h});
  CHECK(texts(4) ==
        Lines{"started 1 photos/resize 1", "retrying 1 photos/resize 1", "breaker_opened geo"});
  const auto page = events().read(6, 1);
  REQUIRE(page.events.size() == 1);
  CHECK(page.events[0]->breaker->open_until == clock.now().wall + 1min);
  clock.advance(61s);
  apply(OpenQueues{});
  finish(claim(), Complete{});
  apply(CloseBreaker{.name = "geo"});
  const Lines rest = texts(7);
  CHECK(rest.at(0) == "breaker_half_open geo");
  CHECK(rest.back() == "breaker_closed geo");
}

TEST_CASE_FIXTURE(EventsFixture, "a change of an object without events of its own makes one") {
  const auto listener = events().listen(1);
  apply(SetQueueLimits{.queue = "photos", .limits = {.concurrency = 1}});
  apply(SetRetention{.queue = "photos", .completed = 1h});
  apply(SetRetention{.queue = "nowhere", .create = false});  // refused
  const Schedule nightly{.name = "nightly", .every = 1h, .job = kPhoto};
  apply(PutSchedule{
      .schedule = nightly, .next = clock.now().wall + 1h, .next_fire = clock.now().wall + 1h});
  apply(PauseSchedule{.name = "nightly"});
  apply(RemoveSchedule{.name = "nightly"});
  apply(PutBreaker{.name = "geo"});
  apply(RemoveBreaker{.name = "geo"});
  CHECK(texts() == Lines{"changed queue/photos", "changed queue/photos", "changed schedule/nightly",
                         "changed schedule/nightly", "changed schedule/nightly",
                         "changed breaker/geo", "changed breaker/geo"});
  const auto first = events().read(0, 3).events;
  CHECK(first.at(0)->facts->queue == "photos");
  CHECK(first.at(2)->facts->queue == "photos");
}

TEST_CASE_FIXTURE(EventsFixture,
                  "a lock that changes hands makes an event, a renewed one does not") {
  const auto listener = events().listen(1);
  const auto grant = std::get<LeaseGrant>(apply(AcquireLease{.name = "report", .holder = "a"}));
  apply(AcquireLease{.name = "report", .holder = "a"});  // repeated
  apply(RenewLease{.name = "report", .holder = "a", .token = grant.token});
  apply(AcquireLease{.name = "report", .holder = "b"});  // refused
  CHECK(texts() == Lines{"changed lock/report"});
  apply(ReleaseLease{.name = "report", .holder = "a", .token = grant.token});
  CHECK(texts(1) == Lines{"changed lock/report"});
}

TEST_CASE_FIXTURE(EventsFixture, "an edited, a deleted and a due job make events") {
  const auto listener = events().listen(1);
  NewJob later = kPhoto;
  later.delay = 1h;
  enqueue(later);
  apply(EditJob{.id = 1, .priority = 3});
  clock.advance(61min);
  apply(MoveDue{});
  finish(claim(), Complete{});
  apply(DeleteJob{.id = 1});
  CHECK(texts(1) == Lines{"changed 1 job/1", "changed queue/photos", "started 1 photos/resize 1",
                          "completed 1 photos/resize 1", "changed 1 job/1"});
  apply(MoveDue{});  // nothing is due
  CHECK(events().newest() == 6);
}

TEST_CASE_FIXTURE(EventsFixture,
                  "a request that changes a workflow makes one event, and its steps make none") {
  const auto listener = events().listen(1);
  // How many events of the workflow the changes make.
  const auto count = [&](const std::string& object, const std::function<void()>& changes) {
    const std::uint64_t before = events().newest();
    changes();
    const Lines lines = texts(before);
    return std::count(lines.begin(), lines.end(), "changed " + object);
  };
  WorkflowSpec spec{.name = "order", .key = "o-7"};
  StepSpec paid;
  paid.name = paid.signal = "paid";
  spec.steps.push_back(paid);
  for (const char* name : {"a", "b", "c", "d"}) {
    StepSpec step;
    step.name = name;
    step.job = NewJob{.queue = "photos", .kind = "resize", .max_attempts = 1};
    step.on_failure = OnStepFailure::park;
    spec.steps.push_back(step);
  }
  const std::string one = "workflow/1";
  CHECK(count(one, [&] { apply(StartWorkflow{.spec = spec}); }) == 1);
  CHECK(count(one, [&] { apply(StartWorkflow{.spec = spec}); }) == 0);  // a duplicate
  CHECK(count(one, [&] { apply(PauseWorkflow{.id = 1}); }) == 1);
  CHECK(count(one, [&] { apply(PauseWorkflow{.id = 1, .paused = false}); }) == 1);
  CHECK(count(one, [&] { apply(SignalWorkflow{.id = 1, .name = "paid"}); }) == 1);
  CHECK(count("workflow/9", [&] { apply(SignalWorkflow{.id = 9, .name = "paid"}); }) == 0);
  CHECK(count(one, [&] {
          for (int i = 0; i < 3; ++i) finish(claim(), Complete{});
        }) == 0);
  CHECK(count(one, [&] { finish(claim(), Dead{.reason = "broken"}); }) == 1);  // parked
  CHECK(store->workflow(1)->state == WorkflowState::parked);
  CHECK(count(one, [&] { apply(RetryWorkflow{.id = 1}); }) == 1);
  CHECK(count(one, [&] { finish(claim(), Complete{}); }) == 1);
  CHECK(store->workflow(1)->state == WorkflowState::completed);
  CHECK(count("workflow/2", [&] { apply(ForkWorkflow{.id = 1, .step = "d"}); }) == 1);
}

TEST_CASE_FIXTURE(EventsFixture, "an audit record makes no second event of a change") {
  const auto listener = events().listen(1);
  for (const char* object : {"job/1", "trigger/t", "worker/w", "folder/triggered/report"}) {
    Audit record{.who = "ops", .from = "", .action = "a", .object = object};
    record.alone = true;
    apply(std::move(record));
  }
  CHECK(texts() == Lines{"changed folder/triggered/report"});
}

TEST_CASE_FIXTURE(EventsFixture,
                  "an end event has the reason, also where the request has only an id") {
  const auto listener = events().listen(1);
  for (int i = 0; i < 5; ++i) enqueue({.queue = "photos", .kind = "resize", .max_attempts = 1});
  finish(claim(), Dead{.reason = "broken", .description = "long"});
  finish(claim(), Retry{.error = "no"});
  finish(claim(), CancelJob{.reason = "mine"});
  apply(Cancel{.id = 4, .reason = "theirs"});
  const ClaimedJob running = claim();
  apply(Cancel{.id = running.id, .reason = "stop it"});
  finish(running, Snooze{});
  const Lines lines = texts(5);
  CHECK(lines == Lines{"started 1 photos/resize 1", "dead 1 photos/resize 1 broken",
                       "started 2 photos/resize 1", "dead 2 photos/resize 1 max_attempts",
                       "started 3 photos/resize 1", "cancelled 3 photos/resize 1 mine",
                       "cancelled 4 photos/resize theirs", "started 5 photos/resize 1",
                       "cancelled 5 photos/resize 1 stop it"});
}

TEST_CASE_FIXTURE(EventsFixture, "jobs that the scheduler ends, rescues or creates make events") {
  const auto listener = events().listen(1);
  NewJob job = kPhoto;
  job.follow_ups = {{.queue = "mail", .kind = "receipt", .on = FollowUp::kCompleted}};
  enqueue(job);
  enqueue({.queue = "films", .kind = "cut", .expires_in = 1s});
  enqueue({.queue = "films", .kind = "cut", .expires_in = 1s, .on_expiry = OnExpiry::dead});
  const ClaimedJob lost = claim();
  clock.advance(1s);
  apply(Renew{.worker = "w", .leases = {{lost.id, lost.token}}});
  clock.advance(31s);
  apply(RescueExpired{});
  apply(ExpireJobs{});
  apply(RetryJob{.id = 1});
  finish(claim(), Complete{});
  CHECK(texts(4) == Lines{"retrying 1 photos/resize 1", "cancelled 2 films/cut expired",
                          "dead 3 films/cut expired", "retrying 1 photos/resize",
                          "started 1 photos/resize 2", "completed 1 photos/resize 2",
                          "enqueued 4 mail/receipt"});
}

TEST_CASE_FIXTURE(EventsFixture,
                  "jobs that progress and messages of a running job create make events") {
  const auto listener = events().listen(1);
  NewJob job = kPhoto;
  job.follow_ups = {{.queue = "mail", .kind = "note", .on = FollowUp::kMessage},
                    {.queue = "page", .kind = "shown", .on = FollowUp::kProgress}};
  enqueue(job);
  const ClaimedJob running = claim();
  Renewal renewal{.id = running.id, .token = running.token, .progress = Progress{0.5, "half"}};
  renewal.messages = {"1"};
  apply(Renew{.worker = "w", .leases = {renewal}});
  const Lines lines = texts();
  CHECK(std::count(lines.begin(), lines.end(), "enqueued 2 page/shown") == 1);
  CHECK(std::count(lines.begin(), lines.end(), "enqueued 3 mail/note") == 1);
}

TEST_CASE_FIXTURE(EventsFixture, "without a listener no events are built and no jobs are read") {
  enqueue(kPhoto);
  finish(claim(), Complete{});
  CHECK(events().recorded() == 0);
  CHECK(events().newest() == 0);
  CHECK_FALSE(events().wanted(clock.now().instant));
  {
    const auto listener = events().listen(1);
    const auto reads = store->reads();
    enqueue(kPhoto);
    finish(claim(), Complete{});
    CHECK(texts().size() == 3);
    CHECK(store->reads() == reads);  // jobs claimed meanwhile are known
    CHECK(events().recorded() == 3);
  }
  // Events are kept for a while, for a listener that comes back.
  clock.advance(59s);
  enqueue(kPhoto);
  CHECK(events().recorded() == 4);
  clock.advance(2s);
  enqueue(kPhoto);
  CHECK(events().recorded() == 4);
}

TEST_CASE_FIXTURE(
    EventsFixture,
    "a listener that returns after a time without listeners sees that events are missing") {
  auto listener = events().listen(1);
  enqueue(kPhoto);
  const std::uint64_t seen = events().newest();
  CHECK(seen == 1);
  listener.reset();
  clock.advance(61s);
  enqueue(kPhoto);  // no listener sees it
  listener = events().listen(1);
  enqueue(kPhoto);
  CHECK(events().read(seen, 10).missed == 1);
  CHECK(texts(events().oldest()) == Lines{"enqueued 3 photos/resize"});
}

TEST_CASE("a listener that lags behind the whole ring learns how many events it missed") {
  EventsFixture f({.buffer = 3});
  const auto listener = f.events().listen(1);
  for (int i = 0; i < 5; ++i) f.enqueue(kPhoto);
  CHECK(f.events().oldest() == 2);
  const auto page = f.events().read(0, 10);
  CHECK(page.missed == 2);
  CHECK(page.events.empty());
  CHECK(f.texts(2).size() == 3);
  CHECK(f.texts(2).front() == "enqueued 3 photos/resize");
}

TEST_CASE_FIXTURE(
    EventsFixture,
    "a watch is called once, after the commit, or at once if there are newer events") {
  const auto listener = events().listen(1);
  int called = 0;
  auto watch = events().watch(0, [&] { ++called; });
  enqueue(kPhoto);
  enqueue(kPhoto);
  CHECK(called == 1);
  auto late = events().watch(1, [&] { ++called; });
  CHECK(called == 2);
  auto ended = events().watch(2, [&] { ++called; });
  ended.reset();
  enqueue(kPhoto);
  CHECK(called == 2);
}

TEST_CASE_FIXTURE(EventsFixture, "the number of listeners is limited") {
  auto one = events().listen(2), two = events().listen(2);
  CHECK(events().listen(2) == nullptr);
  one.reset();
  CHECK(events().listen(2) != nullptr);
}

TEST_CASE_FIXTURE(
    EventsFixture,
    "a job claimed before the first listener is read once, and never by the commit loop") {
  enqueue({.queue = "photos", .kind = "resize", .tags = {"a"}});
  const ClaimedJob job = claim();
  const auto listener = events().listen(1);
  const auto reads = store->reads();
  finish(job, Complete{});
  CHECK(store->reads() == reads);
  const auto page = events().read(0, 10);
  REQUIRE(page.events.size() == 1);
  CHECK(page.events[0]->facts->tags == std::vector<std::string>{"a"});
  const auto after = store->reads();
  CHECK(after > reads);
  CHECK(texts() == Lines{"completed 1 photos/resize 1"});
  CHECK(store->reads() == after);
}

TEST_CASE_FIXTURE(EventsFixture,
                  "an end reported by another node has its outcome; a revived job is a gap") {
  enqueue(kPhoto);
  enqueue(kPhoto);
  finish(claim(), Dead{.reason = "broken"});
  const auto listener = events().listen(1);
  const std::vector<JobId> heard{1, 2, 99};
  events().record_ended(heard, clock.now());
  CHECK(texts() == Lines{"dead 1 photos/resize 1 broken", "gap 2 photos/resize", "gap 99 ?"});
}
