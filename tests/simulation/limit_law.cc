// Judges claims by what the store says of the queue behind them, and by when jobs began.
#include "simulation/limit_law.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace mainspring::simulation {

std::string LimitLaw::applied(std::span<const Operation> batch, const BatchReport* report,
                              const Store& store, WallTime now, bool steady) {
  bool changed = false;
  std::vector<ClaimedJob> given;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto* change = std::get_if<SetQueueLimits>(&batch[i]);
    if (change != nullptr && change->queue == queue_) {
      changed = true;
      if (report == nullptr) unknown_ = true;
      const bool done = report != nullptr && std::holds_alternative<Done>(report->results[i]);
      if (!done || change->limits.rate == rate_) continue;
      rate_ = change->limits.rate;
      begins_.clear();
    }
    const auto* got = report == nullptr ? nullptr : std::get_if<ClaimResult>(&report->results[i]);
    if (got == nullptr) continue;
    for (const ClaimedJob& job : got->jobs) {
      if (job.queue != queue_) continue;
      given.push_back(job);
      if (rate_) begins_.push_back(now);
    }
  }
  if (given.empty() && !unknown_) return "";
  const auto queues = store.queues();
  if (!queues || report == nullptr) return "";
  const auto queue = std::find_if(queues->begin(), queues->end(),
                                  [this](const QueueStats& q) { return q.name == queue_; });
  if (queue == queues->end()) return "";
  if (unknown_) {
    unknown_ = false;
    rate_ = queue->limits.rate;
    begins_.clear();
    return "";
  }
  if (changed) return "";
  const std::int64_t running = queue->counts[static_cast<std::size_t>(JobState::running)];
  const auto bound = queue->limits.concurrency;
  if (bound && running > *bound)
    return fmt::format("CONC-1: {} jobs of {} run behind a claim, {} may", running, queue_, *bound);
  at_bound_ += bound && running == *bound ? 1 : 0;
  closed_ += queue->opens_at ? 1 : 0;
  if (const auto of_key = queue->limits.per_key.concurrency) {
    if (std::string why = check_keys(given, *of_key, store); !why.empty()) return why;
  }
  return steady ? check_rate(now) : "";
}

std::string LimitLaw::check_keys(const std::vector<ClaimedJob>& given, int bound,
                                 const Store& store) {
  constexpr int kMaxRunning = 1000;
  const auto page = store.list({.queue = queue_, .state = JobState::running}, kMaxRunning, 0);
  std::map<std::string, int> running;
  for (const Job& job : page ? page->jobs : std::vector<Job>()) ++running[job.limit_key];
  for (const ClaimedJob& one : given) {
    const auto job = store.get(one.id);
    if (!job || job->limit_key.empty()) continue;
    const int n = running[job->limit_key];
    if (n > bound)
      return fmt::format("CONC-3: {} jobs of {} with limit_key {} run behind a claim, {} may", n,
                         queue_, job->limit_key, bound);
    keys_at_bound_ += n == bound ? 1 : 0;
  }
  return "";
}

std::string LimitLaw::check_rate(WallTime now) const {
  if (!rate_) return "";
  if (rate_->kind == RateKind::bucket) return check_bucket();
  const auto window = [&](WallTime at) { return at.us() / rate_->per.count(); };
  const auto n = std::count_if(begins_.begin(), begins_.end(), [&](WallTime at) {
    return rate_->kind == RateKind::sliding ? at > now - rate_->per : window(at) == window(now);
  });
  if (n <= rate_->count) return "";
  return fmt::format("CONC-2: {} jobs of {} began in {} ms, {} may ({})", n, queue_,
                     rate_->per.count() / 1000, rate_->count, to_string(rate_->kind));
}

// The bucket's content in microseconds of `per`; an interval that is not whole microseconds may
// be rounded.
std::string LimitLaw::check_bucket() const {
  const std::int64_t per = rate_->per.count();
  const std::int64_t full = per * (rate_->burst > 0 ? rate_->burst : rate_->count);
  std::int64_t content = full;
  const std::int64_t rounding = rate_->count * static_cast<std::int64_t>(begins_.size());
  WallTime last = begins_.empty() ? WallTime() : begins_.front();
  for (const WallTime at : begins_) {
    content = std::min(full, content + (at - last).count() * rate_->count) - per;
    last = at;
    if (content >= -rounding) continue;
    return fmt::format("CONC-2: a job of {} began although the bucket of {} in {} ms was empty",
                       queue_, rate_->count, per / 1000);
  }
  return "";
}

}  // namespace mainspring::simulation
