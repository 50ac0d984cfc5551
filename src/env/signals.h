// StopSignals: SIGTERM, SIGINT and SIGHUP as stop tokens, for programs that shut down cleanly.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

namespace mainspring {

// Create it first in main, before other threads: it blocks these signals in the calling thread and
// all threads started by it, and reads them on a thread of its own. The first signal requests
// stop(); the second one also requests hurry(). If the program has not called hurry() yet, the
// second signal ends it at once with exit code 130, as it may hang. At most one object at a time.
// Programs started by Processes get the original signal handling.
class StopSignals {
 public:
  // With `hangup`, SIGHUP calls it on that thread, each time it arrives (several at once may be one
  // call). Without, SIGHUP (the terminal closed) requests stop(), unless the program ignores it
  // (nohup). It never counts as the second signal: a terminal that closes may send several.
  explicit StopSignals(std::function<void()> hangup = {});
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  std::stop_token stop() const { return stop_.get_token(); }
  std::stop_token hurry() const {
    handles_hurry_ = true;
    return hurry_.get_token();
  }
  // SIGTERM, SIGINT or SIGHUP: the first that came; 0 = none yet.
  int first() const { return first_.load(); }
  // The first signal and its sender, for the log: "SIGTERM from process 4711 (bash) of user 1000",
  // "SIGINT from the kernel" (Ctrl-C); "" = none yet.
  std::string why() const;
  // Waits for the first signal, or until request() is called.
  void wait() const;
  // Acts as if the first signal had arrived.
  void request();

 private:
  void run();
  const std::function<void()> hangup_;
  const bool takes_hangup_;
  std::stop_source stop_;
  std::stop_source hurry_;
  mutable std::atomic<bool> handles_hurry_{false};
  std::atomic<int> first_{0};
  mutable std::mutex mutex_;
  std::string why_;  // guarded by mutex_
  int end_fd_ = -1;
  int signal_fd_ = -1;
  std::thread thread_;
};

}  // namespace mainspring
