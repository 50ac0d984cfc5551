// Compares a store with the model: runs the same random operations on both and compares the
// answers.
//
// The report of a mismatch has the seed, the shortest history that still shows it, and both
// answers.
// MS_DIFF_OPERATIONS sets how many operations run, MS_DIFF_SEED the first seed.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "store/store.h"

namespace mainspring {

struct Differential {
  // Opens the store of one place; the previous store has been destroyed. nullptr = it does not
  // open.
  using Place = std::function<std::unique_ptr<Store>(const StoreOptions& options, Now now)>;
  // An empty place for each history.
  std::function<Place(std::uint64_t seed)> new_place;
  bool early_agenda =
      false;  // its agenda may name earlier times than the model's, never later ones
  // It may believe that a queue has a session to accept, a held one a job, or one with limits per
  // key a job whose key has room, until a claim has looked, never that it has none.
  bool eager_lines = false;
  bool keeps_fair_keys = true;  // a copy resets them
  // True if the store of this history has repeated a batch. That skips numbers, which the model
  // does not: such a history ends at the first difference.
  std::function<bool()> skipped_numbers;
  int max_shrink_runs = 1500;
};

struct Compared {
  std::int64_t operations = 0;
  std::int64_t workflows = 0, forks = 0;  // started
  std::int64_t windows = 0;               // duplicates of pruned jobs
  std::int64_t cut_short = 0;             // histories that ended at skipped numbers
  std::string mismatch;                   // the report of the first one; "" = none
};
Compared compare_with_model(const Differential& how, std::int64_t operations);

}  // namespace mainspring
