// SlotPlan: decides what to do next inside a time slot. Pure: it gets the time and returns
// decisions, so that a test can run ten thousand slots in a second.
//
//   next(now) ─┬─ take, for up to `wait` ─┬─ a job of kind k: admit(k) ─┬─ run it: handled(k, took)
//              │                          │                             └─ give it back
//              │                          └─ none came: nothing(now) ──── sleep, continue, or stop
//              └─ stop
#pragma once

#include <string>
#include <vector>

#include "mainspring/slot.h"
#include "worker/slot_predictor.h"

namespace mainspring {

class SlotPlan {
 public:
  // `kinds`: those that have handlers; empty = every kind. The options are valid.
  SlotPlan(const SlotOptions& options, std::vector<std::string> kinds, Instant start,
           SlotPredictor known);

  struct Step {
    enum class Action { take, sleep, stop } action = Action::stop;
    Duration wait{0};                // to take for, or to sleep
    std::vector<std::string> kinds;  // to take; empty = every kind
    SlotEnd why = SlotEnd::none;     // of stop
  };
  // The next step when no job runs.
  Step next(Instant now);
  // The step before next() when no job came within the wait. A take with wait 0 means none.
  Step nothing(Instant now);
  // Returns whether a job of this kind may start. If not, it is returned to the queue.
  bool admit(const std::string& kind, Instant now);
  void handled(const std::string& kind, Duration took);

  Instant end() const { return end_; }
  int given_back() const { return given_back_; }
  int handled_count() const { return handled_; }
  Duration busy() const { return busy_; }
  // The knowledge to pass to the next slot.
  SlotPredictor known() const;

 private:
  Duration poll_margin() const;
  Duration room_of(const std::string& kind) const;  // time that a job of it needs, with reserve
  Duration unknown_room() const;

  const SlotOptions options_;
  const std::vector<std::string> kinds_;
  const Instant end_;
  SlotPredictor known_;
  bool any_ = false;  // also take unknown kinds
  int handled_ = 0;
  int given_back_ = 0;
  Duration busy_{0};
};

}  // namespace mainspring
