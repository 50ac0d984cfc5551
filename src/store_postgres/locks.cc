// The order in which batches lock jobs and what follows from them, so that two nodes never wait for
// each other.
//
//   new kinds ▶ sessions, by queue and key ▶ named leases ▶ bundles of jobs that operations name ▶
//   those jobs, by id, with those that may get the turn ▶ workflows, by id ▶ schedules ▶ ties ▶
//   triggers on ends, by name
//   whoever has locked a session may change the jobs of its line; nobody else does
//   whoever has locked a job may change its entries (ready, due, expiring): nobody else touches
//   them, and nobody locks them
//   whoever comes from an entry to its job (claims, steps of the scheduler) does not wait: what
//   somebody else has locked is left to him, and found again
//   whoever names jobs that may be in bundles locks those first, and no claim takes them meanwhile:
//   one that has a bundle changes the jobs in it that nobody has touched without a look at locks
// A job that others made after the batch had locked what it names would be locked out of order:
// then the batch begins again.
// (A new queue cannot come first: an enqueue that is refused makes none. So two nodes that make the
// same one in batches that also change the same jobs may, once.)
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

// The jobs that it names: those that a holder names have been changed since they were enqueued.
bool may_stand_in_line(const Operation& operation) {
  return std::holds_alternative<Cancel>(operation) || std::holds_alternative<RetryJob>(operation) ||
         std::holds_alternative<EditJob>(operation) || std::holds_alternative<Claim>(operation);
}

// Which is locked behind all jobs.
bool names_workflow(const Operation& operation) {
  return std::holds_alternative<SignalWorkflow>(operation) ||
         std::holds_alternative<CancelWorkflow>(operation) ||
         std::holds_alternative<PauseWorkflow>(operation) ||
         std::holds_alternative<RetryWorkflow>(operation) ||
         std::holds_alternative<ForkWorkflow>(operation) ||
         std::holds_alternative<WakeWorkflows>(operation);
}

}  // namespace

// Those that somebody else has locked are left to him: for whoever comes from an entry of a line to
// its job, against the order in which locks are waited for.
std::unordered_set<JobId> PostgresStore::free_jobs_by_id(const std::vector<JobId>& ids, Ends ends) {
  Ints wanted;
  for (const JobId id : ids) {
    if (!in_hand_.contains(id)) wanted.push_back(id);
  }
  if (!wanted.empty()) take_in_hand(ask(sql_.take_free_jobs, params(wanted)));
  // Those that were in hand before may have come without the sessions that their ends go into.
  std::unordered_set<JobId> busy = take_sessions_of_free(ids, ends);
  Ints missing;
  for (const JobId id : wanted) {
    if (busy.contains(id)) in_hand_.erase(id);
    if (!in_hand_.contains(id)) missing.push_back(id);
  }
  if (missing.empty()) return busy;
  const Rows rows = ask(sql_.existing_jobs, params(missing));
  for (int i = 0; i < rows.size(); ++i) busy.insert(rows.integer(i, 0));
  return busy;
}

// Whoever makes a kind holds up the others that do, until its batch ends.
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

// All jobs that the batch names are locked first and in order, unless one statement locks them
// anyway, and nothing before it.
void PostgresStore::lock_named_jobs(std::span<const Operation> batch) {
  Ints ids, plain, of_line;
  bool locked = false, in_run = false, out_of_order = false;
  for (const Operation& operation : batch) {
    const std::vector<JobId> named = jobs_named(operation);
    out_of_order = out_of_order || names_workflow(operation) || ends_step(operation);
    const auto* finish = std::get_if<Finish>(&operation);
    if (finish != nullptr && named.empty()) continue;
    const bool plainly = finish != nullptr && completes_plainly(*finish);
    if (may_stand_in_line(operation)) of_line.insert(of_line.end(), named.begin(), named.end());
    if (!named.empty()) {
      out_of_order = out_of_order || (locked && !(plainly && in_run));
      (plainly ? plain : ids).insert((plainly ? plain : ids).end(), named.begin(), named.end());
      locked = true;
    } else if (!std::holds_alternative<Enqueue>(operation)) {
      locked = true;
    }
    in_run = plainly;
  }
  if (!of_line.empty() && !MS_MUTANT(bundles_not_held)) hold_bundles_of(of_line);
  const std::vector<JobId> of_sessions = jobs_of_sessions();
  if (!out_of_order && of_sessions.empty()) return;
  ids.insert(ids.end(), of_sessions.begin(), of_sessions.end());
  const std::unordered_set<JobId> not_in_hand(plain.begin(), plain.end());
  ids.insert(ids.end(), plain.begin(), plain.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (ids.empty()) return;
  later_lock_jobs(ids, [this, ids, not_in_hand] {
    for (const JobId id : ids) {
      if (!in_hand_.contains(id)) not_there_.insert(id);
    }
    // Those are completed without a look at their rows.
    for (const JobId id : not_in_hand) in_hand_.erase(id);
  });
}

}  // namespace mainspring::pg
