// Leader: holds the leadership lease, or waits for it.
//
//   waiting ──granted──▶ leading (term = token) ──renew every 3 s──▶ leading
//      ▲                    │ lease_lost, resigned, or not renewed for the lease's length
//      └────────────────────┘
//
// Of all nodes over a store at most one leads: the holder of the lease kLeadershipLease. Its token
// is the term, and fences every write of the duties: if a leader was stopped past its lease and
// then continues, each of its writes is refused. Waiting and renewing cost no store transaction. A
// leader that stops cleanly releases the lease, so that the next one leads at once. If a leader
// dies, another one follows when the lease expires.
//
// Threads: step(), resign() and stop() from one at a time; term() and lost() from any. Source: the
// leader election of the cloud design patterns, with a fence.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "env/clock.h"
#include "mainspring/job.h"
#include "mainspring/result.h"
#include "store/store.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace mainspring {

class Broker;

struct LeaderOptions {
  std::string incarnation;                    // random, new for each process start
  Duration lease = std::chrono::seconds(10);  // takeover after a death takes this long
  Duration renew = std::chrono::seconds(3);   // less than a third leaves room for lost renewals
};

class Leader {
 public:
  // `broker`, `clock`, `log` outlive it. `changed` is called from any thread when step() should be
  // called again, until the destructor returns.
  Leader(Broker& broker, const Clock& clock, Log& log, LeaderOptions options,
         std::function<void()> changed);
  // Does not release the lease: see stop(). The broker must not answer meanwhile: it is stopped, or
  // steps on this thread.
  ~Leader();

  // Acquires the lease, or renews it when due. Returns when to call again.
  Instant step(Now now);
  // The term, while this node leads.
  std::optional<Token> term(Instant now) const;
  // Since when it leads without interruption; never() = it does not lead.
  Instant leading_since(Instant now) const;
  // A write was refused with this term: another node leads, or none.
  void lost(Token term);
  // Releases the lease and does not acquire it for `stand_back`.
  void resign(std::string_view why, Duration stand_back, Instant now);
  // Releases the lease, if held; does not wait, and does not acquire it again.
  void stop();

 private:
  struct State;  // shared with answers in flight
  void acquire();
  void renew(Instant now);
  void release(Token term);

  Broker& broker_;
  const Clock& clock_;
  Log& log_;
  const LeaderOptions options_;
  std::shared_ptr<State> state_;
};

}  // namespace mainspring
