// Watchdog and StartNotice: notifications to a service manager, while the server runs and while it
// starts.
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

// Feeds the manager's watchdog as long as every loop turns. If a loop hangs for longer than the
// manager allows (WatchdogSec=), the manager restarts the process.
class Watchdog {
 public:
  struct Loop {
    std::string name;
    // Makes the loop call `turned` when it runs. Must not wait for the loop.
    std::function<void(std::function<void()> turned)> ping;
  };
  // `manager`, `clock` and `log` outlive it.
  Watchdog(const ServiceManager& manager, std::vector<Loop> loops, const Clock& clock, Log& log);
  ~Watchdog();  // stops
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void start();
  void stop();
  // The service stops, and its loops too: from now on the watchdog is always fed. The manager has a
  // separate limit for stops.
  void release();

  // One round, by the thread of start() or by a test. Returns true if the watchdog was fed: every
  // loop has turned since the previous round.
  bool step(Now now);
  // How often to step: four times per watchdog period of the manager.
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

// While it lives, it notifies the manager every few seconds that the start continues, so that the
// manager waits longer. Replaying a store's log may take minutes.
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
