// complete() by SQL, in the caller's transaction; and both functions among operations of nodes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <random>
#include <thread>

#include "postgres/sql_place.h"

namespace mainspring {
namespace {

using pg_testing::Listener;
using pg_testing::must;
using pg_testing::PgConnection;
using pg_testing::Place;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

std::string complete(Place& place, JobId id, Token token, const std::string& more = "") {
  return place.sql(fmt::format("SELECT ms.complete({}, {}{})", id, token, more)).at(0).at(0);
}

JobState state_of(Place& place, JobId id) {
  return must(place.store->get(id)).state;
}

FinishStatus finish(Place& place, JobId id, Token token, Outcome outcome) {
  Finish op{.worker = "w", .results = {}};
  op.results.push_back({id, token, std::move(outcome)});
  return place.apply<FinishResult>(op).results.at(0);
}

// A running job.
ClaimedJob running(Place& place, const std::string& more = "") {
  place.enqueue("'q', 'k'" + more);
  place.store->heard({.queues = {"q"}});
  auto claimed = place.claim("q");
  REQUIRE(claimed.size() == 1);
  return claimed[0];
}

TEST_CASE("a job is completed with the worker's own rows, or neither is") {
  Place place;
  place.sql("CREATE TABLE ms.done (id bigint)");
  const ClaimedJob job = running(place);
  const auto work = fmt::format(
      "BEGIN; INSERT INTO ms.done VALUES ({0}); SELECT ms.complete({0}, {1}, '{{\"n\": 1}}');",
      job.id, job.token);
  place.sql(work + "ROLLBACK");
  CHECK(state_of(place, job.id) == JobState::running);
  CHECK(place.sql("SELECT count(*) FROM ms.done").at(0).at(0) == "0");
  place.check_invariants();
  place.sql(work + "COMMIT");
  const Job done = must(place.store->get(job.id));
  CHECK(done.state == JobState::completed);
  CHECK(done.result == "{\"n\": 1}");
  CHECK(done.version == 3);
  CHECK(done.worker.empty());
  REQUIRE(done.finished_at);
  CHECK(*done.finished_at >= place.clock.now().wall);
  CHECK(place.sql("SELECT count(*) FROM ms.done").at(0).at(0) == "1");
  place.check_invariants();
  // The node that gave the job finds out when it is asked.
  CHECK(finish(place, job.id, job.token, Complete{}) == FinishStatus::ok);
  CHECK(finish(place, job.id, job.token, Retry{}) == FinishStatus::stale);
  const auto renewed = place.apply<RenewResult>(
      Renew{.worker = "w", .leases = {{.id = job.id, .token = job.token}}});
  CHECK(renewed.lost == std::vector<JobId>{job.id});
  place.clock.advance(hours(1));
  CHECK(place.apply<StepResult>(RescueExpired{}).changed == 0);
  place.check_invariants();
}

TEST_CASE("a worker that has lost the job cannot complete it") {
  Place place;
  const ClaimedJob job = running(place);
  CHECK(complete(place, job.id, job.token + 1) == "stale");
  CHECK(complete(place, job.id, 0) == "stale");
  CHECK(complete(place, job.id + 1, job.token) == "not_found");
  CHECK(finish(place, job.id, job.token, Retry{.error = "e", .after = Duration(0)}) ==
        FinishStatus::ok);
  CHECK(complete(place, job.id, job.token) == "stale");
  const auto again = place.claim("q");
  REQUIRE(again.size() == 1);
  CHECK(complete(place, job.id, job.token) == "stale");
  CHECK(state_of(place, job.id) == JobState::running);
  CHECK(complete(place, job.id, again[0].token) == "ok");
  CHECK(complete(place, job.id, again[0].token) == "ok");
  CHECK(must(place.store->get(job.id)).version == 5);
  const JobId waiting = place.enqueue("'q', 'k', delay => '1 h'");
  CHECK(complete(place, waiting, 0) == "stale");
  place.check_invariants();
}

TEST_CASE("a result that a node would refuse is refused") {
  Place place;
  const ClaimedJob job = running(place);
  for (const auto& [result, message] : std::vector<std::pair<std::string, std::string>>{
           {"'{'", "result \"{\": must be a JSON value"},
           {"7", "result of type integer: must be text, json or jsonb"},
           {"to_json(repeat('x', 1048576))",
            "result has 1048578 bytes: must be at most 1048576"}}) {
    const auto got =
        place.try_sql(fmt::format("SELECT ms.complete({}, {}, {})", job.id, job.token, result));
    REQUIRE_FALSE(got.has_value());
    CHECK(got.error().message.find("22023 ERROR:  " + message) == 0);
  }
  CHECK(state_of(place, job.id) == JobState::running);
  CHECK(complete(place, job.id, job.token, ", to_json(repeat('x', 1048574))") == "ok");
  place.check_invariants();
}

TEST_CASE("a job completed by SQL is kept for its queue's retention, or the nodes' default") {
  StoreOptions options;
  options.retention_completed = hours(7);
  Place place(options);
  const ClaimedJob first = running(place);
  CHECK(complete(place, first.id, first.token) == "ok");
  place.apply<Done>(SetRetention{.queue = "q", .completed = minutes(30), .dead = std::nullopt});
  const ClaimedJob second = running(place);
  CHECK(complete(place, second.id, second.token) == "ok");
  const auto keeps = place.sql("SELECT prune_at - at FROM ms.finished ORDER BY ids[1]");
  REQUIRE(keeps.size() == 2);
  CHECK(keeps[0][0] == std::to_string(Duration(hours(7)).count()));
  CHECK(keeps[1][0] == std::to_string(Duration(minutes(30)).count()));
  place.clock.advance(hours(1));
  CHECK(place.apply<StepResult>(PruneJobs{}).changed == 1);
  place.clock.advance(hours(7));
  CHECK(place.apply<StepResult>(PruneJobs{}).changed == 1);
  CHECK(complete(place, first.id, first.token) == "not_found");
  place.check_invariants();
}

TEST_CASE("the nodes receive the end of a job when it is committed") {
  Place place;
  Listener node(place.options);
  const ClaimedJob silent = running(place), undone = running(place), told = running(place);
  CHECK(complete(place, silent.id, silent.token, ", wake => false") == "ok");
  place.sql(fmt::format("BEGIN; SELECT ms.complete({}, {}); ROLLBACK", undone.id, undone.token));
  CHECK(complete(place, told.id, told.token) == "ok");
  CHECK(node.wait([&] { return node.ended.contains(told.id); }));
  CHECK(node.ended == std::set<JobId>{told.id});
}

TEST_CASE("a role that was granted complete can do that, and nothing else") {
  Place place;
  const ClaimedJob job = running(place);
  const std::string role = "worker_" + place.options.schema;
  must(pg_testing::the_cluster().sql(fmt::format("CREATE ROLE {} LOGIN", role)));
  place.sql(fmt::format("GRANT USAGE ON SCHEMA {} TO {}", place.options.schema, role));
  PgConnection worker = Place::connect(role);
  const std::string call =
      place.named(fmt::format("SELECT ms.complete({}, {})", job.id, job.token));
  CHECK_FALSE(worker.sql(call).has_value());
  place.sql("GRANT EXECUTE ON FUNCTION ms.complete TO " + role);
  CHECK(must(worker.sql(call)).at(0).at(0) == "ok");
  CHECK_FALSE(worker.sql(place.named("SELECT ms.enqueue('q', 'k')")).has_value());
  CHECK_FALSE(worker.sql(place.named("SELECT * FROM ms.jobs")).has_value());
  CHECK_FALSE(worker.sql(place.named("SELECT ms.begin_waiting(1, 1, true)")).has_value());
  CHECK_FALSE(worker.sql(place.named("SELECT ms.end_link(1, 1, 1, true)")).has_value());
}

// -- schedules ------------------------------------------------------------------------------------

constexpr Duration kMinute = minutes(1);

void put_schedule(Place& place, Overlap overlap) {
  Schedule schedule{.name = "s", .every = minutes(1), .job = {}};
  schedule.job.queue = "q";
  schedule.job.kind = "k";
  schedule.overlap = overlap;
  const WallTime start = place.clock.now().wall;
  place.apply<PutScheduleResult>(
      PutSchedule{.schedule = schedule, .next = start, .next_fire = start});
}

std::vector<JobId> fire(Place& place, Store& node, int first, int ticks,
                        std::optional<Overlap> overlap = std::nullopt) {
  FireSchedule op{.name = "s", .source = TickSource::backfill, .ticks = {}, .overlap = overlap};
  const WallTime start = place.clock.now().wall - hours(1);
  for (int tick = first; tick < first + ticks; ++tick)
    op.ticks.push_back({.nominal = start + kMinute * tick});
  const Operation operation = op;
  return std::get<FireResult>(must(node.apply({&operation, 1}, place.clock.now())).results[0]).jobs;
}

TEST_CASE("the commit of a completion starts the next waiting job of a schedule") {
  Place place;
  Listener node(place.options);
  put_schedule(place, Overlap::buffer_all);
  const auto jobs = fire(place, *place.store, 0, 3);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    CAPTURE(i);
    const auto claimed = place.claim("q", 9);
    REQUIRE(claimed.size() == 1);
    CHECK(claimed[0].id == jobs[i]);
    place.sql(
        fmt::format("BEGIN; SELECT ms.complete({}, {}); ROLLBACK", jobs[i], claimed[0].token));
    place.check_invariants();
    CHECK(place.claim("q").empty());
    CHECK(complete(place, jobs[i], claimed[0].token) == "ok");
    place.check_invariants();
    CHECK(node.wait([&] { return node.ended.contains(jobs[i]); }));
    if (i + 1 < jobs.size()) CHECK(node.hears("q"));
  }
  CHECK(place.sql("SELECT count(*) FROM ms.schedule_jobs").at(0).at(0) == "0");
}

TEST_CASE("a schedule's job is not completed on an outdated view of the waiting job") {
  Place place;
  put_schedule(place, Overlap::buffer_all);
  fire(place, *place.store, 0, 1);
  const ClaimedJob job = place.claim("q").at(0);
  for (const char* level : {"REPEATABLE READ", "SERIALIZABLE"}) {
    const auto got = place.try_sql(fmt::format(
        "BEGIN ISOLATION LEVEL {}; SELECT ms.complete({}, {})", level, job.id, job.token));
    REQUIRE_FALSE(got.has_value());
    CHECK(got.error().message.find(
              fmt::format("25000 ERROR:  job {} is of a schedule: must be completed in a "
                          "transaction that is READ COMMITTED, not {}",
                          job.id, level)) == 0);
    place.sql("ROLLBACK");
  }
  CHECK(complete(place, job.id, job.token) == "ok");
  place.sql("BEGIN ISOLATION LEVEL SERIALIZABLE");
  const ClaimedJob other = [&] {
    NewJob plain;
    plain.queue = "q", plain.kind = "k";
    place.enqueue(plain);
    return place.claim("q").at(0);
  }();
  CHECK(complete(place, other.id, other.token) == "ok");
  place.sql("COMMIT");
  place.check_invariants();
}

TEST_CASE("a tick that fires while its predecessor is being completed is not left waiting") {
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    Place place;
    put_schedule(place, Overlap::buffer_all);
    const auto other = place.open();
    fire(place, *place.store, 0, 1 + round % 2);
    const ClaimedJob job = place.claim("q").at(0);
    place.sql("BEGIN");
    CHECK(complete(place, job.id, job.token) == "ok");
    {
      std::atomic<bool> fired{false};
      std::jthread node([&] {
        fire(place, *other, 30, 1);
        fired = true;
      });
      const auto node_waits = [&] {
        return place.sql("SELECT count(*) FROM pg_locks WHERE NOT granted").at(0).at(0) != "0";
      };
      while (round % 3 != 0 && !fired && !node_waits()) std::this_thread::yield();
      place.sql(round % 4 == 3 ? "ROLLBACK" : "COMMIT");
    }
    place.check_invariants();
    // In any order of events: all jobs run one after the other.
    if (round % 4 == 3) CHECK(complete(place, job.id, job.token) == "ok");
    for (int left = 1 + round % 2; left > 0; --left) {
      const auto next = place.claim("q", 9);
      REQUIRE(next.size() == 1);
      CHECK(complete(place, next[0].id, next[0].token) == "ok");
      place.check_invariants();
    }
    CHECK(place.claim("q").empty());
  }
}

