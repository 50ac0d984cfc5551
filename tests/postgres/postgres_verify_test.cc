// verify() of the PostgreSQL store: it finds all planted damage, and reports nothing while other
// nodes write.
#include <doctest/doctest.h>

#include <thread>

#include "postgres/places.h"

namespace mainspring {
namespace {

using pg_testing::must;
using std::chrono::hours;
using std::chrono::minutes;

NullLog no_log;

class Place {
 public:
  Place() : options_(pg_testing::new_place()) {}
  std::unique_ptr<SharedStore> open() const {
    return must(open_postgres_store(options_, clock.now(), no_log));
  }
  // As superuser. `schema.` in the text stands for the schema.
  Result<pg_testing::Rows> try_sql(std::string text) const {
    constexpr std::string_view kWord = "schema.";
    const std::string name = options_.schema + ".";
    for (std::size_t at = 0; (at = text.find(kWord, at)) != std::string::npos; at += name.size())
      text.replace(at, kWord.size(), name);
    return pg_testing::the_cluster().sql(text, pg_testing::the_database());
  }
  void sql(const std::string& text) const { must(try_sql(text)); }
  OperationResult apply(Store& store, Operation operation) const {
    auto report = must(store.apply({&operation, 1}, clock.now()));
    return std::move(report.results[0]);
  }
  ManualClock clock;

