// The places of a test program's stores: one server for all, a schema for each.
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

// The program's server, created by the first call, and one of its databases.
PgCluster& the_cluster();
const std::string& the_database();

// Options of a store in a new schema of that database: leases use the steady time that the caller
// passes.
PostgresOptions new_place(const StoreOptions& options = {});

// The same for an empty store whose schema may be reused: emptying a schema takes a tenth of the
// time of creating one. It is not reused while the pointer lives; destroy the store before the
// pointer.
std::shared_ptr<PostgresOptions> reused_place();

// MAINSPRING_TEST_POOLER=on: the stores' connections go through a transaction pooler.
bool through_pooler();

// While one exists, new places store every workflow in the form for large ones. With
// MAINSPRING_TEST_UNPACKED in the environment all places do.
struct UnpackedWorkflows {
  UnpackedWorkflows();
  ~UnpackedWorkflows();
  UnpackedWorkflows(const UnpackedWorkflows&) = delete;
};
bool packs_workflows();  // true if new places pack workflows

// -- inside ---------------------------------------------------------------------------------------
[[noreturn]] void fail_test(const std::string& why);

template <class T>
T must(Result<T> result) {
  if (!result) fail_test(result.error().message);
  return std::move(*result);
}

}  // namespace mainspring::pg_testing
