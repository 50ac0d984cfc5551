// What the broker's metrics are read from when somebody asks.
#include <algorithm>

#include "broker/broker.h"

namespace mainspring {

void Broker::register_gauges() {
  registry_.gauge("mainspring_parked_claims", "Claims that wait for work.",
                  [this] { return static_cast<double>(parked_claims()); });
  registry_.gauge("mainspring_store_commits_total",
                  "Transactions committed to the store since start.",
                  [this] { return static_cast<double>(store_.commits()); });
  registry_.gauge("mainspring_store_reads_total", "Queries of the store's database since start.",
                  [this] { return static_cast<double>(store_.reads()); });
  registry_.gauges("mainspring_queue_jobs", "Jobs kept now, by queue and state.", [this] {
    Registry::Samples samples;
    const auto queues = Broker::queues();
    for (const QueueStats& queue : queues ? *queues : std::vector<QueueStats>{}) {
      for (std::size_t i = 0; i < queue.counts.size(); ++i) {
        const auto state = to_string(static_cast<JobState>(i));
        samples.push_back({{{"queue", queue.name}, {"state", std::string(state)}},
                           static_cast<double>(queue.counts[i])});
      }
    }
    return samples;
  });
  registry_.gauges("mainspring_queue_quarantined", "Jobs in quarantine now, by queue.", [this] {
    Registry::Samples samples;
    const auto queues = Broker::queues();
    for (const QueueStats& queue : queues ? *queues : std::vector<QueueStats>{})
      samples.push_back({{{"queue", queue.name}}, static_cast<double>(queue.quarantined)});
    return samples;
  });
  registry_.gauges(
      "mainspring_queue_oldest_available_seconds",
      "How long the oldest available job of a queue has been due.", [this] {
        Registry::Samples samples;
        const WallTime now = clock_.now().wall;
        const auto queues = store_.queues();
        for (const QueueStats& queue : queues ? *queues : std::vector<QueueStats>{}) {
          const Duration age = now - queue.oldest_available.value_or(now);
          samples.push_back({{{"queue", queue.name}},
                             static_cast<double>(std::max(age, Duration(0)).count()) / 1e6});
        }
        return samples;
      });
}

void Broker::drop_gauges() {
  // The registry lives on: what it asks must not lead here any more.
  registry_.gauge("mainspring_parked_claims", "Claims that wait for work.", [] { return 0.0; });
  registry_.gauge("mainspring_store_commits_total",
                  "Transactions committed to the store since start.", [] { return 0.0; });
  registry_.gauge("mainspring_store_reads_total", "Queries of the store's database since start.",
                  [] { return 0.0; });
  registry_.gauges("mainspring_queue_jobs", "Jobs kept now.", {});
  registry_.gauges("mainspring_queue_quarantined", "Jobs in quarantine.", {});
  registry_.gauges("mainspring_breaker_state", "", {});
  registry_.gauges("mainspring_breaker_opened_total", "", {});
  registry_.gauges("mainspring_queue_oldest_available_seconds", "Age of the oldest one.", {});
}

}  // namespace mainspring
