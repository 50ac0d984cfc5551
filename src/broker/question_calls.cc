// The broker's answers about jobs: why they do not run, and why they died.
#include <algorithm>

#include "api/redrive_shapes.h"
#include "broker/broker.h"
#include "broker/dead_groups.h"
#include "broker/explain.h"

namespace mainspring {
namespace {

// The state of a job's queue, session and limits.
struct Around {
  Now now;  // read after the counters: the pace is measured up to then
  std::optional<QueueStats> queue;
  std::vector<WorkerInfo> workers;
  std::optional<SessionInfo> session;
  LimitKeyInfo of_key;
  std::optional<BreakerInfo> breaker;
};

template <class T>
const T* pointer_to(const std::optional<T>& value) {
  return value ? &*value : nullptr;
}

Result<Around> look_around(const Job& job, const Store& store, Broker& broker, const Clock& clock) {
  Around around;
  MS_TRY_ASSIGN(std::vector<QueueStats> queues, broker.queues());
  MS_TRY_ASSIGN(around.workers, broker.workers());
  const auto queue = std::find_if(queues.begin(), queues.end(),
                                  [&](const QueueStats& q) { return q.name == job.queue; });
  if (queue != queues.end()) around.queue = std::move(*queue);
  if (job.state == JobState::waiting && !job.session.empty()) {
    auto known = store.session({job.queue, job.session}, clock.now().instant);
    if (known) around.session = std::move(*known);
  }
  if (job.state == JobState::available && !job.limit_key.empty()) {
    MS_TRY_ASSIGN(around.of_key, store.limit_key(job.queue, job.limit_key));
  }
  around.now = clock.now();
  if (around.queue && !around.queue->limits.breaker.empty()) {
    auto found = find_breaker(store, around.queue->limits.breaker, around.now.wall);
    if (found) around.breaker = std::move(*found);
  }
  return around;
}

// Checks whether a heavy job before it holds it back; the job's own limits do not show that.
void look_before(const Store& store, const Job& job, const QueueStats& queue, WallTime now,
                 Why& why) {
  if (why.gate != Gate::claim && why.gate != Gate::busy_workers) return;
  auto heavy = waits_for_heavy(queue, now);
  const auto ahead = heavy ? store.ahead(job, 1) : Result<std::int64_t>(0);
  if (ahead && *ahead > 0) why = std::move(*heavy);
}

}  // namespace

Result<Why> explain(const Job& job, const Store& store, Broker& broker, const Clock& clock) {
  MS_TRY_ASSIGN(const Around around, look_around(job, store, broker, clock));
  const auto& [now, queue, workers, session, of_key, breaker] = around;
  Why why = why_of(job, pointer_to(queue), workers, pointer_to(session), now.wall, of_key,
                   pointer_to(breaker));
  if (queue) look_before(store, job, *queue, now.wall, why);
  const Line line = line_of(why.gate);
  if (line != Line::none && queue) {
    const auto ahead =
        line == Line::queue ? store.ahead(job, kMaxAhead) : store.ahead_of_key(job, kMaxAhead);
    if (!ahead) return ahead.error();
    add_estimate(why, *queue, *ahead, broker.pace().of(*queue, now.instant), now.wall, of_key);
  }
  if (why.gate == Gate::quarantine) {
    MS_TRY_ASSIGN(const std::int64_t ahead, store.ahead(job, kMaxAhead));
    add_before_in_quarantine(why, ahead);
  }
  return why;
}

Result<Why> Broker::why(JobId id) {
  MS_TRY_ASSIGN(const Job job, store_.get(id));
  return explain(job, store_, *this, clock_);
}

Result<DeadGroups> Broker::dead_groups(const DeadFilter& filter, WallTime since) {
  MS_TRY_ASSIGN(const JobFilter dead, job_filter_of(filter));
  return group_dead(store_, dead, {}, since);
}

// Not through enqueue(), which refuses the engine's own queues to all callers.
Result<RedriveStarted> Broker::start_redrive(const DeadFilter& filter, const RedrivePace& pace) {
  const RedriveOrder order{filter, pace};
  MS_TRY(validate(order));
  MS_TRY_ASSIGN(const EnqueueResult made,
                call<EnqueueResult>(Enqueue{.jobs = {redrive_job(order)}}));
  return RedriveStarted{.job = made.jobs.at(0).id, .duplicate = made.jobs.at(0).duplicate};
}

}  // namespace mainspring
