// Waiting acquires: parked while another holder has the lease, woken in the commit that frees it or
// when it expires. Also the listeners of the agenda.
#include "base/mutant.h"
#include "broker/broker.h"

namespace mainspring {

Broker::ParkId Broker::submit_acquire(AcquireLease request, Duration wait, Answer answer) {
  const Instant deadline = clock_.now().instant + std::min(wait, kMaxClaimWait);
  Operation operation(std::move(request));
  std::optional<Error> refused;
  bool wake = false;
  ParkId id = 0;
  {
    MutexLock lock(mutex_);
    id = next_handle_++;
    refused = refuse(operation, 1, 0);
    if (!refused) {
      push({.operation = std::move(operation),
            .answer = std::move(answer),
            .park_id = id,
            .deadline = deadline,
            .jobs = 1,
            .bytes = 256},
           urgent_);
      wake = loop_waiting_;
    }
  }
  if (refused) {
    answer(std::move(*refused));
  } else if (wake) {
    work_.notify_one();
  }
  return id;
}

bool Broker::add_waiter(Batch& batch, const std::string& lease) {
  auto waiter = lease_waiters_.take_first(lease);
  if (!waiter) return false;
  ++batch.jobs;
  batch.operations.emplace_back(std::move(waiter->request));
  batch.callers.push_back({.answer = std::move(waiter->answer),
                           .park_id = waiter->id,
                           .deadline = waiter->deadline,
                           .waited = true,
                           .jobs = 1});
  return true;
}

void Broker::wake_acquires(Batch& batch, std::vector<std::function<void()>>& answers, Now now) {
  for (LeaseWaiter& waiter : lease_waiters_.take_expired(now.instant))
    answers.push_back([late = std::move(waiter)] { late.answer(late.held); });
  // After a release of this batch: the hand-over is in the same commit.
  const std::size_t end = MS_MUTANT(lease_handover_forgotten) ? 0 : batch.operations.size();
  for (std::size_t i = 0; i < end && lease_waiters_.size() > 0; ++i) {
    const auto* release = std::get_if<ReleaseLease>(&batch.operations[i]);
    if (release == nullptr) continue;
    const std::string name = release->name;  // a copy: the batch grows, and the release moves
    add_waiter(batch, name);
  }
  for (const std::string& name : lease_waiters_.due(now.instant)) {
    if (MS_MUTANT(waiter_never_retries)) break;
    const Instant free_at = store_.lease_free_at(name);
    if (free_at <= now.instant) {
      add_waiter(batch, name);
      lease_waiters_.retry_at(name, Instant::never());  // its answer sets the time of the next try
    } else {
      lease_waiters_.retry_at(name, free_at);  // the lease has been renewed since
    }
  }
}

bool Broker::park_acquire(Pending& caller, Operation& operation, const OperationResult& result,
                          Now now) {
  auto* acquire = std::get_if<AcquireLease>(&operation);
  if (acquire == nullptr) return false;
  // The next waiter waits for the end of the current holder's lease.
  const Instant free_at = store_.lease_free_at(acquire->name);
  lease_waiters_.retry_at(acquire->name, free_at);
  const auto* error = std::get_if<Error>(&result);
  if (error == nullptr || error->code != ErrorCode::lease_held || claims_stopped_ ||
      caller.park_id == 0 || caller.deadline <= now.instant)
    return false;
  const auto place = caller.waited ? LeaseWaiters::Place::first : LeaseWaiters::Place::last;
  lease_waiters_.park({.id = caller.park_id,
                       .request = std::move(*acquire),
                       .answer = std::move(caller.answer),
                       .deadline = caller.deadline,
                       .held = *error},
                      place, free_at);
  if (waits_) waits_();
  return true;
}

std::size_t Broker::parked_acquires() const {
  MutexLock lock(mutex_);
  return lease_waiters_.size();
}

Broker::ListenerId Broker::add_agenda_listener(std::function<void()> changed) {
  MutexLock lock(listeners_mutex_);
  listeners_.emplace(next_listener_, std::move(changed));
  return next_listener_++;
}

void Broker::remove_agenda_listener(ListenerId id) {
  MutexLock lock(listeners_mutex_);
  listeners_.erase(id);
}

void Broker::tell_listeners() {
  MutexLock lock(listeners_mutex_);
  for (const auto& [id, changed] : listeners_) changed();
}

}  // namespace mainspring
