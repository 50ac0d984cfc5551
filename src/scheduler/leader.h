// Leader: holds the leadership lease, or waits for it.
//
//   waiting ──granted──▶ leading (term = token) ──renew every 3 s──▶ leading
//      ▲                    │ lease_lost, resigned, or not renewed for the lease's length
//      └────────────────────┘
//
// Of all nodes over a store at most one leads: whoever holds the lease kLeadershipLease. Its token
// is the term, and fences every write of the duties: a leader that was stopped past its lease and
// goes on finds each of them refused. Waiting costs no store transaction, renewing neither. A
// leader that stops in good order releases, so that the next one leads at once; one that dies is
// followed when its lease expires.
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
  // called again; it may be called until the destructor returns.
  Leader(Broker& broker, const Clock& clock, Log& log, LeaderOptions options,
         std::function<void()> changed);
  // Does not release: see stop(). Not while the broker answers: it has been stopped, or steps on
  // this thread.
  ~Leader();

  // Acquires, or renews when it is time. Returns when to call again.
  Instant step(Now now);
  // The term, while this node leads.
  std::optional<Token> term(Instant now) const;
  // Since when it leads without a break; never() = it does not.
  Instant leading_since(Instant now) const;
  // A write was refused with this term: somebody else leads, or nobody.
  void lost(Token term);
  // Gives the lease back and lets others have it for `stand_back`.
  void resign(std::string_view why, Duration stand_back, Instant now);
  // Gives the lease back, if it has it; does not wait, and takes it no more.
  void stop();

 private:
  struct State;  // shared with answers that are on their way
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
