// Restarts dead jobs one by one, and watches them.
#include "redrive/redriver.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/mutant.h"
#include "model/fingerprint.h"

namespace mainspring {
namespace {

using namespace std::chrono_literals;

constexpr std::array<std::int64_t, 2> kCanarySteps = {1, 10};  // then the rest
// How often every job of a step is checked: the first failure should be noticed soon.
constexpr std::chrono::milliseconds kWatchRound = 2s;
constexpr std::chrono::milliseconds kShortestLook = 20ms;  // a step of thousands takes longer

// For each attempt since the redrive, the job as it would be if that had been its last.
std::vector<Job> failures_of(const Job& job, const DeadJob& before) {
  std::vector<Job> out;
  for (const AttemptError& error : job.errors) {
    if (error.attempt <= before.attempt) continue;
    Job& failed = out.emplace_back();
    failed.id = job.id, failed.kind = job.kind, failed.state = job.state;
    failed.attempt = error.attempt, failed.max_attempts = job.max_attempts;
    failed.reason = "max_attempts", failed.description = error.message;
  }
  return out;
}

}  // namespace

void Redriver::keep(RedriveOptions::Turn turn) const {
  if (options_.keep) options_.keep(state_, turn);
}

// Returns false if it was stopped.
bool Redriver::await_turn() {
  const Instant now = clock_.now().instant;
  const Duration wait = next_ - now;
  if (wait >= kLongPause) keep(RedriveOptions::Turn::yes);
  if (wait > Duration(0)) options_.pause(wait);
  next_ = std::max(next_, now) + options_.between;
  return !stopped();
}

// Redrives until `most` jobs of the step are live again, or there are no more.
Result<void> Redriver::redrive_some(const std::vector<DeadJob>& found, std::int64_t most) {
  while (at_ < found.size() && state_.step.redriven < most && await_turn()) {
    const DeadJob& one = found[at_];
    MS_TRY_ASSIGN(const bool lives, retry_dead(jobs_, one.id));
    ++at_;
    --left_;
    ++state_.tried;
    state_.after = one.id;
    if (lives) {
      ++state_.redriven;
      ++state_.step.redriven;
      if (by_canary()) state_.live.push_back(one);
    }
    if (at_ % 100 == 0) options_.progress(fmt::format("{} of {}", at_, found.size()));
    keep(RedriveOptions::Turn::no);
  }
  return {};
}

// nullopt: the job was pruned.
Result<std::optional<Job>> Redriver::look(JobId id, Duration wait) {
  auto job = jobs_.wait(id, wait, options_.stop);
  if (job) return std::optional<Job>(std::move(*job));
  const ErrorCode code = job.error().code;
  if (code == ErrorCode::not_found || code == ErrorCode::expired) return std::optional<Job>();
  return job.error();
}

// The job, if it died or an attempt failed of a known cause.
std::optional<Job> Redriver::same_again(const Job& job, const DeadJob& before) const {
  if (MS_MUTANT(canary_goes_on)) return std::nullopt;
  if (job.state == JobState::dead)
    return known_.contains(fingerprint_of(job)) ? std::optional<Job>(job) : std::nullopt;
  if (is_terminal(job.state) || MS_MUTANT(canary_waits_for_death)) return std::nullopt;
  for (Job& failed : failures_of(job, before)) {
    if (known_.contains(fingerprint_of(failed))) return std::move(failed);
  }
  return std::nullopt;
}

// Waits until all jobs of the step have ended, or one of them failed again.
Result<void> Redriver::watch() {
  RedriveStep& step = state_.step;
  while (!state_.live.empty() && !stopped()) {
    const DeadJob one = state_.live.front();
    const std::chrono::milliseconds share = kWatchRound / std::ssize(state_.live);
    MS_TRY_ASSIGN(std::optional<Job> job, look(one.id, std::max(share, kShortestLook)));
    if (stopped()) return {};
    state_.live.pop_front();
    if (!job) {
      ++step.gone;
      continue;
    }
    if (job->state == JobState::completed) ++step.completed;
    if (job->state == JobState::cancelled) ++step.cancelled;
    if (job->state == JobState::dead) ++step.dead;
    step.again = same_again(*job, one);
    if (step.again) return {};
    if (!is_terminal(job->state)) {
      options_.progress(fmt::format("job {} is {}, attempt {} of {}", one.id, to_string(job->state),
                                    job->attempt, job->max_attempts));
      state_.live.push_back(one);
    }
    keep(RedriveOptions::Turn::no);
  }
  return {};
}

// Returns false to stop the redrive.
bool Redriver::step_over() {
  options_.on_step(state_.step);
  const std::optional<Job> again = state_.step.again;
  state_.steps.push_back(std::move(state_.step));
  state_.step = {.number = static_cast<int>(std::ssize(state_.steps)) + 1};
  keep(RedriveOptions::Turn::yes);
  if (!again) return true;
  end_ =
      is_terminal(again->state) ? RedriveReport::End::died_again : RedriveReport::End::failed_again;
  return false;
}

Result<void> Redriver::run(const std::vector<DeadJob>& found) {
  left_ = std::ssize(found);
  known_.insert(state_.known.begin(), state_.known.end());
  for (const DeadJob& job : found) {
    if (known_.insert(job.fingerprint).second) state_.known.push_back(job.fingerprint);
  }
  keep(RedriveOptions::Turn::yes);
  bool goes_on = true;
  while (goes_on && !stopped() && (at_ < found.size() || state_.step.redriven > 0)) {
    const std::size_t number = state_.steps.size();
    const bool few = by_canary() && number < kCanarySteps.size();
    MS_TRY(
        redrive_some(found, few ? kCanarySteps[number] : std::numeric_limits<std::int64_t>::max()));
    if (!by_canary()) break;
    keep(RedriveOptions::Turn::yes);  // before anything is known about them
    MS_TRY(watch());
    if (stopped()) break;
    goes_on = step_over();
  }
  const bool unfinished = left_ > 0 || (by_canary() && state_.step.redriven > 0);
  if (goes_on && stopped() && unfinished) end_ = RedriveReport::End::interrupted;
  return {};
}

}  // namespace mainspring
