// The program's server and its schemas.
#include "postgres/places.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>

namespace mainspring::pg_testing {

void fail_test(const std::string& why) {
  FAIL(why);
  std::abort();
}

void must(const Result<void>& result) {
  if (!result) fail_test(result.error().message);
}

PgCluster& the_cluster() {
  static const std::unique_ptr<PgCluster> cluster = must(PgCluster::make({}));
  return *cluster;
}

const std::string& the_database() {
  static const std::string name = must(the_cluster().new_database());
  return name;
}

PostgresOptions new_place(const StoreOptions& options) {
  static std::atomic<int> count{0};
  PostgresOptions o;
  o.url = Secret(the_cluster().url(the_database()));
  o.schema = fmt::format("s{}", ++count);
  o.store = options;
  o.lease_clock = PostgresOptions::LeaseClock::instant;
  return o;
}

}  // namespace mainspring::pg_testing
