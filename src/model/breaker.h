// BreakerMeter: what a breaker has seen, and what it lets begin. The same in every store.
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
  // An attempt that a half-open breaker let begin.
  struct Probe {
    JobId id = 0;
    Token token = 0;
    friend bool operator==(const Probe&, const Probe&) = default;
  };
  // `neither`: it says nothing about what the breaker is of; its place is free.
  enum class End : std::uint8_t { succeeded, failed, neither };

  BreakerMeter() = default;  // closed, and nothing has failed
  // What text() wrote; what is none is closed, and nothing has failed.
  static BreakerMeter parse(std::string_view text);
  std::string text() const;  // "" = closed, and nothing has failed or ever opened it; under 4 KiB

  BreakerState state() const { return state_; }
  WallTime open_until() const { return open_until_; }
  const std::vector<Probe>& probes() const { return probes_; }
  std::int64_t opened() const { return opened_; }
  void describe(const BreakerSettings& settings, WallTime now, BreakerInfo& info) const;

  // Time has come to `now`: an open one whose time is over is half open.
  void step(const BreakerSettings& settings, WallTime now);
  // How many may begin, as it is.
  int room() const;
  // An attempt begins.
  void begin(Probe attempt);
  // It ended. What began before a breaker was last half open, or closed by hand, says nothing; of
  // a half-open one only its probes say something; of an open one nothing does.
  void end(const BreakerSettings& settings, Probe attempt, WallTime began, End how, WallTime now);
  // Somebody was told by what it is of to come again then. Never opens it for shorter.
  void open_for(const BreakerSettings& settings, Duration time, WallTime now);
  // By hand: for exactly so long; and closed, with nothing counted.
  void set_open(const BreakerSettings& settings, Duration time, WallTime now);
  void set_closed(WallTime now);

  friend bool operator==(const BreakerMeter&, const BreakerMeter&) = default;

 private:
  void open(WallTime until);
  std::vector<WallTime> failures_within(const BreakerSettings& settings, WallTime now) const;

  BreakerState state_ = BreakerState::closed;
  WallTime since_;       // attempts that began before say nothing
  WallTime open_until_;  // open
  Duration length_{0};   // of this opening, or of the one before it became half open
  int room_ = 0;         // half open
  int succeeded_ = 0;    // half open: since the room is what it is
  std::int64_t opened_ = 0;
  std::vector<WallTime> failures_;  // closed: no more than open it
  std::vector<Probe> probes_;       // half open: that have not ended
};

// What the end of an attempt says to the breaker of its queue.
BreakerMeter::End end_for_breaker(const Outcome& outcome);
std::optional<Duration> open_breaker_for(const Outcome& outcome);

// What the stores say of names.
Error no_breaker(std::string_view name);       // not_found
Error unknown_breaker(std::string_view name);  // of limits that name it: invalid_argument
Error too_many_breakers();                     // overloaded
Error breaker_in_use(std::string_view name, const std::vector<std::string>& queues);  // conflict

}  // namespace mainspring
