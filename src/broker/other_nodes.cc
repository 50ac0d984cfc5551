// A store shared with other nodes: turns their hints into work here, sends hints to them, and polls
// in case a hint is lost.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "api/shapes.h"
#include "base/mutant.h"
#include "broker/broker.h"
#include "model/callback.h"
#include "model/queue_pattern.h"

namespace mainspring {
namespace {

using Answers = std::vector<std::function<void()>>;

// Claims that are offered a queue after a hint that it may have work. The number of jobs is not
// known; if these claims find some, more claims follow.
constexpr std::size_t kHeardBurst = 4;
// Minimum pause between two polls, even after hints that everything may have changed.
constexpr Duration kLeastPollGap = std::chrono::milliseconds(100);
// Pause between two attempts to reach an unreachable database.
constexpr Duration kAwayPause = std::chrono::seconds(1);
// How often watched jobs are read, and how many in one read, unless their end is reported.
constexpr Duration kLookEvery = std::chrono::seconds(1);
constexpr std::size_t kMaxLooks = 32;
// How many workers a node reports to others: the last ones seen.
constexpr std::size_t kMaxSaidWorkers = 200;

// Only workers that an operator can start or stop.
std::string workers_to_say(std::vector<WorkerInfo> workers) {
  std::erase_if(workers, [](const WorkerInfo& worker) {
    return worker.queues.empty() || worker.queues.front().starts_with(kReservedQueues);
  });
  if (workers.size() > kMaxSaidWorkers) {
    std::stable_sort(workers.begin(), workers.end(), [](const WorkerInfo& a, const WorkerInfo& b) {
      return a.last_seen < b.last_seen;
    });
    workers.resize(kMaxSaidWorkers);
  }
  std::string out;
  encode_workers(workers, out);
  return out;
}

}  // namespace

// A worker may claim from several nodes: it is listed where it was seen last, with all its queues.
Result<std::vector<WorkerInfo>> Broker::workers() {
  std::vector<WorkerInfo> out = own_workers();
  if (shared_ == nullptr || shared_->away()) return out;
  const auto others = shared_->others_say();
  if (!others) return out;
  for (const Said& said : *others) {
    auto theirs = decode_workers(said.what);
    if (!theirs) continue;  // from a node of another version
    for (WorkerInfo& worker : *theirs) {
      worker.last_seen += said.ago;
      out.push_back(std::move(worker));
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const WorkerInfo& a, const WorkerInfo& b) {
    return std::tie(a.id, a.last_seen) < std::tie(b.id, b.last_seen);
  });
  const auto merge = [](WorkerInfo& kept, const WorkerInfo& more) {
    if (kept.id != more.id) return false;
    for (const std::string& queue : more.queues) {
      if (std::find(kept.queues.begin(), kept.queues.end(), queue) == kept.queues.end())
        kept.queues.push_back(queue);
    }
    return true;
  };
  std::size_t kept = 0;
  for (std::size_t i = 1; i < out.size(); ++i) {
    if (!merge(out[kept], out[i]) && ++kept != i) out[kept] = std::move(out[i]);
  }
  if (!out.empty()) out.resize(kept + 1);
  // Its own node says so only with its next heartbeat.
  MutexLock lock(mutex_);
  for (WorkerInfo& worker : out) {
    if (worker.command == WorkerCommand::none) worker.command = commands_.of(worker.id);
  }
  return out;
}

void Broker::share(SharedStore& store, Random& random,
                   std::function<void(const ChangeHints&)> tell) {
  MutexLock step(step_mutex_);
  MutexLock lock(mutex_);
  shared_ = &store;
  random_ = &random;
  tell_ = std::move(tell);
  next_poll_ = Instant();
}

void Broker::on_wait(std::function<void()> waits) {
  MutexLock lock(mutex_);
  waits_ = std::move(waits);
}

bool Broker::waits_for_news() {
  MutexLock lock(mutex_);
  return parked_.size() > own_parked_ || !watch_jobs_.empty() || lease_waiters_.has_callers() ||
         events_.wanted(clock_.now().instant);
}

void Broker::hear(const ChangeHints& what) {
  MutexLock lock(mutex_);
  heard_.add(what);
  if (loop_waiting_) work_.notify_one();
}

void Broker::hold(std::string why) {
  MutexLock lock(mutex_);
  if (why.empty() && !held_.empty()) heard_.add({.everything = true});
  held_ = std::move(why);
  if (loop_waiting_) work_.notify_one();
}

Duration Broker::spread(Duration about) {
  constexpr std::uint64_t kSteps = 1000;
  const auto step = static_cast<std::int64_t>(random_->below(kSteps));
  return about * 4 / 5 + about * 2 / 5 * step / kSteps;
}

std::optional<ChangeHints> Broker::poll(bool soon, Now now) {
  if (!soon && now.instant < next_poll_) return std::nullopt;
  if (now.instant < last_poll_ + kLeastPollGap) {
    next_poll_ = std::min(next_poll_, last_poll_ + kLeastPollGap);
    return std::nullopt;
  }
  shared_->say(workers_to_say(own_workers()));
  auto found = shared_->refresh(now);
  last_poll_ = now.instant;
  next_poll_ = now.instant + spread(found ? options_.poll : kAwayPause);
  housekeeping_.note("refresh", found ? nullptr : &found.error());
  if (!found) {
    missed_ = true;
    return std::nullopt;
  }
  const Error failed{.code = ErrorCode::unavailable, .message = found->fold_failed};
  housekeeping_.note("fold_counts", found->fold_failed.empty() ? nullptr : &failed);
  found->everything = std::exchange(missed_, false) || found->everything;
  return std::move(*found);
}

void Broker::listen(Answers& answers, Now now) {
  ChangeHints heard;
  std::vector<std::pair<JobId, Token>> gone;
  ChangeHints commands;
  {
    MutexLock lock(mutex_);
    heard = heard_.take();
    commands.commands = std::exchange(commands_to_tell_, {});
    gone = std::exchange(completed_elsewhere_, {});
  }
  if (!commands.empty() && tell_) tell_(commands);
  if (!heard.empty()) shared_->heard(heard);
  if (!gone.empty()) shared_->forget_claims(gone);
  const auto found = poll(heard.everything, now);
  const std::vector<JobId> ended = ended_elsewhere(now);
  MutexLock lock(mutex_);
  if (!MS_MUTANT(nothing_heard)) take_up(heard, answers, now);
  if (found) take_up(*found, answers, now);
  tell_ended(ended, answers);
}

void Broker::take_up(const ChangeHints& heard, Answers& answers, Now now) {
  // A queue that is new or no longer paused is in the catalog.
  if (heard.everything || heard.catalog) {
    for (const auto& [queue, line] : lines_) {
      if (!is_pattern(queue)) {
        offer(queue);
        continue;
      }
      for (const auto& one : store_.available_queues(prefix_of(queue), "", kMaxPatternQueues))
        offer(one);
    }
  } else {
    for (const std::string& queue : heard.queues) offer(queue);
  }
  for (const std::string& lease : heard.released) lease_waiters_.retry_at(lease, now.instant);
  for (const CancelNotice& cancel : heard.cancels) tell_cancel(cancel.worker, cancel.job, answers);
  for (const CommandNotice& one : heard.commands) (void)set_command(one.worker, one.command);
  if (!heard.ended.empty() && events_.wanted(now.instant)) events_.record_ended(heard.ended, now);
  tell_ended(heard.ended, answers);
  tell_ended(heard.ended_reported, answers);
}

void Broker::offer(const std::string& queue) {
  if (lines_of(queue).empty() || !store_.has_available(queue)) return;
  Ready& ready = ready_[queue];
  ready.up_to = next_order_ - 1;
  ready.burst = std::max(ready.burst, kHeardBurst);
}

// Reads a bounded number of them in each call, in rotation.
std::vector<JobId> Broker::ended_elsewhere(Now now) {
  std::vector<JobId> look;
  {
    MutexLock lock(mutex_);
    if (watch_jobs_.empty()) {
      next_look_ = Instant::never();
      return {};
    }
    if (next_look_ == Instant::never()) next_look_ = now.instant + kLookEvery;
    if (now.instant < next_look_) return {};
    next_look_ = now.instant + kLookEvery;
    auto it = watch_jobs_.upper_bound(last_looked_);
    while (look.size() < std::min(kMaxLooks, watch_jobs_.size())) {
      if (it == watch_jobs_.end()) it = watch_jobs_.begin();
      look.push_back(it->second);
      last_looked_ = it->first;
      ++it;
    }
  }
  if (shared_->away()) return {};
  std::vector<JobId> ended;
  for (const JobId id : look) {
    if (id < 0) {
      const auto workflow = store_.workflow(-id);
      if (!workflow && workflow.error().code == ErrorCode::unavailable) break;
      if (!workflow || is_at_rest(workflow->state)) ended.push_back(id);
      continue;
    }
    const auto job = store_.get(id);
    if (!job && job.error().code == ErrorCode::unavailable) break;
    if (!job || is_terminal(job->state)) ended.push_back(id);
  }
  return ended;
}

void Broker::tell_others(const Effects& effects) {
  ChangeHints news = shared_->take_news();
  // Jobs that this batch gave to its own claims are not for others.
  std::erase_if(news.queues,
                [&](const std::string& queue) { return !store_.has_available(queue); });
  news.released.insert(news.released.end(), effects.released.begin(), effects.released.end());
  news.cancels = std::exchange(cancels_to_tell_, {});
  const std::size_t ended = std::min(effects.ended.size(), ChangeHintSet::kMaxEnded);
  news.ended.insert(news.ended.end(), effects.ended.begin(),
                    effects.ended.begin() + static_cast<std::ptrdiff_t>(ended));
  if (!news.empty() && tell_ && !MS_MUTANT(news_not_reported)) tell_(news);
}

void Broker::give_back(Batch& batch, const Error& error, Answers& answers, Now now) {
  // The outcome may be unknown: a claim may still be repeated. Jobs of the first claim come back
  // when its lease ends.
  const bool away = shared_ != nullptr &&
                    (error.code == ErrorCode::unavailable || error.code == ErrorCode::timeout);
  if (away) {
    missed_ = true;
    ready_.clear();  // they are offered again when the database is reachable
    next_poll_ = std::min(next_poll_, now.instant + spread(kAwayPause));
  }
  for (std::size_t i = 0; i < batch.operations.size(); ++i) {
    Pending& caller = batch.callers[i];
    const bool waits = away && caller.park_id != 0 && caller.deadline > now.instant &&
                       !claims_stopped_ && !MS_MUTANT(outage_ends_waits);
    auto* acquire = std::get_if<AcquireLease>(&batch.operations[i]);
    if (waits && std::holds_alternative<Claim>(batch.operations[i])) {
      park_again(batch, i);
    } else if (waits && acquire != nullptr && caller.waited) {
      lease_waiters_.park({.id = caller.park_id,
                           .request = std::move(*acquire),
                           .answer = std::move(caller.answer),
                           .deadline = caller.deadline,
                           .held = error},
                          LeaseWaiters::Place::first, now.instant + kAwayPause);
    } else {
      answers.push_back([answer = std::move(caller.answer), error] { answer(error); });
    }
  }
}

}  // namespace mainspring
