// Triggers: rows and operations. src/trigger implements the rules.

#include <algorithm>
#include <utility>

#include "base/mutant.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/store_impl.h"
#include "workflow/references.h"

namespace mainspring::sql {
namespace {

TriggerRecord read_trigger_record(Statement& row) {
  return {.name = std::string(row.text(0)),
          .definition = std::string(row.text(1)),
          .state = std::string(row.text(2)),
          .secret = std::string(row.text(3))};
}

TriggerEvent read_event(Statement& row) {
  TriggerEvent out{.seq = row.integer(0),
                   .event = std::string(row.text(1)),
                   .fired_at = WallTime::from_us(row.integer(2)),
                   .job = row.integer(4)};
  if (!row.is_null(3)) out.made_at = WallTime::from_us(row.integer(3));
  out.reason = row.text(5);
  return out;
}

std::optional<std::int64_t> optional_us(const std::optional<WallTime>& at) {
  return at ? std::optional<std::int64_t>(at->us()) : std::nullopt;
}

}  // namespace

TriggerStatements::TriggerStatements(Connection& db)
    : load(db, queries::triggers::load),
      count(db, queries::triggers::count),
      insert(db, queries::triggers::insert),
      state(db, queries::triggers::state),
      remove(db, queries::triggers::remove),
      remove_events(db, queries::triggers::remove_events),
      event(db, queries::triggers::event),
      add_event(db, queries::triggers::add_event),
      latest(db, queries::triggers::latest),
      forget(db, queries::triggers::forget) {}

TriggerReads::TriggerReads(Connection& db)
    : one(db, queries::triggers::load),
      list(db, queries::triggers::list),
      events(db, queries::triggers::events) {}

// -- TriggerRows ----------------------------------------------------------------------------------

std::optional<TriggerRecord> SqlTriggerRows::load(const std::string& name) {
  Statement& row = sql().load.bind(name);
  ResetGuard guard(row);
  if (!row.step()) return std::nullopt;
  return read_trigger_record(row);
}

std::int64_t SqlTriggerRows::count() {
  Statement& row = sql().count.bind();
  ResetGuard guard(row);
  return row.step() ? row.integer(0) : 0;
}

bool SqlTriggerRows::insert(const TriggerRecord& record) {
  save(record);
  return true;
}

void SqlTriggerRows::save(const TriggerRecord& record) {
  store_.begin_write();
  sql()
      .insert
      .bind(record.name, record.definition, record.state, Statement::text_or_null(record.secret))
      .run();
}

void SqlTriggerRows::save_state(const std::string& name, const std::string& state) {
  store_.begin_write();
  sql().state.bind(name, state).run();
}

void SqlTriggerRows::remove(const std::string& name) {
  store_.begin_write();
  sql().remove.bind(name).run();
  sql().remove_events.bind(name).run();
}

std::optional<TriggerEvent> SqlTriggerRows::find_event(const std::string& name,
                                                       const std::string& event) {
  Statement& row = sql().event.bind(name, event);
  ResetGuard guard(row);
  if (!row.step()) return std::nullopt;
  return read_event(row);
}

void SqlTriggerRows::add_event(const std::string& name, const TriggerEvent& event) {
  store_.begin_write();
  sql()
      .add_event
      .bind(name, event.seq, Statement::text_or_null(event.event), event.fired_at.us(),
            optional_us(event.made_at), event.job, Statement::text_or_null(event.reason))
      .run();
}

std::optional<WallTime> SqlTriggerRows::forget(const std::string& name, std::int64_t seq) {
  std::optional<WallTime> latest;
  {
    Statement& row = sql().latest.bind(name, seq);
    ResetGuard guard(row);
    if (row.step() && !row.is_null(0)) latest = WallTime::from_us(row.integer(0));
  }
  sql().forget.bind(name, seq).run();
  return latest;
}

OperationResult SqlTriggerRows::enqueue(const NewJob& job) {
  return store_(Enqueue{.jobs = {job}, .idempotency_key = {}, .fingerprint = {}, .fence = {}});
}

std::vector<EnqueuedJob> SqlTriggerRows::make(const std::vector<NewJob>& jobs) {
  store_.begin_write();
  std::vector<EnqueuedJob> made;
  for (const NewJob& job : jobs) made.push_back(store_.enqueue_one(job));
  return made;
}

Result<std::string> SqlTriggerRows::resolve(std::string_view json, const Names& names) {
  return workflow::resolve(json, names, workflow::Missing::refuse, kMaxArgsBytes);
}

TriggerStatements& SqlTriggerRows::sql() {
  return *store_.trigger_sql_;
}

// -- operations -----------------------------------------------------------------------------------

template <class Op>
OperationResult SqlStore::run_trigger(const Op& op) {
  TriggerRules rules(trigger_rows_, now_.wall);
  OperationResult result = rules.run(op);
  if (const auto* error = std::get_if<Error>(&result);
      error != nullptr && error->code == ErrorCode::internal)
    throw damaged(error->message);
  if (rules.made() != 0) made_.push_back(rules.made());
  return result;
}

OperationResult SqlStore::operator()(const PutTrigger& op) {
  OperationResult result = run_trigger(op);
  load_watches();
  return result;
}
OperationResult SqlStore::operator()(const RemoveTrigger& op) {
  OperationResult result = run_trigger(op);
  load_watches();
  return result;
}
OperationResult SqlStore::operator()(const PauseTrigger& op) {
  return run_trigger(op);
}
OperationResult SqlStore::operator()(const FireTrigger& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  return run_trigger(op);
}

// -- ends of jobs ---------------------------------------------------------------------------------

int depth_flags(int depth) {
  return std::clamp(depth, 0, kDepthFlags / kDepthUnit) * kDepthUnit;
}

int depth_of(int flags) {
  return (flags & kDepthFlags) / kDepthUnit;
}

void SqlStore::load_watches() {
  watches_.clear();
  Statement rows(db_, queries::triggers::load_on_job_ends);
  while (rows.step()) {
    if (auto watch = watch_of(read_trigger_record(rows))) watches_.push_back(std::move(*watch));
  }
}

bool SqlStore::is_watched(std::string_view queue, JobState end) const {
  return std::any_of(watches_.begin(), watches_.end(), [&](const TriggerWatch& watch) {
    return fires(watch.source, queue, watch.source.kind, end);
  });
}

void SqlStore::note_end(const EndedJob& ended) {
  const bool watched =
      std::any_of(watches_.begin(), watches_.end(), [&](const TriggerWatch& watch) {
        return fires(watch.source, ended.queue, ended.kind, ended.state);
      });
  if (watched) ends_.push_back(ended);
}

void SqlStore::fire_ends() {
  if (ends_.empty()) return;
  if (MS_MUTANT(ends_fire_nothing)) return ends_.clear();
  TriggerRules rules(trigger_rows_, now_.wall);
  const auto made = rules.run(watches_, std::exchange(ends_, {}));
  if (!made) throw damaged(made.error().message);
  made_.insert(made_.end(), made->begin(), made->end());
  settle();
}

// -- reads ----------------------------------------------------------------------------------------

// Runs on a reader's connection, in one snapshot.
template <class F>
auto SqlStore::read_triggers(F&& what) const -> decltype(what(std::declval<TriggerReads&>())) {
  try {
    auto reader = take_reader();
    auto answer = [&] {
      Snapshot snapshot(*reader->db);
      return what(reader->triggers);
    }();
    give_back(std::move(reader));
    return answer;
  } catch (const DiskError& error) {
    return to_error(error);
  }
}

Result<TriggerInfo> SqlStore::trigger(const std::string& name) const {
  return read_triggers([&](TriggerReads& sql) -> Result<TriggerInfo> {
    Statement& row = sql.one.bind(name);
    ResetGuard guard(row);
    if (!row.step()) return no_trigger(name);
    return read_trigger(read_trigger_record(row));
  });
}

Result<std::vector<TriggerInfo>> SqlStore::triggers(const std::string& after, int limit) const {
  return read_triggers([&](TriggerReads& sql) -> Result<std::vector<TriggerInfo>> {
    std::vector<TriggerInfo> out;
    Statement& row = sql.list.bind(after, limit);
    ResetGuard guard(row);
    while (row.step()) {
      MS_TRY_ASSIGN(TriggerInfo info, read_trigger(read_trigger_record(row)));
      out.push_back(std::move(info));
    }
    return out;
  });
}

Result<TriggerEventPage> SqlStore::trigger_events(const std::string& name, int limit,
                                                  std::int64_t before) const {
  return read_triggers([&](TriggerReads& sql) -> Result<TriggerEventPage> {
    {
      Statement& there = sql.one.bind(name);
      ResetGuard guard(there);
      if (!there.step()) return no_trigger(name);
    }
    TriggerEventPage page;
    Statement& row = sql.events.bind(name, before == 0 ? INT64_MAX : before, limit + 1);
    ResetGuard guard(row);
    while (row.step()) {
      if (std::ssize(page.rows) == limit) {
        page.next = page.rows.back().seq;
        break;
      }
      page.rows.push_back(read_event(row));
    }
    return page;
  });
}

}  // namespace mainspring::sql
