// Limits per key: statements, and the jobs that a claim may take.
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
      count_again, release, key_info, key_of_job, key_before;
  // Rates per key: key_rates.cc.
  Statement meters, write_meters, drop_meters, keys_open_at, due_keys, next_key_opening, due_meters,
      meters_open_at;
  // Costs: costs.cc.
  Statement running_costs, running_kinds, kind_of_job, count_costs, drop_costs;
};

// "render=3": the number of running jobs of each kind. Returns their slots beyond one each.
std::int64_t extra_slots(const QueueLimits& limits, const std::optional<int>& concurrency,
                         const std::vector<std::string>& running);

using KeyMeters = std::map<std::string, RateMeter>;

// An available job of a queue with limits per key.
struct KeyedJob {
  std::int64_t priority = 0, run_at = 0, id = 0, kind = 0;
  std::string key;    // "" = it has none
  bool held = false;  // in held_back instead of the ready queue
  bool session = false;
  int cost = 1;                 // in queues with fair keys
  bool last_seen = false;       // there may be unread jobs after it
  std::int64_t effective = -1;  // its priority with ageing; -1 = unchanged
  auto place() const { return std::tie(priority, run_at, id); }
  auto rank() const { return std::tie(effective < 0 ? priority : effective, run_at, id); }
};

// Jobs that a claim may take, and the jobs before the last of them that were skipped.
struct Picked {
  std::vector<KeyedJob> jobs{}, passed{};
  bool waits = false;  // the next job does not fit into its queue: stop here
};

// The same, column by column.
struct KeyedColumns {
  explicit KeyedColumns(const std::vector<KeyedJob>& jobs);
  Texts key;
  Ints kind, priority, run_at, id;
};

}  // namespace mainspring::pg
