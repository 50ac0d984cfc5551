// Marks and saved views: rows that only requests read.
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/store_impl.h"

namespace mainspring::sql {
namespace {

Mark read_mark(const Statement& row) {
  return {.id = row.integer(0),
          .at = WallTime::from_us(row.integer(1)),
          .text = std::string(row.text(2)),
          .by = std::string(row.text(3)),
          .source = row.one_of(4, MarkSource::worker)};
}

}  // namespace

MarkStatements::MarkStatements(Connection& db)
    : of_worker(db, queries::marks::of_worker),
      insert(db, queries::marks::insert),
      count(db, queries::marks::count),
      drop_first(db, queries::marks::drop_first),
      one(db, queries::marks::one),
      remove(db, queries::marks::remove),
      view(db, queries::marks::view),
      count_views(db, queries::marks::count_views),
      put_view(db, queries::marks::put_view),
      remove_view(db, queries::marks::remove_view) {}

MarkReads::MarkReads(Connection& db)
    : page(db, queries::marks::page), views(db, queries::marks::views) {}

OperationResult SqlStore::operator()(const AddMark& op) {
  const WallTime at = op.at.value_or(now_.wall);
  if (auto good = check_mark_time(at, now_.wall); !good) return good.error();
  if (op.source == MarkSource::worker) {
    Statement& row = mark_sql_->of_worker.bind(op.text);
    ResetGuard guard(row);
    if (row.step()) return read_mark(row);
  }
  begin_write();
  const std::int64_t id =
      mark_sql_->insert.bind(at.us(), op.text, op.by, static_cast<std::int64_t>(op.source))
          .run_returning();
  std::int64_t marks = 0;
  {
    Statement& row = mark_sql_->count.bind();
    ResetGuard guard(row);
    if (row.step()) marks = row.integer(0);
  }
  if (marks > kMaxMarks) mark_sql_->drop_first.bind(marks - kMaxMarks).run();
  return Mark{.id = id, .at = at, .text = op.text, .by = op.by, .source = op.source};
}

OperationResult SqlStore::operator()(const RemoveMark& op) {
  {
    Statement& row = mark_sql_->one.bind(op.id);
    ResetGuard guard(row);
    if (!row.step()) return no_mark(op.id);
  }
  begin_write();
  mark_sql_->remove.bind(op.id).run();
  return Done{};
}

OperationResult SqlStore::operator()(const PutView& op) {
  bool is_new = false;
  {
    Statement& row = mark_sql_->view.bind(op.view.name);
    ResetGuard guard(row);
    is_new = !row.step();
  }
  if (is_new) {
    Statement& row = mark_sql_->count_views.bind();
    ResetGuard guard(row);
    if (row.step() && row.integer(0) >= kMaxViews) return too_many_views();
  }
  begin_write();
  SavedView view = op.view;
  view.updated_at = now_.wall;
  mark_sql_->put_view.bind(view.name, view.page, view.query, view.by, view.updated_at.us()).run();
  return view;
}

OperationResult SqlStore::operator()(const RemoveView& op) {
  {
    Statement& row = mark_sql_->view.bind(op.name);
    ResetGuard guard(row);
    if (!row.step()) return no_view(op.name);
  }
  begin_write();
  mark_sql_->remove_view.bind(op.name).run();
  return Done{};
}

// -- reading
// -----------------------------------------------------------------------------------------

Result<MarkPage> SqlStore::marks(const MarkFilter& filter) const {
  const std::int64_t from = filter.from.value_or(WallTime()).us();
  // Before (at, 0) means before `at`: no mark has id 0.
  const MarkPlace to = std::min(filter.before.value_or(MarkPlace(WallTime::never(), INT64_MAX)),
                                MarkPlace(filter.to.value_or(WallTime::never()), 0));
  try {
    auto reader = take_reader();
    MarkPage out;
    {
      Snapshot snapshot(*reader->db);
      Statement& row =
          reader->marks.page.bind(from, to.first.us(), to.second, std::int64_t{filter.limit} + 1);
      ResetGuard guard(row);
      while (row.step()) {
        if (std::ssize(out.marks) == filter.limit) {
          out.next = {out.marks.back().at, out.marks.back().id};
          break;
        }
        out.marks.push_back(read_mark(row));
      }
    }
    give_back(std::move(reader));
    return out;
  } catch (const DiskError& error) {
    return to_error(error);
  }
}

Result<std::vector<SavedView>> SqlStore::views() const {
  try {
    auto reader = take_reader();
    std::vector<SavedView> out;
    {
      Snapshot snapshot(*reader->db);
      Statement& row = reader->marks.views.bind();
      ResetGuard guard(row);
      while (row.step()) {
        out.push_back({.name = std::string(row.text(0)),
                       .page = std::string(row.text(1)),
                       .query = std::string(row.text(2)),
                       .by = std::string(row.text(3)),
                       .updated_at = WallTime::from_us(row.integer(4))});
      }
    }
    give_back(std::move(reader));
    return out;
  } catch (const DiskError& error) {
    return to_error(error);
  }
}

}  // namespace mainspring::sql
