// The breakers of the model store.
#pragma once

#include <functional>

#include "conformance/model_state.h"

namespace mainspring {

inline std::vector<BreakerInfo> describe_breakers(const ModelDisk& disk, WallTime now) {
  std::vector<BreakerInfo> out;
  for (const auto& [name, breaker] : disk.breakers) {
    BreakerInfo& info = out.emplace_back();
    info.name = name;
    info.settings = breaker.settings;
    breaker.meter.describe(breaker.settings, now, info);
    for (const auto& [queue, stats] : disk.queues) {
      if (stats.limits.breaker == name) info.queues.push_back(queue);
    }
  }
  return out;
}

template <class T>
concept BreakerOperation = std::is_same_v<T, PutBreaker> || std::is_same_v<T, RemoveBreaker> ||
    std::is_same_v<T, OpenBreaker> || std::is_same_v<T, CloseBreaker>;

class ModelBreakers {
 public:
  // `opened` is called for queues that can give jobs again.
  ModelBreakers(ModelDisk& disk, std::function<void(const std::string&)> opened)
      : disk_(disk), opened_(std::move(opened)) {
    (void)take_changed(WallTime());
  }

  bool has(const std::string& name) const { return disk_.breakers.contains(name); }

  OperationResult run(const PutBreaker& op, WallTime) {
    if (!has(op.name) && std::ssize(disk_.breakers) >= kMaxBreakers) return too_many_breakers();
    disk_.breakers[op.name].settings = op.settings;
    return Done{};
  }
  OperationResult run(const RemoveBreaker& op, WallTime) {
    if (!has(op.name)) return no_breaker(op.name);
    if (const auto queues = queues_of(op.name); !queues.empty())
      return breaker_in_use(op.name, queues);
    disk_.breakers.erase(op.name);
    return Done{};
  }
  OperationResult run(const OpenBreaker& op, WallTime now) {
    if (!has(op.name)) return no_breaker(op.name);
    auto& [settings, meter] = disk_.breakers[op.name];
    meter.set_open(settings, op.open_for == Duration(0) ? settings.open_for : op.open_for, now);
    return Done{};
  }
  OperationResult run(const CloseBreaker& op, WallTime now) {
    if (!has(op.name)) return no_breaker(op.name);
    disk_.breakers[op.name].meter.set_closed(now);
    open_queues(op.name);
    return Done{};
  }

  // Called before the limits of a queue change.
  void leave(const SetQueueLimits& op, WallTime now) {
    const std::string name = disk_.queues[op.queue].limits.breaker;
    if (name.empty() || name == op.limits.breaker) return;
    auto& [settings, meter] = disk_.breakers[name];
    const auto probes = meter.probes();
    for (const BreakerMeter::Probe& probe : probes) {
      if (disk_.jobs.contains(probe.id) && disk_.jobs[probe.id].job.queue == op.queue)
        meter.end(settings, probe, now, BreakerMeter::End::neither, now);
    }
    if (!probes.empty()) open_queues(name);
  }
  void claimed_from(const std::vector<std::string>& lines, WallTime now) {
    for (const std::string& line : lines) {
      const auto queue = disk_.queues.find(std::string(base_queue_of(line)));
      if (queue != disk_.queues.end()) step(queue->second.limits.breaker, now);
    }
  }
  bool step(const std::string& name, WallTime now) {
    if (!has(name)) return false;
    auto& [settings, meter] = disk_.breakers[name];
    if (meter.state() != BreakerState::open || meter.open_until() > now) return false;
    meter.step(settings, now);
    open_queues(name);
    return true;
  }
  int step_all(int limit, WallTime now) {
    int changed = 0;
    for (const auto& [name, breaker] : disk_.breakers) {
      if (changed < limit && step(name, now)) ++changed;
    }
    return changed;
  }
  void started(const Job& job) {
    const std::string& name = disk_.queues[job.queue].limits.breaker;
    if (has(name)) disk_.breakers[name].meter.begin({job.id, job.token});
  }
  void ended(const Job& job, BreakerMeter::End how, std::optional<Duration> open_for,
             WallTime now) {
    const std::string& name = disk_.queues[job.queue].limits.breaker;
    if (!has(name)) return;
    auto& [settings, meter] = disk_.breakers[name];
    const std::size_t probes = meter.probes().size();
    meter.end(settings, {job.id, job.token}, *job.started_at, how, now);
    if (open_for) meter.open_for(settings, *open_for, now);
    if (meter.probes().size() != probes) open_queues(name);
  }
  WallTime next_half_open() const {
    WallTime next = WallTime::never();
    for (const auto& [name, breaker] : disk_.breakers) {
      if (breaker.meter.state() == BreakerState::open)
        next = std::min(next, breaker.meter.open_until());
    }
    return next;
  }

  // The breakers whose state changed since the last call; new ones start closed.
  std::vector<BreakerInfo> take_changed(WallTime now) {
    std::vector<BreakerInfo> changed;
    std::map<std::string, BreakerState> states;
    for (BreakerInfo& info : describe_breakers(disk_, now)) {
      states[info.name] = info.state;
      info.queues.clear();
      if (info.state != told_[info.name]) changed.push_back(std::move(info));
    }
    told_ = std::move(states);
    return changed;
  }

 private:
  std::vector<std::string> queues_of(const std::string& name) const {
    std::vector<std::string> out;
    for (const auto& [queue, stats] : disk_.queues) {
      if (stats.limits.breaker == name) out.push_back(queue);
    }
    return out;
  }
  void open_queues(const std::string& name) {
    if (disk_.breakers[name].meter.room() == 0) return;
    for (const std::string& queue : queues_of(name)) opened_(queue);
  }

  ModelDisk& disk_;
  std::function<void(const std::string&)> opened_;
  std::map<std::string, BreakerState> told_;
};

}  // namespace mainspring
