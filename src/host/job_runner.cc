// The thread that applies the wanted state of a folder's runner.
#include "host/job_runner.h"

#include "worker/start_failure.h"

namespace mainspring {

void wait_for_stop(std::stop_token stop, Duration limit) {
  Mutex mutex;
  CondVar changed;
  const std::stop_callback wake(stop, [&] {
    MutexLock lock(mutex);
    changed.notify_all();
  });
  MutexLock lock(mutex);
  if (limit != kForever) {
    if (!stop.stop_requested()) changed.wait_for(mutex, limit);
    return;
  }
  while (!stop.stop_requested()) changed.wait(mutex);
}

void JobRunner::set(std::optional<JobFolder> folder, Why why) {
  std::stop_source serving{std::nostopstate};
  {
    MutexLock lock(mutex_);
    if (end_) return;
    wanted_ = std::move(folder);
    why_ = why;
    ++generation_;
    serving = serving_;
    changed_.notify_all();
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  serving.request_stop();  // without the lock: callbacks run in it
}

void JobRunner::end(Why why) {
  set(std::nullopt, why);
  std::thread thread;
  {
    MutexLock lock(mutex_);
    end_ = true;
    changed_.notify_all();
    thread.swap(thread_);
  }
  if (thread.joinable()) thread.join();
}

JobRunner::Why JobRunner::why() const {
  MutexLock lock(mutex_);
  return why_;
}

bool JobRunner::resting() const {
  MutexLock lock(mutex_);
  return !wanted_ && served_ == generation_;
}

void JobRunner::run() {
  mutex_.lock();
  for (;;) {
    if (generation_ == served_) {
      if (end_) break;
      changed_.wait(mutex_);
      continue;
    }
    served_ = generation_;
    if (!wanted_) {
      mutex_.unlock();
      rest();
      if (on_rest) on_rest();
      mutex_.lock();
      continue;
    }
    const JobFolder folder = *wanted_;
    serving_ = std::stop_source();
    const std::stop_token stop = serving_.get_token();
    mutex_.unlock();
    serve(folder, stop);
    mutex_.lock();
    serving_ = std::stop_source(std::nostopstate);
  }
  mutex_.unlock();
}

std::shared_ptr<JobLog> JobRunner::open_log(const JobFolder& folder, const std::stop_token& stop) {
  for (int failures = 1; !stop.stop_requested(); ++failures) {
    auto log = host_.logs.open(folder.type, folder.name);
    if (log) return *log;
    const Duration pause = start_pause(failures);
    host_.log.warn(
        "a job folder's log cannot be opened: the job is not run for now",
        {{"job", folder.name}, {"why", log.error().message}, {"pause", format_duration(pause)}});
    wait_for_stop(stop, pause);
  }
  return nullptr;
}

}  // namespace mainspring
