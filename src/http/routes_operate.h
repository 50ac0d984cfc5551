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
     .summary = "The settings in effect, and where each comes from",
     .plan = &plan_settings,
     .access = {Verb::admin, On::all},
     .successes = kSettingsOk},
    {.method = "GET",
     .pattern = "/v1/store",
     .id = "store",
     .summary = "Size of the store, and how many jobs it has",
     .plan = &plan_store,
     .access = {Verb::read, On::all},
     .successes = kStoreOk},
};

}  // namespace mainspring::http
