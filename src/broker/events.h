// Events: changes of jobs and queues, for listeners.
//
//   a commit ──record──▶ [ oldest … newest ]  ◀──read(after)── each listener, at its own pace
//                          a bounded ring            └─ nothing yet: watch, called after a commit
//
// Events are recorded after the commit, in commit order, only while there is a listener or was one
// within the options' memory. So a listener that was disconnected can come back and continue. No
// event is built without listeners. If an operation lacks details of its job (a cancel only has an
// id), the first reader of the event reads them from the store; the commit does not.
//
// A position is the number of an event: from 1 on, never used twice in one process. A period
// without listeners skips a number, so that a listener that comes back from before sees the gap.
//
// Other nodes of a shared store send their events (engine/event_relay.h). These events are in the
// ring too, in order of arrival. Each keeps the number of its own process, so that a client can
// continue at another node (EventMarks).
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "broker/event_marks.h"
#include "env/clock.h"
#include "mainspring/event.h"
#include "store/store.h"
#include "telemetry/metrics.h"

namespace mainspring {

// The facts of a job that do not change.
struct JobFacts {
  std::string queue;
  std::string kind;
  std::vector<std::string> tags;
};
struct Event {
  std::uint64_t position = 0;
  EventType type = EventType::enqueued;
  WallTime at;         // of the commit; for an event of another node, of its arrival
  JobId job = 0;       // 0 = about the queue or a breaker
  int attempt = 0;     // 0 = none yet, or not known
  std::string reason;  // of cancelled and dead, truncated
  std::optional<Progress> progress;
  std::shared_ptr<const JobFacts> facts;  // nullptr = not known: the job does not exist any more
  std::shared_ptr<const BreakerInfo> breaker{};  // of breaker events, which have no facts
  std::string object{};                          // of changed; see EngineEvent
  // False: details are still to be read from the store. read() returns settled events, unless the
  // store is unreachable.
  bool settled = true;
  bool ended = false;  // not settled, and how the job ended is not known either
  std::shared_ptr<const std::string> process{};  // that made it; nullptr = this one
  std::uint64_t number = 0;                      // its number in that process
  bool mark = false;   // not an event: carries the last number of its process
  bool local = false;  // for listeners here only: a gap in a peer's events, or an end it reported
};
using EventPtr = std::shared_ptr<const Event>;

struct EventOptions {
  // Events kept for listeners that come back. Raise if busy streams are cut off; each costs about
  // 200 bytes and its texts, while there is a listener.
  std::size_t buffer = 10'000;
  // How long events are recorded after the last listener left. Then the next commit drops them.
  Duration memory = std::chrono::seconds(60);
};

class Events {
 public:
  static constexpr std::size_t kMaxReasonBytes = 1024;
  // Running jobs whose facts are remembered from their claim; others are read from the store.
  static constexpr std::size_t kMaxKnown = 100'000;

  Events(const Store& store, const Clock& clock, Registry& registry, EventOptions options);
  ~Events();
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  // -- for the broker

  // True if there is a listener. Cheap; without listeners nothing else needs to be called.
  bool wanted(Instant now) MS_EXCLUDES(mutex_) {
    return on_.load(std::memory_order_acquire) && still_wanted(now);
  }
  // Records a committed batch: `results` and `effects` are from its report.
  void record(std::span<const Operation> operations, std::span<const OperationResult> results,
              const Effects& effects, Now now) MS_EXCLUDES(mutex_);
  // Records jobs that ended on another node.
  void record_ended(std::span<const JobId> jobs, Now now) MS_EXCLUDES(mutex_);
  // Records a change that is not in the store, and that each node sees for itself.
  void record_seen(std::string object, Now now) MS_EXCLUDES(mutex_);
  // Calls watchers if there are new events. The caller must hold no lock.
  void tell() MS_EXCLUDES(mutex_);

  // -- for listeners; thread-safe

  // Keeps events recorded until the result is destroyed; nullptr: there are `most` listeners.
  std::shared_ptr<void> listen(std::size_t most) MS_EXCLUDES(mutex_);
  // True if there are listeners that need the events of other nodes.
  bool listened(Instant now) const MS_EXCLUDES(mutex_);
  // Called whenever a listener starts, on its thread.
  void on_listener(std::function<void()> callback) MS_EXCLUDES(mutex_);
  // The id of this process; part of every event's id.
  const std::string& process() const { return process_; }
  std::uint64_t newest() const MS_EXCLUDES(mutex_);
  // The position after which no event is missing.
  std::uint64_t oldest() const MS_EXCLUDES(mutex_);
  struct Page {
    std::vector<EventPtr> events;
    std::uint64_t next = 0;    // continue after this position
    std::uint64_t missed = 0;  // events after `after` that were dropped; if any, no events are read
  };
  // Up to `limit` events after a position. May read the store.
  Page read(std::uint64_t after, std::size_t limit) MS_EXCLUDES(mutex_, settle_mutex_);
  // Calls `ready` once, from any thread and without a lock held, when there is an event after the
  // position; at once if there is one. Destroying the result ends it; a call may be in progress.
  std::shared_ptr<void> watch(std::uint64_t after, std::function<void()> ready) MS_EXCLUDES(mutex_);

