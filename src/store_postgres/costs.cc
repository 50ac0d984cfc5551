// Costs: the slots that jobs of expensive kinds use.
//
// A claim of such a job inserts a row in running_keys, under the key "", which no job has. Like the
// rows of limit keys it counts while its job is running, and the next count removes it. All of this
// is written under the lock of the queue's row. Queues without costs have no such rows.
#include <charconv>

#include "base/mutant.h"
#include "store_postgres/fast_path.h"

namespace mainspring::pg {

int PostgresStore::cost_of(const QueueInfo& queue, std::int64_t kind) {
  return queue.limits.costs.empty() ? 1 : queue.limits.cost_of(kind_name(static_cast<int>(kind)));
}

// For a job that was not read from a ready queue.
int PostgresStore::cost_of_job(const QueueInfo& queue, JobId id) {
  if (queue.limits.costs.empty()) return 1;
  const Rows rows = ask(key_sql_.kind_of_job, params(id));
  return rows.empty() ? 1 : queue.limits.cost_of(rows.text(0, 0));
}

// "render=3": the running jobs of each kind, as the statements count them. Returns their slots
// beyond one each.
std::int64_t extra_slots(const QueueLimits& limits, const std::optional<int>& concurrency,
                         const std::vector<std::string>& running) {
  std::int64_t extra = 0;
  for (const std::string& of_kind : running) {
    const auto equals = of_kind.rfind('=');
    std::int64_t n = 0;
    if (equals == std::string::npos || !concurrency) continue;
    std::from_chars(of_kind.data() + equals + 1, of_kind.data() + of_kind.size(), n);
    extra +=
        n *
        (slots_of(limits.cost_of(std::string_view(of_kind).substr(0, equals)), *concurrency) - 1);
  }
  return extra;
}

// For the queues that have costs. Their rows are locked.
std::map<int, std::int64_t> PostgresStore::extra_of_queues(const Ints& ids) {
  Ints heavy;
  for (const std::int64_t id : ids) {
    const QueueLimits& limits = queue_by_id(static_cast<int>(id)).limits;
    if (!limits.costs.empty() && limits.concurrency) heavy.push_back(id);
  }
  std::map<int, std::int64_t> extra;
  if (heavy.empty()) return extra;
  const Rows rows = ask(key_sql_.running_costs, params(heavy));
  for (int i = 0; i < rows.size(); ++i) {
    const int id = static_cast<int>(rows.integer(i, 0));
    const QueueLimits& limits = queue_by_id(id).limits;
    extra[id] += extra_slots(limits, limits.concurrency, {rows.string(i, 1)});
  }
  return extra;
}

// Slots of each key used by running jobs.
std::map<std::string, std::int64_t> PostgresStore::taken_by_keys(const QueueInfo& queue,
                                                                 const Texts& keys) {
  std::map<std::string, std::int64_t> taken;
  const KeyLimits& limits = queue.limits.per_key;
  const bool costs = !queue.limits.costs.empty();
  const Rows rows =
      ask(costs ? key_sql_.running_kinds : key_sql_.running, params(std::int64_t{queue.id}, keys));
  for (int i = 0; i < rows.size(); ++i) {
    const int cost = costs ? queue.limits.cost_of(rows.text(i, 2)) : 1;
    taken[rows.string(i, 0)] += rows.integer(i, 1) * slots_of(cost, *limits.concurrency);
  }
  return taken;
}

// Records the costs of claimed jobs.
void PostgresStore::note_costs(const std::vector<ClaimedJob>& jobs) {
  std::map<int, std::pair<Texts, Ints>> heavy;
  for (const ClaimedJob& job : jobs) {
    if (job.cost == 1) continue;
    auto& [keys, ids] = heavy[find_queue(job.queue)->id];
    keys.emplace_back(""), ids.push_back(job.id);
  }
  if (MS_MUTANT(costs_not_kept)) return;
  for (const auto& [queue, rows] : heavy)
    write(key_sql_.note_running, params(std::int64_t{queue}, rows.first, rows.second), false);
}

// An available job that may have delayed others left the ready queue without being claimed.
void PostgresStore::heavy_left(const JobRow& row) {
  const auto queue = queues_by_id_.find(row.queue);
  if (queue == queues_by_id_.end() || cost_of(*queue->second, row.kind) == 1) return;
  after_.gained.insert(row.queue);
  gain_queue(accept_queue(queue->second->name));
}

// Call before new limits of a queue are written; its row is locked: see change_key_limits().
void PostgresStore::change_costs(const QueueInfo& queue, const QueueLimits& limits) {
  if (queue.limits.costs == limits.costs) return;
  flush();
  if (!queue.limits.any()) tell(key_sql_.lock_lines, {});
  // The leader checks for each key when it opens for the next of the costs (open_keys).
  const bool keys = !limits.costs.empty() && limits.per_key.rate;
  if (keys) queues_by_id_.at(queue.id)->keys_open_at = now_.wall;
  write(key_sql_.drop_costs, params(std::int64_t{queue.id}, wall(), keys));
  if (limits.costs.empty() || MS_MUTANT(costs_count_only_what_begins)) return;
  Texts kinds;
  for (const auto& [kind, cost] : limits.costs) kinds.emplace_back(kind);
  write(key_sql_.count_costs, params(std::int64_t{queue.id}, kinds));
}

}  // namespace mainspring::pg
