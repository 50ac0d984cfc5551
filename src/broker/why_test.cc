// Each gate is named when it is the one that holds the job.
#include "broker/why.h"

#include <doctest/doctest.h>

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

const WallTime kNow = WallTime::from_us(1'700'000'000'000'000);

Job job_in(JobState state) {
  Job job;
  job.id = 7;
  job.queue = "photos";
  job.kind = "thumbnail";
  job.state = state;
  job.run_at = kNow;
  return job;
}

Gate gate_of(const Job& job, bool paused = false, std::vector<WorkerInfo> workers = {}) {
  QueueStats queue;
  queue.name = "photos";
  queue.paused = paused;
  const Why why = why_of(job, &queue, workers, nullptr, kNow);
  CHECK_FALSE(why.text.empty());
  return why.gate;
}

WorkerInfo worker(std::string queue, bool parked, Duration last_seen = 0s) {
  WorkerInfo info;
  info.last_seen = last_seen;
  info.id = "w1";
  info.queues = {std::move(queue)};
  info.parked = parked;
  return info;
}

WorkerInfo busy_worker(std::string queue, Duration last_seen = 0s) {
  WorkerInfo info = worker(std::move(queue), false, last_seen);
  info.running = 1;
  return info;
}

}  // namespace

TEST_CASE("a job that has ended shows its outcome") {
  Job job = job_in(JobState::dead);
  job.reason = "max_attempts";
  job.errors.push_back({.attempt = 20, .message = "disk on fire"});
  CHECK(gate_of(job) == Gate::ended);
  CHECK(why_of(job, nullptr, {}, nullptr, kNow).text == "it is dead: max_attempts, disk on fire");
}

TEST_CASE("a running job shows its worker") {
  Job job = job_in(JobState::running);
  job.worker = "w1";
  job.attempt = 2;
  job.cancel_requested = true;
  CHECK(gate_of(job) == Gate::running);
  CHECK(why_of(job, nullptr, {}, nullptr, kNow).text ==
        "it runs at w1, attempt 2 of 20; its worker has been asked to stop it");
}

TEST_CASE("a job that is not due shows when it is, and the last error") {
  Job job = job_in(JobState::scheduled);
  job.run_at = kNow + 5min;
  CHECK(gate_of(job) == Gate::time);
  CHECK(why_of(job, nullptr, {}, nullptr, kNow).until == job.run_at);
  job.state = JobState::retryable;
  job.attempt = 1;
  job.errors.push_back({.attempt = 1, .message = "no route"});
  const Why why = why_of(job, nullptr, {}, nullptr, kNow);
  CHECK(why.gate == Gate::time);
  CHECK(why.text.find("no route") != std::string::npos);
  job.run_at = kNow;
  CHECK(gate_of(job) == Gate::claim);
}

TEST_CASE("a pause is reported before time and workers") {
  Job later = job_in(JobState::scheduled);
  later.run_at = kNow + 5min;
  CHECK(gate_of(later, true) == Gate::queue_paused);
  CHECK(gate_of(job_in(JobState::available), true, {worker("photos", true)}) == Gate::queue_paused);
}

TEST_CASE("a limit of the queue is reported before workers, with its end if that is known") {
  const Job job = job_in(JobState::available);
  QueueStats queue{.name = "photos"};
  queue.limits = {.concurrency = 2, .rate = RateLimit{10, 1min, RateKind::fixed, 0}};
  queue.counts[static_cast<std::size_t>(JobState::running)] = 1;
  const auto why = [&] { return why_of(job, &queue, {worker("photos", true)}, nullptr, kNow); };
  CHECK(why().gate == Gate::claim);
  queue.opens_at = kNow + 20s;
  CHECK(why().gate == Gate::rate);
  CHECK(why().until == kNow + 20s);
  queue.counts[static_cast<std::size_t>(JobState::running)] = 2;
  CHECK(why().gate == Gate::concurrency);
  CHECK(why().text == "2 jobs of queue photos run; the limit is 2");
}

