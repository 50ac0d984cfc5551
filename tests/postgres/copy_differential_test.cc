// A store that moves at every restart, between directories and schemas, against the model.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "conformance/differential.h"
#include "postgres/copy_places.h"
#include "postgres/places.h"
#include "scale.h"

namespace mainspring {
namespace {

using pg_testing::CopyPlace;
using pg_testing::PlaceKind;

// The current and earlier places of a history: they stay until its end.
struct Wanderer {
  std::vector<std::unique_ptr<CopyPlace>> places;
  int moves = 0;

  // A copy continues with tokens far ahead, the model does not: set them back, so that all answers
  // can be compared.
  void move(const StoreOptions& options, Now now) {
    constexpr PlaceKind kRoute[] = {PlaceKind::schema, PlaceKind::directory, PlaceKind::directory,
                                    PlaceKind::schema, PlaceKind::schema};
    const CopyPlace& from = *places.back();
    auto to = std::make_unique<CopyPlace>(kRoute[static_cast<std::size_t>(moves++) % 5], options);
    const std::int64_t token =
        from.ask("SELECT b FROM job_counts WHERE id = 0",
                 "SELECT last_value + is_called::integer FROM $schema.tokens_given");
    pg_testing::must_copy(from, *to, pg_testing::StandingClock(now));
    const std::int64_t raised =
        to->ask("SELECT b FROM job_counts WHERE id = 0",
                "SELECT last_value + is_called::integer FROM $schema.tokens_given");
    CHECK(raised > token);
    to->change(fmt::format("UPDATE job_counts SET b = {} WHERE id = 0", token),
               fmt::format("SELECT setval('$schema.tokens_given', {}, {})",
                           std::max<std::int64_t>(1, token - 1), token > 1));
    places.push_back(std::move(to));
  }
};

TEST_CASE("a store that moves at every restart answers every operation as the model does") {
  int moves = 0;
  Differential how;
  how.early_agenda = true;
  how.eager_lines = true;
  how.keeps_fair_keys = false;
  how.max_shrink_runs = 20;
  how.new_place = [&](std::uint64_t) -> Differential::Place {
    auto wanderer = std::make_shared<Wanderer>();
    return [&moves, wanderer](const StoreOptions& options, Now now) -> std::unique_ptr<Store> {
      if (wanderer->places.empty()) {
        wanderer->places.push_back(std::make_unique<CopyPlace>(PlaceKind::directory));
      } else {
        wanderer->move(options, now);
        ++moves;
      }
      auto opened = wanderer->places.back()->open(now, options);
      if (!opened) MESSAGE(opened.error().message);
      return opened ? std::move(*opened) : nullptr;
    };
  };
  const Compared compared = compare_with_model(how, by_scale(12'000, 12'000, 20'000));
  if (!compared.mismatch.empty()) FAIL(compared.mismatch);
  MESSAGE(compared.operations << " operations compared, " << moves << " moves");
  CHECK(moves > 20);
}

}  // namespace
}  // namespace mainspring
