// Ends of workers: the first refusal is kept, and polls are woken by the stop.
#include "cli/worker_end.h"

#include "cli/handlers.h"

namespace mainspring::cli {
namespace {

constexpr Duration kPoll = 250ms;

}  // namespace

void Refusal::watch(WorkerRuntime& worker) {
  worker.on_refused([this](const Error& error) {
    {
      const MutexLock lock(mutex_);
      if (!error_) error_ = error;
    }
    signals_.request();
  });
}

Result<int> Refusal::exit_code() {
  const MutexLock lock(mutex_);
  if (error_) return *error_;
  return kExitOk;
}

void wait_until(StopSignals& signals, const std::function<bool()>& done) {
  Mutex mutex;
  CondVar wake;
  const std::stop_callback on_stop(signals.stop(), [&] {
    const MutexLock lock(mutex);
    wake.notify_all();
  });
  while (!signals.stop().stop_requested() && !done()) {
    const MutexLock lock(mutex);
    if (!signals.stop().stop_requested()) wake.wait_for(mutex, kPoll);
  }
}

}  // namespace mainspring::cli
