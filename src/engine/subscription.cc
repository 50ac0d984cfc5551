// EventSubscription: one thread that follows events and calls the subscriber.
#include "engine/subscription.h"

#include <fmt/format.h>

#include <system_error>
#include <thread>

#include "base/mutex.h"

namespace mainspring {

struct EventSubscription::State {
  void run(Questions& questions, const EventFilter& filter,
           const std::function<void(const EngineEvent&)>& on_event, std::stop_token stop)
      MS_EXCLUDES(mutex);
  // Waits until events are delivered, or the subscription has failed.
  Result<void> await_begin() MS_EXCLUDES(mutex);

  Mutex mutex;
  CondVar changed;
  bool started MS_GUARDED_BY(mutex) = false;
  bool ended MS_GUARDED_BY(mutex) = false;
  std::optional<Error> problem MS_GUARDED_BY(mutex);
  std::jthread thread;
};

void EventSubscription::State::run(Questions& questions, const EventFilter& filter,
                                   const std::function<void(const EngineEvent&)>& on_event,
                                   std::stop_token stop) {
  const EventSink sink{.started =
                           [this] {
                             const MutexLock lock(mutex);
                             started = true;
                             changed.notify_all();
                           },
                       .event = on_event};
  auto followed = questions.follow(filter, sink, stop);
  const MutexLock lock(mutex);
  if (!followed && !stop.stop_requested()) problem = std::move(followed.error());
  ended = true;
  changed.notify_all();
}

Result<void> EventSubscription::State::await_begin() {
  const MutexLock lock(mutex);
  while (!started && !ended) changed.wait(mutex);
  if (!started && problem) return *problem;
  return {};
}

EventSubscription::EventSubscription(std::shared_ptr<State> state) : state_(std::move(state)) {}

EventSubscription::~EventSubscription() {
  stop();
}

EventSubscription::EventSubscription(EventSubscription&&) noexcept = default;

EventSubscription& EventSubscription::operator=(EventSubscription&& other) noexcept {
  if (this == &other) return *this;
  stop();
  state_ = std::move(other.state_);
  return *this;
}

void EventSubscription::stop() {
  if (!state_ || !state_->thread.joinable()) return;
  state_->thread.request_stop();
  state_->thread.join();
}

std::optional<Error> EventSubscription::error() const {
  const MutexLock lock(state_->mutex);
  return state_->problem;
}

Result<EventSubscription> subscribe(Questions& questions, EventFilter filter,
                                    std::function<void(const EngineEvent&)> on_event) {
  MS_TRY(validate(filter));
  auto state = std::make_shared<EventSubscription::State>();
  try {
    state->thread = std::jthread([&questions, state = state.get(), filter = std::move(filter),
                                  on_event = std::move(on_event)](const std::stop_token& stop) {
      state->run(questions, filter, on_event, stop);
    });
  } catch (const std::system_error& e) {
    return Error{.code = ErrorCode::io_error,
                 .message = fmt::format("following events: starting a thread: {}", e.what())};
  }
  EventSubscription subscription(state);
  MS_TRY(state->await_begin());
  return subscription;
}

}  // namespace mainspring
