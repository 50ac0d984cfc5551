// The schemas of edits, searches and bulk operations. Part of schemas.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr Schema kJobSchemas[] = {
    {"JobEdit", R"({"type":"object","additionalProperties":false,"properties":{
      "args":{"description":"Drops the checkpoint and the saved step results."},
      "priority":{"type":["integer","null"],"minimum":0,"maximum":9},
      "run_at":{"type":["string","null"],"format":"date-time"},
      "tags":{"type":["array","null"],"maxItems":16,
        "items":{"type":"string","minLength":1,"maxLength":64}},
      "version":{"type":"integer","format":"int64",
        "description":"Required version of the job, otherwise conflict. 0: any version."}}})"},
    {"JobClone", R"({"type":"object","additionalProperties":false,"properties":{
      "args":{"description":"Default: the args of the original."},
      "queue":{"type":["string","null"]},
      "priority":{"type":["integer","null"],"minimum":0,"maximum":9},
      "run_at":{"type":["string","null"],"format":"date-time"}}})"},
    {"JobSearch", R"({"type":"object","additionalProperties":false,"properties":{
      "queue":{"type":["string","null"]},"kind":{"type":["string","null"]},
      "tag":{"type":["string","null"]},
      "state":{"type":["array","null"],"items":{"$ref":"#/components/schemas/JobState"}},
      "from":{"type":["string","null"],"format":"date-time",
        "description":"Created at this time or later."},
      "to":{"type":["string","null"],"format":"date-time",
        "description":"Created before this time."},
      "ids":{"type":["array","null"],"maxItems":1000,
        "items":{"type":"integer","format":"int64"}},
      "q":{"type":["string","null"],"maxLength":2048,"description":"Search terms."}}})"},
    {"BulkAction", R"({"enum":["cancel","retry","delete","reprioritise"]})"},
    {"BulkRequest", R"({"type":"object","required":["action","filter"],
      "additionalProperties":false,"properties":{
      "action":{"$ref":"#/components/schemas/BulkAction"},
      "filter":{"$ref":"#/components/schemas/JobSearch"},
      "priority":{"type":["integer","null"],"minimum":0,"maximum":9,
        "description":"For reprioritise."},
      "reason":{"type":["string","null"],"description":"For cancel."},
      "rate":{"type":["string","null"],"pattern":"^[1-9][0-9]{0,6}/[smh]$",
        "description":"Maximum speed, such as 20/s."},
      "canary":{"type":["integer","null"],"format":"int64","minimum":0,"maximum":1000000,
        "description":"Wait after this number of changes until continued."},
      "dry_run":{"type":["boolean","null"],"default":false}}})"},
    {"BulkCount", R"({"type":"object","required":["matched","exact","sample"],"properties":{
      "matched":{"type":"integer","format":"int64"},
      "exact":{"type":"boolean","description":"False if there are more."},
      "sample":{"type":"array","items":{"type":"integer","format":"int64"},
        "description":"The newest jobs, at most 20."}}})"},
    {"Bulk", R"({"type":"object","required":["id","state","action","filter","matched","changed",
      "skipped","failed","by","started_at"],"properties":{
      "id":{"type":"integer","format":"int64"},
      "state":{"enum":["queued","running","waiting","done","stopped","failed"],
        "description":"waiting: waits after its canary."},
      "action":{"$ref":"#/components/schemas/BulkAction"},
      "filter":{"$ref":"#/components/schemas/JobSearch"},
      "priority":{"type":"integer"},"reason":{"type":"string"},"rate":{"type":"string"},
      "canary":{"type":"integer","format":"int64"},
      "matched":{"type":["integer","null"],"format":"int64","description":"Null while it counts."},
      "changed":{"type":"integer","format":"int64"},
      "skipped":{"type":"integer","format":"int64",
        "description":"Jobs that changed meanwhile and no longer match."},
      "failed":{"type":"integer","format":"int64","description":"Number of refused changes."},
      "error":{"type":"string","description":"Error of the last refused change."},
      "by":{"type":"string"},"started_at":{"type":"string","format":"date-time"},
      "finished_at":{"type":"string","format":"date-time"}}})"},
    {"BulkList", R"({"type":"object","required":["bulks"],"properties":{
      "bulks":{"type":"array","items":{"$ref":"#/components/schemas/Bulk"}}}})"},
};

}  // namespace mainspring::http
