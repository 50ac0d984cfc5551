// The comparisons, as text.
#include "conformance/compare.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/breaker_shapes.h"

#include "conformance/describe.h"

namespace mainspring {
namespace {

constexpr int kAll = 1'000'000;

std::vector<std::string> ledger_of(const Store& store, const std::string& name) {
  std::vector<std::string> lines;
  std::int64_t before = 0;
  constexpr int kMaxPages = 10'000;
  for (int page = 0; page < kMaxPages; ++page) {
    const auto got = store.ledger(name, 50, before);
    if (!got) return {"ledger: " + got.error().message};
    for (const LedgerRow& row : got->rows) lines.push_back(describe(row));
    if (!got->next) break;
    before = *got->next;
  }
  return lines;
}

std::string schedules_differ(const Store& model, const Store& real) {
  const auto mine = model.schedules("", kAll);
  const auto theirs = real.schedules("", kAll);
  if (!theirs) return "schedules: " + theirs.error().message;
  if (mine->size() != theirs->size()) return "another number of schedules";
  for (std::size_t i = 0; i < mine->size(); ++i) {
    const std::string a = describe((*mine)[i]);
    const std::string b = describe((*theirs)[i]);
    if (a != b) return fmt::format("schedules:\n  model: {}\n  store: {}", a, b);
    const std::string& name = (*mine)[i].schedule.name;
    const std::vector<std::string> rows = ledger_of(model, name);
    const std::vector<std::string> real_rows = ledger_of(real, name);
    for (std::size_t row = 0; row < std::max(rows.size(), real_rows.size()); ++row) {
      const std::string x = row < rows.size() ? rows[row] : "nothing";
      const std::string y = row < real_rows.size() ? real_rows[row] : "nothing";
      if (x != y) return fmt::format("ledger of {}:\n  model: {}\n  store: {}", name, x, y);
    }
  }
  const auto due = model.due_schedules(WallTime::never(), kAll);
  const auto real_due = real.due_schedules(WallTime::never(), kAll);
  if (due->size() != real_due->size()) return "another number of due schedules";
  for (std::size_t i = 0; i < due->size(); ++i) {
    if ((*due)[i].schedule.name != (*real_due)[i].schedule.name)
      return "the order of due schedules";
  }
  return "";
}

std::string access_differs(const Store& model, const Store& real) {
  const auto mine = model.tokens();
  const auto theirs = real.tokens();
  if (mine->size() != theirs->size()) return "another number of tokens";
  for (const auto& [name, token] : *mine) {
    const auto other = theirs->find(name);
    const std::string b = other == theirs->end() ? "nothing" : describe(other->second);
    if (const std::string a = describe(token); a != b)
      return fmt::format("tokens:\n  model: {}\n  store: {}", a, b);
  }
  const auto records = model.audit({}, AuditOrder::oldest_first, kAll, 0);
  const auto real_records = real.audit({}, AuditOrder::oldest_first, kAll, 0);
  if (!real_records) return "audit: " + real_records.error().message;
  for (std::size_t i = 0; i < records->records.size(); ++i) {
    const auto& theirs_too = real_records->records;
    const std::string y = i < theirs_too.size() ? describe(theirs_too[i]) : "nothing";
    if (const std::string x = describe(records->records[i]); x != y)
      return fmt::format("audit:\n  model: {}\n  store: {}", x, y);
  }
  const AuditState a = model.audit_state();
  const AuditState b = real.audit_state();
  if (a.base != b.base || a.head != b.head || a.records != b.records)
    return fmt::format("audit: model {} to {}, {}; store {} to {}, {}", a.base.seq, a.head.seq,
                       a.records, b.base.seq, b.head.seq, b.records);
  return "";
}

}  // namespace

std::string leases_differ(const Store& model, const Store& real) {
  const auto mine = model.leases("", kAll, Instant());
  const auto theirs = real.leases("", kAll, Instant());
  if (!theirs) return "leases: " + theirs.error().message;
  if (mine->size() != theirs->size()) return "another number of leases";
  for (std::size_t i = 0; i < mine->size(); ++i) {
    const std::string a = describe((*mine)[i]);
    const std::string b = describe((*theirs)[i]);
    if (a != b) return fmt::format("leases:\n  model: {}\n  store: {}", a, b);
    if (model.lease_free_at((*mine)[i].name) != real.lease_free_at((*mine)[i].name))
      return "lease_free_at of " + (*mine)[i].name;
  }
  return "";
}

// Expired jobs count as available until they are cancelled. A store may already know that they are
// expired, after a claim that found nothing.
namespace {

// Its limit_key is full or closed.
bool waits_for_key(const Store& model, const std::vector<QueueStats>& queues, const Job& job) {
  const auto queue = std::find_if(queues.begin(), queues.end(),
                                  [&](const QueueStats& q) { return q.name == job.queue; });
  if (job.limit_key.empty() || queue == queues.end()) return false;
  const auto most = queue->limits.per_key.concurrency;
  const LimitKeyInfo key = model.limit_key(job.queue, job.limit_key).value();
  return key.opens_at || (most && key.slots_taken >= *most);
}

}  // namespace

bool only_expiring(const Store& model, const std::string& line) {
  const std::string queue(base_queue_of(line));
  const auto session = parse_session_queue(line);
  const JobState state = session ? JobState::waiting : JobState::available;
  const auto info = session ? model.session(*session, Instant()) : SessionInfo{};
  const auto jobs = model.list({.queue = queue, .state = state}, kAll, 0);
  const auto queues = model.queues();
  return std::all_of(jobs->jobs.begin(), jobs->jobs.end(), [&](const Job& job) {
    const bool of_line =
        session ? info && job.id == info->head : line == queue || !job.session.empty();
    return !of_line || waits_for_key(model, *queues, job) ||
           (job.expires_at.has_value() && !job.started_at.has_value());
  });
}

namespace {

std::vector<std::string> sessions_of(const Store& store, const std::string& queue, int limit) {
  std::vector<std::string> lines;
  SessionKey after;
  for (int page = 0; page < kAll; ++page) {
    const auto got = store.sessions(queue, after, limit, Instant());
    if (!got) return {"sessions: " + got.error().message};
    for (const SessionInfo& info : got->sessions) lines.push_back(describe(info));
    if (!got->next) break;
    after = *got->next;
  }
  return lines;
}

std::string line_differs(const Store& model, const Store& real, const std::string& line) {
  const bool misses = model.has_available(line) && !real.has_available(line);
  const auto queues = model.queues();
  const bool heavy = std::any_of(queues->begin(), queues->end(), [&](const QueueStats& q) {
    return q.name == base_queue_of(line) && !q.limits.costs.empty();  // see differs()
  });
  return misses && !heavy && !only_expiring(model, line) ? "has_available of " + line : "";
}

}  // namespace

std::string sessions_differ(const Store& model, const Store& real) {
  const auto mine = model.sessions("", {}, kAll, Instant());
  const std::vector<std::string> rows = sessions_of(model, "", kAll);
  const std::vector<std::string> real_rows = sessions_of(real, "", 3);
  for (std::size_t i = 0; i < std::max(rows.size(), real_rows.size()); ++i) {
    const std::string x = i < rows.size() ? rows[i] : "nothing";
    const std::string y = i < real_rows.size() ? real_rows[i] : "nothing";
    if (x != y) return fmt::format("sessions:\n  model: {}\n  store: {}", x, y);
  }
  for (const SessionInfo& info : mine->sessions) {
    const auto a = model.session(info.session, Instant());
    const auto b = real.session(info.session, Instant());
    if (!b) return "session: " + b.error().message;
    if (describe(*a) != describe(*b))
      return fmt::format("session:\n  model: {}\n  store: {}", describe(*a), describe(*b));
    for (const std::string& line :
         {session_queue(info.session), accept_queue(info.session.queue)}) {
      if (std::string why = line_differs(model, real, line); !why.empty()) return why;
    }
    const std::string& queue = info.session.queue;
    if (sessions_of(model, queue, kAll) != sessions_of(real, queue, 2))
      return "sessions of queue " + queue;
  }
  return "";
}

namespace {

std::vector<std::string> lines_of_workflow(const Store& store, WorkflowId id) {
  const auto info = store.workflow(id);
  if (!info) return {"workflow: " + info.error().message};
  std::vector<std::string> lines{describe(OperationResult(*info))};
  int after = 0;
  for (int page = 0; page < kAll; ++page) {
    const auto got = store.workflow_steps(id, after, 4);
    if (!got) return {"workflow_steps: " + got.error().message};
    for (const WorkflowStep& step : got->steps) {
      lines.push_back(fmt::format("  step {} {} {} job={} undo={} workflow={} taken={} {}",
                                  step.number, step.name, to_string(step.state), step.job,
                                  step.undo_job, step.workflow, step.taken_over, step.result));
      if (step.complete_by) lines.back() += fmt::format(" by={}", step.complete_by->us());
      if (!step.job_state) continue;
      lines.back() += fmt::format(" {} {}/{} {}", to_string(*step.job_state), step.attempt,
                                  step.max_attempts, step.worker);
    }
    if (!got->next) break;
    after = *got->next;
  }
  return lines;
}

}  // namespace

std::string workflows_differ(const Store& model, const Store& real) {
  const auto mine = model.workflows({}, kAll, 0);
  const auto theirs = real.workflows({}, kAll, 0);
  if (!theirs) return "workflows: " + theirs.error().message;
  if (mine->workflows.size() != theirs->workflows.size()) return "another number of workflows";
  for (std::size_t i = 0; i < mine->workflows.size(); ++i) {
    const WorkflowId id = mine->workflows[i].id;
    if (id != theirs->workflows[i].id) return "other workflows";
    const std::vector<std::string> a = lines_of_workflow(model, id);
    const std::vector<std::string> b = lines_of_workflow(real, id);
    if (a != b)
      return fmt::format("workflow {}:\n  model: {}\n  store: {}", id, fmt::join(a, "\n"),
                         fmt::join(b, "\n"));
  }
  return "";
}

namespace {

std::vector<std::string> lines_of_triggers(const Store& store) {
  std::vector<std::string> lines;
  const auto all = store.triggers("", kAll);
  if (!all) return {"triggers: " + all.error().message};
  for (const TriggerInfo& info : *all) {
    lines.push_back(fmt::format("{} v{} paused={} fired={} refused={} last={} {}",
                                info.trigger.name, info.version, info.paused, info.fired,
                                info.refused, info.last_job, info.last_event));
    const auto page = store.trigger_events(info.trigger.name, kAll, 0);
    if (!page) return {"ledger: " + page.error().message};
    for (const TriggerEvent& row : page->rows)
      lines.push_back(fmt::format("  {} {} {} {}", row.seq, row.event, row.job, row.reason));
  }
  return lines;
}

std::vector<std::string> lines_of_breakers(const Store& store, WallTime now) {
  std::vector<std::string> lines;
  const auto all = store.breakers(now);
  if (!all) return {"breakers: " + all.error().message};
  for (const BreakerInfo& info : *all) {
    lines.push_back(fmt::format("{} {} {} until={} failures={} room={} probes={} opened={} of {}",
                                info.name, breaker_settings_text(info.settings),
                                to_string(info.state), info.open_until.value_or(WallTime()).us(),
                                info.failures, info.room, info.probes, info.opened,
                                fmt::join(info.queues, ",")));
  }
  return lines;
}

}  // namespace

std::string breakers_differ(const Store& model, const Store& real, WallTime now) {
  const std::vector<std::string> a = lines_of_breakers(model, now),
                                 b = lines_of_breakers(real, now);
  if (a == b) return "";
  return fmt::format("breakers:\n  model: {}\n  store: {}", fmt::join(a, "\n"), fmt::join(b, "\n"));
}

std::string triggers_differ(const Store& model, const Store& real) {
  const std::vector<std::string> a = lines_of_triggers(model), b = lines_of_triggers(real);
  if (a == b) return "";
  return fmt::format("triggers:\n  model: {}\n  store: {}", fmt::join(a, "\n"), fmt::join(b, "\n"));
}

std::string differs(const Store& model, const Store& real) {
  if (std::string why = leases_differ(model, real); !why.empty()) return why;
  if (std::string why = schedules_differ(model, real); !why.empty()) return why;
  if (std::string why = access_differs(model, real); !why.empty()) return why;
  if (std::string why = sessions_differ(model, real); !why.empty()) return why;
  if (std::string why = workflows_differ(model, real); !why.empty()) return why;
  if (std::string why = triggers_differ(model, real); !why.empty()) return why;
  if (std::string why = breakers_differ(model, real, WallTime()); !why.empty()) return why;
  const auto mine = model.queues();
  const auto theirs = real.queues();
  if (!theirs) return "queues: " + theirs.error().message;
  if (mine->size() != theirs->size()) return "another number of queues";
  for (std::size_t i = 0; i < mine->size(); ++i) {
    const std::string a = describe((*mine)[i]);
    const std::string b = describe((*theirs)[i]);
    if (a != b) return fmt::format("queues:\n  model: {}\n  store: {}", a, b);
    const std::string& name = (*mine)[i].name;
    const bool has = real.has_available(name);
    const KeyLimits& limits = (*mine)[i].limits.per_key;  // a key may be open but not yet announced
    const bool heavy = !(*mine)[i].limits.costs.empty();  // whether the next job fits is unknown
    const bool excused = heavy || (has ? limits.any() : limits.rate || only_expiring(model, name));
    if (model.has_available(name) != has && !excused) return "has_available of " + name;
  }
  const auto all = model.list({}, kAll, 0);
  for (const Job& j : all->jobs) {
    const auto a = model.get(j.id);
    const auto b = real.get(j.id);
    if (!b) return fmt::format("get {}: {}", j.id, b.error().message);
    if (describe(*a) != describe(*b))
      return fmt::format("get:\n  model: {}\n  store: {}", describe(*a), describe(*b));
    const auto memos = model.memos(j.id, "", kAll);
    const auto real_memos = real.memos(j.id, "", kAll);
    if (!real_memos) return fmt::format("memos of {}: {}", j.id, real_memos.error().message);
    if (memos->memos != real_memos->memos || memos->next != real_memos->next)
      return fmt::format("memos of {}", j.id);
  }
  return "";
}

std::string agenda_differs(const Agenda& model, const Agenda& real) {
  if (model.next_due != real.next_due)
    return fmt::format("agenda.next_due: model {}, store {}", model.next_due.us(),
                       real.next_due.us());
  if (model.next_lease_expiry != real.next_lease_expiry)
    return fmt::format("agenda.next_lease_expiry: model {}, store {}", model.next_lease_expiry.us(),
                       real.next_lease_expiry.us());
  if (model.next_schedule != real.next_schedule)
    return fmt::format("agenda.next_schedule: model {}, store {}", model.next_schedule.us(),
                       real.next_schedule.us());
  if (model.next_opening != real.next_opening)
    return fmt::format("agenda.next_opening: model {}, store {}", model.next_opening.us(),
                       real.next_opening.us());
  if (model.next_expiry < real.next_expiry) return "agenda.next_expiry is too late";
  if (model.next_prune < real.next_prune) return "agenda.next_prune is too late";
  return "";
}

namespace {

// A store may prune the rows of a workflow in several steps; the model prunes them at once.
bool is_going(const Operation& operation, const OperationResult& model,
              const OperationResult& real) {
  const auto* mine = std::get_if<Error>(&model);
  const auto* theirs = std::get_if<Error>(&real);
  return std::holds_alternative<ForkWorkflow>(operation) && mine != nullptr && theirs != nullptr &&
         mine->code == ErrorCode::not_found && theirs->code == ErrorCode::expired;
}

}  // namespace

std::string answers_differ(const std::vector<Operation>& batch,
                           const std::vector<OperationResult>& model,
                           const std::vector<OperationResult>& real) {
  if (model.size() != real.size()) return "another number of answers";
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::string a = describe(model[i]);
    const std::string b = describe(real[i]);
    if (a != b && !is_going(batch[i], model[i], real[i]))
      return fmt::format("{}\n  model: {}\n  store: {}", describe(batch[i]), a, b);
  }
  return "";
}

}  // namespace mainspring
