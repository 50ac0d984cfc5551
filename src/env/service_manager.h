// ServiceManager: reports the state of the service to systemd or a compatible manager.
//
// The protocol is one datagram per message to the socket in NOTIFY_SOCKET (sd_notify(3)). It needs
// no library.
#pragma once

#include <string>
#include <string_view>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring {

class ServiceManager {
 public:
  // No manager: every call does nothing.
  ServiceManager() = default;
  // `socket`: a path, or @ and a name in the abstract namespace. `watchdog`: the longest time
  // between two notifications that the manager accepts, 0 = no limit.
  ServiceManager(std::string socket, Duration watchdog)
      : socket_(std::move(socket)), watchdog_(watchdog) {}

  // Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID and removes them from the environment, so
  // that child programs do not get them. Call it before other threads start. Errors:
  // invalid_argument (a value that sd_notify(3) does not allow).
  static Result<ServiceManager> from_environment();

  bool is_there() const { return !socket_.empty(); }
  Duration watchdog() const { return watchdog_; }

  // Sends assignments, one per line: "READY=1\nSTATUS=…". Thread-safe; waits up to a second for
  // space in the socket. Errors: unavailable.
  Result<void> send(std::string_view assignments) const;

  void status(std::string_view text) const;  // one line
  void ready(std::string_view status) const;
  void reloading() const;
  void stopping(std::string_view status) const;
  void feed_watchdog() const;
  // The start takes longer than the manager waits: asks for `more` time from now on.
  void extend_start(Duration more, std::string_view status) const;

 private:
  std::string socket_;
  Duration watchdog_ = Duration(0);
};

}  // namespace mainspring
