// Limits of queues in the model: what runs is counted each time.
#pragma once

#include "conformance/model_state.h"
#include "model/rate.h"

namespace mainspring {

class ModelLimits {
 public:
  ModelLimits(ModelDisk& disk, WallTime now) : disk_(disk), now_(now) {}

  // To the time of the batch that comes.
  void advance(WallTime now) {
    for (const auto& [id, r] : disk_.jobs) {
      const Job& j = r.job;
      if (j.state != JobState::available || j.limit_key.empty()) continue;
      const auto at = closed_until(j.queue, j.limit_key);
      const auto meter = disk_.key_meters.find({j.queue, j.limit_key});
      if (at && !key_closed_until(find(j.queue)->limits.per_key, meter->second, now))
        note_opened(j.queue, *at);
    }
    now_ = now;
  }
  // How many may begin now.
  int room(const std::string& queue, WallTime now) const {
    const QueueStats* q = find(queue);
    if (q == nullptr || q->paused) return 0;
    return std::min(room_of(q->limits, running(queue), meter(queue), now), under_breaker(*q));
  }
  bool is_paused(const std::string& queue) const {
    const QueueStats* q = find(queue);
    return q != nullptr && q->paused;
  }
  bool lets(const Job& job, WallTime now) const {
    return room(job.queue, now) > 0 && has_room(job);
  }
  // As far as its key is concerned.
  bool has_room(const Job& job) const {
    if (!job.limit_key.empty() && closed_until(job.queue, job.limit_key)) return false;
    return !counts(job) ||
           running_of(job.queue, job.limit_key) < *find(job.queue)->limits.per_key.concurrency;
  }
  // By the rate per key.
  std::optional<WallTime> closed_until(const std::string& queue, const std::string& key) const {
    const QueueStats* q = find(queue);
    const auto meter = disk_.key_meters.find({queue, key});
    if (q == nullptr || meter == disk_.key_meters.end()) return std::nullopt;
    return key_closed_until(q->limits.per_key, meter->second, now_);
  }
  // A concurrency per key is for it.
  bool counts(const Job& job) const {
    const QueueStats* q = find(job.queue);
    return q != nullptr && q->limits.per_key.concurrency && !job.limit_key.empty();
  }
  std::int64_t running_of(const std::string& queue, const std::string& key) const {
    return std::count_if(disk_.jobs.begin(), disk_.jobs.end(), [&](const auto& entry) {
      const Job& j = entry.second.job;
      return j.queue == queue && j.limit_key == key && j.state == JobState::running;
    });
  }
  // Of these available jobs the one that is given next: of each queue its first, and of those the
  // first by what its priority counts as, run_at and id. nullptr = none may begin.
  Record* next(const std::vector<Record*>& available, WallTime now) const {
    std::map<std::string, Record*> firsts;
    for (Record* r : available) {
      if (r->job.state != JobState::available) continue;
      Record*& first = firsts[r->job.queue];
      if (first != nullptr && turn(first->job, now) < turn(r->job, now)) continue;
      if (lets(r->job, now)) first = r;
    }
    Record* next = nullptr;
    for (const auto& [queue, r] : firsts) {
      if (r != nullptr && (next == nullptr || place(r->job, now) < place(next->job, now))) next = r;
    }
    return next;
  }
  bool is_fair(const std::string& queue) const {
    const QueueStats* q = find(queue);
    return q != nullptr && q->limits.per_key.fair;
  }
  // It was given by a claim of its queue.
  void count_turn(const Job& job) {
    if (is_fair(job.queue))
      disk_.turns[job.queue].give(job.limit_key, find(job.queue)->limits.per_key);
  }
  using Place = std::tuple<int, WallTime, JobId>;
  Place place(const Job& job, WallTime now) const {
    const QueueStats* q = find(job.queue);
    const auto ageing = q == nullptr ? std::nullopt : q->limits.ageing;
    return {effective_priority(job.priority, job.run_at, ageing, now), job.run_at, job.id};
  }
  // As far as one knows without a look at the clock.
  bool is_closed(const std::string& queue) const {
    const QueueStats* q = find(queue);
    if (q == nullptr || q->paused || q->opens_at || under_breaker(*q) == 0) return true;
    return q->limits.concurrency && running(queue) >= *q->limits.concurrency;
  }
  // A job of it has begun. True: it had been closed, and is not.
  bool begun(const Job& job, WallTime now) {
    const std::string& queue = job.queue;
    QueueStats& q = disk_.queues[queue];
    const auto& of_key = q.limits.per_key.rate;
    if (of_key && !job.limit_key.empty())
      disk_.key_meters[{queue, job.limit_key}].take(*of_key, now, 1);
    if (!q.limits.rate) return false;
    const bool was_closed = q.opens_at.has_value();
    disk_.meters[queue].take(*q.limits.rate, now, 1);
    note(queue, now);
    return was_closed && !q.opens_at;
  }
  void set(const SetQueueLimits& op, WallTime now) {
    QueueStats& q = disk_.queues[op.queue];
    if (q.limits.rate != op.limits.rate) disk_.meters.erase(op.queue);
    if (q.limits.per_key.fair != op.limits.per_key.fair) disk_.turns.erase(op.queue);
    if (q.limits.per_key.rate != op.limits.per_key.rate) forget_keys(op.queue);
    q.limits = op.limits;
    note(op.queue, now);
  }
  void forget_keys(const std::string& queue) {
    std::erase_if(disk_.key_meters, [&](const auto& m) { return m.first.first == queue; });
    opened_keys_.erase(queue);
  }
  // Those of which a key has opened since they were asked for last.
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
      next = std::min(next, closed_until(r.job.queue, r.job.limit_key).value_or(WallTime::never()));
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
  std::int64_t running(const std::string& queue) const {
    return std::count_if(disk_.jobs.begin(), disk_.jobs.end(), [&](const auto& entry) {
      return entry.second.job.queue == queue && entry.second.job.state == JobState::running;
    });
  }
  // Where a job stands within its queue.
  std::tuple<int, std::int64_t, WallTime, JobId> turn(const Job& job, WallTime now) const {
    const auto [priority, run_at, id] = place(job, now);
    const auto turns = disk_.turns.find(job.queue);
    const bool counts = is_fair(job.queue) && turns != disk_.turns.end();
    return {priority, counts ? turns->second.start(job.limit_key) : 0, run_at, id};
  }
  void note(const std::string& queue, WallTime now) {
    QueueStats& q = disk_.queues[queue];
    q.opens_at.reset();
    if (q.limits.rate && meter(queue).allowed(*q.limits.rate, now) == 0)
      q.opens_at = meter(queue).opens_at(*q.limits.rate, now);
  }

  ModelDisk& disk_;
  WallTime now_;
  std::map<std::string, WallTime> opened_keys_;  // queues, and when first
};

}  // namespace mainspring
