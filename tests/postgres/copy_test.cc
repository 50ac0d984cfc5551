// Copies and moves of stores: interruptions, refusals, and the copied data.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <future>
#include <optional>

#include "api/workflow_shapes.h"
#include "base/mutant.h"
#include "conformance/compare.h"
#include "postgres/copy_places.h"
#include "postgres/places.h"

namespace mainspring {
namespace {

using pg_testing::copy_between;
using pg_testing::CopyPlace;
using pg_testing::must;
using pg_testing::must_copy;
using pg_testing::PlaceKind;
using Stage = CopyProgress::Stage;

constexpr std::array kKinds = {PlaceKind::directory, PlaceKind::schema};

PlaceKind other(PlaceKind kind) {
  return kind == PlaceKind::schema ? PlaceKind::directory : PlaceKind::schema;
}

// A store that is open at a place, with the operations of a test.
class Server {
 public:
  explicit Server(const CopyPlace& place) : store_(must(place.open(clock_.now()))) {}

  Store& store() { return *store_; }
  ManualClock& clock() { return clock_; }
  Result<OperationResult> apply(Operation operation) {
    MS_TRY_ASSIGN(BatchReport report, store_->apply({&operation, 1}, clock_.now()));
    return std::move(report.results[0]);
  }
  template <class T>
  T must_apply(Operation operation) {
    return std::get<T>(must(apply(std::move(operation))));
  }
  JobId enqueue() {
    NewJob job{.queue = "mail", .kind = "greet", .args = "{}"};
    return must_apply<EnqueueResult>(Enqueue{.jobs = {std::move(job)}}).jobs[0].id;
  }
  ClaimedJob claim() {
    auto jobs = must_apply<ClaimResult>(Claim{.worker = "w", .queues = {"mail"}}).jobs;
    REQUIRE(jobs.size() == 1);
    return jobs[0];
  }
  FinishStatus complete(const ClaimedJob& job) {
    const Finish finish{.worker = "w", .results = {{job.id, job.token, Complete{"[1]"}}}};
    return must_apply<FinishResult>(finish).results[0];
  }
  void must_be_moved() {
    const auto answer = apply(Enqueue{.jobs = {{.queue = "mail", .kind = "greet", .args = "{}"}}});
    REQUIRE(!answer);
    CHECK(answer.error().code == ErrorCode::unavailable);
    CHECK(answer.error().retry_after_ms > 0);
    CHECK(answer.error().message.find("has moved to") != std::string::npos);
    CHECK(!store_->moved_to().empty());
  }

