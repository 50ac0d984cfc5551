// The schemas of tokens. Part of schemas.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr Schema kTokenSchemas[] = {
    {"JobTokenRequest", R"({"type":"object","properties":{
      "lifetime_ms":{"type":"integer","minimum":60000,"maximum":86400000,"default":3600000},
      "folder":{"type":"string",
        "description":"Job folder of the run. Only for the host's queue."}}})"},
    {"JobToken",
     R"({"type":"object","required":["token","expires_at","expires_in_ms"],"properties":{
      "token":{"type":"string","description":"Expires with the token that requested it."},
      "expires_at":{"type":"string","format":"date-time"},
      "expires_in_ms":{"type":"integer","minimum":0}}})"},
    {"CreateTokenRequest", R"({"type":"object","additionalProperties":false,
      "required":["name","scopes"],
      "examples":[{"name":"ci","scopes":["enqueue=photos","result=photos"],"expires_in":"30d"}],
      "properties":{"name":{"$ref":"#/components/schemas/Name"},
      "scopes":{"$ref":"#/components/schemas/Scopes"},
      "expires_in":{"$ref":"#/components/schemas/Duration",
        "description":"Without expires_in and expires_at the token does not expire."},
      "expires_at":{"type":"string","format":"date-time"},
      "rate":{"type":"integer","minimum":0,"maximum":1000000,
        "description":"Requests per second. 0: the server's default."}}})"},
    {"Scopes", R"({"type":"array","minItems":1,"maxItems":100,"items":{"type":"string",
      "examples":["enqueue=photos","work=img-*","read"],
      "description":"VERB or VERB=PATTERN."}})"},
    {"Token", R"({"type":"object","required":["name","scopes"],"properties":{
      "name":{"$ref":"#/components/schemas/Name"},"scopes":{"$ref":"#/components/schemas/Scopes"},
      "rate":{"type":"integer"},"created_at":{"type":"string","format":"date-time"},
      "created_by":{"type":"string"},
      "expires_at":{"type":["string","null"],"format":"date-time"},
      "revoked_at":{"type":"string","format":"date-time"},"usable":{"type":"boolean"}}})"},
    {"CreatedToken", R"({"allOf":[{"$ref":"#/components/schemas/Token"},{"type":"object",
      "required":["token"],"properties":{"token":{"type":"string",
        "description":"The token itself. It is not stored."}}}]})"},
    {"TokenList", R"({"type":"object","required":["tokens"],"properties":{
      "tokens":{"type":"array","items":{"$ref":"#/components/schemas/Token"}}}})"},
    {"TokenRevoked", R"({"type":"object","properties":{"name":{"type":"string"},
      "revoked":{"const":true}}})"},
};

}  // namespace mainspring::http
