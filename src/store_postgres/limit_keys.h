// Limits per key: their statements, and what a claim knows of the jobs that it may take.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "model/slots.h"
#include "store_postgres/connection.h"

namespace mainspring::pg {

struct LimitKeyStatements {
  explicit LimitKeyStatements(std::string_view schema);
  Statement front, running, drop_held, hold_back, take_back, note_running, forget_jobs, lock_lines,
      count_anew, release, key_info, key_of_job, key_before;
  // Of rates per key: key_rates.cc.
  Statement meters, write_meters, drop_meters, keys_open_at, due_keys, next_key_opening, due_meters,
      meters_open_at;
  // Of costs: costs.cc.
  Statement running_costs, running_kinds, kind_of_job, count_costs, drop_costs;
};

// "render=3" for each kind of which so many run: what they take beyond one slot each.
std::int64_t extra_slots(const QueueLimits& limits, const std::optional<int>& concurrency,
                         const std::vector<std::string>& running);

using KeyMeters = std::map<std::string, RateMeter>;

// An available job of a queue with limits per key.
struct KeyedJob {
  std::int64_t priority = 0, run_at = 0, id = 0, kind = 0;
  std::string key;    // "" = it has none
  bool held = false;  // in held_back, instead of in the line
  bool session = false;
  int cost = 1;                 // where turns are taken
  bool last_seen = false;       // there may be more behind it that were not looked at
  std::int64_t effective = -1;  // its priority as it counts now; -1 = as it is
  auto place() const { return std::tie(priority, run_at, id); }
  auto rank() const { return std::tie(effective < 0 ? priority : effective, run_at, id); }
};

// From jobs in their order those that a claim may take, and the others before the last of them.
struct Picked {
  std::vector<KeyedJob> jobs{}, passed{};
  bool waits = false;  // the next does not fit into its queue: nor does any behind it
};

// The same, column by column.
struct KeyedColumns {
  explicit KeyedColumns(const std::vector<KeyedJob>& jobs);
  Texts key;
  Ints kind, priority, run_at, id;
};

}  // namespace mainspring::pg
