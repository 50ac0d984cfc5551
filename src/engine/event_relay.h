// EventRelay sends this node's events to other nodes while those have subscribers, and receives
// theirs. So every node's event stream shows the whole cluster.
//
//   node 2: ring ──take()──▶ notifier ══▶ notifier ──heard()──▶ ring of node 1 ──▶ its streams
//
// While any node has a subscriber, all nodes receive all events: a client that loses its connection
// can continue at another node (broker/event_marks.h). A node without subscribers, and which no
// other node asks, does nothing.
//
// Lost events are sent again as long as they are in the ring. The receiver detects missing events
// by their numbers and reports a gap.
//
// Threads: any.
#pragma once

#include <map>
#include <memory>

#include "base/mutex.h"
#include "broker/events.h"
#include "env/clock.h"
#include "peer/relay.h"

namespace mainspring {

class EventRelay : public PeerRelay {
 public:
  // `node`: this node's number. References must outlive this object.
  EventRelay(Events& events, const Clock& clock, std::int64_t node);
  ~EventRelay() override;

  Ask asks() override MS_EXCLUDES(mutex_);
  void asked(std::int64_t node, Ask what) override MS_EXCLUDES(mutex_);
  bool serves(std::int64_t node) override MS_EXCLUDES(mutex_);
  bool has(std::int64_t node) override MS_EXCLUDES(mutex_);
  std::string take(std::int64_t node, std::size_t room) override MS_EXCLUDES(mutex_);
  void lost(std::int64_t node) override MS_EXCLUDES(mutex_);
  void heard(std::int64_t node, std::string_view bytes) override;
  void gone(std::int64_t node) override MS_EXCLUDES(mutex_);
  void closing() override MS_EXCLUDES(mutex_);

 private:
  // Another node that asks for events.
  struct Asker {
    Instant until;
    bool here = false;  // it has subscribers
    struct Has {
      Events::Own own;
      bool started = false;    // it knows the first event number
      bool last_said = false;  // announced that no more follow
    };
    Has at, before;  // what it has; and had before the last take()
    std::shared_ptr<void> watch;
  };
  Asker* find(std::int64_t node) MS_REQUIRES(mutex_);
  void drop_late() MS_REQUIRES(mutex_);
  void nudge();

  Events& events_;
  const Clock& clock_;
  Mutex mutex_;
  bool closing_ MS_GUARDED_BY(mutex_) = false;
  std::map<std::int64_t, Asker> askers_ MS_GUARDED_BY(mutex_);
  std::shared_ptr<void> listener_ MS_GUARDED_BY(mutex_);  // while there are askers
};

}  // namespace mainspring
