// The parts of `work`: its flags, and its three ways to run.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <thread>
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
  JobId job = 0;                   // only this job; 0 = any. If set, `once` is set too
  bool once = false;
  bool drain = false;
  std::optional<int> fewest_slots{};  // options.slots is the most; nullopt = always these
  Duration target{0};                 // with fewest_slots: waiting jobs start in this time
  std::optional<SlotOptions> slot;
  std::optional<TimerOptions> timer;
};

// Errors: invalid_argument (a flag of --slot or --timer without it, or an invalid value).
Result<std::optional<SlotOptions>> slot_of(const Invocation& invocation);
Result<std::optional<TimerOptions>> timer_of(const Invocation& invocation);

// Returns whether the program exists: a mistyped name must not cost every job its attempts.
bool program_exists(const std::string& name, const std::string& directory, const Io& io);

// Seeing whether a queue is empty requires a scope; without it the queue would look empty.
Result<void> check_visible(Client& client, const std::vector<std::string>& queues);
// Queues that were never used: no job and no setting. Excludes queues that the caller may not see.
std::vector<std::string> unused_queues(Client& client, const std::vector<std::string>& queues);
// The names of queues and, for patterns, of the queues that exist.
Result<std::vector<std::string>> queues_of(Jobs& jobs, const std::vector<std::string>& asked);
// Returns whether no job is left that a worker of these queues could take, now or after a back-off.
// No kinds = every kind.
Result<bool> drained(Jobs& jobs, const std::vector<std::string>& queues,
                     const std::vector<std::string>& kinds);

// Failed jobs of these queues that wait for their next attempt.
struct WaitingRetries {
  int jobs = 0;
  WallTime next = WallTime::never();  // of the first
  bool more = false;                  // there are more than were read
};
Result<WaitingRetries> waiting_retries(Jobs& jobs, const std::vector<std::string>& queues,
                                       const std::vector<std::string>& kinds);

// The messages of --drain while it waits for retries.
class DrainNotice {
 public:
  // A line for people; "" = nothing new, or the wait is about a second.
  std::string text(const WaitingRetries& waiting, Now now);

 private:
  WaitingRetries last_;
  Instant quiet_until_;
};

// Statistics at the end of a worker: members of a JSON object, and words.
std::string stats_json(const WorkerStats& stats);
std::string stats_text(const WorkerStats& stats);

// Keeps `most` at the largest peak memory of the programs that have ended.
void note_peak(std::atomic<std::int64_t>& most, const ProcessEnd& end);
// Sets the slots of the worker by the demand of its queues, until the result is destroyed. Without
// plan.fewest_slots it does nothing. All outlive it.
std::jthread scale_slots(const WorkPlan& plan, Client& client, WorkerRuntime& runtime,
                         const std::atomic<std::int64_t>& peak_memory, Log& log);

// Runs the slot and prints its summary.
Result<int> run_work_slot(const Invocation& invocation, Io& io, const WorkPlan& plan, Jobs& jobs,
                          const Handler& handler, StopSignals& signals);

// Runs a program once per batch; its exit code says whether there was work.
ProcessBatch exec_batch(Processes& processes, ExecOptions options);

}  // namespace mainspring::cli
