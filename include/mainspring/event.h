// Events: changes of jobs and queues, streamed as they happen.
//
//   auto events = engine.events({.queues = {"photos"}, .types = {EventType::dead}},
//                               [](const EngineEvent& event) { … });
//
// Events are for observation only: they exist in memory, and only while there is a subscription.
// For what must not be lost use a reply, a follow-up or a callback. Guide: docs/guides/answers.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/job.h"
#include "mainspring/result.h"

namespace mainspring {

enum class EventType : std::uint8_t {
  enqueued,
  started,
  completed,
  retrying,  // an attempt failed and another one follows; or an operator restarted the job
  snoozed,
  deferred,  // by its worker
  dead,
  cancelled,
  progress,
  queue_paused,
  queue_resumed,
  quarantined,      // its last attempts were all lost
  quarantine_left,  // it lives, and is not in quarantine any more
  breaker_opened,
  breaker_half_open,
  breaker_closed,
  changed,  // an object without events of its own: limits, a schedule, a lock
  gap,      // events were lost: read the state again
};
inline constexpr int kEventTypeCount = 18;
std::string_view to_string(EventType type);
std::optional<EventType> parse_event_type(std::string_view text);

struct EngineEvent {
  EventType type = EventType::enqueued;
  WallTime at;              // of the commit; of an end that a peer reported, of the report
  JobId job = 0;            // 0 = about the queue, the breaker, or (gap) everything
  std::string queue, kind;  // "" = does not apply, or the job does not exist any more
  std::vector<std::string> tags{};
  int attempt = 0;       // 0 = none yet, or not known
  std::string reason{};  // of cancelled and dead, truncated; of gap: "forgotten", "restart",
                         // "unknown", "node" (of another node)
  std::optional<Progress> progress{};
  std::string breaker{};            // of breaker events
  std::optional<WallTime> until{};  // breaker_opened: when it becomes half open
  // Of changed: "queue/photos" (limits, or jobs that became due), "schedule/nightly", "job/42"
  // (edited or deleted), "lock/…", "session/QUEUE/KEY", "workflow/7", "worker/…" and so on.
  std::string object{};
};

// Selects events that match every field; an empty field matches all. Gaps always match. Events of
// queues have no job, kind or tag; events of breakers have no queue either. Of other objects only
// those have a queue that are known to belong to one.
struct EventFilter {
  std::vector<std::string> queues{}, kinds{};
  std::vector<std::string> tags{};  // any of them
  std::vector<EventType> types{};
  std::vector<JobId> jobs{};
};
inline constexpr std::size_t kMaxEventFilterValues = 100;  // of each field
// Errors: invalid_argument, with the field.
Result<void> validate(const EventFilter& filter);

// One subscription. Ends with the object. Movable.
class EventSubscription {
 public:
  struct State;
  explicit EventSubscription(std::shared_ptr<State> state);
  ~EventSubscription();  // stops
  EventSubscription(EventSubscription&&) noexcept;
  EventSubscription& operator=(EventSubscription&&) noexcept;

  // Ends the subscription: the function is not called after this returns. Do not call it from
  // within the function. May be called twice.
  void stop();
  // Why the stream ended by itself; nullopt = it is active, or was stopped.
  std::optional<Error> error() const;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace mainspring
