// Asks the store for its size, and adds up the counters of its queues.
#include "http/store_report.h"

#include <filesystem>

#include "broker/broker.h"

namespace mainspring::http {

Result<StoreReport::State> StoreReport::read() const {
  State state;
  if (size_) {
    MS_TRY_ASSIGN(state.size, size_());
  }
  if (!state.size.directory.empty()) {
    std::error_code problem;
    const auto space = std::filesystem::space(state.size.directory, problem);
    if (!problem) state.disk_free_bytes = static_cast<std::int64_t>(space.available);
  }
  MS_TRY_ASSIGN(const std::vector<QueueStats> queues, broker_.queues());
  for (const QueueStats& queue : queues) {
    state.finished += queue.expired;
    for (std::size_t i = 0; i < queue.counts.size(); ++i)
      (is_terminal(static_cast<JobState>(i)) ? state.finished : state.live) += queue.counts[i];
  }
  state.jobs = state.live + state.finished;
  return state;
}

Result<std::shared_ptr<const StoreReport::State>> StoreReport::get() {
  {
    MutexLock lock(mutex_);
    const bool fresh = last_ && clock_.now().instant - read_at_ < kStoreReportKept;
    if (last_ && (fresh || reading_)) return last_;
    reading_ = true;
  }
  Result<State> read_now = read();
  MutexLock lock(mutex_);
  reading_ = false;
  if (!read_now) return read_now.error();
  read_at_ = clock_.now().instant;
  return last_ = std::make_shared<const State>(std::move(*read_now));
}

}  // namespace mainspring::http
