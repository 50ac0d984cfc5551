// Deferred jobs, and claims that name their job.
//
// Such a claim locks the job, then the row of its queue, like a claim from a queue with limits, so
// that pause and limits are current. The job enters the ready queue for a moment and is claimed
// from there like any other.
#include <algorithm>

#include "base/mutant.h"
#include "store_postgres/fast_path.h"

namespace mainspring::pg {

// Considers only loaded jobs whose results would be accepted; runs before anything of the request
// is applied.
std::optional<Error> PostgresStore::cannot_defer_all(const Finish& op) {
  for (const JobOutcome& r : op.results) {
    if (!std::holds_alternative<Defer>(r.outcome)) continue;
    const LoadedJob* held = job(r.id);
    const bool counts = held != nullptr && held->row.state == JobState::running &&
                        held->row.token == r.token && op.within.has(queue_name(held->row.queue));
    if (counts && (held->row.flags & kFlagSession) != 0)
      return cannot_defer(r.id, held->row.session);
  }
  return std::nullopt;
}

void PostgresStore::defer_attempt(LoadedJob& job, const Defer& defer) {
  if ((job.row.flags & kFlagCancel) != 0)
    return end_job(job, JobState::cancelled, cancel_reason(job.row.id), "");
  if (!MS_MUTANT(defer_burns_attempt)) --job.row.attempt;
  const bool in_line = MS_MUTANT(deferred_stays_in_line);
  set_waiting(job, in_line ? JobState::available : JobState::waiting, job.row.run_at);
  job.row.deferred = true;
  if (!defer.reason.empty()) set_reason(job, defer.reason, "");
}

// The job continues or ends.
void PostgresStore::undefer(LoadedJob& job) {
  if (!job.row.deferred) return;
  job.row.deferred = false;
  set_reason(job, "", "");
}

OperationResult PostgresStore::claim_named(const Claim& op) {
  flush();
  LoadedJob* held = job(op.job);
  if (held == nullptr) return missing(op.job);
  const JobRow& row = held->row;
  const QueueInfo& queue = queue_by_id(row.queue);
  if (std::find(op.queues.begin(), op.queues.end(), queue.name) == op.queues.end())
    return no_job(op.job);
  NamedJob named{.id = op.job,
                 .state = row.state,
                 .deferred = row.deferred,
                 .quarantined = waits_in_quarantine(row),
                 .queue = queue.name,
                 .session = row.session,
                 .worker = row.worker};
  if (row.expires_at != 0 && row.started_at == 0)
    named.expires_at = WallTime::from_us(row.expires_at);
  if (auto may = check_named(named, now_.wall); !may) return may.error();
  Rooms rooms = this->rooms({&queue});
  const int cost = cost_of(queue, row.kind);
  RoomForNamed room{.paused = queue.paused,
                    .queue = queue.paused || rooms.at(queue.id).fits(cost) ? 1 : 0,
                    .cost = cost};
  std::string key;
  if (queue.limits.per_key.any() && (row.flags & kFlagLimitKey) != 0) {
    key = ask(key_sql_.key_of_job, params(op.job)).string(0, 0);
    KeyRooms of_key;
    room_of_keys(queue, {key}, of_key);
    room.limit_key = of_key.at(key).fits(cost) ? 1 : 0;
  }
  if (named.quarantined && quarantine_is_taken(queue.id)) room.quarantine = 0;
  if (auto may = check_room(named, room); !may) return may.error();
  return give_named(op, *held, std::move(key), std::move(rooms));
}

// `job` is unloaded afterwards. `key`: its limit_key, if its queue has a limit per key.
ClaimResult PostgresStore::give_named(const Claim& op, LoadedJob& job, std::string key,
                                      Rooms rooms) {
  const JobRow& row = job.row;
  const bool deferred = row.deferred;
  if (row.state != JobState::available || deferred) {
    undefer(job);
    job.row.state = JobState::available;
    job.touched = any_touched_ = true;
    wrote();
    flush();
  }
  if (row.version == 1)  // it may be in a pack
    write(sql_.enter_line, params(row.id), false);
  Claim one = op;
  one.max = 1;
  one.kinds.clear();
  Claiming claiming;
  claiming.op = &one;
  claiming.rooms = std::move(rooms);
  claiming.keyed_of = {row.queue};
  claiming.keyed.push_back({.priority = row.priority,
                            .run_at = row.run_at,
                            .id = row.id,
                            .kind = row.kind,
                            .key = std::move(key)});
  const KeyedColumns place(claiming.keyed);
  const std::int64_t queue = row.queue;
  if (queue_by_id(row.queue).limits.per_key.any()) {  // it may be held back, with or without a key
    write(key_sql_.take_back,
          params(queue, place.key, place.kind, place.priority, place.run_at, place.id), false);
  }
  hold();
  claiming.at = lease_now();
  claiming.until = claiming.at + op.lease.count();
  claiming.sent_once = claiming.from_beginning = true;
  Params p = params(one.max);
  p.null(Params::kInt8Array);
  p.add(op.worker).add(op.lease.count()).add(claiming.until).add(wall()).add(claiming.at);
  p.add(node_).add(batch_).add(Ints{}).add(Ints{}).add(Ints{queue});
  p.add(place.priority).add(place.run_at).add(place.id).add(false);
  take_claimed(claiming, ask(sql_.claim_limited, p));
  if (claiming.result.jobs.empty())
    throw PgError{"XX001", "an available job is not in its ready queue", false};
  note_keys(claiming);
  note_costs(claiming.result.jobs);
  QueueInfo& of = *queues_by_id_.at(static_cast<int>(queue));
  if (of.limits.rate) count_started(of, begins_of(claiming.result.jobs[0].cost, *of.limits.rate));
  read_checkpoints(claiming);
  claiming.result.jobs[0].deferred = deferred;
  return std::move(claiming.result);
}

}  // namespace mainspring::pg
