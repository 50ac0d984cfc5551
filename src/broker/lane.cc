// A second way to a shared store, for enqueues that arrive while the runner commits.
//
// One connection is busy on one core of the database while it works, and waits for its disk while
// it commits. Enqueues need nothing of what else is under way, so those that would wait go by a
// connection and a thread of their own. What they make possible is heard by this node as it is
// heard by the others.
#include "broker/broker.h"

namespace mainspring {

void Broker::add_lane(SharedStore& lane) {
  MutexLock lock(mutex_);
  lane_ = &lane;
}

void Broker::run_lane(std::stop_token stop) {
  for (;;) {
    Batch batch;
    {
      MutexLock lock(mutex_);
      if (stop.stop_requested()) break;
      if (!committing_ || enqueues_.empty()) {
        lane_waiting_ = true;
        lane_work_.wait_for(mutex_, kForever);
        lane_waiting_ = false;
        continue;
      }
      gather_line(enqueues_, batch);
    }
    commit_by_lane(batch);
  }
}

void Broker::commit_by_lane(Batch& batch) {
  const Now now = clock_.now();
  auto report = lane_->apply(batch.operations, now);
  if (!report) {
    // An engine that cannot trust its store says so by the runner, which uses the same one.
    for (Pending& caller : batch.callers) caller.answer(report.error());
    return;
  }
  commit_seconds_.observe(static_cast<double>((clock_.now().instant - now.instant).count()) / 1e6);
  commit_operations_.observe(static_cast<double>(batch.operations.size()));
  {
    MutexLock lock(mutex_);
    for (std::size_t i = 0; i < batch.operations.size(); ++i)
      note_worker(batch.operations[i], report->results[i], now);
  }
  const Heard news = lane_->take_news();
  if (!news.empty()) {
    hear(news);
    if (tell_) tell_(news);
  }
  for (std::size_t i = 0; i < batch.callers.size(); ++i)
    batch.callers[i].answer(std::move(report->results[i]));
}

void Broker::wake_lane() {
  if (lane_waiting_ && committing_ && !enqueues_.empty()) lane_work_.notify_one();
}

void Broker::stop_lane() {
  std::jthread lane;
  {
    MutexLock lock(mutex_);
    lane = std::move(lane_runner_);
    lane.request_stop();
    lane_work_.notify_one();
  }
}

}  // namespace mainspring
