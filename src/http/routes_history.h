// The rows of the tables of routes and schemas for the history, marks and saved views. Part of
// routes.cc and schemas.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr QueryParameter kHistoryQuery[] = {
    {"queue", R"({"type":"string"})", "Only jobs of this queue."},
    {"kind", R"({"type":"string"})", "Only jobs of this kind."},
    {"from", R"({"type":"string","format":"date-time"})", "Default: 24 h before `to`."},
    {"to", R"({"type":"string","format":"date-time"})", "Default: now."},
    {"step", R"({"type":"string"})",
     "Length of a point: whole minutes below 1h, whole hours up to 30d. At most 2,000 points. "
     "Default: the shortest of 1m, 5m, 15m, 1h, 6h, 1d, 7d and 30d that gives at most 32."}};

inline constexpr Success kHistoryOk[] = {{200, "History", "One point per step, oldest first."}};

inline constexpr QueryParameter kMarksQuery[] = {
    {"from", R"({"type":"string","format":"date-time"})", "Only marks at this time or later."},
    {"to", R"({"type":"string","format":"date-time"})", "Only marks before this time."},
    {"limit", R"({"type":"integer","minimum":1,"maximum":1000,"default":100})", "Up to N marks."},
    {"cursor", R"({"type":"string"})", "next_cursor of the previous page."}};
inline constexpr Success kMarksOk[] = {{200, "MarkList", "One page, latest first."}};
inline constexpr Success kMarkAddedOk[] = {{201, "Mark", "The mark."}};
inline constexpr Success kMarkRemovedOk[] = {{204, "", "The mark is removed."}};
inline constexpr Success kViewsOk[] = {{200, "ViewList", "All views, by name."}};
inline constexpr Success kViewOk[] = {{200, "SavedView", "The view."}};
inline constexpr Success kViewRemovedOk[] = {{204, "", "The view is removed."}};
inline constexpr ErrorCode kMarkErrors[] = {ErrorCode::not_found};

inline constexpr Route kHistoryRoutes[] = {
    {.method = "GET",
     .pattern = "/v1/history",
     .id = "history",
     .summary = "Show counts, wait and run times of jobs per period",
     .plan = &plan_history,
     .access = {Verb::read, On::plan},
     .successes = kHistoryOk,
     .query = kHistoryQuery},
    {.method = "GET",
     .pattern = "/v1/marks",
     .id = "list_marks",
     .summary = "List marks on charts",
     .plan = &plan_list_marks,
     .access = {Verb::read, On::plan},
     .successes = kMarksOk,
     .query = kMarksQuery},
    {.method = "POST",
     .pattern = "/v1/marks",
     .id = "add_mark",
     .summary = "Add a mark, for example after a deploy",
     .plan = &plan_add_mark,
     .access = {Verb::admin, On::all},
     .body = BodyRule::required,
     .request_schema = "AddMarkRequest",
     .successes = kMarkAddedOk},
    {.method = "DELETE",
     .pattern = "/v1/marks/{id}",
     .id = "remove_mark",
     .summary = "Remove a mark",
     .plan = &plan_remove_mark,
     .access = {Verb::admin, On::all},
     .successes = kMarkRemovedOk,
     .errors = kMarkErrors},
    {.method = "GET",
     .pattern = "/v1/views",
     .id = "list_views",
     .summary = "List saved views of the dashboard",
     .plan = &plan_list_views,
     .access = {Verb::read, On::plan},
     .successes = kViewsOk},
    {.method = "PUT",
     .pattern = "/v1/views/{name}",
     .id = "put_view",
     .summary = "Save a view of the dashboard, or replace it",
     .plan = &plan_put_view,
     .access = {Verb::admin, On::all},
     .body = BodyRule::required,
     .request_schema = "PutViewRequest",
     .successes = kViewOk},
    {.method = "DELETE",
     .pattern = "/v1/views/{name}",
     .id = "remove_view",
     .summary = "Remove a saved view",
     .plan = &plan_remove_view,
     .access = {Verb::admin, On::all},
     .successes = kViewRemovedOk,
     .errors = kMarkErrors},
};

