// Limits of queues in the model: running jobs and their costs are counted each time.
#pragma once

#include <set>

#include "conformance/model_state.h"
#include "model/slots.h"

namespace mainspring {

inline bool has_room_for_searchable(const ModelDisk& disk, const SetQueueLimits& op) {
  if (op.limits.searchable.empty()) return true;
  int others = 0;
  for (const auto& [name, queue] : disk.queues)
    others += name != op.queue && !queue.limits.searchable.empty() ? 1 : 0;
  return others < kMaxSearchableQueues;
}

class ModelLimits {
 public:
  ModelLimits(ModelDisk& disk, WallTime now) : disk_(disk), now_(now) {}

  // Sets the time of the next batch.
  void advance(WallTime now) {
    for (const auto& [id, r] : disk_.jobs) {
      const Job& j = r.job;
      if (j.state != JobState::available || j.limit_key.empty()) continue;
      const auto next = key_opening(j.queue, j.limit_key);
      const RateMeter meter = key_meter(j.queue, j.limit_key);
      if (next && meter.allowed(*find(j.queue)->limits.per_key.rate, now) >= next->begins)
        note_opened(j.queue, std::min(next->at, now));
    }
    now_ = now;
  }
  // How many jobs may start now.
  Room room(const std::string& queue, WallTime now) const {
    const QueueStats* q = find(queue);
    if (q == nullptr || q->paused) return Room::none();
    return room_of(q->limits, slots_taken(queue), meter(queue), now).bound_jobs(under_breaker(*q));
  }
  int cost(const Job& job) const {
    const QueueStats* q = find(job.queue);
    return q == nullptr ? 1 : q->limits.cost_of(job.kind);
  }
  bool fits(const Job& job, WallTime now) const { return room(job.queue, now).fits(cost(job)); }
  // True if the job may have blocked others; it is no longer available.
  bool leaves_line(Job& job) const {
    if (job.state != JobState::available) return false;
    job.state = JobState::waiting;
    return cost(job) > 1;
  }
  bool fits_key(const Job& job) const { return room_of_key(job).fits(cost(job)); }
  // The taken slots of its concurrency, from the running jobs.
  std::int64_t slots_taken(const std::string& queue) const {
    const QueueStats* q = find(queue);
    return q == nullptr
               ? 0
               : slots(q->limits.concurrency, [&](const Job& j) { return j.queue == queue; });
  }
  std::int64_t slots_taken(const std::string& queue, const std::string& key) const {
    const QueueStats* q = find(queue);
    return q == nullptr ? 0 : slots(q->limits.per_key.concurrency, [&](const Job& j) {
      return j.queue == queue && j.limit_key == key;
    });
  }
  bool is_paused(const std::string& queue) const {
    const QueueStats* q = find(queue);
    return q != nullptr && q->paused;
  }
  // The limits of its key allow some job of it to start.
  bool has_room(const Job& job) const { return room_of_key(job).jobs() > 0; }
  // The same by the rate per key.
  std::optional<WallTime> closed_until(const std::string& queue, const std::string& key) const {
    const auto next = key_opening(queue, key);
    return next && next->begins == 1 ? std::optional(next->at) : std::nullopt;
  }
  RateMeter key_meter(const std::string& queue, const std::string& key) const {
    const auto meter = disk_.key_meters.find({queue, key});
    return meter == disk_.key_meters.end() ? RateMeter() : meter->second;
  }
  // True if a concurrency per key applies to it.
  bool counts(const Job& job) const {
    const QueueStats* q = find(job.queue);
    return q != nullptr && q->limits.per_key.concurrency && !job.limit_key.empty();
  }
  // The next of these available jobs: the first job of each queue, and of those the first by
  // effective priority, run_at and id. nullptr = none may start.
  Record* next(const std::vector<Record*>& available, WallTime now) const {
    std::map<std::string, std::vector<Record*>> lines;
    for (Record* r : available) {
      if (r->job.state == JobState::available) lines[r->job.queue].push_back(r);
    }
    Record* next = nullptr;
    for (const auto& [queue, line] : lines) {
      Record* r = room(queue, now).jobs() == 0 ? nullptr : first_of(line, now);
      if (r != nullptr && (next == nullptr || place(r->job, now) < place(next->job, now))) next = r;
    }
    return next;
  }
  // The first claimable job of a queue. A job that does not fit blocks the later jobs of its key,
  // or of the whole queue.
  Record* first_of(const std::vector<Record*>& line, WallTime now) const {
    std::set<std::string> waiting;  // keys
    for (;;) {
      Record* first = nullptr;
      for (Record* r : line) {
        if (waiting.contains(r->job.limit_key)) continue;
        if (first == nullptr || head(r->job, now) < head(first->job, now)) first = r;
      }
      if (first == nullptr) return nullptr;
      if (fits_key(first->job)) return fits(first->job, now) ? first : nullptr;
      waiting.insert(first->job.limit_key);
    }
  }
  bool is_fair(const std::string& queue) const {
    const QueueStats* q = find(queue);
    return q != nullptr && q->limits.per_key.fair;
  }
  // A claim of its queue gave it.
  void count_fair(const Job& job) {
    if (is_fair(job.queue))
      disk_.fair_keys[job.queue].give(job.limit_key, find(job.queue)->limits.per_key, cost(job));
  }
  using Place = std::tuple<int, WallTime, JobId>;
  Place place(const Job& job, WallTime now) const {
    const QueueStats* q = find(job.queue);
    const auto ageing = q == nullptr ? std::nullopt : q->limits.ageing;
    return {effective_priority(job.priority, job.run_at, ageing, now), job.run_at, job.id};
  }
  // As far as it is known without reading the clock.
  bool is_closed(const std::string& queue) const {
    const QueueStats* q = find(queue);
    if (q == nullptr || q->paused || under_breaker(*q) == 0) return true;
    if (mainspring::closed_until(q->limits, meter(queue), q->opens_at)) return true;
    return q->limits.concurrency && slots_taken(queue) >= *q->limits.concurrency;
  }
  // A job of the queue has started. True: the queue was closed, and now is not.
  bool started(const Job& job, WallTime now) {
    const std::string& queue = job.queue;
    QueueStats& q = disk_.queues[queue];
    const auto& of_key = q.limits.per_key.rate;
    if (of_key && !job.limit_key.empty())
      disk_.key_meters[{queue, job.limit_key}].take(*of_key, now, begins_of(cost(job), *of_key));
    const auto& rate = q.limits.rate;
    if (!rate) return false;
    const auto awaited = [&] {
      return q.opens_at ? begins_awaited(q.limits, *rate, meter(queue), *q.opens_at) : 0;
    };
    const int before = awaited();
    disk_.meters[queue].take(*rate, now, begins_of(cost(job), *rate));
    note(queue, now);
    return before > 0 && (!q.opens_at || awaited() > before);
  }
  void set(const SetQueueLimits& op, WallTime now) {
    QueueStats& q = disk_.queues[op.queue];
    if (q.limits.rate != op.limits.rate) disk_.meters.erase(op.queue);
    if (q.limits.per_key.fair != op.limits.per_key.fair) disk_.fair_keys.erase(op.queue);
    if (q.limits.per_key.rate != op.limits.per_key.rate) forget_keys(op.queue);
    q.limits = op.limits;
    note(op.queue, now);
  }
  void forget_keys(const std::string& queue) {
    std::erase_if(disk_.key_meters, [&](const auto& m) { return m.first.first == queue; });
    opened_keys_.erase(queue);
  }
  // The queues with a key that opened since the last call.
  std::map<std::string, WallTime> open_keys() { return std::exchange(opened_keys_, {}); }
  // The queues that are open now.
  std::vector<std::string> open(int limit, WallTime now) {
    std::vector<std::pair<WallTime, std::string>> due;
    for (const auto& [name, q] : disk_.queues) {
      if (q.opens_at && *q.opens_at <= now) due.emplace_back(*q.opens_at, name);
    }
    std::sort(due.begin(), due.end());
    if (std::ssize(due) > limit) due.resize(static_cast<std::size_t>(limit));
    std::vector<std::string> opened;
    for (const auto& [at, name] : due) {
      note(name, now);
      opened.push_back(name);
    }
    return opened;
  }
  WallTime next_opening() const {
    WallTime next = WallTime::never();
    for (const auto& [name, q] : disk_.queues) {
      if (q.opens_at) next = std::min(next, *q.opens_at);
    }
    for (const auto& [queue, at] : opened_keys_) next = std::min(next, at);
    for (const auto& [id, r] : disk_.jobs) {
      if (r.job.state != JobState::available || r.job.limit_key.empty()) continue;
      if (const auto opening = key_opening(r.job.queue, r.job.limit_key))
        next = std::min(next, opening->at);
    }
    return next;
  }