TEST_CASE("a waiting job is not forgotten while the end of a predecessor is uncommitted") {
  Place place;
  put_schedule(place, Overlap::allow);
  fire(place, *place.store, 0, 2);
  const auto live = place.claim("q", 2);
  REQUIRE(live.size() == 2);
  const auto call = [&](const ClaimedJob& job) {
    return place.named(fmt::format("SELECT ms.complete({}, {})", job.id, job.token));
  };
  place.sql("BEGIN; " + call(live[1]));  // no job waits yet
  const JobId waits = fire(place, *place.store, 30, 1, Overlap::buffer_one).at(0);
  CHECK(state_of(place, waits) == JobState::waiting);
  PgConnection other = Place::connect();
  must(other.send(call(live[0])));
  const SystemClock clock;
  const Instant limit = clock.now().instant + pg_testing::kHearLimit;
  const auto waiting = [&] {
    return place.sql("SELECT count(*) FROM pg_locks WHERE NOT granted").at(0).at(0) != "0";
  };
  while (!waiting() && clock.now().instant < limit) std::this_thread::yield();
  place.sql("COMMIT");
  CHECK(must(other.answer()).at(0).at(0) == "ok");
  CHECK(state_of(place, waits) == JobState::available);
  place.check_invariants();
}

// -- a mix ----------------------------------------------------------------------------------------

