// The rows of the table of routes for changes of single jobs and bulk operations. Part of
// routes.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr Success kCancelOk[] = {
    {200, "CancelResponse", "Cancelled. For a running job the worker is asked to stop."}};
inline constexpr Success kRetryOk[] = {{200, "RetryResponse", "The job is available."}};
inline constexpr Success kEditOk[] = {{200, "Job", "The job as it is now."}};
inline constexpr Success kDeletedOk[] = {{204, "", "The job was deleted."}};
inline constexpr Success kClonedOk[] = {{201, "EnqueueResponse", "The new job is on disk."}};
inline constexpr Success kBulkStartedOk[] = {{201, "Bulk", "On disk; it runs in the background."},
                                             {200, "BulkCount", "Dry run: what would change."}};
inline constexpr Success kBulkOk[] = {{200, "Bulk", "The bulk operation."}};
inline constexpr Success kBulksOk[] = {{200, "BulkList", "Newest first, at most 100."}};

inline constexpr ErrorCode kOneJobErrors[] = {ErrorCode::not_found, ErrorCode::expired,
                                              ErrorCode::conflict};
inline constexpr ErrorCode kEditErrors[] = {ErrorCode::not_found, ErrorCode::expired,
                                            ErrorCode::conflict, ErrorCode::too_large};
inline constexpr ErrorCode kCloneErrors[] = {ErrorCode::not_found, ErrorCode::expired,
                                             ErrorCode::too_large, ErrorCode::storage_full};
inline constexpr ErrorCode kBulkErrors[] = {ErrorCode::overloaded, ErrorCode::storage_full};
inline constexpr ErrorCode kFoundErrors[] = {ErrorCode::not_found, ErrorCode::expired};

inline constexpr Route kJobRoutes[] = {
    {.method = "POST",
     .pattern = "/v1/jobs/{id}/cancel",
     .id = "cancel_job",
     .summary = "Cancel a job",
     .plan = &plan_cancel_job,
     .access = {Verb::admin, On::plan},
     .body = BodyRule::optional,
     .request_schema = "CancelRequest",
     .successes = kCancelOk,
     .errors = kOneJobErrors},
    {.method = "POST",
     .pattern = "/v1/jobs/{id}/retry",
     .id = "retry_job",
     .summary = "Make a dead, cancelled, retryable or scheduled job available now",
     .plan = &plan_retry_job,
     .access = {Verb::admin, On::plan},
     .successes = kRetryOk,
     .errors = kOneJobErrors},
    {.method = "POST",
     .pattern = "/v1/jobs/{id}/take-back",
     .id = "take_back_job",
     .summary = "Take a running job from its worker and make it available",
     .plan = &plan_take_back_job,
     .access = {Verb::admin, On::plan},
     .successes = kRetryOk,
     .errors = kOneJobErrors},
    {.method = "PATCH",
     .pattern = "/v1/jobs/{id}",
     .id = "edit_job",
     .summary = "Change args, priority, run_at or tags of a job that is not running",
     .plan = &plan_edit_job,
     .access = {Verb::admin, On::plan},
     .body = BodyRule::required,
     .request_schema = "JobEdit",
     .successes = kEditOk,
     .errors = kEditErrors},
    {.method = "DELETE",
     .pattern = "/v1/jobs/{id}",
     .id = "delete_job",
     .summary = "Delete a job that has ended",
     .plan = &plan_delete_job,
     .access = {Verb::admin, On::plan},
     .successes = kDeletedOk,
     .errors = kOneJobErrors},
    {.method = "POST",
     .pattern = "/v1/jobs/{id}/clone",
     .id = "clone_job",
     .summary = "Enqueue a copy of a job, with changed fields",
     .plan = &plan_clone_job,
     .access = {Verb::read_payload, On::plan},
     .body = BodyRule::optional,
     .request_schema = "JobClone",
     .successes = kClonedOk,
     .errors = kCloneErrors},
    {.method = "POST",
     .pattern = "/v1/bulk",
     .id = "start_bulk",
     .summary = "Cancel, retry, delete or reprioritise all jobs that match a search",
     .plan = &plan_start_bulk,
     .access = {Verb::admin, On::plan},
     .body = BodyRule::required,
     .request_schema = "BulkRequest",
     .successes = kBulkStartedOk,
     .errors = kBulkErrors},
    {.method = "GET",
     .pattern = "/v1/bulk",
     .id = "list_bulks",
     .summary = "List bulk operations, newest first",
     .plan = &plan_list_bulks,
     .access = {Verb::admin, On::plan},
     .successes = kBulksOk},
    {.method = "GET",
     .pattern = "/v1/bulk/{id}",
     .id = "get_bulk",
     .summary = "Show a bulk operation with its progress",
     .plan = &plan_get_bulk,
     .access = {Verb::admin, On::plan},
     .successes = kBulkOk,
     .errors = kFoundErrors},
    {.method = "POST",
     .pattern = "/v1/bulk/{id}/stop",
     .id = "stop_bulk",
     .summary = "Stop a bulk operation; jobs that it changed stay changed",
     .plan = &plan_stop_bulk,
     .access = {Verb::admin, On::plan},
     .successes = kBulkOk,
     .errors = kOneJobErrors},
    {.method = "POST",
     .pattern = "/v1/bulk/{id}/continue",
     .id = "continue_bulk",
     .summary = "Continue a bulk operation that waits after its canary",
     .plan = &plan_continue_bulk,
     .access = {Verb::admin, On::plan},
     .successes = kBulkOk,
     .errors = kOneJobErrors},
};

}  // namespace mainspring::http
