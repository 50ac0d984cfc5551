// The rows of the table of routes that are about results of steps. Of routes.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr QueryParameter kListMemos[] = {
    {"from", R"({"type":"string"})", "Begin with this name: the next of the page before."},
    {"limit", R"({"type":"integer","minimum":1,"maximum":1000,"default":100})",
     "At most so many. A page may be shorter and still not be the last."}};

inline constexpr Success kMemosOk[] = {
    {200, "MemoPage", "One page, by name, of at most about 1 MiB."}};

inline constexpr ErrorCode kMemoErrors[] = {ErrorCode::not_found, ErrorCode::expired};

inline constexpr Route kMemoRoutes[] = {
    {.method = "GET",
     .pattern = "/v1/jobs/{id}/memos",
     .id = "list_memos",
     .summary = "The results of a job's steps, for its holder",
     .plan = &plan_list_memos,
     .access = {Verb::work, Verb::read_payload, On::plan},
     .successes = kMemosOk,
     .errors = kMemoErrors,
     .query = kListMemos},
};

}  // namespace mainspring::http