TEST_CASE("the limit of a job's limit key is named after the limits of its queue") {
  Job job = job_in(JobState::available);
  QueueStats queue{.name = "photos"};
  queue.limits.per_key.concurrency = 2;
  std::optional<WallTime> opens_at;
  const auto why = [&](std::int64_t running) {
    return why_of(job, &queue, {worker("photos", true)}, nullptr, kNow,
                  LimitKeyInfo{.running = running, .opens_at = opens_at});
  };
  CHECK(why(2).gate == Gate::claim);
  job.limit_key = "acme";
  CHECK(why(1).gate == Gate::claim);
  CHECK(why(2).gate == Gate::key_concurrency);
  CHECK(why(2).text == "2 jobs of queue photos with limit_key \"acme\" run; the limit is 2");
  queue.limits.per_key.rate = RateLimit{.count = 3, .per = 60s};
  opens_at = kNow;
  CHECK(why(1).gate == Gate::claim);
  opens_at = kNow + 20s;
  CHECK(why(1).gate == Gate::key_rate);
  CHECK(why(1).until == opens_at);
  CHECK(
      why(1).text.starts_with("queue photos starts at most 3 jobs per 1m with limit_key "
                              "\"acme\": closed for this key until "));
  CHECK(why(2).gate == Gate::key_concurrency);
  queue.limits.concurrency = 1;
  queue.counts[static_cast<std::size_t>(JobState::running)] = 2;
  CHECK(why(2).gate == Gate::concurrency);
}

TEST_CASE("with costs, the job's cost and the used or free slots are shown") {
  Job job = job_in(JobState::available);
  job.kind = "render";
  QueueStats queue{.name = "photos"};
  queue.limits.concurrency = 6;
  queue.limits.costs = {{"render", 4}};
  LimitKeyInfo key;
  const auto why = [&] {
    return why_of(job, &queue, {worker("photos", true)}, nullptr, kNow, key);
  };
  queue.slots_taken = 2;
  CHECK(why().gate == Gate::claim);
  CHECK_FALSE(waits_for_heavy(queue, kNow));
  queue.slots_taken = 3;
  CHECK(why().gate == Gate::concurrency);
  CHECK(why().text == "it costs 4: 3 of the 6 slots of queue photos are taken");
  const auto heavy = waits_for_heavy(queue, kNow);
  REQUIRE(heavy);
  CHECK(heavy->gate == Gate::concurrency);
  CHECK(heavy->text ==
        "a job before it that costs more slots, for example of kind render, may be waiting; it "
        "costs 4: 3 of the 6 slots of queue photos are taken");
  job.kind = "light";
  CHECK(why().gate == Gate::claim);
  queue.slots_taken = 6;
  CHECK(why().text == "6 of the 6 slots of queue photos are taken");
  queue.limits.concurrency.reset();
  queue.limits.rate = RateLimit{5, 1min, RateKind::bucket, 0};
  queue.meter.take(*queue.limits.rate, kNow, 3);
  CHECK(why().gate == Gate::claim);
  job.kind = "render";
  CHECK(why().gate == Gate::rate);
  CHECK(why().until == kNow + 24s);
  CHECK(why().text.starts_with(
      "it costs 4: queue photos starts at most 5 per 1m, 2 are left; 4 at "));
  queue.limits.rate.reset();
  queue.limits.per_key.concurrency = 3;  // a render job takes all of it
  job.limit_key = "acme";
  key.slots_taken = 1;
  CHECK(why().gate == Gate::key_concurrency);
  CHECK(why().text ==
        "it costs 4: 1 of the 3 slots of queue photos with limit_key \"acme\" is taken");
  key.slots_taken = 0;
  CHECK(why().gate == Gate::claim);
}

TEST_CASE("a job that waits for a busy worker shows its effective priority and fair service") {
  Job job = job_in(JobState::available);
  job.priority = 5;
  job.run_at = kNow - 25min;
  QueueStats queue{.name = "photos"};
  queue.limits.ageing = 10min;
  queue.limits.per_key.fair = true;
  const Why why = why_of(job, &queue, {busy_worker("photos")}, nullptr, kNow);
  CHECK(why.gate == Gate::busy_workers);
  CHECK(why.text ==
        "1 worker takes jobs of queue photos; all its slots are busy; its priority 5 counts as 3 "
        "by now; limit keys are served fairly");
}

TEST_CASE("a worker that has ended or stopped claiming does not count as busy") {
  const Job job = job_in(JobState::available);
  const auto why = [&](const std::vector<WorkerInfo>& workers) {
    return why_of(job, nullptr, workers, nullptr, kNow);
  };
  const Why gone = why({worker("photos", false, 3min), worker("photos", false, 43s)});
  CHECK(gone.gate == Gate::no_worker);
  CHECK(gone.text ==
        "no worker waits for jobs of queue photos: the last one, w1, was seen 43s ago");
  CHECK(why({worker("photos", false, 1s)}).gate == Gate::no_worker);  // ended a second ago
  // It waits for its job, with renewals that are far apart.
  const Why held = why({worker("photos", false, 3min), busy_worker("photos", 43s)});
  CHECK(held.gate == Gate::busy_workers);
  CHECK(held.text == "1 worker takes jobs of queue photos; all its slots are busy");
  CHECK(why({worker("photos", true, 43s)}).gate == Gate::claim);
}

