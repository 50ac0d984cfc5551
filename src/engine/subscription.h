// Follows events on a thread of the engine.
#pragma once

#include <functional>

#include "broker/questions.h"
#include "mainspring/event.h"

namespace mainspring {

// `questions` must outlive the subscription. Returns when the delivery of events has started.
// Errors: those of Questions::follow, io_error (no thread).
Result<EventSubscription> subscribe(Questions& questions, EventFilter filter,
                                    std::function<void(const EngineEvent&)> on_event);

}  // namespace mainspring