inline constexpr Schema kHistorySchemas[] = {
    {"History", R"({"type":"object",
      "required":["queue","kind","from","to","step","points","total"],"properties":{
      "queue":{"type":["string","null"],"description":"As asked for."},
      "kind":{"type":["string","null"],"description":"As asked for."},
      "from":{"type":"string","format":"date-time",
        "description":"A multiple of step, not before the oldest step that is kept."},
      "to":{"type":"string","format":"date-time","description":"A multiple of step."},
      "step":{"$ref":"#/components/schemas/Duration"},
      "points":{"type":"array","items":{"$ref":"#/components/schemas/HistoryPoint"}},
      "total":{"$ref":"#/components/schemas/HistoryPoint","description":"Of all points."}}})"},
    {"HistoryPoint", R"({"type":"object","required":["enqueued","started","completed","failed",
      "dead","cancelled","wait","run"],"properties":{
      "at":{"type":"string","format":"date-time","description":"Start. Not in the total."},
      "enqueued":{"type":"integer","format":"int64","description":"Jobs created."},
      "started":{"type":"integer","format":"int64","description":"Attempts."},
      "completed":{"type":"integer","format":"int64","description":"Jobs."},
      "failed":{"type":"integer","format":"int64",
        "description":"Attempts with an error or a lost worker."},
      "dead":{"type":"integer","format":"int64","description":"Jobs."},
      "cancelled":{"type":"integer","format":"int64","description":"Jobs, also expired ones."},
      "wait":{"$ref":"#/components/schemas/HistoryTimes",
        "description":"From run_at to the claim."},
      "run":{"$ref":"#/components/schemas/HistoryTimes",
        "description":"From the claim to the end of attempts that completed or failed."}}})"},
    {"HistoryTimes", R"({"type":"object","required":["count","p50_ms","p95_ms","p99_ms"],
      "description":"Percentiles, at most 10 % off. null: nothing was measured.","properties":{
      "count":{"type":"integer","format":"int64"},
      "p50_ms":{"type":["number","null"]},"p95_ms":{"type":["number","null"]},
      "p99_ms":{"type":["number","null"]}}})"},
    {"Backlog", R"({"type":"object","description":"Rates are of the last five minutes.",
      "required":["jobs","arrivals_per_second","completions_per_second","service_ms",
      "drain_seconds","oldest_ms"],"properties":{
      "jobs":{"type":"integer","format":"int64","description":"Available jobs."},
      "arrivals_per_second":{"type":"number","description":"Jobs created."},
      "completions_per_second":{"type":"number","description":"Jobs completed or dead."},
      "service_ms":{"type":["number","null"],
        "description":"Median run time, also of earlier attempts; null: none ended."},
      "drain_seconds":{"type":["number","null"],
        "description":"At the pace of completions, else of run times; null: unknown."},
      "oldest_ms":{"type":["integer","null"],
        "description":"Since the oldest available job was due; null: none waits."}}})"},
    {"AddMarkRequest", R"({"type":"object","additionalProperties":false,"required":["text"],
      "properties":{"text":{"type":"string","minLength":1,"maxLength":200},
      "at":{"type":["string","null"],"format":"date-time",
        "description":"Default: now. At most one day ahead."}}})"},
    {"Mark", R"({"type":"object","required":["id","at","text","by","source"],"properties":{
      "id":{"type":"integer","format":"int64"},"at":{"type":"string","format":"date-time"},
      "text":{"type":"string"},
      "by":{"type":"string","description":"A token, local, a worker, or calendar."},
      "source":{"enum":["manual","worker"],
        "description":"worker: a new version of a worker, or a window of a pool's calendar."}}})"},
    {"MarkList", R"({"type":"object","required":["marks","next_cursor"],"properties":{
      "marks":{"type":"array","items":{"$ref":"#/components/schemas/Mark"}},
      "next_cursor":{"type":["string","null"]}}})"},
    {"PutViewRequest", R"({"type":"object","additionalProperties":false,"required":["page"],
      "properties":{"page":{"type":"string","minLength":1,"maxLength":200,
        "description":"A path below /ui/, such as jobs."},
      "query":{"type":"string","maxLength":2000,"default":"",
        "example":"state=dead&queue=mail"}}})"},
    {"SavedView", R"({"type":"object","required":["name","page","query","by","updated_at"],
      "properties":{"name":{"type":"string"},"page":{"type":"string"},"query":{"type":"string"},
      "by":{"type":"string"},"updated_at":{"type":"string","format":"date-time"}}})"},
    {"ViewList", R"({"type":"object","required":["views"],"properties":{
      "views":{"type":"array","items":{"$ref":"#/components/schemas/SavedView"}}}})"},
};

}  // namespace mainspring::http
