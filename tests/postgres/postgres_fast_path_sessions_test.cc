// Jobs of sessions on the fast path: one statement per batch, and the same result as with loaded
// rows.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "postgres/bed.h"

namespace mainspring::pg_testing {
namespace {

using namespace std::chrono_literals;

NewJob job_of(const std::string& session) {
  return {.queue = "q", .kind = "k", .session = session};
}

JobOutcome completed(const ClaimedJob& job) {
  return {.id = job.id, .token = job.token, .outcome = Complete{}};
}

Finish finish(const std::vector<ClaimedJob>& jobs) {
  Finish all{.worker = "w"};
  for (const ClaimedJob& job : jobs) all.results.push_back(completed(job));
  return all;
}

Claim claim(int max) {
  return {.worker = "w", .queues = {"q"}, .max = max, .lease = 60s};
}

// A store that knows the queue and the kind: the first batch about them never takes the fast path.
class Place {
 public:
  explicit Place(const StoreOptions& rest = {})
      : options(new_place(rest)), store(must(open_postgres_store(options, clock.now(), log_))) {
    const std::vector<ClaimedJob> first = claimed(apply({Enqueue{.jobs = {job_of("")}}, claim(1)}));
    (void)apply({finish(first)});
  }
  std::vector<OperationResult> apply(const std::vector<Operation>& batch) {
    BatchReport report = must(store->apply(batch, clock.now()));
    effects = report.effects;
    return std::move(report.results);
  }
  std::vector<EnqueuedJob> put(const std::vector<NewJob>& jobs) {
    return std::get<EnqueueResult>(apply({Enqueue{.jobs = jobs}})[0]).jobs;
  }
  std::vector<ClaimedJob> take(int max) { return claimed(apply({claim(max)})); }
  static std::vector<ClaimedJob> claimed(const std::vector<OperationResult>& results) {
    return std::get<ClaimResult>(results.back()).jobs;
  }
  JobState state(JobId id) const { return must(store->get(id)).state; }
  SessionInfo session(const std::string& key) const {
    return must(store->session({"q", key}, clock.now().instant));
  }
  bool is_gone(const std::string& key) const {
    return !store->session({"q", key}, clock.now().instant);
  }
  std::string value(const std::string& columns_from) const {
    return must(the_cluster().sql(fmt::format("SELECT {}", columns_from), the_database()))[0][0];
  }
  bool gained(const std::string& line) const {
    const auto& all = effects.available;
    return std::find(all.begin(), all.end(), line) != all.end();
  }
  void must_be_sound() const {
    const auto report = must(store->verify());
    CHECK_MESSAGE(report.problems.empty(), report.problems.at(0));
  }

  const SystemClock clock;
  const PostgresOptions options;
  Effects effects;  // of the last batch

 private:
  NullLog log_;

