// Marks and saved views: rows that only requests read.
#include "store_postgres/marks.h"

#include "store_postgres/reader.h"
#include "store_postgres/store_impl.h"

namespace mainspring::pg {
namespace {

Mark mark_of(const Rows& rows, int row) {
  return {.id = rows.integer(row, 0),
          .at = WallTime::from_us(rows.integer(row, 1)),
          .text = rows.string(row, 2),
          .by = rows.string(row, 3),
          .source = rows.integer(row, 4) == 0 ? MarkSource::manual : MarkSource::worker};
}

}  // namespace

MarkStatements::MarkStatements(std::string_view s)
    : of_worker(s,
                "SELECT id, at, text, who, source FROM $schema.marks WHERE text = $1 AND source = "
                "1"),
      insert(s,
             "INSERT INTO $schema.marks (at, text, who, source) VALUES ($1, $2, $3, $4) ON "
             "CONFLICT (text) WHERE source = 1 DO NOTHING RETURNING id, at, text, who, source"),
      trim(s,
           "DELETE FROM $schema.marks WHERE id IN (SELECT id FROM $schema.marks ORDER BY at, id "
           "LIMIT greatest(0, (SELECT count(*) FROM $schema.marks) - $1))"),
      remove(s, "DELETE FROM $schema.marks WHERE id = $1 RETURNING id"),
      view(s, "SELECT 1 FROM $schema.saved_views WHERE name = $1"),
      count_views(s, "SELECT count(*) FROM $schema.saved_views"),
      put_view(s,
               "INSERT INTO $schema.saved_views (name, page, query, who, updated_at) VALUES ($1, "
               "$2, $3, $4, $5) ON CONFLICT (name) DO UPDATE SET page = EXCLUDED.page, query = "
               "EXCLUDED.query, who = EXCLUDED.who, updated_at = EXCLUDED.updated_at"),
      remove_view(s, "DELETE FROM $schema.saved_views WHERE name = $1 RETURNING name"),
      page(s,
           "SELECT id, at, text, who, source FROM $schema.marks WHERE at >= $1 AND (at, id) < ($2, "
           "$3) ORDER BY at DESC, id DESC LIMIT $4"),
      views(s, "SELECT name, page, query, who, updated_at FROM $schema.saved_views ORDER BY name") {
}

OperationResult PostgresStore::operator()(const AddMark& op) {
  const WallTime at = op.at.value_or(now_.wall);
  if (auto good = check_mark_time(at, now_.wall); !good) return good.error();
  if (op.source == MarkSource::worker) {
    const Rows known = ask(mark_sql_.of_worker, params(op.text));
    if (!known.empty()) return mark_of(known, 0);
  }
  // Another node may add the mark of this version at the same time: this waits for its commit.
  wrote();
  const Rows made =
      ask(mark_sql_.insert, params(at.us(), op.text, op.by, static_cast<std::int64_t>(op.source)));
  if (made.empty()) {
    const Rows known = ask(mark_sql_.of_worker, params(op.text));
    if (known.empty()) return no_mark(0);
    return mark_of(known, 0);
  }
  write(mark_sql_.trim, params(kMaxMarks));
  return mark_of(made, 0);
}

OperationResult PostgresStore::operator()(const RemoveMark& op) {
  const Rows gone = ask(mark_sql_.remove, params(op.id));
  if (gone.empty()) return no_mark(op.id);
  wrote();
  return Done{};
}

OperationResult PostgresStore::operator()(const PutView& op) {
  if (ask(mark_sql_.view, params(op.view.name)).empty() &&
      ask(mark_sql_.count_views, {}).integer(0, 0) >= kMaxViews)
    return too_many_views();
  SavedView view = op.view;
  view.updated_at = now_.wall;
  write(mark_sql_.put_view,
        params(view.name, view.page, view.query, view.by, view.updated_at.us()));
  return view;
}

OperationResult PostgresStore::operator()(const RemoveView& op) {
  const Rows gone = ask(mark_sql_.remove_view, params(op.name));
  if (gone.empty()) return no_view(op.name);
  wrote();
  return Done{};
}

// -- reading
// -----------------------------------------------------------------------------------------

Result<MarkPage> PostgresStore::marks(const MarkFilter& filter) const {
  const std::int64_t from = filter.from.value_or(WallTime()).us();
  // Before (at, 0) means before `at`: no mark has id 0.
  const MarkPlace to = std::min(filter.before.value_or(MarkPlace(WallTime::never(), INT64_MAX)),
                                MarkPlace(filter.to.value_or(WallTime::never()), 0));
  return with_reader([&](Connection& c) {
    MarkPage out;
    const Rows rows = c.run(mark_sql_.page,
                            params(from, to.first.us(), to.second, std::int64_t{filter.limit} + 1));
    for (int i = 0; i < rows.size(); ++i) {
      if (i == filter.limit) {
        out.next = {out.marks.back().at, out.marks.back().id};
        break;
      }
      out.marks.push_back(mark_of(rows, i));
    }
    return out;
  });
}

Result<std::vector<SavedView>> PostgresStore::views() const {
  return with_reader([&](Connection& c) {
    std::vector<SavedView> out;
    const Rows rows = c.run(mark_sql_.views);
    for (int i = 0; i < rows.size(); ++i) {
      out.push_back({.name = rows.string(i, 0),
                     .page = rows.string(i, 1),
                     .query = rows.string(i, 2),
                     .by = rows.string(i, 3),
                     .updated_at = WallTime::from_us(rows.integer(i, 4))});
    }
    return out;
  });
}

}  // namespace mainspring::pg
