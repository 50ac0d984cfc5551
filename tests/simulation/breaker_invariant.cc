// Follows a breaker from requests and answers of the store, and judges which jobs it let start.
#include "simulation/breaker_invariant.h"

#include <fmt/format.h>

#include <algorithm>

namespace mainspring::simulation {
namespace {

std::optional<BreakerInfo> told(const Store& store, WallTime now) {
  const auto all = store.breakers(now);
  for (const BreakerInfo& info : all ? *all : std::vector<BreakerInfo>()) {
    if (info.name == kBreaker) return info;
  }
  return std::nullopt;
}

}  // namespace

std::string BreakerInvariant::applied(std::span<const Operation> batch, const BatchReport* report,
                                      const Store& store, WallTime now, bool steady) {
  steady_ = steady;
  if (report == nullptr || now < last_) phase_ = Phase::unknown;
  last_ = now;
  if (report == nullptr) return "";
  gave_ = just_closed_ = false;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (std::string why = see(batch[i], report->results[i], now); !why.empty()) return why;
  }
  if (behind_.empty()) return "";
  if (phase_ == Phase::unknown) learn(store, now);
  if (std::string why = gave_ ? check_room(store) : ""; !why.empty()) return why;
  return check_reported(store, now);
}

std::string BreakerInvariant::see(const Operation& operation, const OperationResult& result,
                                  WallTime now) {
  if (const auto* got = std::get_if<ClaimResult>(&result)) return given(got->jobs, now);
  if (const auto* finish = std::get_if<Finish>(&operation)) {
    if (const auto* r = std::get_if<FinishResult>(&result)) ended(*finish, *r, now);
  }
  if (!std::holds_alternative<Done>(result)) return "";
  if (const auto* change = std::get_if<SetQueueLimits>(&operation)) changed(*change);
  if (const auto* put = std::get_if<PutBreaker>(&operation); put != nullptr) {
    // It is not visible which of them set its room.
    if (put->settings.probes != settings_.probes && phase_ != Phase::closed)
      phase_ = Phase::unknown;
    settings_ = put->settings;
  }
  if (const auto* by_hand = std::get_if<OpenBreaker>(&operation)) {
    const Duration time = by_hand->open_for == Duration(0) ? settings_.open_for : by_hand->open_for;
    if (phase_ == Phase::closed) length_ = settings_.open_for;
    if (phase_ == Phase::unknown) length_ = Duration(0);  // at least
    open(now + time);
  }
  if (std::holds_alternative<CloseBreaker>(operation)) {
    phase_ = gave_ ? Phase::unknown : Phase::closed;
    failures_.clear();
    ++opening_;
  }
  return "";
}

bool BreakerInvariant::is_protected(const std::string& queue) const {
  const auto found = behind_.find(queue);
  return found != behind_.end() && found->second;
}

std::string BreakerInvariant::given(const std::vector<ClaimedJob>& jobs, WallTime now) {
  for (const ClaimedJob& job : jobs) {
    if (is_protected(job.queue)) {
      gave_ = true;
      if (phase_ == Phase::open && now < until_) {
        return fmt::format("BRK-1: job {} of {} begins {} ms before breaker {} is half open",
                           job.id, job.queue, (until_ - now).count() / 1000, kBreaker);
      }
      if (phase_ == Phase::open) {
        phase_ = Phase::half_open;
        room_ = settings_.probes;
        succeeded_ = 0;
      }
    }
    attempts_[job.id] = {job.queue, job.token, opening_};
  }
  return "";
}

void BreakerInvariant::ended(const Finish& finish, const FinishResult& result, WallTime now) {
  for (std::size_t i = 0; i < finish.results.size(); ++i) {
    const JobOutcome& one = finish.results[i];
    const auto found = attempts_.find(one.id);
    if (result.results[i] != FinishStatus::ok || found == attempts_.end() ||
        found->second.token != one.token)
      continue;
    const Attempt attempt = found->second;
    attempts_.erase(found);
    if (!is_protected(attempt.queue)) continue;
    const auto* retry = std::get_if<Retry>(&one.outcome);
    const auto* snooze = std::get_if<Snooze>(&one.outcome);
    if (retry != nullptr) failed(attempt, now);
    if (std::holds_alternative<Complete>(one.outcome)) succeeded(attempt);
    const auto asked = retry != nullptr    ? retry->open_breaker_for
                       : snooze != nullptr ? snooze->open_breaker_for
                                           : std::nullopt;
    if (!asked) continue;
    const Duration time = std::min(*asked, settings_.max_open_for);
    if (phase_ == Phase::open && until_ >= now + time) continue;
    if (phase_ == Phase::closed) length_ = settings_.open_for;
    if (phase_ == Phase::unknown) length_ = Duration(0);
    ++opened_;
    open(now + time);
  }
}

