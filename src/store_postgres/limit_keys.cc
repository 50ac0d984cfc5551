// Limits per key: which jobs a claim may take from a queue that has them.
//
// The claim has locked the queue's row, so no other claim starts jobs of the queue. It reads the
// front of the ready queue, and counts the running jobs of each key that it meets. A job whose key
// is at its limit is moved from the ready queue to `held_back`, so that no later claim reads it
// again. Held-back jobs of a key with capacity are merged from there, by key and kind:
//
//   ready       7 (free)   9 (acme)   12 (free)   15 (globex)
//   held_back   acme: 10, 11, 13, 14 …
//
// The claim may take the first jobs of both, up to the capacity of their keys. Jobs that others add
// meanwhile wait for the next claim. Schema 15 explains when a row is void.
#include "store_postgres/limit_keys.h"

#include <algorithm>
#include <set>

#include "api/limit_shapes.h"
#include "base/mutant.h"
#include "store_postgres/fast_path.h"
#include "store_postgres/reader.h"

namespace mainspring::pg {
namespace {

constexpr int kKeyFront = 200;  // jobs that the first read takes beyond those wanted
constexpr int kKeyLooks = 6;    // of one claim, each twice as large; the next claim continues

#define MS_PLACES                                                                               \
  "unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]) AS u(key, kind, " \
  "priority, run_at, id)"
// Locks the jobs at those positions; skips jobs that another transaction is changing.
#define MS_LOCKED                                                                                  \
  "WITH k AS MATERIALIZED (SELECT u.* FROM " MS_PLACES                                             \
  " JOIN $schema.jobs j ON j.id = u.id WHERE j.state = 2 AND j.kind = u.kind AND j.priority = "    \
  "u.priority AND j.run_at = u.run_at AND coalesce(j.limit_key, '') = u.key FOR UPDATE OF j SKIP " \
  "LOCKED), "
constexpr std::string_view kKeyBefore =
    "SELECT count(*) FROM ((SELECT h.id FROM $schema.held_back h JOIN $schema.jobs k ON "
    "k.id = h.id WHERE h.queue = (SELECT id FROM $schema.queues WHERE name = $1) AND "
    "h.key = $6 AND (h.priority, h.run_at, h.id) < ($2, $3, $4) AND k.state = 2 LIMIT "
    "$5) UNION (SELECT r.id FROM (SELECT id, priority, run_at FROM "
    "$schema.ready WHERE queue = (SELECT id FROM $schema.queues WHERE name = $1) AND "
    "(priority, run_at, id) < ($2, $3, $4) ORDER BY priority, run_at, id LIMIT $5) r "
    "JOIN $schema.jobs j ON j.id = r.id WHERE j.limit_key = $6) LIMIT $5) l";
constexpr std::string_view kWriteMeters =
    "WITH g AS (DELETE FROM $schema.key_meters WHERE ctid = ANY(ARRAY(SELECT ctid "
    "FROM $schema.key_meters WHERE queue = $1::bigint AND forgotten_at <= $6 AND key "
    "<> ALL($2::text[]) ORDER BY forgotten_at LIMIT 100))) INSERT INTO "
    "$schema.key_meters (queue, key, meter, opens_at, forgotten_at) SELECT "
    "$1::bigint, u.key, u.meter, u.opens_at, u.forgotten_at FROM "
    "unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) AS u(key, meter, "
    "opens_at, forgotten_at) ON CONFLICT (queue, key) DO UPDATE SET meter = "
    "excluded.meter, opens_at = excluded.opens_at, forgotten_at = "
    "excluded.forgotten_at";
constexpr std::string_view kKeyInfo =
    "SELECT (SELECT count(*) FROM $schema.running_keys b JOIN $schema.jobs j ON j.id = "
    "b.id WHERE b.queue = q.id AND b.key = $2 AND j.state = 3), m.opens_at, m.meter, q.limits, "
    "CASE WHEN q.limits LIKE '%\"costs\":{%' THEN ARRAY(SELECT k.name || '=' || count(*) FROM "
    "$schema.running_keys b JOIN $schema.jobs j ON j.id = b.id JOIN $schema.kinds k ON k.id = "
    "j.kind WHERE b.queue = q.id AND b.key = $2 AND j.state = 3 GROUP BY k.name) END FROM "
    "$schema.queues q LEFT JOIN $schema.key_meters m ON m.queue = q.id AND m.key = $2 WHERE "
    "q.name = $1";
constexpr std::string_view kRelease =
    "WITH n AS (DELETE FROM $schema.running_keys WHERE queue = $1::bigint AND key <> ''), k "
    "AS MATERIALIZED (SELECT h.* FROM $schema.held_back h JOIN $schema.jobs j ON j.id = h.id "
    "WHERE h.queue = $1::bigint AND j.state = 2 AND j.kind = h.kind AND j.priority = "
    "h.priority AND j.run_at = h.run_at AND coalesce(j.limit_key, '') = h.key ORDER BY h.id "
    "FOR UPDATE OF j), d AS (DELETE FROM $schema.held_back WHERE queue = $1::bigint) INSERT "
    "INTO $schema.ready (queue, priority, kind, run_at, id, expires_at) SELECT queue, "
    "priority, kind, run_at, id, expires_at FROM k ON CONFLICT DO NOTHING";
constexpr std::string_view kDueMeters =
    "SELECT key, meter FROM $schema.key_meters WHERE queue = $1::bigint AND opens_at <= $2 "
    "ORDER BY opens_at LIMIT $3::bigint";
constexpr std::string_view kMetersOpenAt =
    "UPDATE $schema.key_meters m SET opens_at = u.at FROM unnest($2::text[], $3::bigint[]) AS "
    "u(key, at) WHERE m.queue = $1::bigint AND m.key = u.key";
// Jobs of expensive kinds: rows under the key "".
constexpr std::string_view kRunningCosts =
    "WITH gone AS (DELETE FROM $schema.running_keys b USING $schema.jobs j WHERE b.queue = "
    "ANY($1::bigint[]) AND b.key = '' AND j.id = b.id AND j.state <> 3) SELECT b.queue, k.name || "
    "'=' || count(*) FROM $schema.running_keys b JOIN $schema.jobs j ON j.id = b.id JOIN "
    "$schema.kinds k ON k.id = j.kind WHERE b.queue = ANY($1::bigint[]) AND b.key = '' AND "
    "j.state = 3 GROUP BY b.queue, k.name";
constexpr std::string_view kRunningKinds =
    "WITH gone AS (DELETE FROM $schema.running_keys b USING $schema.jobs j WHERE b.queue = "
    "$1::bigint AND b.key = ANY($2::text[]) AND j.id = b.id AND j.state <> 3) SELECT b.key, "
    "count(*), k.name FROM $schema.running_keys b JOIN $schema.jobs j ON j.id = b.id JOIN "
    "$schema.kinds k ON k.id = j.kind WHERE b.queue = $1::bigint AND b.key = ANY($2::text[]) AND "
    "j.state = 3 GROUP BY b.key, k.name";
constexpr std::string_view kDropCosts =
    "WITH m AS (UPDATE $schema.key_meters SET opens_at = $2 WHERE queue = $1::bigint AND "
    "$3::boolean) DELETE FROM $schema.running_keys WHERE queue = $1::bigint AND key = ''";
constexpr std::string_view kCountCosts =
    "INSERT INTO $schema.running_keys (queue, key, id) SELECT j.queue, '', j.id FROM (SELECT "
    "DISTINCT unnest(ids) AS id FROM $schema.leased) l JOIN $schema.jobs j ON j.id = l.id JOIN "
    "$schema.kinds k ON k.id = j.kind WHERE j.queue = $1::bigint AND j.state = 3 AND k.name = "
    "ANY($2::text[]) ON CONFLICT DO NOTHING";

}  // namespace

LimitKeyStatements::LimitKeyStatements(std::string_view s)
    : front(s,
            "SELECT r.priority, r.run_at, r.id, r.kind, k.limit_key FROM (SELECT * FROM "
            "$schema.ready WHERE queue = $1::bigint AND (expires_at = 0 OR expires_at > $2) AND "
            "($3::bigint[] IS NULL OR kind = ANY($3)) AND (priority, run_at, id) > ($4::bigint, "
            "$5::bigint, $6::bigint) ORDER BY priority, run_at, id LIMIT $7::bigint) r JOIN "
            "$schema.jobs k ON k.id = r.id ORDER BY r.priority, r.run_at, r.id"),
      running(s,
              "WITH gone AS (DELETE FROM $schema.running_keys b USING $schema.jobs j WHERE b.queue "
              "= $1::bigint AND b.key = ANY($2::text[]) AND j.id = b.id AND j.state <> 3) SELECT "
              "b.key, count(*) FROM $schema.running_keys b JOIN $schema.jobs j ON j.id = b.id "
              "WHERE b.queue = $1::bigint AND b.key = ANY($2::text[]) AND j.state = 3 GROUP BY "
              "b.key"),
      drop_held(s, "DELETE FROM $schema.held_back h USING " MS_PLACES
                   " WHERE h.queue = $1::bigint AND h.key = u.key AND h.kind = u.kind AND "
                   "h.priority = u.priority AND h.run_at = u.run_at AND h.id = u.id"),
      hold_back(s, MS_LOCKED
                "d AS (DELETE FROM $schema.ready r USING k WHERE r.queue = $1::bigint AND "
                "r.priority = k.priority AND r.run_at = k.run_at AND r.id = k.id RETURNING r.*, "
                "k.key) INSERT INTO $schema.held_back (queue, key, kind, priority, run_at, id, "
                "expires_at) SELECT queue, key, kind, priority, run_at, id, expires_at FROM d ON "
                "CONFLICT DO NOTHING"),
      take_back(s, MS_LOCKED
                "d AS (DELETE FROM $schema.held_back h USING k WHERE h.queue = $1::bigint AND "
                "h.key = k.key AND h.kind = k.kind AND h.priority = k.priority AND h.run_at = "
                "k.run_at AND h.id = k.id RETURNING h.*) INSERT INTO $schema.ready (queue, "
                "priority, kind, run_at, id, expires_at) SELECT queue, priority, kind, run_at, "
                "id, expires_at FROM d ON CONFLICT DO NOTHING"),
      note_running(s,
                   "INSERT INTO $schema.running_keys (queue, key, id) SELECT $1::bigint, * FROM "
                   "unnest($2::text[], $3::bigint[]) ON CONFLICT DO NOTHING"),
      forget_jobs(s,
                  "WITH h AS (DELETE FROM $schema.held_back WHERE id = ANY($1)) DELETE FROM "
                  "$schema.running_keys WHERE id = ANY($1)"),
      lock_lines(s, "LOCK TABLE $schema.ready IN SHARE ROW EXCLUSIVE MODE"),
      count_again(s,
                  "INSERT INTO $schema.running_keys (queue, key, id) SELECT j.queue, j.limit_key, "
                  "j.id FROM (SELECT DISTINCT unnest(ids) AS id FROM $schema.leased) l JOIN "
                  "$schema.jobs j ON j.id = l.id WHERE j.queue = $1::bigint AND j.state = 3 AND "
                  "j.limit_key IS NOT NULL ON CONFLICT DO NOTHING"),
      release(s, kRelease),
      key_info(s, kKeyInfo),
      key_of_job(s, "SELECT limit_key FROM $schema.jobs WHERE id = $1"),
      // Jobs of full keys that a claim has met are in held_back; the others are in the ready queue.
      key_before(s, kKeyBefore),
      meters(s,
             "SELECT key, meter FROM $schema.key_meters WHERE queue = $1::bigint AND key = "
             "ANY($2::text[])"),
      write_meters(s, kWriteMeters),
      drop_meters(s, "DELETE FROM $schema.key_meters WHERE queue = $1::bigint"),
      keys_open_at(s, "UPDATE $schema.queues SET keys_open_at = $2 WHERE id = $1::bigint"),
      due_keys(s,
               "SELECT name FROM $schema.queues WHERE keys_open_at <= $1 ORDER BY id LIMIT "
               "$2::bigint"),
      next_key_opening(s,
                       "SELECT min(opens_at) FROM $schema.key_meters WHERE queue = $1::bigint AND "
                       "opens_at > $2"),
      due_meters(s, kDueMeters),
      meters_open_at(s, kMetersOpenAt),
      running_costs(s, kRunningCosts),
      running_kinds(s, kRunningKinds),
      kind_of_job(s,
                  "SELECT k.name FROM $schema.jobs j JOIN $schema.kinds k ON k.id = j.kind WHERE "
                  "j.id = $1"),
      count_costs(s, kCountCosts),
      drop_costs(s, kDropCosts) {}

KeyedColumns::KeyedColumns(const std::vector<KeyedJob>& jobs) {
  for (const KeyedJob& job : jobs) {
    key.emplace_back(job.key), kind.push_back(job.kind), priority.push_back(job.priority);
    run_at.push_back(job.run_at), id.push_back(job.id);
  }
}

namespace {
Params places(int queue, const std::vector<KeyedJob>& jobs) {
  const KeyedColumns c(jobs);
  return params(std::int64_t{queue}, c.key, c.kind, c.priority, c.run_at, c.id);
}
}  // namespace

// How many more jobs of each of these keys can start.
void PostgresStore::room_of_keys(const QueueInfo& queue, const std::set<std::string>& keys,
                                 KeyRooms& rooms) {
  const KeyLimits& limits = queue.limits.per_key;
  std::vector<std::string> fresh;
  for (const std::string& key : keys) {
    const bool is_new = rooms.emplace(key, Room()).second;
    if (is_new && !key.empty() && limits.bounds()) fresh.push_back(key);
  }
  if (fresh.empty()) return;
  std::map<std::string, std::int64_t> taken;
  if (limits.concurrency) taken = taken_by_keys(queue, Texts(fresh.begin(), fresh.end()));
  KeyMeters meters = meters_of(queue, fresh);
  std::optional<WallTime> opens_at;
  for (const std::string& key : fresh) {
    rooms[key] = room_of_key(limits, taken[key], meters[key], now_.wall);
    const auto next = mainspring::next_key_opening(queue.limits, meters[key], now_.wall);
    if (next && (!opens_at || next->at < *opens_at)) opens_at = next->at;
  }
  note_opening(queue, opens_at);
}

// Picks up to `most` of `jobs`, in order, within the capacity of their keys and the queue. A job
// that does not fit blocks the later jobs of its key, or of the queue.
Picked PostgresStore::pick_keyed(const QueueInfo& queue, std::vector<KeyedJob> jobs, int most,
                                 KeyRooms rooms, Room room) {
  std::sort(jobs.begin(), jobs.end(),
            [](const KeyedJob& a, const KeyedJob& b) { return a.rank() < b.rank(); });
  Picked picked;
  std::set<std::int64_t> seen;  // a job may be in both places
  for (KeyedJob& job : jobs) {
    if (std::ssize(picked.jobs) == most) break;
    if (!seen.insert(job.id).second) continue;
    const int cost = cost_of(queue, job.kind);
    Room* const of_key = job.key.empty() ? nullptr : &rooms.at(job.key);
    if (of_key != nullptr && !of_key->fits(cost)) {
      if (!MS_MUTANT(light_overtakes_heavy_of_key)) *of_key = Room::none();
      picked.passed.push_back(std::move(job));
      continue;
    }
    picked.waits = !room.fits(cost) && !MS_MUTANT(light_overtakes_heavy);
    if (picked.waits) break;
    room.take(cost);
    if (of_key != nullptr) of_key->take(cost);
    picked.jobs.push_back(std::move(job));
  }
  return picked;
}

void PostgresStore::drop_held(const QueueInfo& queue, const std::vector<KeyedJob>& void_rows) {
  write(key_sql_.drop_held, places(queue.id, void_rows), false);
}

// Moves picked jobs to the ready queue, and skipped jobs out of it.
void PostgresStore::move_held(const QueueInfo& queue, const std::vector<KeyedJob>& picked,
                              std::vector<KeyedJob> passed) {
  std::vector<KeyedJob> back;
  for (const KeyedJob& job : picked) {
    if (job.held) back.push_back(job);
  }
  std::erase_if(passed, [](const KeyedJob& job) { return job.held; });
  if (!back.empty()) write(key_sql_.take_back, places(queue.id, back), false);
  if (!passed.empty()) write(key_sql_.hold_back, places(queue.id, passed), false);
}

// The jobs that a claim of `most` may take from a queue with limits per key; its row is locked.
// They are in the ready queue afterwards. `more`: there may be jobs beyond those examined.
std::vector<KeyedJob> PostgresStore::look_at_keys(const QueueInfo& queue,
                                                  const std::optional<Ints>& kinds, int most,
                                                  bool& more) {
  KeyRooms rooms;
  bool unfinished = false;
  const Rows lines = held_lines(queue, kinds, rooms);
  const std::vector<KeyedJob> held = held_in_order(queue, lines, most, rooms, unfinished);
  std::vector<KeyedJob> ready;
  Picked picked;
  KeyedJob last{.priority = -1};
  more = true;
  for (int look = 0; look < kKeyLooks && more && std::ssize(picked.jobs) < most; ++look) {
    const std::int64_t wanted = most + (kKeyFront << look);
    const Rows rows = ask(key_sql_.front, params(std::int64_t{queue.id}, wall(), kinds,
                                                 last.priority, last.run_at, last.id, wanted));
    std::set<std::string> keys;
    for (int i = 0; i < rows.size(); ++i) {
      ready.push_back({.priority = rows.integer(i, 0),
                       .run_at = rows.integer(i, 1),
                       .id = rows.integer(i, 2),
                       .kind = rows.integer(i, 3),
                       .key = rows.is_null(i, 4) ? "" : rows.string(i, 4)});
      if (!ready.back().key.empty()) keys.insert(ready.back().key);
    }
    room_of_keys(queue, keys, rooms);
    more = rows.size() == wanted;
    if (!ready.empty()) last = ready.back();
    std::vector<KeyedJob> all = ready;
    for (const KeyedJob& job : held) {
      if (!more || job.place() < last.place()) all.push_back(job);
    }
    picked = pick_keyed(queue, std::move(all), most, rooms, Room());
  }
  move_held(queue, picked.jobs, std::move(picked.passed));
  more = (more || unfinished) && std::ssize(picked.jobs) < most;
  return std::move(picked.jobs);
}

// Sets in `claiming` which jobs of its queues with limits per key the claim may take.
void PostgresStore::look_at_keys(Claiming& claiming, const std::optional<Ints>& kinds) {
  for (const QueueInfo* queue : claiming.queues) {
    if (!queue->limits.per_key.any()) continue;
    const int most = std::min(claiming.rooms.at(queue->id).jobs(), claiming.op->max);
    claiming.keyed_queues.insert(queue->id);
    if (most <= 0) continue;
    bool more = false;
    for (KeyedJob& job : look_at_keys(*queue, kinds, most, more)) {
      claiming.keyed_of.push_back(queue->id);
      claiming.keyed.push_back(std::move(job));
    }
    if (more) claiming.unfinished.insert(queue->id);
  }
}

void PostgresStore::note_keys(const Claiming& claiming) {
  std::map<std::int64_t, std::size_t> at;
  for (std::size_t i = 0; i < claiming.keyed.size(); ++i) at.emplace(claiming.keyed[i].id, i);
  std::map<int, std::pair<Texts, Ints>> started;
  std::map<int, std::map<std::string, int>> metered;
  for (const ClaimedJob& job : claiming.result.jobs) {
    const auto found = at.find(job.id);
    if (found == at.end() || claiming.keyed[found->second].key.empty()) continue;
    const KeyLimits& limits = queue_by_id(claiming.keyed_of[found->second]).limits.per_key;
    if (limits.rate) {
      metered[claiming.keyed_of[found->second]][claiming.keyed[found->second].key] +=
          begins_of(job.cost, *limits.rate);
    }
    if (!limits.concurrency) continue;
    auto& [keys, ids] = started[claiming.keyed_of[found->second]];
    keys.emplace_back(claiming.keyed[found->second].key), ids.push_back(job.id);
  }
  for (const auto& [queue, rows] : started) {
    if (MS_MUTANT(running_keys_not_kept)) continue;
    write(key_sql_.note_running, params(std::int64_t{queue}, rows.first, rows.second), false);
  }
  for (const auto& [queue, keys] : metered) count_started(queue_by_id(queue), keys);
  // Other claims wait for what the next claim finds.
  for (const int queue : claiming.unfinished) after_.gained.insert(queue);
}

// Call before new limits of a queue are written; its row is locked. Claims from a queue without
// limits lock no row: claims that are running end before running jobs are counted, and later claims
// see the limits.
void PostgresStore::change_key_limits(const QueueInfo& queue, const QueueLimits& limits) {
  const KeyLimits &was = queue.limits.per_key, &will = limits.per_key;
  const bool counted = was.concurrency.has_value(), counts = will.concurrency.has_value();
  if (counted == counts && was.fair == will.fair && was.any() == will.any()) return;
  flush();
  if (was.fair != will.fair) write(order_sql_.drop_fair_keys, params(std::int64_t{queue.id}));
  if (was.any()) {
    write(key_sql_.release, params(std::int64_t{queue.id}));
    hints_[queue.id].first = {};
  }
  if (!counts) return;
  if (!queue.limits.any()) tell(key_sql_.lock_lines, {});
  write(key_sql_.count_again, params(std::int64_t{queue.id}));
}

Result<LimitKeyInfo> PostgresStore::limit_key(const std::string& queue,
                                              const std::string& key) const {
  return with_reader([&](Connection& c) {
    const Rows rows = c.run(key_sql_.key_info, params(queue, key));
    LimitKeyInfo info;
    if (rows.empty()) return info;
    info.running = info.slots_taken = rows.integer(0, 0);
    if (const auto at = rows.maybe(0, 1)) info.opens_at = WallTime::from_us(*at);
    if (rows.is_null(0, 4)) return info;
    auto limits = parse_limits(rows.text(0, 3));
    if (!limits) throw PgError{"XX001", limits.error().message, false};
    info.slots_taken += extra_slots(*limits, limits->per_key.concurrency, rows.texts(0, 4));
    if (!rows.is_null(0, 2)) info.meter = RateMeter::parse(rows.text(0, 2));
    const auto& rate = limits->per_key.rate;
    if (info.opens_at && rate && begins_awaited(*limits, *rate, info.meter, *info.opens_at) > 1)
      info.opens_at.reset();  // other jobs can start
    return info;
  });
}

Result<std::int64_t> PostgresStore::ahead_of_key(const Job& job, std::int64_t limit) const {
  return with_reader([&](Connection& c) {
    return c
        .run(key_sql_.key_before,
             params(job.queue, job.priority, job.run_at.us(), job.id, limit, job.limit_key))
        .integer(0, 0);
  });
}

}  // namespace mainspring::pg