 public:
  const std::unique_ptr<SharedStore> store;
};

void await_waiting_for_a_lock() {
  const std::string waiting =
      "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE "
      "'mainspring%'";
  const Instant until = SystemClock().now().instant + 60s;
  while (must(the_cluster().sql(waiting)).empty()) {
    if (SystemClock().now().instant >= until) FAIL("no transaction waits");
  }
}

std::vector<JobId> ids(const std::vector<ClaimedJob>& jobs) {
  std::vector<JobId> all;
  for (const ClaimedJob& job : jobs) all.push_back(job.id);
  return all;
}

}  // namespace

TEST_CASE(
    "ORD: the first of each session is available, the others wait, and a completion passes the "
    "head") {
  Place place;
  const auto jobs = place.put({job_of("a"), job_of("b"), job_of("a"), job_of(""), job_of("a")});
  CHECK(jobs[0].state == JobState::available);
  CHECK(jobs[1].state == JobState::available);
  CHECK(jobs[2].state == JobState::waiting);
  CHECK(jobs[3].state == JobState::available);
  CHECK(jobs[4].state == JobState::waiting);
  CHECK(place.session("a").jobs == 3);
  CHECK(place.session("a").head == jobs[0].id);
  const auto first = place.take(10);
  CHECK(ids(first) == std::vector<JobId>{jobs[0].id, jobs[1].id, jobs[3].id});
  // The claim of the same batch finds the new head, although it is older than all ready jobs.
  const auto results = place.apply({finish(first), claim(10)});
  CHECK(std::get<FinishResult>(results[0]).results ==
        std::vector<FinishStatus>(3, FinishStatus::ok));
  CHECK(ids(place.claimed(results)) == std::vector<JobId>{jobs[2].id});
  CHECK(place.is_gone("b"));
  CHECK(place.session("a").head == jobs[2].id);
  place.must_be_sound();
  (void)place.apply({finish(place.claimed(results))});
  CHECK(place.gained("q"));
  CHECK(place.gained(accept_queue("q")));
  (void)place.apply({finish(place.take(10))});
  CHECK(place.is_gone("a"));
  CHECK(place.value(fmt::format("count(*) FROM {}.session_jobs", place.options.schema)) == "0");
  place.must_be_sound();
}

TEST_CASE("ORD: the last of a session ends and a new one comes in the same batch") {
  Place place;
  (void)place.put({job_of("a")});
  const auto first = place.take(1);
  REQUIRE(first.size() == 1);
  const auto results =
      place.apply({finish(first), Enqueue{.jobs = {job_of("a"), job_of("a")}}, claim(10)});
  const auto& jobs = std::get<EnqueueResult>(results[1]).jobs;
  CHECK(jobs[0].state == JobState::available);
  CHECK(jobs[1].state == JobState::waiting);
  CHECK(ids(place.claimed(results)) == std::vector<JobId>{jobs[0].id});
  CHECK(place.session("a").jobs == 2);
  CHECK(place.session("a").head == jobs[0].id);
  place.must_be_sound();
}

TEST_CASE(
    "ORD: a completion waits for a transaction that comes into its session, and passes it the "
    "head") {
  Place place;
  (void)place.put({job_of("a")});
  const auto first = place.take(1);
  PgConnection other = must(PgConnection::open(the_cluster().url(the_database(), "mainspring")));
  must(other.sql("BEGIN"));
  const auto rows = must(
      other.sql(fmt::format("SELECT {}.enqueue('q', 'k', session => 'a')", place.options.schema)));
  std::jthread completion([&] { (void)place.apply({finish(first)}); });
  await_waiting_for_a_lock();
  must(other.sql("COMMIT"));
  completion.join();
  const JobId next = std::stoll(rows.at(0).at(0));
  CHECK(place.state(next) == JobState::available);
  CHECK(place.session("a").head == next);
  CHECK(place.session("a").jobs == 1);
  CHECK(ids(place.take(1)) == std::vector<JobId>{next});
  place.must_be_sound();
}

TEST_CASE("a session whose last job ended elsewhere is not created by a repeated completion") {
  Place place;
  (void)place.put({job_of("a")});
  const std::vector<Operation> done = {finish(place.take(1))};
  NullLog log;
  const auto other = must(open_postgres_store(place.options, place.clock.now(), log));
  must(other->apply(done, place.clock.now()));
  CHECK(place.is_gone("a"));
  const auto results = place.apply({done[0], Enqueue{.jobs = {job_of("b")}}});
  CHECK(std::get<FinishResult>(results[0]).results == std::vector{FinishStatus::ok});
  CHECK(place.is_gone("a"));
  CHECK(place.session("b").jobs == 1);
  place.must_be_sound();
}

TEST_CASE("a new session head that is older than the read position of claims is found") {
  Place place;
  NewJob old = job_of("a");
  old.run_at = place.clock.now().wall - 10s;
  const auto jobs = place.put({old, old});
  (void)place.put(std::vector<NewJob>(20, job_of("")));
  const auto first = place.take(1);
  REQUIRE(ids(first) == std::vector<JobId>{jobs[0].id});
  (void)place.take(1);  // claims now read from after it
  const auto results = place.apply({finish(first), claim(1)});
  std::vector<JobId> found = ids(place.claimed(results));
  for (const ClaimedJob& job : place.take(1)) found.push_back(job.id);
  CHECK(std::find(found.begin(), found.end(), jobs[1].id) != found.end());
}

TEST_CASE("completions of jobs of sessions and of others are locked in one order") {
  Place place;
  const auto jobs = place.put({job_of("a"), job_of("")});
  const auto both = place.take(2);
  REQUIRE(both.size() == 2);
  const auto lock = [&](JobId id) {
    return fmt::format("SELECT 1 FROM {}.jobs WHERE id = {} FOR UPDATE", place.options.schema, id);
  };
  PgConnection other = must(PgConnection::open(the_cluster().url(the_database(), "mainspring")));
  must(other.sql("BEGIN; SET LOCAL lock_timeout = '20s'"));
  must(other.sql(lock(jobs[0].id)));
  std::jthread completion([&] { (void)place.apply({finish(both)}); });
  await_waiting_for_a_lock();
  CHECK(other.sql(lock(jobs[1].id)).has_value());
  must(other.sql("ROLLBACK"));
  completion.join();
  CHECK(place.state(jobs[0].id) == JobState::completed);
  CHECK(place.state(jobs[1].id) == JobState::completed);
}

TEST_CASE(
    "a batch that a session was locked for too long for was not done, and is not done later") {
  Bed bed(gives_up_soon(false));
  must(bed.apply(Enqueue{.jobs = {job_of("a")}}));
  PgConnection other = must(PgConnection::open(bed.cluster->url(bed.database, "mainspring")));
  must(other.sql("BEGIN"));
  must(other.sql(fmt::format("SELECT {}.enqueue('q', 'k', session => 'a')", bed.options.schema)));
  bed.must_be_unavailable(Enqueue{.jobs = {job_of("a")}});
  must(other.sql("COMMIT"));
  const std::string at_work =
      "SELECT 1 FROM pg_stat_activity WHERE state <> 'idle' AND application_name LIKE "
      "'mainspring%'";
  const Instant until = bed.clock.now().instant + 60s;
  while (!must(bed.cluster->sql(at_work, bed.database)).empty())
    REQUIRE(bed.clock.now().instant < until);
  const std::string jobs = fmt::format("SELECT count(*) FROM {}.jobs", bed.options.schema);
  CHECK(must(bed.cluster->sql(jobs, bed.database))[0][0] == "2");
  bed.must_come_back();
  bed.must_be_sound();
}

TEST_CASE("a completion that the fast path leaves open locks its session before its job") {
  Place place;
  const auto jobs = place.put({job_of("a")});
  const auto first = place.take(1);
  NullLog log;
  // The fast path completes no job of a session that is held.
  const auto holder = must(open_postgres_store(place.options, place.clock.now(), log));
  const std::vector<Operation> accept = {
      AcceptSession{.worker = "other", .session = {"q", "a"}, .lease = 60s}};
  must(holder->apply(accept, place.clock.now()));
  PgConnection other = must(PgConnection::open(the_cluster().url(the_database(), "mainspring")));
  must(other.sql("BEGIN"));
  must(other.sql(fmt::format("SELECT 1 FROM {}.jobs WHERE id = {} FOR UPDATE", place.options.schema,
                             jobs[0].id)));
  std::jthread completion([&] { (void)place.apply({finish(first)}); });
  await_waiting_for_a_lock();
  CHECK_FALSE(
      other.sql(fmt::format("SELECT 1 FROM {}.sessions FOR UPDATE NOWAIT", place.options.schema))
          .has_value());
  must(other.sql("ROLLBACK"));
  completion.join();
  CHECK(place.state(jobs[0].id) == JobState::completed);
  place.must_be_sound();
}

TEST_CASE("all completions succeed while other nodes accept and release their sessions") {
  must(the_cluster().set("deadlock_timeout", "20ms"));
  constexpr int kJobs = 300;
  Place place;
  const std::string deadlocks =
      "sum(deadlocks) FROM pg_stat_database WHERE datname = current_database()";
  const std::string before = place.value(deadlocks);
  std::atomic<bool> over{false};
  std::jthread other([&] {
    NullLog log;
    const auto store = must(open_postgres_store(place.options, place.clock.now(), log));
    while (!over) {
      const std::vector<Operation> accept = {
          AcceptSession{.worker = "other", .session = {"q", "a"}, .lease = 60s}};
      const auto report = store->apply(accept, place.clock.now());
      if (!report) continue;
      const auto* grant = std::get_if<SessionGrant>(&report->results[0]);
      if (grant == nullptr) continue;
      const std::vector<Operation> release = {
          ReleaseSession{.session = {"q", "a"}, .token = grant->token}};
      must(store->apply(release, place.clock.now()));
    }
  });
  int done = 0;
  (void)place.put(std::vector<NewJob>(kJobs, job_of("a")));
  const Instant until = place.clock.now().instant + 300s;
  while (done < kJobs && place.clock.now().instant < until) {
    const auto jobs = place.take(1);
    if (jobs.empty()) continue;
    const auto results = place.apply({finish(jobs)});
    const auto* finished = std::get_if<FinishResult>(&results[0]);
    REQUIRE(finished != nullptr);
    CHECK(finished->results == std::vector{FinishStatus::ok});
    ++done;
  }
  over = true;
  other.join();
  CHECK(done == kJobs);
  CHECK(place.value(deadlocks) == before);
  place.must_be_sound();
}

TEST_CASE("a scheduled job stays the head of its session, and later jobs wait") {
  Place place;
  NewJob later = job_of("a");
  later.delay = 1h;
  const auto jobs = place.put({job_of("a"), later, job_of("a")});
  (void)place.apply({finish(place.take(10))});
  CHECK(place.state(jobs[1].id) == JobState::scheduled);
  CHECK(place.state(jobs[2].id) == JobState::waiting);
  CHECK(place.store->agenda().next_due <= place.clock.now().wall + 1h);
  NewJob also = job_of("b");
  also.delay = 1h;
  CHECK(place.put({also, job_of("b")})[0].state == JobState::scheduled);
  CHECK(place.session("b").jobs == 2);
  place.must_be_sound();
}

TEST_CASE("a job enqueued into a held session waits for the holder and wakes it") {
  Place place;
  const SessionKey key{"q", "a"};
  const auto grant = std::get<SessionGrant>(
      place.apply({AcceptSession{.worker = "holder", .session = key, .lease = 60s}})[0]);
  const Claim of_holder{.worker = "holder",
                        .queues = {session_queue(key)},
                        .lease = 60s,
                        .session_token = grant.token};
  CHECK(place.claimed(place.apply({of_holder})).empty());
  const auto jobs = place.put({job_of("a"), job_of("a")});
  CHECK(jobs[0].state == JobState::waiting);
  CHECK(place.gained(session_queue(key)));
  CHECK(place.take(10).empty());
  const auto own = place.claimed(place.apply({of_holder}));
  CHECK(ids(own) == std::vector<JobId>{jobs[0].id});
  // The fast path does not complete it: the next is the holder's.
  (void)place.apply({finish(own)});
  CHECK(place.gained(session_queue(key)));
  CHECK(place.state(jobs[1].id) == JobState::waiting);
  CHECK(place.session("a").head == jobs[1].id);
  place.must_be_sound();
}

TEST_CASE("a session accepted while its job ran gives the next job to its holder") {
  Place place;
  const auto jobs = place.put({job_of("a"), job_of("a")});
  const auto first = place.take(1);
  (void)place.apply({AcceptSession{.worker = "holder", .session = {"q", "a"}, .lease = 60s}});
  const auto results = place.apply({finish(first), claim(10)});
  CHECK(std::get<FinishResult>(results[0]).results[0] == FinishStatus::ok);
  CHECK(place.claimed(results).empty());
  CHECK(place.state(jobs[1].id) == JobState::waiting);
  CHECK(place.session("a").head == jobs[1].id);
  place.must_be_sound();
}

TEST_CASE("a job enqueued into a stopped session waits") {
  Place place;
  NewJob blocks = job_of("a");
  blocks.on_dead = OnDead::block;
  (void)place.put({blocks});
  const auto first = place.take(1);
  (void)place.apply(
      {Finish{.worker = "w", .results = {{first[0].id, first[0].token, Dead{.reason = "no"}}}}});
  const auto jobs = place.put({job_of("a")});
  CHECK(jobs[0].state == JobState::waiting);
  CHECK(place.session("a").head == 0);
  CHECK(place.session("a").stop == SessionStop::blocked);
  CHECK(place.take(10).empty());
  place.must_be_sound();
}

TEST_CASE("a session keeps its state after its last job, and longer if new jobs arrive") {
  StoreOptions short_lived;
  short_lived.retention_dead = 1min;
  Place place(short_lived);
  const std::string prune_at =
      fmt::format("prune_at <> 0 FROM {}.sessions WHERE key = 'a'", place.options.schema);
  (void)place.put({job_of("a")});
  auto first = place.take(1);
  (void)place.apply(
      {PutSessionState{.session = {"q", "a"}, .token = first[0].token, .state = "{\"n\":1}"}});
  (void)place.apply({finish(first)});
  CHECK(place.session("a").state == "{\"n\":1}");
  CHECK(place.session("a").jobs == 0);
  CHECK(place.value(prune_at) == "t");
  CHECK(place.store->agenda().next_prune <= place.clock.now().wall + 1min);
  (void)place.put({job_of("a")});
  CHECK(place.value(prune_at) == "f");
  first = place.take(1);
  CHECK(first[0].session_state == "{\"n\":1}");
  const auto results = place.apply({finish(first), Enqueue{.jobs = {job_of("a")}}, claim(1)});
  CHECK(place.claimed(results)[0].session_state == "{\"n\":1}");
  CHECK(place.value(prune_at) == "f");
  place.must_be_sound();
}

TEST_CASE("completions of jobs of sessions that are not found are answered one by one") {
  Place place;
  const auto jobs = place.put({job_of("a"), job_of("a"), job_of("b"), job_of("c")});
  const auto first = place.take(10);
  REQUIRE(first.size() == 3);
  // Without this node's knowledge, another worker has claimed one job.
  must(the_cluster().sql(fmt::format("UPDATE {0}.jobs SET token = nextval('{0}.tokens_given') "
                                     "WHERE id = {1}",
                                     place.options.schema, first[1].id),
                         the_database()));
  const auto results = place.apply({finish({first[0], first[1]}), finish({first[2]}), finish({})});
  CHECK(std::get<FinishResult>(results[0]).results ==
        std::vector<FinishStatus>{FinishStatus::ok, FinishStatus::stale});
  CHECK(std::get<FinishResult>(results[1]).results == std::vector{FinishStatus::ok});
  CHECK(std::get<FinishResult>(results[2]).results.empty());
  CHECK(place.state(jobs[1].id) == JobState::available);
  CHECK(place.session("b").head == first[1].id);
  place.must_be_sound();
}

namespace {

// A batch that is committed, but the server is killed before it can answer.
struct Lost : Bed {
  Lost() : Bed(BedOptions{.statement_timeout = 20s, .patience = 20s}) {}
  void commit(const std::vector<Operation>& batch) {
    must(cluster->set("synchronous_standby_names", "nobody"));
    auto call = std::async(std::launch::async, [&] { return store->apply(batch, clock.now()); });
    REQUIRE(await_commit(" waiting") != 0);
    must(cluster->sql("ALTER SYSTEM RESET synchronous_standby_names"));
    cluster->kill9();
    must(cluster->start());
    REQUIRE(call.wait_for(60s) == std::future_status::ready);
    report = must(call.get());
  }
  bool gained(const std::string& line) const {
    const auto& all = report.effects.available;
    return std::find(all.begin(), all.end(), line) != all.end();
  }
  BatchReport report;
};

}  // namespace

TEST_CASE_FIXTURE(Lost, "a batch with sessions whose answer was lost gets its real answers") {
  must(apply(Enqueue{.jobs = {job_of("a")}}));
  const ClaimedJob job = claim();
  commit({finish({job}), Enqueue{.jobs = {job_of("a"), job_of("a"), job_of("b")}}});
  CHECK(std::get<FinishResult>(report.results[0]).results == std::vector{FinishStatus::ok});
  CHECK(report.effects.ended == std::vector<JobId>{job.id});
  CHECK(gained("q"));
  CHECK(gained(accept_queue("q")));
  const auto& jobs = std::get<EnqueueResult>(report.results[1]).jobs;
  CHECK(jobs[0].state == JobState::available);
  CHECK(jobs[1].state == JobState::waiting);
  CHECK(jobs[2].state == JobState::available);
  for (const EnqueuedJob& one : jobs) CHECK(must(store->get(one.id)).state == one.state);
  must_be_sound();
}

TEST_CASE_FIXTURE(Lost, "a new session head is reported although the answer was lost") {
  must(apply(Enqueue{.jobs = {job_of("a"), job_of("a")}}));
  commit({finish({claim()})});
  CHECK(std::get<FinishResult>(report.results[0]).results == std::vector{FinishStatus::ok});
  CHECK(gained("q"));
  CHECK(gained(accept_queue("q")));
  must_be_sound();
}

}  // namespace mainspring::pg_testing
