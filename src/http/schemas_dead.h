// The schemas of the dead letter and of redrives. Part of schemas.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr Schema kDeadSchemas[] = {
    {"DeadGroups", R"({"type":"object","required":["groups","jobs","cut"],"properties":{
      "groups":{"type":"array","items":{"type":"object","properties":{
        "fingerprint":{"type":"string",
          "description":"Computed from kind, reason and masked description."},
        "kind":{"type":"string"},"reason":{"type":"string"},
        "count":{"type":"integer","format":"int64"},
        "first":{"$ref":"#/components/schemas/DeadJobRef"},
        "last":{"$ref":"#/components/schemas/DeadJobRef"},
        "message":{"type":["string","null"],"description":"Description of the newest job."},
        "masked":{"type":"boolean"}}}},
      "jobs":{"type":"integer","format":"int64","description":"Number of jobs examined."},
      "cut":{"type":"boolean","description":"There are more."}}})"},
    {"DeadJobRef", R"({"type":"object","required":["id","at"],"properties":{
      "id":{"type":"integer","format":"int64"},"at":{"type":"string","format":"date-time"}}})"},
    {"RedriveRequest", R"({"type":"object","additionalProperties":false,"properties":{
      "queue":{"$ref":"#/components/schemas/Name"},"kind":{"$ref":"#/components/schemas/Name"},
      "tag":{"type":"string"},
      "limit":{"type":"integer","minimum":1,"maximum":10000,"default":1000},
      "after":{"type":"integer","format":"int64","description":"The next of the previous answer."},
      "dry_run":{"type":"boolean","default":false,
        "description":"Change nothing and report what would change."}}})"},
    {"RedriveOrder", R"({"type":"object","additionalProperties":false,"properties":{
      "queue":{"$ref":"#/components/schemas/Name"},"kind":{"$ref":"#/components/schemas/Name"},
      "tag":{"type":"string"},"fingerprint":{"type":"string","pattern":"^[0-9a-f]{16}$"},
      "rate":{"type":"string","pattern":"^[1-9][0-9]{0,6}/[smh]$",
        "description":"Maximum speed, such as 20/s."},
      "canary":{"type":"boolean","default":false},
      "limit":{"type":"integer","minimum":1,"maximum":1000000,"default":1000000}}})"},
    {"RedriveResponse", R"({"type":"object","required":["redriven","next","ids"],"properties":{
      "redriven":{"type":"integer"},
      "next":{"type":["integer","null"],"description":"Null when all jobs have been examined."},
      "ids":{"type":"array","items":{"type":"integer","format":"int64"}},
      "dry_run":{"type":"boolean"},
      "cut":{"type":"boolean","description":"Of a dry run: there are older jobs."}}})"},
};

}  // namespace mainspring::http
