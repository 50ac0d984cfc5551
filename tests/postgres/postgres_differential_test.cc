// The PostgreSQL store against the model.
#include <doctest/doctest.h>

#include <atomic>

#include "conformance/differential.h"
#include "postgres/places.h"
#include "scale.h"
#include "store_postgres/postgres_store.h"

namespace mainspring {
namespace {

// Counts the batches of a history that the store ran again.
class RepeatLog final : public Log {
 public:
  void write(LogLevel, std::string_view message, const Fields&) override {
    if (message == "retrying a batch") ++repeats;
  }
  std::atomic<int> repeats{0};
};

TEST_CASE("the PostgreSQL store answers every operation as the model does") {
  RepeatLog log;
  Differential how;
  how.early_agenda = true;
  how.eager_lines = true;
  how.max_shrink_runs = 300;
  how.skipped_numbers = [&] { return log.repeats > 0; };
  how.new_place = [&](std::uint64_t) -> Differential::Place {
    log.repeats = 0;
    return [&log, place = pg_testing::reused_place()](const StoreOptions& options,
                                                      Now now) -> std::unique_ptr<Store> {
      PostgresOptions o = *place;
      o.store = options;
      auto opened = open_postgres_store(o, now, log);
      if (!opened) MESSAGE(opened.error().message);
      return opened ? std::move(*opened) : nullptr;
    };
  };
  const int operations = pg_testing::through_pooler() ? by_scale(8'000, 8'000, 20'000)
                                                      : by_scale(8'000, 12'000, 40'000);
  const Compared compared = compare_with_model(how, operations);
  if (!compared.mismatch.empty()) FAIL(compared.mismatch);
  CHECK(compared.windows > 0);
  CHECK(compared.cut_short <= 2);
  MESSAGE(compared.operations << " operations compared, " << compared.windows
                              << " duplicates of jobs that were gone");
}

}  // namespace
}  // namespace mainspring
