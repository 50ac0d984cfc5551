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
constexpr Duration kWatchSlice = 20s;
constexpr std::int64_t kMaxRate = 1'000'000;

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
Result<std::vector<JobId>> Redriver::redrive_some(const std::vector<DeadJob>& found,
                                                  std::size_t most) {
  std::vector<JobId> begun;
  while (at_ < found.size() && begun.size() < most && await_turn()) {
    MS_TRY_ASSIGN(const bool lives, retry(found[at_].id));
    if (lives) begun.push_back(found[at_].id);
    ++at_;
    --report_.left;
    if (lives) ++report_.redriven;
    if (at_ % 100 == 0) options_.progress(fmt::format("{} of {}", at_, found.size()));
  }
  return begun;
}

// nullopt: it is not there any more, or the waiting is stopped.
Result<std::optional<Job>> Redriver::ended(JobId id) {
  while (!stopped()) {
    auto job = jobs_.wait(id, kWatchSlice, options_.stop);
    if (!job) {
      const ErrorCode code = job.error().code;
      if (code == ErrorCode::not_found || code == ErrorCode::expired) break;
      return job.error();
    }
    if (is_terminal(job->state)) return std::optional<Job>(std::move(*job));
    options_.progress(fmt::format("job {} is {}, attempt {} of {}", id, to_string(job->state),
                                  job->attempt, job->max_attempts));
  }
  return std::optional<Job>();
}

Result<void> Redriver::watch(const std::vector<JobId>& begun, RedriveStep& step) {
  for (const JobId id : begun) {
    MS_TRY_ASSIGN(std::optional<Job> job, ended(id));
    if (stopped()) return {};
    if (!job) {
      ++step.gone;
    } else if (job->state == JobState::completed) {
      ++step.completed;
    } else if (job->state == JobState::cancelled) {
      ++step.cancelled;
    } else {
      ++step.dead;
      if (known_.contains(fingerprint_of(*job)) && !MS_MUTANT(canary_goes_on)) {
        step.again = std::move(job);
        return {};
      }
    }
  }
  return {};
}

Result<void> Redriver::run(const std::vector<DeadJob>& found) {
  report_.left = static_cast<std::int64_t>(found.size());
  for (const DeadJob& job : found) known_.insert(job.fingerprint);
  const bool canary = options_.canary == RedriveOptions::Canary::yes;
  for (std::size_t number = 0; at_ < found.size() && !stopped(); ++number) {
    const bool few = canary && number < kCanarySteps.size();
    MS_TRY_ASSIGN(const auto begun, redrive_some(found, few ? kCanarySteps[number] : found.size()));
    if (!canary) continue;
    RedriveStep step{.number = static_cast<int>(number) + 1,
                     .redriven = static_cast<std::int64_t>(begun.size())};
    MS_TRY(watch(begun, step));
    if (stopped()) break;
    options_.on_step(step);
    if (step.again) {
      report_.end = RedriveReport::End::died_again;
      return {};
    }
  }
  if (stopped() && (canary || report_.left > 0)) report_.end = RedriveReport::End::interrupted;
  return {};
}

}  // namespace mainspring::cli
