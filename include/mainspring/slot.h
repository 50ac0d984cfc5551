// Time slots: a worker that another program starts every minute, and that ends before the minute
// does.
//
//   mainspring::SlotOptions slot{.name = "mails", .length = 60s};
//   auto summary = engine.run_slot(slot);        // handlers as for start(); returns at the end
//
// A slot only starts jobs that are expected to fit, and never interrupts a started job. Source: the
// polling consumer inside a scheduled task. Guide: docs/guides/slots.md.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "mainspring/worker.h"

namespace mainspring {

class Clock;
class Jobs;
class Log;
class Random;

// When another job may start.
enum class SlotRule : std::uint8_t {
  predict,  // when the slowest expected job of its kind fits; waits for a push if the queue is
            // empty
  poll,     // when `tolerance` mean durations of this slot fit; if it is empty, sleeps `idle`
};

// Why a slot ended.
enum class SlotEnd : std::uint8_t {
  none,        // it has not ended
  full,        // no further job would fit
  empty,       // poll: the queue is empty, and another sleep would not fit
  stopped,     // stop was requested
  held,        // another instance has the slot: nothing was done
  lease_lost,  // another instance may have the slot
};
std::string_view to_string(SlotEnd end);

struct SlotOptions {
  // At most one instance of a name runs at once in the system, under the lease "slot/<name>". The
  // lease's value passes learned durations to the next slot. See check_name; up to 120 bytes.
  std::string name = "default";
  // From the start of run() until the last handler must have ended; 1 s to 24 h.
  Duration length = std::chrono::seconds(60);
  SlotRule rule = SlotRule::predict;
  // Assumed duration of a job whose kind is unknown. Raise if first slots overrun.
  Duration estimate = std::chrono::seconds(2);
  // Safety factor for `estimate` (and for the mean, with poll); 0 to 1000, six decimals count.
  double tolerance = 5;
  // poll: pause between two checks of an empty queue.
  Duration idle = std::chrono::seconds(5);
  // predict: kept free at the end, to report the last outcome and exit.
  Duration reserve = std::chrono::milliseconds(100);
  // predict: the longest expected duration of a kind, as a part of the slot. So a kind with one
  // very slow job is still started. Slower jobs may overrun.
  double longest_part = 0.5;
  // While another instance has the slot: true = wait for its end, up to the length of this slot,
  // and run the rest; false = end at once.
  bool standby = false;

  // All mistakes; empty = none.
  std::vector<Error> validate() const;
};

struct SlotSummary {
  SlotEnd end = SlotEnd::none;
  int handled = 0;     // handlers that ran
  int given_back = 0;  // claimed, but did not fit
  Duration busy{0};    // in handlers
  Duration waited{0};  // for the previous instance
  Duration ran{0};     // from the start (or the end of waiting) to the end
  Duration slack{0};   // time left at the end; below 0 = overrun
  std::string holder;  // for SlotEnd::held
  WorkerStats worker;  // outcomes of the jobs
  double busy_share() const {
    return ran.count() > 0 ? double(busy.count()) / double(ran.count()) : 0;
  }
};

// Runs one slot. Create a new one for the next.
class SlotRunner {
 public:
  // All arguments must outlive it.
  SlotRunner(Jobs& jobs, const Clock& clock, Random& random, Log& log, WorkerOptions worker,
             SlotOptions slot);
  ~SlotRunner();

  // Call before run().
  void on(std::string kind, Handler handler, KindOptions options = {});
  void on_any(Handler handler, KindOptions options = {});

  // Runs jobs one after another until the slot is over. A stop request ends the slot after the
  // running job; the job is asked to stop after four fifths of graceful_stop. Errors:
  // invalid_argument, unavailable (at the start; later it waits for the server).
  Result<SlotSummary> run(std::stop_token stop);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mainspring
