// The SQLite store against the model, on a simulated disk.
#include "conformance/differential.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "simulation/sim_vfs.h"
#include "store_sqlite/sqlite_store.h"

namespace mainspring {
namespace {

TEST_CASE("the SQLite store answers every operation as the model does") {
  NullLog log;
  int count = 0;
  Differential how;
  how.new_place = [&](std::uint64_t seed) -> Differential::Place {
    auto disk = std::make_shared<simulation::SimDisk>(fmt::format("diff{}", ++count), seed);
    return [&log, disk](const StoreOptions& options, Now now) -> std::unique_ptr<Store> {
      auto opened = open_sqlite_store({.directory = "/sim",
                                       .store = options,
                                       .kept_sessions = 2,
                                       .vfs = disk->vfs(),
                                       .guard_files = false},
                                      now, log);
      return opened ? std::move(*opened) : nullptr;
    };
  };
  const Compared compared = compare_with_model(how, 200'000);
  if (!compared.mismatch.empty()) FAIL(compared.mismatch);
  CHECK(compared.workflows > 0);
  CHECK(compared.forks > 0);
  MESSAGE(compared.operations << " operations compared, " << compared.workflows << " workflows, "
                              << compared.forks << " forks");
}

}  // namespace
}  // namespace mainspring
