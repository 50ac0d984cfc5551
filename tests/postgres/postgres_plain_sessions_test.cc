// Jobs of sessions in batches of nothing but plain operations: one statement each, and what the
// rows in hand would have done.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
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

// A store that knows the queue and the kind: the first batch about them is never a plain one.
class Place {
 public:
  Place() : options(new_place()), store(must(open_postgres_store(options, clock.now(), log_))) {
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
  const Instant until = SystemClock().now().instant + 30s;
  while (must(the_cluster().sql(waiting)).empty()) {
    if (SystemClock().now().instant >= until) FAIL("nobody waits");
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
    "turn") {
  Place place;
  const auto jobs = place.put({job_of("a"), job_of("b"), job_of("a"), job_of(""), job_of("a")});
  CHECK(jobs[0].state == JobState::available);
  CHECK(jobs[1].state == JobState::available);
  CHECK(jobs[2].state == JobState::waiting);
  CHECK(jobs[3].state == JobState::available);
  CHECK(jobs[4].state == JobState::waiting);
  CHECK(place.session("a").jobs == 3);
  CHECK(place.session("a").turn == jobs[0].id);
  const auto first = place.take(10);
  CHECK(ids(first) == std::vector<JobId>{jobs[0].id, jobs[1].id, jobs[3].id});
  // The claim of the same batch finds who got the turn, although it is older than all in the line.
  const auto results = place.apply({finish(first), claim(10)});
  CHECK(std::get<FinishResult>(results[0]).results ==
        std::vector<FinishStatus>(3, FinishStatus::ok));
  CHECK(ids(place.claimed(results)) == std::vector<JobId>{jobs[2].id});
  CHECK(place.is_gone("b"));
  CHECK(place.session("a").turn == jobs[2].id);
  place.must_be_sound();
  (void)place.apply({finish(place.claimed(results))});
  CHECK(place.gained("q"));
  CHECK(place.gained(accept_line("q")));
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
  CHECK(place.session("a").turn == jobs[0].id);
  place.must_be_sound();
}

TEST_CASE(
    "ORD: a completion waits for a transaction that comes into its session, and passes it the "
    "turn") {
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
  CHECK(place.session("a").turn == next);
  CHECK(place.session("a").jobs == 1);
  CHECK(ids(place.take(1)) == std::vector<JobId>{next});
  place.must_be_sound();
}

TEST_CASE("whose time is ahead keeps the turn, and those behind it wait") {
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

TEST_CASE("a job that comes into a held session waits for its holder, who is told") {
  Place place;
  const SessionKey key{"q", "a"};
  const auto grant = std::get<SessionGrant>(
      place.apply({AcceptSession{.worker = "holder", .session = key, .lease = 60s}})[0]);
  const Claim of_holder{.worker = "holder",
                        .queues = {session_line(key)},
                        .lease = 60s,
                        .session_token = grant.token};
  CHECK(place.claimed(place.apply({of_holder})).empty());
  const auto jobs = place.put({job_of("a"), job_of("a")});
  CHECK(jobs[0].state == JobState::waiting);
  CHECK(place.gained(session_line(key)));
  CHECK(place.take(10).empty());
  const auto own = place.claimed(place.apply({of_holder}));
  CHECK(ids(own) == std::vector<JobId>{jobs[0].id});
  // Its end is not a plain one: the next is the holder's.
  (void)place.apply({finish(own)});
  CHECK(place.gained(session_line(key)));
  CHECK(place.state(jobs[1].id) == JobState::waiting);
  CHECK(place.session("a").turn == jobs[1].id);
  place.must_be_sound();
}

TEST_CASE("a session that somebody accepted while its job ran passes the turn to its holder") {
  Place place;
  const auto jobs = place.put({job_of("a"), job_of("a")});
  const auto first = place.take(1);
  (void)place.apply({AcceptSession{.worker = "holder", .session = {"q", "a"}, .lease = 60s}});
  const auto results = place.apply({finish(first), claim(10)});
  CHECK(std::get<FinishResult>(results[0]).results[0] == FinishStatus::ok);
  CHECK(place.claimed(results).empty());
  CHECK(place.state(jobs[1].id) == JobState::waiting);
  CHECK(place.session("a").turn == jobs[1].id);
  place.must_be_sound();
}

TEST_CASE("what comes into a stopped session waits") {
  Place place;
  NewJob blocks = job_of("a");
  blocks.on_dead = OnDead::block;
  (void)place.put({blocks});
  const auto first = place.take(1);
  (void)place.apply(
      {Finish{.worker = "w", .results = {{first[0].id, first[0].token, Dead{.reason = "no"}}}}});
  const auto jobs = place.put({job_of("a")});
  CHECK(jobs[0].state == JobState::waiting);
  CHECK(place.session("a").turn == 0);
  CHECK(place.session("a").stop == SessionStop::blocked);
  CHECK(place.take(10).empty());
  place.must_be_sound();
}

TEST_CASE("a session keeps its state behind its last job, and for longer when jobs come again") {
  Place place;
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
  // Behind this node's back: one was given to somebody else.
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
  CHECK(place.session("b").turn == first[1].id);
  place.must_be_sound();
}

TEST_CASE("a batch with sessions whose answer was lost is answered as it was done") {
  BedOptions options;
  options.statement_timeout = options.patience = 20s;
  Bed bed(options);
  must(bed.apply(Enqueue{.jobs = {job_of("a")}}));
  const ClaimedJob job = bed.claim();
  must(bed.cluster->set("synchronous_standby_names", "nobody"));
  const std::vector<Operation> batch = {Finish{.worker = "w", .results = {completed(job)}},
                                        Enqueue{.jobs = {job_of("a"), job_of("a"), job_of("b")}}};
  auto call =
      std::async(std::launch::async, [&] { return bed.store->apply(batch, bed.clock.now()); });
  REQUIRE(bed.await_commit(" waiting") != 0);
  must(bed.cluster->sql("ALTER SYSTEM RESET synchronous_standby_names"));
  bed.cluster->kill9();
  must(bed.cluster->start());
  REQUIRE(call.wait_for(60s) == std::future_status::ready);
  const BatchReport report = must(call.get());
  CHECK(std::get<FinishResult>(report.results[0]).results ==
        std::vector<FinishStatus>{FinishStatus::ok});
  CHECK(report.effects.ended == std::vector<JobId>{job.id});
  const auto& jobs = std::get<EnqueueResult>(report.results[1]).jobs;
  CHECK(jobs[0].state == JobState::available);
  CHECK(jobs[1].state == JobState::waiting);
  CHECK(jobs[2].state == JobState::available);
  for (const EnqueuedJob& one : jobs) CHECK(must(bed.store->get(one.id)).state == one.state);
  bed.must_be_sound();
}

}  // namespace mainspring::pg_testing
