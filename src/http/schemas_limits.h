// JSON schemas of limits, breakers, reasons to wait and dashboard sessions. Part of schemas.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr Schema kLimitSchemas[] = {
    {"DashboardSession", R"({"type":"object","required":["who","everything"],"properties":{
      "who":{"type":"string",
        "description":"Name of the token, or local for requests without a token."},
      "everything":{"type":"boolean","description":"No scopes limit the caller."},
      "scopes":{"$ref":"#/components/schemas/Scopes"},
      "expires_at":{"type":"string","format":"date-time","description":"Expiry of the token."}}})"},
    {"RateLimit", R"({"type":["object","null"],"additionalProperties":false,
      "required":["count","per"],"description":"Attempts that start in a period. Null: no limit.",
      "properties":{
      "count":{"type":"integer","minimum":1,"maximum":1000000},
      "per":{"$ref":"#/components/schemas/Duration"},
      "kind":{"type":"string","enum":["bucket","sliding","fixed"],"default":"bucket"},
      "burst":{"type":["integer","null"],"minimum":0,"maximum":1000000,
        "description":"For bucket. 0: count."}}})"},
    {"QueueLimits", R"({"type":"object","additionalProperties":false,"properties":{
      "concurrency":{"type":["integer","null"],"minimum":1,"maximum":1000000,
        "description":"Jobs that run at once, over all workers; null = no limit."},
      "rate":{"$ref":"#/components/schemas/RateLimit"},
      "per_key":{"type":["object","null"],"additionalProperties":false,
        "description":"Limits of each limit_key. Null: no limits.","properties":{
        "concurrency":{"type":["integer","null"],"minimum":1,"maximum":1000000,
          "description":"Jobs with the same key that run at once."},
        "rate":{"$ref":"#/components/schemas/RateLimit"},
        "fair":{"type":["boolean","null"],"description":"Limit keys alternate within a priority."},
        "weights":{"type":["object","null"],"maxProperties":1000,"additionalProperties":
          {"type":"number","minimum":0.001,"maximum":1000}}}},
      "ageing":{"oneOf":[{"$ref":"#/components/schemas/Duration"},{"type":"null"}]},
      "breaker":{"type":["string","null"],"description":"Breaker of the queue. Null: none."},
      "quarantine_after":{"type":["integer","null"],"minimum":0,"maximum":10,"description":
        "Consecutive lost attempts that quarantine a job; 0 = never, null = 2."},
      "costs":{"type":["object","null"],"maxProperties":64,"description":
        "Slots that a job of a heavy kind takes of each limit; others take 1.",
        "additionalProperties":{"type":"integer","minimum":1,"maximum":1000},
        "examples":[{"render":4}]},
      "searchable":{"type":["array","null"],"maxItems":8,"items":{"type":"string","maxLength":256},
        "description":"Indexed paths in args: q=args.PATH=VALUE finds jobs by them.",
        "examples":[["order","customer.id"]]}}})"},
    {"LimitsOfQueue", R"({"type":"object","properties":{"name":{"type":"string"},
      "limits":{"$ref":"#/components/schemas/QueueLimits"}}})"},
    {"Why", R"({"type":"object","required":["id","state","gate","why"],"properties":{
      "id":{"type":"integer","format":"int64"},"state":{"$ref":"#/components/schemas/JobState"},
      "gate":{"enum":["ended","running","quarantine","deferred","time","earlier_run","session_head",
        "session_stopped","session_held","queue_paused","breaker","concurrency","rate",
        "key_concurrency","key_rate","no_worker","busy_workers","claim"]},
      "why":{"type":"string"},
      "until":{"type":"string","format":"date-time",
        "description":"Time at which the gate opens by itself."},
      "ahead":{"type":"integer","description":"Number of jobs before it, at most 10000."},
      "estimated_start":{"type":"string","format":"date-time"}}})"},
    {"BreakerSettings", R"({"type":"object","additionalProperties":false,
      "examples":[{"failures":10,"open_for":"1m"}],"properties":{
      "failures":{"type":"integer","minimum":1,"maximum":100,"default":5,
        "description":"Number of failed attempts that open the breaker."},
      "within":{"$ref":"#/components/schemas/Duration","default":"1m",
        "description":"Period in which failures count: 1s to 24h."},
      "open_for":{"$ref":"#/components/schemas/Duration","default":"30s",
        "description":"First open time, doubled after each failed probe. 1s to 24h."},
      "max_open_for":{"$ref":"#/components/schemas/Duration","default":"10m",
        "description":"Maximum open time, from open_for to 24h."},
      "probes":{"type":"integer","minimum":1,"maximum":16,"default":1,
        "description":"Jobs that run at once when it becomes half open."}}})"},
    {"OpenBreakerRequest", R"({"type":"object","additionalProperties":false,"properties":{
      "for":{"$ref":"#/components/schemas/Duration",
        "description":"1s to 24h. Default: open_for."}}})"},
    {"Breaker", R"({"type":"object","required":["name","settings","state","opened","queues"],
      "properties":{"name":{"type":"string"},
      "settings":{"$ref":"#/components/schemas/BreakerSettings"},
      "state":{"enum":["closed","open","half_open"]},
      "open_until":{"type":"string","format":"date-time",
        "description":"While open: the time at which it becomes half open."},
      "failures":{"type":"integer","description":"While closed: failed attempts in the period."},
      "room":{"type":"integer",
        "description":"While half open: number of jobs that may run at once."},
      "probes":{"type":"integer","description":"While half open: number of running probes."},
      "opened":{"type":"integer","format":"int64","description":"Number of times it opened."},
      "queues":{"type":"array","items":{"type":"string"},
        "description":"Queues that use the breaker."}}})"},
    {"BreakerList", R"({"type":"object","required":["breakers"],"properties":{
      "breakers":{"type":"array","items":{"$ref":"#/components/schemas/Breaker"}}}})"},
    {"QueueRemoved", R"({"type":"object","properties":{"name":{"type":"string"},
      "removed":{"const":true}}})"},
    {"BreakerRemoved", R"({"type":"object","properties":{"name":{"type":"string"},
      "removed":{"const":true}}})"},
};

}  // namespace mainspring::http
