// Compares the jobs that claims gave with those that still wait.
#include "simulation/order_invariant.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

namespace mainspring::simulation {
namespace {

constexpr int kOrderMaxWaiting = 1000;
constexpr double kRounding = 0.001;  // turns are whole millionths

// As docs/guides define it: one level per ageing interval since run_at, up to 0.
int class_now(int priority, WallTime run_at, const QueueLimits& limits, WallTime now) {
  if (!limits.ageing || now < run_at) return priority;
  const std::int64_t risen = (now - run_at).count() / limits.ageing->count();
  return risen >= priority ? 0 : priority - static_cast<int>(risen);
}

bool touches(const Operation& operation, const std::string& queue) {
  if (const auto* claim = std::get_if<Claim>(&operation))
    return std::find(claim->queues.begin(), claim->queues.end(), queue) != claim->queues.end();
  const auto* enqueue = std::get_if<Enqueue>(&operation);
  return enqueue != nullptr && !enqueue->jobs.empty() && enqueue->jobs[0].queue == queue;
}

}  // namespace

std::string OrderInvariant::applied(std::span<const Operation> batch, const BatchReport* report,
                                    const Store& store, WallTime now) {
  for (auto& [name, queue] : queues_) {
    bool touched = false;
    std::vector<ClaimedJob> given;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const auto* change = std::get_if<SetQueueLimits>(&batch[i]);
      if (report == nullptr || (change != nullptr && change->queue == name)) queue.known = false;
      touched = touched || touches(batch[i], name);
      const auto* got = report == nullptr ? nullptr : std::get_if<ClaimResult>(&report->results[i]);
      for (const ClaimedJob& job : got ? got->jobs : std::vector<ClaimedJob>{}) {
        if (job.queue == name) given.push_back(job);
      }
    }
    if (report == nullptr || !touched) continue;
    if (std::string why = look(name, given, store, now); !why.empty()) return why;
  }
  return "";
}

// What is available leaves that state by a claim alone: what is there again, unchanged, has been
// there all the time.
std::string OrderInvariant::look(const std::string& name, const std::vector<ClaimedJob>& given,
                                 const Store& store, WallTime now) {
  Queue& queue = queues_.at(name);
  const bool was_known = queue.known;
  if (!was_known) learn(name, store);
  const auto page = store.list({.queue = name, .state = JobState::available}, kOrderMaxWaiting, 0);
  if (!page) return forget(queue), "";
  std::map<JobId, Waiting> waiting, stayed;
  for (const Job& job : page->jobs) {
    const Waiting w{job.priority, job.run_at, job.limit_key};
    waiting.emplace(job.id, w);
    const auto before = queue.waiting.find(job.id);
    if (before != queue.waiting.end() && before->second.run_at == w.run_at)
      stayed.emplace(job.id, w);
  }
  queue.waiting = std::move(waiting);
  if (!was_known) return "";
  if (std::string why = judge(name, given, stayed, now); !why.empty()) return why;
  return queue.limits.per_key.fair ? judge_races(given, stayed, store) : "";
}

// Jobs that the batch made available look like earlier ones, so they are not judged.
std::string OrderInvariant::judge(const std::string& name, const std::vector<ClaimedJob>& given,
                                  const std::map<JobId, Waiting>& stayed, WallTime now) {
  const QueueLimits& limits = queues_.at(name).limits;
  const bool fair = limits.per_key.fair;
  const auto place = [&](int priority, WallTime run_at, JobId id) {
    const int at = class_now(priority, run_at, limits, now);
    return fair ? std::tuple(at, WallTime(), JobId()) : std::tuple(at, run_at, id);
  };
  for (const ClaimedJob& job : given) {
    for (const auto& [id, other] : stayed) {
      ++judged_;
      overtook_ += other.priority < job.priority ? 1 : 0;
      if (place(job.priority, job.run_at, job.id) <= place(other.priority, other.run_at, id))
        continue;
      return fmt::format(
          "{}: job {} of {} (priority {}, of {}) is given at {} before job {} (priority {}, of {})",
          class_now(job.priority, job.run_at, limits, now) >
                  class_now(other.priority, other.run_at, limits, now)
              ? "PRIO-1"
              : "PRIO-2",
          job.id, name, job.priority, format_wall_time(job.run_at), format_wall_time(now), id,
          other.priority, format_wall_time(other.run_at));
    }
  }
  return "";
}

double OrderInvariant::turn(const std::string& key) const {
  const auto& weights = queues_.at(kFairQueue).limits.per_key.weights;
  const auto weight = weights.find(key);
  return 1 / (weight == weights.end() ? kDefaultWeight : weight->second);
}

std::string OrderInvariant::judge_races(const std::vector<ClaimedJob>& given,
                                        const std::map<JobId, Waiting>& stayed,
                                        const Store& store) {
  std::set<std::string> busy;
  for (const auto& [id, job] : stayed) busy.insert(job.key);
  std::map<std::string, std::int64_t> got;
  for (const ClaimedJob& job : given) {
    const auto one = store.get(job.id);
    if (!one) return forget(queues_.at(kFairQueue)), "";
    ++got[one->limit_key];
  }
  std::erase_if(races_, [&](const auto& race) {
    return !busy.contains(race.first.first) || !busy.contains(race.first.second);
  });
  for (auto a = busy.begin(); a != busy.end(); ++a) {
    for (auto b = std::next(a); b != busy.end(); ++b) {
      Race& race = races_[{*a, *b}];
      race.first += got[*a];
      race.second += got[*b];
      turns_ += got[*a] + got[*b];
      const double ahead =
          static_cast<double>(race.first) * turn(*a) - static_cast<double>(race.second) * turn(*b);
      if (std::abs(ahead) <= turn(*a) + turn(*b) + slack_ + kRounding) continue;
      return fmt::format(
          "FAIR-1: since keys \"{}\" (weight {}) and \"{}\" (weight {}) of {} both have jobs they "
          "got {} and {}",
          *a, 1 / turn(*a), *b, 1 / turn(*b), kFairQueue, race.first, race.second);
    }
  }
  return "";
}

// The server is dying: the given jobs cannot be read any more.
void OrderInvariant::forget(Queue& queue) {
  queue.known = false;
  races_.clear();
}

void OrderInvariant::learn(const std::string& name, const Store& store) {
  const auto queues = store.queues();
  if (!queues) return;
  Queue& queue = queues_.at(name);
  for (const QueueStats& stats : *queues) {
    if (stats.name != name) continue;
    if (name == kFairQueue && queue.limits.per_key != stats.limits.per_key) {
      for (const auto& [key, weight] : queue.limits.per_key.weights)
        slack_ = std::max(slack_, 1 / weight);
      if (queue.limits.per_key.fair) slack_ = std::max(slack_, 1 / kDefaultWeight);
    }
    queue.limits = stats.limits;
    queue.known = true;
  }
  if (name == kFairQueue) races_.clear();
}

}  // namespace mainspring::simulation
