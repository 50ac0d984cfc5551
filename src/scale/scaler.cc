// The demand of queues: what waits, what holds it, how long it takes.
#include "scale/scaler.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "broker/broker.h"
#include "model/callback.h"
#include "model/queue_pattern.h"

namespace mainspring {
namespace {

constexpr Duration kArrivalsWindow = std::chrono::minutes(1);  // of arrivals
constexpr Duration kBetweenSamples = std::chrono::seconds(2);
constexpr Duration kPoolKept = std::chrono::minutes(15);  // after the last call
constexpr int kSampledJobs = 256;
constexpr double kMostOtherKeys = 4;
constexpr std::size_t kMaxPastQueues = 100;
constexpr std::size_t kQueuesCounted = 4;  // whose due jobs are counted one by one

std::int64_t count(const QueueStats& queue, JobState state) {
  return queue.counts[static_cast<std::size_t>(state)];
}

// Slots in which jobs of the queue may run at once, and the gate that is the narrowest.
void add_caps(const QueueStats& queue, const ScaleLoad& load, WallTime now, ScaleQueue& out) {
  std::optional<double> cap;
  const auto narrow = [&](double slots, const char* gate) {
    if (cap && *cap <= slots) return;
    cap = slots;
    out.gate = gate;
  };
  if (load.cap) narrow(*load.cap, "key_limit");
  if (queue.limits.concurrency) narrow(*queue.limits.concurrency, "limit");
  if (queue.limits.rate) {
    const double starts = queue.limits.rate->count / as_seconds(queue.limits.rate->per);
    narrow(std::max(1.0, std::ceil(starts * load.mean_s / kScaleUse)), "rate");
  }
  if (queue.paused) narrow(0, "pause");
  if (!cap) return;
  out.load.cap = cap;
  double room = std::max(0.0, *cap - load.running) / load.cost;
  if (queue.opens_at && *queue.opens_at > now) room = 0;
  out.held = std::max<std::int64_t>(0, out.ready - static_cast<std::int64_t>(std::ceil(room)));
  if (out.held == 0) out.gate.clear();
}

}  // namespace

bool ScaleRequest::has(std::string_view queue) const {
  if (queue.starts_with(kReservedQueues) || !within.has(queue)) return false;
  return queues.empty() || std::any_of(queues.begin(), queues.end(),
                                       [&](const std::string& one) { return overlap(one, queue); });
}

double Scaler::arrivals(const QueueStats& queue, Instant now) {
  // Jobs that are scheduled for later arrive when they are due.
  const std::int64_t later = count(queue, JobState::scheduled) + count(queue, JobState::waiting);
  const std::int64_t arrived = queue.enqueued - later;
  double usual = queue.backlog ? queue.backlog->arrivals_per_second : 0;
  usual = std::max(0.0, usual - static_cast<double>(later) / as_seconds(kArrivalsWindow));
  MutexLock lock(mutex_);
  if (seen_.size() > kMaxScaleQueues) seen_.clear();
  auto& samples = seen_[queue.name].enqueued;
  if (samples.empty() || now - samples.back().first >= kBetweenSamples) {
    samples.emplace_back(now, arrived);
  }
  while (samples.size() > 1 && now - samples[1].first >= kArrivalsWindow) samples.pop_front();
  const auto& [since, before] = samples.front();
  const double known = std::min(as_seconds(now - since), 2 * as_seconds(kArrivalsWindow));
  const auto jobs = static_cast<double>(std::max<std::int64_t>(0, arrived - before));
  if (now - since >= kArrivalsWindow) return jobs / as_seconds(now - since);
  return (jobs + usual * (as_seconds(kArrivalsWindow) - known)) / as_seconds(kArrivalsWindow);
}

Result<void> Scaler::sample(const QueueStats& queue, Instant now, ScaleLoad& load) {
  const auto& key_limit = queue.limits.per_key.concurrency;
  if (queue.limits.costs.empty() && !key_limit) return {};
  {
    MutexLock lock(mutex_);
    const Seen& seen = seen_[queue.name];
    if (seen.sampled != Instant::never() && now - seen.sampled < kBetweenSamples) {
      load.cost = seen.cost;
      load.cap = seen.key_cap;
      return {};
    }
  }
  const JobFilter waiting{.queue = queue.name, .kind = "", .tag = "", .state = JobState::available};
  std::vector<Job> jobs;
  if (load.ready > 0) {
    MS_TRY_ASSIGN(JobPage page, broker_.list(waiting, kSampledJobs, 0));
    jobs = std::move(page.jobs);
  }
  double cost = 0;
  std::set<std::string, std::less<>> keys;
  bool all_have_keys = true;
  for (const Job& job : jobs) {
    cost += queue.limits.cost_of(job.kind);
    keys.insert(job.limit_key);
    all_have_keys = all_have_keys && !job.limit_key.empty();
  }
  if (!jobs.empty()) load.cost = cost / static_cast<double>(jobs.size());
  // With few keys among many jobs, more jobs of the same keys are likely.
  if (key_limit && all_have_keys && !jobs.empty()) {
    const double slots = static_cast<double>(keys.size()) * *key_limit;
    // Jobs that were not sampled may have other keys.
    const std::int64_t all = count(queue, JobState::available);
    const double parts = std::clamp(static_cast<double>(all) / static_cast<double>(jobs.size()),
                                    1.0, kMostOtherKeys);
    if (parts == 1 || slots <= static_cast<double>(jobs.size()) / 4) load.cap = slots * parts;
  }
  MutexLock lock(mutex_);
  Seen& seen = seen_[queue.name];
  seen.sampled = now;
  seen.cost = load.cost;
  seen.key_cap = load.cap;
  return {};
}

Result<ScaleQueue> Scaler::load_of(const QueueStats& queue, Now now) {
  ScaleQueue out{.name = queue.name};
  out.running = count(queue, JobState::running);
  const std::int64_t quarantined = std::max<std::int64_t>(0, queue.quarantined - 1);
  const std::int64_t available = count(queue, JobState::available);
  out.ready = available;
  if (queue.oldest_available) {
    out.oldest = std::max(now.wall - *queue.oldest_available, Duration(0));
  }
  out.load.arrivals_per_s = arrivals(queue, now.instant);
  if (available + out.running == 0 && out.load.arrivals_per_s <= 0 &&
      count(queue, JobState::scheduled) + count(queue, JobState::retryable) == 0) {
    return out;
  }
  MS_TRY_ASSIGN(out.service, broker_.service_time(queue.name));
  out.load.mean_s = as_seconds(out.service.mean);
  out.load.ready = static_cast<double>(available);
  out.load.running = static_cast<double>(std::max(queue.slots_taken, out.running));
  MS_TRY(sample(queue, now.instant, out.load));
  add_caps(queue, ScaleLoad(out.load), now.wall, out);
  if (quarantined > 0 && out.held < quarantined) {
    out.held = std::min(quarantined, available);
    out.gate = "quarantine";
  }
  out.load.ready = static_cast<double>(out.ready - out.held);
  return out;
}

// The store examines a bounded number of due jobs at each count. So few queues are counted one by
// one; many queues share their sum by what they have scheduled, as do all if there are more jobs
// than it examines.
Result<void> Scaler::add_due_jobs(const std::vector<QueueStats>& queues,
                                  const ScaleRequest& request, Now now,
                                  std::map<std::string, std::int64_t>& due) {
  const std::string key = request.key();
  {
    MutexLock lock(mutex_);
    const auto pool = pools_.find(key);
    if (pool != pools_.end() && pool->second.due_read != Instant::never() &&
        now.instant - pool->second.due_read < kBetweenSamples) {
      due = pool->second.due;
      return {};
    }
  }
  std::vector<std::pair<std::string, std::int64_t>> later;  // by queue
  std::int64_t all_later = 0;
  std::vector<Scope> scopes;
  for (const QueueStats& queue : queues) {
    const std::int64_t jobs = count(queue, JobState::scheduled) + count(queue, JobState::retryable);
    if (jobs == 0 || queue.paused || !request.has(queue.name)) continue;
    later.emplace_back(queue.name, jobs);
    scopes.push_back({Verb::read, queue.name});
    all_later += jobs;
  }
  const Duration lead = std::max<Duration>(request.options.lead, std::chrono::seconds(1));
  const auto counted = [&](std::vector<Scope> of) -> Result<std::optional<std::int64_t>> {
    const Within within{std::make_shared<const Scopes>(Scopes(std::move(of)))};
    MS_TRY_ASSIGN(const Upcoming soon, broker_.upcoming(lead, kMaxUpcomingTicks, within));
    const bool all_ticks = soon.cut.empty() && std::ssize(soon.ticks) < kMaxUpcomingTicks;
    if (soon.truncated && all_ticks) return std::optional<std::int64_t>();
    std::int64_t jobs = 0;
    for (const DueJobs& hour : soon.due) jobs += hour.jobs;
    return std::optional(jobs);
  };
  if (!later.empty()) {
    MS_TRY_ASSIGN(const auto sum, counted(std::move(scopes)));
    for (const auto& [queue, jobs] : later) {
      if (sum && *sum > 0 && later.size() > 1 && later.size() <= kQueuesCounted) {
        MS_TRY_ASSIGN(const auto one, counted({{Verb::read, queue}}));
        due[queue] = one.value_or(0);
        continue;
      }
      const auto share = static_cast<double>(jobs) / static_cast<double>(all_later);
      const auto known = sum ? *sum : std::min<std::int64_t>(all_later, kMaxDueCounted);
      due[queue] = std::llround(share * static_cast<double>(known));
    }
  }
  MutexLock lock(mutex_);
  const auto pool = pools_.find(key);
  if (pool == pools_.end()) return {};  // its first call
  pool->second.due_read = now.instant;
  pool->second.due = due;
  return {};
}

Result<void> Scaler::collect(const ScaleRequest& request, Now now, ScaleSignal& out) {
  MS_TRY_ASSIGN(const std::vector<QueueStats> queues, broker_.queues());
  const Agenda agenda = broker_.agenda();
  const Duration lead = std::max<Duration>(request.options.lead, std::chrono::seconds(1));
  std::map<std::string, std::int64_t> ticks, due_jobs;  // by queue
  if (agenda.next_due <= now.wall + lead) {
    MS_TRY(add_due_jobs(queues, request, now, due_jobs));
  }
  if (agenda.next_schedule <= now.wall + request.options.lead) {
    MS_TRY_ASSIGN(const auto due, broker_.due_schedules(now.wall + request.options.lead,
                                                        static_cast<int>(kMaxScaleQueues)));
    for (const ScheduleInfo& info : due) ++ticks[info.schedule.job.queue];
  }
  std::map<std::string, BreakerInfo, std::less<>> breakers;
  const bool any_breaker = std::any_of(queues.begin(), queues.end(), [&](const QueueStats& queue) {
    return !queue.limits.breaker.empty() && request.has(queue.name);
  });
  if (any_breaker) {
    MS_TRY_ASSIGN(auto all, broker_.breakers());
    for (BreakerInfo& one : all) breakers.emplace(one.name, std::move(one));
  }
  for (const QueueStats& queue : queues) {
    if (!request.has(queue.name) || out.queues.size() == kMaxScaleQueues) continue;
    MS_TRY_ASSIGN(ScaleQueue one, load_of(queue, now));
    const auto breaker = breakers.find(queue.limits.breaker);
    if (breaker != breakers.end() && breaker->second.state != BreakerState::closed) {
      const bool open = breaker->second.state == BreakerState::open;
      const double room = open ? 0 : breaker->second.room;
      if (!one.load.cap || *one.load.cap > room) one.load.cap = room;
      one.held = std::max<std::int64_t>(0, one.ready - static_cast<std::int64_t>(room));
      one.load.ready = static_cast<double>(one.ready - one.held);
      if (one.held > 0) one.gate = "breaker";
    }
    if (const auto due = due_jobs.find(queue.name); due != due_jobs.end()) one.due = due->second;
    if (const auto tick = ticks.find(queue.name); tick != ticks.end()) one.due += tick->second;
    ticks.erase(queue.name);
    one.load.due = static_cast<double>(one.due);
    if (one.load.mean_s == 0) one.load.mean_s = as_seconds(one.service.mean);
    out.queues.push_back(std::move(one));
  }
  for (const auto& [queue, jobs] : ticks) {  // of queues that have no job yet
    if (!request.has(queue)) continue;
    ScaleQueue one{.name = queue, .due = jobs};
    one.load = {.mean_s = as_seconds(one.service.mean)};
    one.load.due = static_cast<double>(jobs);
    out.queues.push_back(std::move(one));
  }
  return {};
}

Result<void> Scaler::add_workers(const ScaleRequest& request, ScaleSignal& out) {
  MS_TRY_ASSIGN(const std::vector<WorkerInfo> workers, broker_.workers());
  for (const WorkerInfo& worker : workers) {
    const bool ours = std::any_of(worker.queues.begin(), worker.queues.end(),
                                  [&](const std::string& queue) { return request.has(queue); });
    if (!ours) continue;
    ++out.workers_seen;
    if (worker.command != WorkerCommand::none) {
      ++out.workers_quiet;
    } else if (worker.running == 0) {
      ++out.workers_idle;
    }
  }
  return {};
}

// The workers that the arrivals of the last minutes needed: so that a restart does not lower the
// value at once.
std::vector<int> Scaler::past_needs(const ScaleRequest& request, const ScaleSignal& signal) {
  const auto minutes = static_cast<std::size_t>(request.options.hold / std::chrono::minutes(1)) + 1;
  std::vector<double> slots(minutes, 0);
  std::size_t read = 0;
  for (const ScaleQueue& queue : signal.queues) {
    if (queue.load.arrivals_per_s <= 0 || ++read > kMaxPastQueues) continue;
    const WallTime now = clock_.now().wall;
    const auto history = broker_.history({.queue = queue.name,
                                          .kind = "",
                                          .from = now - request.options.hold,
                                          .to = now,
                                          .step = std::chrono::minutes(1)});
    if (!history) continue;
    const auto& points = history->points;
    for (std::size_t i = 0; i < std::min(points.size(), minutes); ++i) {
      const auto jobs = static_cast<double>(points[points.size() - 1 - i].enqueued);
      const double needed = jobs / 60 * queue.load.mean_s * queue.load.cost / kScaleUse;
      slots[minutes - 1 - i] += std::min(needed, queue.load.cap.value_or(needed));
    }
  }
  std::vector<int> out;
  for (const double one : slots) {
    const double workers = std::ceil(one / request.options.slots - 1e-9);
    out.push_back(static_cast<int>(std::clamp<double>(workers, 0, kMaxScaleWorkers)));
  }
  return out;
}

void Scaler::decide(const ScaleRequest& request, Now now, ScaleSignal& out) {
  const std::string key = request.key();
  bool fresh = false;
  {
    MutexLock lock(mutex_);
    std::erase_if(pools_, [&](const auto& one) {
      return now.instant - one.second.asked > kPoolKept + one.second.request.options.hold;
    });
    fresh = !pools_.contains(key);
  }
  std::vector<int> past;
  if (fresh && request.options.hold > Duration(0)) past = past_needs(request, out);
  MutexLock lock(mutex_);
  if (pools_.size() >= kMaxScalePools && !pools_.contains(key)) pools_.erase(pools_.begin());
  Pool& pool = pools_[key];
  pool.asked = now.instant;
  pool.request = request;
  for (std::size_t i = 0; i < past.size(); ++i) {
    const auto ago = std::chrono::minutes(1) * static_cast<int>(past.size() - 1 - i);
    pool.rule.remember(now.instant - ago, past[i]);
  }
  const double running = [&] {
    double sum = 0;
    for (const ScaleQueue& queue : out.queues) sum += queue.load.running;
    return sum;
  }();
  const int floor = static_cast<int>(std::ceil(running / out.options.slots));
  out.desired = pool.rule.desired(now.instant, out.raw, floor, out.options);
  if (const auto falls = pool.rule.falls_at()) {
    out.until = now.wall + std::max(*falls - now.instant, Duration(0));
  }
}

Result<ScaleSignal> Scaler::signal(const ScaleRequest& request) {
  const Now now = clock_.now();
  ScaleSignal out;
  out.options = with_windows(request.options, request.windows, now.wall);
  MS_TRY(collect(request, now, out));
  std::vector<ScaleLoad> loads;
  double slots_s = 0, samples_s = 0;
  for (ScaleQueue& queue : out.queues) {
    const SlotsNeeded alone = slots_needed({&queue.load, 1}, out.options);
    queue.workers = raw_workers({&queue.load, 1}, alone, out.options);
    loads.push_back(queue.load);
    out.ready += queue.ready;
    out.running += queue.running;
    out.due += queue.due;
    out.held += queue.held;
    out.arrivals_per_s += queue.load.arrivals_per_s;
    out.work_seconds += queue.load.ready * queue.load.mean_s * queue.load.cost;
    if (queue.oldest) out.oldest = std::max(out.oldest.value_or(Duration(0)), *queue.oldest);
    // The service times of the queue with the most work are shown.
    const double work = alone.total + queue.load.mean_s * 1e-6;
    if (work > slots_s) out.service = queue.service, slots_s = work;
    samples_s += alone.flow;
  }
  out.needed = slots_needed(loads, out.options);
  out.raw = raw_workers(loads, out.needed, out.options);
  MS_TRY(add_workers(request, out));
  decide(request, now, out);
  const double free = out.desired * out.options.slots - samples_s;
  if (out.work_seconds <= 0) {
    out.drain = Duration(0);
  } else if (free > 0) {
    out.drain = Duration(static_cast<std::int64_t>(out.work_seconds / free * 1e6));
  }
  std::erase_if(out.queues, [](const ScaleQueue& queue) {
    return queue.ready + queue.running + queue.due == 0 && queue.load.arrivals_per_s <= 0;
  });
  out.reason = scale_reason(out);
  return out;
}

}  // namespace mainspring
