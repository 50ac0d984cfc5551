// The backlog of a queue: see mainspring/backlog.h.
#pragma once

#include "broker/service_times.h"
#include "store/store.h"

namespace mainspring {

// A queue that was idle at the start of the window is measured over this time at least.
inline constexpr Duration kLeastBacklogWindow = std::chrono::minutes(1);

// The minute in which the window starts.
WallTime backlog_from(WallTime now);
// `recent`: counts of the queue since backlog_from(now); nullptr = there are none. `service`: if no
// attempt is among these.
QueueBacklog backlog_of(const QueueStats& queue, const RecentCount* recent,
                        const ServiceTime& service, WallTime now);

}  // namespace mainspring
