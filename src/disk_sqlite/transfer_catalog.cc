// Writes the small data of a copy (queues, schedules, tokens, leases), the ledgers and the audit,
// and completes the copy.
#include <fmt/format.h>

#include "api/limit_shapes.h"
#include "disk_sqlite/transfer_target.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/store_impl.h"

namespace mainspring::sqlite {

using namespace sql;  // it copies the rows of the engine
namespace {

// Removes the keys that `before` has and the catalog lacks; removes everything if `before` is
// unknown.
template <class Difference>
void remove_gone(Database& db, const Difference& difference, bool known, const char* table,
                 const char* key) {
  if (!known) {
    db.execute(fmt::format("DELETE FROM {}", table).c_str());
    return;
  }
  Statement row(db, fmt::format("DELETE FROM {} WHERE {} = ?", table, key).c_str());
  for (const auto& gone : difference.gone) row.bind(gone).run();
}

template <class Row>
const std::vector<Row>* list_of(const TransferCatalog* catalog,
                                std::vector<Row> TransferCatalog::*list) {
  return catalog == nullptr ? nullptr : &(catalog->*list);
}

}  // namespace

Result<void> SqliteTarget::write_catalog(const TransferCatalog& is, const TransferCatalog* before,
                                         Now) {
  return guarded([&]() -> Result<void> {
    Writing writing(db_);
    write_queues(is, before);
    write_breakers(is, before);
    write_schedules(is, before);
    write_sessions(is, before);
    write_access(is, before);
    write_triggers(is, before);
    write_marks(is, before);
    write_audit_marks(is.audit);
    write_numbers(is.numbers);
    writing.commit();
    return {};
  });
}

void SqliteTarget::write_queues(const TransferCatalog& is, const TransferCatalog* before) {
  Statement queue(db_, queries::transfer::update_queues);
  Statement job_counts(db_, queries::queues::upsert_job_counts);
  Statement no_paths(db_, queries::transfer::delete_search_paths);
  // Opened as a store, the copy adds the jobs to the index.
  Statement path(db_, queries::search::insert_path);
  Statement no_meters(db_, queries::limits::drop_key_meters);
  Statement meter(db_, queries::transfer::insert_key_meters);
  const auto by_name = [](const TransferQueue& q) { return q.name; };
  const auto queues = list_of(before, &TransferCatalog::queues);
  for (const TransferQueue* q : transfer_difference(is.queues, queues, by_name).come) {
    const std::int64_t id = id_of("queues", q->name);
    queue
        .bind(q->paused ? 1 : 0, q->retention_completed, q->retention_dead,
              Statement::text_or_null(q->limits), Statement::text_or_null(q->meter), q->opens_at,
              Statement::text_or_null(q->pause), id)
        .run();
    no_paths.bind(id).run();
    if (const auto limits = parse_limits(q->limits); limits) {
      for (const std::string& name : limits->searchable) path.bind(id, name, INT64_MAX).run();
    }
    no_meters.bind(id).run();
    for (const auto& [key, text] : q->key_meters) meter.bind(id, key, text).run();
    const auto& c = q->counts;
    job_counts
        .bind(id, q->enqueued, q->pruned, q->expired, c[0], c[1], c[2], c[3], c[4], c[5], c[6],
              c[7])
        .run();
  }
}

void SqliteTarget::write_breakers(const TransferCatalog& is, const TransferCatalog* before) {
  const auto breakers =
      transfer_difference(is.breakers, list_of(before, &TransferCatalog::breakers),
                          [](const TransferBreaker& b) { return b.name; });
  remove_gone(db_, breakers, before != nullptr, "breakers", "name");
  Statement row(db_, queries::transfer::insert_breakers);
  for (const TransferBreaker* b : breakers.come)
    row.bind(b->name, b->settings, Statement::text_or_null(b->state)).run();
}

void SqliteTarget::write_marks(const TransferCatalog& is, const TransferCatalog* before) {
  const auto marks = transfer_difference(is.marks, list_of(before, &TransferCatalog::marks),
                                         [](const Mark& m) { return m.id; });
  remove_gone(db_, marks, before != nullptr, "marks", "id");
  Statement mark(db_, queries::transfer::insert_marks);
  for (const Mark* m : marks.come)
    mark.bind(m->id, m->at.us(), m->text, m->by, static_cast<std::int64_t>(m->source)).run();
  const auto views = transfer_difference(is.views, list_of(before, &TransferCatalog::views),
                                         [](const SavedView& v) { return v.name; });
  remove_gone(db_, views, before != nullptr, "saved_views", "name");
  Statement view(db_, queries::transfer::insert_saved_views);
  for (const SavedView* v : views.come)
    view.bind(v->name, v->page, v->query, v->by, v->updated_at.us()).run();
}

void SqliteTarget::write_schedules(const TransferCatalog& is, const TransferCatalog* before) {
  const auto schedules =
      transfer_difference(is.schedules, list_of(before, &TransferCatalog::schedules),
                          [](const TransferSchedule& s) { return s.name; });
  remove_gone(db_, schedules, before != nullptr, "schedules", "name");
  Statement row(db_, queries::transfer::insert_schedules);
  Statement trim(db_, queries::transfer::trim_ledger);
  for (const TransferSchedule* s : schedules.come) {
    row.bind(s->name, s->id, s->version, s->definition, Statement::text_or_null(s->paused_reason),
             Statement::text_or_null(s->skip_reason), s->paused ? 1 : 0, s->next, s->next_fire,
             s->skip_before, s->fired, s->last_job, s->remaining, s->last_fired,
             s->timeout_override, s->created_at, s->updated_at, s->next_seq)
        .run();
    trim.bind(s->id, s->next_seq - kLedgerRows).run();
  }
  if (before == nullptr || !schedules.gone.empty())
    db_.execute(queries::transfer::delete_orphaned_ticks);
  if (before == nullptr || before->removed_schedules != is.removed_schedules) {
    db_.execute(queries::transfer::delete_removed_schedules);
    Statement removed(db_, queries::schedules::insert_removed);
    for (const auto& [name, version] : is.removed_schedules) removed.bind(name, version).run();
  }
  const auto links = transfer_difference(is.links, list_of(before, &TransferCatalog::links),
                                         [](const TransferLink& t) { return t.job; });
  remove_gone(db_, links, before != nullptr, "schedule_jobs", "job");
  Statement link(db_, queries::schedules::insert_link);
  for (const TransferLink* t : links.come) link.bind(t->job, t->schedule).run();
}

// Removes sessions that the source does not have.
void SqliteTarget::write_sessions(const TransferCatalog& is, const TransferCatalog* before) {
  const auto sessions =
      transfer_difference(is.sessions, list_of(before, &TransferCatalog::sessions),
                          [](const TransferSession& s) { return s.session; });
  if (before == nullptr) db_.execute(queries::transfer::mark_all_sessions);
  Statement unknown(db_, queries::transfer::mark_session);
  for (const SessionKey& gone : sessions.gone)
    unknown.bind(id_of("queues", gone.queue), gone.key).run();
  Statement row(db_, queries::transfer::insert_sessions);
  Statement state(db_, queries::transfer::put_session_states);
  Statement no_state(db_, queries::transfer::delete_state);
  for (const TransferSession* s : sessions.come) {
    const std::int64_t queue = id_of("queues", s->session.queue);
    const std::string& key = s->session.key;
    row.bind(queue, key, s->jobs, s->head, static_cast<int>(s->stop), s->stopped_by,
             Statement::text_or_null(s->worker), s->token, s->lease,
             static_cast<std::int64_t>(s->state.size()), s->changed_at)
        .run();
    if (s->state.empty()) {
      no_state.bind(queue, key).run();
    } else {
      state.bind(queue, key, s->state).run();
    }
  }
  db_.execute(queries::transfer::delete_marked_states);
  db_.execute(queries::transfer::delete_marked_sessions);
}

void SqliteTarget::write_access(const TransferCatalog& is, const TransferCatalog* before) {
  const auto tokens = transfer_difference(is.tokens, list_of(before, &TransferCatalog::tokens),
                                          [](const TransferToken& t) { return t.name; });
  remove_gone(db_, tokens, before != nullptr, "tokens", "name");
  Statement token(db_, queries::transfer::insert_tokens);
  for (const TransferToken* t : tokens.come) {
    token
        .bind(t->name, Statement::blob(t->digest), t->scopes, t->rate, t->created_at, t->created_by,
              t->expires_at, t->revoked_at)
        .run();
  }
  const auto leases = transfer_difference(is.leases, list_of(before, &TransferCatalog::leases),
                                          [](const TransferLease& l) { return l.name; });
  remove_gone(db_, leases, before != nullptr, "named_leases", "name");
  Statement lease(db_, queries::transfer::insert_named_leases);
  for (const TransferLease* l : leases.come) {
    lease
        .bind(l->name, l->state, l->holder, l->token, l->ttl, l->since,
              Statement::text_or_null(l->value))
        .run();
  }
}

void SqliteTarget::write_triggers(const TransferCatalog& is, const TransferCatalog* before) {
  const auto triggers =
      transfer_difference(is.triggers, list_of(before, &TransferCatalog::triggers),
                          [](const TransferTrigger& t) { return t.name; });
  remove_gone(db_, triggers, before != nullptr, "triggers", "name");
  Statement trigger(db_, queries::transfer::insert_triggers);
  for (const TransferTrigger* t : triggers.come)
    trigger.bind(t->name, t->definition, t->state, Statement::text_or_null(t->secret)).run();
  const auto events =
      transfer_difference(is.trigger_events, list_of(before, &TransferCatalog::trigger_events),
                          [](const TransferTriggerEvent& e) { return e.place; });
  if (before == nullptr) db_.execute(queries::transfer::delete_all_events);
  Statement gone(db_, queries::transfer::delete_event);
  for (const auto& [name, seq] : events.gone) gone.bind(name, seq).run();
  Statement event(db_, queries::triggers::add_event);
  for (const TransferTriggerEvent* e : events.come) {
    event
        .bind(e->place.first, e->place.second, Statement::text_or_null(e->event), e->fired_at,
              e->made_at, e->job, Statement::text_or_null(e->reason))
        .run();
  }
}

void SqliteTarget::write_audit_marks(const AuditState& audit) {
  Statement mark(db_, queries::transfer::update_audit_marks);
  mark.bind(1, audit.head.seq, Statement::blob(bytes_of(audit.head.hash))).run();
  mark.bind(0, audit.base.seq, Statement::blob(bytes_of(audit.base.hash))).run();
  Statement gone(db_, queries::access::prune_audit);
  gone.bind(audit.base.seq).run();
}

void SqliteTarget::write_numbers(const TransferNumbers& numbers) {
  Statement next(db_, queries::transfer::update_job_counts);
  next.bind(numbers.next_id, numbers.next_token, numbers.next_workflow).run();
  Statement schedule(db_, queries::transfer::raise_last_schedule);
  schedule.bind(numbers.last_schedule).run();
  if (sqlite3_changes(db_.handle()) > 0 || numbers.last_schedule == 0) return;
  Statement first(db_, queries::transfer::insert_last_schedule);
  first.bind(numbers.last_schedule).run();
}

// -- appended rows
// -----------------------------------------------------------------------------------------

Result<std::map<std::int64_t, std::int64_t>> SqliteTarget::ledgers() {
  return guarded([&]() -> Result<std::map<std::int64_t, std::int64_t>> {
    std::map<std::int64_t, std::int64_t> out;
    Statement row(db_, queries::transfer::last_ticks);
    while (row.step()) out.emplace(row.integer(0), row.integer(1));
    return out;
  });
}

Result<void> SqliteTarget::append_ledger(std::span<const TransferTick> rows) {
  return guarded([&]() -> Result<void> {
    Writing writing(db_);
    Statement row(db_, queries::schedules::insert_tick);
    for (const TransferTick& t : rows) {
      row.bind(t.schedule, t.seq, t.version, t.nominal, t.until, t.count, t.source, t.state,
               t.past_due ? 1 : 0, t.job, Statement::text_or_null(t.reason),
               Statement::text_or_null(t.note), t.decided_at)
          .run();
    }
    writing.commit();
    return {};
  });
}

Result<std::int64_t> SqliteTarget::last_audit() {
  return guarded([&]() -> Result<std::int64_t> { return db_.query_int(queries::access::newest); });
}

Result<void> SqliteTarget::append_audit(std::span<const AuditRecord> rows) {
  return guarded([&]() -> Result<void> {
    Writing writing(db_);
    Statement row(db_, queries::access::insert_audit);
    for (const AuditRecord& r : rows) {
      row.bind(r.seq, r.at.us(), r.who, r.from, r.action, r.object,
               Statement::text_or_null(r.before), Statement::text_or_null(r.after),
               Statement::blob(bytes_of(r.hash)))
          .run();
    }
    writing.commit();
    return {};
  });
}

// -- completing the copy
// -----------------------------------------------------------------------------------------

Result<void> SqliteTarget::seal(const TransferNumbers& numbers) {
  return guarded([&]() -> Result<void> {
    db_.execute("PRAGMA synchronous = FULL");  // this commit syncs the log with all earlier commits
    Writing writing(db_);
    write_numbers(numbers);
    writing.commit();
    db_.execute("PRAGMA synchronous = NORMAL");
    return {};
  });
}

Result<void> SqliteTarget::complete(WallTime now) {
  return guarded([&]() -> Result<void> {
    const auto from = read_move(db_, "copying");
    if (!from) return {};
    db_.execute("PRAGMA synchronous = FULL");
    Writing writing(db_);
    db_.execute("DROP TABLE IF EXISTS copied_blocks");
    write_move(db_, "copied", *from, now);
    db_.execute(queries::transfer::end_copying);
    writing.commit();
    db_.execute("PRAGMA wal_checkpoint(TRUNCATE)");
    return {};
  });
}

}  // namespace mainspring::sqlite