std::string quoted(const std::string& text) {
  return "'" + text + "'";
}

// Of what the mix makes.
std::string sql_of(const NewJob& job) {
  std::string out = quoted(job.queue) + ", " + quoted(job.kind) + ", " + quoted(job.args);
  out += fmt::format(", priority => {}, max_attempts => {}", job.priority, job.max_attempts);
  if (job.delay) out += fmt::format(", delay => '{} us'", job.delay->count());
  if (job.expires_in) out += fmt::format(", expires_in => '{} us'", job.expires_in->count());
  if (job.unique) {
    out += fmt::format(", unique_key => '{}', unique_for => '{} us', on_conflict => '{}'",
                       job.unique->key, job.unique->window.count(),
                       to_string(job.unique->on_conflict));
  }
  if (!job.tags.empty()) out += fmt::format(", tags => '{{{}}}'", job.tags[0]);
  return out;
}

class Mix {
 public:
  explicit Mix(std::uint32_t seed) : random_(seed) {}

  void step() {
    // Both believe the database's time: functions have no other.
    const WallTime now = WallTime::from_us(std::stoll(mixed.sql("SELECT ms.now_us()").at(0).at(0)));
    const Duration moved = now - mixed.clock.now().wall;
    for (Place* place : {&plain, &mixed}) place->clock.advance(moved);
    switch (below(8)) {
      case 0:
      case 1:
      case 2:
        return enqueue();
      case 3:
      case 4:
        return claim();
      case 5:
      case 6:
        return end();
      default:
        return operate();
    }
  }