void BreakerInvariant::failed(const Attempt& attempt, WallTime now) {
  if (attempt.opening != opening_) return;  // it does not count
  if (phase_ == Phase::half_open) {
    length_ = std::min(2 * std::max(length_, kMinBreakerTime), settings_.max_open_for);
    ++reopened_;
    return open(now + length_);
  }
  if (phase_ != Phase::closed) return;
  if (!steady_) return void(phase_ = Phase::unknown);
  std::erase_if(failures_, [&](WallTime at) { return at + settings_.within <= now; });
  failures_.push_back(now);
  if (std::ssize(failures_) < settings_.failures) return;
  length_ = settings_.open_for;
  ++opened_;
  open(now + length_);
}

void BreakerInvariant::succeeded(const Attempt& attempt) {
  if (phase_ != Phase::half_open || attempt.opening != opening_ || ++succeeded_ < room_) return;
  room_ *= 2;
  succeeded_ = 0;
  if (room_ < kBreakerFullRoom) return;
  phase_ = Phase::closed;
  failures_.clear();
  just_closed_ = true;
  ++closed_;
}

void BreakerInvariant::open(WallTime until) {
  phase_ = Phase::open;
  until_ = until;
  ++opening_;
}

// Whose attempts are its probes, and which failures count, is not followed over this.
void BreakerInvariant::changed(const SetQueueLimits& change) {
  const bool names = change.limits.breaker == kBreaker;
  if (names == is_protected(change.queue)) return;
  behind_[change.queue] = names;
  phase_ = Phase::unknown;
}

// Jobs that lost their lease freed their places.
std::string BreakerInvariant::check_room(const Store& store) {
  if (phase_ != Phase::half_open) return "";
  int running = 0;
  for (const auto& [id, attempt] : attempts_) {
    if (attempt.opening != opening_ || !is_protected(attempt.queue)) continue;
    const auto job = store.get(id);
    if (!job && job.error().code != ErrorCode::not_found) return "";  // the server is dying
    running += job && job->state == JobState::running && job->token == attempt.token ? 1 : 0;
  }
  at_room_ += running == room_ ? 1 : 0;
  if (running <= room_) return "";
  return fmt::format("BRK-2: {} jobs run under half-open breaker {}, {} may", running, kBreaker,
                     room_);
}

std::string BreakerInvariant::check_reported(const Store& store, WallTime now) {
  const bool is_open = phase_ == Phase::open && now < until_;
  if (!is_open && !just_closed_) return "";
  const auto info = told(store, now);
  if (!info) return "";
  if (is_open && (info->state != BreakerState::open || *info->open_until < until_))
    return fmt::format("BRK-1: breaker {} is open until {}, and is reported as {} until {}",
                       kBreaker, format_wall_time(until_), to_string(info->state),
                       info->open_until ? format_wall_time(*info->open_until) : "any time");
  if (just_closed_ && phase_ == Phase::closed && info->state != BreakerState::closed)
    return fmt::format("BRK-3: enough probes of breaker {} succeeded, and it is {}", kBreaker,
                       to_string(info->state));
  return "";
}

// Takes over the reported state where it is complete: open, or just closed.
void BreakerInvariant::learn(const Store& store, WallTime now) {
  const auto info = told(store, now);
  const auto queues = store.queues();
  if (!info || !queues) return;
  settings_ = info->settings;
  std::int64_t running = 0;
  for (const QueueStats& queue : *queues) {
    const bool names = queue.limits.breaker == kBreaker;
    if (!names && !behind_.contains(queue.name)) continue;
    behind_[queue.name] = names;
    running += queue.counts[static_cast<std::size_t>(JobState::running)];
  }
  if (info->state == BreakerState::open) {
    length_ = Duration(0);
    open(*info->open_until);
  } else if (info->state == BreakerState::closed && info->failures == 0 && running == 0) {
    phase_ = Phase::closed;
    failures_.clear();
    ++opening_;
  }
}

}  // namespace mainspring::simulation
