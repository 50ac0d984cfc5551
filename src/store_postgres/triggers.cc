// Triggers: their rows, and the operations, which the rules decide (src/trigger).
//
// Whoever changes or fires a trigger locks its row first; several of one batch by name.
#include <algorithm>

#include "store_postgres/reader.h"

namespace mainspring::pg {
namespace {

TriggerRecord read_record(const Rows& rows, int row) {
  return {.name = rows.string(row, 0),
          .definition = rows.string(row, 1),
          .state = rows.string(row, 2),
          .secret = rows.string(row, 3)};
}

TriggerEvent read_event(const Rows& rows, int row) {
  TriggerEvent out{.seq = rows.integer(row, 0),
                   .event = rows.string(row, 1),
                   .fired_at = WallTime::from_us(rows.integer(row, 2)),
                   .job = rows.integer(row, 4)};
  if (!rows.is_null(row, 3)) out.made_at = WallTime::from_us(rows.integer(row, 3));
  return out;
}

std::string name_of_trigger(const Operation& operation) {
  if (const auto* put = std::get_if<PutTrigger>(&operation)) return put->trigger.name;
  if (const auto* remove = std::get_if<RemoveTrigger>(&operation)) return remove->name;
  if (const auto* pause = std::get_if<PauseTrigger>(&operation)) return pause->name;
  if (const auto* fire = std::get_if<FireTrigger>(&operation)) return fire->name;
  return {};
}

}  // namespace

#define MS_TRIGGER "SELECT name, definition, state, secret FROM $schema.triggers "
#define MS_EVENT "SELECT seq, event, fired_at, made_at, job FROM $schema.trigger_events "

TriggerStatements::TriggerStatements(std::string_view s)
    : lock(s, MS_TRIGGER "WHERE name = $1 FOR NO KEY UPDATE"),
      lock_several(s,
                   "SELECT name FROM $schema.triggers WHERE name = ANY($1) ORDER BY name FOR NO "
                   "KEY UPDATE"),
      count(s, "SELECT count(*) FROM $schema.triggers"),
      insert(s,
             "INSERT INTO $schema.triggers (name, definition, state, secret) VALUES ($1, $2, $3, "
             "$4) ON CONFLICT (name) DO NOTHING RETURNING 1"),
      save(s,
           "UPDATE $schema.triggers SET definition = $2, state = $3, secret = $4 WHERE name = $1"),
      state(s, "UPDATE $schema.triggers SET state = $2 WHERE name = $1"),
      remove(s,
             "WITH gone AS (DELETE FROM $schema.trigger_events WHERE name = $1) DELETE FROM "
             "$schema.triggers WHERE name = $1"),
      event(s, MS_EVENT "WHERE name = $1 AND event = $2"),
      add_event(s,
                "INSERT INTO $schema.trigger_events (name, seq, event, fired_at, made_at, job) "
                "VALUES ($1, $2, $3, $4, $5, $6)"),
      forget(s,
             "WITH gone AS (DELETE FROM $schema.trigger_events WHERE name = $1 AND seq <= $2 "
             "RETURNING made_at) SELECT max(made_at) FROM gone"),
      one(s, MS_TRIGGER "WHERE name = $1"),
      list(s, MS_TRIGGER "WHERE name > $1 ORDER BY name LIMIT $2"),
      events(s, MS_EVENT "WHERE name = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3") {}

// -- TriggerRows ----------------------------------------------------------------------------------

std::optional<TriggerRecord> PostgresTriggerRows::load(const std::string& name) {
  const Rows rows = store_.ask(store_.trigger_sql_.lock, params(name));
  if (rows.empty()) return std::nullopt;
  return read_record(rows, 0);
}

std::int64_t PostgresTriggerRows::count() {
  return store_.ask(store_.trigger_sql_.count, {}).integer(0, 0);
}

bool PostgresTriggerRows::insert(const TriggerRecord& record) {
  Params all = params(record.name, record.definition, record.state);
  const Rows rows = store_.ask(store_.trigger_sql_.insert, all.text_or_null(record.secret));
  if (rows.empty()) return false;
  store_.wrote();
  return true;
}

void PostgresTriggerRows::save(const TriggerRecord& record) {
  Params all = params(record.name, record.definition, record.state);
  store_.write(store_.trigger_sql_.save, all.text_or_null(record.secret));
}

void PostgresTriggerRows::save_state(const std::string& name, const std::string& state) {
  store_.write(store_.trigger_sql_.state, params(name, state));
}

void PostgresTriggerRows::remove(const std::string& name) {
  store_.write(store_.trigger_sql_.remove, params(name));
}

std::optional<TriggerEvent> PostgresTriggerRows::find_event(const std::string& name,
                                                            const std::string& event) {
  const Rows rows = store_.ask(store_.trigger_sql_.event, params(name, event));
  if (rows.empty()) return std::nullopt;
  return read_event(rows, 0);
}

void PostgresTriggerRows::add_event(const std::string& name, const TriggerEvent& event) {
  Params all = params(name, event.seq);
  all.text_or_null(event.event).add(event.fired_at.us());
  all.add(event.made_at ? std::optional(event.made_at->us()) : std::nullopt).add(event.job);
  store_.write(store_.trigger_sql_.add_event, all);
}

std::optional<WallTime> PostgresTriggerRows::forget(const std::string& name, std::int64_t seq) {
  const Rows rows = store_.ask(store_.trigger_sql_.forget, params(name, seq));
  if (rows.empty() || rows.is_null(0, 0)) return std::nullopt;
  return WallTime::from_us(rows.integer(0, 0));
}

OperationResult PostgresTriggerRows::enqueue(const NewJob& job) {
  return store_(Enqueue{.jobs = {job}, .idempotency_key = {}, .fingerprint = {}, .fence = {}});
}

// -- operations -----------------------------------------------------------------------------------

void PostgresStore::lock_triggers(std::span<const Operation> batch) {
  std::vector<std::string> names;
  for (const Operation& operation : batch) {
    if (std::string name = name_of_trigger(operation); !name.empty())
      names.push_back(std::move(name));
  }
  if (names.size() < 2) return;
  Texts texts;
  for (const std::string& name : names) texts.emplace_back(name);
  ask(trigger_sql_.lock_several, params(texts));
}

template <class Op>
OperationResult PostgresStore::run_trigger(const Op& op) {
  TriggerRules rules(trigger_rows_, now_.wall);
  OperationResult result = rules.run(op);
  if (const auto* error = std::get_if<Error>(&result);
      error != nullptr && error->code == ErrorCode::internal)
    throw PgError("XX001", error->message, false);
  if (rules.made() != 0) after_.made.push_back(rules.made());
  return result;
}

OperationResult PostgresStore::operator()(const PutTrigger& op) {
  return run_trigger(op);
}
OperationResult PostgresStore::operator()(const RemoveTrigger& op) {
  return run_trigger(op);
}
OperationResult PostgresStore::operator()(const PauseTrigger& op) {
  return run_trigger(op);
}
OperationResult PostgresStore::operator()(const FireTrigger& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  return run_trigger(op);
}

// -- reads ----------------------------------------------------------------------------------------

Result<TriggerInfo> PostgresStore::trigger(const std::string& name) const {
  MS_TRY_ASSIGN(const std::optional<TriggerRecord> record,
                with_reader([&](Connection& c) -> std::optional<TriggerRecord> {
                  const Rows rows = c.run(trigger_sql_.one, params(name));
                  if (rows.empty()) return std::nullopt;
                  return read_record(rows, 0);
                }));
  if (!record) return no_trigger(name);
  return read_trigger(*record);
}

Result<std::vector<TriggerInfo>> PostgresStore::triggers(const std::string& after,
                                                         int limit) const {
  MS_TRY_ASSIGN(const std::vector<TriggerRecord> records, with_reader([&](Connection& c) {
                  const Rows rows = c.run(trigger_sql_.list, params(after, std::int64_t{limit}));
                  std::vector<TriggerRecord> all;
                  for (int i = 0; i < rows.size(); ++i) all.push_back(read_record(rows, i));
                  return all;
                }));
  std::vector<TriggerInfo> out;
  for (const TriggerRecord& record : records) {
    MS_TRY_ASSIGN(TriggerInfo info, read_trigger(record));
    out.push_back(std::move(info));
  }
  return out;
}

Result<TriggerEventPage> PostgresStore::trigger_events(const std::string& name, int limit,
                                                       std::int64_t before) const {
  MS_TRY_ASSIGN(std::optional<TriggerEventPage> page,
                with_reader([&](Connection& c) -> std::optional<TriggerEventPage> {
                  Snapshot snapshot(c, read_sql_);
                  const bool there = !snapshot.run(trigger_sql_.one, params(name)).empty();
                  const Rows rows = snapshot.run(trigger_sql_.events,
                                                 params(name, before == 0 ? INT64_MAX : before,
                                                        std::int64_t{limit} + std::int64_t{1}));
                  snapshot.end();
                  if (!there) return std::nullopt;
                  TriggerEventPage out;
                  for (int i = 0; i < std::min(rows.size(), limit); ++i)
                    out.rows.push_back(read_event(rows, i));
                  if (rows.size() > limit) out.next = out.rows.back().seq;
                  return out;
                }));
  if (!page) return no_trigger(name);
  return std::move(*page);
}

}  // namespace mainspring::pg
