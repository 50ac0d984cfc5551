// The rows of the table of routes for the dashboard. Part of routes.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr Success kDashboardMoved[] = {{308, "", "The page is at /ui/."}};
inline constexpr Success kDashboardPage[] = {{200, "", "The page.", "text/html"}};
inline constexpr Success kDashboardFile[] = {{200, "", "The file.", "application/octet-stream"}};
inline constexpr ErrorCode kDashboardErrors[] = {ErrorCode::not_found};

inline constexpr Success kSessionHere[] = {{200, "DashboardSession", "The caller."}};
inline constexpr Success kSessionEnded[] = {{200, "DashboardSession", "The cookie is removed."}};

// Open to all: the files contain no data. The page reads its data from the API, as its viewer.
inline constexpr Route kDashboardRoutes[] = {
    {.method = "GET",
     .pattern = "/",
     .id = "root",
     .summary = "Redirect to the dashboard",
     .plan = &plan_dashboard_moved,
     .access = On::open,
     .successes = kDashboardMoved},
    {.method = "GET",
     .pattern = "/ui",
     .id = "dashboard_moved",
     .summary = "Redirect to the dashboard",
     .plan = &plan_dashboard_moved,
     .access = On::open,
     .successes = kDashboardMoved},
    {.method = "GET",
     .pattern = "/ui/",
     .id = "dashboard",
     .summary = "The dashboard",
     .plan = &plan_dashboard,
     .access = On::open,
     .successes = kDashboardPage,
     .errors = kDashboardErrors,
     .headers = true},
    {.method = "GET",
     .pattern = "/ui/{name}",
     .id = "dashboard_file",
     .summary = "A file of the dashboard",
     .plan = &plan_dashboard,
     .access = On::open,
     .successes = kDashboardFile,
     .errors = kDashboardErrors,
     .headers = true},
    {.method = "POST",
     .pattern = "/v1/session",
     .id = "open_dashboard_session",
     .summary = "Open a dashboard session of 12 hours with the token of this request",
     .plan = &plan_open_session,
     .access = On::signed_in,
     .successes = kSessionHere,
     .keeps_token = true},
    {.method = "GET",
     .pattern = "/v1/session",
     .id = "dashboard_session",
     .summary = "Show the caller of this request and its scopes",
     .plan = &plan_show_session,
     .access = On::signed_in,
     .successes = kSessionHere},
    {.method = "DELETE",
     .pattern = "/v1/session",
     .id = "close_dashboard_session",
     .summary = "End the session and remove its cookie",
     .plan = &plan_close_session,
     .access = On::open,
     .successes = kSessionEnded,
     .keeps_token = true},
};

}  // namespace mainspring::http