  void compare() {
    for (JobId id = 1; id <= last_; ++id) {
      CAPTURE(id);
      const Job a = must(plain.store->get(id)), b = must(mixed.store->get(id));
      CHECK(a.state == b.state);
      CHECK(a.queue == b.queue);
      CHECK(a.kind == b.kind);
      CHECK(a.args == b.args);
      CHECK(a.priority == b.priority);
      CHECK(a.attempt == b.attempt);
      CHECK(a.max_attempts == b.max_attempts);
      CHECK(a.token == b.token);
      CHECK(a.version == b.version);
      CHECK(a.unique_key == b.unique_key);
      CHECK(a.tags == b.tags);
      CHECK(a.result == b.result);
      CHECK(a.reason == b.reason);
      CHECK(a.expires_at.has_value() == b.expires_at.has_value());
      CHECK(a.finished_at.has_value() == b.finished_at.has_value());
    }
    const auto a = must(plain.store->queues()), b = must(mixed.store->queues());
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      CHECK(a[i].counts == b[i].counts);
      CHECK(a[i].enqueued == b[i].enqueued);
    }
    plain.check_invariants();
    mixed.check_invariants();
  }

  Place plain, mixed;
  int by_sql = 0;

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool coin() { return below(2) == 0; }

  void enqueue() {
    NewJob job;
    job.queue = fmt::format("q{}", below(2));
    job.kind = fmt::format("k{}", below(3));
    job.args = fmt::format("[{}]", below(1000));
    job.priority = below(3);
    job.max_attempts = 1 + below(3);
    if (below(4) == 0) job.delay = hours(1);
    if (below(4) == 0) job.expires_in = hours(2);
    if (below(4) == 0) job.tags = {"t"};
    if (coin()) {
      job.unique = Unique{.key = fmt::format("u{}", below(6)),
                          .window = coin() ? hours(1) : Duration(0),
                          .on_conflict = static_cast<OnConflict>(below(3))};
    }
    const JobId id = plain.enqueue(job);
    last_ = std::max(last_, id);
    if (coin()) {
      ++by_sql;
      CHECK(mixed.enqueue(sql_of(job)) == id);
      mixed.store->heard({.queues = {job.queue}});
    } else {
      CHECK(mixed.enqueue(job) == id);
    }
  }

  void claim() {
    const std::string queue = fmt::format("q{}", below(2));
    const int max = 1 + below(3);
    const auto a = plain.claim(queue, max), b = mixed.claim(queue, max);
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      CHECK(a[i].id == b[i].id);
      CHECK(a[i].token == b[i].token);
      running_.push_back(a[i]);
    }
  }

  void end() {
    if (running_.empty()) return;
    const auto at = static_cast<std::size_t>(below(static_cast<int>(running_.size())));
    const ClaimedJob job = running_[at];
    if (below(5) != 0) running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(at));
    if (below(3) == 0) {
      const Retry retry{.error = "e", .after = coin() ? Duration(0) : Duration(hours(1))};
      CHECK(finish(plain, job.id, job.token, retry) == finish(mixed, job.id, job.token, retry));
      return;
    }
    const std::string result = coin() ? "[1]" : "";
    const FinishStatus status = finish(plain, job.id, job.token, Complete{result});
    if (!coin()) {
      CHECK(finish(mixed, job.id, job.token, Complete{result}) == status);
      return;
    }
    ++by_sql;
    const std::string more = result.empty() ? "" : ", " + quoted(result);
    const std::string call = fmt::format("SELECT ms.complete({}, {}{})", job.id, job.token, more);
    mixed.sql("BEGIN; " + call + "; ROLLBACK");
    CHECK(mixed.sql(call).at(0).at(0) == (status == FinishStatus::ok ? "ok" : "stale"));
  }

  void operate() {
    if (last_ == 0) return;
    const JobId id = 1 + below(static_cast<int>(last_));
    const Operation op =
        coin() ? Operation(Cancel{.id = id, .reason = "r"}) : Operation(RetryJob{.id = id});
    for (Place* place : {&plain, &mixed}) must(place->store->apply({&op, 1}, place->clock.now()));
  }

  std::mt19937 random_;
  std::vector<ClaimedJob> running_;
  JobId last_ = 0;
};

