// Limits of a broker.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "broker/events.h"
#include "mainspring/time.h"

namespace mainspring {

struct BrokerOptions {
  // Jobs in enqueues that wait for a commit. Beyond: overloaded. Raise if bursts are refused; each
  // job costs its size in memory.
  std::size_t max_waiting_jobs = 200'000;
  std::size_t max_waiting_bytes = 256 << 20;
  // Claims parked at once. Beyond: overloaded.
  std::size_t max_parked_claims = 100'000;
  // Urgent operations (renew, finish, cancel, scheduler steps) waiting for a commit. Beyond:
  // overloaded.
  std::size_t max_waiting_urgent = 100'000;
  // Jobs and bytes touched by one commit (a single larger operation still goes alone). Raise for
  // throughput, lower for latency.
  std::size_t max_batch_jobs = 4'000;
  std::size_t max_batch_bytes = 32 << 20;
  // Logs a line of level debug for each commit.
  bool log_batches = false;
  // A worker is forgotten after this long without a request.
  Duration worker_memory = std::chrono::minutes(5);
  // How often a store that other nodes change is polled, ± 20 %, in case a hint of another node was
  // lost. Raise to reduce the load on the database.
  Duration poll = std::chrono::seconds(5);
  // The commit loop runs at least once a second while leases are held. If it has not run, or not
  // reached its store, for longer than this, the server stood still: leases are extended by that
  // time before lost jobs are rescued. kForever = never; for callers that step by hand.
  Duration standstill = kForever;
  EventOptions events = {};
  // Directories below which triggers may watch folders; empty = nowhere.
  std::vector<std::string> watch_roots = {};
};

}  // namespace mainspring
