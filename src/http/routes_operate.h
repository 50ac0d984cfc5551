// The rows of the table of routes for operators. Of routes.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr Success kSettingsOk[] = {{200, "Settings", "In the order of the reference."}};
inline constexpr Success kStoreOk[] = {{200, "StoreState", "At most 10 s old."}};

inline constexpr Route kOperateRoutes[] = {
    {.method = "GET",
     .pattern = "/v1/settings",
     .id = "settings",
     .summary = "Show the effective settings and their origins",
     .plan = &plan_settings,
     .access = {Verb::admin, On::all},
     .successes = kSettingsOk},
    {.method = "GET",
     .pattern = "/v1/store",
     .id = "store",
     .summary = "Show the size of the store and its number of jobs",
     .plan = &plan_store,
     .access = {Verb::read, On::all},
     .successes = kStoreOk},
};

}  // namespace mainspring::http
