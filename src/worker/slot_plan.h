// SlotPlan: what to do next inside a time slot. Pure: time comes in, decisions go out, so that ten
// thousand slots run in a second under test.
//
//   next(now) ─┬─ take, for up to `wait` ─┬─ a job of kind k: admit(k) ─┬─ run it: handled(k, took)
//              │                          │                             └─ give it back
//              │                          └─ none came: nothing(now) ──── sleep, or go on, or stop
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
  // Nothing runs: what now?
  Step next(Instant now);
  // None came within the wait: what before next()? A take of 0 means nothing.
  Step nothing(Instant now);
  // A job of this kind was taken: may it begin? Else it is given back.
  bool admit(const std::string& kind, Instant now);
  void handled(const std::string& kind, Duration took);

  Instant end() const { return end_; }
  int given_back() const { return given_back_; }
  int handled_count() const { return handled_; }
  Duration busy() const { return busy_; }
  // What the next slot should know.
  SlotPredictor known() const;

 private:
  Duration poll_margin() const;
  Duration room_of(const std::string& kind) const;  // that a job of it needs, with the reserve
  Duration unknown_room() const;

  const SlotOptions options_;
  const std::vector<std::string> kinds_;
  const Instant end_;
  SlotPredictor known_;
  bool any_ = false;  // unknown kinds are taken too
  int handled_ = 0;
  int given_back_ = 0;
  Duration busy_{0};
};

}  // namespace mainspring
