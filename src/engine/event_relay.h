// Tells other nodes the events of this one, while somebody listens there, and hears theirs: so that
// a stream shows what the whole cluster does, whichever node it is of.
//
//   node 2: ring ──take()──▶ bell ══▶ bell ──heard()──▶ ring of node 1 ──▶ its streams
//
// Where somebody listens, at any node, all nodes hear all of them: who was cut off at one goes on
// at another (broker/event_marks.h). A node that nobody listens to, and that none asks, does
// nothing.
//
// What was not heard is said again as long as it is in the ring, and where something is missing the
// other side sees it by the numbers, and tells a gap.
//
// Threads: any.
#pragma once

#include <map>
#include <memory>

#include "base/mutex.h"
#include "bell/relay.h"
#include "broker/events.h"
#include "env/clock.h"

namespace mainspring {

class EventRelay : public BellRelay {
 public:
  // Of the node with this number. References outlive it.
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
  // A node that asked.
  struct Asker {
    Instant until;
    bool here = false;  // somebody listens there
    struct Has {
      Events::Own own;
      bool begun = false;      // it knows where its events begin
      bool last_said = false;  // that there will be no more
    };
    Has at, before;  // what it has; and had before what was taken last
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
