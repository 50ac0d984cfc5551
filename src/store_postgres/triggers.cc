// Triggers: rows and operations. src/trigger implements the rules.
//
// An operation that changes or fires a trigger locks its row first; a batch with several locks them
// by name.
#include <algorithm>
#include <utility>

#include "base/mutant.h"
#include "store_postgres/reader.h"
#include "workflow/references.h"

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
  out.reason = rows.text(row, 5);
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
#define MS_EVENT "SELECT seq, event, fired_at, made_at, job, reason FROM $schema.trigger_events "

TriggerStatements::TriggerStatements(std::string_view s)
    : lock(s, MS_TRIGGER "WHERE name = $1 FOR NO KEY UPDATE"),
      lock_several(s,
                   "SELECT name FROM $schema.triggers WHERE name = ANY($1) ORDER BY name FOR NO "
                   "KEY UPDATE"),
      count(s, "SELECT count(*) FROM $schema.triggers"),
      insert(
          s,
          "INSERT INTO $schema.triggers (name, definition, state, secret, ends, of_queue) VALUES "
          "($1, $2, $3, $4, $5::bigint, $6) ON CONFLICT (name) DO NOTHING RETURNING 1"),
      save(s,
           "UPDATE $schema.triggers SET definition = $2, state = $3, secret = $4, ends = "
           "$5::bigint, "
           "of_queue = $6 WHERE name = $1"),
      state(s, "UPDATE $schema.triggers SET state = $2 WHERE name = $1"),
      remove(s,
             "WITH gone AS (DELETE FROM $schema.trigger_events WHERE name = $1) DELETE FROM "
             "$schema.triggers WHERE name = $1"),
      event(s, MS_EVENT "WHERE name = $1 AND event = $2"),
      add_event(s,
                "INSERT INTO $schema.trigger_events (name, seq, event, fired_at, made_at, job, "
                "reason) VALUES ($1, $2, $3, $4, $5, $6, $7)"),
      forget(s,
             "WITH gone AS (DELETE FROM $schema.trigger_events WHERE name = $1 AND seq <= $2 "
             "RETURNING made_at) SELECT max(made_at) FROM gone"),
      watches(s, MS_TRIGGER "WHERE ends IS NOT NULL ORDER BY name"),
      known(s, "SELECT event FROM $schema.trigger_events WHERE name = $1 AND event = ANY($2)"),
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

namespace {

// The trigger's row, for insert and save.
Params row_of(const TriggerRecord& record) {
  Params all = params(record.name, record.definition, record.state);
  all.text_or_null(record.secret);
  const auto watch = watch_of(record);
  all.add(watch ? std::optional<std::int64_t>(watch->source.on) : std::nullopt);
  all.text_or_null(watch ? watch->source.queue : "");
  return all;
}

}  // namespace

bool PostgresTriggerRows::insert(const TriggerRecord& record) {
  const Rows rows = store_.ask(store_.trigger_sql_.insert, row_of(record));
  if (rows.empty()) return false;
  store_.wrote();
  return true;
}

