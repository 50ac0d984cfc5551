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
        "description":"That the job must have, else conflict. 0: any."}}})"},
    {"JobClone", R"({"type":"object","additionalProperties":false,"properties":{
      "args":{"description":"Instead of the job's own."},
      "queue":{"type":["string","null"]},
      "priority":{"type":["integer","null"],"minimum":0,"maximum":9},
      "run_at":{"type":["string","null"],"format":"date-time"}}})"},
    {"JobSearch", R"({"type":"object","additionalProperties":false,"properties":{
      "queue":{"type":["string","null"]},"kind":{"type":["string","null"]},
      "tag":{"type":["string","null"]},
      "state":{"type":["array","null"],"items":{"$ref":"#/components/schemas/JobState"}},
      "from":{"type":["string","null"],"format":"date-time",
        "description":"Created at that time or later."},
      "to":{"type":["string","null"],"format":"date-time","description":"Created before."},
      "ids":{"type":["array","null"],"maxItems":1000,
        "items":{"type":"integer","format":"int64"}},
      "q":{"type":["string","null"],"maxLength":2048,"description":"Terms."}}})"},
    {"BulkAction", R"({"enum":["cancel","retry","delete","reprioritise"]})"},
    {"BulkRequest", R"({"type":"object","required":["action","filter"],
      "additionalProperties":false,"properties":{
      "action":{"$ref":"#/components/schemas/BulkAction"},
      "filter":{"$ref":"#/components/schemas/JobSearch"},
      "priority":{"type":["integer","null"],"minimum":0,"maximum":9,
        "description":"Of reprioritise."},
      "reason":{"type":["string","null"],"description":"Of cancel."},
      "rate":{"type":["string","null"],"pattern":"^[1-9][0-9]{0,6}/[smh]$",
        "description":"At most this fast: 20/s."},
      "canary":{"type":["integer","null"],"format":"int64","minimum":0,"maximum":1000000,
        "description":"Wait after this many changes until continued."},
      "dry_run":{"type":["boolean","null"],"default":false}}})"},
    {"BulkCount", R"({"type":"object","required":["matched","exact","sample"],"properties":{
      "matched":{"type":"integer","format":"int64"},
      "exact":{"type":"boolean","description":"false: there are more."},
      "sample":{"type":"array","items":{"type":"integer","format":"int64"},
        "description":"The newest, at most 20."}}})"},
    {"Bulk", R"({"type":"object","required":["id","state","action","filter","matched","changed",
      "skipped","failed","by","started_at"],"properties":{
      "id":{"type":"integer","format":"int64"},
      "state":{"enum":["queued","running","waiting","done","stopped","failed"],
        "description":"waiting: after its canary."},
      "action":{"$ref":"#/components/schemas/BulkAction"},
      "filter":{"$ref":"#/components/schemas/JobSearch"},
      "priority":{"type":"integer"},"reason":{"type":"string"},"rate":{"type":"string"},
      "canary":{"type":"integer","format":"int64"},
      "matched":{"type":["integer","null"],"format":"int64","description":"null: it counts."},
      "changed":{"type":"integer","format":"int64"},
      "skipped":{"type":"integer","format":"int64",
        "description":"Changed by others meanwhile, and do not match any more."},
      "failed":{"type":"integer","format":"int64","description":"Refused."},
      "error":{"type":"string","description":"Of the last refused one."},
      "by":{"type":"string"},"started_at":{"type":"string","format":"date-time"},
      "finished_at":{"type":"string","format":"date-time"}}})"},
    {"BulkList", R"({"type":"object","required":["bulks"],"properties":{
      "bulks":{"type":"array","items":{"$ref":"#/components/schemas/Bulk"}}}})"},
};

}  // namespace mainspring::http
