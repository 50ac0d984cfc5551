// The index of searchable paths, and the dead letter by fingerprints.
//
// The database keeps the index: see step_search() in the schema. This declares paths, asks for
// steps, and reads.
#include "store_postgres/search_index.h"

#include <algorithm>

#include "api/search_keys.h"
#include "model/fingerprint.h"
#include "store_postgres/reader.h"
#include "store_postgres/store_impl.h"

namespace mainspring::pg {
namespace {

constexpr int kIndexedAtOnce = 200;            // jobs in one step
constexpr std::string_view kUnreadable = "?";  // the key of args that the database cannot read

std::string hex_of(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

}  // namespace

SearchStatements::SearchStatements(std::string_view s)
    : queues(s,
             "SELECT count(DISTINCT queue) FROM $schema.search_paths WHERE stage < 2 AND queue <> "
             "$1::bigint"),
      remove(s,
             "UPDATE $schema.search_paths SET stage = 2, next_at = $3 WHERE queue = $1::bigint AND "
             "stage < 2 AND NOT path = ANY($2::text[])"),
      add(s,
          "INSERT INTO $schema.search_paths (queue, path, stage, above, next_at) SELECT "
          "$1::bigint, "
          "u.path, 0, 0, $3 FROM unnest($2::text[]) AS u(path) ON CONFLICT DO NOTHING"),
      due(s, "SELECT 1 FROM $schema.search_paths WHERE next_at <= $1 LIMIT 1"),
      step(s, "SELECT $schema.step_search($1, $2::bigint::integer)"),
      indexed(s,
              "SELECT p.stage, p.above, ARRAY(SELECT x.job FROM unnest($3::text[]) AS u(value) "
              "CROSS JOIN LATERAL (SELECT v.job FROM $schema.search_values v WHERE v.path = p.id "
              "AND v.value = decode(u.value, 'hex') AND v.job < $4 ORDER BY v.job DESC LIMIT $5) x "
              "ORDER BY x.job DESC LIMIT $5) FROM $schema.queues q JOIN $schema.search_paths p ON "
              "p.queue = q.id AND p.stage < 2 WHERE q.name = $1 AND p.path = $2"),
      dead_counts(
          s,
          "SELECT q.name, k.name, g.fingerprint, g.n, g.first, g.last, g.examined, g.first_at, "
          "g.last_at FROM (SELECT queue, kind, fingerprint, count(*) FILTER (WHERE counted) AS n, "
          "min(id) FILTER (WHERE counted) AS first, max(id) FILTER (WHERE counted) AS last, "
          "min(at) FILTER (WHERE counted) AS first_at, max(at) FILTER (WHERE counted) AS last_at, "
          "sum(count(*)) OVER ()::bigint AS examined FROM (SELECT id, queue, kind, fingerprint, "
          "at, row_number() OVER (ORDER BY id DESC) <= $2::bigint AND at >= $3::bigint AS counted "
          "FROM $schema.dead_letter WHERE $1::text IS NULL OR queue = (SELECT id FROM "
          "$schema.queues WHERE name = $1::text) ORDER BY id DESC LIMIT $2::bigint + 1) d GROUP BY "
          "queue, kind, fingerprint) g JOIN $schema.queues q ON q.id = g.queue JOIN "
          "$schema.kinds k ON k.id = g.kind") {}

// -- declaring paths

bool PostgresStore::has_room_for_searchable(const QueueInfo& queue, const QueueLimits& limits) {
  if (limits.searchable.empty() || !queue.limits.searchable.empty()) return true;
  const Rows others = ask(search_sql_.queues, params(std::int64_t{queue.id}));
  return others.integer(0, 0) < kMaxSearchableQueues;
}

void PostgresStore::set_searchable(const QueueInfo& queue, const std::vector<std::string>& paths) {
  if (queue.limits.searchable == paths) return;
  write(search_sql_.remove, params(std::int64_t{queue.id}, paths, wall()));
  write(search_sql_.add, params(std::int64_t{queue.id}, paths, wall()));
  after_.look_prune = true;
}

bool PostgresStore::step_search(int limit) {
  if (ask(search_sql_.due, params(wall())).empty()) return false;
  wrote();
  const Rows more = ask(search_sql_.step, params(wall(), std::min(limit, kIndexedAtOnce)));
  return more.integer(0, 0) != 0;
}

// -- reading

Result<std::optional<IndexPage>> PostgresStore::indexed(const IndexRead& read) const {
  using Page = std::optional<IndexPage>;
  std::vector<std::string> keys = keys_of_search(read.value);
  if (keys.empty()) return Page();
  keys.emplace_back(kUnreadable);
  for (std::string& key : keys) key = hex_of(key);
  return with_reader([&](Connection& c) {
    const Rows rows = c.run(
        search_sql_.indexed,
        params(read.queue, read.path, keys, read.before > 0 ? read.before : INT64_MAX, read.limit));
    Page page;
    if (rows.empty()) return page;
    page.emplace();
    const bool in_use = rows.integer(0, 0) == 1;
    page->complete_from = in_use ? rows.integer(0, 1) : INT64_MAX;
    if (in_use) page->ids = rows.ints(0, 2);
    page->ids.erase(std::unique(page->ids.begin(), page->ids.end()), page->ids.end());
    return page;
  });
}

Result<DeadCounts> PostgresStore::dead_counts(const std::string& queue, std::int64_t limit,
                                              const Within& within, WallTime since) const {
  return with_reader([&](Connection& c) {
    Params p;
    p.text_or_null(queue).add(limit).add(since.us());
    const Rows rows = c.run(search_sql_.dead_counts, p);
    DeadCounts out;
    for (int i = 0; i < rows.size(); ++i) {
      out.examined = rows.integer(i, 6);
      if (rows.integer(i, 3) == 0 || !within.has(rows.string(i, 0))) continue;
      out.counts.push_back({.queue = rows.string(i, 0),
                            .kind = rows.string(i, 1),
                            .fingerprint = fingerprint_text(rows.integer(i, 2)),
                            .count = rows.integer(i, 3),
                            .first = rows.integer(i, 4),
                            .last = rows.integer(i, 5),
                            .first_at = WallTime::from_us(rows.integer(i, 7)),
                            .last_at = WallTime::from_us(rows.integer(i, 8))});
    }
    out.cut = out.examined > limit;
    out.examined = std::min(out.examined, limit);
    return out;
  });
}

}  // namespace mainspring::pg
