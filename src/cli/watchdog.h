// Watchdog and StartNotice: what a service manager hears from the server while it runs and while
// it starts.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "env/clock.h"
#include "env/service_manager.h"
#include "telemetry/log.h"

namespace mainspring::cli {

// Feeds the manager's watchdog as long as every loop turns. A loop that hangs for the time that the
// manager allows (WatchdogSec=) lets the manager end the process and start it again.
class Watchdog {
 public:
  struct Loop {
    std::string name;
    // Lets the loop call `turned` when it runs. Must not wait for the loop.
    std::function<void(std::function<void()> turned)> ping;
  };
  // `manager`, `clock` and `log` outlive it.
  Watchdog(const ServiceManager& manager, std::vector<Loop> loops, const Clock& clock, Log& log);
  ~Watchdog();  // stops
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void start();
  void stop();
  // The service stops, and its loops with it: from now on the watchdog is fed whatever they do. The
  // manager has a limit of its own for stops.
  void release();

  // One round, by the thread that start() makes or by a test. Returns whether the watchdog was fed:
  // every loop has turned since the round before.
  bool step(Now now);
  // How often to step: four rounds for each time that the manager waits.
  Duration interval() const { return manager_.watchdog() / 4; }

 private:
  struct Ping;
  struct Watched {
    Loop loop;
    std::shared_ptr<Ping> ping;
    Instant asked_at;
    bool late = false;
  };
  void run();
  bool has_turned(Watched& watched, Now now);

  const ServiceManager& manager_;
  const Clock& clock_;
  Log& log_;
  std::vector<Watched> loops_;
  Mutex mutex_;
  CondVar changed_;
  bool released_ MS_GUARDED_BY(mutex_) = false;
  bool stopping_ MS_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// While it lives the manager hears every few seconds that the start continues, and waits longer. A
// store whose log is replayed may take minutes.
class StartNotice {
 public:
  // `what`: "opening the store in /var/lib/mainspring".
  StartNotice(const ServiceManager& manager, std::string what, const Clock& clock);
  ~StartNotice();
  StartNotice(const StartNotice&) = delete;
  StartNotice& operator=(const StartNotice&) = delete;

 private:
  void run();

  const ServiceManager& manager_;
  const std::string what_;
  const Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  bool done_ MS_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace mainspring::cli