TEST_CASE("a job completed by SQL makes its follow-ups like one that a node completes") {
  Place place;
  NewJob job{.queue = "q", .kind = "k", .args = "[]"};
  job.tags = {"red", "\x01z", "a \"b\""};
  job.headers = R"({"h":"1"})";
  job.correlation_id =
      "\x01"
      "c";
  job.reply_to = "replies";
  job.follow_ups = {
      {.queue = "next", .kind = "mail", .priority = 2, .data = R"({"a": [1]})"},
      {.queue = "never", .kind = "x", .on = FollowUp::kDead | FollowUp::kCancelled, .data = ""},
      {.queue = "never", .kind = "y", .on = FollowUp::kMessage | FollowUp::kProgress, .data = ""},
      {.queue = "next", .kind = "log", .on = FollowUp::kCompleted, .data = ""}};
  std::vector<std::vector<Job>> made;
  for (const bool by_sql : {false, true}) {
    place.enqueue(job);
    const ClaimedJob running = place.claim("q").at(0);
    Listener node(place.options);
    if (by_sql) {
      const auto call =
          fmt::format("SELECT ms.complete({}, {}, '{{\"n\": 1}}');", running.id, running.token);
      place.sql("BEGIN; " + call + "ROLLBACK");
      place.sql(call);
      CHECK(node.hears("replies"));
      CHECK(node.hears("next"));
    } else {
      CHECK(finish(place, running.id, running.token, Complete{"{\"n\": 1}"}) == FinishStatus::ok);
    }
    std::vector<Job>& jobs = made.emplace_back();
    place.store->heard({.queues = {"next", "replies"}});
    for (const char* queue : {"next", "replies"}) {
      for (const ClaimedJob& one : place.claim(queue, 9)) {
        Job& kept = jobs.emplace_back(must(place.store->get(one.id)));
        const std::string id = std::to_string(running.id);
        const std::size_t at = kept.args.find("\"job\":" + id);
        REQUIRE(at == 1);
        kept.args.erase(at, 6 + id.size());
        CHECK(finish(place, one.id, one.token, Complete{}) == FinishStatus::ok);
      }
    }
    place.check_invariants();
  }
  REQUIRE(made[0].size() == 3);
  REQUIRE(made[1].size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    const Job &node = made[0][i], &sql = made[1][i];
    CHECK(sql.queue == node.queue);
    CHECK(sql.kind == node.kind);
    CHECK(sql.priority == node.priority);
    CHECK(sql.args == node.args);
    CHECK(sql.headers == node.headers);
    CHECK(sql.correlation_id == node.correlation_id);
    CHECK(sql.max_attempts == node.max_attempts);
    CHECK(sql.timeout == node.timeout);
    CHECK(sql.follow_ups.empty());
  }
  CHECK(place.sql("SELECT count(*) FROM ms.queues WHERE name = 'never'").at(0).at(0) == "0");
}

