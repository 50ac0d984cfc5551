// The guide's setup of a database: nodes need only the rights that it grants.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "postgres/places.h"

namespace mainspring {
namespace {

using pg_testing::must;
using pg_testing::the_cluster;

NullLog no_log;
constexpr std::string_view kName = "mainspring", kOurs = "guided";  // another role has that name

// The block of SQL after <!-- tested: NAME --> in the guides, with names of our own.
std::string block(const std::string& name) {
  std::stringstream all;
  for (const char* guide : {"postgresql.md", "sql.md"})
    all << std::ifstream(std::string(MAINSPRING_SOURCE_DIR) + "/docs/guides/" + guide).rdbuf();
  const std::string text = all.str();
  const std::string begin = "<!-- tested: " + name + " -->\n```sql\n";
  const std::size_t at = text.find(begin);
  REQUIRE(at != std::string::npos);
  const std::size_t end = text.find("```", at + begin.size());
  std::string sql = text.substr(at + begin.size(), end - at - begin.size());
  for (std::size_t i = 0; (i = sql.find(kName, i)) != std::string::npos; i += kOurs.size())
    sql.replace(i, kName.size(), kOurs);
  return sql;
}

// One statement after the other: CREATE DATABASE cannot run in a transaction.
void run_each(const std::string& sql, const std::string& database) {
  std::stringstream text(sql);
  std::string line, statement;
  while (std::getline(text, line)) {
    statement += line.substr(0, line.find("--")) + "\n";
    if (statement.find(';') == std::string::npos) continue;
    CAPTURE(statement);
    must(the_cluster().sql(statement, database));
    statement.clear();
  }
}

PostgresOptions place(const std::string& user) {
  PostgresOptions o = pg_testing::new_place();
  o.url = Secret(the_cluster().url(std::string(kOurs), user));
  o.schema = kOurs;
  o.migrate = user != kOurs;
  return o;
}

TEST_CASE("the guide's roles: the owner makes the tables, nodes live with rows alone") {
  const ManualClock clock;
  run_each(block("server"), "postgres");
  run_each(block("database"), std::string(kOurs));
  const auto early = open_postgres_store(place("guided"), clock.now(), no_log);
  REQUIRE_FALSE(early.has_value());
  CHECK(early.error().code == ErrorCode::conflict);
  must(open_postgres_store(place("guided_owner"), clock.now(), no_log));

  const auto store = must(open_postgres_store(place("guided"), clock.now(), no_log));
  const auto apply = [&](std::vector<Operation> batch) {
    auto report = must(store->apply(batch, clock.now()));
    for (const OperationResult& result : report.results) {
      const auto* error = std::get_if<Error>(&result);
      CHECK_MESSAGE(error == nullptr, (error == nullptr ? "" : error->message));
    }
    return std::move(report.results);
  };
  NewJob job;
  job.kind = "work";
  apply({Enqueue{.jobs = {job, job}}});
  const auto claimed = std::get<ClaimResult>(
      apply({Claim{.worker = "w", .queues = {"default"}, .kinds = {}, .max = 1}})[0]);
  Finish finish{.worker = "w", .results = {}};
  finish.results.push_back({claimed.jobs.at(0).id, claimed.jobs.at(0).token, Complete{"[1]"}});
  apply({finish});
  CreateToken token;
  token.token.name = "ci";
  token.token.scopes = *Scopes::parse("read");
  Audit audit{
      .who = "ops", .from = "", .action = "a", .object = "token/ci", .before = "", .after = ""};
  apply({token, audit, AcquireLease{.name = "l", .holder = "h"}, PruneJobs{}});
  apply({SetQueueLimits{.queue = "default", .limits = {.searchable = {"order"}}}});
  while (store->agenda().next_prune <= clock.now().wall) apply({PruneJobs{}});
  const auto indexed = must(
      store->indexed({.queue = "default", .path = "order", .value = "1", .before = 0, .limit = 9}));
  REQUIRE(indexed);
  CHECK(indexed->complete_from == 0);
  CHECK(must(store->verify()).problems.empty());
  CHECK(must(store->durability()).synchronous_commit == "on");

  auto node = must(pg_testing::PgConnection::open(the_cluster().url("guided", "guided")));
  for (const char* text :
       {"DROP TABLE guided.jobs", "TRUNCATE guided.audit",
        "ALTER TABLE guided.audit DISABLE TRIGGER ALL", "CREATE TABLE guided.more (a int)",
        "DROP FUNCTION guided.audit_append_only CASCADE", "UPDATE guided.audit SET who = 'nobody'",
        "DELETE FROM guided.audit", "CREATE SCHEMA more"}) {
    CAPTURE(text);
    CHECK_FALSE(node.sql(text).has_value());
  }
}

TEST_CASE("the guide's role for applications enqueues by a trigger, and can do nothing else") {
  const ManualClock clock;
  run_each(block("enqueue role"), std::string(kOurs));
  must(the_cluster().sql(block("trigger"), std::string(kOurs)));
  must(
      the_cluster().sql("CREATE ROLE shop LOGIN; GRANT guided_enqueue TO shop; GRANT INSERT ON "
                        "orders TO shop; GRANT CONNECT ON DATABASE guided TO shop",
                        std::string(kOurs)));
  auto shop = must(pg_testing::PgConnection::open(the_cluster().url(std::string(kOurs), "shop")));
  must(shop.sql("INSERT INTO orders VALUES (17, 'anna')"));
  must(shop.sql("BEGIN; INSERT INTO orders VALUES (18, 'bert'); ROLLBACK"));
  for (const char* text : {"SELECT * FROM guided.jobs", "DELETE FROM guided.ready",
                           "SELECT guided.step_search(9000000000000000000, 1)"}) {
    CAPTURE(text);
    CHECK_FALSE(shop.sql(text).has_value());
  }
  const auto store = must(open_postgres_store(place("guided"), clock.now(), no_log));
  const Operation claim = Claim{.worker = "w", .queues = {"mail"}, .kinds = {}, .max = 9};
  const auto report = must(store->apply({&claim, 1}, clock.now()));
  const auto& claimed = std::get<ClaimResult>(report.results[0]).jobs;
  REQUIRE(claimed.size() == 1);
  CHECK(claimed[0].kind == "confirm");
  CHECK(claimed[0].args == R"({"order": 17})");
  CHECK(must(store->get(claimed[0].id)).unique_key == "order 17");
  CHECK(must(store->verify()).problems.empty());
}

TEST_CASE("the guide's steps for a restored copy: assigned numbers are not assigned again") {
  const ManualClock clock;
  const auto store = must(open_postgres_store(place("guided"), clock.now(), no_log));
  NewJob job;
  job.kind = "work";
  const Operation enqueue = Enqueue{.jobs = {job}};
  const auto id = [&](SharedStore& s) {
    const auto report = must(s.apply({&enqueue, 1}, clock.now()));
    return std::get<EnqueueResult>(report.results[0]).jobs.at(0).id;
  };
  const JobId before = id(*store);
  run_each(block("restored"), std::string(kOurs));
  const auto restored = must(open_postgres_store(place("guided"), clock.now(), no_log));
  CHECK(id(*restored) > before + 1'000'000);
  CHECK(must(restored->verify()).problems.empty());
}

}  // namespace
}  // namespace mainspring
