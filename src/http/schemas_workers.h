// JSON schemas of workers. Part of schemas.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr Schema kWorkerSchemas[] = {
    {"Worker", R"({"type":"object",
      "required":["id","queues","running","last_seen_ms","parked","command"],
      "properties":{
        "id":{"type":"string"},"queues":{"type":"array","items":{"type":"string"}},
        "running":{"type":"integer"},"last_seen_ms":{"type":"integer"},
        "parked":{"type":"boolean"},"host":{"type":"string"},"pid":{"type":"integer"},
        "version":{"type":"string"},"language":{"type":"string"},
        "slots":{"type":"integer"},
        "command":{"enum":["quiet","stop",null],"description":"Command of an operator."}}})"},
    {"WorkerList", R"({"type":"object","required":["workers"],"properties":{
      "workers":{"type":"array","items":{"$ref":"#/components/schemas/Worker"}}}})"},
};

}  // namespace mainspring::http
