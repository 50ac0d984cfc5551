// Packs: packed ready entries. Simple jobs that are enqueued together share one entry, up to
// PostgresOptions::most_of_pack jobs.
//
// A job of a pack is in the ready queue as long as its row is as it was enqueued: state 2, version
// 1. Every change of a job increments its version. So code that cancels it, moves it or claims it
// by name need not know packs: the id left in the pack is ignored. A job that becomes available
// again gets an entry in `ready`.
//
// A claim of many jobs takes whole packs and parts of packs, in one order with single entries. It
// locks the pack, so it changes jobs without locking them first. It skips jobs whose rows another
// transaction has touched since they were inserted (xmax is not 0); the next read from the
// beginning of the ready queue gives them entries of their own, if they are free. Claims of few
// jobs, of several queues, and of queues with limits also unpack the packs at the front to single
// entries.
#include <algorithm>

#include "base/assert.h"
#include "base/mutant.h"
#include "store_postgres/claimed_columns.h"
#include "store_postgres/fast_path.h"

namespace mainspring::pg {

namespace {

constexpr std::string_view kClaimPacks =
    "WITH q AS MATERIALIZED (SELECT id FROM $schema.queues WHERE id = $10::bigint AND NOT "
    "paused AND limits IS NULL), "
    "b AS MATERIALIZED (SELECT l.*, row_number() OVER () AS n FROM q, unnest($11::bigint[], "
    "$12::bigint[]) AS h(priority, first), LATERAL (SELECT b.priority, b.run_at, b.first, b.ids "
    "FROM $schema.packs b WHERE b.queue = q.id AND b.priority = h.priority AND b.run_at >= "
    "h.first AND ($2::bigint[] IS NULL OR b.kind = ANY($2)) ORDER BY b.run_at, b.first LIMIT "
    "$13::bigint FOR UPDATE SKIP LOCKED) l LIMIT $13::bigint), "
    // The first jobs of both.
    "m AS MATERIALIZED (SELECT * FROM (SELECT b.priority, b.run_at, i.id, NULL::tid AS entry, b.n "
    "FROM b, unnest(b.ids) AS i(id) UNION ALL SELECT r.*, NULL FROM q, unnest($11::bigint[], "
    "$12::bigint[]) AS h(priority, first), LATERAL (SELECT l.priority, l.run_at, l.id, l.ctid "
    "FROM $schema.ready l WHERE l.queue = q.id AND l.priority = h.priority AND l.run_at >= "
    "h.first AND (l.expires_at = 0 OR l.expires_at > $6) AND ($2::bigint[] IS NULL OR l.kind "
    "= ANY($2)) ORDER BY l.run_at, l.id LIMIT $1::bigint) r) x ORDER BY priority, run_at, id "
    "LIMIT $1::bigint), "
    "c AS MATERIALIZED (SELECT x.entry, sum(x.bytes) OVER (ROWS UNBOUNDED PRECEDING) - x.bytes AS "
    "before FROM (SELECT m.entry, " MS_CLAIMED_BYTES
    " AS bytes FROM m JOIN $schema.jobs k ON k.id = m.id WHERE m.entry IS NOT NULL AND k.state = 2 "
    "ORDER BY m.priority, m.run_at, m.id FOR UPDATE OF k SKIP LOCKED) x), "
    // Not a job that was claimed and has come back, which has a new entry.
    "d AS (DELETE FROM $schema.ready USING c WHERE ready.ctid = c.entry AND c.before "
    "< " MS_PAGE_BYTES
    " RETURNING ready.id), "
    "u AS (UPDATE $schema.jobs j SET " MS_BEGUN
    " FROM (SELECT id, n FROM m WHERE n IS NOT NULL OR id IN (SELECT id FROM d)) n WHERE j.id = "
    "n.id AND (n.n IS NULL OR (j.state = 2 AND j.version = 1 AND (j.xmax = 0 OR age(j.xmax) > "
    "(SELECT age(pg_snapshot_xmin(pg_current_snapshot())::xid))))) RETURNING " MS_CLAIMED
    ", n.n), "
    "a AS MATERIALIZED (SELECT queue, array_agg(id) AS ids FROM u GROUP BY queue), "
    "l AS (INSERT INTO $schema.leased (look_at, seq, node, ids) SELECT $5, "
    "nextval('$schema.row_numbers'), $8, ids FROM a RETURNING seq), "
    "t AS (INSERT INTO $schema.job_counts (node, batch, at, queue, available, running) SELECT "
    "$8, $9, $6, queue, -cardinality(ids), cardinality(ids) FROM a), "
    // The remaining ids of each pack; most packs have none, as the counts show.
    "k AS MATERIALIZED (SELECT n, count(*) AS taken FROM u WHERE n IS NOT NULL GROUP BY n), "
    "o AS MATERIALIZED (SELECT b.priority, b.run_at, b.first, CASE WHEN k.taken = "
    "cardinality(b.ids) THEN NULL ELSE nullif(ARRAY(SELECT i.id FROM unnest(b.ids) AS i(id) WHERE "
    "i.id NOT IN (SELECT id FROM u)), '{}') END AS rest FROM b LEFT JOIN k ON k.n = b.n), "
    "g AS (DELETE FROM $schema.packs x USING o WHERE x.queue = $10::bigint AND x.priority "
    "= o.priority AND x.run_at = o.run_at AND x.first = o.first AND o.rest IS NULL), "
    "w AS (UPDATE $schema.packs x SET ids = o.rest FROM o WHERE x.queue = $10::bigint AND "
    "x.priority = o.priority AND x.run_at = o.run_at AND x.first = o.first AND "
    "cardinality(o.rest) < cardinality(x.ids)), "
    "i AS MATERIALIZED (SELECT ARRAY[(SELECT seq FROM l), (SELECT count(*) FROM b), (SELECT "
    "count(*) FROM m WHERE n IS NOT NULL) - (SELECT count(*) FROM u WHERE n IS NOT NULL), (SELECT "
    "sum(cardinality(ids)) FROM b)::bigint, (SELECT count(*) FROM o WHERE rest IS NOT NULL)] AS "
    "facts) "
    // One row of facts about the whole claim, then the claimed jobs.
    "SELECT " MS_NO_CLAIMED ", NULL, facts FROM i UNION ALL SELECT u.*, NULL FROM u";

constexpr std::string_view kHoldPacks =
    "WITH n AS MATERIALIZED (SELECT b.queue, b.priority, b.run_at, b.first FROM $schema.jobs j "
    "JOIN $schema.packs b ON b.queue = j.queue AND b.priority = j.priority AND b.run_at = "
    "j.run_at AND b.first <= j.id AND j.id = ANY(b.ids) WHERE j.id = ANY($1) AND j.state = 2 AND "
    "j.version = 1), "
    "b AS MATERIALIZED (SELECT b.queue FROM (SELECT DISTINCT * FROM n) d JOIN $schema.packs b ON "
    "b.queue = d.queue AND b.priority = d.priority AND b.run_at = d.run_at AND b.first = d.first "
    "ORDER BY b.queue, b.priority, b.run_at, b.first FOR KEY SHARE OF b) "
    "SELECT DISTINCT queue FROM b";

constexpr std::string_view kUndoPacks =
    "WITH f AS MATERIALIZED (SELECT * FROM (SELECT l.*, sum(l.n) OVER (PARTITION BY l.queue "
    "ORDER BY l.priority, l.run_at, l.first) - l.n AS before FROM unnest($1::bigint[], "
    "$2::bigint[], $3::bigint[]) AS h(queue, priority, first), LATERAL (SELECT b.queue, "
    "b.priority, b.run_at, b.first, cardinality(b.ids) AS n FROM $schema.packs b WHERE "
    "b.queue = h.queue AND b.priority = h.priority AND b.run_at >= h.first AND ($4::bigint[] "
    "IS NULL OR b.kind = ANY($4)) ORDER BY b.run_at, b.first LIMIT least($5::bigint, 100)) "
    "l) "
    "c WHERE c.before < $5::bigint), "
    "b AS MATERIALIZED (SELECT b.* FROM f JOIN $schema.packs b ON b.queue = f.queue AND "
    "b.priority = f.priority AND b.run_at = f.run_at AND b.first = f.first FOR UPDATE OF b "
    "SKIP LOCKED), "
    "k AS MATERIALIZED (SELECT b.*, j.id FROM b CROSS JOIN unnest(b.ids) AS i(id) JOIN "
    "$schema.jobs j ON j.id = i.id WHERE j.state = 2 AND j.version = 1), "
    "o AS MATERIALIZED (SELECT k.queue, k.priority, k.kind, k.run_at, k.id FROM k JOIN "
    "$schema.jobs j ON j.id = k.id WHERE j.state = 2 AND j.version = 1 FOR UPDATE OF j SKIP "
    "LOCKED), "
    "r AS (INSERT INTO $schema.ready (queue, priority, kind, run_at, id, expires_at) SELECT "
    "queue, priority, kind, run_at, id, 0 FROM o ON CONFLICT DO NOTHING), "
    // Jobs locked by other transactions stay.
    "w AS MATERIALIZED (SELECT k.queue, k.priority, k.run_at, k.first, array_agg(k.id) AS "
    "rest FROM k WHERE k.id NOT IN (SELECT id FROM o) GROUP BY k.queue, k.priority, "
    "k.run_at, "
    "k.first), "
    "g AS (DELETE FROM $schema.packs x USING b LEFT JOIN w ON w.queue = b.queue AND "
    "w.priority = b.priority AND w.run_at = b.run_at AND w.first = b.first WHERE x.queue = "
    "b.queue AND x.priority = b.priority AND x.run_at = b.run_at AND x.first = b.first AND "
    "w.first IS NULL RETURNING 1), "
    "y AS (UPDATE $schema.packs x SET ids = w.rest FROM w WHERE x.queue = w.queue AND "
    "x.priority = w.priority AND x.run_at = w.run_at AND x.first = w.first AND "
    "cardinality(w.rest) < cardinality(x.ids)) "
    "SELECT (SELECT count(*) FROM f), (SELECT count(*) FROM g)";

}  // namespace

PackStatements::PackStatements(std::string_view s)
    : claim_packs(s, kClaimPacks),
      hold_packs(s, kHoldPacks),
      undo_packs(s, kUndoPacks),
      enter_line(s,
                 "INSERT INTO $schema.ready (queue, priority, kind, run_at, id, expires_at) SELECT "
                 "queue, priority, kind, run_at, id, CASE WHEN started_at = 0 THEN expires_at ELSE "
                 "0 END FROM $schema.jobs WHERE id = $1 ON CONFLICT DO NOTHING") {}

// A claim takes packed entries without checking the sizes of their jobs: a thousand jobs of this
// size have about kPageBytes.
constexpr std::size_t kLargestPacked = 8 << 10;

// Jobs that are enqueued one by one are claimed one by one: packs would only be unpacked again.
bool PostgresStore::may_pack(const Columns& c, std::size_t requests) const {
  const auto least = static_cast<std::size_t>(options_.least_of_pack);
  const std::size_t jobs = c.state.size();
  if (!options_.packs || c.some_wait || jobs < requests * least) return false;
  const auto is_large = [](const auto& text) { return text && text->size() > kLargestPacked; };
  if (std::any_of(c.args.begin(), c.args.end(), is_large) ||
      std::any_of(c.headers.begin(), c.headers.end(), is_large))
    return false;
  for (const auto& [queue, job_counts] : c.job_counts) {
    const auto known = queues_by_id_.find(static_cast<int>(queue));
    if (known == queues_by_id_.end() || known->second->limits.any()) return false;
  }
  std::size_t alike = 1;  // runs of jobs that can share an entry
  for (std::size_t i = 1; i < jobs; ++i) {
    const bool same = c.queue[i] == c.queue[i - 1] && c.priority[i] == c.priority[i - 1] &&
                      c.kind[i] == c.kind[i - 1] && c.run_at[i] == c.run_at[i - 1];
    alike += same ? 0 : 1;
  }
  return jobs >= alike * least;
}

bool PostgresStore::may_hold_packs(const Claiming& claiming) const {
  return std::any_of(claiming.queues.begin(), claiming.queues.end(), [this](const QueueInfo* q) {
    const auto hint = hints_.find(q->id);
    return hint == hints_.end() || hint->second.packs;
  });
}

// Call before jobs are locked by name. Claims skip those packs until the batch ends, and may look
// again then.
void PostgresStore::hold_packs_of(const Ints& jobs) {
  later(sql_.hold_packs, params(jobs), [this](const Rows& rows) {
    for (int i = 0; i < rows.size(); ++i)
      after_.passed_over.insert(queue_name(static_cast<int>(rows.integer(i, 0))));
  });
}

// Gives the first `jobs` of them entries of their own, before a claim that takes no packs.
void PostgresStore::undo_packs(const std::shared_ptr<Claiming>& claiming, std::int64_t jobs,
                               const std::optional<Ints>& kinds, bool from_beginning) {
  Ints queues, priorities, firsts;
  for (const QueueInfo* queue : claiming->queues) {
    const QueueHint& hint = hints_[queue->id];
    for (int priority = 0; priority <= kLowestPriority; ++priority) {
      queues.push_back(queue->id), priorities.push_back(priority);
      firsts.push_back(from_beginning ? 0 : hint.first[static_cast<std::size_t>(priority)]);
    }
  }
  Params p = params(queues, priorities, firsts);
  if (kinds) {
    p.add(*kinds);
  } else {
    p.null(Params::kInt8Array);
  }
  p.add(jobs);
  hold();
  claiming->undone = 0;
  later(sql_.undo_packs, p, [this, claiming, any_kind = !kinds](const Rows& rows) {
    const std::int64_t found = rows.integer(0, 0);
    claiming->undone = rows.integer(0, 1);
    if (claiming->undone != 0) wrote();
    if (found != 0 || !any_kind) return;
    for (const QueueInfo* queue : claiming->queues) hints_[queue->id].packs = false;
  });
}

void PostgresStore::give_entries(const std::shared_ptr<Claiming>& claiming,
                                 const std::optional<Ints>& kinds) {
  constexpr Duration kLookEvery = std::chrono::seconds(2);
  constexpr int kFront = 1000;  // jobs; the number that a claim under limits reads at once
  bool look = may_hold_packs(*claiming);
  const Instant now = steady_.now().instant;
  for (const QueueInfo* queue : claiming->queues)
    look = look || now >= hints_[queue->id].packs_at + kLookEvery;
  if (!look || MS_MUTANT(packs_under_limits)) return;
  for (const QueueInfo* queue : claiming->queues) hints_[queue->id].packs_at = now;
  undo_packs(claiming, std::max(claiming->op->max, kFront), kinds, true);
  settle();
  claiming->undone = 0;
}

// For a claim of one queue: reads the facts about packs in the first row of its answer. Returns the
// number of its row in `leased`.
std::int64_t PostgresStore::note_packs(Claiming& claiming, const Rows& rows) {
  MS_ASSERT(rows.size() > 0 && rows.is_null(0, 0), "the row of facts comes first");
  const Ints facts = rows.ints(0, kClaimedColumns + 1);
  const std::int64_t met = facts.at(1), left = facts.at(2), ids = facts.at(3), rests = facts.at(4);
  QueueHint& hint = hints_[claiming.queues.front()->id];
  claiming.met_packs = met != 0;
  claiming.left_some = left != 0;  // touched by other transactions, or no longer available
  if (met == 0) {
    if (claiming.op->kinds.empty()) hint.packs = false;
    return facts.at(0);
  }
  const auto size = static_cast<int>(ids / met);
  const int before = hint.per_pack != 0 ? hint.per_pack : size;
  hint.per_pack = std::clamp((3 * before + size) / 4, 1, options_.most_of_pack);
  // Other claims that skipped this pack meanwhile found nothing, and may look again.
  if (rests != 0 && rows.size() > 1 && !MS_MUTANT(rest_of_pack_not_reported))
    after_.passed_over.insert(claiming.queues.front()->name);
  return facts.at(0);
}

}  // namespace mainspring::pg
