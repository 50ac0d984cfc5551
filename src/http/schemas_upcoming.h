// JSON schemas of pauses and of upcoming ticks. Part of schemas.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr Schema kUpcomingSchemas[] = {
    {"PauseQueueRequest", R"({"type":"object","additionalProperties":false,"properties":{
      "reason":{"type":["string","null"],"maxLength":1024},
      "until":{"type":["string","null"],"format":"date-time",
        "description":"The queue resumes at this time, at most 366 days from now."},
      "for":{"type":["string","null"],"example":"2h","description":"Alternative to until."}}})"},
    {"QueuePause", R"({"type":"object",
      "required":["reason","by","at","until"],"properties":{
      "reason":{"type":"string"},
      "by":{"type":"string",
        "description":"Name of the token, or local for requests without a token."},
      "at":{"type":"string","format":"date-time"},
      "until":{"type":["string","null"],"format":"date-time",
        "description":"The queue resumes at this time."}}})"},
    {"Upcoming", R"({"type":"object","required":["from","to","ticks","truncated","due",
      "windows"],
      "properties":{
      "from":{"type":"string","format":"date-time"},"to":{"type":"string","format":"date-time"},
      "ticks":{"type":"array",
        "description":"Ticks of schedules that are not paused, in order of time.",
        "items":{"type":"object","required":["schedule","nominal"],"properties":{
        "schedule":{"type":"string"},"nominal":{"type":"string","format":"date-time"},
        "note":{"type":"string","description":"How a clock change moves the tick."}}}},
      "truncated":{"type":"boolean","description":"There are more ticks or more due jobs."},
      "cut":{"type":"array","items":{"type":"string"},
        "description":"Schedules with more than 300 ticks; the first 300 are shown."},
      "due":{"type":"array","description":"Scheduled and retryable jobs by the hour of run_at.",
        "items":{"type":"object","required":["at","jobs"],"properties":{
        "at":{"type":"string","format":"date-time"},"jobs":{"type":"integer"}}}},
      "windows":{"type":"array",
        "description":"Times in which the calendar of a worker pool sets another min or max.",
        "items":{"type":"object","required":["pool","min","max","from","to"],"properties":{
        "pool":{"type":"string"},"min":{"type":["integer","null"]},
        "max":{"type":["integer","null"]},"from":{"type":"string","format":"date-time"},
        "to":{"type":"string","format":"date-time"}}}}}})"},
    {"ScheduleSet", R"({"type":"object","additionalProperties":false,
      "description":"Exactly one of names, prefix and all.","properties":{
      "names":{"type":["array","null"],"maxItems":1000,"items":{"type":"string"}},
      "prefix":{"type":["string","null"],
        "description":"Schedules whose names start with this text."},
      "all":{"type":"boolean"},
      "reason":{"type":["string","null"],"description":"Shown while they are paused."}}})"},
    {"ScheduleChanges", R"({"type":"object","required":["changed","unchanged","missing"],
      "properties":{
      "changed":{"type":"array","items":{"type":"string"}},
      "unchanged":{"type":"array","items":{"type":"string"}},
      "missing":{"type":"array","items":{"type":"string"}}}})"},
};

}  // namespace mainspring::http
