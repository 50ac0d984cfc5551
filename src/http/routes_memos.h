// The rows of the table of routes for saved step results. Part of routes.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr QueryParameter kListMemos[] = {
    {"from", R"({"type":"string"})", "Start with this name: next of the previous page."},
    {"limit", R"({"type":"integer","minimum":1,"maximum":1000,"default":100})",
     "Maximum number. A shorter page need not be the last."}};

inline constexpr Success kMemosOk[] = {
    {200, "MemoPage", "One page, by name, of at most about 1 MiB."}};

inline constexpr ErrorCode kMemoErrors[] = {ErrorCode::not_found, ErrorCode::expired};

inline constexpr Route kMemoRoutes[] = {
    {.method = "GET",
     .pattern = "/v1/jobs/{id}/memos",
     .id = "list_memos",
     .summary = "List the saved step results of a job",
     .plan = &plan_list_memos,
     .access = {Verb::work, Verb::read_payload, On::plan},
     .successes = kMemosOk,
     .errors = kMemoErrors,
     .query = kListMemos},
};

}  // namespace mainspring::http
