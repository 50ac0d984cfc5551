// JSON schemas of probes. Part of schemas.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr Schema kHealthSchemas[] = {
    {"Live", R"({"type":"object","properties":{"status":{"const":"live"}}})"},
    {"Health", R"({"type":"object","properties":{
      "status":{"enum":["ok","warn","fail"],"description":"fail: a core part failed."},
      "error":{"type":"object","description":"Code and message, as in Error. With status fail."},
      "parts":{"type":"array","description":"With verbose.","items":{"type":"object",
        "required":["name","core","status"],"properties":{
        "name":{"type":"string","example":"store"},
        "core":{"type":"boolean","description":"A failure of this part makes the status fail."},
        "status":{"enum":["ok","warn","fail"]},"message":{"type":"string"},
        "age_ms":{"type":"integer","description":"Age of the information in message."}}}},
      "limits":{"type":"object","description":"Of the server's process. With verbose.",
        "properties":{"open_files":{"type":"integer","description":"0 = unlimited."},
        "max_connections":{"type":"integer"}}},
      "host":{"type":"object","description":"Where job folders run.","properties":{
        "layers":{"$ref":"#/components/schemas/HostLayers"},
        "running":{"type":"integer","description":"Number of running processes."}}}}})"},
    {"Ready", R"({"type":"object","properties":{"status":{"const":"ready"},
      "durability":{"type":"string"},
      "warning":{"type":"string"},
      "store":{"type":"object","description":"Of a store that several servers share.",
        "properties":{"kind":{"const":"postgres"},"away":{"type":"boolean"},
        "durability":{"type":"object","properties":{"synchronous_commit":{"type":"string"},
          "standbys":{"type":"integer",
            "description":"Number of standbys that a commit waits for."}}},
        "node":{"type":"integer","format":"int64"},"others":{"type":"integer"},
        "peers_reached":{"type":"integer"},
        "listen":{"enum":["not_yet","works","does_not_work","away"]}}}}})"},
};

}  // namespace mainspring::http