  // Where a listener starts: at the newest event, or after the events that it has seen.
  struct Place {
    std::uint64_t position = 0;
    EventMarks marks;
    std::string_view gap;      // "" = nothing is missing; "restart", "forgotten"
    std::uint64_t missed = 0;  // with "forgotten": how many events
  };
  Place newest_place() const MS_EXCLUDES(mutex_);
  Place place_after(const EventMarks& marks) const MS_EXCLUDES(mutex_);
  // Removes marks of unknown processes.
  void drop_unknown(EventMarks& marks) const MS_EXCLUDES(mutex_);

  // -- for the relay to other nodes; thread-safe

  // Makes the process id unique among nodes. Call before the first listener.
  void join(std::int64_t node);
  // Keeps events recorded for other nodes until the result is destroyed.
  std::shared_ptr<void> listen_for_others() MS_EXCLUDES(mutex_);
  struct Own {  // events of this process
    std::uint64_t position = 0;
    std::uint64_t from = 0, to = 0;  // events with from < number <= to
    std::vector<EventPtr> events;    // without local ones
  };
  Own newest_own() const MS_EXCLUDES(mutex_);
  Own read_own(const Own& after, std::size_t limit) MS_EXCLUDES(mutex_);
  // Events of another process. `last`: the process stops, and no event is missing.
  struct Said {
    std::string process;
    std::uint64_t from = 0, to = 0;
    bool last = false;
    std::vector<Event> events{};
  };
  void take_said(std::int64_t node, Said said, Now now) MS_EXCLUDES(mutex_);
  // Removes a node that has gone.
  void forget_node(std::int64_t node, Now now) MS_EXCLUDES(mutex_);

  // Counts events that left the ring before a listener read them.
  void note_dropped(std::uint64_t events) { dropped_.add(static_cast<std::int64_t>(events)); }
  std::int64_t recorded() const { return recorded_.value(); }

 private:
  class Recorder;
  // A process whose events are or will be in the ring.
  struct Source {
    std::shared_ptr<const std::string> process;  // nullptr = this one
    std::int64_t node = 0;
    std::uint64_t oldest = 0;  // the number after which no event is missing
    std::uint64_t newest = 0;
    bool over = false;
  };
  bool still_wanted(Instant now) MS_EXCLUDES(mutex_);
  bool listened_locked(Instant now) const MS_REQUIRES(mutex_);
  void leave() MS_EXCLUDES(mutex_);
  void push(Event event) MS_REQUIRES(mutex_);
  void push_gap(Now now) MS_REQUIRES(mutex_);
  const std::string& name_of(const Source& source) const {
    return source.process == nullptr ? process_ : *source.process;
  }
  Source* find_source(std::string_view process) MS_REQUIRES(mutex_);
  Source& source_of(std::int64_t node, const Said& said, Now now) MS_REQUIRES(mutex_);
  EventPtr settle(EventPtr event) MS_EXCLUDES(mutex_, settle_mutex_);
  EventPtr* find(std::uint64_t position) MS_REQUIRES(mutex_);

  const Store& store_;
  const Clock& clock_;
  Registry& registry_;
  const EventOptions options_;
  std::string process_;
  Counter& recorded_;
  Counter& dropped_;

  std::atomic<bool> on_{false};
  mutable Mutex settle_mutex_;  // one thread reads the store, the others use its result
  mutable Mutex mutex_;
  std::size_t listeners_ MS_GUARDED_BY(mutex_) = 0;
  std::size_t relays_ MS_GUARDED_BY(mutex_) = 0;
  Instant until_ MS_GUARDED_BY(mutex_);  // records until then without listeners
  std::deque<EventPtr> ring_ MS_GUARDED_BY(mutex_);
  std::uint64_t next_ MS_GUARDED_BY(mutex_) = 1;  // number of the next event
  std::function<void()> on_listener_ MS_GUARDED_BY(mutex_);
  std::vector<Source> sources_ MS_GUARDED_BY(mutex_);  // the first is this process
  bool news_ MS_GUARDED_BY(mutex_) = false;
  std::unordered_map<std::uint64_t, std::function<void()>> watches_ MS_GUARDED_BY(mutex_);
  std::uint64_t next_watch_ MS_GUARDED_BY(mutex_) = 1;
  struct Running {
    std::shared_ptr<const JobFacts> facts;
    int attempt = 0;
    int max_attempts = 0;
  };
  std::unordered_map<JobId, Running> running_ MS_GUARDED_BY(mutex_);
};

}  // namespace mainspring
