// The second table of routes: the REST API of Azure WebJobs, so that scripts and deployment tools
// that were written for it work here. Source: Kudu.
#pragma once

#include "host/settings.h"
#include "http/routes.h"

namespace mainspring::http {

// The table, and what brings the other spellings of a target (/api/triggeredjobs/…,
// /api/jobs/triggered/…, /jobs/triggered/…, /vfs/…) to the one that is in it.
MoreRoutes webjobs_routes();

// -- the plans; `Type` is of the path

template <JobType Type>
Plan plan_webjobs(const Request& request, Services& services);
template <JobType Type>
Plan plan_webjob(const Request& request, Services& services);
template <JobType Type>
Plan plan_put_webjob(const Request& request, Services& services);
template <JobType Type>
Plan plan_remove_webjob(const Request& request, Services& services);
template <JobType Type>
Plan plan_webjob_settings(const Request& request, Services& services);
template <JobType Type>
Plan plan_put_webjob_settings(const Request& request, Services& services);

Plan plan_all_webjobs(const Request& request, Services& services);
Plan plan_run_webjob(const Request& request, Services& services);
Plan plan_webjob_history(const Request& request, Services& services);
Plan plan_webjob_run(const Request& request, Services& services);
Plan plan_webjobs_swagger(const Request& request, Services& services);
Plan plan_stop_webjob(const Request& request, Services& services);
Plan plan_start_webjob(const Request& request, Services& services);
Plan plan_passthrough(const Request& request, Services& services);
Plan plan_add_hook(const Request& request, Services& services);
Plan plan_hooks(const Request& request, Services& services);
Plan plan_webjobs_hook(const Request& request, Services& services);
Plan plan_remove_hook(const Request& request, Services& services);
Plan plan_publish_hook(const Request& request, Services& services);
Plan plan_data_file(const Request& request, Services& services);

}  // namespace mainspring::http
