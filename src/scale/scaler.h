// Scaler: the demand of queues and the workers that it needs, for GET /v1/scale and its metrics.
//
// It reads counters in memory; the store only for costs and limit keys of waiting jobs, jobs that
// are due soon, and once for the history of a queue. An idle store is not read.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "broker/service_times.h"
#include "env/clock.h"
#include "model/access.h"
#include "scale/rule.h"
#include "scale/window.h"

namespace mainspring {

class Broker;
class Registry;
struct QueueStats;

inline constexpr std::size_t kMaxScaleQueues = 1000;
inline constexpr std::size_t kMaxScalePools = 100;

struct ScaleRequest {
  std::vector<std::string> queues{};  // names, or patterns such as "tenant/*"; empty = all
  std::string pool{};                 // for its gauges; "" = none
  ScaleOptions options{};
  std::vector<ScaleWindow> windows{};
  Within within{};  // other queues do not count
  // Parameters as in the query of GET /v1/scale replace what was read before, but windows add to
  // it; others are ignored. Errors: invalid_argument.
  Result<void> read(const std::vector<std::pair<std::string, std::string>>& parameters);
  bool has(std::string_view queue) const;
  // Requests with the same one share a hold.
  std::string key() const;
};

struct ScaleQueue {
  std::string name;
  std::int64_t ready = 0, running = 0, due = 0;
  std::int64_t held = 0;  // ready jobs that more workers would not start
  std::string gate;       // what holds them; "" = nothing
  ScaleLoad load{};
  int workers = 0;  // that its demand needs alone
  ServiceTime service{};
  std::optional<Duration> oldest{};
};

struct ScaleSignal {
  int desired = 0, raw = 0;
  SlotsNeeded needed{};
  ScaleOptions options{};          // with the windows
  std::vector<ScaleQueue> queues;  // by name, with a demand, at most kMaxScaleQueues
  std::int64_t ready = 0, running = 0, due = 0, held = 0;
  double work_seconds = 0;  // of the ready jobs that may start
  double arrivals_per_s = 0;
  std::optional<Duration> drain{};  // with `desired` workers; nullopt = without end
  std::optional<Duration> oldest{};
  ServiceTime service{};  // mean by demand
  int workers_seen = 0, workers_idle = 0, workers_quiet = 0;
  std::string reason;
  std::optional<WallTime> until{};  // when the value may fall next
};

// Thread-safe. Calls may read the store.
class Scaler {
 public:
  // All outlive it. The gauges are removed with it. `pools` have gauges before their first request.
  Scaler(Broker& broker, const Clock& clock, Registry& registry,
         const std::map<std::string, ScaleRequest, std::less<>>& pools);
  ~Scaler();
  Scaler(const Scaler&) = delete;
  Scaler& operator=(const Scaler&) = delete;

  // Errors: invalid_argument, those of the store.
  Result<ScaleSignal> signal(const ScaleRequest& request) MS_EXCLUDES(mutex_);

 private:
  struct Seen {                                             // of a queue
    std::deque<std::pair<Instant, std::int64_t>> enqueued;  // arrived jobs, in a minute
    Instant sampled = Instant::never();
    double cost = 1;
    std::optional<double> key_cap{};
  };
  struct Pool {
    ScalePool rule;
    Instant asked;
    ScaleRequest request;
    Instant due_read = Instant::never();
    std::map<std::string, std::int64_t> due{};  // by queue, then
  };

  struct Reading {  // of the gauges
    double desired = 0, work_seconds = 0, held = 0;
  };
  std::map<std::string, Reading> readings() MS_EXCLUDES(mutex_);
  Result<void> collect(const ScaleRequest& request, Now now, ScaleSignal& out) MS_EXCLUDES(mutex_);
  Result<ScaleQueue> load_of(const QueueStats& queue, Now now) MS_EXCLUDES(mutex_);
  // Sets the mean cost of the waiting jobs, and the slots that their limit keys allow.
  Result<void> sample(const QueueStats& queue, Instant now, ScaleLoad& load) MS_EXCLUDES(mutex_);
  // Fills in the scheduled and retryable jobs that are due within the lead, by queue.
  Result<void> add_due_jobs(const std::vector<QueueStats>& queues, const ScaleRequest& request,
                            Now now, std::map<std::string, std::int64_t>& due) MS_EXCLUDES(mutex_);
  double arrivals(const QueueStats& queue, Instant now) MS_EXCLUDES(mutex_);
  Result<void> add_workers(const ScaleRequest& request, ScaleSignal& out);
  void decide(const ScaleRequest& request, Now now, ScaleSignal& out) MS_EXCLUDES(mutex_);
  std::vector<int> past_needs(const ScaleRequest& request, const ScaleSignal& signal);

  Broker& broker_;
  const Clock& clock_;
  Registry& registry_;
  const std::map<std::string, ScaleRequest, std::less<>>& declared_;
  Mutex mutex_;
  std::map<std::string, Seen, std::less<>> seen_ MS_GUARDED_BY(mutex_);
  std::map<std::string, Pool, std::less<>> pools_ MS_GUARDED_BY(mutex_);
  std::map<std::string, Reading> readings_ MS_GUARDED_BY(mutex_);  // by pool
  Instant read_at_ MS_GUARDED_BY(mutex_) = Instant::never();
};

// One sentence about the value.
std::string scale_reason(const ScaleSignal& signal);

}  // namespace mainspring