void PostgresTriggerRows::save(const TriggerRecord& record) {
  store_.write(store_.trigger_sql_.save, row_of(record));
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
  all.text_or_null(event.reason);
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

std::set<std::string> PostgresTriggerRows::known_events(const std::string& name,
                                                        const std::vector<std::string>& events) {
  Texts wanted;
  for (const std::string& event : events) wanted.emplace_back(event);
  const Rows rows = store_.ask(store_.trigger_sql_.known, params(name, wanted));
  std::set<std::string> known;
  for (int i = 0; i < rows.size(); ++i) known.insert(rows.string(i, 0));
  return known;
}

std::vector<EnqueuedJob> PostgresTriggerRows::make(const std::vector<NewJob>& jobs) {
  std::set<SessionName> sessions;
  for (const NewJob& job : jobs) {
    if (!job.session.empty()) sessions.insert({store_.queue_of(job.queue).id, job.session});
  }
  if (!sessions.empty()) store_.take_sessions(sessions);
  // A job with a key may exist already: then its reserved id would be lost.
  const bool all_new = std::none_of(jobs.begin(), jobs.end(),
                                    [](const NewJob& job) { return job.unique.has_value(); });
  if (jobs.size() > 1 && all_new && store_.next_id_ >= store_.ids_end_) store_.new_ids(jobs.size());
  std::vector<EnqueuedJob> made;
  for (const NewJob& job : jobs) made.push_back(store_.enqueue_one(job));
  return made;
}

Result<std::string> PostgresTriggerRows::resolve(std::string_view json, const Names& names) {
  return workflow::resolve(json, names, workflow::Missing::refuse, kMaxArgsBytes);
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
    throw PgError{"XX001", error->message, false};
  if (rules.made() != 0) after_.made.push_back(rules.made());
  return result;
}

OperationResult PostgresStore::operator()(const PutTrigger& op) {
  return forget_watches(run_trigger(op));
}
OperationResult PostgresStore::operator()(const RemoveTrigger& op) {
  return forget_watches(run_trigger(op));
}
OperationResult PostgresStore::operator()(const PauseTrigger& op) {
  return run_trigger(op);
}
OperationResult PostgresStore::operator()(const FireTrigger& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  return run_trigger(op);
}

// -- ends of jobs ---------------------------------------------------------------------------------

namespace {

bool may_end_jobs(const Operation& operation) {
  return !std::holds_alternative<Enqueue>(operation) && !std::holds_alternative<Claim>(operation) &&
         !std::holds_alternative<Renew>(operation) &&
         !std::holds_alternative<AcquireLease>(operation) &&
         !std::holds_alternative<RenewLease>(operation) &&
         !std::holds_alternative<MoveDue>(operation) &&
         !std::holds_alternative<PruneJobs>(operation);
}

}  // namespace

void PostgresStore::look_for_watches(std::span<const Operation> batch) {
  if (std::any_of(batch.begin(), batch.end(), may_end_jobs)) ask_watches();
}

void PostgresStore::ask_watches() {
  watches_asked_ = true;
  later(trigger_sql_.watches, {}, [this](const Rows& rows) {
    watches_.emplace();
    for (int i = 0; i < rows.size(); ++i) {
      if (auto watch = watch_of(read_record(rows, i))) watches_->push_back(std::move(*watch));
    }
  });
}

// Runs after the operation, which has waited for rows: no earlier query is pending any more.
OperationResult PostgresStore::forget_watches(OperationResult result) {
  settle();
  watches_asked_ = false;
  watches_.reset();
  return result;
}

const std::vector<TriggerWatch>& PostgresStore::watches() {
  if (!watches_ && !watches_asked_) ask_watches();
  if (!watches_) settle();
  return *watches_;
}

void PostgresStore::note_end(const LoadedJob& job, const QueueInfo& queue, std::string_view result,
                             std::string_view reason, std::string_view description) {
  const std::string& kind = kind_name(job.row.kind);
  const auto& all = watches();
  const bool watched = std::any_of(all.begin(), all.end(), [&](const TriggerWatch& watch) {
    return fires(watch.source, queue.name, kind, job.row.state);
  });
  if (!watched) return;
  ends_.push_back({.id = job.row.id,
                   .queue = queue.name,
                   .kind = kind,
                   .state = job.row.state,
                   .attempt = job.row.attempt,
                   .trigger_depth = job.row.trigger_depth,
                   .result = std::string(result),
                   .reason = std::string(reason),
                   .description = std::string(description)});
}

// Their rows are locked by name, after all other locks of the batch. Operations on triggers lock
// some of them earlier, so two nodes may deadlock here: then one of them retries its batch.
void PostgresStore::fire_ends() {
  if (ends_.empty()) return;
  const std::vector<EndedJob> ends = std::exchange(ends_, {});
  if (MS_MUTANT(ends_fire_nothing)) return;
  TriggerRules rules(trigger_rows_, now_.wall);
  const auto made = rules.run(watches(), ends);
  if (!made) throw PgError{"XX001", made.error().message, false};
  after_.made.insert(after_.made.end(), made->begin(), made->end());
  settle_batch();
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
