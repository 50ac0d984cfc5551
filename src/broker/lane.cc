// More ways to a shared store, for enqueues and completions that arrive while the runner commits,
// or in numbers.
//
// One connection is busy on one core of the database while it works, and waits for its disk while
// it commits. Enqueues need nothing of what else is under way, and completions only that their job
// is still the worker's, so those that would wait go by connections and threads of their own, one
// for each kind. What they make possible is heard by this node as it is heard by the others.
//
// Few are worth more in the runner's commit, which they share with what else is there. Many are a
// lane's even if the runner is free: it would come back late to the claims that only it can do. It
// takes them itself where claims wait for such jobs, which get them in the same commit then, and
// where a lane does not come back.
//
// A completion that the lane's store does not do at once, because the job is not running under that
// token, or something follows its end, goes to the runner, who looks at it.
#include <algorithm>

#include "base/mutant.h"
#include "broker/broker.h"
#include "tracing/job_traces.h"

namespace mainspring {
namespace {

// Jobs that wait for a lane. Fewer are worth more in the runner's commit.
constexpr std::size_t kWorthALane = 100;
// A lane that has not come back for so long is not waited for.
constexpr Duration kSlowLane = std::chrono::milliseconds(100);
// Completions of a worker of whose a lane could not do all, because its queue has limits, say, go
// by the runner for so long. So a claim that comes with them finds the room that they make.
constexpr Duration kInVain = std::chrono::seconds(10);

// Completions whose answer needs no look at the jobs, if they are running.
bool completes_only(const Operation& operation) {
  const auto* finish = std::get_if<Finish>(&operation);
  return finish != nullptr && finish->within.scopes == nullptr &&
         std::all_of(finish->results.begin(), finish->results.end(), [](const JobOutcome& r) {
           const auto* complete = std::get_if<Complete>(&r.outcome);
           return complete != nullptr && complete->next.empty() && !r.session_state;
         });
}

// It locks its sessions, as the runner does who ends their jobs. Few of these wait for its next
// commit, which locks them once for both, instead of for its locks.
bool enters_session(const Operation& operation) {
  const auto* enqueue = std::get_if<Enqueue>(&operation);
  return enqueue != nullptr && !enqueue->jobs.empty() && !enqueue->jobs.front().session.empty();
}

}  // namespace

void Broker::add_lane(SharedStore& store, LaneFor what) {
  MutexLock lock(mutex_);
  Lane& lane = lanes_.emplace_back();
  lane.store = &store;
  lane.what = what;
}

std::deque<Broker::Pending>& Broker::line_of(const Operation& operation, bool audited) {
  if (std::holds_alternative<Enqueue>(operation)) return enqueues_;
  if (std::holds_alternative<Claim>(operation)) return claims_;
  if (lane_for(LaneFor::completions) == nullptr || audited || !completes_only(operation))
    return urgent_;
  const auto worker = workers_.find(std::get<Finish>(operation).worker);
  const bool in_vain =
      worker != workers_.end() && clock_.now().instant < worker->second.by_runner_until;
  return in_vain ? urgent_ : completions_;
}

const std::deque<Broker::Pending>& Broker::line_of(const Lane& lane) const {
  return lane.what == LaneFor::enqueues ? enqueues_ : completions_;
}

const Broker::Lane* Broker::lane_for(LaneFor what) const {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                  [&](const Lane& lane) { return lane.what == what; });
  return found == lanes_.end() ? nullptr : &*found;
}

bool Broker::is_worth(const Lane& lane) const {
  if (lane.what == LaneFor::completions) {
    std::size_t jobs = 0;
    for (const Pending& pending : completions_) {
      jobs += pending.jobs;
      if (jobs >= kWorthALane) return true;
    }
    return false;
  }
  if (waiting_jobs_ < kWorthALane) return false;
  // Claims that wait for such jobs get them in the commit that makes them, which is the runner's.
  std::size_t jobs = 0;
  for (const Pending& pending : enqueues_) {
    const auto& enqueue = std::get<Enqueue>(pending.operation);
    const bool waited_for = !enqueue.jobs.empty() && lines_.contains(enqueue.jobs.front().queue);
    if (waited_for && !MS_MUTANT(lane_takes_what_claims_wait_for)) return false;
    jobs += pending.jobs;
    if (jobs >= kWorthALane) break;
  }
  return true;
}

bool Broker::leaves_to_lane(LaneFor what) const {
  const Lane* lane = lane_for(what);
  if (lane == nullptr || !lane->runner.joinable() || !is_worth(*lane)) return false;
  return lane->waiting || clock_.now().instant < lane->took_at + kSlowLane ||
         MS_MUTANT(lane_is_waited_for);
}

// When the runner takes at the latest what it has left to them.
Instant Broker::lanes_late_at() const {
  Instant first = Instant::never();
  for (const Lane& lane : lanes_) {
    if (!lane.waiting && !line_of(lane).empty()) first = std::min(first, lane.took_at + kSlowLane);
  }
  return first;
}

