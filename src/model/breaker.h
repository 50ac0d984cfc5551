// BreakerMeter: the state of a circuit breaker, and how many attempts may start. Used by all
// stores.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/breaker.h"
#include "mainspring/job.h"

namespace mainspring {

class BreakerMeter {
 public:
  // An attempt started while the breaker is half open.
  struct Probe {
    JobId id = 0;
    Token token = 0;
    friend bool operator==(const Probe&, const Probe&) = default;
  };
  // `neither`: the end is not counted; its place becomes free.
  enum class End : std::uint8_t { succeeded, failed, neither };

  BreakerMeter() = default;  // closed, without failures
  // Parses the output of text(). Any other text gives a closed breaker without failures.
  static BreakerMeter parse(std::string_view text);
  std::string text() const;  // "" = closed, without failures, never opened; under 4 KiB

  BreakerState state() const { return state_; }
  WallTime open_until() const { return open_until_; }
  const std::vector<Probe>& probes() const { return probes_; }
  std::int64_t opened() const { return opened_; }
  void describe(const BreakerSettings& settings, WallTime now, BreakerInfo& info) const;

  // Advances to `now`: an open breaker whose time is over becomes half open.
  void step(const BreakerSettings& settings, WallTime now);
  // How many attempts may start now.
  int room() const;
  // Records the start of an attempt.
  void begin(Probe attempt);
  // Records the end of an attempt. Attempts that started before the breaker was last half open, or
  // was closed by an operator, are not counted. While half open only probes count; while open
  // nothing counts.
  void end(const BreakerSettings& settings, Probe attempt, WallTime began, End how, WallTime now);
  // A caller was asked to retry after this time (for example by HTTP Retry-After). Extends the open
  // time, never shortens it; up to max_open_for.
  void open_for(const BreakerSettings& settings, Duration time, WallTime now);
  // Operator commands: open for exactly this time; close and reset all counts.
  void set_open(const BreakerSettings& settings, Duration time, WallTime now);
  void set_closed(WallTime now);

  friend bool operator==(const BreakerMeter&, const BreakerMeter&) = default;

 private:
  void open(WallTime until);
  std::vector<WallTime> failures_within(const BreakerSettings& settings, WallTime now) const;

  BreakerState state_ = BreakerState::closed;
  WallTime since_;       // attempts started before are not counted
  WallTime open_until_;  // while open
  Duration length_{0};   // of the current opening, or of the last one before half open
  int room_ = 0;         // while half open
  int succeeded_ = 0;    // half open: successes since the room last changed
  std::int64_t opened_ = 0;
  std::vector<WallTime> failures_;  // closed: at most the number that opens it
  std::vector<Probe> probes_;       // half open: probes still running
};

// How the end of an attempt counts for the breaker of its queue.
BreakerMeter::End end_for_breaker(const Outcome& outcome);
std::optional<Duration> open_breaker_for(const Outcome& outcome);

// Errors that stores answer.
Error no_breaker(std::string_view name);       // not_found
Error unknown_breaker(std::string_view name);  // invalid_argument, for limits that name an unknown
                                               // breaker
Error too_many_breakers();                     // overloaded
Error breaker_in_use(std::string_view name, const std::vector<std::string>& queues);  // conflict

}  // namespace mainspring
