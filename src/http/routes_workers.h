// The rows of the table of routes for workers. Part of routes.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr Success kWorkersOk[] = {{200, "WorkerList", "Recently seen workers."}};
inline constexpr Success kWorkerOk[] = {{200, "Worker", "The worker with its command."}};
inline constexpr ErrorCode kWorkerErrors[] = {ErrorCode::not_found};
inline constexpr ErrorCode kResumeWorkerErrors[] = {ErrorCode::not_found, ErrorCode::conflict};

inline constexpr Route kWorkerRoutes[] = {
    {.method = "GET",
     .pattern = "/v1/workers",
     .id = "list_workers",
     .summary = "List workers with their jobs",
     .plan = &plan_list_workers,
     .access = {Verb::read, On::all},
     .successes = kWorkersOk},
    {.method = "POST",
     .pattern = "/v1/workers/{name}/quiet",
     .id = "quiet_worker",
     .summary = "Stop a worker from claiming jobs; running jobs finish",
     .plan = &plan_quiet_worker,
     .access = {Verb::admin, On::plan},
     .successes = kWorkerOk,
     .errors = kWorkerErrors},
    {.method = "POST",
     .pattern = "/v1/workers/{name}/stop",
     .id = "stop_worker",
     .summary = "End a worker's process when its running jobs have finished",
     .plan = &plan_stop_worker,
     .access = {Verb::admin, On::plan},
     .successes = kWorkerOk,
     .errors = kWorkerErrors},
    {.method = "POST",
     .pattern = "/v1/workers/{name}/resume",
     .id = "resume_worker",
     .summary = "Let a quiet worker claim jobs again",
     .plan = &plan_resume_worker,
     .access = {Verb::admin, On::plan},
     .successes = kWorkerOk,
     .errors = kResumeWorkerErrors},
};

}  // namespace mainspring::http