TEST_CASE("a job from SQL gets its reply with any kind of end, and so does its replacement") {
  Place place;
  const ClaimedJob first = running(place, ", reply_to => 'r'");
  CHECK(finish(place, first.id, first.token, Dead{"bad", ""}) == FinishStatus::ok);
  CHECK(place.claim("r", 9).size() == 1);
  const ClaimedJob second = running(place, ", reply_to => 'r'");
  CHECK(complete(place, second.id, second.token) == "ok");
  place.store->heard({.queues = {"r"}});
  CHECK(place.claim("r", 9).size() == 1);
  const std::string keyed = "'q', 'k', unique_key => 'u', on_conflict => 'replace'";
  const JobId plain = place.enqueue(keyed);
  CHECK(place.enqueue(keyed + ", reply_to => 'r'") == plain);
  must(place.store->get(plain));
  CHECK(place.apply<CancelResult>(Cancel{.id = plain, .reason = "no"}).state ==
        JobState::cancelled);
  CHECK(place.claim("r", 9).size() == 1);
  CHECK(place.enqueue(keyed + ", reply_to => 'r'") > plain);
  const JobId without = place.enqueue(keyed);
  CHECK(place.apply<CancelResult>(Cancel{.id = without, .reason = "no"}).state ==
        JobState::cancelled);
  CHECK(place.claim("r", 9).empty());
  place.check_invariants();
}

TEST_CASE("a mix of SQL functions and nodes has the same effect as nodes alone") {
  for (std::uint32_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    Mix mix(seed);
    for (int i = 0; i < 250; ++i) mix.step();
    mix.compare();
    CHECK(mix.by_sql > 40);
  }
}

}  // namespace
}  // namespace mainspring
