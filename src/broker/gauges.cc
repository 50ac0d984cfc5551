// Gauges of the broker, read when the metrics are scraped.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "broker/broker.h"
#include "model/callback.h"

namespace mainspring {

void Broker::register_gauges() {
  registry_.gauge("mainspring_parked_claims", "Waiting claims.",
                  [this] { return static_cast<double>(parked_claims()); });
  registry_.counter_of("mainspring_store_commits_total", "Committed transactions of the store.",
                       [this] { return static_cast<double>(store_.commits()); });
  registry_.counter_of("mainspring_store_reads_total", "Queries of the store.",
                       [this] { return static_cast<double>(store_.reads()); });
  registry_.counter_of("mainspring_history_dropped_total",
                       "Events that are missing in the history because too many waited.", [this] {
                         MutexLock lock(mutex_);
                         return static_cast<double>(history_.dropped());
                       });
  // One sample for each queue with a label of its own, and one for all others.
  using Add = std::function<void(double& value, const QueueStats& queue)>;
  const auto samples = [this](const std::vector<Labels>& more, const std::vector<Add>& add) {
    const auto queues = Broker::queues();
    if (!queues) return Registry::Samples{};
    const std::vector<std::string> labels = queue_labels_.of(*queues);
    std::map<std::string_view, std::vector<double>> values;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      auto& of_queue = values.try_emplace(labels[i], add.size(), 0.0).first->second;
      for (std::size_t j = 0; j < add.size(); ++j) add[j](of_queue[j], (*queues)[i]);
    }
    Registry::Samples all;
    for (const auto& [label, of_queue] : values) {
      for (std::size_t j = 0; j < add.size(); ++j) {
        Labels with = {{"queue", std::string(label)}};
        with.insert(with.end(), more[j].begin(), more[j].end());
        all.emplace_back(std::move(with), of_queue[j]);
      }
    }
    return all;
  };
  registry_.gauges("mainspring_queue_jobs", "Jobs by queue and state.", [samples] {
    std::vector<Labels> states;
    std::vector<Add> add;
    for (std::size_t i = 0; i < kJobStateCount; ++i) {
      states.push_back({{"state", std::string(to_string(static_cast<JobState>(i)))}});
      add.emplace_back([i](double& value, const QueueStats& queue) {
        value += static_cast<double>(queue.counts[i]);
      });
    }
    return samples(states, add);
  });
  registry_.gauges("mainspring_queue_quarantined", "Quarantined jobs by queue.", [samples] {
    return samples({{}}, {[](double& value, const QueueStats& queue) {
                     value += static_cast<double>(queue.quarantined);
                   }});
  });
  registry_.gauges("mainspring_queue_oldest_available_seconds",
                   "Age of the oldest available job of a queue.", [this, samples] {
                     const WallTime now = clock_.now().wall;
                     return samples(
                         {{}}, {[now](double& value, const QueueStats& queue) {
                           const Duration age = now - queue.oldest_available.value_or(now);
                           value = std::max(value, static_cast<double>(age.count()) / 1e6);
                         }});
                   });
  register_backlog_gauges();
  register_worker_gauge();
}

void Broker::register_worker_gauge() {
  registry_.gauges(
      "mainspring_workers",
      "Workers recently seen by this server, by version and language; after 50 pairs as other.",
      [this] {
        constexpr std::size_t kMaxPairs = 50;
        std::map<std::pair<std::string, std::string>, double> pairs;
        for (const WorkerInfo& worker : own_workers()) {
          const bool own =
              !worker.queues.empty() && worker.queues.front().starts_with(kReservedQueues);
          if (!own) pairs[{worker.facts.version, worker.facts.language}] += 1;
        }
        // The pairs with most workers keep their labels.
        std::vector<std::pair<double, std::pair<std::string, std::string>>> by_count;
        for (const auto& [pair, count] : pairs) by_count.emplace_back(-count, pair);
        std::sort(by_count.begin(), by_count.end());
        Registry::Samples samples;
        double others = 0;
        for (std::size_t i = 0; i < by_count.size(); ++i) {
          const auto& [count, pair] = by_count[i];
          if (i >= kMaxPairs) {
            others -= count;
          } else {
            samples.emplace_back(Labels{{"version", pair.first}, {"language", pair.second}},
                                 -count);
          }
        }
        if (others > 0)
          samples.emplace_back(Labels{{"version", "other"}, {"language", "other"}}, others);
        return samples;
      });
}

// The largest value of the queues that share a label; queues without a value have no sample.
void Broker::register_backlog_gauges() {
  using Value = std::optional<double> (*)(const QueueStats&);
  const auto largest = [this](Value value_of) {
    const auto queues = Broker::queues();
    if (!queues) return Registry::Samples{};
    const std::vector<std::string> labels = queue_labels_.of(*queues);
    std::map<std::string_view, double> values;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const auto value = value_of((*queues)[i]);
      if (!value) continue;
      const auto [known, fresh] = values.try_emplace(labels[i], *value);
      if (!fresh) known->second = std::max(known->second, *value);
    }
    Registry::Samples all;
    for (const auto& [label, value] : values)
      all.emplace_back(Labels{{"queue", std::string(label)}}, value);
    return all;
  };
  registry_.gauges("mainspring_queue_drain_seconds",
                   "Time to complete the available jobs of a queue at its pace; absent if unknown.",
                   [largest] {
                     return largest([](const QueueStats& queue) -> std::optional<double> {
                       if (!queue.backlog || !queue.backlog->drain) return std::nullopt;
                       return static_cast<double>(queue.backlog->drain->count()) / 1e6;
                     });
                   });
  registry_.gauges(
      "mainspring_queue_limit_use_ratio",
      "Ratio of running jobs, or of their slots, to the concurrency limit of a queue.", [largest] {
        return largest([](const QueueStats& queue) -> std::optional<double> {
          if (!queue.limits.concurrency) return std::nullopt;
          const auto running = queue.counts[static_cast<std::size_t>(JobState::running)];
          const auto taken = std::max(queue.slots_taken, running);
          return static_cast<double>(taken) /
                 std::max(1.0, static_cast<double>(*queue.limits.concurrency));
        });
      });
}

void Broker::drop_gauges() {
  // The registry outlives the broker, so its gauges must not call into the broker any more.
  registry_.gauge("mainspring_parked_claims", "Waiting claims.", [] { return 0.0; });
  for (const char* name : {"mainspring_store_commits_total", "mainspring_store_reads_total",
                           "mainspring_history_dropped_total", "mainspring_breaker_opened_total"})
    registry_.counters_of(name, "", {});
  registry_.gauges("mainspring_queue_jobs", "Jobs kept now.", {});
  registry_.gauges("mainspring_queue_quarantined", "Jobs in quarantine.", {});
  registry_.gauges("mainspring_breaker_state", "", {});
  registry_.gauges("mainspring_queue_oldest_available_seconds", "Age of the oldest one.", {});
  registry_.gauges("mainspring_queue_drain_seconds", "", {});
  registry_.gauges("mainspring_queue_limit_use_ratio", "", {});
  registry_.gauges("mainspring_workers", "", {});
}

}  // namespace mainspring