 private:
  PostgresOptions options_;
};

// A store with all kinds of data.
std::unique_ptr<SharedStore> filled(const Place& place) {
  auto store = place.open();
  NewJob plain;
  plain.kind = "work";
  NewJob later = plain;
  later.delay = hours(1);
  later.expires_in = hours(2);
  NewJob keyed = plain;
  keyed.unique = Unique{.key = "k", .window = hours(3)};
  place.apply(*store, Enqueue{.jobs = {plain, plain, plain, later, keyed, plain}});
  const auto claimed = std::get<ClaimResult>(
      place.apply(*store, Claim{.worker = "w", .queues = {"default"}, .kinds = {}, .max = 3}));
  REQUIRE(claimed.jobs.size() == 3);
  Finish f{.worker = "w", .results = {}};
  f.results.push_back({claimed.jobs[0].id, claimed.jobs[0].token, Complete{"[1]"}});
  f.results.push_back({claimed.jobs[1].id, claimed.jobs[1].token, Dead{"r", "d"}});
  place.apply(*store, f);
  Schedule s{.name = "s", .every = minutes(1), .job = plain};
  s.job.queue = "other";
  s.overlap = Overlap::buffer_all;
  const WallTime start = place.clock.now().wall;
  place.apply(*store, PutSchedule{.schedule = s, .next = start, .next_fire = start});
  place.apply(*store, FireSchedule{.name = "s",
                                   .source = TickSource::backfill,
                                   .ticks = {{.nominal = start}, {.nominal = start + minutes(1)}}});
  place.apply(*store, AcquireLease{.name = "l", .holder = "h"});
  s.name = "old";
  place.apply(*store, PutSchedule{.schedule = s, .next = start, .next_fire = start});
  place.apply(*store, RemoveSchedule{"old"});
  for (const char* object : {"a", "b", "c"}) {
    place.apply(*store, Audit{.who = "ops",
                              .from = "",
                              .action = "deploy",
                              .object = object,
                              .before = "",
                              .after = "{}",
                              .alone = true});
  }
  const auto report = must(store->verify());
  CHECK_MESSAGE(report.problems.empty(), report.problems.at(0));
  CHECK(report.jobs == 8);
  return store;
}

struct Damage {
  std::string sql;
  std::string found;  // a part of a problem
};

void check(const std::vector<Damage>& damages) {
  for (const Damage& damage : damages) {
    CAPTURE(damage.sql);
    const Place place;
    const auto store = filled(place);
    place.sql(damage.sql);
    const auto report = must(store->verify());
    std::string all;
    for (const std::string& problem : report.problems) all += problem + "\n";
    CHECK_MESSAGE(all.find(damage.found) != std::string::npos, all);
  }
}

TEST_CASE("a verification reports each check that is done, and their number") {
  const Place place;
  const auto store = filled(place);
  std::vector<std::pair<int, int>> seen;
  const VerifyReport report =
      must(store->verify_showing([&](int done, int of) { seen.emplace_back(done, of); }));
  CHECK(report.problems.empty());
  REQUIRE(seen.size() > 10);
  for (std::size_t i = 0; i < seen.size(); ++i)
    CHECK(seen[i] == std::pair(static_cast<int>(i + 1), static_cast<int>(seen.size())));
}

TEST_CASE("verify finds planted damage of workflows") {
  const std::vector<Damage> packed = {
      {"UPDATE schema.workflows SET data = replace(data, '\"live\":1', '\"live\":2') WHERE id = 2",
       "a wrong count of live jobs"},
      {"UPDATE schema.workflows SET data = replace(data, '\"job\":1', '\"job\":7') WHERE id = 1",
       "running steps with another job"},
      {"UPDATE schema.workflow_jobs SET step = 2 WHERE job = 1", "running steps with another job"},
      {"UPDATE schema.workflows SET data = replace(data, '\"state\":1', '\"state\":2') WHERE id = "
       "2",
       "running workflows without anything to wait for"},
      {"DELETE FROM schema.workflow_rows WHERE kind = 0", "workflows without their input"},
  };
  const std::vector<Damage> unpacked = {
      {"DELETE FROM schema.workflow_rows WHERE kind = 6", "a wrong count of live jobs"},
      {"DELETE FROM schema.workflow_rows WHERE kind = 6",
       "running workflows without anything to wait for"},
  };
  const std::vector<Damage> of_both = {
      {"DELETE FROM schema.workflow_jobs", "live step jobs that no workflow waits for"},
      {"UPDATE schema.workflow_jobs SET workflow = 99", "a workflow still waits for"},
      {"DELETE FROM schema.workflows", "a workflow still waits for"},
      {"INSERT INTO schema.workflow_jobs VALUES (99, 1, 1, false)", "a workflow still waits for"},
      {"UPDATE schema.workflows SET finished_at = 1", "ended workflows without an end time"},
      {"DELETE FROM schema.workflow_rows WHERE kind = 13", "a wrong count of live jobs"},
      {"UPDATE schema.workflows SET state = 3 WHERE id = 1", "live child workflows"},
      {"UPDATE schema.workflows SET state = 3 WHERE id = 2", "steps that wait for a workflow"},
      {"UPDATE schema.workflow_rows SET text = '1' WHERE kind = 13", "steps that wait for a work"},
  };
  const auto check_each = [](const std::vector<Damage>& damages) {
    for (const Damage& damage : damages) {
      CAPTURE(damage.sql);
      const Place place;
      const auto store = place.open();
      WorkflowSpec spec{.name = "w", .steps = {StepSpec{.name = "a", .job = NewJob{}}}};
      spec.steps[0].job->kind = "k";
      const WorkflowSpec child = spec;
      spec.steps.push_back({.name = "b", .workflow = child});
      place.apply(*store, StartWorkflow{spec});
      CHECK(must(store->verify()).problems.empty());
      place.sql(damage.sql);
      std::string all;
      for (const std::string& problem : must(store->verify()).problems) all += problem + "\n";
      CHECK_MESSAGE(all.find(damage.found) != std::string::npos, all);
    }
  };
  check_each(of_both);
  check_each(packed);
  const pg_testing::UnpackedWorkflows unpacked_workflows;
  check_each(of_both);
  check_each(unpacked);
}

TEST_CASE("verify finds planted damage of jobs") {
  check({
      {"UPDATE schema.job_counts SET available = available + 1 WHERE ctid = (SELECT min(ctid) FROM "
       "schema.job_counts WHERE queue = 1)",
       "counter available is"},
      {"UPDATE schema.job_counts SET enqueued = enqueued + 1 WHERE ctid = (SELECT min(ctid) FROM "
       "schema.job_counts WHERE queue = 1)",
       "counters that do not add up"},
      {"INSERT INTO schema.job_counts (node, batch, at, queue) VALUES (1, 99, 0, 77)",
       "counters of an unknown queue"},
      {"DELETE FROM schema.jobs WHERE id = 6", "counter available is"},
      {"DELETE FROM schema.due", "that never become available"},
      {"INSERT INTO schema.due VALUES (5, 6)", "due entries without a job"},
      {"DELETE FROM schema.ready", "missing from the ready queue"},
      {"UPDATE schema.ready SET priority = 1", "ready queue entries"},
      {"INSERT INTO schema.ready (queue, priority, kind, run_at, id, expires_at) VALUES (1, 5, 1, "
       "0, 1, 0)",
       "ready queue entries"},
      {"DELETE FROM schema.finished", "that are never pruned"},
      {"DELETE FROM schema.leased", "a lease that is never checked"},
      {"DELETE FROM schema.expiring", "that never expire"},
      {"UPDATE schema.jobs SET flags = flags | 2 WHERE id = 2", "counted as expired"},
      {"DELETE FROM schema.dead_letter", "not in the dead letter"},
      {"UPDATE schema.jobs SET state = 7 WHERE id = 1", "not in the dead letter"},
      {"INSERT INTO schema.dead_letter VALUES (6, 1, 1, 0, 0)", "that are not dead"},
      {"UPDATE schema.dead_letter SET kind = 77", "with another queue, kind or time"},
      {"UPDATE schema.dead_letter SET at = at + 1", "with another queue, kind or time"},
      {"INSERT INTO schema.search_values VALUES (1, 's', 1)", "searchable path without a job"},
      {"INSERT INTO schema.search_paths (queue, path, stage, above) VALUES (1, 'x', 1, 0); INSERT "
       "INTO schema.search_values VALUES (1, 's', 1)",
       "searchable path without a job"},
      {"UPDATE schema.jobs SET args = '{\"x\":1}'; INSERT INTO schema.search_paths (queue, path, "
       "stage, above) VALUES (1, 'x', 1, 0)",
       "missing from the index of a searchable path"},
      {"UPDATE schema.jobs SET queue = 77 WHERE id = 6", "of an unknown queue"},
      {"UPDATE schema.jobs SET kind = 77 WHERE id = 6", "of an unknown kind"},
      {"UPDATE schema.jobs SET state = 9 WHERE id = 6", "in an unknown state"},
      {"UPDATE schema.jobs SET priority = 12 WHERE id = 6", "priority out of range"},
      {"UPDATE schema.jobs SET attempt = 99 WHERE id = 6", "more attempts than allowed"},
      {"UPDATE schema.jobs SET finished_at = 0 WHERE id = 1", "jobs without an end time"},
      {"UPDATE schema.jobs SET worker = 'w' WHERE id = 6", "or other jobs with one"},
      {"UPDATE schema.jobs SET lease_until = 0 WHERE id = 3", "running jobs without a lease"},
      {"UPDATE schema.jobs SET token = (SELECT token FROM schema.jobs WHERE id = 2) WHERE id = 3",
       "tokens issued twice"},
      {"UPDATE schema.jobs SET token = 1000 WHERE id = 3", "tokens that would be issued again"},
      {"SELECT setval('schema.job_ids', 3)", "ids that would be issued again"},
      {"DELETE FROM schema.uniques", "do not own their unique key"},
      {"UPDATE schema.uniques SET key = 'other'", "of a job with another key"},
      {"UPDATE schema.uniques SET ended = 4", "unique keys of pruned jobs"},
      {"INSERT INTO schema.uniques VALUES (1, 'x', 1000, 1)", "unique keys of pruned jobs"},
      {"DELETE FROM schema.extras", "with missing extras"},
      {"INSERT INTO schema.extras (id) VALUES (6)",
       "extras that their job's row does not announce"},
      {"INSERT INTO schema.errors VALUES (6, 1, 1, 1, 1, 'w', 'm')",
       "errors that their job's row does not announce"},
      {"DELETE FROM schema.versions WHERE what = 'tokens'", "missing versions of copies"},
  });
}

TEST_CASE("verify finds planted damage of leases and schedules") {
  check({
      {"UPDATE schema.named_leases SET token = 1000", "a token that would be issued again"},
      {"UPDATE schema.named_leases SET state = 2, value = NULL", "in an unknown state"},
      {"UPDATE schema.schedules SET fired = 0", "fewer jobs than their ledger has"},
      {"DROP INDEX schema.ledger_fired; UPDATE schema.ledger SET nominal = 0", "fired twice"},
      {"UPDATE schema.ledger SET job = NULL", "fired without a job"},
      {"UPDATE schema.ledger SET job = 1000", "a job id that was never issued"},
      {"UPDATE schema.ledger SET schedule = 77", "ledgers without a schedule"},
      {"UPDATE schema.schedules SET next_seq = 1", "a number that would be issued again"},
      {"UPDATE schema.schedules SET remaining = 0", "more jobs than allowed"},
      {"UPDATE schema.removed_schedules SET name = 's'", "with a reused version"},
      {"DELETE FROM schema.schedule_jobs WHERE job = 7", "jobs of a schedule without a link"},
      {"DELETE FROM schema.schedule_jobs WHERE job = 8", "without a reason to wait"},
      {"UPDATE schema.schedule_jobs SET schedule = 77 WHERE job = 7", "or missing schedules"},
      {"INSERT INTO schema.schedule_jobs (job, schedule, waits) VALUES (1, 1, false)",
       "links of ended jobs"},
      {"UPDATE schema.jobs SET state = 0 WHERE id = 7", "without a reason to wait"},
      {"UPDATE schema.schedule_jobs SET waits = NOT waits", "does not count as waiting"},
  });
}

TEST_CASE("verify finds records of the audit that were altered, removed or added") {
  const std::string off =
      "ALTER TABLE schema.audit DISABLE TRIGGER ALL; "
      "ALTER TABLE schema.audit_marks DISABLE TRIGGER ALL; ";
  const std::string altered = off + "UPDATE schema.audit SET who = 'nobody' WHERE seq = 2";
  const std::string middle = off + "DELETE FROM schema.audit WHERE seq = 2";
  const std::string newest = off + "DELETE FROM schema.audit WHERE seq = 3";
  const std::string both = newest +
                           "; UPDATE schema.audit_marks SET seq = 2, hash = (SELECT hash FROM "
                           "schema.audit WHERE seq = 2) WHERE id = 1";
  const std::string all = off + "DELETE FROM schema.audit; DELETE FROM schema.audit_marks";
  check({
      {altered, "audit record 2"},
      {middle, "audit record"},
      {newest, "audit records 3 to 3 are missing"},
      {both, "while the store was open"},
      {all, "a mark of the audit is missing"},
      {"INSERT INTO schema.audit SELECT 4, at, who, origin, action, object, before, after, hash "
       "FROM schema.audit WHERE seq = 3",
       "audit record 4"},
  });
}

TEST_CASE("records of the audit cannot be changed by SQL, or removed out of order") {
  const Place place;
  const auto store = filled(place);
  for (const char* text :
       {"UPDATE schema.audit SET who = 'nobody'", "DELETE FROM schema.audit WHERE seq = 2",
        "UPDATE schema.audit_marks SET seq = 1 WHERE id = 1", "DELETE FROM schema.audit_marks"}) {
    CAPTURE(text);
    CHECK_FALSE(place.try_sql(text).has_value());
  }
  CHECK(must(store->verify()).problems.empty());
}

TEST_CASE("verify finds nothing while other nodes write") {
  const Place place;
  const auto store = place.open();
  constexpr int kNodes = 2, kBatches = 60, kLooks = 12;
  std::vector<std::jthread> nodes;
  for (int n = 0; n < kNodes; ++n) {
    nodes.emplace_back([&place] {
      const auto node = place.open();
      NewJob job;
      job.kind = "work";
      for (int i = 0; i < kBatches; ++i) {
        place.apply(*node, Enqueue{.jobs = {job, job, job}});
        auto claimed = std::get<ClaimResult>(
            place.apply(*node, Claim{.worker = "w", .queues = {"default"}, .kinds = {}, .max = 4}));
        Finish f{.worker = "w", .results = {}};
        for (std::size_t k = 0; k < claimed.jobs.size(); ++k) {
          const ClaimedJob& c = claimed.jobs[k];
          f.results.push_back({c.id, c.token, Complete{}});
          if (k % 2 == 1) f.results.back().outcome = Retry{.error = "x", .after = hours(1)};
        }
        if (!f.results.empty()) place.apply(*node, f);
      }
    });
  }
  for (int i = 0; i < kLooks; ++i) {
    const auto report = must(store->verify());
    CHECK_MESSAGE(report.problems.empty(), report.problems.at(0));
  }
  nodes.clear();
  const auto report = must(store->verify());
  CHECK_MESSAGE(report.problems.empty(), report.problems.at(0));
  CHECK(report.jobs == kNodes * kBatches * 3);
}

TEST_CASE("a backup is refused with the words for the tool that makes one") {
  const Place place;
  const auto refused = place.open()->backup("/tmp/nowhere");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::invalid_argument);
  CHECK(refused.error().message.find("pg_dump") != std::string::npos);
}

}  // namespace
}  // namespace mainspring
