// Circuit breakers of queues, shared by several nodes.
//
// The end of an attempt takes no shared lock: a failed attempt inserts a note. A claim from a queue
// with a breaker locks the queue's row and then the breaker's row. It reads the notes and the ends
// of the probes, and so knows how many jobs it may take. A batch that ends attempts counts them at
// its end, if the breaker's lock is free; so does the leader while a half-open breaker waits for
// its probes. An attempt may end between the read of the probes and the read of the notes, so the
// notes are read second.
#include "store_postgres/breakers.h"

#include <algorithm>

#include "api/breaker_shapes.h"
#include "base/mutant.h"
#include "store_postgres/fast_path.h"
#include "store_postgres/reader.h"

namespace mainspring::pg {
namespace {

constexpr Duration kLookAtProbes = std::chrono::seconds(1);  // interval of the leader

Texts texts(const std::vector<std::string>& names) {
  return Texts(names.begin(), names.end());
}

BreakerSettings read_settings(const Rows& rows, int row, int column) {
  auto settings = parse_breaker_settings(rows.text(row, column));
  if (!settings) throw PgError{"XX001", settings.error().message, false};
  return *settings;
}

}  // namespace

BreakerStatements::BreakerStatements(std::string_view s)
    : load(s, "SELECT name, settings, coalesce(state, '') FROM $schema.breakers ORDER BY name"),
      lock(s,
           "SELECT name, settings, coalesce(state, '') FROM $schema.breakers WHERE name = "
           "ANY($1::text[]) ORDER BY name FOR UPDATE"),
      lock_free(s,
                "SELECT name, settings, coalesce(state, '') FROM $schema.breakers WHERE name = "
                "ANY($1::text[]) ORDER BY name FOR UPDATE SKIP LOCKED"),
      probes(s,
             "SELECT p.id, p.token, CASE WHEN j.id IS NULL THEN 1 WHEN j.token <> p.token THEN 2 "
             "WHEN j.state = 3 THEN 0 WHEN j.state = 4 THEN 1 ELSE 2 END FROM "
             "unnest($1::bigint[], $2::bigint[]) AS p(id, token) LEFT JOIN $schema.jobs j ON j.id "
             "= p.id"),
      take_notes(s,
                 "WITH d AS (DELETE FROM $schema.breaker_notes WHERE breaker = ANY($1::text[]) "
                 "RETURNING *) SELECT breaker, job, token, began, failed, open_for FROM d ORDER BY "
                 "seq"),
      note(s,
           "INSERT INTO $schema.breaker_notes (breaker, job, token, began, at, failed, open_for) "
           "SELECT breaker, job, token, began, $7::bigint, failed <> 0, nullif(open_for, 0) FROM "
           "unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], "
           "$6::bigint[]) AS u(breaker, job, token, began, failed, open_for)"),
      save(s, "UPDATE $schema.breakers SET settings = $2, state = $3 WHERE name = $1"),
      insert(s,
             "WITH n AS (DELETE FROM $schema.breaker_notes WHERE breaker = $1) INSERT INTO "
             "$schema.breakers (name, settings) VALUES ($1, $2) ON CONFLICT DO NOTHING"),
      remove(s,
             "WITH n AS (DELETE FROM $schema.breaker_notes WHERE breaker = $1) DELETE FROM "
             "$schema.breakers WHERE name = $1"),
      exists(s, "SELECT 1 FROM $schema.breakers WHERE name = $1"),
      count(s, "SELECT count(*) FROM $schema.breakers"),
      named_by(s,
               "SELECT name FROM $schema.queues WHERE limits LIKE '%\"breaker\":%' AND "
               "limits::json->>'breaker' = $1 ORDER BY name COLLATE \"C\""),
      names(s,
            "SELECT limits::json->>'breaker', name FROM $schema.queues WHERE limits LIKE "
            "'%\"breaker\":%' ORDER BY name COLLATE \"C\""),
      of_queue(s,
               "SELECT id FROM $schema.jobs WHERE id = ANY($1::bigint[]) AND queue = $2::bigint") {}

// -- loaded breakers ----------------------------------------------------------------------------

// Locks the breakers that exist. Not `waits`: only those that no other transaction has locked.
void PostgresStore::take_breakers(const std::set<std::string>& wanted, BreakerLock lock) {
  std::vector<std::string> names;
  for (const std::string& name : wanted) {
    if (!loaded_breakers_.contains(name)) names.push_back(name);
  }
  if (names.empty()) return;
  const bool waits = lock == BreakerLock::waits;
  const bool looks = waits && MS_MUTANT(breaker_not_locked);
  const Rows rows = ask(looks   ? breaker_sql_.load
                        : waits ? breaker_sql_.lock
                                : breaker_sql_.lock_free,
                        looks ? Params() : params(texts(names)));
  for (int i = 0; i < rows.size(); ++i) {
    if (!wanted.contains(rows.string(i, 0))) continue;
    LoadedBreaker& breaker = loaded_breakers_[rows.string(i, 0)];
    breaker.settings = breaker.had = read_settings(rows, i, 1);
    breaker.meter = breaker.was = BreakerMeter::parse(rows.text(i, 2));
  }
}

// Counts the ends since the last count, for loaded breakers.
void PostgresStore::fold_breakers(const std::set<std::string>& wanted) {
  flush();
  flush_breaker_notes();
  std::vector<std::string> names;
  Ints ids, tokens;
  for (const std::string& name : wanted) {
    const auto found = loaded_breakers_.find(name);
    if (found == loaded_breakers_.end()) continue;
    names.push_back(name);
    for (const BreakerMeter::Probe& probe : found->second.meter.probes())
      ids.push_back(probe.id), tokens.push_back(probe.token);
  }
  if (names.empty()) return;
  Rows probes;
  if (!ids.empty()) {
    later(breaker_sql_.probes, params(ids, tokens),
          [&probes](Rows rows) { probes = std::move(rows); });
  }
  const Rows notes = ask(breaker_sql_.take_notes, params(texts(names)));
  if (notes.size() != 0) wrote();
  for (int i = 0; i < notes.size(); ++i) {
    LoadedBreaker& breaker = loaded_breakers_.at(notes.string(i, 0));
    breaker.meter.end(
        breaker.settings, {notes.integer(i, 1), notes.integer(i, 2)},
        WallTime::from_us(notes.integer(i, 3)),
        notes.integer(i, 4) != 0 ? BreakerMeter::End::failed : BreakerMeter::End::neither,
        now_.wall);
    if (const auto time = notes.maybe(i, 5))
      breaker.meter.open_for(breaker.settings, Duration(*time), now_.wall);
  }
  for (int i = 0; i < probes.size(); ++i) {
    const std::int64_t became = probes.integer(i, 2);
    if (became == 0) continue;  // still running
    const auto how = became == 1 ? BreakerMeter::End::succeeded : BreakerMeter::End::neither;
    for (const std::string& name : names) {
      LoadedBreaker& breaker = loaded_breakers_.at(name);
      breaker.meter.end(breaker.settings, {probes.integer(i, 0), probes.integer(i, 1)}, now_.wall,
                        how, now_.wall);
    }
  }
}

// Loads the current breakers for a claim from these queues, whose rows are locked.
void PostgresStore::take_breakers_of(const std::vector<const QueueInfo*>& queues) {
  std::set<std::string> names;
  for (const QueueInfo* queue : queues) {
    if (!queue->limits.breaker.empty()) names.insert(queue->limits.breaker);
  }
  if (names.empty()) return;
  take_breakers(names, BreakerLock::waits);
  fold_breakers(names);
  for (const std::string& name : names) {
    const auto found = loaded_breakers_.find(name);
    if (found != loaded_breakers_.end())
      found->second.meter.step(found->second.settings, now_.wall);
  }
}

int PostgresStore::room_under_breaker(const QueueInfo& queue) const {
  const auto found = loaded_breakers_.find(queue.limits.breaker);
  return (found == loaded_breakers_.end() ? BreakerMeter() : found->second.meter).room();
}

// The remaining starts of half-open breakers that several queues of one claim share.
std::map<std::string, int> PostgresStore::shared_rooms(const Claiming& claiming) const {
  std::map<std::string, int> named, rooms;
  for (const QueueInfo* queue : claiming.queues) {
    const auto found = loaded_breakers_.find(queue->limits.breaker);
    if (found == loaded_breakers_.end() || found->second.meter.state() != BreakerState::half_open)
      continue;
    if (++named[found->first] == 2) rooms.emplace(found->first, found->second.meter.room());
  }
  return rooms;
}

void PostgresStore::begin_under_breaker(int queue, BreakerMeter::Probe attempt) {
  if (loaded_breakers_.empty()) return;
  const auto found = loaded_breakers_.find(queue_by_id(queue).limits.breaker);
  if (found != loaded_breakers_.end()) found->second.meter.begin(attempt);
}

// -- ends -----------------------------------------------------------------------------------------

// Notes how an attempt counts, before it ends.
void PostgresStore::note_for_breaker(const JobRow& row, const Outcome& outcome) {
  const std::string& name = queue_by_id(row.queue).limits.breaker;
  const auto open_for = open_breaker_for(outcome);
  const bool failed = end_for_breaker(outcome) == BreakerMeter::End::failed;
  if (name.empty() || (!failed && !open_for)) return;
  breaker_notes_.push_back(
      {.breaker = name,
       .attempt = {row.id, row.token},
       .began = row.started_at,
       .failed = failed,
       .open_for = open_for ? std::optional(open_for->count()) : std::nullopt});
  touched_breakers_.insert(name);
}

// An attempt of that queue has ended; a breaker that is not closed may have waited for it.
void PostgresStore::touch_breaker_of(const QueueInfo& queue) {
  const auto copy = breakers_.find(queue.limits.breaker);
  const bool loaded = loaded_breakers_.contains(queue.limits.breaker);
  if (loaded || (copy != breakers_.end() &&
                 (copy->second.uncertain || copy->second.meter.state() != BreakerState::closed)))
    touched_breakers_.insert(queue.limits.breaker);
}

void PostgresStore::flush_breaker_notes() {
  if (breaker_notes_.empty()) return;
  std::vector<std::string> names;
  Ints jobs, tokens, began, failed, open_for;
  for (const BreakerNote& note : std::exchange(breaker_notes_, {})) {
    names.push_back(note.breaker);
    jobs.push_back(note.attempt.id), tokens.push_back(note.attempt.token);
    began.push_back(note.began), failed.push_back(note.failed ? 1 : 0);
    open_for.push_back(note.open_for.value_or(0));
  }
  write(breaker_sql_.note, params(texts(names), jobs, tokens, began, failed, open_for, wall()));
}

// Before the commit: counts the ends of this batch, unless another transaction has the lock. Then
// that transaction, or the next claim, counts them.
void PostgresStore::settle_breakers() {
  const std::set<std::string> touched = std::exchange(touched_breakers_, {});
  if (!touched.empty()) {
    take_breakers(touched, BreakerLock::if_free);
    fold_breakers(touched);
  }
  for (const std::string& name : touched) {
    if (!loaded_breakers_.contains(name)) open_queues_of(name);
  }
  bool changed = false;
  for (const auto& [name, breaker] : loaded_breakers_) {
    if (breaker.meter == breaker.was && breaker.settings == breaker.had) continue;
    const std::string state = MS_MUTANT(breaker_not_kept) ? "" : breaker.meter.text();
    write(breaker_sql_.save,
          params(name, breaker_settings_text(breaker.settings), text_or_null(state)));
    const BreakerState before = breaker.was.state(), now = breaker.meter.state();
    changed =
        changed || before != now || now != BreakerState::closed || breaker.settings != breaker.had;
    const bool wakes = !MS_MUTANT(end_of_probe_wakes_no_worker) || before == BreakerState::open;
    const bool moved = !(breaker.meter == breaker.was);  // not only its settings
    if (moved && before != BreakerState::closed && breaker.meter.room() > 0 && wakes)
      open_queues_of(name);
    if (before == now) continue;
    BreakerInfo& info = after_.breakers.emplace_back();
    info.name = name;
    info.settings = breaker.settings;
    breaker.meter.describe(breaker.settings, now_.wall, info);
  }
  if (!changed) return;
  write(sql_.raise_version, params("queues"));
  after_.queues = true;
}

void PostgresStore::open_queues_of(const std::string& name) {
  for (const auto& [id, queue] : queues_by_id_) {
    if (queue->limits.breaker == name) opened_.insert(id);
  }
}

// -- copies ---------------------------------------------------------------------------------------

void PostgresStore::load_breakers() {
  const Rows rows = connection_->run(breaker_sql_.load);
  breakers_.clear();
  for (int i = 0; i < rows.size(); ++i) {
    breakers_[rows.string(i, 0)] = {.settings = read_settings(rows, i, 1),
                                    .meter = BreakerMeter::parse(rows.text(i, 2))};
  }
}

void PostgresStore::remember_breakers() {
  for (const std::string& name : after_.no_breakers) breakers_.erase(name);
  for (const auto& [name, breaker] : loaded_breakers_)
    breakers_[name] = {.settings = breaker.settings, .meter = breaker.meter};
}

bool PostgresStore::is_held_by_breaker(const QueueInfo& queue) const {
  const auto copy = breakers_.find(queue.limits.breaker);
  return copy != breakers_.end() && !copy->second.uncertain && copy->second.meter.room() == 0;
}

void PostgresStore::doubt_breaker_of(const QueueInfo& queue) {
  const auto copy = breakers_.find(queue.limits.breaker);
  if (copy != breakers_.end()) copy->second.uncertain = true;
}

// When open breakers become half open. Half-open breakers that wait for probes are checked
// periodically, because the end of a probe may not have been reported.
WallTime PostgresStore::next_half_open() const {
  WallTime next = WallTime::never();
  for (const auto& [name, breaker] : breakers_) {
    const WallTime again = breakers_looked_at_ + kLookAtProbes;
    if (breaker.meter.state() == BreakerState::open)
      next = std::min(next, breaker.meter.open_until());
    if (!breaker.meter.probes().empty()) next = std::min(next, again);
  }
  return next;
}

// Returns how many became half open.
int PostgresStore::step_breakers(int limit) {
  breakers_looked_at_ = now_.wall;
  std::set<std::string> names;
  for (const auto& [name, breaker] : breakers_) {
    const bool due =
        breaker.meter.state() == BreakerState::open && breaker.meter.open_until() <= now_.wall;
    if (due || !breaker.meter.probes().empty()) names.insert(name);
  }
  if (names.empty()) return 0;
  take_breakers(names, BreakerLock::if_free);
  fold_breakers(names);
  int changed = 0;
  for (const std::string& name : names) {
    const auto found = loaded_breakers_.find(name);
    if (found == loaded_breakers_.end() || changed == limit) continue;
    const BreakerState before = found->second.meter.state();
    found->second.meter.step(found->second.settings, now_.wall);
    if (before != found->second.meter.state()) ++changed;
  }
  return changed;
}

// -- operations -----------------------------------------------------------------------------------

// nullptr = no such breaker.
LoadedBreaker* PostgresStore::take_breaker(const std::string& name) {
  flush();
  take_breakers({name}, BreakerLock::waits);
  fold_breakers({name});  // earlier ends count for the old settings
  const auto found = loaded_breakers_.find(name);
  return found == loaded_breakers_.end() ? nullptr : &found->second;
}

// Call before the limits of a queue change; its row is locked. Running jobs of the queue no longer
// count for the old breaker.
void PostgresStore::change_breaker(const QueueInfo& queue, const std::string& name) {
  const std::string before = queue.limits.breaker;
  if (before == name) return;
  flush();
  std::set<std::string> both;
  for (const std::string& one : {before, name}) {
    if (!one.empty()) both.insert(one);
  }
  take_breakers(both, BreakerLock::waits);
  fold_breakers(both);
  const auto found = loaded_breakers_.find(before);
  if (found == loaded_breakers_.end() || found->second.meter.probes().empty()) return;
  Ints ids;
  for (const BreakerMeter::Probe& probe : found->second.meter.probes()) ids.push_back(probe.id);
  const Rows rows = ask(breaker_sql_.of_queue, params(ids, std::int64_t{queue.id}));
  LoadedBreaker& breaker = found->second;
  const std::vector<BreakerMeter::Probe> probes = breaker.meter.probes();
  for (int i = 0; i < rows.size(); ++i) {
    for (const BreakerMeter::Probe& probe : probes) {
      if (probe.id == rows.integer(i, 0))
        breaker.meter.end(breaker.settings, probe, now_.wall, BreakerMeter::End::neither,
                          now_.wall);
    }
  }
  open_queues_of(before);
}

OperationResult PostgresStore::operator()(const PutBreaker& op) {
  LoadedBreaker* breaker = take_breaker(op.name);
  if (breaker == nullptr) {
    if (ask(breaker_sql_.count, {}).integer(0, 0) >= kMaxBreakers) return too_many_breakers();
    write(breaker_sql_.insert, params(op.name, breaker_settings_text(op.settings)));
    write(sql_.raise_version, params("queues"));
    after_.queues = true;
    after_.no_breakers.erase(op.name);
    breaker = take_breaker(op.name);
    if (breaker == nullptr) return no_breaker(op.name);
  }
  breaker->settings = op.settings;
  return Done{};
}

OperationResult PostgresStore::operator()(const RemoveBreaker& op) {
  if (take_breaker(op.name) == nullptr) return no_breaker(op.name);
  const Rows rows = ask(breaker_sql_.named_by, params(op.name));
  std::vector<std::string> queues;
  for (int i = 0; i < rows.size(); ++i) queues.push_back(rows.string(i, 0));
  if (!queues.empty()) return breaker_in_use(op.name, queues);
  write(breaker_sql_.remove, params(op.name));
  write(sql_.raise_version, params("queues"));
  after_.queues = true;
  loaded_breakers_.erase(op.name);
  after_.no_breakers.insert(op.name);
  return Done{};
}

OperationResult PostgresStore::operator()(const OpenBreaker& op) {
  LoadedBreaker* breaker = take_breaker(op.name);
  if (breaker == nullptr) return no_breaker(op.name);
  fold_breakers({op.name});
  const Duration time = op.open_for == Duration(0) ? breaker->settings.open_for : op.open_for;
  breaker->meter.set_open(breaker->settings, time, now_.wall);
  return Done{};
}

OperationResult PostgresStore::operator()(const CloseBreaker& op) {
  LoadedBreaker* breaker = take_breaker(op.name);
  if (breaker == nullptr) return no_breaker(op.name);
  fold_breakers({op.name});
  breaker->meter.set_closed(now_.wall);
  open_queues_of(op.name);
  return Done{};
}

// -- for readers ----------------------------------------------------------------------------------

Result<std::vector<BreakerInfo>> PostgresStore::breakers(WallTime now) const {
  return with_reader([&](Connection& c) {
    const Rows rows = c.run(breaker_sql_.load);
    const Rows names = c.run(breaker_sql_.names);
    std::vector<BreakerInfo> out;
    for (int i = 0; i < rows.size(); ++i) {
      BreakerInfo& info = out.emplace_back();
      info.name = rows.string(i, 0);
      info.settings = read_settings(rows, i, 1);
      BreakerMeter::parse(rows.text(i, 2)).describe(info.settings, now, info);
      for (int j = 0; j < names.size(); ++j) {
        if (names.text(j, 0) == info.name) info.queues.push_back(names.string(j, 1));
      }
    }
    return out;
  });
}

}  // namespace mainspring::pg
