// The rows of the table of routes for health. Part of routes.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr QueryParameter kHealthQuery[] = {
    {"verbose", R"({"type":"string"})",
     "Check each part: 503 when a core part fails. Needs no value."}};
inline constexpr Success kLiveOk[] = {{200, "Live", "All server threads respond."}};
inline constexpr Success kHealthOk[] = {{200, "Health", "The process is alive."}};
inline constexpr Success kReadyOk[] = {{200, "Ready", "The server accepts requests."}};

inline constexpr Route kHealthRoutes[] = {
    {.method = "GET",
     .pattern = "/livez",
     .id = "livez",
     .summary = "Check liveness: 503 if a server thread has not responded for 10 s",
     .plan = &plan_livez,
     .access = On::open,
     .vital = true,
     .successes = kLiveOk},
    {.method = "GET",
     .pattern = "/healthz",
     .id = "healthz",
     .summary = "Check the process; with verbose show the state of each part",
     .plan = &plan_healthz,
     .access = On::open,
     .vital = true,
     .successes = kHealthOk,
     .query = kHealthQuery},
    {.method = "GET",
     .pattern = "/readyz",
     .id = "readyz",
     .summary = "Check readiness: 503 while the server stops or after a core part failed",
     .plan = &plan_readyz,
     .access = On::open,
     .vital = true,
     .successes = kReadyOk},
};

}  // namespace mainspring::http
