// Judges claims by the state of the queue after them, and by the start times of jobs.
#include "simulation/limit_invariant.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace mainspring::simulation {
namespace {

std::string of_key(const std::string& queue, const std::string& key) {
  return fmt::format("{} with limit_key {}", queue, key);
}

}  // namespace

std::int64_t cost_of(const QueueLimits& limits, const std::string& kind) {
  for (const auto& [heavy, cost] : limits.costs) {
    if (heavy == kind) return cost;
  }
  return 1;
}

std::optional<std::vector<Job>> running_in(const std::string& queue, const Store& store) {
  constexpr int kPage = 1000, kMaxPages = 1000;
  std::vector<Job> running;
  JobId before = 0;
  for (int n = 0; n < kMaxPages; ++n) {
    auto page = store.list({.queue = queue, .state = JobState::running}, kPage, before);
    if (!page) return std::nullopt;
    std::move(page->jobs.begin(), page->jobs.end(), std::back_inserter(running));
    if (!page->next) return running;
    before = *page->next;
  }
  return std::nullopt;
}

std::int64_t slots_taken(const std::vector<Job>& running, const std::string& limit_key,
                         const QueueLimits& limits, int slots) {
  std::int64_t taken = 0;
  for (const Job& job : running) {
    if (!limit_key.empty() && job.limit_key != limit_key) continue;
    taken += std::min<std::int64_t>(cost_of(limits, job.kind), slots);
  }
  return taken;
}

// A job costs at most all slots of the rate.
void Begins::add(const RateLimit& rate, WallTime at, std::int64_t cost) {
  const int all = rate.kind == RateKind::bucket && rate.burst > 0 ? rate.burst : rate.count;
  begins_.push_back({at, std::min<std::int64_t>(cost, all)});
}

std::string Begins::check(const RateLimit& rate, WallTime now) const {
  if (rate.kind == RateKind::bucket) return check_bucket(rate);
  const auto window = [&](WallTime at) { return at.us() / rate.per.count(); };
  std::int64_t n = 0;
  for (const Begin& begin : begins_) {
    const bool counts = rate.kind == RateKind::sliding ? begin.at > now - rate.per
                                                       : window(begin.at) == window(now);
    n += counts ? begin.slots : 0;
  }
  if (n <= rate.count) return "";
  return fmt::format("{} began in {} ms, {} may ({})", n, rate.per.count() / 1000, rate.count,
                     to_string(rate.kind));
}

// The bucket's content in microseconds of `per`; an interval that is not whole microseconds may
// be rounded.
std::string Begins::check_bucket(const RateLimit& rate) const {
  const std::int64_t per = rate.per.count();
  const std::int64_t full = per * (rate.burst > 0 ? rate.burst : rate.count);
  std::int64_t content = full, all = 0;
  for (const Begin& begin : begins_) all += begin.slots;
  const std::int64_t rounding = rate.count * all;
  WallTime last = begins_.empty() ? WallTime() : begins_.front().at;
  for (const Begin& begin : begins_) {
    content = std::min(full, content + (begin.at - last).count() * rate.count) - per * begin.slots;
    last = begin.at;
    if (content >= -rounding) continue;
    return fmt::format("{} started at once, more than the bucket of {} in {} ms had", begin.slots,
                       rate.count, per / 1000);
  }
  return "";
}

std::string LimitInvariant::applied(std::span<const Operation> batch, const BatchReport* report,
                                    const Store& store, WallTime now, bool steady) {
  bool changed = false;
  given_.clear();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const OperationResult* result = report == nullptr ? nullptr : &report->results[i];
    changed = changes(batch[i], result) || changed;
    const auto* got = result == nullptr ? nullptr : std::get_if<ClaimResult>(result);
    const auto* claim = got == nullptr ? nullptr : std::get_if<Claim>(&batch[i]);
    if (claim == nullptr) continue;
    if (std::string why = take(*claim, *got, now); !why.empty()) return why;
  }
  if ((given_.empty() && !unknown_) || report == nullptr) return "";
  const auto queues = store.queues();
  if (!queues) return "";
  const auto queue = std::find_if(queues->begin(), queues->end(),
                                  [this](const QueueStats& q) { return q.name == queue_; });
  if (queue == queues->end()) return "";
  if (unknown_) {
    unknown_ = false;
    limits_ = queue->limits;
    begins_ = {};
    of_key_.clear();
    return "";
  }
  closed_ += queue->opens_at ? 1 : 0;
  if (limits_.per_key.bounds()) take_keys(store, now);
  if (std::string why = changed ? "" : check_slots(*queue, store); !why.empty()) return why;
  return steady && !changed ? check_rates(store, now) : "";
}