 private:
  void note_opened(const std::string& queue, WallTime at) {
    WallTime& first = opened_keys_.emplace(queue, at).first->second;
    first = std::min(first, at);
  }
  int under_breaker(const QueueStats& q) const {
    const auto breaker = disk_.breakers.find(q.limits.breaker);
    return (breaker == disk_.breakers.end() ? BreakerMeter() : breaker->second.meter).room();
  }
  const QueueStats* find(const std::string& queue) const {
    const auto found = disk_.queues.find(queue);
    return found == disk_.queues.end() ? nullptr : &found->second;
  }
  const RateMeter& meter(const std::string& queue) const {
    static const RateMeter unused;
    const auto found = disk_.meters.find(queue);
    return found == disk_.meters.end() ? unused : found->second;
  }
  template <class Of>
  std::int64_t slots(const std::optional<int>& concurrency, Of of) const {
    std::int64_t n = 0;
    for (const auto& [id, r] : disk_.jobs) {
      if (r.job.state == JobState::running && of(r.job))
        n += concurrency ? slots_of(cost(r.job), *concurrency) : 1;
    }
    return n;
  }
  Room room_of_key(const Job& job) const {
    const QueueStats* q = find(job.queue);
    if (q == nullptr || job.limit_key.empty() || !q->limits.per_key.bounds()) return {};
    const std::int64_t taken = slots_taken(job.queue, job.limit_key);
    return mainspring::room_of_key(q->limits.per_key, taken, key_meter(job.queue, job.limit_key),
                                   now_);
  }
  std::optional<RateOpening> key_opening(const std::string& queue, const std::string& key) const {
    const QueueStats* q = find(queue);
    if (q == nullptr) return std::nullopt;
    return next_key_opening(q->limits, key_meter(queue, key), now_);
  }
  // The place of a job within its queue.
  std::tuple<int, std::int64_t, WallTime, JobId> head(const Job& job, WallTime now) const {
    const auto [priority, run_at, id] = place(job, now);
    const auto fair = disk_.fair_keys.find(job.queue);
    const bool counts = is_fair(job.queue) && fair != disk_.fair_keys.end();
    return {priority, counts ? fair->second.start(job.limit_key) : 0, run_at, id};
  }
  void note(const std::string& queue, WallTime now) {
    QueueStats& q = disk_.queues[queue];
    q.opens_at.reset();
    if (!q.limits.rate) return;
    if (const auto next = next_rate_opening(q.limits, *q.limits.rate, meter(queue), now))
      q.opens_at = next->at;
  }

  ModelDisk& disk_;
  WallTime now_;
  std::map<std::string, WallTime> opened_keys_;  // queues, and when first
};

}  // namespace mainspring
