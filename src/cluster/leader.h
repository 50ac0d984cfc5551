// Leadership: which node of the cluster leads, as this node knows it.
//
//   term, lease ──set()──▶ Leadership ──view()──▶ each request: answer it here, or relay it
//                              └──────changed───▶ requests that wait for a leader, open links
//
// Other code decides who leads and calls set(). Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "mainspring/time.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace mainspring {

struct LeaderView {
  std::int64_t term = 0;
  std::int64_t node = 0;  // 0 = no leader is known
  std::string address;    // HOST:PORT of the leader's HTTP server
  WallTime since = {};    // when the term began
  bool is_me = false;
  std::string why;  // the reason for the change: "node 2 was lost"
};

class Leadership {
 public:
  // Starts without a leader. Registers metrics. All references outlive the object.
  Leadership(Log& log, Registry& registry);

  std::shared_ptr<const LeaderView> view() const MS_EXCLUDES(mutex_);
  // Replaces the view, logs a change of the leader and calls the watchers. A view of an earlier
  // term is ignored.
  void set(LeaderView view) MS_EXCLUDES(mutex_);
  // Calls `changed` after each change of the view, on the thread of set(), until the returned
  // handle is destroyed. `changed` must not block.
  std::shared_ptr<void> watch(std::function<void()> changed) MS_EXCLUDES(mutex_);

  // Notes whether the leader answers this node; `problem` "" = it does. Logs a change.
  void note_reach(std::string problem) MS_EXCLUDES(mutex_);
  // Why this node cannot serve requests: there is no leader, or the leader does not answer.
  // nullopt = it can.
  std::optional<std::string> not_ready() const MS_EXCLUDES(mutex_);
  // "node 2 at 10.0.0.2:8080 leads since 2026-01-31T09:00:00Z (term 7: node 1 was lost)"
  std::string describe() const MS_EXCLUDES(mutex_);

  // Requests that this node relayed, by outcome: the leader answered; nothing was done, and the
  // caller may try again; the connection to the leader broke, so the outcome is unknown.
  Counter& answered;
  Counter& refused;
  Counter& lost;
  // Requests that wait for a leader now, on all threads, and their bytes.
  std::atomic<int> held{0};
  std::atomic<std::size_t> held_bytes{0};

 private:
  struct Watchers;
  Log& log_;
  Counter& takeovers_;
  mutable Mutex mutex_;
  std::shared_ptr<const LeaderView> view_ MS_GUARDED_BY(mutex_);
  std::string problem_ MS_GUARDED_BY(mutex_);
  bool had_leader_ MS_GUARDED_BY(mutex_) = false;
  const std::shared_ptr<Watchers> watchers_;
};

}  // namespace mainspring
