// The engine with PostgreSQL as its disk, against the model.
#include "conformance/differential.h"
#include "postgres/engine_place.h"
#include "scale.h"

namespace mainspring {
namespace {

TEST_CASE("the engine on PostgreSQL answers every operation as the model does") {
  NullLog log;
  Differential how;
  how.max_shrink_runs = 300;
  how.new_place = [&](std::uint64_t) -> Differential::Place {
    return
        [&log, place = std::make_shared<pg_testing::EnginePlace>()](
            const StoreOptions& options, Now now) { return place->open_store(options, now, log); };
  };
  const Compared compared = compare_with_model(how, by_scale(4'000, 12'000, 40'000));
  if (!compared.mismatch.empty()) FAIL(compared.mismatch);
  CHECK(compared.windows > 0);
  MESSAGE(compared.operations << " operations compared, " << compared.workflows << " workflows, "
                              << compared.windows << " duplicates of jobs that were gone");
}

}  // namespace
}  // namespace mainspring