bool Broker::runner_is_late() const {
  return runner_waiting_ && (has_work() || lanes_late_at() < runner_until_);
}

bool Broker::has_work_for(const Lane& lane) const {
  const auto& line = line_of(lane);
  if (line.empty()) return false;
  const bool few = enters_session(line.front().operation) && waiting_jobs_ < kWorthALane;
  return (committing_ && !few) || is_worth(lane);
}

void Broker::gather_for(Lane& lane, Batch& batch) {
  lane.took_at = clock_.now().instant;
  gather_line(lane.what == LaneFor::enqueues ? enqueues_ : completions_, batch);
  // What it leaves may be the runner's.
  if (runner_is_late()) work_.notify_one();
}

void Broker::run_lane(Lane& lane, std::stop_token stop) {
  for (;;) {
    Batch batch;
    {
      MutexLock lock(mutex_);
      if (stop.stop_requested()) break;
      if (!has_work_for(lane)) {
        lane.waiting = true;
        lane.work.wait_for(mutex_, kForever);
        lane.waiting = false;
        continue;
      }
      gather_for(lane, batch);
    }
    commit_by_lane(lane, batch);
  }
}

void Broker::commit_by_lane(Lane& lane, Batch& batch) {
  const Now now = clock_.now();
  auto report = lane.store->apply(batch.operations, now);
  if (!report) {
    // An engine that cannot trust its store says so by the runner, which uses the same one.
    for (Pending& caller : batch.callers) caller.answer(report.error());
    return;
  }
  commit_seconds_.observe(static_cast<double>((clock_.now().instant - now.instant).count()) / 1e6);
  commit_operations_.observe(static_cast<double>(batch.operations.size()));
  if (!report->effects.brief.empty()) keep_ends(report->effects.brief, now);
  std::vector<std::function<void()>> answers;
  {
    MutexLock lock(mutex_);
    distribute_of_lane(batch, *report, answers, now);
  }
  Heard news = lane.store->take_news();
  if (!news.empty()) hear(news);
  const auto& ended = report->effects.ended;
  const std::size_t told = std::min(ended.size(), HeardSet::kMaxEnded);
  news.ended.assign(ended.begin(), ended.begin() + static_cast<std::ptrdiff_t>(told));
  if (!news.empty() && tell_) tell_(news);
  for (auto& answer : answers) answer();
  events_.tell();
}

void Broker::distribute_of_lane(Batch& batch, BatchReport& report,
                                std::vector<std::function<void()>>& answers, Now now) {
  // Here, before what is left to the runner is taken out of the batch.
  if (events_.wanted(now.instant))
    events_.record(batch.operations, report.results, report.effects, now);
  count(batch, report, now);
  for (std::size_t i = batch.operations.size(); i-- > 0;) {
    Pending& caller = batch.callers[i];
    OperationResult& result = report.results[i];
    if (!note_completed(batch.operations[i], result)) {
      worker_of(std::get<Finish>(batch.operations[i]).worker).by_runner_until =
          now.instant + kInVain;
      caller.operation = std::move(batch.operations[i]);
      urgent_.push_front(std::move(caller));
      if (runner_waiting_) work_.notify_one();
      continue;
    }
    if (traces_ != nullptr) note_traces(caller, batch.operations[i], result, now);
    note_worker(batch.operations[i], result, now);
    answers.push_back([answer = std::move(caller.answer), result = std::move(result)]() mutable {
      answer(std::move(result));
    });
  }
  std::reverse(answers.begin(), answers.end());
  if (traces_ != nullptr) traces_->ended(report.effects.ended, now.wall);
  tell_ended(report.effects.ended, answers);
}

// False: not all of them are done.
bool Broker::note_completed(const Operation& operation, const OperationResult& result) {
  const auto* finish = std::get_if<Finish>(&operation);
  const auto* finished = std::get_if<FinishResult>(&result);
  if (finish == nullptr) return true;
  if (finished == nullptr) return false;
  bool all = true;
  for (std::size_t i = 0; i < finish->results.size(); ++i) {
    if (finished->results[i] == FinishStatus::ok) {
      let_go_.emplace_back(finish->results[i].id, finish->results[i].token);
    } else {
      all = false;
    }
  }
  return all;
}

void Broker::wake_lanes() {
  for (Lane& lane : lanes_) {
    if (lane.waiting && has_work_for(lane)) lane.work.notify_one();
  }
}

void Broker::start_lanes() {
  for (Lane& lane : lanes_) {
    lane.took_at = clock_.now().instant;
    lane.runner = std::jthread([this, &lane](std::stop_token stop) { run_lane(lane, stop); });
  }
}

void Broker::stop_lanes() {
  std::vector<std::jthread> runners;  // joined behind the lock
  MutexLock lock(mutex_);
  for (Lane& lane : lanes_) {
    lane.runner.request_stop();
    lane.work.notify_one();
    runners.push_back(std::move(lane.runner));
  }
}

}  // namespace mainspring
