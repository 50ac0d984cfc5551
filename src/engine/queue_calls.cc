// Workers, queues, breakers and quarantine of an engine, forwarded to the broker or the server.
#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "broker/breakers.h"
#include "broker/jobs.h"
#include "broker/quarantined.h"
#include "mainspring/breakers.h"
#include "mainspring/quarantine.h"
#include "mainspring/queues.h"
#include "mainspring/workers.h"

namespace mainspring {
namespace {

QueueStatus status_of(QueueStats queue) {
  QueueStatus out;
  out.name = std::move(queue.name);
  out.paused = queue.paused;
  out.pause = std::move(queue.pause);
  out.limits = std::move(queue.limits);
  out.opens_at = queue.opens_at;
  out.slots_taken = queue.slots_taken;
  out.counts = queue.counts;
  out.quarantined = queue.quarantined;
  out.enqueued = queue.enqueued;
  out.pruned = queue.pruned;
  out.expired = queue.expired;
  out.backlog = queue.backlog.value_or(QueueBacklog());
  out.retention_completed = queue.retention_completed;
  out.retention_dead = queue.retention_dead;
  return out;
}

}  // namespace

// -- workers --------------------------------------------------------------------------------------

Result<std::vector<WorkerInfo>> EngineWorkers::list() {
  return jobs_->workers();
}

Result<WorkerInfo> EngineWorkers::quiet(const std::string& id) {
  return jobs_->command_worker({.worker = id, .command = WorkerCommand::quiet});
}

Result<WorkerInfo> EngineWorkers::stop(const std::string& id) {
  return jobs_->command_worker({.worker = id, .command = WorkerCommand::stop});
}

Result<WorkerInfo> EngineWorkers::resume(const std::string& id) {
  return jobs_->command_worker({.worker = id, .command = WorkerCommand::none});
}

// -- queues ---------------------------------------------------------------------------------------

Result<std::vector<QueueStatus>> EngineQueues::list() {
  MS_TRY_ASSIGN(std::vector<QueueStats> queues, jobs_->queues());
  std::vector<QueueStatus> out;
  out.reserve(queues.size());
  for (QueueStats& queue : queues) out.push_back(status_of(std::move(queue)));
  return out;
}

Result<QueueStatus> EngineQueues::get(const std::string& queue) {
  MS_TRY(check_name("queue", queue));
  MS_TRY_ASSIGN(std::vector<QueueStats> queues, jobs_->queues());
  const auto found = std::find_if(queues.begin(), queues.end(),
                                  [&](const QueueStats& one) { return one.name == queue; });
  if (found != queues.end()) return status_of(std::move(*found));
  return Error{ErrorCode::not_found, fmt::format("there is no queue \"{}\"", queue)};
}

Result<void> EngineQueues::set_limits(const std::string& queue, QueueLimits limits) {
  MS_TRY(check_name("queue", queue));
  for (const auto& [key, weight] : limits.per_key.weights) {
    if (!is_utf8(key)) return invalid("per_key.weights", "per_key.weights: must be UTF-8");
  }
  MS_TRY(validate(limits));
  return jobs_->set_queue_limits({.queue = queue, .limits = std::move(limits)});
}

Result<void> EngineQueues::remove(const std::string& queue) {
  return jobs_->remove_queue(queue);
}

Result<void> EngineQueues::pause(const std::string& queue, PauseOptions options) {
  MS_TRY(check_name("queue", queue));
  if (!is_utf8(options.reason)) return invalid("reason", "reason: must be UTF-8");
  PauseQueue pause{.queue = queue, .create = false, .reason = std::move(options.reason)};
  pause.until = options.until;
  return jobs_->pause_queue(std::move(pause));
}

Result<void> EngineQueues::resume(const std::string& queue) {
  MS_TRY(check_name("queue", queue));
  return jobs_->pause_queue({.queue = queue, .paused = false, .create = false});
}

// -- breakers -------------------------------------------------------------------------------------

Result<void> EngineBreakers::put(const std::string& name, BreakerSettings settings) {
  MS_TRY(check_name("name", name));
  return breakers_->put_breaker({.name = name, .settings = settings});
}

Result<BreakerInfo> EngineBreakers::get(const std::string& name) {
  MS_TRY(check_name("name", name));
  return breakers_->get_breaker(name);
}

Result<std::vector<BreakerInfo>> EngineBreakers::list() {
  return breakers_->breakers();
}

Result<void> EngineBreakers::open(const std::string& name, Duration open_for) {
  MS_TRY(check_name("name", name));
  return breakers_->open_breaker({.name = name, .open_for = open_for});
}

Result<void> EngineBreakers::close(const std::string& name) {
  MS_TRY(check_name("name", name));
  return breakers_->close_breaker(name);
}

Result<void> EngineBreakers::remove(const std::string& name) {
  MS_TRY(check_name("name", name));
  return breakers_->remove_breaker(name);
}

// -- quarantine -----------------------------------------------------------------------------------

Result<std::vector<Job>> EngineQuarantine::list(const std::string& queue) {
  if (!queue.empty()) MS_TRY(check_name("queue", queue));
  return quarantined_jobs(*jobs_, queue);
}

Result<JobState> EngineQuarantine::release(JobId id) {
  MS_TRY_ASSIGN(const RetryResult result, release_from_quarantine(*jobs_, id));
  return result.state;
}

}  // namespace mainspring
