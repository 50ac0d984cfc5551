// More ways to a shared store, for enqueues and completions that arrive while the runner commits.
//
// One connection is busy on one core of the database while it works, and waits for its disk while
// it commits. Enqueues need nothing of what else is under way, and completions only that their job
// is still the worker's, so those that would wait go by connections and threads of their own, one
// for each kind. What they make possible is heard by this node as it is heard by the others.
//
// A completion that the lane's store does not do at once, because the job is not running under that
// token, or something follows its end, goes to the runner, who looks at it.
#include <algorithm>

#include "broker/broker.h"

namespace mainspring {
namespace {

// Completions whose answer needs no look at the jobs, if they are running.
bool completes_only(const Operation& operation) {
  const auto* finish = std::get_if<Finish>(&operation);
  return finish != nullptr && finish->within.scopes == nullptr &&
         std::all_of(finish->results.begin(), finish->results.end(), [](const JobOutcome& r) {
           const auto* complete = std::get_if<Complete>(&r.outcome);
           return complete != nullptr && complete->next.empty() && !r.session_state;
         });
}

}  // namespace

void Broker::add_lane(SharedStore& store, LaneFor what) {
  MutexLock lock(mutex_);
  Lane& lane = lanes_.emplace_back();
  lane.store = &store;
  lane.what = what;
}

bool Broker::has_work_for(const Lane& lane) const {
  if (!committing_) return false;
  if (lane.what == LaneFor::enqueues) return !enqueues_.empty();
  return !urgent_.empty() && !urgent_.front().by_runner && !urgent_.front().audit &&
         completes_only(urgent_.front().operation);
}

void Broker::gather_for(const Lane& lane, Batch& batch) {
  if (lane.what == LaneFor::enqueues) return gather_line(enqueues_, batch);
  while (has_work_for(lane) && batch.has_room(options_)) {
    batch.add(std::move(urgent_.front()));
    urgent_.pop_front();
  }
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
  for (std::size_t i = batch.operations.size(); i-- > 0;) {
    Pending& caller = batch.callers[i];
    OperationResult& result = report.results[i];
    if (!note_completed(batch.operations[i], result)) {
      caller.operation = std::move(batch.operations[i]);
      caller.by_runner = true;
      urgent_.push_front(std::move(caller));
      if (runner_waiting_) work_.notify_one();
      continue;
    }
    note_worker(batch.operations[i], result, now);
    answers.push_back([answer = std::move(caller.answer), result = std::move(result)]() mutable {
      answer(std::move(result));
    });
  }
  std::reverse(answers.begin(), answers.end());
  job_metrics_.ended(report.effects.ended);
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
  for (Lane& lane : lanes_)
    lane.runner = std::jthread([this, &lane](std::stop_token stop) { run_lane(lane, stop); });
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