 private:
  ManualClock clock_;
  std::unique_ptr<Store> store_;
};

// Several blocks of jobs, in many states, with keys.
void fill(Server& server, int batches) {
  for (int i = 0; i < batches; ++i) {
    Enqueue enqueue{.idempotency_key = fmt::format("request {}", i), .fingerprint = "f"};
    for (int n = 0; n < 100; ++n) {
      NewJob job{.queue = n % 3 == 0 ? "mail" : "other", .kind = "greet"};
      job.args = fmt::format("[{},{}]", i, n);
      if (n % 10 == 0) job.unique = Unique{.key = fmt::format("key {} {}", i, n)};
      if (n % 10 == 1) job.delay = std::chrono::hours(1);
      if (n % 10 == 2) job.tags = {"tag", std::string("a\0b\xff", 4)};
      if (n % 10 == 1)
        job.follow_ups = {{.queue = "next", .kind = "k", .on = FollowUp::kDead, .data = "[1]"}};
      if (n % 20 == 11) job.reply_to = "answers";
      if (n % 10 == 3) job.correlation_id = std::string("\x01\0\xff", 3);
      enqueue.jobs.push_back(std::move(job));
    }
    REQUIRE(server.must_apply<EnqueueResult>(enqueue).jobs.size() == 100);
    server.complete(server.claim());
    const ClaimedJob claimed = server.claim();
    Renew renew{.worker = "w", .leases = {{.id = claimed.id, .token = claimed.token}}};
    renew.leases[0].memos = {{"pay", "[1]"}, {"ship", "2"}};
    server.must_apply<RenewResult>(renew);
    const ClaimedJob failed = server.claim();
    Finish finish{.worker = "w", .results = {{.id = failed.id, .token = failed.token}}};
    finish.results[0].outcome = Retry{.error = "e",
                                      .after = std::chrono::hours(1),
                                      .program = {.signal = 9, .peak_memory = 50'000'000}};
    server.must_apply<FinishResult>(finish);
    server.clock().advance(std::chrono::seconds(1));
  }
}

// Equal except for the leases, which restart, and the next numbers.
void must_be_equal(const CopyPlace& from, const CopyPlace& to, Now now) {
  const auto a = must(from.open(now, {}, IfMoved::open)), b = must(to.open(now));
  const std::string why = differs(*a, *b);
  if (!why.empty()) FAIL(why);
  const VerifyReport verified = must(b->verify());
  if (!verified.problems.empty()) FAIL(verified.problems[0]);
}

// The error of the copy.
std::string refusal(const CopyPlace& from, const CopyPlace& to) {
  const auto report = copy_between(from, to, SystemClock());
  REQUIRE(!report);
  CHECK(report.error().code == ErrorCode::conflict);
  return report.error().message;
}

// Runs the copy in a process that is killed at its `steps`-th progress report. False: it
// completed.
bool copy_and_kill(const CopyPlace& from, const CopyPlace& to, Now now, int steps) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    CopyOptions options;
    int left = steps;
    options.progress = [&](const CopyProgress&) {
      if (--left == 0) raise(SIGKILL);
    };
    const auto report = copy_between(from, to, pg_testing::StandingClock(now), std::move(options));
    _exit(report && report->problems.empty() ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) REQUIRE(WEXITSTATUS(status) == 0);
  return WIFSIGNALED(status);
}

TEST_CASE("a copy that is killed at any moment leaves the source intact and can be continued") {
  for (const PlaceKind kind : kKinds) {
    const CopyPlace from(kind), to(other(kind));
    Now now;
    int kills = 0;
    {
      Server server(from);
      fill(server, 25);
      // Each time a little later, until one completes. Meanwhile the source changes: jobs are
      // added, end, and are pruned.
      for (int steps = 1; copy_and_kill(from, to, server.clock().now(), steps); ++steps) {
        ++kills;
        CHECK(!to.open(server.clock().now()));
        server.clock().advance(std::chrono::minutes(kills == 3 ? 60 * 25 : 1));
        server.must_apply<StepResult>(PruneJobs{1000, {}});
        server.must_apply<StepResult>(MoveDue{100, {}});
        server.must_apply<StepResult>(RescueExpired{1000, {}});
        fill(server, 1);
      }
      server.must_be_moved();
      now = server.clock().now();
    }
    CHECK(kills > 4);
    must_be_equal(from, to, now);
  }
}

TEST_CASE("a copy that ends at the mark is finished by another one") {
#if defined(MAINSPRING_MUTANTS)
  for (const PlaceKind kind : kKinds) {
    const CopyPlace from(kind), to(other(kind)), third(kind);
    auto server = std::make_unique<Server>(from);
    fill(*server, 1);
    set_mutant("copy_ends_at_the_mark");
    const auto cut = copy_between(from, to, SystemClock());
    set_mutant("");
    CHECK(!cut);
    server->must_be_moved();
    const Now now = server->clock().now();
    server.reset();
    CHECK(to.open(now).error().message.find("unfinished copy") != std::string::npos);
    CHECK(refusal(from, third).find("has moved to") != std::string::npos);
    CHECK(must(copy_between(from, to, SystemClock())).only_finished);
    CHECK(must(copy_between(from, to, SystemClock())).only_finished);
    must_be_equal(from, to, now);
  }
#endif
}

TEST_CASE(
    "a worker finishes at the target what it began at the source, and new tokens are greater") {
  for (const PlaceKind kind : kKinds) {
    const CopyPlace from(kind), to(other(kind));
    Server server(from);
    server.enqueue();
    server.enqueue();
    const ClaimedJob first = server.claim();
    const ClaimedJob second = server.claim();
    server.must_apply<CancelResult>(Cancel{second.id, "unwanted"});
    const LeaseGrant lease = server.must_apply<LeaseGrant>(
        AcquireLease{.name = "l", .holder = "h", .ttl = std::chrono::seconds(30)});
    must_copy(from, to, SystemClock());
    Server after(to);
    const RenewResult renewed = after.must_apply<RenewResult>(
        Renew{.worker = "w",
              .leases = {{first.id, first.token, {}, {}}, {second.id, second.token, {}, {}}}});
    CHECK(renewed.lost.empty());
    CHECK(renewed.cancel == std::vector<JobId>{second.id});
    CHECK(after.complete(first) == FinishStatus::ok);
    CHECK(after.must_apply<LeaseGrant>(RenewLease{.name = "l", .holder = "h", .token = lease.token})
              .token == lease.token);
    CHECK(after.enqueue() == second.id + 1);
    const Token next = after.claim().token;
    CHECK(next > second.token);
    CHECK(next > lease.token);
    CHECK(next > 1'000'000);  // of another range
  }
}

TEST_CASE("on_expiry of a job moves with it") {
  for (const PlaceKind kind : kKinds) {
    const CopyPlace from(kind), to(other(kind));
    Server server(from);
    NewJob job{.queue = "q", .kind = "k"};
    job.expires_in = std::chrono::hours(1);
    const auto put = [&](OnExpiry policy) {
      job.on_expiry = policy;
      return server.must_apply<EnqueueResult>(Enqueue{.jobs = {job}}).jobs[0].id;
    };
    const JobId cancelled = put(OnExpiry::cancel), dead = put(OnExpiry::dead);
    must_copy(from, to, SystemClock());
    Server after(to);
    CHECK(must(after.store().get(cancelled)).on_expiry == OnExpiry::cancel);
    CHECK(must(after.store().get(dead)).on_expiry == OnExpiry::dead);
  }
}

TEST_CASE("a window that is open moves also when its job has been pruned") {
  constexpr int kJobs = 5;
  const auto keyed = [](int i) {
    NewJob job{.queue = i % 2 == 0 ? "mail" : "other", .kind = "greet", .args = "{}"};
    job.unique = Unique{.key = fmt::format("key {}\x01", i), .window = std::chrono::hours(50 + i)};
    return job;
  };
  for (const PlaceKind kind : kKinds) {
    const CopyPlace from(kind), to(other(kind)), back(kind);
    Server server(from);
    std::vector<JobId> ids;
    for (int i = 0; i < kJobs; ++i) {
      ids.push_back(server.must_apply<EnqueueResult>(Enqueue{.jobs = {keyed(i)}}).jobs[0].id);
      server.must_apply<CancelResult>(Cancel{.id = ids.back(), .reason = ""});
    }
    server.clock().advance(std::chrono::hours(25));
    CHECK(server.must_apply<StepResult>(PruneJobs{}).changed == kJobs);
    must_copy(from, to, SystemClock());
    must_copy(to, back, SystemClock());
    Server after(back);
    after.clock().advance(std::chrono::hours(25));
    const auto again = [&](int i) {
      return after.must_apply<EnqueueResult>(Enqueue{.jobs = {keyed(i)}}).jobs[0];
    };
    for (int i = 0; i < kJobs; ++i) {
      CHECK(again(i).duplicate);
      CHECK(again(i).id == ids[static_cast<std::size_t>(i)]);
      CHECK(again(i).state == JobState::cancelled);
    }
    after.clock().advance(std::chrono::hours(25));
    after.must_apply<StepResult>(PruneJobs{});
    CHECK_FALSE(again(0).duplicate);
    CHECK(again(1).duplicate);
  }
}

TEST_CASE("a window is not lost if its job is pruned during a copy") {
  for (const PlaceKind kind : kKinds) {
    const CopyPlace from(kind), to(other(kind));
    Server server(from);
    NewJob job{.queue = "mail", .kind = "greet", .args = "{}"};
    job.unique = Unique{.key = "k", .window = std::chrono::hours(50)};
    const JobId id = server.must_apply<EnqueueResult>(Enqueue{.jobs = {job}}).jobs[0].id;
    server.must_apply<CancelResult>(Cancel{.id = id, .reason = ""});
    server.clock().advance(std::chrono::hours(25));
    // The job is read, then removed, then the windows are read.
    {
      auto source = must(from.source(SourceGoesOn::yes));
      auto target = must(to.target());
      must(target->begin(source->place(), server.clock().now().wall));
      must(source->look());
      std::vector<TransferJob> jobs;
      must(source->jobs(std::array{id}, jobs));
      must(target->write_jobs(jobs, server.clock().now()));
      source->lift();
      CHECK(server.must_apply<StepResult>(PruneJobs{}).changed == 1);
      must(source->look());
      for (const auto& [block, is] : must(source->blocks(TransferSection::windows, {}))) {
        must(target->write_windows(block, must(source->windows(block))));
        must(target->note(TransferSection::windows, block, is));
      }
    }
    must_copy(from, to, SystemClock());
    Server after(to);
    after.clock().advance(std::chrono::hours(25));
    CHECK(after.must_apply<EnqueueResult>(Enqueue{.jobs = {job}}).jobs[0].id == id);
  }
}

TEST_CASE("marks and saved views move with the store, and later marks get new numbers") {
  for (const PlaceKind kind : kKinds) {
    const CopyPlace from(kind), to(other(kind));
    std::vector<Mark> marks;
    std::vector<SavedView> views;
    {
      Server server(from);
      server.enqueue();
      const auto now = server.clock().now();
      must(server.store().apply(
          std::vector<Operation>{
              AddMark{.text = "v1", .by = "ci"},
              AddMark{.text = "w 1", .by = "w", .source = MarkSource::worker},
              PutView{{.name = "dead", .page = "jobs", .query = "state=dead", .by = "ann"}}},
          now));
      marks = must(server.store().marks({})).marks;
      views = must(server.store().views());
      CHECK(marks.size() == 2);
      CHECK(views.size() == 1);
    }
    must_copy(from, to, SystemClock());
    Server server(to);
    CHECK(must(server.store().marks({})).marks == marks);
    CHECK(must(server.store().views()) == views);
    const auto report = must(server.store().apply(
        std::vector<Operation>{AddMark{.text = "w 1", .by = "x", .source = MarkSource::worker},
                               AddMark{.text = "v2", .by = "ci"}},
        server.clock().now()));
    CHECK(std::get<Mark>(report.results[0]).by == "w");
    CHECK(std::get<Mark>(report.results[1]).id > std::max(marks[0].id, marks[1].id));
  }
}

TEST_CASE("the history moves with the store, and both stores continue to add to it") {
  for (const PlaceKind kind : kKinds) {
    const CopyPlace from(kind), to(other(kind)), back(kind);
    const auto add = [](Server& server, const char* queue, Duration ran) {
      HistoryRow row{.at = step_start(server.clock().now().wall, kHistoryMinute),
                     .queue = queue,
                     .kind = "greet"};
      row.counts.enqueued = row.counts.started = row.counts.completed = 1;
      row.counts.run.add(ran);
      server.store().offer_history(std::make_shared<const HistoryRows>(HistoryRows{row}),
                                   HistoryWrite::always);
      CHECK(must(server.store().apply({}, server.clock().now())).history_written);
    };
    const auto read = [](Server& server, const char* queue, Duration step) {
      const WallTime now = server.clock().now().wall;
      const WallTime end = step_start(now, step) + step;
      HistoryCounts sum;
      for (const HistoryCounts& one : must(server.store().history(
               {.queue = queue, .from = end - step * 10, .to = end, .step = step}, now)))
        sum.add(one);
      return sum;
    };
    HistoryCounts mail, all;
    {
      Server server(from);
      server.enqueue();
      add(server, "mail", std::chrono::seconds(1));
      add(server, "other", std::chrono::seconds(2));
      server.clock().advance(std::chrono::minutes(2));
      add(server, "mail", std::chrono::seconds(3));
      mail = read(server, "mail", kHistoryMinute), all = read(server, "", kHistoryHour);
    }
    must_copy(from, to, SystemClock());
    {
      Server server(to);
      server.clock().advance(std::chrono::minutes(2));
      CHECK(read(server, "mail", kHistoryMinute) == mail);
      CHECK(read(server, "", kHistoryHour) == all);
      CHECK(must(server.store().verify()).problems.empty());
      add(server, "mail", std::chrono::seconds(4));
      mail = read(server, "mail", kHistoryMinute), all = read(server, "", kHistoryHour);
      CHECK(mail.enqueued == 3);
      CHECK(all.enqueued == 4);
    }
    must_copy(to, back, SystemClock());
    Server server(back);
    server.clock().advance(std::chrono::minutes(2));
    CHECK(read(server, "mail", kHistoryMinute) == mail);
    CHECK(read(server, "", kHistoryHour) == all);
  }
}

TEST_CASE("a deferred job moves as it is, and is claimed by its id there") {
  for (const PlaceKind kind : kKinds) {
    const CopyPlace from(kind), to(other(kind));
    Server server(from);
    server.enqueue();
    const ClaimedJob job = server.claim();
    server.must_apply<FinishResult>(
        Finish{.worker = "w", .results = {{job.id, job.token, Defer{"no answer yet"}}}});
    must_copy(from, to, SystemClock());
    Server after(to);
    const Job moved = must(after.store().get(job.id));
    CHECK(moved.state == JobState::waiting);
    CHECK(moved.deferred);
    CHECK(moved.reason == "no answer yet");
    CHECK(must(after.store().verify()).problems.empty());
    const auto got =
        after.must_apply<ClaimResult>(Claim{.worker = "w", .queues = {job.queue}, .job = job.id});
    REQUIRE(got.jobs.size() == 1);
    CHECK(got.jobs[0].deferred);
  }
}

TEST_CASE("sessions move with their waiting jobs, holders and states") {
  const CopyPlace from(PlaceKind::directory), to(PlaceKind::directory);
  Server server(from);
  const auto put = [&](const char* key, OnDead on_dead) {
    NewJob job{.queue = "mail", .kind = "greet"};
    job.session = key;
    job.on_dead = on_dead;
    return server.must_apply<EnqueueResult>(Enqueue{.jobs = {job}}).jobs[0].id;
  };
  const SessionKey held{"mail", "held"}, blocked{"mail", "blocked"};
  const JobId dead = put("blocked", OnDead::block), behind = put("blocked", OnDead::park);
  const ClaimedJob poison = server.claim();
  server.must_apply<FinishResult>(
      Finish{.worker = "w", .results = {{poison.id, poison.token, Dead{"x", ""}}}});
  const JobId running = put("runs", OnDead::skip), next = put("runs", OnDead::skip);
  const ClaimedJob claimed = server.claim();
  const SessionGrant grant =
      server.must_apply<SessionGrant>(AcceptSession{.worker = "h", .session = held});
  server.must_apply<Done>(
      PutSessionState{.session = held, .token = grant.token, .state = "[\"ä\"]"});
  const JobId first = put("held", OnDead::skip), second = put("held", OnDead::skip);
  must_copy(from, to, SystemClock());
  Server after(to);
  const auto info = must(after.store().session(blocked, after.clock().now().instant));
  CHECK(info.stop == SessionStop::blocked);
  CHECK(info.stopped_by == dead);
  CHECK(must(after.store().get(behind)).on_dead == OnDead::park);
  CHECK(after.complete(claimed) == FinishStatus::ok);
  CHECK(claimed.id == running);
  CHECK(after.claim().id == next);
  const Claim line{
      .worker = "h", .queues = {session_queue(held)}, .kinds = {}, .session_token = grant.token};
  for (const JobId id : {first, second}) {
    const auto jobs = after.must_apply<ClaimResult>(line).jobs;
    REQUIRE(jobs.size() == 1);
    CHECK(jobs[0].id == id);
    CHECK(jobs[0].session_state == "[\"ä\"]");
    CHECK(after.complete(jobs[0]) == FinishStatus::ok);
  }
  CHECK(after.must_apply<RetryResult>(RetryJob{dead}).state == JobState::available);
  CHECK(after.claim().id == dead);
  CHECK(must(after.store().verify()).problems.empty());
}

// The visible data of a workflow.
std::string shown(Store& store, WorkflowId id) {
  const WorkflowInfo info = must(store.workflow(id));
  std::string out = fmt::format("{} {} v{} {} {}", info.name, to_string(info.state), info.version,
                                info.input, info.result);
  for (const WorkflowStep& step : must(store.workflow_steps(id, 0, 1000)).steps) {
    out += fmt::format(" {}:{}:{}:{}:{}:{}", step.number, step.name, to_string(step.state),
                       step.job, step.workflow, step.result);
  }
  return out;
}

TEST_CASE("workflows move with their steps, timers and signals, and continue where they were") {
  std::optional<pg_testing::UnpackedWorkflows> unpacked;
  SUBCASE("packed") {}
  SUBCASE("unpacked") {
    unpacked.emplace();
  }
  const auto step = [](const char* name, const char* more = "") {
    return fmt::format(
        R"({{"name":"{0}","job":{{"queue":"mail","kind":"{0}","max_attempts":1}}{1}}})", name,
        more);
  };
  const auto read = [](const std::string& steps, const char* more) {
    return must(decode_workflow(fmt::format(R"({{"name":"w","steps":[{}]{}}})", steps, more)));
  };
  for (const PlaceKind kind : kKinds) {
    const CopyPlace from(kind), to(other(kind));
    Server server(from);
    const WorkflowSpec keyed = read(step("z"), R"(,"key":"once")");
    const WorkflowId done = server.must_apply<WorkflowStarted>(StartWorkflow{keyed}).id;
    server.complete(server.claim());
    const WorkflowId fork =
        server.must_apply<WorkflowStarted>(ForkWorkflow{done, "z", {}, "", {}}).id;
    server.complete(server.claim());
    const WorkflowId chain =
        server
            .must_apply<WorkflowStarted>(StartWorkflow{read(
                step("a", R"(,"undo":{"queue":"mail","kind":"undo-a"})") + "," +
                    step("b", R"(,"after":["a"])") + "," + step("c", R"(,"after":["b"])") +
                    R"(,{"name":"nap","sleep":"10m"},{"name":"go","signal":"go","after":["c"]})",
                R"(,"input":{"ä":1})")})
            .id;
    server.complete(server.claim());
    const ClaimedJob running = server.claim();  // b
    server.must_apply<Done>(SignalWorkflow{chain, "go", "s-1", "7", {}});
    const std::string was = shown(server.store(), chain), was_done = shown(server.store(), done);
    must_copy(from, to, SystemClock());
    Server after(to);
    CHECK(shown(after.store(), chain) == was);
    CHECK(shown(after.store(), done) == was_done);
    CHECK(must(after.store().workflow(fork)).forked_from == ForkedFrom{done, "z"});
    CHECK(after.store().agenda().next_workflow == server.store().agenda().next_workflow);
    CHECK(after.complete(running) == FinishStatus::ok);
    const ClaimedJob last = after.claim();
    CHECK(last.kind == "c");
    CHECK(after.must_apply<WorkflowStarted>(StartWorkflow{keyed}).id == done);
    CHECK(after.must_apply<WorkflowStarted>(StartWorkflow{read(step("y"), "")}).id > chain);
    const Finish dies{.worker = "w", .results = {{last.id, last.token, Dead{"x", "y"}}}};
    CHECK(after.must_apply<FinishResult>(dies).results[0] == FinishStatus::ok);
    CHECK(must(after.store().workflow(chain)).state == WorkflowState::undoing);
    CHECK(must(after.store().verify()).problems.empty());
  }
}

TEST_CASE("workflows in workflows move, and the end of one is the end of its step") {
  std::optional<pg_testing::UnpackedWorkflows> unpacked;
  SUBCASE("packed") {}
  SUBCASE("unpacked") {
    unpacked.emplace();
  }
  for (const PlaceKind kind : kKinds) {
    const CopyPlace from(kind), to(other(kind));
    Server server(from);
    const WorkflowSpec spec = must(decode_workflow(
        R"({"name":"w","steps":[{"name":"s","workflow":{"name":"sub","result":{"$ref":"a"},)"
        R"("steps":[{"name":"a","job":{"queue":"mail","kind":"a"}}]}}]})"));
    const WorkflowId id = server.must_apply<WorkflowStarted>(StartWorkflow{spec}).id;
    const WorkflowId child = must(server.store().workflow_steps(id, 0, 10)).steps.at(0).workflow;
    const std::string was = shown(server.store(), id), was_child = shown(server.store(), child);
    const ClaimedJob running = server.claim();
    must_copy(from, to, SystemClock());
    Server after(to);
    CHECK(shown(after.store(), id) == was);
    CHECK(shown(after.store(), child) == was_child);
    CHECK(must(after.store().workflow(child)).parent == WorkflowParent{id, "s"});
    CHECK(after.complete(running) == FinishStatus::ok);
    CHECK(must(after.store().workflow(child)).state == WorkflowState::completed);
    CHECK(must(after.store().workflow(id)).state == WorkflowState::completed);
    CHECK(must(after.store().verify()).problems.empty());
  }
}

TEST_CASE("a copy that keeps the source continues with numbers far ahead") {
  for (const PlaceKind kind : kKinds) {
    const CopyPlace from(kind), to(other(kind));
    Server server(from);
    fill(server, 2);
    must_copy(from, to, SystemClock(), {.source = SourceGoesOn::yes});
    const JobId here = server.enqueue();
    Server copy(to);
    CHECK(copy.enqueue() > here + 1'000'000);
    CHECK(copy.claim().token > server.claim().token);
    CHECK(server.store().moved_to().empty());
  }
}

TEST_CASE("a store that holds anything is refused as target, with what it holds") {
  for (const PlaceKind kind : kKinds) {
    const CopyPlace from(PlaceKind::directory), jobs(kind), lease(kind), paused(kind);
    Server server(from);
    server.enqueue();
    Server(jobs).enqueue();
    CHECK(refusal(from, jobs).find("holds 1 jobs, 1 queues") != std::string::npos);
    Server(lease).must_apply<LeaseGrant>(
        AcquireLease{.name = "l", .holder = "h", .ttl = std::chrono::seconds(30)});
    CHECK(refusal(from, lease).find("holds 1 leases") != std::string::npos);
    {
      const auto open = must(paused.open(SystemClock().now()));
      CHECK(refusal(from, paused).find("open in") != std::string::npos);
    }
    CHECK(refusal(from, from).find("open in") != std::string::npos);
    server.enqueue();
  }
}

TEST_CASE("triggers move with their secrets, their state and what has fired") {
  for (const PlaceKind kind : kKinds) {
    const CopyPlace from(kind), to(other(kind));
    Server server(from);
    Trigger trigger{.name = "t", .http = HookSource{}, .folder = {}, .job = {}};
    trigger.job.queue = "mail";
    trigger.job.kind = "k";
    server.must_apply<PutTriggerResult>(PutTrigger{.trigger = trigger, .secret = "s"});
    const FireTrigger fire{
        .name = "t", .event = "ä", .args = "{}", .made_at = WallTime::from_us(7)};
    const JobId job = server.must_apply<TriggerFired>(fire).job;
    server.must_apply<TriggerFired>(FireTrigger{.name = "t", .event = {}, .args = {}});
    must_copy(from, to, SystemClock());
    Server after(to);
    const TriggerInfo was = must(server.store().trigger("t")),
                      is = must(after.store().trigger("t"));
    CHECK(is.trigger == trigger);
    CHECK(is.secret == "s");
    CHECK(is.fired == 2);
    CHECK(is.last_fired == was.last_fired);
    const TriggerEventPage rows = must(after.store().trigger_events("t", 10, 0));
    REQUIRE(rows.rows.size() == 2);
    CHECK(rows.rows[0].event.empty());
    CHECK(rows.rows[1].event == "ä");
    CHECK(rows.rows[1].made_at == fire.made_at);
    const TriggerFired again = after.must_apply<TriggerFired>(fire);
    CHECK(again.duplicate);
    CHECK(again.job == job);
    CHECK(must(after.store().verify()).problems.empty());
  }
}

TEST_CASE("an unfinished copy belongs to one store and cannot be served") {
#if defined(MAINSPRING_MUTANTS)
  for (const PlaceKind kind : kKinds) {
    const CopyPlace from(PlaceKind::directory), another(PlaceKind::schema), to(kind);
    Server server(from);
    fill(server, 1);
    Server(another).enqueue();
    // Unsound, so that it is not finished: that also leaves the source unchanged.
    set_mutant("copy_drops_unique_keys");
    const CopyReport unsound = must(copy_between(from, to, SystemClock()));
    set_mutant("");
    REQUIRE(!unsound.problems.empty());
    CHECK(unsound.problems[0].find("unique key") != std::string::npos);
    server.enqueue();
    CHECK(to.open(server.clock().now()).error().code == ErrorCode::conflict);
    CHECK(refusal(another, to).find("unfinished copy of another store") != std::string::npos);
  }
#endif
}

// Steady time that can be moved while a copy reads it.
class PushedClock final : public Clock {
 public:
  Now now() const override {
    Now is = system_.now();
    is.instant = is.instant + pushed_;
    return is;
  }
  void push(Duration by) { pushed_ = pushed_ + by; }

