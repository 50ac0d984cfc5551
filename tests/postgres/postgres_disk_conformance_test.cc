// The conformance suite over the engine with PostgreSQL as its disk, on a server of its own.
#include "conformance/bench.h"
#include "disk_postgres/postgres_disk.h"
#include "postgres/engine_place.h"

namespace mainspring {

StoreFactory store_under_test() {
  auto place = std::make_shared<std::unique_ptr<pg_testing::EnginePlace>>();
  return [place](OpenAs how, const StoreOptions& options, Now now) -> std::unique_ptr<Store> {
    static NullLog log;
    if (how == OpenAs::fresh) *place = std::make_unique<pg_testing::EnginePlace>();
    return (*place)->open_store(options, now, log);
  };
}

}  // namespace mainspring
