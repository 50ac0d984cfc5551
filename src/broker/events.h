// Events: what becomes of jobs and queues, for those who listen now.
//
//   a commit ──record──▶ [ oldest … newest ]  ◀──read(after)── each listener, at its own pace
//                          a bounded ring            └─ nothing yet: watch, called after a commit
//
// Recorded behind the commit, in its order, and only while somebody listens, or did within the
// options' memory: one who was cut off comes back and goes on. Nothing is built for nobody. What an
// operation does not say of its job (a cancel names an id only) the first reader of the event asks
// the store, not the commit.
//
// Positions are numbers from 1 on, one for each event, never given twice in one process; a stretch
// in which nobody listened leaves a hole, so that one who comes back from before learns of it.
//
// Of a shared store the other nodes tell what they did (engine/event_relay.h): their events are in
// the ring too, in the order in which they came. Each has the number that the process gave it that
// made it, so that who was cut off here goes on at another node (EventMarks).
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

// What does not change of a job.
struct JobFacts {
  std::string queue;
  std::string kind;
  std::vector<std::string> tags;
};
struct Event {
  std::uint64_t position = 0;
  EventType type = EventType::enqueued;
  WallTime at;         // of the commit; of what is heard of another node, when it was heard
  JobId job = 0;       // 0 = it is about the queue, or a breaker
  int attempt = 0;     // 0 = none yet, or not known
  std::string reason;  // of cancelled and dead, cut
  std::optional<Progress> progress;
  std::shared_ptr<const JobFacts> facts;  // nullptr = not known: the job is not there any more
  std::shared_ptr<const BreakerInfo> breaker{};  // that it is about, without facts
  // False: some of it is to be asked of the store. Those that read() answers are settled, unless
  // the store is away.
  bool settled = true;
  bool ended = false;  // not settled, and how the job ended is not known either
  std::shared_ptr<const std::string> process{};  // that made it; nullptr = this one
  std::uint64_t number = 0;                      // that it has there
  bool mark = false;   // nothing happened: it says which number of its process came before
  bool local = false;  // is for those who listen here: a gap of what others said, an end heard
};
using EventPtr = std::shared_ptr<const Event>;

struct EventOptions {
  // Events kept for those who come back. Raise if busy streams are cut off; each costs some 200
  // bytes and its texts, while somebody listens.
  std::size_t buffer = 10'000;
  // After the last listener left events are recorded for so long. Then they are forgotten, with the
  // next commit.
  Duration memory = std::chrono::seconds(60);
};

class Events {
 public:
  static constexpr std::size_t kMaxReasonBytes = 1024;
  // Running jobs whose facts are remembered from their claim; the store is asked of others.
  static constexpr std::size_t kMaxKnown = 100'000;

  Events(const Store& store, const Clock& clock, Registry& registry, EventOptions options);
  ~Events();
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  // -- for the broker

  // Is anybody listening? Cheap; where nobody is, nothing else is to be called.
  bool wanted(Instant now) MS_EXCLUDES(mutex_) {
    return on_.load(std::memory_order_acquire) && still_wanted(now);
  }
  // A batch that has been committed: `results` and `effects` are its report's.
  void record(std::span<const Operation> operations, std::span<const OperationResult> results,
              const Effects& effects, Now now) MS_EXCLUDES(mutex_);
  // Jobs of which another node said that they ended.
  void record_ended(std::span<const JobId> jobs, Now now) MS_EXCLUDES(mutex_);
  // Calls those who watch, if there is anything new. No lock may be held.
  void tell() MS_EXCLUDES(mutex_);

  // -- for listeners, from every thread

  // What keeps events being recorded, until it is destroyed; nullptr: there are `most` already.
  std::shared_ptr<void> listen(std::size_t most) MS_EXCLUDES(mutex_);
  // Of those only who make other nodes tell what they do.
  bool listened(Instant now) const MS_EXCLUDES(mutex_);
  // Called whenever one begins to listen, from its thread.
  void on_listener(std::function<void()> told) MS_EXCLUDES(mutex_);
  // Of this process; in every id of an event.
  const std::string& process() const { return process_; }
  std::uint64_t newest() const MS_EXCLUDES(mutex_);
  // The position behind which nothing is missing.
  std::uint64_t oldest() const MS_EXCLUDES(mutex_);
  struct Page {
    std::vector<EventPtr> events;
    std::uint64_t next = 0;    // read on after this
    std::uint64_t missed = 0;  // so many behind `after` are not here any more; then no events
  };
  // At most `limit` events after a position. May ask the store.
  Page read(std::uint64_t after, std::size_t limit) MS_EXCLUDES(mutex_, settle_mutex_);
  // Calls `ready` once, from any thread and with no lock held, when there is something after the
  // position; at once if there is. Destroying the answer ends it; a call may be under way then.
  std::shared_ptr<void> watch(std::uint64_t after, std::function<void()> ready) MS_EXCLUDES(mutex_);

  // Where one begins: at the newest event; or behind those that it has, with what may be missing.
  struct Place {
    std::uint64_t position = 0;
    EventMarks marks;
    std::string_view gap;      // "" = nothing is missing; "restart", "forgotten"
    std::uint64_t missed = 0;  // forgotten: so many
  };
  Place newest_place() const MS_EXCLUDES(mutex_);
  Place place_behind(const EventMarks& marks) const MS_EXCLUDES(mutex_);
  // Of processes that are not known any more.
  void drop_unknown(EventMarks& marks) const MS_EXCLUDES(mutex_);

  // -- for the relay to other nodes, from every thread

  // Among nodes: before anybody listens. Makes the name of the process differ from those of others.
  void join(std::int64_t node);
  // Keeps events being recorded for other nodes, until it is destroyed.
  std::shared_ptr<void> listen_for_others() MS_EXCLUDES(mutex_);
  struct Own {  // events of this process
    std::uint64_t position = 0;
    std::uint64_t from = 0, to = 0;  // those with numbers above the one, up to the other
    std::vector<EventPtr> events;    // but the local ones
  };
  Own newest_own() const MS_EXCLUDES(mutex_);
  Own read_own(const Own& after, std::size_t limit) MS_EXCLUDES(mutex_);
  // What another process said. `last`: it ends, and nothing of it is missing.
  struct Said {
    std::string process;
    std::uint64_t from = 0, to = 0;
    bool last = false;
    std::vector<Event> events{};
  };
  void take_said(std::int64_t node, Said said, Now now) MS_EXCLUDES(mutex_);
  // A node is not there any more.
  void forget_node(std::int64_t node, Now now) MS_EXCLUDES(mutex_);

  // Events that somebody should have had and that had left the ring.
  void note_dropped(std::uint64_t events) { dropped_.add(static_cast<std::int64_t>(events)); }
  std::int64_t recorded() const { return recorded_.value(); }

 private:
  class Recorder;
  // A process whose events are in the ring, or may come.
  struct Source {
    std::shared_ptr<const std::string> process;  // nullptr = this one
    std::int64_t node = 0;
    std::uint64_t oldest = 0;  // the number behind which nothing is missing
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
  mutable Mutex settle_mutex_;  // one asks the store, the others find it done
  mutable Mutex mutex_;
  std::size_t listeners_ MS_GUARDED_BY(mutex_) = 0;
  std::size_t relays_ MS_GUARDED_BY(mutex_) = 0;
  Instant until_ MS_GUARDED_BY(mutex_);  // without listeners
  std::deque<EventPtr> ring_ MS_GUARDED_BY(mutex_);
  std::uint64_t next_ MS_GUARDED_BY(mutex_) = 1;  // the next event's; the ring ends before it
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
