// The JSON schemas of breakers. Of schemas.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr Schema kBreakerSchemas[] = {
    {"BreakerSettings", R"({"type":"object","additionalProperties":false,
      "examples":[{"failures":10,"open_for":"1m"}],"properties":{
      "failures":{"type":"integer","minimum":1,"maximum":100,"default":5,
        "description":"So many failed attempts open it,"},
      "within":{"$ref":"#/components/schemas/Duration","default":"1m",
        "description":"in a time of this length: 1s to 24h."},
      "open_for":{"$ref":"#/components/schemas/Duration","default":"30s",
        "description":"At first; twice as long after each failed probe. 1s to 24h."},
      "max_open_for":{"$ref":"#/components/schemas/Duration","default":"10m",
        "description":"No longer than this. 1s to 24h, not less than open_for."},
      "probes":{"type":"integer","minimum":1,"maximum":16,"default":1,
        "description":"Jobs that run at once when it has become half open."}}})"},
    {"OpenBreakerRequest", R"({"type":"object","additionalProperties":false,"properties":{
      "for":{"$ref":"#/components/schemas/Duration",
        "description":"1s to 24h; left out: its open_for."}}})"},
    {"Breaker", R"({"type":"object","required":["name","settings","state","opened","queues"],
      "properties":{"name":{"type":"string"},
      "settings":{"$ref":"#/components/schemas/BreakerSettings"},
      "state":{"enum":["closed","open","half_open"]},
      "open_until":{"type":"string","format":"date-time","description":"Open: half open then."},
      "failures":{"type":"integer","description":"Closed: that count now."},
      "room":{"type":"integer","description":"Half open: how many may run at once,"},
      "probes":{"type":"integer","description":"and how many of those it let begin run."},
      "opened":{"type":"integer","format":"int64","description":"How often, ever."},
      "queues":{"type":"array","items":{"type":"string"},"description":"That name it."}}})"},
    {"BreakerList", R"({"type":"object","required":["breakers"],"properties":{
      "breakers":{"type":"array","items":{"$ref":"#/components/schemas/Breaker"}}}})"},
    {"BreakerRemoved", R"({"type":"object","properties":{"name":{"type":"string"},
      "removed":{"const":true}}})"},
};

}  // namespace mainspring::http
