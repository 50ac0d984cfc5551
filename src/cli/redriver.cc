// How dead jobs come back: one by one, and watched.
#include "cli/redriver.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/mutant.h"
#include "model/fingerprint.h"

namespace mainspring::cli {
namespace {

using namespace std::chrono_literals;

constexpr std::array<std::size_t, 2> kCanarySteps = {1, 10};  // then the rest
// Every job of a step is looked at about so often: the first one that fails is to be seen soon.
constexpr std::chrono::milliseconds kWatchRound = 2s;
constexpr std::chrono::milliseconds kShortestLook = 20ms;  // of a step of thousands it takes longer
constexpr std::int64_t kMaxRate = 1'000'000;

// Of an attempt since it was redriven, the job as it would be if that had been its last.
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

Result<Duration> parse_rate(std::string_view text) {
  std::int64_t count = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), count);
  const auto digits = static_cast<std::size_t>(end - text.data());
  const std::string_view unit = text.substr(digits);
  const Duration length = unit == "/s" ? Duration(1s) : unit == "/m" ? Duration(1min) : 1h;
  const bool good = problem == std::errc() && count >= 1 && count <= kMaxRate &&
                    (unit == "/s" || unit == "/m" || unit == "/h");
  if (good) return length / count;
  return invalid("rate", fmt::format("--rate \"{}\": must be N/s, N/m or N/h, N from 1 to {}: 20/s",
                                     text.substr(0, 64), kMaxRate));
}

// False: it is stopped.
bool Redriver::await_turn() {
  const Instant now = clock_.now().instant;
  if (now < next_) options_.pause(next_ - now);
  next_ = std::max(next_, now) + options_.between;
  return !stopped();
}

// False: it was passed over.
Result<bool> Redriver::retry(JobId id) {
  const auto retried = jobs_.retry({.id = id});
  if (retried) return true;
  const ErrorCode code = retried.error().code;
  const bool passed_over =
      code == ErrorCode::conflict || code == ErrorCode::not_found || code == ErrorCode::expired;
  if (passed_over) return false;
  return retried.error();
}

// Until `most` live again, or there are no more.
Result<std::deque<DeadJob>> Redriver::redrive_some(const std::vector<DeadJob>& found,
                                                   std::size_t most) {
  std::deque<DeadJob> begun;
  while (at_ < found.size() && begun.size() < most && await_turn()) {
    MS_TRY_ASSIGN(const bool lives, retry(found[at_].id));
    if (lives) begun.push_back(found[at_]);
    ++at_;
    --report_.left;
    if (lives) ++report_.redriven;
    if (at_ % 100 == 0) options_.progress(fmt::format("{} of {}", at_, found.size()));
  }
  return begun;
}

// nullopt: it is not there any more.
Result<std::optional<Job>> Redriver::look(JobId id, Duration wait) {
  auto job = jobs_.wait(id, wait, options_.stop);
  if (job) return std::optional<Job>(std::move(*job));
  const ErrorCode code = job.error().code;
  if (code == ErrorCode::not_found || code == ErrorCode::expired) return std::optional<Job>();
  return job.error();
}

// One that dies, or whose attempt failed, of what is known.
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

Result<void> Redriver::watch(std::deque<DeadJob> live, RedriveStep& step) {
  while (!live.empty() && !stopped()) {
    const DeadJob one = live.front();
    const std::chrono::milliseconds share = kWatchRound / std::ssize(live);
    live.pop_front();
    MS_TRY_ASSIGN(std::optional<Job> job, look(one.id, std::max(share, kShortestLook)));
    if (stopped()) return {};
    if (!job) {
      ++step.gone;
      continue;
    }
    if (job->state == JobState::completed) ++step.completed;
    if (job->state == JobState::cancelled) ++step.cancelled;
    if (job->state == JobState::dead) ++step.dead;
    step.again = same_again(*job, one);
    if (step.again) return {};
    if (is_terminal(job->state)) continue;
    options_.progress(fmt::format("job {} is {}, attempt {} of {}", one.id, to_string(job->state),
                                  job->attempt, job->max_attempts));
    live.push_back(one);
  }
  return {};
}

Result<void> Redriver::run(const std::vector<DeadJob>& found) {
  report_.left = static_cast<std::int64_t>(found.size());
  for (const DeadJob& job : found) known_.insert(job.fingerprint);
  const bool canary = options_.canary == RedriveOptions::Canary::yes;
  for (std::size_t number = 0; at_ < found.size() && !stopped(); ++number) {
    const bool few = canary && number < kCanarySteps.size();
    MS_TRY_ASSIGN(auto begun, redrive_some(found, few ? kCanarySteps[number] : found.size()));
    if (!canary) continue;
    RedriveStep step{.number = static_cast<int>(number) + 1,
                     .redriven = static_cast<std::int64_t>(begun.size())};
    MS_TRY(watch(std::move(begun), step));
    if (stopped()) break;
    options_.on_step(step);
    if (step.again) {
      report_.end = is_terminal(step.again->state) ? RedriveReport::End::died_again
                                                   : RedriveReport::End::failed_again;
      return {};
    }
  }
  if (stopped() && (canary || report_.left > 0)) report_.end = RedriveReport::End::interrupted;
  return {};
}

}  // namespace mainspring::cli
