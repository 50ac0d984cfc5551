// The history: the batch's transaction updates its rows and removes old ones.
//
// A row is read, updated and written, because SQLite cannot add sketches.
#include <algorithm>

#include "base/mutant.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/store_impl.h"

namespace mainspring::sql {
namespace {

constexpr Duration kPrunedMinutes = std::chrono::hours(1);  // time span removed per call, for each
                                                            // kind of row
constexpr Duration kPrunedHours = std::chrono::hours(24);

TimeSketch read_sketch(std::string_view text) {
  auto sketch = TimeSketch::parse(text);
  if (!sketch) throw damaged("the history is damaged: " + sketch.error().message);
  return std::move(*sketch);
}

// Reads a row of HistoryStatements::one.
HistoryCounts read_counts(const Statement& row, int first = 0) {
  return {.enqueued = row.integer(first),
          .started = row.integer(first + 1),
          .completed = row.integer(first + 2),
          .failed = row.integer(first + 3),
          .dead = row.integer(first + 4),
          .cancelled = row.integer(first + 5),
          .wait = read_sketch(row.text(first + 6)),
          .run = read_sketch(row.text(first + 7))};
}

std::optional<WallTime> wall_of(const Statement& row, int column) {
  if (row.is_null(column)) return std::nullopt;
  return WallTime::from_us(row.integer(column));
}

}  // namespace

HistoryStatements::HistoryStatements(Connection& db)
    : series(db, queries::history::series),
      insert_series(db, queries::history::insert_series),
      touch_series(db, queries::history::touch_series),
      drop_series(db, queries::history::drop_series),
      one(db, queries::history::one),
      put(db, queries::history::put),
      first(db, queries::history::first),
      drop(db, queries::history::drop) {}

HistoryReads::HistoryReads(Connection& db)
    : series(db, queries::history::series_names),
      one(db, queries::history::one),
      fact(db, queries::history::job_fact),
      recent(db, queries::history::recent) {}

// -- writing
// ---------------------------------------------------------------------------------------

void SqlStore::offer_history(HistoryRowsPtr rows, HistoryWrite when) {
  offered_ = std::move(rows);
  offered_when_ = when;
}

bool SqlStore::write_history() {
  if (!offered_ || refuse_enqueues_) return false;  // the disk is full: counts wait
  if (!history_loaded_) {
    history_names_.clear();
    Statement& rows = history_sql_->series.bind();
    ResetGuard guard(rows);
    while (rows.step()) {
      history_names_.add(std::string(rows.text(1)), std::string(rows.text(2)),
                         {.id = rows.integer(0), .last = rows.integer(3)});
    }
    history_loaded_ = true;
  }
  for (const HistoryEntry& entry : history_names_.fold(*offered_)) put_history(entry);
  prune_history();
  return true;
}

void SqlStore::put_history(const HistoryEntry& entry) {
  HistoryNames::Series& series = *history_names_.find(entry.queue, entry.kind);
  const std::int64_t hour = step_start(entry.at, kHistoryHour).us();
  if (series.id == 0) {
    series = {.id = history_sql_->insert_series.bind(entry.queue, entry.kind, hour).run_returning(),
              .last = hour};
  } else if (series.last < hour) {
    history_sql_->touch_series.bind(series.id, hour).run();
    series.last = hour;
  }
  HistoryCounts sum = entry.counts;
  {
    Statement& row = history_sql_->one.bind(entry.span.count(), entry.at.us(), series.id);
    ResetGuard guard(row);
    if (row.step() && !MS_MUTANT(history_overwritten)) sum.add(read_counts(row));
  }
  const std::string wait = sum.wait.text(), run = sum.run.text();
  history_sql_->put
      .bind(entry.span.count(), entry.at.us(), series.id, sum.enqueued, sum.started, sum.completed,
            sum.failed, sum.dead, sum.cancelled, wait, run)
      .run();
}

// Once per minute, a bounded number of rows. Reads skip rows that are too old.
void SqlStore::prune_history() {
  const WallTime minute = step_start(now_.wall, kHistoryMinute);
  if (minute == history_pruned_) return;
  history_pruned_ = minute;
  const auto prune = [&](Duration span, Duration kept, Duration at_once) {
    Statement& row = history_sql_->first.bind(span.count());
    const bool any = row.step() && !row.is_null(0);
    const WallTime first = any ? WallTime::from_us(row.integer(0)) : WallTime::never();
    row.reset();
    const WallTime old = step_start(now_.wall - kept, span);
    if (first >= old) return false;
    history_sql_->drop.bind(span.count(), std::min(old, first + at_once).us()).run();
    return true;
  };
  prune(kHistoryMinute, options_.store.history.minutes, kPrunedMinutes);
  if (!prune(kHistoryHour, options_.store.history.hours, kPrunedHours)) return;
  Statement& row = history_sql_->first.bind(kHistoryHour.count());
  const std::int64_t first = row.step() ? row.integer(0) : 0;
  row.reset();
  history_sql_->drop_series.bind(first).run();
  history_loaded_ = false;
}

// -- reading
// ---------------------------------------------------------------------------------------

Result<std::vector<HistoryCounts>> SqlStore::history(const HistoryRead& read, WallTime now) const {
  try {
    auto reader = take_reader();
    std::vector<HistoryCounts> out(read.points());
    const Duration span = read.span();
    const WallTime from =
        std::max(read.from, step_start(now - options_.store.history.of(read.step), span));
    Result<void> bounded;
    {
      Snapshot snapshot(*reader->db);
      std::vector<std::int64_t> series;
      {
        Statement& rows = reader->history.series.bind();
        ResetGuard guard(rows);
        while (rows.step())
          if (read.adds(rows.text(1), rows.text(2))) series.push_back(rows.integer(0));
      }
      bounded = read.check_rows(series.size());
      if (!bounded) series.clear();
      for (WallTime at = from; at < read.to; at = at + span) {
        for (const std::int64_t one : series) {
          Statement& row = reader->history.one.bind(span.count(), at.us(), one);
          ResetGuard guard(row);
          if (row.step()) read.find(out, at)->add(read_counts(row));
        }
      }
    }
    give_back(std::move(reader));
    if (!bounded) return bounded.error();
    return out;
  } catch (const DiskError& error) {
    return to_error(error);
  }
}

Result<RecentCounts> SqlStore::recent(WallTime from) const {
  try {
    auto reader = take_reader();
    RecentCounts out;
    {
      Snapshot snapshot(*reader->db);
      Statement& row = reader->history.recent.bind(from.us());
      ResetGuard guard(row);
      while (row.step())
        out[std::string(row.text(0))].add(WallTime::from_us(row.integer(1)), read_counts(row, 2));
    }
    give_back(std::move(reader));
    return out;
  } catch (const DiskError& error) {
    return to_error(error);
  }
}

Result<std::vector<JobFact>> SqlStore::facts(const std::vector<JobId>& ids) const {
  try {
    auto reader = take_reader();
    std::vector<JobFact> out;
    {
      Snapshot snapshot(*reader->db);
      for (const JobId id : ids) {
        Statement& row = reader->history.fact.bind(id);
        ResetGuard guard(row);
        if (!row.step()) continue;
        out.push_back({.id = id,
                       .queue = std::string(row.text(0)),
                       .kind = std::string(row.text(1)),
                       .state = row.one_of(2, JobState::dead),
                       .created_at = WallTime::from_us(row.integer(3)),
                       .started_at = wall_of(row, 4),
                       .finished_at = wall_of(row, 5)});
      }
    }
    give_back(std::move(reader));
    return out;
  } catch (const DiskError& error) {
    return to_error(error);
  }
}

}  // namespace mainspring::sql
