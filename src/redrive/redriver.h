// Redriver: another chance for dead jobs, one after the other: at a rate, and by canary.
//
// By canary a few go first: 1, then 10, then the rest. After each step it waits until those jobs
// have ended, and stops as soon as one of them died again, or an attempt of it failed, of what any
// of them had died of before: then nothing has been mended, and the others would only die too. It
// does not wait for the last attempt, which with the back-off may be days away.
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
  // That died of what is known, or, if it lives, failed: then with the attempt, and the reason and
  // description that it would have died with. The rest of the step was not looked at.
  std::optional<Job> again{};
};
struct RedriveReport {
  enum class End : std::uint8_t { done, died_again, failed_again, interrupted };
  std::int64_t redriven = 0;
  std::int64_t left = 0;  // not tried
  End end = End::done;
};
// How far it is: what another one, or this one after a restart, goes on from.
struct RedriveState {
  JobId after = 0;         // the last one that was tried
  std::int64_t tried = 0;  // and those passed over
  std::int64_t redriven = 0;
  RedriveStep step{};                // under way
  std::vector<RedriveStep> steps{};  // by canary: that are over
  std::deque<DeadJob> live{};        // of the step under way, that have not ended; by canary
  std::vector<std::string> known{};  // fingerprints that it set out with
};
struct RedriveOptions {
  enum class Canary : std::uint8_t { no, yes };
  Canary canary = Canary::no;
  Duration between{0};  // from one job to the next, at least
  std::stop_token stop;
  std::function<void(Duration)> pause;               // ends early when `stop` is requested
  std::function<void(const RedriveStep&)> on_step;   // by canary, behind each step
  std::function<void(const std::string&)> progress;  // for people
  // Whenever something has changed; `turn`: it begins, all of a step live again, or have ended.
  // Empty = nobody keeps it.
  enum class Turn : std::uint8_t { no, yes };
  std::function<void(const RedriveState&, Turn turn)> keep{};
};

class Redriver {
 public:
  Redriver(Jobs& jobs, const Clock& clock, RedriveOptions options, RedriveState from = {})
      : jobs_(jobs), clock_(clock), options_(std::move(options)), state_(std::move(from)) {}
  // Those that somebody else has removed, or whose unique key another job has now, are passed over.
  // Once only; `found` are those behind state.after. Errors: those of retry and wait.
  Result<void> run(const std::vector<DeadJob>& found);
  // How far it came, also after an error.
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
