// The JSON schemas of triggers. Part of schemas.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr Schema kTriggerSchemas[] = {
    {"HookSource", R"({"type":"object","additionalProperties":false,
      "description":"POST /hooks/NAME.","properties":{
      "auth":{"enum":["token","signature"],"default":"token",
        "description":"token: Authorization: Bearer SECRET; signature: as Standard Webhooks."},
      "event_id":{"type":["string","null"],"default":"headers.webhook-id",
        "description":"Where a request has its id. One that has fired makes nothing again."},
      "rate":{"type":"integer","minimum":1,"maximum":10000,"default":100,
        "description":"Requests per second that each node takes."}}})"},
    {"FolderSource", R"({"type":"object","additionalProperties":false,"required":["path"],
      "description":"Files that are written or moved into a folder.","properties":{
      "path":{"type":"string","description":"Absolute, below a --watch-root of the server."},
      "pattern":{"type":"string","default":"*","description":"Of file names: * and ?."},
      "stable":{"type":"string","default":"2s","description":"Unchanged for so long."},
      "node":{"type":["string","null"],
        "description":"The host name of the node that watches; left out: the leader."}}})"},
    {"EndedSource", R"({"type":"object","additionalProperties":false,
      "description":"Jobs that end, in the transaction that ends them.","properties":{
      "queue":{"type":["string","null"],
        "description":"Of these jobs; left out: every queue, but for the server's own."},
      "kind":{"type":["string","null"],"description":"Of these jobs; left out: every one."},
      "on":{"type":["array","null"],"items":{"enum":["completed","cancelled","dead"]},
        "description":"Which ends; left out: every one."}}})"},
    {"TriggerDefinition", R"({"type":"object","additionalProperties":false,"required":["job"],
      "examples":[{"http":{"auth":"token"},"job":{"queue":"orders","kind":"import"}}],"properties":{
      "name":{"type":["string","null"],"description":"That of the path, or left out."},
      "http":{"$ref":"#/components/schemas/HookSource"},
      "folder":{"$ref":"#/components/schemas/FolderSource"},
      "ended":{"$ref":"#/components/schemas/EndedSource"},
      "schedule":{"description":"Not here: PUT /v1/schedules/{name} defines what the clock fires."},
      "job":{"$ref":"#/components/schemas/NewJob"},
      "secret":{"type":["string","null"],
        "description":"Secret that callers use. Left out: unchanged; generated for a new trigger."},
      "paused":{"type":["boolean","null"]}}})"},
    {"Trigger", R"({"type":"object","required":["name","job","version","paused","fired"],
      "properties":{"outcome":{"enum":["created","replaced","unchanged"]},
      "secret":{"type":"string","description":"That was made for it; shown once."},
      "name":{"type":"string"},"http":{"$ref":"#/components/schemas/HookSource"},
      "folder":{"$ref":"#/components/schemas/FolderSource"},
      "ended":{"$ref":"#/components/schemas/EndedSource"},
      "job":{"$ref":"#/components/schemas/NewJob"},
      "version":{"type":"integer","format":"int64"},"paused":{"type":"boolean"},
      "paused_reason":{"type":"string"},
      "fired":{"type":"integer","format":"int64","description":"Jobs made, ever."},
      "refused":{"type":"integer","format":"int64",
        "description":"Ends of jobs that made none: the ledger says why."},
      "last_fired":{"type":"string","format":"date-time"},
      "last_job":{"type":"integer","format":"int64"},"last_event":{"type":"string"},
      "created_at":{"type":"string","format":"date-time"},
      "updated_at":{"type":"string","format":"date-time"}}})"},
    {"TriggerList", R"({"type":"object","required":["triggers","next"],"properties":{
      "triggers":{"type":"array","items":{"$ref":"#/components/schemas/Trigger"}},
      "next":{"type":["string","null"],"description":"Pass as after; null: there is no more."}}})"},
    {"HookBody", R"({"description":"JSON, or another text; up to 1 MiB."})"},
    {"TriggerRemoved", R"({"type":"object","properties":{"name":{"type":"string"},
      "removed":{"const":true}}})"},
    {"FireTriggerRequest", R"({"type":"object","additionalProperties":false,"properties":{
      "event":{"type":["string","null"],"description":"Its id; left out: it fires each time."},
      "body":{"description":"What args refer to as body.…"},
      "headers":{"type":"object"},"query":{"type":"object"},"file":{"type":["object","null"]},
      "job":{"type":["object","null"],"description":"What args refer to as job.…"}}})"},
    {"TriggerFired", R"({"type":"object","required":["job","duplicate"],"properties":{
      "job":{"type":["integer","null"],"format":"int64"},
      "duplicate":{"type":"boolean","description":"The event had fired."}}})"},
    {"TriggerLedger", R"({"type":"object","required":["events","next"],"properties":{
      "events":{"type":"array","items":{"type":"object","properties":{
        "seq":{"type":"integer","format":"int64"},"event":{"type":"string"},
        "fired_at":{"type":"string","format":"date-time"},
        "made_at":{"type":"string","format":"date-time"},
        "job":{"type":["integer","null"],"format":"int64"},
        "reason":{"type":"string","description":"Why there is no job."}}}},
      "next":{"type":["integer","null"],"description":"Pass as before; null: no more."}}})"},
};

}  // namespace mainspring::http
