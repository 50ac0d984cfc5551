// The SQLite store against the model, on a simulated disk.
#include "conformance/differential.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "disk_sqlite/sqlite_store.h"
#include "scale.h"
#include "simulation/sim_vfs.h"

namespace mainspring {
namespace {

TEST_CASE("the SQLite store answers every operation as the model does") {
  NullLog log;
  int count = 0;
  Differential how;
  how.new_place = [&](std::uint64_t seed) -> Differential::Place {
    auto disk = std::make_shared<simulation::SimDisk>(fmt::format("diff{}", ++count), seed);
    const bool tight = count % 2 == 0;  // else the rows of all sessions lag, and it is killed
    return [&log, disk, tight](const StoreOptions& options, Now now) -> std::unique_ptr<Store> {
      auto opened = open_sqlite_store({.directory = "/sim",
                                       .store = options,
                                       .kept_sessions = tight ? 2U : 1000U,
                                       .vfs = disk->vfs(),
                                       .guard_files = false,
                                       .close_in_order = tight},
                                      now, log);
      return opened ? std::move(*opened) : nullptr;
    };
  };
  const Compared compared = compare_with_model(how, by_scale(16'000, 40'000, 200'000));
  if (!compared.mismatch.empty()) FAIL(compared.mismatch);
  CHECK(compared.workflows > 0);
  CHECK(compared.forks > 0);
  CHECK(compared.windows > 0);
  MESSAGE(compared.operations << " operations compared, " << compared.workflows << " workflows, "
                              << compared.forks << " forks, " << compared.windows
                              << " duplicates of jobs that were gone");
}

}  // namespace
}  // namespace mainspring
