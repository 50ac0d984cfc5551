// TcpProxy: sits between a client and a server's socket and breaks the connection on demand.
//
// One thread, which poll()s; every method may be called from every thread and has taken effect when
// it returns.
#pragma once

#include <memory>
#include <string>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring::pg_testing {

class TcpProxy {
 public:
  // Listens on a port of 127.0.0.1 and forwards to the unix socket `target`. Errors: internal.
  static Result<std::unique_ptr<TcpProxy>> make(const std::string& target);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  int port() const;
  enum class Mode {
    pass,
    hold,    // nothing passes, nothing is closed: as if packets were dropped. New ones wait too
    deaf,    // requests pass, answers vanish: a client that lost one is cut when the mode changes
    stall,   // as hold, for existing connections; new ones pass
    refuse,  // new connections are closed at once; old ones pass
  };
  void set(Mode mode);
  // Delays all later data by this time, both ways. 0 = no delay.
  void delay(Duration late);
  // Ends all connections, by a reset.
  void cut();
  int connections() const;          // now
  std::int64_t accepted() const;    // ever
  std::int64_t bytes_lost() const;  // while deaf, ever
  // Waits until the stalled connections are closed and all their data is forwarded; false after
  // `limit`.
  bool await_gone(Duration limit) const;
  // Waits until bytes_lost() is at least this; false after `limit`.
  bool await_lost(std::int64_t bytes, Duration limit) const;

  static constexpr int kMaxConnections = 200;
  static constexpr std::size_t kMaxBuffered = 1 << 20;  // of each way of each connection

 private:
  TcpProxy();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mainspring::pg_testing
