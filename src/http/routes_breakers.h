// The rows of the table of routes that are about breakers. Of routes.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr Success kBreakerOk[] = {{200, "Breaker", "The breaker as it is then."}};
inline constexpr Success kBreakersOk[] = {{200, "BreakerList", "All, by name."}};
inline constexpr Success kBreakerRemovedOk[] = {{200, "BreakerRemoved", "It is gone."}};
inline constexpr ErrorCode kBreakerErrors[] = {ErrorCode::not_found};
inline constexpr ErrorCode kRemoveBreakerErrors[] = {ErrorCode::not_found, ErrorCode::conflict};

inline constexpr Route kBreakerRoutes[] = {
    {.method = "PUT",
     .pattern = "/v1/breakers/{name}",
     .id = "put_breaker",
     .summary = "Make a breaker, or change its settings; its state stays as it is",
     .plan = &plan_put_breaker,
     .access = {Verb::admin, On::all},
     .body = BodyRule::required,
     .request_schema = "BreakerSettings",
     .successes = kBreakerOk},
    {.method = "GET",
     .pattern = "/v1/breakers",
     .id = "list_breakers",
     .summary = "All breakers, and what they have seen",
     .plan = &plan_list_breakers,
     .access = {Verb::read, On::all},
     .successes = kBreakersOk},
    {.method = "GET",
     .pattern = "/v1/breakers/{name}",
     .id = "get_breaker",
     .summary = "A breaker, and what it has seen",
     .plan = &plan_get_breaker,
     .access = {Verb::read, On::all},
     .successes = kBreakerOk,
     .errors = kBreakerErrors},
    {.method = "DELETE",
     .pattern = "/v1/breakers/{name}",
     .id = "remove_breaker",
     .summary = "Remove a breaker that no queue names",
     .plan = &plan_remove_breaker,
     .access = {Verb::admin, On::all},
     .successes = kBreakerRemovedOk,
     .errors = kRemoveBreakerErrors},
    {.method = "POST",
     .pattern = "/v1/breakers/{name}/open",
     .id = "open_breaker",
     .summary = "Open a breaker for a time: its queues give nothing",
     .plan = &plan_open_breaker,
     .access = {Verb::admin, On::all},
     .body = BodyRule::optional,
     .request_schema = "OpenBreakerRequest",
     .successes = kBreakerOk,
     .errors = kBreakerErrors},
    {.method = "POST",
     .pattern = "/v1/breakers/{name}/close",
     .id = "close_breaker",
     .summary = "Close a breaker, and forget what it has counted",
     .plan = &plan_close_breaker,
     .access = {Verb::admin, On::all},
     .successes = kBreakerOk,
     .errors = kBreakerErrors},
};

}  // namespace mainspring::http
