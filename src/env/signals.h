// StopSignals: SIGTERM and SIGINT as stop tokens, for programs that end in good order.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

namespace mainspring {

// Make it first in main, before other threads: it blocks both signals in the calling thread and all
// threads started by it, and takes them on a thread of its own. The first signal requests stop();
// the second one requests hurry() too. Before the program has asked for hurry(), the second one
// ends it at once with exit code 130: it may hang where nothing looks at stop(). At most one at a
// time.
// Programs started by Processes get the signals back as they were.
class StopSignals {
 public:
  // With `hangup`, SIGHUP is taken too and calls it, on that thread, each time it comes (several at
  // once may be one); without, SIGHUP does what it did.
  explicit StopSignals(std::function<void()> hangup = {});
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  std::stop_token stop() const { return stop_.get_token(); }
  std::stop_token hurry() const {
    handles_hurry_ = true;
    return hurry_.get_token();
  }
  // SIGTERM or SIGINT: the first that came; 0 = none yet.
  int first() const { return first_.load(); }
  // The first signal and its sender, for the log: "SIGTERM from process 4711 (bash) of user 1000",
  // "SIGINT from the kernel" (Ctrl-C); "" = none yet.
  std::string why() const;
  // Waits for the first signal, or until request() is called.
  void wait() const;
  // As if the first signal had come: something else wants the program to end.
  void request();

 private:
  void run();
  const std::function<void()> hangup_;
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
