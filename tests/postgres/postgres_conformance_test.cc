// The conformance suite over the PostgreSQL store, on a server of its own.
#include <doctest/doctest.h>

#include "conformance/bench.h"
#include "postgres/places.h"
#include "store_postgres/postgres_store.h"

namespace mainspring {

StoreFactory store_under_test() {
  auto place = std::make_shared<std::shared_ptr<PostgresOptions>>();
  return [place](OpenAs how, const StoreOptions& options, Now now) -> std::unique_ptr<Store> {
    static NullLog log;
    if (how == OpenAs::fresh) *place = pg_testing::reused_place();
    (*place)->store = options;
    return pg_testing::must(open_postgres_store(**place, now, log));
  };
}

}  // namespace mainspring
