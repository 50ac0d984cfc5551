// The rules of idleness and liveness.
#include "host/run_watch.h"

#include <algorithm>

#include "base/mutant.h"

namespace mainspring {

RunWatch::RunWatch(Options options, Instant start)
    : options_(options),
      last_output_(start),
      next_liveness_(options.liveness ? start + kFirstLiveness : Instant::never()) {}

RunWatch::Step RunWatch::step(Instant now,
                              const std::function<std::optional<Duration>()>& cpu_time) {
  Step step;
  if (now >= next_liveness_) {
    step.say_running = true;
    next_liveness_ = next_liveness_ + kLiveness;
  }
  step.next = next_liveness_;
  if (options_.idle_timeout == Duration(0)) return step;
  const Instant silent_at = last_output_ + options_.idle_timeout;
  if (now < silent_at) {
    quiet_since_.reset();
    step.next = std::min(step.next, silent_at);
    return step;
  }
  if (quiet_since_ && now < *quiet_since_ + options_.idle_timeout) {
    step.next = std::min(step.next, *quiet_since_ + options_.idle_timeout);
    return step;
  }
  const std::optional<Duration> used = cpu_time();
  if (quiet_since_ && used && cpu_then_ &&
      (*used == *cpu_then_ || MS_MUTANT(host_idle_by_silence_alone))) {
    step.idle = true;
    step.next = Instant::never();
    return step;
  }
  quiet_since_ = now;
  cpu_then_ = used;
  step.next = std::min(step.next, now + options_.idle_timeout);
  return step;
}

}  // namespace mainspring
