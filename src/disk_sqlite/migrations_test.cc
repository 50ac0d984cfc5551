// Which schemas a directory store opens, and how it migrates to the newest one.
#include "disk_sqlite/migrations.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "disk_sqlite/inspect.h"
#include "disk_sqlite/sqlite_store.h"
#include "disk_sqlite/transfer.h"
#include "env/clock.h"

namespace mainspring::sqlite {
namespace {

// A store of a development build has these tables and this user_version, and no application_id.
constexpr const char* kDevelopmentSchema = R"sql(
  CREATE TABLE queues (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
  CREATE TABLE kinds (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
  CREATE TABLE jobs (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, kind INTEGER NOT NULL);
  CREATE TABLE bodies (id INTEGER PRIMARY KEY, args TEXT NOT NULL);
  CREATE TABLE grants (token INTEGER PRIMARY KEY, worker TEXT NOT NULL, ids TEXT NOT NULL);
  CREATE TABLE job_counts (id INTEGER PRIMARY KEY, a INTEGER NOT NULL DEFAULT 0, b INTEGER);
  INSERT INTO job_counts (id, a, b) VALUES (0, 2, 1);
  INSERT INTO queues (id, name) VALUES (1, 'default');
  INSERT INTO kinds (id, name) VALUES (1, 'work');
  INSERT INTO jobs (id, queue, kind) VALUES (1, 1, 1);
)sql";

// A second migration, as a later version will have one.
constexpr const char* kSecondMigration = R"sql(
  ALTER TABLE queues ADD COLUMN colour TEXT NOT NULL DEFAULT 'green';
  CREATE TABLE paints (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
  INSERT INTO paints (id, name) SELECT id, name || '-paint' FROM queues;
)sql";

std::array<const char*, 2> with_second(const char* sql = kSecondMigration) {
  REQUIRE(all_migrations().size() == 1);
  return {all_migrations()[0], sql};
}

struct SchemaFixture {
  SchemaFixture() {
    char name[] = "/tmp/mainspring_schema_XXXXXX";
    top = mkdtemp(name);
    directory = top + "/data";
  }
  ~SchemaFixture() { std::filesystem::remove_all(top); }

  Result<std::unique_ptr<Store>> open() {
    return open_sqlite_store({.directory = directory, .reserve_bytes = 1 << 16}, clock.now(), log);
  }
  std::unique_ptr<Database> database(Database::Mode mode = Database::Mode::read_write_create) {
    std::filesystem::create_directory(directory);
    return std::make_unique<Database>(directory + "/mainspring.db", mode, "");
  }
  void change(const std::string& sql) { database()->execute(sql.c_str()); }
  // A store with one job in the queue `default`.
  void fill() {
    auto store = open();
    REQUIRE(store);
    std::vector<Operation> batch;
    batch.push_back(Enqueue{.jobs = {NewJob{.kind = "work", .args = "[1]"}}});
    REQUIRE((*store)->apply(batch, clock.now()));
  }
  // Every access reports it and leaves the data unchanged.
  void check_refused(ErrorCode code, const std::string& message) {
    const auto pragmas = [&] {
      auto db = database(Database::Mode::read_only);
      return std::array{db->query_int("PRAGMA application_id"),
                        db->query_int("PRAGMA user_version"),
                        db->query_int("SELECT count(*) FROM sqlite_schema")};
    };
    const auto before = pragmas();
    const auto check = [&](const std::string& what, const auto& result) {
      CAPTURE(what);
      REQUIRE_FALSE(result.has_value());
      CHECK(result.error().code == code);
      CHECK(result.error().message == fmt::format("{}/mainspring.db: {}", directory, message));
    };
    check("open", open());
    check("inspect", inspect_sqlite_store(directory));
    check("backup", backup_sqlite_store(directory, top + "/backup"));
    CHECK_FALSE(std::filesystem::exists(top + "/backup"));
    check("copy from", open_sqlite_source(directory, SourceGoesOn::yes));
    check("copy to", open_sqlite_target(directory));
    CHECK(pragmas() == before);
  }

  std::string top, directory;
  ManualClock clock;
  NullLog log;
};

TEST_CASE_FIXTURE(SchemaFixture, "a newer schema is refused") {
  fill();
  change("PRAGMA user_version = 2");
  check_refused(ErrorCode::conflict,
                "schema 2: this version of Mainspring reads schemas up to 1: use a newer one");
}

TEST_CASE_FIXTURE(SchemaFixture, "a store of a development build is refused") {
  for (const int version : {1, 24}) {
    change(fmt::format("{} PRAGMA user_version = {}", kDevelopmentSchema, version));
    check_refused(ErrorCode::conflict,
                  fmt::format("created by a development build of Mainspring (schema {}), which "
                              "this version cannot read: use an empty data directory",
                              version));
    std::filesystem::remove_all(directory);
  }
  fill();
  change(
      "DROP INDEX workflow_keys; CREATE UNIQUE INDEX workflow_keys ON workflows (name, key) WHERE "
      "key IS NOT NULL");
  check_refused(ErrorCode::conflict,
                "created by a development build of Mainspring (schema 1), which this version "
                "cannot read: use an empty data directory");
}

TEST_CASE_FIXTURE(SchemaFixture, "a database of another program is refused") {
  SUBCASE("without an application id") {
    change("CREATE TABLE notes (text TEXT)");
  }
  SUBCASE("with another application id") {
    change("PRAGMA application_id = 7");
  }
  SUBCASE("with a version") {
    change("CREATE TABLE t (a); PRAGMA user_version = 1");
  }
  check_refused(ErrorCode::conflict, "not a Mainspring store");
}

TEST_CASE_FIXTURE(SchemaFixture, "an unknown schema number is reported as damage") {
  fill();
  for (const int version : {0, -1}) {
    change(fmt::format("PRAGMA user_version = {}", version));
    check_refused(ErrorCode::io_error, fmt::format("schema {}: the file is damaged", version));
  }
}

TEST_CASE_FIXTURE(SchemaFixture, "a later migration is applied once and keeps the data") {
  fill();
  const auto both = with_second();
  for (int i = 0; i < 2; ++i) {
    auto db = database();
    migrate(*db, both);
    CHECK(schema_of(*db, 2) == 2);
    CHECK(db->query_int("SELECT count(*) FROM jobs") == 1);
    CHECK(db->query_int("SELECT count(*) FROM queues WHERE colour = 'green'") == 1);
    CHECK(db->query_int("SELECT count(*) FROM paints WHERE name = 'default-paint'") == 1);
  }
  // This program knows the first migration only.
  check_refused(ErrorCode::conflict,
                "schema 2: this version of Mainspring reads schemas up to 1: use a newer one");
}

TEST_CASE_FIXTURE(SchemaFixture, "an empty database gets all migrations") {
  auto db = database();
  CHECK(schema_of(*db) == 0);
  migrate(*db, with_second());
  CHECK(schema_of(*db, 2) == 2);
  CHECK(db->query_int("SELECT count(*) FROM job_counts") == 1);
  CHECK(db->query_int("SELECT count(*) FROM paints") == 0);
}

TEST_CASE_FIXTURE(SchemaFixture, "a migration that fails changes nothing") {
  fill();
  {
    auto db = database();
    const auto broken =
        with_second("ALTER TABLE queues ADD COLUMN colour TEXT; INSERT INTO missing VALUES (1)");
    CHECK_THROWS_AS(migrate(*db, broken), DiskError);
    CHECK(schema_of(*db) == 1);
    CHECK(db->query_int("SELECT count(*) FROM pragma_table_info('queues') WHERE name = 'colour'") ==
          0);
    migrate(*db, with_second());  // the connection is of use
    CHECK(schema_of(*db, 2) == 2);
  }
  std::filesystem::remove_all(directory);
  auto db = database();
  CHECK_THROWS_AS(migrate(*db, with_second("broken")), DiskError);
  CHECK(schema_of(*db) == 0);
}

TEST_CASE_FIXTURE(SchemaFixture,
                  "a store and its backup have the application id and the schema version") {
  fill();
  REQUIRE(backup_sqlite_store(directory, top + "/backup"));
  for (const std::string& at : {directory, top + "/backup"}) {
    const auto info = inspect_sqlite_store(at);
    REQUIRE(info);
    CHECK(info->schema == newest_schema());
    CHECK(info->newest_schema == newest_schema());
    CHECK(info->jobs == 1);
    Database db(at + "/mainspring.db", Database::Mode::read_only, "");
    CHECK(db.query_int("PRAGMA application_id") == kApplicationId);
  }
}

}  // namespace
}  // namespace mainspring::sqlite
