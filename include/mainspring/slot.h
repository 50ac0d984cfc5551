// Time slots: a worker that somebody starts every minute, and that ends just before the minute
// does.
//
//   mainspring::SlotOptions slot{.name = "mails", .length = 60s};
//   auto summary = engine.run_slot(slot);        // handlers as for start(); returns at the end
//
// Nothing is started that is not expected to fit, and what has been started is never cut. Source:
// the polling consumer inside a scheduled task; guide: docs/guides/slots.md.
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

// When may another job begin?
enum class SlotRule : std::uint8_t {
  predict,  // when the slowest that is to be expected of its kind fits; waits on a push while empty
  poll,     // when `tolerance` mean durations of this slot fit; sleeps `idle` while empty
};

// Why a slot ended.
enum class SlotEnd : std::uint8_t {
  none,        // it has not
  full,        // no job would fit any more
  empty,       // poll: the queue is empty, and another sleep would not fit
  stopped,     // somebody asked for it
  held,        // another instance has the slot: nothing was done
  lease_lost,  // another instance may have the slot by now
};
std::string_view to_string(SlotEnd end);

struct SlotOptions {
  // At most one instance of a name runs at once in the system, by the lease "slot/<name>", whose
  // value carries what was learnt about durations to the next slot. As check_name, up to 120 bytes.
  std::string name = "default";
  // From the start of run() to when the last handler is to have ended; 1 s to 24 h.
  Duration length = std::chrono::seconds(60);
  SlotRule rule = SlotRule::predict;
  // What a job takes of which nothing is known. Raise if first slots overrun.
  Duration estimate = std::chrono::seconds(2);
  // Of `estimate` (and of the mean, for poll), to have a margin; 0 to 1000, six decimals count.
  double tolerance = 5;
  // poll: between two looks at an empty queue.
  Duration idle = std::chrono::seconds(5);
  // predict: kept free at the end, for reporting the last outcome and ending the process.
  Duration reserve = std::chrono::milliseconds(100);
  // predict: no kind is expected to take longer than this part of a slot, so that a kind with one
  // very slow job is still started. More than that may overrun.
  double longest_part = 0.5;
  // While another instance has the slot: true = wait for its end, as long as this slot lasts, and
  // go on from there; false = end at once.
  bool twin = false;

  // All mistakes; empty = none.
  std::vector<Error> validate() const;
};

struct SlotSummary {
  SlotEnd end = SlotEnd::none;
  int handled = 0;     // handlers that ran
  int given_back = 0;  // claimed, and did not fit
  Duration busy{0};    // in handlers
  Duration waited{0};  // for the instance before
  Duration ran{0};     // from the start (or the end of waiting) to the end
  Duration slack{0};   // of the slot, left at the end; below 0 = overrun
  std::string holder;  // of SlotEnd::held
  WorkerStats worker;  // what became of the jobs
  double busy_share() const {
    return ran.count() > 0 ? double(busy.count()) / double(ran.count()) : 0;
  }
};

// One slot. Make a new one for the next.
class SlotRunner {
 public:
  // All of them outlive it.
  SlotRunner(Jobs& jobs, const Clock& clock, Random& random, Log& log, WorkerOptions worker,
             SlotOptions slot);
  ~SlotRunner();

  // Before run().
  void on(std::string kind, Handler handler, KindOptions options = {});
  void on_any(Handler handler, KindOptions options = {});

  // Runs jobs one after the other until the slot is over. A request on `stop` ends it after the
  // running job, which is told at four fifths of graceful_stop. Errors: invalid_argument,
  // unavailable (before it began; later the server is waited for).
  Result<SlotSummary> run(std::stop_token stop);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mainspring
