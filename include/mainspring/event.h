// Events: what becomes of jobs and queues, for those who listen now.
//
//   auto events = engine.follow({.queues = {"photos"}, .types = {EventType::dead}},
//                               [](const EngineEvent& event) { … });
//
// They are for looking, not for keeping: made only while somebody listens, and in memory only. What
// must not be lost is a reply, a follow-up or a callback. Guide: docs/guides/answers.md.
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
  retrying,  // an attempt failed and another one follows; or an operator made it live again
  snoozed,
  deferred,  // put aside by its worker
  dead,
  cancelled,
  progress,
  queue_paused,
  queue_resumed,
  quarantined,      // its last attempts were all lost: it is set apart
  quarantine_left,  // it lives, and is not set apart any more
  breaker_opened,
  breaker_half_open,
  breaker_closed,
  gap,  // something happened of which no more is known: read it anew
};
inline constexpr int kEventTypeCount = 17;
std::string_view to_string(EventType type);
std::optional<EventType> parse_event_type(std::string_view text);

struct EngineEvent {
  EventType type = EventType::enqueued;
  WallTime at;              // of the commit; of an end that was only heard of, when it was heard
  JobId job = 0;            // 0 = it is about the queue, or the breaker, or (gap) of everything
  std::string queue, kind;  // "" = not of it, or the job is not there any more
  std::vector<std::string> tags{};
  int attempt = 0;       // 0 = none yet, or not known
  std::string reason{};  // of cancelled and dead, cut; of gap: "forgotten", "restart", "unknown",
                           // "node" (of another node)
  std::optional<Progress> progress{};
  std::string breaker{};            // that it is about
  std::optional<WallTime> until{};  // breaker_opened: when it becomes half open
};

// Which events: those that fit each field; an empty one fits all. A gap passes always. Events of
// queues have no job, kind or tag, those of breakers no queue either.
struct EventFilter {
  std::vector<std::string> queues{}, kinds{};
  std::vector<std::string> tags{};  // one of them
  std::vector<EventType> types{};
  std::vector<JobId> jobs{};
};
inline constexpr std::size_t kMaxEventFilterValues = 100;  // of each field
// Errors: invalid_argument, with the field.
Result<void> validate(const EventFilter& filter);

// One who listens, until it ends. Movable.
class EventSubscription {
 public:
  struct State;
  explicit EventSubscription(std::shared_ptr<State> state);
  ~EventSubscription();  // stops
  EventSubscription(EventSubscription&&) noexcept;
  EventSubscription& operator=(EventSubscription&&) noexcept;

  // Nothing is told any more when it returns; not from within the function that is told. May be
  // called twice.
  void stop();
  // Why nothing comes any more although nobody stopped it; nullopt = it goes on, or was stopped.
  std::optional<Error> error() const;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace mainspring
