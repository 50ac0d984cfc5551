// The schema: creation, refusals, and migrations.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <barrier>
#include <thread>

#include "postgres/sql_place.h"
#include "store_postgres/inspect.h"
#include "store_postgres/migrations.h"

namespace mainspring::pg_testing {
namespace {

constexpr std::int64_t kShipped = 1;  // migrations of this program

// The migrations of a later version: those of this program and one more.
std::vector<pg::Migration> with_one_more(std::string_view sql, std::int64_t compatible) {
  const auto shipped = pg::migrations();
  std::vector<pg::Migration> all(shipped.begin(), shipped.end());
  all.push_back({.sql = sql, .compatible = compatible});
  return all;
}

// Few changes to the catalogs: a server process that makes many reloads its caches.
constexpr pg::Migration kSmall[] = {
    {.sql = "CREATE TABLE $schema.schema_version (version bigint NOT NULL, compatible bigint NOT "
            "NULL, one boolean PRIMARY KEY DEFAULT true);",
     .compatible = 1}};

constexpr std::string_view kMore =
    "ALTER TABLE $schema.queues ADD COLUMN colour text; UPDATE $schema.queues SET colour = 'red'";

// A place without a store.
struct EmptyPlace {
  EmptyPlace() : options(new_place()) {}

  Result<std::unique_ptr<SharedStore>> open() const {
    return open_postgres_store(options, clock.now(), log);
  }
  std::unique_ptr<pg::Connection> connect() const {
    return std::make_unique<pg::Connection>(
        pg::ConnectionOptions{.url = options.url,
                              .connect_timeout = std::chrono::seconds(2),
                              .timeout = std::chrono::seconds(10),
                              .prepared = options.prepared,
                              .writable = true,
                              .name = "mainspring test"},
        clock);
  }
  pg::SchemaVersion version() const { return pg::schema_version(*connect(), options.schema); }
  void migrate(std::span<const pg::Migration> known) const {
    pg::migrate(*connect(), options.schema, known);
  }
  Rows sql(std::string text) const {
    constexpr std::string_view kName = "$schema";
    for (std::size_t at = 0; (at = text.find(kName, at)) != std::string::npos;)
      text.replace(at, kName.size(), options.schema);
    return must(the_cluster().sql(text, the_database()));
  }
  std::string tables() const {
    return sql("SELECT count(*) FROM pg_tables WHERE schemaname = '$schema'").at(0).at(0);
  }
  template <class F>
  Error refused(F&& what) const {
    try {
      what();
    } catch (const Error& error) {
      return error;
    }
    FAIL("nothing was refused");
    std::abort();
  }

