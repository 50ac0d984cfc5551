// Follows events in this process, on the follower's own thread and at its own pace.
#include "broker/follow.h"

#include <fmt/format.h>

#include <algorithm>

#include "broker/broker.h"

namespace mainspring {
namespace {

constexpr std::size_t kMaxFollowers = 100;
constexpr std::size_t kPageEvents = 512;

template <class T, class U>
bool fits(const std::vector<T>& wanted, const U& value) {
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), value) != wanted.end();
}

// Sleeps until there is an event after a position, or the follower should stop.
class Bed {
 public:
  Bed(Events& events, std::uint64_t at, const std::stop_token& stop)
      : on_stop_(stop, [state = state_] { state->wake(); }),
        watch_(events.watch(at, [state = state_] { state->wake(); })) {}
  void sleep() {
    MutexLock lock(state_->mutex);
    while (!state_->woken) state_->changed.wait(state_->mutex);
  }

 private:
  // A call of the watch may be in progress when this object is destroyed.
  struct State {
    Mutex mutex;
    CondVar changed;
    bool woken MS_GUARDED_BY(mutex) = false;
    void wake() MS_EXCLUDES(mutex) {
      MutexLock lock(mutex);
      woken = true;
      changed.notify_all();
    }
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::stop_callback<std::function<void()>> on_stop_;
  std::shared_ptr<void> watch_;
};

}  // namespace

bool passes(const EventFilter& filter, const Event& event) {
  if (event.type == EventType::gap && event.job == 0) return true;
  if (event.type != EventType::gap && !fits(filter.types, event.type)) return false;
  if (!fits(filter.jobs, event.job)) return false;
  if (event.facts == nullptr) {
    const bool any = filter.queues.empty() && filter.kinds.empty() && filter.tags.empty();
    return any || event.type == EventType::gap;
  }
  const JobFacts& facts = *event.facts;
  const bool tagged =
      filter.tags.empty() || std::any_of(facts.tags.begin(), facts.tags.end(),
                                         [&](const auto& tag) { return fits(filter.tags, tag); });
  return tagged && fits(filter.queues, facts.queue) && fits(filter.kinds, facts.kind);
}

EngineEvent to_engine_event(const Event& event) {
  EngineEvent out{.type = event.type, .at = event.at, .job = event.job, .queue = {}, .kind = {}};
  if (event.facts != nullptr) {
    out.queue = event.facts->queue;
    out.kind = event.facts->kind;
    out.tags = event.facts->tags;
  }
  out.attempt = event.attempt;
  out.reason = event.reason;
  if (event.type == EventType::gap && out.reason.empty()) out.reason = "unknown";
  out.progress = event.progress;
  if (event.breaker != nullptr) {
    out.breaker = event.breaker->name;
    out.until = event.breaker->open_until;
  }
  out.object = event.object;
  return out;
}

Result<void> Broker::follow(const EventFilter& filter, const EventSink& sink,
                            std::stop_token stop) {
  MS_TRY(validate(filter));
  const auto listener = events_.listen(kMaxFollowers);
  if (listener == nullptr) {
    return Error{.code = ErrorCode::overloaded,
                 .message = fmt::format("{} follow events: must be at most that", kMaxFollowers)};
  }
  std::uint64_t at = events_.newest();
  sink.started();
  while (!stop.stop_requested()) {
    const Events::Page page = events_.read(at, kPageEvents);
    if (page.missed > 0) {
      events_.note_dropped(page.missed);
      at = events_.oldest();
      sink.event({.type = EventType::gap,
                  .at = clock_.now().wall,
                  .queue = {},
                  .kind = {},
                  .reason = "forgotten"});
    } else if (page.events.empty()) {
      Bed(events_, at, stop).sleep();
    } else {
      at = page.next;
      for (const EventPtr& event : page.events) {
        if (stop.stop_requested()) return {};
        if (!event->mark && passes(filter, *event)) sink.event(to_engine_event(*event));
      }
    }
  }
  return {};
}

}  // namespace mainspring
