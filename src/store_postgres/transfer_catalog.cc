// Writes the small data of a copy (queues, schedules, tokens, leases), the ledgers and the audit,
// and completes the copy.
#include <fmt/format.h>

#include <set>

#include "api/limit_shapes.h"
#include "api/schedule_shapes.h"
#include "base/mutant.h"
#include "model/slots.h"
#include "store_postgres/transfer_statements.h"
#include "trigger/rules.h"

namespace mainspring::pg {
namespace {

template <class Row>
const std::vector<Row>* list_of(const TransferCatalog* catalog,
                                std::vector<Row> TransferCatalog::*list) {
  return catalog == nullptr ? nullptr : &(catalog->*list);
}

// The queue for which a schedule makes jobs: a separate column in this store.
std::string queue_of_schedule(const TransferSchedule& schedule) {
  const auto definition = decode_schedule(schedule.definition);
  if (definition) return definition->job.queue;
  throw Error{.code = ErrorCode::io_error,
              .message = fmt::format("schedule {} of the source is damaged: {}", schedule.name,
                                     definition.error().message)};
}

}  // namespace

Result<void> PostgresTarget::write_catalog(const TransferCatalog& is, const TransferCatalog* before,
                                           Now now) {
  const auto queues = queues_;
  auto done = writing([&] {
    write_queues(is, before, now);
    write_breakers(is, before);
    write_schedules(is, before);
    write_links(is, before);
    write_access(is, before, now);
    write_triggers(is, before);
    write_marks(is, before);
    write_sessions(is, before, now);
    write_numbers(is.numbers);
  });
  if (!done) queues_ = queues;
  return done;
}

// The opening time of its keys follows from the meters. A meter is stored as if just written.
void PostgresTarget::write_key_meters(std::int64_t queue, const TransferQueue& q, WallTime now) {
  tell(sql_->no_key_meters, params(queue));
  if (q.key_meters.empty()) return;
  const auto limits = parse_limits(q.limits);
  if (!limits || !limits->per_key.rate) return;
  Texts keys, texts;
  OptInts opens_at;
  Ints forgotten_at;
  for (const auto& [key, text] : q.key_meters) {
    const RateMeter meter = RateMeter::parse(text);
    const auto next = next_key_opening(*limits, meter, now);
    keys.emplace_back(key), texts.emplace_back(text);
    opens_at.push_back(next ? std::optional(next->at.us()) : std::nullopt);
    forgotten_at.push_back((meter.as_new_at(*limits->per_key.rate) + kKeyMeterKept).us());
  }
  tell(sql_->key_meters, params(queue, keys, texts, opens_at, forgotten_at));
}

void PostgresTarget::write_queues(const TransferCatalog& is, const TransferCatalog* before,
                                  Now now) {
  if (before != nullptr && before->queues == is.queues) return;
  tell(sql_->no_job_counts, {});
  const std::string none;
  for (const TransferQueue& q : is.queues) {
    const std::int64_t id = id_of(sql_->queue_of, queues_, q.name);
    const auto limits = parse_limits(q.limits);
    const bool heeded = limits && limits->any();  // claims must check the limits
    tell(sql_->queue,
         params(id, q.paused, q.retention_completed, q.retention_dead,
                text_or_null(heeded ? q.limits : none), text_or_null(q.meter), q.opens_at,
                text_or_null(heeded ? none : q.limits), text_or_null(q.pause)));
    tell(sql_->no_paths, params(id));
    if (limits && !limits->searchable.empty()) tell(sql_->paths, params(id, limits->searchable));
    Params p = params(id, q.enqueued, q.pruned, q.expired);
    for (const std::int64_t n : q.counts) p.add(n);
    tell(sql_->job_counts, p);
    write_key_meters(id, q, now.wall);
  }
}

void PostgresTarget::write_breakers(const TransferCatalog& is, const TransferCatalog* before) {
  const auto breakers =
      transfer_difference(is.breakers, list_of(before, &TransferCatalog::breakers),
                          [](const TransferBreaker& b) { return b.name; });
  if (before == nullptr) tell(sql_->no_breakers, {});
  for (const std::string& name : breakers.gone) tell(sql_->no_breaker, params(name));
  for (const TransferBreaker* b : breakers.come) {
    Params p = params(b->name, b->settings);
    tell(sql_->breaker, p.text_or_null(b->state));
  }
}

void PostgresTarget::write_schedules(const TransferCatalog& is, const TransferCatalog* before) {
  const auto schedules =
      transfer_difference(is.schedules, list_of(before, &TransferCatalog::schedules),
                          [](const TransferSchedule& s) { return s.name; });
  if (before == nullptr) tell(sql_->no_schedules, {});
  for (const std::string& name : schedules.gone) tell(sql_->no_schedule, params(name));
  for (const TransferSchedule* s : schedules.come) {
    Params p = params(s->name, s->id, s->version, s->definition, queue_of_schedule(*s));
    p.text_or_null(s->paused_reason).text_or_null(s->skip_reason).add(s->paused);
    p.add(s->next).add(s->next_fire).add(s->skip_before).add(s->fired).add(s->last_job);
    p.add(s->remaining).add(s->last_fired).add(s->timeout_override);
    p.add(s->created_at).add(s->updated_at).add(s->next_seq);
    tell(sql_->schedule, p);
    tell(sql_->trim, params(s->id, s->next_seq - kLedgerRows));
  }
  if (before == nullptr || !schedules.gone.empty()) tell(sql_->no_ledgers, {});
  if (before != nullptr && before->removed_schedules == is.removed_schedules) return;
  tell(sql_->no_removed, {});
  for (const auto& [name, version] : is.removed_schedules)
    tell(sql_->removed, params(name, version));
}

void PostgresTarget::write_links(const TransferCatalog& is, const TransferCatalog* before) {
  const auto links = transfer_difference(is.links, list_of(before, &TransferCatalog::links),
                                         [](const TransferLink& t) { return t.job; });
  if (before == nullptr) tell(sql_->no_links, {});
  if (!links.gone.empty()) tell(sql_->gone_links, params(links.gone));
  Ints job, schedule, waits;
  for (const TransferLink* t : links.come) {
    job.push_back(t->job), schedule.push_back(t->schedule), waits.push_back(t->waits ? 1 : 0);
  }
  if (!job.empty()) tell(sql_->links, params(job, schedule, waits));
}

void PostgresTarget::write_access(const TransferCatalog& is, const TransferCatalog* before,
                                  Now now) {
  const auto tokens = transfer_difference(is.tokens, list_of(before, &TransferCatalog::tokens),
                                          [](const TransferToken& t) { return t.name; });
  if (before == nullptr) tell(sql_->no_tokens, {});
  for (const std::string& name : tokens.gone) tell(sql_->no_token, params(name));
  for (const TransferToken* t : tokens.come) {
    Params p = params(t->name);
    p.bytes(t->digest).add(t->scopes).add(t->rate).add(t->created_at).add(t->created_by);
    p.add(t->expires_at).add(t->revoked_at);
    tell(sql_->token, p);
  }
  const auto leases = transfer_difference(is.leases, list_of(before, &TransferCatalog::leases),
                                          [](const TransferLease& l) { return l.name; });
  if (before == nullptr) tell(sql_->no_leases, {});
  for (const std::string& name : leases.gone) tell(sql_->no_lease, params(name));
  for (const TransferLease* l : leases.come) {
    // Held: until it expires; released without a value: until it is dropped; else forever.
    const bool ends = l->state == 0 || (l->state == 1 && l->value.empty());
    Params p = params(l->name, l->state, l->token, l->ttl,
                      ends ? lease_time(now) + l->ttl : INT64_MAX, l->since, l->holder);
    tell(sql_->lease, p.text_or_null(l->value));
  }
  for (const auto& [id, mark] : {std::pair(1, is.audit.head), std::pair(0, is.audit.base)}) {
    Params p = params(id, mark.seq);
    tell(sql_->mark, p.bytes(bytes_of(mark.hash)));
  }
  tell(sql_->prune_audit, params(is.audit.base.seq));
}

// Also written with their jobs. Sessions that the source does not have are removed. A changed
// session keeps its row: waiting jobs and ready entries refer to its id, and those jobs may be
// unchanged.
void PostgresTarget::write_sessions(const TransferCatalog& is, const TransferCatalog* before,
                                    Now now) {
  const auto sessions =
      transfer_difference(is.sessions, list_of(before, &TransferCatalog::sessions),
                          [](const TransferSession& s) { return s.session; });
  if (before == nullptr) tell(sql_->unknown_sessions, {});
  std::set<SessionKey> come;
  for (const TransferSession* s : sessions.come) come.insert(s->session);
  for (const SessionKey& gone : sessions.gone) {
    if (come.contains(gone) && !MS_MUTANT(copy_renumbers_sessions)) continue;
    tell(sql_->no_session, params(id_of(sql_->queue_of, queues_, gone.queue), gone.key));
  }
  for (const TransferSession* s : sessions.come) {
    const std::int64_t ends = s->token == 0 ? 0 : lease_time(now) + s->lease;
    const bool lives = s->jobs != 0 || s->token != 0 || s->stop != SessionStop::none;
    const std::int64_t prune_at = lives ? 0 : s->changed_at + options_.store.retention_dead.count();
    Params p = params(id_of(sql_->queue_of, queues_, s->session.queue), s->session.key, s->head,
                      s->jobs, static_cast<std::int64_t>(s->stop), s->stopped_by, s->token,
                      s->lease, ends, prune_at, s->changed_at, std::ssize(s->state));
    tell(sql_->session, p.text_or_null(s->worker).text_or_null(s->state));
  }
  if (before == nullptr) tell(sql_->no_unknown_sessions, {});
  if (before != nullptr && is.sessions.empty() && sessions.gone.empty()) return;
  tell(sql_->heads, {});
  tell(sql_->lost_places, {});
}

void PostgresTarget::write_triggers(const TransferCatalog& is, const TransferCatalog* before) {
  const auto triggers =
      transfer_difference(is.triggers, list_of(before, &TransferCatalog::triggers),
                          [](const TransferTrigger& t) { return t.name; });
  if (before == nullptr) tell(sql_->no_triggers, {});
  for (const std::string& name : triggers.gone) tell(sql_->no_trigger, params(name));
  for (const TransferTrigger* t : triggers.come) {
    Params p = params(t->name, t->definition, t->state);
    p.text_or_null(t->secret);
    const auto watch = watch_of({.name = t->name, .definition = t->definition});
    p.add(watch ? std::optional<std::int64_t>(watch->source.on) : std::nullopt);
    tell(sql_->trigger, p.text_or_null(watch ? watch->source.queue : ""));
  }
  const auto events =
      transfer_difference(is.trigger_events, list_of(before, &TransferCatalog::trigger_events),
                          [](const TransferTriggerEvent& e) { return e.place; });
  if (before == nullptr) tell(sql_->no_trigger_events, {});
  for (const auto& [name, seq] : events.gone) tell(sql_->no_trigger_event, params(name, seq));
  for (const TransferTriggerEvent* e : events.come) {
    Params p = params(e->place.first, e->place.second);
    p.text_or_null(e->event).add(e->fired_at).add(e->made_at).add(e->job);
    p.text_or_null(e->reason);
    tell(sql_->trigger_event, p);
  }
}

void PostgresTarget::write_marks(const TransferCatalog& is, const TransferCatalog* before) {
  const auto marks = transfer_difference(is.marks, list_of(before, &TransferCatalog::marks),
                                         [](const Mark& m) { return m.id; });
  if (before == nullptr) tell(sql_->no_chart_marks, {});
  for (const std::int64_t id : marks.gone) tell(sql_->no_chart_mark, params(id));
  for (const Mark* m : marks.come) {
    tell(sql_->chart_mark,
         params(m->id, m->at.us(), m->text, m->by, static_cast<std::int64_t>(m->source)));
  }
  tell(sql_->chart_mark_number, {});
  const auto views = transfer_difference(is.views, list_of(before, &TransferCatalog::views),
                                         [](const SavedView& v) { return v.name; });
  if (before == nullptr) tell(sql_->no_views, {});
  for (const std::string& name : views.gone) tell(sql_->no_view, params(name));
  for (const SavedView* v : views.come)
    tell(sql_->view, params(v->name, v->page, v->query, v->by, v->updated_at.us()));
}

void PostgresTarget::write_numbers(const TransferNumbers& numbers) {
  tell(sql_->numbers, params(numbers.next_id, numbers.next_token));
  if (numbers.last_schedule > 0) tell(sql_->schedule_number, params(numbers.last_schedule));
  tell(sql_->row_number, params(last_finished_));
  tell(sql_->workflow_number, params(numbers.next_workflow));
}

// -- appended rows --------------------------------------------------------------------------------

Result<std::map<std::int64_t, std::int64_t>> PostgresTarget::ledgers() {
  return guarded([&]() -> Result<std::map<std::int64_t, std::int64_t>> {
    const Rows rows = connection_.run(sql_->ledgers);
    std::map<std::int64_t, std::int64_t> out;
    for (int i = 0; i < rows.size(); ++i) out.emplace(rows.integer(i, 0), rows.integer(i, 1));
    return out;
  });
}

Result<void> PostgresTarget::append_ledger(std::span<const TransferTick> rows) {
  return writing([&] {
    for (const TransferTick& t : rows) {
      Params p = params(t.schedule, t.seq, t.version, t.nominal, t.until, t.count, t.source,
                        t.state, t.past_due, t.job);
      tell(sql_->tick, p.text_or_null(t.reason).text_or_null(t.note).add(t.decided_at));
    }
  });
}

Result<std::int64_t> PostgresTarget::last_audit() {
  return guarded(
      [&]() -> Result<std::int64_t> { return connection_.run(sql_->last_audit).integer(0, 0); });
}

Result<void> PostgresTarget::append_audit(std::span<const AuditRecord> rows) {
  return writing([&] {
    for (const AuditRecord& r : rows) {
      Params p = params(r.seq, r.at.us(), r.who, r.from, r.action, r.object);
      tell(sql_->audit, p.text_or_null(r.before).text_or_null(r.after).bytes(bytes_of(r.hash)));
    }
  });
}

// -- completing the copy --------------------------------------------------------------------------

Result<void> PostgresTarget::seal(const TransferNumbers& numbers) {
  return writing([&] {
    tell(sql_->durable, {});
    write_numbers(numbers);
    tell(sql_->running_keys, {});  // of jobs that arrived after the last verify()
  });
}

Result<void> PostgresTarget::complete(WallTime now) {
  if (auto from = guarded([&]() -> Result<std::optional<TransferPlace>> {
        return read_move(connection_, schema_, "copying");
      });
      !from || !*from) {
    return from ? Result<void>() : Result<void>(std::move(from.error()));
  }
  return writing([&] {
    tell(sql_->durable, {});
    tell(sql_->drop_notes, {});
    tell(sql_->copied_mark, params(now.us()));
    tell(sql_->no_copying, {});
  });
}

}  // namespace mainspring::pg
