// The parts of `work`: what its flags ask for, and its three ways to run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/support.h"
#include "env/clock.h"
#include "env/processes.h"
#include "env/signals.h"
#include "mainspring/slot.h"
#include "mainspring/timer.h"
#include "worker/exec.h"
#include "worker/worker.h"

namespace mainspring::cli {

struct WorkPlan {
  WorkerOptions options;
  KindOptions kind_options;
  ExecOptions exec;
  std::vector<std::string> kinds;  // empty = every kind
  JobId job = 0;                   // this one alone; 0 = any. Then once is set
  bool once = false;
  bool drain = false;
  std::optional<SlotOptions> slot;
  std::optional<TimerOptions> timer;
};

// Errors: invalid_argument: a flag of --slot or --timer without it, or that breaks a rule.
Result<std::optional<SlotOptions>> slot_of(const Invocation& invocation);
Result<std::optional<TimerOptions>> timer_of(const Invocation& invocation);

// Is there such a program? A typing error must not cost every job of a queue its attempts.
bool program_exists(const std::string& name, const std::string& directory, const Io& io);

// To see whether a queue is empty takes a scope; without it there seems to be nothing.
Result<void> check_visible(Client& client, const std::vector<std::string>& queues);
// Those to which no job was ever enqueued and for which nothing was set. A queue that the caller
// may not see is not among them.
std::vector<std::string> unused_queues(Client& client, const std::vector<std::string>& queues);
// Is nothing left that a worker of these queues would take, now or after a back-off? No kinds:
// every kind.
Result<bool> drained(Jobs& jobs, const std::vector<std::string>& queues,
                     const std::vector<std::string>& kinds);

// Failed jobs of these queues that wait for their next attempt.
struct WaitingRetries {
  int jobs = 0;
  WallTime next = WallTime::never();  // of the first
  bool more = false;                  // there are more than were looked at
};
Result<WaitingRetries> waiting_retries(Jobs& jobs, const std::vector<std::string>& queues,
                                       const std::vector<std::string>& kinds);

// What --drain reports while it waits for retries.
class DrainNotice {
 public:
  // A line for people; "" = nothing new, or it is a matter of a second.
  std::string text(const WaitingRetries& waiting, Now now);

 private:
  WaitingRetries last_;
  Instant quiet_until_;
};

// For the end of a worker: members of a JSON object, and words.
std::string stats_json(const WorkerStats& stats);
std::string stats_text(const WorkerStats& stats);

// Runs the slot and prints its summary.
Result<int> run_work_slot(const Invocation& invocation, Io& io, const WorkPlan& plan, Jobs& jobs,
                          const Handler& handler, StopSignals& signals);

// Runs a program once per batch; its exit code says what there was to do.
ProcessBatch exec_batch(Processes& processes, ExecOptions options);

}  // namespace mainspring::cli
