// The rows of the table of routes for health. Part of routes.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr QueryParameter kHealthQuery[] = {
    {"verbose", R"({"type":"string"})",
     "Check each part: 503 when a core part fails. Needs no value."}};
inline constexpr Success kLiveOk[] = {{200, "Live", "The loops turn."}};
inline constexpr Success kHealthOk[] = {{200, "Health", "The process is alive."}};
inline constexpr Success kReadyOk[] = {{200, "Ready", "Requests are taken."}};

inline constexpr Route kHealthRoutes[] = {
    {.method = "GET",
     .pattern = "/livez",
     .id = "livez",
     .summary = "Do the loops turn? 503 when one has not for 10 s: restart the server",
     .plan = &plan_livez,
     .access = On::open,
     .successes = kLiveOk},
    {.method = "GET",
     .pattern = "/healthz",
     .id = "healthz",
     .summary = "Is the process alive? With verbose the state of each part",
     .plan = &plan_healthz,
     .access = On::open,
     .successes = kHealthOk,
     .query = kHealthQuery},
    {.method = "GET",
     .pattern = "/readyz",
     .id = "readyz",
     .summary = "Does it take requests? 503 while it stops or when a core part failed",
     .plan = &plan_readyz,
     .access = On::open,
     .successes = kReadyOk},
};

}  // namespace mainspring::http
