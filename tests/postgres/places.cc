// The program's server and its schemas; with MAINSPRING_TEST_POOLER=on in the environment, behind a
// pooler that mixes transactions.
#include "postgres/places.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "postgres/pgbouncer.h"

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

namespace {

// nullptr = straight to the server.
PgBouncer* the_pooler() {
  static const std::unique_ptr<PgBouncer> pooler = [] {
    const char* wanted = std::getenv("MAINSPRING_TEST_POOLER");
    const bool on = wanted != nullptr && std::string_view(wanted) == "on";
    return on ? must(PgBouncer::make(the_cluster())) : nullptr;
  }();
  return pooler.get();
}

}  // namespace

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
  o.least_of_bundle = 2, o.most_of_bundle = 3;  // few jobs make many
  return o;
}

}  // namespace mainspring::pg_testing
