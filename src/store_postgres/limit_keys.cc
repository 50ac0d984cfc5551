// Limits per key: which jobs a claim may take of a queue that has them.
//
// The claim has locked the queue's row, so that no other one begins jobs of it. It looks at the
// front of the line, and counts what runs of each key that it meets. A job whose key is at its
// bound is taken out of the line into `held_back`: no claim walks past it again. What is held back
// of a key that has room stands beside the line, by key and kind:
//
//   ready       7 (free)   9 (acme)   12 (free)   15 (globex)
//   held_back   acme: 10, 11, 13, 14 …
//
// The first jobs of both together, as many as their keys have room for, are what it may take; jobs
// that others add meanwhile wait for the next claim. See schema 15 for what makes a row void.
#include "store_postgres/limit_keys.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/mutant.h"
#include "store_postgres/plain.h"
#include "store_postgres/reader.h"

namespace mainspring::pg {
namespace {

constexpr int kFront = 200;  // jobs that the first look takes beyond those that are wanted
constexpr int kLooks = 6;    // of one claim, each at twice as many; the next claim goes on

#define MS_PLACES                                                                               \
  "unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]) AS u(key, kind, " \
  "priority, run_at, id)"
// Jobs at those places, locked; without those that others are about to change.
#define MS_LOCKED                                                                                  \
  "WITH k AS MATERIALIZED (SELECT u.* FROM " MS_PLACES                                             \
  " JOIN $schema.jobs j ON j.id = u.id WHERE j.state = 2 AND j.kind = u.kind AND j.priority = "    \
  "u.priority AND j.run_at = u.run_at AND coalesce(j.limit_key, '') = u.key FOR UPDATE OF j SKIP " \
  "LOCKED), "

}  // namespace

LimitKeyStatements::LimitKeyStatements(std::string_view s)
    : front(s,
            "SELECT r.priority, r.run_at, r.id, r.kind, k.limit_key FROM (SELECT * FROM "
            "$schema.ready WHERE queue = $1::bigint AND (expires_at = 0 OR expires_at > $2) AND "
            "($3::bigint[] IS NULL OR kind = ANY($3)) AND (priority, run_at, id) > ($4::bigint, "
            "$5::bigint, $6::bigint) ORDER BY priority, run_at, id LIMIT $7::bigint) r JOIN "
            "$schema.jobs k ON k.id = r.id ORDER BY r.priority, r.run_at, r.id"),
      held_keys(s,
                "WITH RECURSIVE p AS ((SELECT key, kind FROM $schema.held_back WHERE queue = "
                "$1::bigint ORDER BY key, kind LIMIT 1) UNION ALL SELECT n.key, n.kind FROM p, "
                "LATERAL (SELECT key, kind FROM $schema.held_back h WHERE h.queue = $1::bigint AND "
                "(h.key, h.kind) > (p.key, p.kind) ORDER BY h.key, h.kind LIMIT 1) n) SELECT key, "
                "kind FROM p WHERE $2::bigint[] IS NULL OR kind = ANY($2)"),
      held_jobs(s,
                "SELECT h.priority, h.run_at, h.id, h.kind, h.key, (j.state = 2 AND j.priority = "
                "h.priority AND j.run_at = h.run_at AND j.kind = h.kind AND j.limit_key = h.key) "
                "IS TRUE FROM unnest($2::text[], $3::bigint[], $4::bigint[]) AS p(key, kind, "
                "room), LATERAL (SELECT * FROM $schema.held_back b WHERE b.queue = $1::bigint AND "
                "b.key = p.key AND b.kind = p.kind AND (b.expires_at = 0 OR b.expires_at > $5) "
                "ORDER BY b.priority, b.run_at, b.id LIMIT p.room) h LEFT JOIN $schema.jobs j ON "
                "j.id = h.id"),
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
      count_anew(s,
                 "INSERT INTO $schema.running_keys (queue, key, id) SELECT j.queue, j.limit_key, "
                 "j.id FROM (SELECT DISTINCT unnest(ids) AS id FROM $schema.leased) l JOIN "
                 "$schema.jobs j ON j.id = l.id WHERE j.queue = $1::bigint AND j.state = 3 AND "
                 "j.limit_key IS NOT NULL ON CONFLICT DO NOTHING"),
      release(s,
              "WITH n AS (DELETE FROM $schema.running_keys WHERE queue = $1::bigint), k AS "
              "MATERIALIZED (SELECT h.* FROM $schema.held_back h JOIN $schema.jobs j ON j.id = "
              "h.id WHERE h.queue = $1::bigint AND j.state = 2 AND j.kind = h.kind AND j.priority "
              "= h.priority AND j.run_at = h.run_at AND coalesce(j.limit_key, '') = h.key ORDER BY "
              "h.id FOR UPDATE OF j), d AS (DELETE FROM $schema.held_back WHERE queue = "
              "$1::bigint) INSERT "
              "INTO $schema.ready (queue, priority, kind, run_at, id, expires_at) SELECT queue, "
              "priority, kind, run_at, id, expires_at FROM k ON CONFLICT DO NOTHING"),
      running_of_key(s,
                     "SELECT count(*) FROM $schema.queues q JOIN $schema.running_keys b ON b.queue "
                     "= q.id JOIN $schema.jobs j ON j.id = b.id WHERE q.name = $1 AND b.key = $2 "
                     "AND j.state = 3"),
      key_of_job(s, "SELECT limit_key FROM $schema.jobs WHERE id = $1") {}

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

// How many more of each of these keys may begin.
void PostgresStore::room_of_keys(const QueueInfo& queue, const std::set<std::string>& keys,
                                 KeyRooms& rooms) {
  Texts fresh;
  const auto& most = queue.limits.per_key.concurrency;
  for (const std::string& key : keys) {
    const bool free = key.empty() || !most;
    const bool is_new = rooms.emplace(key, free ? std::numeric_limits<int>::max() : *most).second;
    if (is_new && !free) fresh.emplace_back(key);
  }
  if (fresh.empty() || MS_MUTANT(limit_per_key_ignored)) return;
  const Rows rows = ask(key_sql_.running, params(std::int64_t{queue.id}, fresh));
  for (int i = 0; i < rows.size(); ++i)
    rooms[rows.string(i, 0)] -= static_cast<int>(rows.integer(i, 1));
}

// Of each key with room, and kind, the first that are held back.
std::vector<KeyedJob> PostgresStore::held_with_room(const QueueInfo& queue,
                                                    const std::optional<Ints>& kinds, int most,
                                                    KeyRooms& rooms) {
  const Rows pairs = ask(key_sql_.held_keys, params(std::int64_t{queue.id}, kinds));
  std::set<std::string> names;
  for (int i = 0; i < pairs.size(); ++i) names.insert(pairs.string(i, 0));
  room_of_keys(queue, names, rooms);
  std::vector<std::string> kept;
  Ints of_kind, room;
  for (int i = 0; i < pairs.size(); ++i) {
    const int n = std::min(most, rooms.at(pairs.string(i, 0)));
    if (n <= 0) continue;
    kept.push_back(pairs.string(i, 0));
    of_kind.push_back(pairs.integer(i, 1)), room.push_back(n);
  }
  const Texts keys(kept.begin(), kept.end());
  std::vector<KeyedJob> found;
  for (int look = 0; look < kLooks && !keys.empty(); ++look) {
    found.clear();
    std::vector<KeyedJob> void_rows;
    const Rows rows =
        ask(key_sql_.held_jobs, params(std::int64_t{queue.id}, keys, of_kind, room, wall()));
    for (int i = 0; i < rows.size(); ++i) {
      KeyedJob job{.priority = rows.integer(i, 0),
                   .run_at = rows.integer(i, 1),
                   .id = rows.integer(i, 2),
                   .kind = rows.integer(i, 3),
                   .key = rows.string(i, 4),
                   .held = true};
      (rows.integer(i, 5) != 0 ? found : void_rows).push_back(std::move(job));
    }
    if (void_rows.empty()) break;
    drop_held(queue, void_rows);
    for (std::int64_t& n : room) n *= 4;  // many may have been cancelled
  }
  return found;
}

// From `jobs`, in order, at most `most` that their keys have room for. `passed`: the others before
// the last of them.
std::vector<KeyedJob> PostgresStore::pick_keyed(std::vector<KeyedJob> jobs, int most,
                                                KeyRooms rooms, std::vector<KeyedJob>& passed) {
  std::sort(jobs.begin(), jobs.end(),
            [](const KeyedJob& a, const KeyedJob& b) { return a.rank() < b.rank(); });
  std::vector<KeyedJob> picked;
  passed.clear();
  std::set<std::int64_t> seen;  // one may stand at both places
  for (KeyedJob& job : jobs) {
    if (std::ssize(picked) == most) break;
    if (!seen.insert(job.id).second) continue;
    const bool free = job.key.empty() || rooms.at(job.key)-- > 0;
    (free ? picked : passed).push_back(std::move(job));
  }
  return picked;
}

void PostgresStore::drop_held(const QueueInfo& queue, const std::vector<KeyedJob>& void_rows) {
  write(key_sql_.drop_held, places(queue.id, void_rows), false);
}

// What was picked stands in the line, what was passed does not.
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

// What a claim of `most` may take of a queue with limits per key, whose row is locked. Each stands
// in the line then. `more`: others may stand behind those that it has looked at.
std::vector<KeyedJob> PostgresStore::look_at_keys(const QueueInfo& queue,
                                                  const std::optional<Ints>& kinds, int most,
                                                  bool& more) {
  KeyRooms rooms;
  const std::vector<KeyedJob> held = held_with_room(queue, kinds, most, rooms);
  std::vector<KeyedJob> line, picked, passed;
  KeyedJob last{.priority = -1};
  more = true;
  for (int look = 0; look < kLooks && more && std::ssize(picked) < most; ++look) {
    const std::int64_t wanted = most + (kFront << look);
    const Rows rows = ask(key_sql_.front, params(std::int64_t{queue.id}, wall(), kinds,
                                                 last.priority, last.run_at, last.id, wanted));
    std::set<std::string> keys;
    for (int i = 0; i < rows.size(); ++i) {
      line.push_back({.priority = rows.integer(i, 0),
                      .run_at = rows.integer(i, 1),
                      .id = rows.integer(i, 2),
                      .kind = rows.integer(i, 3),
                      .key = rows.is_null(i, 4) ? "" : rows.string(i, 4)});
      if (!line.back().key.empty()) keys.insert(line.back().key);
    }
    room_of_keys(queue, keys, rooms);
    more = rows.size() == wanted;
    if (!line.empty()) last = line.back();
    std::vector<KeyedJob> all = line;
    for (const KeyedJob& job : held) {
      if (!more || job.place() < last.place()) all.push_back(job);
    }
    picked = pick_keyed(std::move(all), most, rooms, passed);
  }
  move_held(queue, picked, std::move(passed));
  more = more && std::ssize(picked) < most;
  return picked;
}

// Which jobs of its queues with limits per key the claim may take: into claiming.
void PostgresStore::look_at_keys(Claiming& claiming, const std::optional<Ints>& kinds) {
  for (const QueueInfo* queue : claiming.queues) {
    if (!queue->limits.per_key.any()) continue;
    const int most = std::min(claiming.rooms.at(queue->id), claiming.op->max);
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
  std::map<int, std::pair<Texts, Ints>> begun;
  for (const ClaimedJob& job : claiming.result.jobs) {
    const auto found = at.find(job.id);
    if (found == at.end() || claiming.keyed[found->second].key.empty()) continue;
    const KeyLimits& limits = queue_by_id(claiming.keyed_of[found->second]).limits.per_key;
    if (!limits.concurrency) continue;
    auto& [keys, ids] = begun[claiming.keyed_of[found->second]];
    keys.emplace_back(claiming.keyed[found->second].key), ids.push_back(job.id);
  }
  for (const auto& [queue, rows] : begun) {
    if (MS_MUTANT(running_keys_not_kept)) continue;
    write(key_sql_.note_running, params(std::int64_t{queue}, rows.first, rows.second), false);
  }
  // Others wait for what the next claim finds.
  for (const int queue : claiming.unfinished) after_.gained.insert(queue);
}

// Before new limits of a queue are written, whose row is locked. Claims of a queue that had none
// lock no row: those under way end before what runs is counted, and later ones see the limits.
void PostgresStore::change_key_limits(const QueueInfo& queue, const QueueLimits& limits) {
  const KeyLimits &was = queue.limits.per_key, &will = limits.per_key;
  const bool counted = was.concurrency.has_value(), counts = will.concurrency.has_value();
  if (counted == counts && was.fair == will.fair) return;
  flush();
  if (was.fair != will.fair) write(order_sql_.drop_turns, params(std::int64_t{queue.id}));
  if (was.any()) {
    write(key_sql_.release, params(std::int64_t{queue.id}));
    hints_[queue.id].first = {};
  }
  if (!counts) return;
  if (!queue.limits.any()) tell(key_sql_.lock_lines, {});
  write(key_sql_.count_anew, params(std::int64_t{queue.id}));
}

Result<std::int64_t> PostgresStore::running_of_key(const std::string& queue,
                                                   const std::string& key) const {
  return with_reader([&](Connection& c) {
    return c.run(key_sql_.running_of_key, params(queue, key)).integer(0, 0);
  });
}

}  // namespace mainspring::pg
