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

// The same for an empty store whose schema an earlier holder may have used: emptying a schema takes
// a tenth of the time of making one. No other holder gets it while the pointer lives; the store
// must be gone before the pointer.
std::shared_ptr<PostgresOptions> reused_place();

// MAINSPRING_TEST_POOLER=on: the stores' connections go through a pooler that mixes transactions.
bool through_pooler();

// While one exists, new places store every workflow as they store large ones. So do all places if
// MAINSPRING_TEST_UNPACKED is in the environment.
struct UnpackedWorkflows {
  UnpackedWorkflows();
  ~UnpackedWorkflows();
  UnpackedWorkflows(const UnpackedWorkflows&) = delete;
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
