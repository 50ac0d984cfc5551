// Redriver: restarts dead jobs one after another: at a rate, and with a canary.
//
// With a canary a few go first: 1, then 10, then the rest. After each step it waits until those
// jobs have ended. It stops as soon as one of them died, or an attempt failed, of a cause that any
// of them had died of: then the problem is not fixed, and the others would die too. It does not
// wait for the last attempt, which with the back-off may be days away.
#pragma once

#include <deque>
#include <functional>
#include <stop_token>
#include <string>
#include <unordered_set>
#include <vector>

#include "env/clock.h"
#include "redrive/found_dead.h"

namespace mainspring {

struct RedriveStep {
  int number = 1;
  std::int64_t redriven = 0;
  std::int64_t completed = 0, cancelled = 0, dead = 0, gone = 0;  // gone: pruned meanwhile
  // A job that died of a known cause; or a live one with a failed attempt: with the attempt, and
  // the reason and description that it would have died with. The rest of the step was not checked.
  std::optional<Job> again{};
};
struct RedriveReport {
  enum class End : std::uint8_t { done, died_again, failed_again, interrupted };
  std::int64_t redriven = 0;
  std::int64_t left = 0;  // not tried
  End end = End::done;
};
// The progress, from which another redriver, or this one after a restart, continues.
struct RedriveState {
  JobId after = 0;         // the last job that was tried
  std::int64_t tried = 0;  // including skipped ones
  std::int64_t redriven = 0;
  RedriveStep step{};                // the current one
  std::vector<RedriveStep> steps{};  // with a canary: finished ones
  std::deque<DeadJob> live{};        // with a canary: live jobs of the current step
  std::vector<std::string> known{};  // fingerprints at the start
};
// Before a rate's pause of this length, the state is kept: readers see it until the pause is over.
inline constexpr Duration kLongPause = std::chrono::seconds(1);

struct RedriveOptions {
  enum class Canary : std::uint8_t { no, yes };
  Canary canary = Canary::no;
  Duration between{0};  // the least time from one job to the next
  std::stop_token stop;
  std::function<void(Duration)> pause;               // ends early when `stop` is requested
  std::function<void(const RedriveStep&)> on_step;   // with a canary, after each step
  std::function<void(const std::string&)> progress;  // for people
  // Called whenever the state has changed; `turn`: it starts, all jobs of a step are live again, or
  // have ended, or a long pause follows. Empty = the state is not kept.
  enum class Turn : std::uint8_t { no, yes };
  std::function<void(const RedriveState&, Turn turn)> keep{};
};

class Redriver {
 public:
  Redriver(Jobs& jobs, const Clock& clock, RedriveOptions options, RedriveState from = {})
      : jobs_(jobs), clock_(clock), options_(std::move(options)), state_(std::move(from)) {}
  // Skips jobs that were removed, or whose unique key another job has now. May be called once;
  // `found` are the jobs after state.after. Errors: those of retry and wait.
  Result<void> run(const std::vector<DeadJob>& found);
  // The result so far, also after an error.
  RedriveReport report() const { return {state_.redriven, left_, end_}; }
  const RedriveState& state() const { return state_; }

 private:
  bool stopped() const { return options_.stop.stop_requested(); }
  bool by_canary() const { return options_.canary == RedriveOptions::Canary::yes; }
  void keep(RedriveOptions::Turn turn) const;
  bool await_turn();
  Result<void> redrive_some(const std::vector<DeadJob>& found, std::int64_t most);
  Result<std::optional<Job>> look(JobId id, Duration wait);
  std::optional<Job> same_again(const Job& job, const DeadJob& before) const;
  Result<void> watch();
  bool step_over();

  Jobs& jobs_;
  const Clock& clock_;
  const RedriveOptions options_;
  RedriveState state_;
  std::int64_t left_ = 0;
  RedriveReport::End end_ = RedriveReport::End::done;
  std::size_t at_ = 0;  // the next one
  Instant next_;        // not before
  std::unordered_set<std::string> known_;
};

}  // namespace mainspring
