// The order in which batches lock jobs and dependent rows. It prevents deadlocks between nodes.
//
//   new kinds ▶ sessions, by queue and key ▶ named leases ▶ packs of jobs that operations name ▶
//   those jobs, by id, with jobs that may become heads ▶ workflows, by id ▶ schedules ▶ links ▶
//   triggers on ends, by name
// - The lock of a session covers its waiting jobs: only its owner may change them.
// - The lock of a job covers the job's entries (ready, due, expiring): no other transaction changes
//   them, and none locks them.
// - Code that goes from an entry to its job (claims, scheduler steps) does not wait: it skips jobs
//   that another transaction has locked, and finds them again later.
// - Code that names jobs which may be in packs locks the packs first, and no claim takes the packs
//   meanwhile. A claim that has a pack changes the untouched jobs in it without checking locks.
//
// A job that others made after the batch locked the jobs it names would be locked out of order:
// then the batch starts again. (A new queue cannot come first, because a refused enqueue makes
// none. So two nodes that make the same queue in batches that also change the same jobs may
// deadlock once.)
#include <algorithm>
#include <set>

#include "base/mutant.h"
#include "store_postgres/store_impl.h"

namespace mainspring::pg {

namespace {

std::vector<JobId> jobs_named(const Operation& operation) {
  std::vector<JobId> ids;
  if (const auto* cancel = std::get_if<Cancel>(&operation)) {
    ids.push_back(cancel->id);
  } else if (const auto* retry = std::get_if<RetryJob>(&operation)) {
    ids.push_back(retry->id);
  } else if (const auto* edit = std::get_if<EditJob>(&operation)) {
    ids.push_back(edit->id);
  } else if (const auto* gone = std::get_if<DeleteJob>(&operation)) {
    ids.push_back(gone->id);
  } else if (const auto* finish = std::get_if<Finish>(&operation)) {
    for (const JobOutcome& result : finish->results) ids.push_back(result.id);
  } else if (const auto* renew = std::get_if<Renew>(&operation)) {
    for (const Renewal& lease : renew->leases) ids.push_back(lease.id);
  } else if (const auto* claim = std::get_if<Claim>(&operation)) {
    if (claim->job != 0) ids.push_back(claim->job);
  }
  return ids;
}

// Jobs that an operation names, except those named by a lease holder: these have changed since they
// were enqueued, so they are in no pack.
bool may_stand_in_line(const Operation& operation) {
  return std::holds_alternative<Cancel>(operation) || std::holds_alternative<RetryJob>(operation) ||
         std::holds_alternative<EditJob>(operation) || std::holds_alternative<Claim>(operation);
}

// Workflows are locked after all jobs.
bool names_workflow(const Operation& operation) {
  return std::holds_alternative<SignalWorkflow>(operation) ||
         std::holds_alternative<CancelWorkflow>(operation) ||
         std::holds_alternative<PauseWorkflow>(operation) ||
         std::holds_alternative<RetryWorkflow>(operation) ||
         std::holds_alternative<ForkWorkflow>(operation) ||
         std::holds_alternative<WakeWorkflows>(operation);
}

}  // namespace

// Skips jobs that another transaction has locked: for code that goes from an entry to its job,
// against the lock order.
std::unordered_set<JobId> PostgresStore::free_jobs_by_id(const std::vector<JobId>& ids, Ends ends) {
  Ints wanted;
  for (const JobId id : ids) {
    if (!loaded_.contains(id)) wanted.push_back(id);
  }
  if (!wanted.empty()) load_unit(ask(sql_.take_free_jobs, params(wanted)));
  // Jobs loaded before may lack the sessions that their ends affect.
  std::unordered_set<JobId> busy = take_sessions_of_free(ids, ends);
  Ints missing;
  for (const JobId id : wanted) {
    if (busy.contains(id)) loaded_.erase(id);
    if (!loaded_.contains(id)) missing.push_back(id);
  }
  if (missing.empty()) return busy;
  const Rows rows = ask(sql_.existing_jobs, params(missing));
  for (int i = 0; i < rows.size(); ++i) busy.insert(rows.integer(i, 0));
  return busy;
}

// A transaction that makes a kind blocks other transactions that make it, until its batch ends.
void PostgresStore::make_kinds(std::span<const Operation> batch) {
  std::set<std::string> fresh;
  for (const Operation& operation : batch) {
    const auto* enqueue = std::get_if<Enqueue>(&operation);
    if (enqueue == nullptr) continue;
    for (const NewJob& job : enqueue->jobs) {
      if (!kinds_by_name_.contains(job.kind)) fresh.insert(job.kind);
    }
  }
  for (const std::string& kind : fresh) kind_of(kind);
}

// Locks all jobs that the batch names first, in order, unless a single statement locks them anyway
// and nothing comes before it.
void PostgresStore::lock_named_jobs(std::span<const Operation> batch) {
  Ints ids, simple, of_line;
  bool locked = false, in_run = false, out_of_order = false;
  for (const Operation& operation : batch) {
    const std::vector<JobId> named = jobs_named(operation);
    out_of_order = out_of_order || names_workflow(operation) || ends_step(operation);
    const auto* finish = std::get_if<Finish>(&operation);
    if (finish != nullptr && named.empty()) continue;
    const bool simply = finish != nullptr && completes_simply(*finish);
    if (may_stand_in_line(operation)) of_line.insert(of_line.end(), named.begin(), named.end());
    if (!named.empty()) {
      out_of_order = out_of_order || (locked && !(simply && in_run));
      (simply ? simple : ids).insert((simply ? simple : ids).end(), named.begin(), named.end());
      locked = true;
    } else if (!std::holds_alternative<Enqueue>(operation)) {
      locked = true;
    }
    in_run = simply;
  }
  if (!of_line.empty() && !MS_MUTANT(packs_not_held)) hold_packs_of(of_line);
  const std::vector<JobId> of_sessions = jobs_of_sessions();
  if (!out_of_order && of_sessions.empty()) return;
  ids.insert(ids.end(), of_sessions.begin(), of_sessions.end());
  const std::unordered_set<JobId> not_loaded(simple.begin(), simple.end());
  ids.insert(ids.end(), simple.begin(), simple.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (ids.empty()) return;
  later_lock_jobs(ids, [this, ids, not_loaded] {
    for (const JobId id : ids) {
      if (!loaded_.contains(id)) not_there_.insert(id);
    }
    // These are completed without reading their rows.
    for (const JobId id : not_loaded) loaded_.erase(id);
  });
}

}  // namespace mainspring::pg
