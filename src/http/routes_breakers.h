// The rows of the table of routes for breakers. Part of routes.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr Success kBreakerOk[] = {{200, "Breaker", "The breaker."}};
inline constexpr Success kBreakersOk[] = {{200, "BreakerList", "All, by name."}};
inline constexpr Success kBreakerRemovedOk[] = {{200, "BreakerRemoved", "Removed."}};
inline constexpr ErrorCode kBreakerErrors[] = {ErrorCode::not_found};
inline constexpr ErrorCode kRemoveBreakerErrors[] = {ErrorCode::not_found, ErrorCode::conflict};

inline constexpr Route kBreakerRoutes[] = {
    {.method = "PUT",
     .pattern = "/v1/breakers/{name}",
     .id = "put_breaker",
     .summary = "Create or change a breaker; its state is kept",
     .plan = &plan_put_breaker,
     .access = {Verb::admin, On::all},
     .body = BodyRule::required,
     .request_schema = "BreakerSettings",
     .successes = kBreakerOk},
    {.method = "GET",
     .pattern = "/v1/breakers",
     .id = "list_breakers",
     .summary = "List breakers",
     .plan = &plan_list_breakers,
     .access = {Verb::read, On::all},
     .successes = kBreakersOk},
    {.method = "GET",
     .pattern = "/v1/breakers/{name}",
     .id = "get_breaker",
     .summary = "Get a breaker",
     .plan = &plan_get_breaker,
     .access = {Verb::read, On::all},
     .successes = kBreakerOk,
     .errors = kBreakerErrors},
    {.method = "DELETE",
     .pattern = "/v1/breakers/{name}",
     .id = "remove_breaker",
     .summary = "Remove a breaker that no queue uses",
     .plan = &plan_remove_breaker,
     .access = {Verb::admin, On::all},
     .successes = kBreakerRemovedOk,
     .errors = kRemoveBreakerErrors},
    {.method = "POST",
     .pattern = "/v1/breakers/{name}/open",
     .id = "open_breaker",
     .summary = "Open a breaker for a time",
     .plan = &plan_open_breaker,
     .access = {Verb::admin, On::all},
     .body = BodyRule::optional,
     .request_schema = "OpenBreakerRequest",
     .successes = kBreakerOk,
     .errors = kBreakerErrors},
    {.method = "POST",
     .pattern = "/v1/breakers/{name}/close",
     .id = "close_breaker",
     .summary = "Close a breaker and reset its counts",
     .plan = &plan_close_breaker,
     .access = {Verb::admin, On::all},
     .successes = kBreakerOk,
     .errors = kBreakerErrors},
};

}  // namespace mainspring::http
