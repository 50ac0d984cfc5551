// Compares the jobs that claims gave with the earlier ones that still wait.
#include "simulation/head_invariant.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "simulation/limit_invariant.h"

namespace mainspring::simulation {
namespace {

constexpr int kMaxWaiting = 1000;

// The operation ends no running job.
bool ends_nothing(const Operation& operation) {
  return std::holds_alternative<Claim>(operation) || std::holds_alternative<Enqueue>(operation) ||
         std::holds_alternative<Renew>(operation) || std::holds_alternative<MoveDue>(operation) ||
         std::holds_alternative<OpenQueues>(operation) ||
         std::holds_alternative<RenewLease>(operation);
}

bool wants(const Claim& claim, const std::string& kind) {
  return claim.kinds.empty() ||
         std::find(claim.kinds.begin(), claim.kinds.end(), kind) != claim.kinds.end();
}

}  // namespace

struct HeadInvariant::Seen {
  QueueLimits limits;
  std::vector<Job> running;
  bool something_ended = false;
};

std::string HeadInvariant::applied(std::span<const Operation> batch, const BatchReport* report,
                                   const Store& store, WallTime now) {
  if (report == nullptr || !touched(batch)) return "";
  const auto page = store.list({.queue = queue_, .state = JobState::available}, kMaxWaiting, 0);
  const auto queues = store.queues();
  auto running = running_in(queue_, store);
  if (!page || !queues || !running) return "";  // the server is dying
  Seen seen{.limits = {}, .running = std::move(*running)};
  std::map<Place, Waiting> waiting;
  for (const Job& job : page->jobs) {
    const Place place{job.priority, job.run_at, job.id};
    const auto over_at = job.started_at ? std::nullopt : job.expires_at;
    waiting[place] = {job.kind, job.limit_key, waiting_.contains(place), over_at};
  }
  waiting_ = std::move(waiting);
  for (const QueueStats& queue : *queues) {
    if (queue.name == queue_) seen.limits = queue.limits;
  }
  for (const Operation& operation : batch) {
    const auto* change = std::get_if<SetQueueLimits>(&operation);
    if (change != nullptr && change->queue == queue_) return "";
    seen.something_ended = seen.something_ended || !ends_nothing(operation);
  }
  if (seen.limits.ageing || seen.limits.per_key.fair) return "";
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto* claim = std::get_if<Claim>(&batch[i]);
    const auto* got = std::get_if<ClaimResult>(&report->results[i]);
    if (claim == nullptr || got == nullptr || claim->job != 0) continue;
    if (std::string why = judge(*claim, got->jobs, seen, store, now); !why.empty()) return why;
  }
  return "";
}

bool HeadInvariant::touched(std::span<const Operation> batch) const {
  return std::any_of(batch.begin(), batch.end(), [&](const Operation& operation) {
    if (const auto* claim = std::get_if<Claim>(&operation))
      return std::find(claim->queues.begin(), claim->queues.end(), queue_) != claim->queues.end();
    const auto* enqueue = std::get_if<Enqueue>(&operation);
    return enqueue != nullptr && !enqueue->jobs.empty() && enqueue->jobs[0].queue == queue_;
  });
}

std::string HeadInvariant::judge(const Claim& claim, const std::vector<ClaimedJob>& given,
                                 const Seen& seen, const Store& store, WallTime now) {
  std::map<std::string, Place> last_of_key;
  Place last;
  for (const ClaimedJob& job : given) {
    if (job.queue != queue_) continue;
    const auto whole = store.get(job.id);
    if (!whole) return "";  // the server is dying
    const Place place{job.priority, job.run_at, job.id};
    last = std::max(last, place);
    Place& of_key = last_of_key[whole->limit_key];
    of_key = std::max(of_key, place);
  }
  judged_ += last_of_key.empty() ? 0 : 1;
  std::set<std::string> held;  // keys
  for (const auto& [place, job] : waiting_) {
    if (place > last) break;
    if (!wants(claim, job.kind) || (job.over_at && *job.over_at <= now)) continue;
    const auto of_key = last_of_key.find(job.key);
    const bool overtaken =
        job.stayed && !job.key.empty() && of_key != last_of_key.end() && place < of_key->second;
    if (!overtaken && (held.contains(job.key) || may_be_full(job, seen))) {
      waited_ += cost_of(seen.limits, job.kind) > 1 ? 1 : 0;
      held.insert(job.key);
      continue;
    }
    if (!job.stayed) continue;
    return fmt::format(
        "CONC-6: job {} of {} (costs {}, limit_key \"{}\") waits, and job {} after it is given",
        std::get<JobId>(place), queue_, cost_of(seen.limits, job.kind), job.key,
        std::get<JobId>(overtaken ? of_key->second : last));
  }
  return "";
}

// The job, or an earlier one of its key, waits only for a slot of the key.
bool HeadInvariant::may_be_full(const Waiting& job, const Seen& seen) const {
  const KeyLimits& limits = seen.limits.per_key;
  if (job.key.empty() || (!limits.concurrency && !limits.rate)) return false;
  if (limits.rate || seen.something_ended) return true;
  const std::int64_t taken = slots_taken(seen.running, job.key, seen.limits, *limits.concurrency);
  const std::int64_t takes =
      std::min<std::int64_t>(cost_of(seen.limits, job.kind), *limits.concurrency);
  return taken + takes > *limits.concurrency;
}

}  // namespace mainspring::simulation
