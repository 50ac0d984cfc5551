// The rows of the table of routes, and the schemas, of the scaling signal. Part of routes.cc and
// schemas.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr QueryParameter kScaleQuery[] = {
    {"queues", R"({"type":"string","example":"mail,tenant/*"})",
     "Queues and prefixes, separated by commas. Default: all."},
    {"pool", R"({"type":"string"})",
     "Name of the pool, for its gauges. A pool of the setting scale_pools has its parameters."},
    {"target", R"({"type":"string","default":"30s"})", "The time in which waiting jobs start."},
    {"slots", R"({"type":"integer","minimum":1,"maximum":1024,"default":1})", "Per worker."},
    {"min", R"({"type":"integer","minimum":0,"default":0})", "Fewest workers."},
    {"max", R"({"type":"integer","minimum":1,"maximum":100000,"default":100})", "Most workers."},
    {"lead", R"({"type":"string","default":"20s"})", "The time that a worker takes to start."},
    {"hold", R"({"type":"string","default":"5m"})", "The value falls no sooner."},
    {"window",
     R"({"type":"string","example":"min=4; cron=0 8 * * 1-5; for=10h; time_zone=Europe/Berlin"})",
     "Another min or max at times of the calendar.", true},
    {"wait", R"({"type":"string","example":"30s"})", "Waits until the value is not `value`."},
    {"value", R"({"type":"integer","minimum":0})", "The value that the caller has."}};
inline constexpr Success kScaleOk[] = {{200, "ScaleSignal", "The signal."}};

inline constexpr Route kScaleRoutes[] = {
    {.method = "GET",
     .pattern = "/v1/scale",
     .id = "scale",
     .summary = "Workers that the demand of queues needs",
     .plan = &plan_scale,
     .access = {Verb::read, On::plan},
     .successes = kScaleOk,
     .query = kScaleQuery},
};

inline constexpr Schema kScaleSchemas[] = {
    {"ServiceTime", R"({"type":"object","required":["mean_ms","p95_ms","samples","source"],
      "properties":{"mean_ms":{"type":"number"},"p95_ms":{"type":"number"},
      "samples":{"type":"integer","format":"int64"},
      "source":{"enum":["recent","history","prior"],
        "description":"Attempts of the last five minutes, earlier ones, or an assumption."}}})"},
    {"ScaleQueue", R"({"type":"object","required":["queue","workers","ready","running",
      "due_within_lead","held","gate","arrivals_per_s","cost","oldest_seconds","service"],
      "properties":{"queue":{"type":"string"},
      "workers":{"type":"integer","description":"That its demand needs alone."},
      "ready":{"type":"integer","format":"int64"},"running":{"type":"integer","format":"int64"},
      "due_within_lead":{"type":"integer","format":"int64"},
      "held":{"type":"integer","format":"int64"},
      "gate":{"type":["string","null"],"enum":["limit","key_limit","rate","breaker","pause",
        "quarantine",null],"description":"What holds most of the held jobs."},
      "arrivals_per_s":{"type":"number"},
      "cost":{"type":"number","description":"Mean slots per job."},
      "oldest_seconds":{"type":["number","null"]},
      "service":{"$ref":"#/components/schemas/ServiceTime"}}})"},
    {"ScaleSignal", R"({"type":"object","required":["value","desired_workers","raw","reason",
      "until","slots_needed","ready","running","due_within_lead","held","work_seconds",
      "arrivals_per_s","oldest_seconds","drain_seconds","service","workers","min","max","queues"],
      "properties":{"value":{"type":"integer","description":"The same as desired_workers."},
      "desired_workers":{"type":"integer"},
      "raw":{"type":"integer","description":"Before min, max and hold."},
      "reason":{"type":"string"},
      "until":{"type":["string","null"],"format":"date-time",
        "description":"When the value may fall next."},
      "slots_needed":{"type":"object","required":["total","flow","backlog","due"],"properties":{
        "total":{"type":"number"},"flow":{"type":"number"},"backlog":{"type":"number"},
        "due":{"type":"number"}}},
      "ready":{"type":"integer","format":"int64","description":"Available jobs."},
      "running":{"type":"integer","format":"int64"},
      "due_within_lead":{"type":"integer","format":"int64"},
      "held":{"type":"integer","format":"int64",
        "description":"Available jobs that more workers would not start."},
      "work_seconds":{"type":"number","description":"Run time of the others."},
      "arrivals_per_s":{"type":"number"},
      "oldest_seconds":{"type":["number","null"]},
      "drain_seconds":{"type":["number","null"],
        "description":"With the desired workers; null: the backlog does not shrink."},
      "service":{"$ref":"#/components/schemas/ServiceTime"},
      "workers":{"type":"object","required":["seen","idle","quiet"],"properties":{
        "seen":{"type":"integer"},"idle":{"type":"integer"},"quiet":{"type":"integer"}}},
      "min":{"type":"integer"},"max":{"type":"integer"},
      "queues":{"type":"array","items":{"$ref":"#/components/schemas/ScaleQueue"}}}})"},
};

}  // namespace mainspring::http
