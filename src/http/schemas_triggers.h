// The JSON schemas of triggers. Part of schemas.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr Schema kTriggerSchemas[] = {
    {"HookSource", R"({"type":"object","additionalProperties":false,
      "description":"Fires on POST /hooks/NAME.","properties":{
      "auth":{"enum":["token","signature"],"default":"token",
        "description":"token: Authorization: Bearer SECRET. signature: Standard Webhooks."},
      "event_id":{"type":["string","null"],"default":"headers.webhook-id",
        "description":"Where the request has its event id. An id fires only once."},
      "rate":{"type":"integer","minimum":1,"maximum":10000,"default":100,
        "description":"Maximum requests per second and node."}}})"},
    {"FolderSource", R"({"type":"object","additionalProperties":false,"required":["path"],
      "description":"Fires on files written or moved into a folder.","properties":{
      "path":{"type":"string","description":"Absolute path below a --watch-root of the server."},
      "pattern":{"type":"string","default":"*",
        "description":"Pattern of file names, with * and ?."},
      "stable":{"type":"string","default":"2s",
        "description":"Time without changes before a file fires."},
      "node":{"type":["string","null"],
        "description":"Host name of the watching node. Default: the leader."}}})"},
    {"EndedSource", R"({"type":"object","additionalProperties":false,
      "description":"Fires in the transaction that ends a job.","properties":{
      "queue":{"type":["string","null"],
        "description":"Queue of the ended jobs. Default: every queue except the server's own."},
      "kind":{"type":["string","null"],
        "description":"Kind of the ended jobs. Default: every kind."},
      "on":{"type":["array","null"],"items":{"enum":["completed","cancelled","dead"]},
        "description":"Outcomes of the ended jobs. Default: every outcome."}}})"},
    {"TriggerDefinition", R"({"type":"object","additionalProperties":false,"required":["job"],
      "examples":[{"http":{"auth":"token"},"job":{"queue":"orders","kind":"import"}}],"properties":{
      "name":{"type":["string","null"],"description":"Omit it, or repeat the name of the path."},
      "http":{"$ref":"#/components/schemas/HookSource"},
      "folder":{"$ref":"#/components/schemas/FolderSource"},
      "ended":{"$ref":"#/components/schemas/EndedSource"},
      "schedule":{"description":"Not supported: use PUT /v1/schedules/{name}."},
      "job":{"$ref":"#/components/schemas/NewJob"},
      "secret":{"type":["string","null"],
        "description":"Secret of the callers. Default: unchanged, or generated for a new trigger."},
      "paused":{"type":["boolean","null"]}}})"},
    {"Trigger", R"({"type":"object","required":["name","job","version","paused","fired"],
      "properties":{"outcome":{"enum":["created","replaced","unchanged"]},
      "secret":{"type":"string","description":"Generated secret. Shown only once."},
      "name":{"type":"string"},"http":{"$ref":"#/components/schemas/HookSource"},
      "folder":{"$ref":"#/components/schemas/FolderSource"},
      "ended":{"$ref":"#/components/schemas/EndedSource"},
      "job":{"$ref":"#/components/schemas/NewJob"},
      "version":{"type":"integer","format":"int64"},"paused":{"type":"boolean"},
      "paused_reason":{"type":"string"},
      "fired":{"type":"integer","format":"int64","description":"Number of jobs created."},
      "refused":{"type":"integer","format":"int64",
        "description":"Number of ended jobs that created no job; see the ledger."},
      "last_fired":{"type":"string","format":"date-time"},
      "last_job":{"type":"integer","format":"int64"},"last_event":{"type":"string"},
      "created_at":{"type":"string","format":"date-time"},
      "updated_at":{"type":"string","format":"date-time"}}})"},
    {"TriggerList", R"({"type":"object","required":["triggers","next"],"properties":{
      "triggers":{"type":"array","items":{"$ref":"#/components/schemas/Trigger"}},
      "next":{"type":["string","null"],"description":"Pass as after. Null on the last page."}}})"},
    {"HookBody", R"({"description":"JSON or other text up to 1 MiB."})"},
    {"TriggerRemoved", R"({"type":"object","properties":{"name":{"type":"string"},
      "removed":{"const":true}}})"},
    {"FireTriggerRequest", R"({"type":"object","additionalProperties":false,"properties":{
      "event":{"type":["string","null"],
        "description":"Id of the event. Without it the trigger always fires."},
      "body":{"description":"Value of the reference body."},
      "headers":{"type":"object"},"query":{"type":"object"},"file":{"type":["object","null"]},
      "job":{"type":["object","null"],"description":"Value of the reference job."}}})"},
    {"TriggerFired", R"({"type":"object","required":["job","duplicate"],"properties":{
      "job":{"type":["integer","null"],"format":"int64"},
      "duplicate":{"type":"boolean","description":"The event had already fired."}}})"},
    {"TriggerLedger", R"({"type":"object","required":["events","next"],"properties":{
      "events":{"type":"array","items":{"type":"object","properties":{
        "seq":{"type":"integer","format":"int64"},"event":{"type":"string"},
        "fired_at":{"type":"string","format":"date-time"},
        "made_at":{"type":"string","format":"date-time"},
        "job":{"type":["integer","null"],"format":"int64"},
        "reason":{"type":"string","description":"Why no job was created."}}}},
      "next":{"type":["integer","null"],
        "description":"Pass as before. Null on the last page."}}})"},
};

}  // namespace mainspring::http
