// Limits of queues: claims that count running jobs, and queues that open again.
//
// A claim from a queue with limits locks the queue's row. A separate statement, which sees
// everything committed before the lock was granted, then counts the running jobs. Ends are recorded
// without that lock: an uncommitted end still counts as running. The statement of other claims
// skips queues with limits, so that a node that does not know a new limit yet takes no job rather
// than too many.

#include "api/limit_shapes.h"
#include "base/mutant.h"
#include "store_postgres/fast_path.h"

namespace mainspring::pg {

void read_limits_of(QueueInfo& queue, const Rows& rows, int row, int first) {
  queue.limits = {};
  if (!rows.is_null(row, first)) {
    auto limits = parse_limits(rows.text(row, first));
    if (!limits) throw PgError{"XX001", limits.error().message, false};
    queue.limits = std::move(*limits);
  }
  queue.meter =
      rows.is_null(row, first + 1) ? RateMeter() : RateMeter::parse(rows.text(row, first + 1));
  queue.opens_at.reset();
  if (const auto at = rows.maybe(row, first + 2)) queue.opens_at = WallTime::from_us(*at);
  queue.keys_open_at.reset();
  if (const auto at = rows.maybe(row, first + 3)) queue.keys_open_at = WallTime::from_us(*at);
}

bool PostgresStore::is_closed(const QueueInfo& queue) const {
  const bool by_rate = closed_until(queue.limits, queue.meter, queue.opens_at).has_value();
  if (queue.paused || by_rate || is_held_by_breaker(queue)) return true;
  const QueueHint& hint = hints_[queue.id];
  return queue.limits.concurrency && !hint.running_uncertain &&
         hint.running >= *queue.limits.concurrency;
}

bool PostgresStore::is_limited(const Claiming& claiming) {
  return std::any_of(claiming.queues.begin(), claiming.queues.end(),
                     [](const QueueInfo* queue) { return queue->limits.any(); });
}

// How many jobs of each queue can start. Their rows stay locked until the end of the transaction.
PostgresStore::Rooms PostgresStore::rooms(const std::vector<const QueueInfo*>& queues) {
  Ints ids;
  for (const QueueInfo* queue : queues) ids.push_back(queue->id);
  flush();
  tell(sql_.lock_limits, params(ids));
  const Rows rows = ask(sql_.read_limits, params(ids));
  Rooms out;
  std::map<int, std::int64_t> taken;
  for (int i = 0; i < rows.size(); ++i) {
    const int id = static_cast<int>(rows.integer(i, 0));
    QueueInfo& queue = *queues_by_id_.at(id);
    read_limits_of(queue, rows, i, 1);
    any_rates_ = any_rates_ || queue.limits.has_rate();
    copies_of_batch_ = true;
    queue.paused = rows.integer(i, 5) != 0;
    std::int64_t running = rows.integer(i, 6);
    const auto pending = job_counts_.find(id);
    if (pending != job_counts_.end())
      running += pending->second.counts[static_cast<std::size_t>(JobState::running)];
    after_.running_is[id] = running;
    after_.running[id] = 0;
    taken[id] = running;
  }
  for (const auto& [id, extra] : extra_of_queues(ids)) taken[id] += extra;
  take_breakers_of(queues);
  for (const auto& [id, slots] : taken) {
    const QueueInfo& queue = *queues_by_id_.at(id);
    Room room =
        room_of(queue.limits, MS_MUTANT(concurrency_ignored) ? 0 : slots, queue.meter, now_.wall);
    room.bound_jobs(room_under_breaker(queue));
    out[id] = queue.paused ? Room::none() : room;
  }
  return out;
}

void PostgresStore::claim_limited(const std::shared_ptr<Claiming>& claiming) {
  const Claim& op = *claiming->op;
  const std::optional<Ints> kinds = kinds_named(op);
  claiming->rooms = rooms(claiming->queues);
  if (kinds && kinds->empty()) return;
  give_entries(claiming, kinds);
  has_order(*claiming) ? look_in_order(*claiming, kinds) : look_at_keys(*claiming, kinds);
  Ints ids, room;
  for (const auto& [id, of_queue] : claiming->rooms) {
    const int n = of_queue.jobs();
    if (n > 0 && !claiming->keyed_queues.contains(id)) ids.push_back(id), room.push_back(n);
  }
  if (ids.empty() && claiming->keyed.empty()) {
    if (op.kinds.empty()) note_dry(*claiming);
    return;
  }
  hold();
  claiming->at = lease_now();
  claiming->until = claiming->at + op.lease.count();
  claiming->sent_once = claiming->from_beginning = true;
  claiming->short_of = false;
  Params p = params(op.max);
  if (kinds) {
    p.add(*kinds);
  } else {
    p.null(Params::kInt8Array);
  }
  p.add(op.worker).add(op.lease.count()).add(claiming->until).add(wall()).add(claiming->at);
  const KeyedColumns keyed(claiming->keyed);
  p.add(node_).add(batch_).add(ids).add(room);
  p.add(Ints(claiming->keyed_of.begin(), claiming->keyed_of.end()));
  p.add(keyed.priority).add(keyed.run_at).add(keyed.id).add(!claiming->place_of.empty());
  take_claimed(*claiming, ask(sql_.claim_limited, p));
  if (!claiming->place_of.empty()) note_fair_keys(*claiming);
  note_keys(*claiming);
  note_costs(claiming->result.jobs);
  std::map<int, int> started;
  for (const ClaimedJob& job : claiming->result.jobs) {
    const QueueInfo& queue = *find_queue(job.queue);
    if (queue.limits.rate) started[queue.id] += begins_of(job.cost, *queue.limits.rate);
  }
  for (const auto& [id, n] : started) count_started(*queues_by_id_.at(id), n);
}

// Counts the starts of `begins` jobs. The queue's row is locked.
void PostgresStore::count_started(QueueInfo& queue, int begins) {
  if (!queue.limits.rate || begins == 0) return;
  const auto was = queue.opens_at;
  const auto awaited = [&] {
    return queue.opens_at
               ? begins_awaited(queue.limits, *queue.limits.rate, queue.meter, *queue.opens_at)
               : 0;
  };
  const int before = awaited();
  queue.meter.take(*queue.limits.rate, now_.wall, begins);
  note_rate(queue);
  const auto at = queue.opens_at ? std::optional(queue.opens_at->us()) : std::nullopt;
  const std::string meter = MS_MUTANT(rate_not_kept) ? "" : queue.meter.text();
  write(sql_.update_meter, params(std::int64_t{queue.id}, text_or_null(meter), at));
  copies_of_batch_ = true;
  // This claim runs before OpenQueues, which will then find nothing to open: notify waiting claims
  // now.
  const bool opened = before > 0 && (!queue.opens_at || awaited() > before);
  if (opened && !MS_MUTANT(early_claim_wakes_no_worker)) opened_.insert(queue.id);
  // The leader learns of a later opening when it processes this one.
  const bool sooner = queue.opens_at && (!was || *queue.opens_at < *was);
  if (was.has_value() == queue.opens_at.has_value() && !sooner) return;
  write(sql_.raise_version, params("queues"));
  after_.queues = true;
}

void PostgresStore::note_rate(QueueInfo& queue) {
  queue.opens_at.reset();
  const auto& rate = queue.limits.rate;
  if (!rate) return;
  if (const auto next = next_rate_opening(queue.limits, *rate, queue.meter, now_.wall))
    queue.opens_at = next->at;
}

// For the claim of one job of a session.
Room PostgresStore::room(const QueueInfo& queue) {
  return queue.limits.any() ? rooms({&queue})[queue.id] : Room();
}

// Queues in which a job has ended that delayed others.
void PostgresStore::settle_openings() {
  for (const int id : std::exchange(opened_, {})) open_queue(queue_by_id(id));
}

void PostgresStore::open_queue(const QueueInfo& queue) {
  after_.gained.insert(queue.id);
  gain_lines_of(queue);
}

// Because it is due, or because the clock was set back to long before it.
bool PostgresStore::keys_open_now(const QueueInfo& queue) const {
  if (!queue.keys_open_at) return false;
  const auto& rate = queue.limits.per_key.rate;
  const bool far = rate && *queue.keys_open_at > now_.wall + farthest_opening(*rate);
  return far || *queue.keys_open_at <= now_.wall;
}

WallTime PostgresStore::next_opening() const {
  WallTime next = std::min({next_half_open(), next_release_, next_resume()});
  if (!any_rates_) return next;
  for (const auto& [id, queue] : queues_by_id_) {
    if (queue->opens_at) next = std::min(next, *queue->opens_at);
    if (keys_open_now(*queue)) next = std::min(next, now_.wall);
    if (queue->keys_open_at) next = std::min(next, *queue->keys_open_at);
  }
  return next;
}

// -- operations -----------------------------------------------------------------------------------

OperationResult PostgresStore::operator()(const SetQueueLimits& op) {
  if (!op.create && !has_queue(op.queue)) return no_queue(op.queue);
  const std::string& breaker = op.limits.breaker;
  if (!breaker.empty() && ask(breaker_sql_.exists, params(breaker)).empty())
    return unknown_breaker(breaker);
  QueueInfo& queue = locked_queue(op.queue);
  if (!has_room_for_searchable(queue, op.limits)) return too_many_searchable(op.queue);
  set_searchable(queue, op.limits.searchable);
  change_breaker(queue, breaker);
  // The breaker was removed meanwhile.
  if (!breaker.empty() && take_breaker(breaker) == nullptr) return unknown_breaker(breaker);
  change_key_limits(queue, op.limits);
  change_costs(queue, op.limits);
  if (queue.limits.per_key.rate != op.limits.per_key.rate) {
    write(key_sql_.drop_meters, params(std::int64_t{queue.id}));
    queue.keys_open_at.reset();
  }
  if (queue.limits.rate != op.limits.rate) queue.meter = {};
  queue.limits = op.limits;
  any_rates_ = any_rates_ || queue.limits.has_rate();
  note_rate(queue);
  changed_queue(queue);
  open_queue(queue);
  return Done{};
}

OperationResult PostgresStore::operator()(const OpenQueues& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  const Rows rows = ask(sql_.due_openings, params(wall(), op.limit));
  StepResult result{.changed = rows.size()};
  for (int i = 0; i < rows.size(); ++i) {
    QueueInfo& queue = locked_queue(rows.string(i, 0));
    note_rate(queue);
    changed_queue(queue);
    open_queue(queue);
  }
  const bool more_keys = open_keys();
  if (result.changed < op.limit) result.changed += resume_queues(op.limit - result.changed);
  if (result.changed < op.limit) result.changed += step_breakers(op.limit - result.changed);
  if (result.changed < op.limit) result.changed += release_quarantined(op.limit - result.changed);
  result.more = result.changed == op.limit || more_keys;
  if (result.more) return result;
  // Other nodes have opened the rest of what is due in this node's copy.
  for (const auto& [id, queue] : queues_by_id_) {
    const bool opens = queue->opens_at && *queue->opens_at <= now_.wall;
    const bool of_keys = keys_open_now(*queue);
    if (opens && queue->limits.costs.empty()) queue->opens_at.reset();
    if (opens && !queue->limits.costs.empty()) locked_queue(queue->name);  // reads the next due
    if (of_keys) queue->keys_open_at.reset();
    if (opens || of_keys) open_queue(*queue);
  }
  return result;
}

}  // namespace mainspring::pg