  SystemClock clock;
  mutable NullLog log;
  PostgresOptions options;
};

// Every command that opens a place, and its answer.
std::vector<Error> refusals(const EmptyPlace& place) {
  std::vector<Error> out;
  const auto add = [&](const auto& result) {
    REQUIRE_FALSE(result.has_value());
    out.push_back(result.error());
  };
  PostgresOptions as_it_is = place.options;
  as_it_is.migrate = false;
  add(place.open());
  add(open_postgres_store(as_it_is, place.clock.now(), place.log));
  add(migrate_postgres_store(place.options));
  return out;
}

void await_migration_locks(int count) {
  const auto until = SystemClock().now().instant + kHearLimit;
  while (must(the_cluster().sql("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT "
                                "granted"))
             .size() < static_cast<std::size_t>(count)) {
    if (SystemClock().now().instant >= until) FAIL("the nodes do not wait for the lock");
  }
}

}  // namespace

TEST_CASE("every table has a primary key, and a publication of all tables refuses no delete") {
  Place place;
  CHECK(place
            .sql("SELECT c.relname FROM pg_class c WHERE c.relnamespace = (SELECT relnamespace "
                 "FROM pg_class WHERE oid = 'ms.jobs'::regclass) AND c.relkind = 'r' AND NOT "
                 "EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)")
            .empty());
  must(the_cluster().sql(
      fmt::format("CREATE PUBLICATION of_ms FOR TABLES IN SCHEMA {}", place.options.schema),
      the_database()));
  place.enqueue(NewJob{.queue = "q", .kind = "k"});
  place.enqueue(NewJob{.queue = "q", .kind = "k"});
  place.clock.advance(std::chrono::minutes(2));
  CHECK(must(place.store->refresh(place.clock.now())).fold_failed.empty());
  CHECK(place.sql("SELECT count(*) FROM ms.job_counts WHERE node <> 0").at(0).at(0) == "0");
  must(the_cluster().sql("DROP PUBLICATION of_ms", the_database()));
  place.check_invariants();
}

TEST_CASE("counters that cannot be folded stop no heartbeat, and are folded later") {
  Place place;
  place.sql(
      "CREATE FUNCTION ms.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no deletes'; "
      "END $$; CREATE TRIGGER no BEFORE DELETE ON ms.job_counts EXECUTE FUNCTION ms.no()");
  place.enqueue(NewJob{.queue = "q", .kind = "k"});
  place.clock.advance(std::chrono::minutes(2));
  place.sql("UPDATE ms.nodes SET seen_at = 0");
  const auto heard = place.store->refresh(place.clock.now());
  REQUIRE(heard);
  CHECK(heard->fold_failed.find("no deletes") != std::string::npos);
  CHECK(place.sql("SELECT count(*) FROM ms.nodes WHERE seen_at = 0").at(0).at(0) == "0");
  CHECK(place.claim("q").size() == 1);
  place.sql("DROP TRIGGER no ON ms.job_counts");
  place.clock.advance(std::chrono::seconds(5));
  CHECK(must(place.store->refresh(place.clock.now())).fold_failed.empty());
  place.check_invariants();
}

TEST_CASE("nodes that are started at once on an empty database all come up") {
  constexpr int kNodes = 4;
  for (int round = 0; round < 5; ++round) {
    const EmptyPlace place;
    std::barrier begin(kNodes);
    std::vector<std::string> problems(kNodes);
    {
      std::vector<std::jthread> nodes;
      for (int i = 0; i < kNodes; ++i) {
        nodes.emplace_back([&, i] {
          begin.arrive_and_wait();
          const auto opened = place.open();
          if (!opened) problems[static_cast<std::size_t>(i)] = opened.error().message;
        });
      }
    }
    for (const std::string& problem : problems) CHECK(problem == "");
    CHECK(place.version().version == kShipped);
    CHECK(must(must(place.open())->verify()).problems.empty());
  }
}

TEST_CASE("a node that waited for another one to create the schema uses it") {
  // The server processes have created a schema before, as those of a pooler have. What they cached
  // then must not hide the new schema.
  for (const bool schema_exists : {false, true}) {
    CAPTURE(schema_exists);
    const EmptyPlace place;
    if (schema_exists)
      place.sql("CREATE SCHEMA $schema; GRANT ALL ON SCHEMA $schema TO mainspring");
    std::unique_ptr<pg::Connection> connections[2];
    for (auto& connection : connections) {
      connection = place.connect();
      pg::migrate(*connection, EmptyPlace().options.schema, kSmall);
    }
    auto creator = Place::connect();
    must(
        creator.sql(fmt::format("BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('mainspring "
                                "migrate {}', 0))",
                                place.options.schema)));
    std::string problems[2];
    {
      std::vector<std::jthread> nodes;
      for (std::size_t i = 0; i < 2; ++i) {
        nodes.emplace_back([&, i] {
          try {
            pg::migrate(*connections[i], place.options.schema, kSmall);
          } catch (const pg::PgError& error) {
            problems[i] = error.message;
          } catch (const Error& error) {
            problems[i] = error.message;
          }
        });
      }
      await_migration_locks(2);  // both have seen that there is no store
      must(creator.sql("COMMIT"));
    }
    for (const std::string& problem : problems) CHECK(problem == "");
    CHECK(place.version().version == kShipped);
  }
}

TEST_CASE("migrations are applied in order, each one once, and keep the data") {
  const EmptyPlace place;
  {
    const auto store = must(place.open());
    apply<EnqueueResult>(*store, Enqueue{.jobs = {{.queue = "q", .kind = "k"}}}, place.clock);
  }
  const auto later = with_one_more(kMore, 1);
  CHECK(place.version().version == kShipped);
  place.migrate(later);
  place.migrate(later);
  CHECK(place.version().version == kShipped + 1);
  CHECK(place.sql("SELECT colour FROM $schema.queues").at(0).at(0) == "red");
  // Compatible: this program may still use it.
  const auto store = must(place.open());
  CHECK(claim(*store, 9, place.clock).size() == 1);
  CHECK(must(store->verify()).problems.empty());
}

TEST_CASE("an empty database gets all migrations") {
  const EmptyPlace place;
  place.migrate(with_one_more(kMore, 2));
  CHECK(place.version().version == kShipped + 1);
  CHECK(place.version().compatible == 2);
}

TEST_CASE("a newer schema is refused, and stays as it is") {
  const EmptyPlace place;
  place.migrate(with_one_more(kMore, 2));
  for (const Error& error : refusals(place)) {
    CHECK(error.code == ErrorCode::conflict);
    CHECK(error.message == fmt::format("schema {}: has version 2, and this program supports "
                                       "versions up to 1: use a newer mainspring",
                                       place.options.schema));
  }
  CHECK(place.version().version == kShipped + 1);
}

TEST_CASE("a schema that is too old is refused by a program that may not migrate it") {
  const EmptyPlace place;
  place.migrate(pg::migrations());
  const Error error =
      place.refused([&] { pg::check_schema(place.version(), place.options.schema, kShipped + 1); });
  CHECK(error.code == ErrorCode::conflict);
  CHECK(error.message == fmt::format("schema {}: has version 1, and this program needs version 2: "
                                     "run `mainspring store migrate`",
                                     place.options.schema));
}

TEST_CASE("a migration that fails leaves no trace and can be repeated") {
  const EmptyPlace place;
  place.migrate(pg::migrations());
  const std::string before = place.tables();
  const auto wrong = with_one_more("CREATE TABLE $schema.half (a int); SELECT 1 / 0", 2);
  CHECK_THROWS_AS(place.migrate(wrong), pg::PgError);
  CHECK(place.tables() == before);
  CHECK(place.version().version == kShipped);
  CHECK(place.version().compatible == 1);
  must(place.open());
  place.migrate(with_one_more("CREATE TABLE $schema.whole (a int)", 2));
  CHECK(place.version().version == kShipped + 1);
}

TEST_CASE("a schema of a development build is refused with one sentence, for any version") {
  for (const int version : {1, 29, 1000, 0}) {
    CAPTURE(version);
    const EmptyPlace place;
    if (version == 0) {  // one of the last, with the tables and the number of schema 1
      place.migrate(pg::migrations());
      place.sql(
          "DROP INDEX $schema.workflow_keys; CREATE UNIQUE INDEX workflow_keys ON "
          "$schema.workflows (name, key) WHERE key IS NOT NULL");
    } else {
      place.sql(
          fmt::format("CREATE SCHEMA $schema; CREATE TABLE $schema.meta (version bigint NOT NULL, "
                      "compatible bigint NOT NULL, one boolean PRIMARY KEY DEFAULT true CHECK "
                      "(one)); CREATE TABLE $schema.jobs (id bigint); INSERT INTO $schema.meta "
                      "VALUES ({}, 1)",
                      version));
    }
    const std::string tables = place.tables();
    auto errors = refusals(place);
    const auto inspected = inspect_postgres_store(place.options);
    REQUIRE_FALSE(inspected.has_value());
    errors.push_back(inspected.error());
    for (const Error& error : errors) {
      CHECK(error.code == ErrorCode::conflict);
      CHECK(error.message ==
            fmt::format("schema {}: created by a development build of Mainspring, which this "
                        "version cannot read: drop the schema, or choose another one "
                        "(store_schema)",
                        place.options.schema));
    }
    CHECK(place.tables() == tables);
  }
}

TEST_CASE("a schema with tables of something else is refused, and an empty one is used") {
  const EmptyPlace place;
  place.sql("CREATE SCHEMA $schema; CREATE TABLE $schema.orders (id bigint)");
  for (const Error& error : refusals(place)) {
    CHECK(error.code == ErrorCode::conflict);
    CHECK(error.message.find("holds tables that are not Mainspring's") != std::string::npos);
  }
  place.sql("DROP TABLE $schema.orders; GRANT ALL ON SCHEMA $schema TO mainspring");
  must(place.open());
}

}  // namespace mainspring::pg_testing
