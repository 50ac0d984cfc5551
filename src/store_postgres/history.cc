// The history: every node adds to the same rows, in the transaction of a batch.
//
// Rows are locked last, in the order of series, span and time, and stay locked until the commit. So
// batches neither deadlock nor wait long. The statements look up the names, because another node
// may have removed a series without counts in the hours that are kept.
#include <algorithm>

#include "store_postgres/reader.h"
#include "store_postgres/store_impl.h"

namespace mainspring::pg {
namespace {

constexpr std::int64_t kPrunedAtOnce = 10'000;  // rows, once per minute and node

std::string array_text(const TimeSketch& sketch) {
  return "{" + sketch.text() + "}";
}

TimeSketch sketch_of(const Rows& rows, int row, int column) {
  auto sketch = TimeSketch::parse(rows.string(row, column));
  if (!sketch) throw PgError{"XX001", "the history is damaged: " + sketch.error().message, false};
  return std::move(*sketch);
}

HistoryCounts counts_of(const Rows& rows, int row, int first) {
  return {.enqueued = rows.integer(row, first),
          .started = rows.integer(row, first + 1),
          .completed = rows.integer(row, first + 2),
          .failed = rows.integer(row, first + 3),
          .dead = rows.integer(row, first + 4),
          .cancelled = rows.integer(row, first + 5),
          .wait = sketch_of(rows, row, first + 6),
          .run = sketch_of(rows, row, first + 7)};
}

std::optional<WallTime> wall_of(const Rows& rows, int row, int column) {
  const std::int64_t us = rows.integer(row, column);
  if (us == 0) return std::nullopt;
  return WallTime::from_us(us);
}

}  // namespace

HistoryStatements::HistoryStatements(std::string_view s)
    : lock_series(s, "LOCK TABLE $schema.history_series IN SHARE ROW EXCLUSIVE MODE"),
      series(s, "SELECT queue, kind, last_at FROM $schema.history_series"),
      put_series(s,
                 "INSERT INTO $schema.history_series AS s (queue, kind, last_at) SELECT u.queue, "
                 "u.kind, max(u.at) FROM unnest($1::text[], $2::text[], $3::bigint[]) AS u(queue, "
                 "kind, at) GROUP BY u.queue, u.kind ORDER BY u.queue COLLATE \"C\", u.kind "
                 "COLLATE \"C\" ON CONFLICT (queue, kind) DO UPDATE SET last_at = "
                 "EXCLUDED.last_at WHERE s.last_at < EXCLUDED.last_at"),
      put(s,
          "INSERT INTO $schema.history AS h (series, span, at, enqueued, started, completed, "
          "failed, dead, cancelled, wait, run) SELECT s.id, u.span, u.at, u.enqueued, u.started, "
          "u.completed, u.failed, u.dead, u.cancelled, u.wait::bigint[], u.run::bigint[] FROM "
          "unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], "
          "$7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::text[], $12::text[]) AS "
          "u(queue, kind, span, at, enqueued, started, completed, failed, dead, cancelled, wait, "
          "run) JOIN $schema.history_series s ON s.queue = u.queue AND s.kind = u.kind ORDER BY "
          "s.id, u.span, u.at ON CONFLICT (series, span, at) DO UPDATE SET enqueued = h.enqueued + "
          "EXCLUDED.enqueued, started = h.started + EXCLUDED.started, completed = h.completed + "
          "EXCLUDED.completed, failed = h.failed + EXCLUDED.failed, dead = h.dead + EXCLUDED.dead, "
          "cancelled = h.cancelled + EXCLUDED.cancelled, wait = $schema.add_sketches(h.wait, "
          "EXCLUDED.wait), run = $schema.add_sketches(h.run, EXCLUDED.run)"),
      prune_minutes(s,
                    "DELETE FROM $schema.history WHERE ctid = ANY(ARRAY(SELECT h.ctid FROM "
                    "$schema.history_series s JOIN $schema.history h ON h.series = s.id AND h.span "
                    "= 60000000 AND h.at < $1 LIMIT $2 FOR UPDATE OF h SKIP LOCKED))"),
      prune_hours(s,
                  "DELETE FROM $schema.history WHERE ctid = ANY(ARRAY(SELECT h.ctid FROM "
                  "$schema.history_series s JOIN $schema.history h ON h.series = s.id AND h.span = "
                  "3600000000 AND h.at < $1 LIMIT $2 FOR UPDATE OF h SKIP LOCKED))"),
      drop_series(
          s,
          "DELETE FROM $schema.history_series s WHERE s.last_at < $1 AND NOT EXISTS (SELECT "
          "1 FROM $schema.history h WHERE h.series = s.id)"),
      which_series(s, "SELECT id, queue, kind FROM $schema.history_series"),
      read(s,
           "SELECT h.at, h.enqueued, h.started, h.completed, h.failed, h.dead, h.cancelled, "
           "array_to_string(h.wait, ','), array_to_string(h.run, ',') FROM $schema.history h WHERE "
           "h.series = ANY($1) AND h.span = $2 AND h.at >= $3 AND h.at < $4"),
      facts(s,
            "SELECT j.id, q.name, k.name, j.state, j.created_at, j.started_at, j.finished_at FROM "
            "$schema.jobs j JOIN $schema.queues q ON q.id = j.queue JOIN $schema.kinds k ON k.id = "
            "j.kind WHERE j.id = ANY($1)"),
      recent(s,
             "SELECT s.queue, h.at, h.enqueued, h.started, h.completed, h.failed, h.dead, "
             "h.cancelled, array_to_string(h.wait, ','), array_to_string(h.run, ',') FROM "
             "$schema.history_series s JOIN $schema.history h ON h.series = s.id AND h.span = "
             "60000000 AND h.at >= $1 WHERE s.kind = '' AND s.queue <> ''") {}

// -- writing
// ---------------------------------------------------------------------------------------

void PostgresStore::offer_history(HistoryRowsPtr rows, HistoryWrite when) {
  offered_ = std::move(rows);
  offered_when_ = when;
}

bool PostgresStore::knows_history() const {
  return !offered_ || (history_loaded_ && history_names_.knows(*offered_));
}

// New names are rare. They are added under a lock, so that all nodes respect one limit.
void PostgresStore::load_history_names() {
  tell(history_sql_.lock_series, {});
  const Rows rows = ask(history_sql_.series, {});
  history_names_.clear();
  for (int i = 0; i < rows.size(); ++i)
    history_names_.add(rows.string(i, 0), rows.string(i, 1), {.id = 1, .last = rows.integer(i, 2)});
}

void PostgresStore::write_history(BatchReport& report) {
  if (!offered_) return;
  if (!knows_history()) load_history_names();
  Texts series_queues, series_kinds, queues, kinds, waits, runs;
  Ints hours, spans, ats, enqueued, started, completed, failed, dead, cancelled;
  const std::vector<HistoryEntry> entries = history_names_.fold(*offered_);
  std::vector<std::string> sketches;
  sketches.reserve(entries.size() * 2);
  for (const HistoryEntry& entry : entries) {
    HistoryNames::Series& series = *history_names_.find(entry.queue, entry.kind);
    const std::int64_t hour = step_start(entry.at, kHistoryHour).us();
    if (series.last < hour) {
      series.last = hour;
      series_queues.emplace_back(entry.queue), series_kinds.emplace_back(entry.kind);
      hours.push_back(hour);
    }
    const HistoryCounts& c = entry.counts;
    queues.emplace_back(entry.queue), kinds.emplace_back(entry.kind);
    spans.push_back(entry.span.count()), ats.push_back(entry.at.us());
    enqueued.push_back(c.enqueued), started.push_back(c.started);
    completed.push_back(c.completed), failed.push_back(c.failed);
    dead.push_back(c.dead), cancelled.push_back(c.cancelled);
    waits.emplace_back(sketches.emplace_back(array_text(c.wait)));
    runs.emplace_back(sketches.emplace_back(array_text(c.run)));
  }
  history_loaded_ = false;  // reload unless it is committed
  if (!hours.empty()) tell(history_sql_.put_series, params(series_queues, series_kinds, hours));
  tell(history_sql_.put, params(queues, kinds, spans, ats, enqueued, started, completed, failed,
                                dead, cancelled, waits, runs));
  prune_history();
  report.history_written = true;
}

// Once per minute, a bounded number of rows. Reads skip rows that are too old.
void PostgresStore::prune_history() {
  const WallTime minute = step_start(now_.wall, kHistoryMinute);
  if (minute == history_pruned_) return;
  history_pruned_ = minute;
  const HistoryKept& kept = options_.store.history;
  const auto oldest = [&](Duration span, Duration length) {
    return step_start(now_.wall - length, span).us();
  };
  tell(history_sql_.prune_minutes, params(oldest(kHistoryMinute, kept.minutes), kPrunedAtOnce));
  const std::int64_t hour = oldest(kHistoryHour, kept.hours);
  tell(history_sql_.prune_hours, params(hour, kPrunedAtOnce));
  tell(history_sql_.drop_series, params(hour));
}

// -- reading
// ---------------------------------------------------------------------------------------

Result<std::vector<HistoryCounts>> PostgresStore::history(const HistoryRead& read,
                                                          WallTime now) const {
  const Duration span = read.span();
  const WallTime from =
      std::max(read.from, step_start(now - options_.store.history.of(read.step), span));
  Result<void> bounded;
  MS_TRY_ASSIGN(
      std::vector<HistoryCounts> out, with_reader([&](Connection& c) {
        std::vector<HistoryCounts> counts(read.points());
        Snapshot snapshot(c, read_sql_);
        const Rows names = snapshot.run(history_sql_.which_series);
        Ints series;
        for (int i = 0; i < names.size(); ++i) {
          if (read.adds(names.string(i, 1), names.string(i, 2)))
            series.push_back(names.integer(i, 0));
        }
        bounded = read.check_rows(series.size());
        if (!bounded) series.clear();
        const Rows rows =
            snapshot.run(history_sql_.read, params(series, span.count(), from.us(), read.to.us()));
        for (int i = 0; i < rows.size(); ++i) {
          read.find(counts, WallTime::from_us(rows.integer(i, 0)))->add(counts_of(rows, i, 1));
        }
        snapshot.end();
        return counts;
      }));
  if (!bounded) return bounded.error();
  return out;
}

Result<RecentCounts> PostgresStore::recent(WallTime from) const {
  return with_reader([&](Connection& c) {
    RecentCounts out;
    const Rows rows = c.run(history_sql_.recent, params(from.us()));
    for (int i = 0; i < rows.size(); ++i)
      out[rows.string(i, 0)].add(WallTime::from_us(rows.integer(i, 1)), counts_of(rows, i, 2));
    return out;
  });
}

Result<std::vector<JobFact>> PostgresStore::facts(const std::vector<JobId>& ids) const {
  return with_reader([&](Connection& c) {
    std::vector<JobFact> out;
    const Rows rows = c.run(history_sql_.facts, params(ids));
    for (int i = 0; i < rows.size(); ++i) {
      out.push_back({.id = rows.integer(i, 0),
                     .queue = rows.string(i, 1),
                     .kind = rows.string(i, 2),
                     .state = static_cast<JobState>(rows.integer(i, 3)),
                     .created_at = WallTime::from_us(rows.integer(i, 4)),
                     .started_at = wall_of(rows, i, 5),
                     .finished_at = wall_of(rows, i, 6)});
    }
    return out;
  });
}

}  // namespace mainspring::pg