bool LimitInvariant::changes(const Operation& operation, const OperationResult* result) {
  const auto* change = std::get_if<SetQueueLimits>(&operation);
  if (change == nullptr || change->queue != queue_) return false;
  if (result == nullptr) unknown_ = true;
  if (result == nullptr || !std::holds_alternative<Done>(*result)) return true;
  if (change->limits.rate != limits_.rate) begins_ = {};
  if (change->limits.per_key.rate != limits_.per_key.rate) of_key_.clear();
  limits_ = change->limits;
  return true;
}

std::string LimitInvariant::take(const Claim& claim, const ClaimResult& result, WallTime now) {
  for (const ClaimedJob& job : result.jobs) {
    if (job.queue != queue_) continue;
    const std::int64_t cost = cost_of(limits_, job.kind);
    if (job.cost != cost && !unknown_)
      return fmt::format("CONC-5: job {} of {} costs {}, and is said to cost {}", job.id, queue_,
                         cost, job.cost);
    heavy_ += cost > 1 ? 1 : 0;
    if (limits_.concurrency) note_capped(cost, *limits_.concurrency);
    if (limits_.rate) begins_.add(*limits_.rate, now, cost);
    given_.push_back({.id = job.id, .cost = cost});
  }
  return check_asked(claim, result);
}

// Reads call the disk, which may fail: read no more than necessary.
void LimitInvariant::take_keys(const Store& store, WallTime now) {
  const KeyLimits& limits = limits_.per_key;
  for (Given& one : given_) {
    const auto whole = store.get(one.id);
    one.key = whole ? whole->limit_key : "";
    if (one.key.empty()) continue;
    if (limits.concurrency) note_capped(one.cost, *limits.concurrency);
    if (limits.rate) of_key_[one.key].add(*limits.rate, now, one.cost);
  }
}

// For claims of this queue alone without a job id. The first job is given in any case.
std::string LimitInvariant::check_asked(const Claim& claim, const ClaimResult& result) const {
  if (claim.job != 0 || claim.queues != std::vector<std::string>{queue_} || unknown_) return "";
  std::int64_t slots = 0;
  for (const ClaimedJob& job : result.jobs)
    slots += std::min<std::int64_t>(cost_of(limits_, job.kind), claim.max);
  if (slots <= claim.max) return "";
  return fmt::format("CONC-5: a claim of {} for {} slots got {} jobs, which take {}", queue_,
                     claim.max, result.jobs.size(), slots);
}

std::string LimitInvariant::check_slots(const QueueStats& queue, const Store& store) {
  const auto bound = limits_.concurrency;
  std::int64_t taken = queue.counts[static_cast<std::size_t>(JobState::running)];
  std::vector<Job> running;
  if (!limits_.costs.empty() || limits_.per_key.concurrency) {
    auto listed = running_in(queue_, store);
    if (!listed) return "";  // the server is dying
    running = std::move(*listed);
    if (bound) taken = slots_taken(running, "", limits_, *bound);
  }
  if (bound && taken > *bound)
    return fmt::format("CONC-1: {} slots of {} are taken after a claim, it has {}", taken, queue_,
                       *bound);
  if (bound && taken != queue.slots_taken)
    return fmt::format("CONC-1: {} slots of {} are taken, and it says {}", taken, queue_,
                       queue.slots_taken);
  at_bound_ += bound && taken == *bound ? 1 : 0;
  return limits_.per_key.concurrency ? check_keys(*limits_.per_key.concurrency, running) : "";
}

std::string LimitInvariant::check_keys(int slots, const std::vector<Job>& running) {
  for (const Given& one : given_) {
    if (one.key.empty()) continue;
    const std::int64_t taken = slots_taken(running, one.key, limits_, slots);
    if (taken > slots)
      return fmt::format("CONC-3: {} slots of {} are taken after a claim, it has {}", taken,
                         of_key(queue_, one.key), slots);
    keys_at_bound_ += taken == slots ? 1 : 0;
  }
  return "";
}

std::string LimitInvariant::check_rates(const Store& store, WallTime now) {
  if (limits_.rate) {
    if (std::string why = begins_.check(*limits_.rate, now); !why.empty())
      return fmt::format("CONC-2: of {} {}", queue_, why);
  }
  if (!limits_.per_key.rate) return "";
  std::set<std::string> keys;
  for (const Given& one : given_) {
    if (!one.key.empty()) keys.insert(one.key);
  }
  for (const std::string& key : keys) {
    if (std::string why = of_key_[key].check(*limits_.per_key.rate, now); !why.empty())
      return fmt::format("CONC-4: of {} {}", of_key(queue_, key), why);
    const auto told = store.limit_key(queue_, key);
    keys_closed_ += told && told->opens_at ? 1 : 0;
  }
  return "";
}

}  // namespace mainspring::simulation
