// The order of jobs in queues with ageing or fair keys.
//
// A claim that names such a queue has locked the rows of its queues, and merges their first jobs
// itself, each queue's in its own order. Within a priority the order by time is also the order by
// aged priority. So the first jobs of each of the ten priorities include the first jobs over all.
// With fair keys the claim moves the jobs that it reads and does not claim into held_back, where
// the first jobs of each key are found without reading the others.
#include "store_postgres/order.h"

#include <algorithm>

#include "base/mutant.h"
#include "store_postgres/fast_path.h"

namespace mainspring::pg {
namespace {

constexpr int kOrderFront = 200;    // jobs that the first read takes beyond those wanted
constexpr int kOrderLooks = 6;      // of one claim, each twice as large; the next claim continues
constexpr int kFairFront = 12'600;  // jobs of each priority that a claim with fair keys moves
constexpr int kFairDepth = 4;       // jobs of each key in the first read; then this many times more

bool sooner(const KeyedJob& a, const KeyedJob& b) {
  return a.rank() < b.rank();
}

// The jobs of a key in order, and the key's virtual start time.
struct Turns {
  std::string key;
  Room room{};
  std::int64_t start = 0;
  std::vector<KeyedJob> jobs{};
  std::size_t next = 0;
  bool has_job() const { return next < jobs.size() && room.fits(jobs[next].cost); }
  auto rank() const {
    const KeyedJob& job = jobs[next];
    return std::tie(job.effective, start, job.run_at, job.id);
  }
};

}  // namespace

OrderStatements::OrderStatements(std::string_view s)
    : fronts(s,
             "SELECT r.priority, r.run_at, r.id, r.kind, k.limit_key, k.session IS NOT NULL FROM "
             "generate_series(0, 9) AS p(priority), LATERAL (SELECT * FROM $schema.ready WHERE "
             "queue = $1::bigint AND priority = p.priority AND (expires_at = 0 OR expires_at > $2) "
             "AND ($3::bigint[] IS NULL OR kind = ANY($3)) ORDER BY run_at, id LIMIT $4::bigint) r "
             "JOIN $schema.jobs k ON k.id = r.id ORDER BY r.priority, r.run_at, r.id"),
      held_lines(
          s,
          "WITH RECURSIVE p AS ((SELECT key, kind, priority FROM $schema.held_back WHERE queue = "
          "$1::bigint ORDER BY key, kind, priority LIMIT 1) UNION ALL SELECT n.key, n.kind, "
          "n.priority FROM p, LATERAL (SELECT key, kind, priority FROM $schema.held_back h WHERE "
          "h.queue = $1::bigint AND (h.key, h.kind, h.priority) > (p.key, p.kind, p.priority) "
          "ORDER BY h.key, h.kind, h.priority LIMIT 1) n) SELECT key, kind, priority FROM p WHERE "
          "$2::bigint[] IS NULL OR kind = ANY($2)"),
      held_of_lines(
          s,
          "SELECT h.priority, h.run_at, h.id, h.kind, h.key, (j.state = 2 AND j.priority = "
          "h.priority AND j.run_at = h.run_at AND j.kind = h.kind AND coalesce(j.limit_key, '') = "
          "h.key) IS TRUE, p.n FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[]) "
          "WITH ORDINALITY AS p(key, kind, priority, room, n), LATERAL (SELECT * FROM "
          "$schema.held_back b WHERE b.queue = $1::bigint AND b.key = p.key AND b.kind = p.kind "
          "AND b.priority = p.priority AND (b.expires_at = 0 OR b.expires_at > $6) ORDER BY "
          "b.run_at, b.id LIMIT p.room) h LEFT JOIN $schema.jobs j ON j.id = h.id ORDER BY p.n, "
          "h.run_at, h.id"),
      fair_keys(
          s,
          "SELECT q.fair_at, t.key, t.at FROM $schema.queues q LEFT JOIN $schema.fair_keys t ON "
          "t.queue = q.id AND t.at > coalesce(q.fair_at, 0) WHERE q.id = $1::bigint"),
      write_fair_keys(
          s,
          "WITH q AS (UPDATE $schema.queues SET fair_at = $2 WHERE id = $1::bigint), g AS (DELETE "
          "FROM $schema.fair_keys WHERE queue = $1::bigint AND at <= $2 AND key <> "
          "ALL($3::text[])) "
          "INSERT INTO $schema.fair_keys (queue, key, at) SELECT $1::bigint, * FROM "
          "unnest($3::text[], "
          "$4::bigint[]) ON CONFLICT (queue, key) DO UPDATE SET at = excluded.at"),
      drop_fair_keys(s,
                     "WITH q AS (UPDATE $schema.queues SET fair_at = NULL WHERE id = $1::bigint) "
                     "DELETE FROM $schema.fair_keys WHERE queue = $1::bigint") {}

bool PostgresStore::has_order(const Claiming& claiming) const {
  if (!shared_rooms(claiming).empty()) return true;
  return std::any_of(claiming.queues.begin(), claiming.queues.end(), [](const QueueInfo* queue) {
    return queue->limits.has_order() || !queue->limits.costs.empty();
  });
}

int PostgresStore::priority_now(const QueueInfo& queue, const KeyedJob& job) const {
  if (MS_MUTANT(aged_after_higher)) return static_cast<int>(job.priority);
  return effective_priority(static_cast<int>(job.priority), WallTime::from_us(job.run_at),
                            queue.limits.ageing, now_.wall);
}

// The first `most` jobs of each priority in the ready queue. `seen_to`: jobs beyond it may be
// missing; nullopt = the result is complete.
std::vector<KeyedJob> PostgresStore::fronts(const QueueInfo& queue,
                                            const std::optional<Ints>& kinds, std::int64_t most,
                                            std::optional<KeyedJob>& seen_to) {
  const Rows rows = ask(order_sql_.fronts, params(std::int64_t{queue.id}, wall(), kinds, most));
  std::vector<KeyedJob> ready;
  seen_to.reset();
  std::int64_t of_priority = 0;
  for (int i = 0; i < rows.size(); ++i) {
    KeyedJob job{.priority = rows.integer(i, 0),
                 .run_at = rows.integer(i, 1),
                 .id = rows.integer(i, 2),
                 .kind = rows.integer(i, 3),
                 .key = rows.is_null(i, 4) ? "" : rows.string(i, 4),
                 .session = rows.integer(i, 5) != 0};
    job.effective = priority_now(queue, job);
    of_priority = !ready.empty() && ready.back().priority == job.priority ? of_priority + 1 : 1;
    if (of_priority == most && (!seen_to || sooner(job, *seen_to))) seen_to = job;
    ready.push_back(std::move(job));
  }
  return ready;
}

// The keys, kinds and priorities that have held-back jobs; and the capacity of the keys.
Rows PostgresStore::held_lines(const QueueInfo& queue, const std::optional<Ints>& kinds,
                               KeyRooms& rooms) {
  Rows lines = ask(order_sql_.held_lines, params(std::int64_t{queue.id}, kinds));
  std::set<std::string> names;
  for (int i = 0; i < lines.size(); ++i) names.insert(lines.string(i, 0));
  room_of_keys(queue, names, rooms);
  return lines;
}

// The first held-back jobs of each key with capacity, kind and priority: at most `depth`. The last
// one is marked if there may be more.
std::vector<KeyedJob> PostgresStore::held_in_order(const QueueInfo& queue, const Rows& lines,
                                                   int depth, const KeyRooms& rooms,
                                                   bool& unfinished) {
  std::vector<std::string> kept;
  Ints of_kind, priority, room;
  for (int i = 0; i < lines.size(); ++i) {
    const int n = std::min(depth, rooms.at(lines.string(i, 0)).jobs());
    if (n <= 0) continue;
    kept.push_back(lines.string(i, 0)), of_kind.push_back(lines.integer(i, 1));
    priority.push_back(lines.integer(i, 2)), room.push_back(n);
  }
  const Texts keys(kept.begin(), kept.end());
  std::vector<KeyedJob> found;
  for (int look = 0; look < kOrderLooks && !keys.empty(); ++look) {
    found.clear();
    std::vector<KeyedJob> void_rows;
    std::vector<std::int64_t> seen(kept.size());
    const Rows rows = ask(order_sql_.held_of_lines,
                          params(std::int64_t{queue.id}, keys, of_kind, priority, room, wall()));
    for (int i = 0; i < rows.size(); ++i) {
      KeyedJob job{.priority = rows.integer(i, 0),
                   .run_at = rows.integer(i, 1),
                   .id = rows.integer(i, 2),
                   .kind = rows.integer(i, 3),
                   .key = rows.string(i, 4),
                   .held = true};
      job.effective = priority_now(queue, job);
      const auto index = static_cast<std::size_t>(rows.integer(i, 6) - 1);
      job.last_seen = ++seen[index] == room[index] && room[index] >= depth;
      (rows.integer(i, 5) != 0 ? found : void_rows).push_back(std::move(job));
    }
    unfinished = !void_rows.empty();
    if (!unfinished) break;
    drop_held(queue, void_rows);
    for (std::int64_t& n : room) n *= 4;  // many may have been cancelled
  }
  return found;
}

// Picks jobs in fair order, at most `most` and within the capacity of their keys. False: the last
// read job of a key was picked, and the key may have more.
bool PostgresStore::pick_fair(const QueueInfo& queue, std::vector<KeyedJob> jobs, int most,
                              const KeyRooms& rooms, Room room, FairKeys fair_keys,
                              Picked& picked) {
  std::sort(jobs.begin(), jobs.end(), sooner);
  std::map<std::string, Turns> by_key;
  std::set<std::int64_t> seen;  // a job may be in both places
  for (KeyedJob& job : jobs) {
    if (!seen.insert(job.id).second) continue;
    Turns& of_key = by_key[job.key];
    job.cost = cost_of(queue, job.kind);
    of_key.key = job.key;
    of_key.jobs.push_back(std::move(job));
  }
  for (auto& [key, of_key] : by_key) {
    of_key.start = fair_keys.start(key);
    if (!key.empty()) of_key.room = rooms.at(key);
  }
  picked = {};
  while (std::ssize(picked.jobs) < most) {
    Turns* next = nullptr;
    for (auto& [key, of_key] : by_key) {
      of_key.start = std::max(of_key.start, fair_keys.now());
      if (of_key.has_job() && (next == nullptr || of_key.rank() < next->rank())) next = &of_key;
    }
    if (next == nullptr) return true;
    const int cost = next->jobs[next->next].cost;
    picked.waits = !room.fits(cost) && !MS_MUTANT(light_overtakes_heavy);
    if (picked.waits) return true;
    picked.jobs.push_back(next->jobs[next->next++]);
    room.take(cost), next->room.take(cost);
    fair_keys.give(next->key, queue.limits.per_key, cost);
    next->start = fair_keys.start(next->key);
    if (picked.jobs.back().last_seen && std::ssize(picked.jobs) < most) return false;
  }
  return true;
}

// The jobs that a claim of `most` may take from a queue with fair keys. They are in the ready queue
// afterwards.
std::vector<KeyedJob> PostgresStore::look_in_fair(const QueueInfo& queue,
                                                  const std::optional<Ints>& kinds, int most,
                                                  const Room& room, const FairKeys& fair_keys,
                                                  bool& more) {
  std::optional<KeyedJob> seen_to;
  const std::vector<KeyedJob> ready = fronts(queue, kinds, kFairFront, seen_to);
  KeyRooms rooms;
  std::set<std::string> keys;
  for (const KeyedJob& job : ready) keys.insert(job.key);
  room_of_keys(queue, keys, rooms);
  Picked picked;
  bool unfinished = false;
  const Rows lines = held_lines(queue, kinds, rooms);
  const int share = 2 * most / std::max(1, lines.size());
  for (int depth = std::min(most, std::max(share, kFairDepth));;
       depth = std::min(most, depth * kFairDepth)) {
    std::vector<KeyedJob> all = held_in_order(queue, lines, depth, rooms, unfinished);
    all.insert(all.end(), ready.begin(), ready.end());
    if (depth == most) {
      for (KeyedJob& job : all) job.last_seen = false;  // no further jobs can be needed
    }
    if (pick_fair(queue, std::move(all), most, rooms, room, fair_keys, picked)) break;
  }
  std::set<std::int64_t> given;
  for (const KeyedJob& job : picked.jobs) given.insert(job.id);
  std::vector<KeyedJob> passed;
  for (const KeyedJob& job : ready) {
    if (!given.contains(job.id) && !job.session) passed.push_back(job);
  }
  move_held(queue, picked.jobs, passed);
  more = (seen_to || unfinished) && std::ssize(picked.jobs) < most && !picked.waits;
  return std::move(picked.jobs);
}

// The same for a queue with ageing and limits per key.
std::vector<KeyedJob> PostgresStore::look_at_aged_keys(const QueueInfo& queue,
                                                       const std::optional<Ints>& kinds, int most,
                                                       const Room& room, bool& more) {
  KeyRooms rooms;
  bool unfinished = false;
  const Rows lines = held_lines(queue, kinds, rooms);
  const std::vector<KeyedJob> held = held_in_order(queue, lines, most, rooms, unfinished);
  Picked picked;
  std::optional<KeyedJob> seen_to;
  for (int look = 0; look < kOrderLooks; ++look) {
    std::vector<KeyedJob> all = fronts(queue, kinds, most + (kOrderFront << look), seen_to);
    std::set<std::string> keys;
    for (const KeyedJob& job : all) keys.insert(job.key);
    room_of_keys(queue, keys, rooms);
    all.insert(all.end(), held.begin(), held.end());
    if (seen_to) std::erase_if(all, [&](const KeyedJob& job) { return sooner(*seen_to, job); });
    picked = pick_keyed(queue, std::move(all), most, rooms, room);
    if (!seen_to || picked.waits || std::ssize(picked.jobs) == most) break;
  }
  move_held(queue, picked.jobs, std::move(picked.passed));
  more = (seen_to || unfinished) && std::ssize(picked.jobs) < most && !picked.waits;
  return std::move(picked.jobs);
}

void PostgresStore::take_while_fits(const QueueInfo& queue, Room room,
                                    std::vector<KeyedJob>& jobs) {
  std::erase_if(jobs, [&, waits = false](const KeyedJob& job) mutable {
    const int cost = cost_of(queue, job.kind);
    const bool fits = !waits && room.fits(cost);
    if (fits) room.take(cost);
    waits = !fits && !MS_MUTANT(light_overtakes_heavy);
    return !fits;
  });
}

// Sets in `claiming` the first jobs over all its queues that the claim may take, in order.
void PostgresStore::look_in_order(Claiming& claiming, const std::optional<Ints>& kinds) {
  std::vector<std::pair<int, std::vector<KeyedJob>>> streams;
  for (const QueueInfo* queue : claiming.queues) {
    claiming.keyed_queues.insert(queue->id);
    const Room& room = claiming.rooms.at(queue->id);
    const int most = std::min(room.jobs(), claiming.op->max);
    if (most <= 0) continue;
    bool more = false;
    std::vector<KeyedJob> jobs;
    if (queue->limits.per_key.fair) {
      const FairKeys& fair_keys = claiming.fair_keys[queue->id] = fair_keys_of(*queue);
      jobs = look_in_fair(*queue, kinds, most, room, fair_keys, more);
    } else if (queue->limits.per_key.any()) {
      jobs = look_at_aged_keys(*queue, kinds, most, room, more);
    } else {
      std::optional<KeyedJob> seen_to;
      jobs = fronts(*queue, kinds, most, seen_to);
      std::sort(jobs.begin(), jobs.end(), sooner);
      if (std::ssize(jobs) > most) jobs.resize(static_cast<std::size_t>(most));
      take_while_fits(*queue, room, jobs);
    }
    if (more) claiming.unfinished.insert(queue->id);
    std::reverse(jobs.begin(), jobs.end());
    if (!jobs.empty()) streams.emplace_back(queue->id, std::move(jobs));
  }
  std::map<std::string, int> shared = shared_rooms(claiming);
  int slots = 0;  // of op->max
  while (!streams.empty() && slots < claiming.op->max) {
    const auto first = std::min_element(
        streams.begin(), streams.end(),
        [](const auto& a, const auto& b) { return sooner(a.second.back(), b.second.back()); });
    const auto room = shared.find(queue_by_id(first->first).limits.breaker);
    if (room != shared.end() && --room->second < 0) {
      streams.erase(first);
      continue;
    }
    const int cost =
        std::min(claiming.op->max, cost_of(queue_by_id(first->first), first->second.back().kind));
    slots += cost;
    if (slots > claiming.op->max) break;
    claiming.place_of.emplace(first->second.back().id, claiming.keyed.size());
    claiming.keyed.push_back(std::move(first->second.back()));
    claiming.keyed_of.push_back(first->first);
    first->second.pop_back();
    if (first->second.empty()) streams.erase(first);
  }
  claiming.full = slots >= claiming.op->max;
}

// -- fair keys ------------------------------------------------------------------------------------

FairKeys PostgresStore::fair_keys_of(const QueueInfo& queue) {
  const Rows rows = ask(order_sql_.fair_keys, params(std::int64_t{queue.id}));
  std::map<std::string, std::int64_t, std::less<>> served;
  for (int i = 0; i < rows.size(); ++i) {
    if (!rows.is_null(i, 1)) served.emplace(rows.string(i, 1), rows.integer(i, 2));
  }
  return {rows.empty() ? 0 : rows.integer(0, 0), std::move(served)};
}

// Charges the keys of the claimed jobs, in order. Also notes keys from which other claims took
// jobs.
void PostgresStore::note_fair_keys(Claiming& claiming) {
  std::map<int, std::set<std::string>> given;
  for (const ClaimedJob& job : claiming.result.jobs) {
    const std::size_t at = claiming.place_of.at(job.id);
    const QueueInfo& queue = queue_by_id(claiming.keyed_of[at]);
    if (!queue.limits.per_key.fair) continue;
    const std::string& key = claiming.keyed[at].key;
    if (key.empty() && MS_MUTANT(jobs_without_key_take_no_turn)) continue;
    claiming.fair_keys.at(queue.id).give(key, queue.limits.per_key, job.cost);
    given[queue.id].insert(key);
  }
  for (const auto& [queue, keys] : given) {
    Texts names;
    Ints at;
    const FairKeys& now = claiming.fair_keys.at(queue);
    for (const std::string& key : keys)
      names.emplace_back(key), at.push_back(now.served().find(key)->second);
    if (MS_MUTANT(turns_not_kept)) continue;
    write(order_sql_.write_fair_keys, params(std::int64_t{queue}, now.now(), names, at), false);
  }
  if (claiming.result.jobs.size() == claiming.keyed.size()) return;
  for (const QueueInfo* queue : claiming.queues) claiming.unfinished.insert(queue->id);
}

}  // namespace mainspring::pg
