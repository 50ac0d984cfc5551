// RunWatch: decides when a run is idle, and when to report that it still runs. Pure: the time and
// the CPU use of the run are arguments.
//
// Idle: without output for T, and then without CPU time for another T. An idle run is killed.
// Source: Kudu's IdleManager (WEBJOBS_IDLE_TIMEOUT).
#pragma once

#include <functional>
#include <optional>

#include "mainspring/time.h"

namespace mainspring {

class RunWatch {
 public:
  struct Options {
    Duration idle_timeout{0};  // 0 = never idle
    bool liveness = false;     // "is still running" after 1 h, then every 12 h
  };
  RunWatch(Options options, Instant start);

  void on_output(Instant now) { last_output_ = now; }

  struct Step {
    Instant next = Instant::never();  // when to call again
    bool say_running = false;
    bool idle = false;  // end it
  };
  // `cpu_time` is called only when there was no output for a while; nullopt = not known, which
  // counts as used.
  Step step(Instant now, const std::function<std::optional<Duration>()>& cpu_time);

  static constexpr Duration kFirstLiveness = std::chrono::hours(1);
  static constexpr Duration kLiveness = std::chrono::hours(12);

 private:
  const Options options_;
  Instant last_output_;
  Instant next_liveness_;
  std::optional<Instant> quiet_since_;  // when the CPU was looked at
  std::optional<Duration> cpu_then_;
};

}  // namespace mainspring
