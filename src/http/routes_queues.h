// Parameters and replies of the routes of queues. Part of routes.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

// Without it, pausing a mistyped name would create a queue.
inline constexpr QueryParameter kIfNewRefuse[] = {
    {"create", R"({"type":"boolean","default":false})", "Create the queue if it does not exist."}};
inline constexpr QueryParameter kIfNewCreate[] = {
    {"create", R"({"type":"boolean","default":true})",
     "false: answer 404 if the queue does not exist."}};

inline constexpr int kMostListedQueues = 1000;
inline constexpr QueryParameter kListQueues[] = {
    {"after", R"({"type":"string"})", "Start after this name: next of the previous page."},
    {"limit", R"({"type":"integer","minimum":1,"maximum":1000,"default":1000})",
     "Maximum number of queues."}};
inline constexpr Success kQueuesOk[] = {{200, "QueueList", "Queues by name."}};
inline constexpr Success kQueueOk[] = {{200, "Queue", "The queue."}};
inline constexpr Success kPausedOk[] = {{200, "QueuePaused", "The queue."}};
inline constexpr Success kRetentionOk[] = {{200, "QueueRetention", "The queue's settings."}};
inline constexpr Success kLimitsOk[] = {{200, "LimitsOfQueue", "The queue's settings."}};
inline constexpr Success kQueueRemovedOk[] = {
    {200, "QueueRemoved", "Removed. A later enqueue creates it again."}};

inline constexpr ErrorCode kQueueErrors[] = {ErrorCode::not_found};
inline constexpr ErrorCode kRemoveQueueErrors[] = {ErrorCode::not_found, ErrorCode::conflict};

}  // namespace mainspring::http
