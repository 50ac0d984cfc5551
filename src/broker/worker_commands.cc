// Commands for workers: how they reach a worker, and the claims of workers that have one.
#include "broker/worker_commands.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "broker/broker.h"
#include "model/callback.h"
#include "model/session.h"

namespace mainspring {

bool WorkerCommands::set(const std::string& worker, WorkerCommand command,
                         std::shared_ptr<const WorkerFacts> facts, Instant now) {
  if (command == WorkerCommand::none) {
    commands_.erase(worker);
    return true;
  }
  if (commands_.size() >= kMaxCommands && !commands_.contains(worker)) return false;
  commands_[worker] = {.command = command, .facts = std::move(facts), .seen = now};
  return true;
}

void WorkerCommands::seen(const std::string& worker,
                          const std::shared_ptr<const WorkerFacts>& facts, Instant now) {
  if (commands_.empty()) return;
  const auto found = commands_.find(worker);
  if (found == commands_.end()) return;
  Entry& entry = found->second;
  entry.seen = now;
  if (facts == nullptr || facts == entry.facts) return;
  if (entry.facts == nullptr) {
    entry.facts = facts;
  } else if (facts->pid != entry.facts->pid || facts->host != entry.facts->host) {
    commands_.erase(found);
  }
}

bool WorkerCommands::was_answered(const std::string& worker) {
  const auto found = commands_.find(worker);
  return found != commands_.end() && std::exchange(found->second.answered, true);
}

void WorkerCommands::forget(Instant now, Duration worker_memory) {
  std::erase_if(commands_, [&](const auto& entry) {
    const bool stops = entry.second.command == WorkerCommand::stop;
    return entry.second.seen + (stops ? worker_memory : kQuietMemory) < now;
  });
}

namespace {

Error no_such_worker(const std::string& worker) {
  return {ErrorCode::not_found,
          fmt::format("worker \"{}\": is not connected; `mainspring workers` lists workers",
                      cut_text(worker, 128))};
}

// Errors: not_found if the caller may change none of the worker's queues.
Result<void> check_all_queues(const WorkerInfo& worker, const Within& within) {
  // This node has only seen renewals of it: its queues are not known.
  if (worker.queues.empty() && !within.has("*")) return no_such_worker(worker.id);
  const auto outside = std::find_if(worker.queues.begin(), worker.queues.end(),
                                    [&](const std::string& queue) { return !within.has(queue); });
  if (outside == worker.queues.end()) return {};
  if (std::none_of(worker.queues.begin(), worker.queues.end(),
                   [&](const std::string& queue) { return within.has(queue); }))
    return no_such_worker(worker.id);
  return Error{ErrorCode::forbidden,
               fmt::format("worker \"{}\": takes jobs of queue \"{}\" too: the token needs the "
                           "scope for all queues of the worker",
                           worker.id, *outside)};
}

}  // namespace

void Broker::Worker::add_queues(std::vector<std::string> more) {
  constexpr std::size_t kMostQueues = 1000;
  if (more == queues) return;
  for (std::string& queue : more) {
    if (queues.size() >= kMostQueues) return;
    if (std::find(queues.begin(), queues.end(), queue) == queues.end())
      queues.push_back(std::move(queue));
  }
}

void Broker::Worker::set_stuck(int stuck) {
  if ((facts == nullptr ? 0 : facts->stuck) == stuck) return;
  auto changed = std::make_shared<WorkerFacts>(facts == nullptr ? WorkerFacts() : *facts);
  changed->stuck = stuck;
  facts = std::move(changed);
}

bool Broker::takes_worker_name(const std::string& worker, const std::string& caller,
                               const Within& within) {
  if (worker.empty() || MS_MUTANT(worker_name_for_all)) return true;
  MutexLock lock(mutex_);
  Worker& known = worker_of(worker);
  if (known.caller != caller) {
    const bool all = within.scopes == nullptr;
    // After a restart only renewals may have been seen: then the queues are not known.
    const bool unknown = known.queues.empty() && !known.caller.empty();
    if (unknown && !all && (known.scopes == nullptr || !within.scopes->covers(*known.scopes)))
      return false;
    if (!std::all_of(known.queues.begin(), known.queues.end(),
                     [&](const std::string& queue) { return within.has(queue); }))
      return false;
    known.caller = caller;
  }
  known.scopes = within.scopes;
  return true;
}

Result<WorkerInfo> Broker::command_worker(CommandWorker request) {
  MS_TRY_ASSIGN(std::vector<WorkerInfo> all, workers());
  const auto found = std::find_if(all.begin(), all.end(), [&](const WorkerInfo& worker) {
    return worker.id == request.worker;
  });
  // Workers that are part of a server cannot be stopped without it.
  const bool own = found != all.end() && !found->queues.empty() &&
                   found->queues.front().starts_with(kReservedQueues);
  if (found == all.end() || own) return no_such_worker(request.worker);
  MS_TRY(check_all_queues(*found, request.within));
  if (found->command == WorkerCommand::stop) {
    if (request.command != WorkerCommand::none) return std::move(*found);
    return Error{ErrorCode::conflict,
                 fmt::format("worker \"{}\": is stopping; it cannot be resumed", request.worker)};
  }
  MutexLock lock(mutex_);
  if (!set_command(request.worker, request.command)) {
    return Error{.code = ErrorCode::overloaded,
                 .message = fmt::format("{} workers are quiet or stopping: must be at most {}",
                                        WorkerCommands::kMaxCommands, WorkerCommands::kMaxCommands),
                 .retry_after_ms = 1000};
  }
  if (shared_ != nullptr) commands_to_tell_.push_back({request.worker, request.command});
  if (loop_waiting_) work_.notify_one();
  found->command = request.command;
  return std::move(*found);
}

bool Broker::set_command(const std::string& worker, WorkerCommand command) {
  const bool changes = commands_.of(worker) != command;
  const auto known = workers_.find(worker);
  if (!commands_.set(worker, command, known == workers_.end() ? nullptr : known->second.facts,
                     clock_.now().instant))
    return false;
  if (changes) commanded_.push_back(worker);
  return true;
}

// Waiting claims of workers whose command changed: they are answered with a new command, and tried
// again once there is none.
void Broker::obey_commands(std::vector<std::function<void()>>& answers) {
  for (const std::string& worker : std::exchange(commanded_, {})) {
    const WorkerCommand command = commands_.of(worker);
    const Now now = clock_.now();
    if (events_.wanted(now.instant)) events_.record_seen("worker/" + worker, now);
    std::vector<Parked*> its;
    for (const auto& [id, parked] : parked_) {
      if (parked->claim.worker == worker) its.push_back(parked.get());
    }
    std::sort(its.begin(), its.end(),
              [](const Parked* a, const Parked* b) { return a->order < b->order; });
    if (command != WorkerCommand::none && !its.empty()) (void)commands_.was_answered(worker);
    for (Parked* parked : its) {
      Pending claim = unpark(*parked);
      if (command == WorkerCommand::none) {
        claims_.push_back(std::move(claim));
      } else {
        answers.push_back([answer = std::move(claim.answer), command] {
          answer(ClaimResult{.command = command});
        });
      }
    }
  }
}

// A claim of a worker with a command gets no jobs. True: it was answered, or waits.
bool Broker::withhold(Pending& pending, std::vector<std::function<void()>>& answers, Now now) {
  const Claim& claim = std::get<Claim>(pending.operation);
  const WorkerCommand command = commands_.of(claim.worker);
  if (command == WorkerCommand::none || claim.job != 0) return false;
  if (commands_.was_answered(claim.worker) && pending.deadline > now.instant) {
    park(std::move(pending), Parking::withheld);
    return true;
  }
  answers.push_back([answer = std::move(pending.answer), command,
                     cancels = std::exchange(worker_of(claim.worker).cancels, {})] {
    answer(ClaimResult{.cancel = cancels, .command = command});
  });
  return true;
}

void Broker::add_command(const Operation& operation, OperationResult& result) const {
  if (commands_.empty()) return;
  if (auto* claimed = std::get_if<ClaimResult>(&result)) {
    claimed->command = commands_.of(std::get<Claim>(operation).worker);
  } else if (auto* renewed = std::get_if<RenewResult>(&result)) {
    renewed->command = commands_.of(std::get<Renew>(operation).worker);
  }
}

// A renewal without leases asks whether the worker may claim again. It needs no store.
std::optional<RenewResult> Broker::answer_without_store(const Operation& operation) {
  const auto* renew = std::get_if<Renew>(&operation);
  if (renew == nullptr || !renew->leases.empty()) return std::nullopt;
  const Instant now = clock_.now().instant;
  const auto worker = workers_.find(renew->worker);
  if (worker != workers_.end()) {
    worker->second.last_seen = now;
    if (renew->stuck) worker->second.set_stuck(*renew->stuck);
  }
  commands_.seen(renew->worker, nullptr, now);
  return RenewResult{.command = commands_.of(renew->worker)};
}

}  // namespace mainspring