TEST_CASE("the breaker of the queue is reported before other limits, with the end of open") {
  const Job job = job_in(JobState::available);
  QueueStats queue{.name = "photos"};
  queue.limits.concurrency = 1;
  queue.counts[static_cast<std::size_t>(JobState::running)] = 1;
  BreakerInfo breaker{.name = "geo", .settings = {}, .queues = {}};
  const auto why = [&] {
    return why_of(job, &queue, {worker("photos", true)}, nullptr, kNow, {}, &breaker);
  };
  CHECK(why().gate == Gate::concurrency);
  breaker.state = BreakerState::open;
  breaker.open_until = kNow + 20s;
  CHECK(why().gate == Gate::breaker);
  CHECK(why().until == kNow + 20s);
  CHECK(why().text.starts_with("breaker geo of queue photos is open until "));
  breaker.state = BreakerState::half_open;
  breaker.room = breaker.probes = 1;
  CHECK(why().gate == Gate::breaker);
  CHECK(why().text ==
        "breaker geo of queue photos is half open: 1 probe runs; the limit is 1 until "
        "one has succeeded");
  breaker.probes = 0;
  CHECK(why().gate == Gate::concurrency);
}

TEST_CASE("an available job waits for any worker, for a free one, or for the next claim") {
  const Job job = job_in(JobState::available);
  CHECK(gate_of(job) == Gate::no_worker);
  CHECK(gate_of(job, false, {worker("mails", true)}) == Gate::no_worker);
  CHECK(gate_of(job, false, {busy_worker("photos")}) == Gate::busy_workers);
  CHECK(gate_of(job, false, {busy_worker("photos"), worker("photos", true)}) == Gate::claim);
}

TEST_CASE("a job that waits for an earlier run of its schedule shows that") {
  CHECK(gate_of(job_in(JobState::waiting)) == Gate::earlier_run);
  Job aside = job_in(JobState::waiting);
  aside.deferred = true;
  aside.reason = "no answer yet";
  const Why deferred = why_of(aside, nullptr, {}, nullptr, WallTime());
  CHECK(deferred.gate == Gate::deferred);
  CHECK(deferred.text.find(": no answer yet; run it with `mainspring work") != std::string::npos);
}

TEST_CASE("a job of a session shows which job it waits for") {
  Job job = job_in(JobState::waiting);
  job.session = "customer 7";
  SessionInfo session{.session = {"photos", "customer 7"}, .jobs = 3, .head = 5};
  const auto why = [&] { return why_of(job, nullptr, {}, &session, kNow); };
  CHECK(why().gate == Gate::session_head);
  CHECK(why().text == "waits for job 5, the head of session \"customer 7\" with 3 jobs");
  session.head = 0;
  session.stop = SessionStop::blocked;
  session.stopped_by = 4;
  CHECK(why().gate == Gate::session_stopped);
  CHECK(why().text ==
        "session \"customer 7\" is blocked by dead job 4: retry that job, or continue without it: "
        "`mainspring sessions resume photos 'customer 7'`");
  session.stop = SessionStop::parked;
  CHECK(why().text ==
        "session \"customer 7\" is parked since job 4 died: `mainspring sessions resume photos "
        "'customer 7'`");
  session.stop = SessionStop::none;
  session.head = job.id;
  session.worker = "w1";
  session.expires_in = 11'200ms;
  CHECK(why().gate == Gate::session_held);
  CHECK(why().text ==
        "session \"customer 7\" is held by worker w1 for at least 12s: only that worker gets the "
        "job");
  CHECK(why_of(job, nullptr, {}, nullptr, kNow).gate == Gate::session_head);
}

TEST_CASE("a job in quarantine waits for its turn there; a released one waits like any other") {
  Job job = job_in(JobState::retryable);
  job.run_at = kNow + 20s;
  job.quarantined = Quarantine{.since = kNow - 60s, .lost = 2, .released = false};
  Why why = why_of(job, nullptr, {}, nullptr, kNow);
  CHECK(why.gate == Gate::quarantine);
  CHECK(to_string(why.gate) == "quarantine");
  CHECK(why.text.find("its last 2 attempts were lost with their workers") != std::string::npos);
  CHECK(why.text.find("not before " + format_wall_time(job.run_at)) != std::string::npos);
  CHECK(why.text.find("`mainspring quarantine release 7`") != std::string::npos);
  Why next = why;
  add_before_in_quarantine(next, 0);
  CHECK(next.text.ends_with("; it is next"));
  add_before_in_quarantine(why, 1);
  CHECK(why.ahead == 1);
  CHECK(why.text.ends_with("; 1 is before it"));
  CHECK(gate_of(job, true) == Gate::queue_paused);
  job.state = JobState::available;
  job.quarantined->released = true;
  CHECK(gate_of(job) == Gate::no_worker);
}
