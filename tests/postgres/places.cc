// The program's server and its schemas. With MAINSPRING_TEST_POOLER=on in the environment, clients
// connect through a transaction pooler.
#include "postgres/places.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "postgres/pgbouncer.h"
#include "store_postgres/inspect.h"

namespace mainspring::pg_testing {

void fail_test(const std::string& why) {
  FAIL(why);
  std::abort();
}

void must(const Result<void>& result) {
  if (!result) fail_test(result.error().message);
}

PgCluster& the_cluster() {
  static const std::unique_ptr<PgCluster> cluster = must(PgCluster::make({.in_memory = true}));
  return *cluster;
}

const std::string& the_database() {
  static const std::string name = must(the_cluster().new_database());
  return name;
}

bool through_pooler() {
  const char* wanted = std::getenv("MAINSPRING_TEST_POOLER");
  return wanted != nullptr && std::string_view(wanted) == "on";
}

namespace {

// nullptr = straight to the server.
PgBouncer* the_pooler() {
  static const std::unique_ptr<PgBouncer> pooler = [] {
    return through_pooler() ? must(PgBouncer::make(the_cluster())) : nullptr;
  }();
  return pooler.get();
}

// What makes a store's schema as it was when it was made.
struct EmptiedPlace {
  PostgresOptions options;
  std::string emptying;  // SQL
  int uses = 0;
};
// Emptied tables keep their dead rows until they are vacuumed: after some uses make a new schema.
constexpr int kMostUses = 100;

// Of a schema that no store has used yet. Triggers are off: they would write into emptied tables.
std::string emptying_of(const std::string& schema) {
  must(the_cluster().sql(fmt::format("CREATE SCHEMA kept_{}", schema), the_database()));
  const auto ask = [&](const char* what, char kind) {
    return must(the_cluster().sql(
        fmt::format("SELECT {} FROM pg_class WHERE relnamespace = '{}'::regnamespace AND "
                    "relkind = '{}'",
                    what, schema, kind),
        the_database()));
  };
  // Triggers of searchable paths belong to the store that declared them.
  std::string sql = fmt::format(
      "BEGIN; SET LOCAL session_replication_role = replica; DO $$ DECLARE name text; BEGIN FOR "
      "name "
      "IN SELECT tgname FROM pg_trigger WHERE tgrelid = '{0}.jobs'::regclass AND tgname LIKE "
      "'search%' LOOP EXECUTE format('DROP TRIGGER %I ON {0}.jobs', name); END LOOP; END $$;",
      schema);
  for (const auto& row : ask("relname", 'r')) {
    const std::string table = fmt::format("{}.{}", schema, row[0]);
    sql += fmt::format("DELETE FROM {};", table);
    const auto rows =
        must(the_cluster().sql(fmt::format("SELECT count(*) FROM {}", table), the_database()));
    if (rows.at(0).at(0) == "0") continue;
    must(the_cluster().sql(fmt::format("CREATE TABLE kept_{} AS TABLE {}", table, table),
                           the_database()));
    sql += fmt::format("INSERT INTO {} SELECT * FROM kept_{};", table, table);
  }
  for (const auto& row : ask("relname", 'S')) {
    const std::string sequence = fmt::format("{}.{}", schema, row[0]);
    const auto rows = must(the_cluster().sql(
        fmt::format("SELECT last_value, is_called FROM {}", sequence), the_database()));
    sql +=
        fmt::format("SELECT setval('{}', {}, '{}');", sequence, rows.at(0).at(0), rows.at(0).at(1));
  }
  return sql + "COMMIT";
}

EmptiedPlace next_place(std::vector<EmptiedPlace>& free) {
  while (!free.empty()) {
    EmptiedPlace place = std::move(free.back());
    free.pop_back();
    const std::string& schema = place.options.schema;
    if (++place.uses < kMostUses) {
      must(the_cluster().sql(place.emptying, the_database()));
      return place;
    }
    must(the_cluster().sql(
        fmt::format("DROP SCHEMA {0} CASCADE; DROP SCHEMA kept_{0} CASCADE", schema),
        the_database()));
  }
  EmptiedPlace place{.options = new_place(), .emptying = ""};
  must(migrate_postgres_store(place.options));
  place.emptying = emptying_of(place.options.schema);
  return place;
}

}  // namespace

std::shared_ptr<PostgresOptions> reused_place() {
  static std::vector<EmptiedPlace> free;
  auto* place = new EmptiedPlace(next_place(free));
  const std::shared_ptr<EmptiedPlace> kept(place, [](EmptiedPlace* p) {
    free.push_back(std::move(*p));
    delete p;
  });
  return {kept, &kept->options};
}

namespace {
bool workflows_are_packed = true;
}

UnpackedWorkflows::UnpackedWorkflows() {
  workflows_are_packed = false;
}

UnpackedWorkflows::~UnpackedWorkflows() {
  workflows_are_packed = true;
}

bool packs_workflows() {
  return workflows_are_packed && std::getenv("MAINSPRING_TEST_UNPACKED") == nullptr;
}

PostgresOptions new_place(const StoreOptions& options) {
  static std::atomic<int> count{0};
  PostgresOptions o;
  const PgBouncer* pooler = the_pooler();
  o.url =
      Secret(pooler != nullptr ? pooler->url(the_database()) : the_cluster().url(the_database()));
  o.prepared = pooler == nullptr;
  o.schema = fmt::format("s{}", ++count);
  o.store = options;
  o.lease_clock = PostgresOptions::LeaseClock::instant;
  o.ids_ahead = false;
  o.packed_workflows = packs_workflows();
  o.least_of_pack = 2, o.most_of_pack = 3;  // few jobs make many
  // Longer than a busy machine needs for any call.
  o.lock_wait = std::chrono::seconds(60);  // batches of tests wait for each other
  o.statement_timeout = o.read_timeout = o.connect_timeout = std::chrono::seconds(60);
  return o;
}

}  // namespace mainspring::pg_testing
