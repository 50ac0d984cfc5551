// Where the stores of a test program live: one server for all, a schema for each.
#pragma once

#include <memory>
#include <string>

#include "postgres/cluster.h"
#include "store_postgres/postgres_store.h"

namespace mainspring::pg_testing {

// The value, or a failed test.
template <class T>
T must(Result<T> result);
void must(const Result<void>& result);

// The program's server, made at the first call, and a database of it.
PgCluster& the_cluster();
const std::string& the_database();

// Options of a store in a new schema of that database: leases on the steady time that the caller
// gives.
PostgresOptions new_place(const StoreOptions& options = {});

// As long as one lives, new places make neither bundles nor packed workflows: a store with those
// keeps older programs out. With MAINSPRING_TEST_UNPACKED in the environment none packs workflows.
struct AsOlderPrograms {
  AsOlderPrograms();
  ~AsOlderPrograms();
  AsOlderPrograms(const AsOlderPrograms&) = delete;
};
bool packs_workflows();  // new places do

// -- inside ---------------------------------------------------------------------------------------
[[noreturn]] void fail_test(const std::string& why);

template <class T>
T must(Result<T> result) {
  if (!result) fail_test(result.error().message);
  return std::move(*result);
}

}  // namespace mainspring::pg_testing