 private:
  SystemClock system_;
  Duration pushed_{0};
};

TEST_CASE("a fence that lasts too long is removed, and a later fence works") {
  for (const PlaceKind kind : kKinds) {
    for (const int slow_fences : {1, 100}) {
      const CopyPlace from(kind), to(other(kind));
      Server server(from);
      fill(server, 2);
      PushedClock clock;
      int verified = 0;
      CopyOptions options;
      options.progress = [&](const CopyProgress& progress) {
        // The first one is before any fence.
        if (progress.stage != Stage::verifying || ++verified == 1) return;
        if (verified <= slow_fences + 1) clock.push(options.max_fence);
      };
      const auto report = copy_between(from, to, clock, options);
      if (slow_fences == 1) {
        CHECK(must(Result<CopyReport>(report)).fences == 2);
        server.must_be_moved();
      } else {
        REQUIRE(!report);
        CHECK(report.error().code == ErrorCode::unavailable);
        CHECK(report.error().message.find("--max-fence") != std::string::npos);
        server.enqueue();
      }
    }
  }
}

TEST_CASE("a write during the fence waits, is refused with the new place, and has no effect") {
  for (const PlaceKind kind : kKinds) {
    const CopyPlace from(kind), to(other(kind));
    auto server = std::make_unique<Server>(from);
    fill(*server, 1);
    std::future<void> writer;
    int verified = 0;
    CopyOptions options;
    options.progress = [&](const CopyProgress& progress) {
      if (progress.stage != Stage::verifying || ++verified != 2) return;
      writer = std::async(std::launch::async, [&] { server->must_be_moved(); });
    };
    const CopyReport report = must(copy_between(from, to, SystemClock(), options));
    REQUIRE(writer.valid());
    writer.get();
    CHECK(report.verified_in_fence);
    const Now now = server->clock().now();
    server.reset();
    must_be_equal(from, to, now);
  }
}

TEST_CASE("an open transaction of another client prevents the fence") {
  const CopyPlace from(PlaceKind::schema), to(PlaceKind::directory);
  Server server(from);
  server.enqueue();
  auto open = must(
      pg_testing::PgConnection::open(pg_testing::the_cluster().url(pg_testing::the_database())));
  must(open.sql(fmt::format("BEGIN; SELECT {}.enqueue('mail', 'greet')", from.name())));
  CopyOptions options;
  options.max_fence = std::chrono::seconds(1);
  const auto refused = copy_between(from, to, SystemClock(), options);
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::unavailable);
  CHECK(refused.error().message.find("cannot fence the source") != std::string::npos);
  must(open.sql("COMMIT"));
  server.enqueue();
  const auto keyed = [&](const char* delay) {
    return open.sql(
        fmt::format("SELECT {}.enqueue('mail', 'greet', unique_key => 'k', delay => "
                    "'{}', on_conflict => 'replace')",
                    from.name(), delay));
  };
  must(keyed("1 hour"));
  CHECK(must(copy_between(from, to, SystemClock())).jobs == 4);
  const auto replaced = keyed("2 hours");  // which changes no counter
  REQUIRE(!replaced);
  CHECK(replaced.error().message.find("MS001") != std::string::npos);
  const auto late = open.sql(fmt::format("SELECT {}.enqueue('mail', 'greet')", from.name()));
  REQUIRE(!late);
  CHECK(late.error().message.find("MS001") != std::string::npos);
}

TEST_CASE("a moved store is refused everywhere, also by a running server") {
  for (const PlaceKind kind : kKinds) {
    const CopyPlace from(kind), to(other(kind)), third(kind);
    {
      Server server(from);
      server.enqueue();
      server.claim();
      must_copy(from, to, SystemClock());
      // Also without writes, after a while.
      server.clock().advance(std::chrono::seconds(5));
      if (auto* shared = dynamic_cast<SharedStore*>(&server.store()))
        CHECK(!shared->refresh(server.clock().now()));
      CHECK(!server.apply(Claim{.worker = "w", .queues = {"mail"}}));
      server.must_be_moved();
    }
    const auto opened = from.open(SystemClock().now());
    REQUIRE(!opened);
    CHECK(opened.error().code == ErrorCode::conflict);
    CHECK(opened.error().message.find("has moved to " +
                                      std::string(kind == PlaceKind::schema ? "/" : "schema")) !=
          std::string::npos);
    CHECK(refusal(from, third).find("has moved to") != std::string::npos);
    CHECK(refusal(to, from).find("has moved to") != std::string::npos);
    must(to.open(SystemClock().now()));
  }
}

}  // namespace
}  // namespace mainspring
