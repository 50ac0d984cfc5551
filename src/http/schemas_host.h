// JSON schemas of job folders. Part of schemas.cc.
#pragma once

#include "http/routes.h"

namespace mainspring::http {

inline constexpr Schema kHostSchemas[] = {
    {"HostLayers", R"({"type":"array","items":{"type":"object","properties":{
      "name":{"type":"string"},"active":{"type":"boolean"},
      "detail":{"type":"string","description":"Details, or why the layer is not active."}}}})"},
    {"Host", R"({"type":"object","required":["instance","directory","layers"],"properties":{
      "instance":{"type":"string","description":"Six characters, as in logs."},
      "directory":{"type":"string"},
      "stopped":{"type":"boolean","description":"WEBJOBS_STOPPED is set: nothing runs."},
      "strict":{"type":"boolean","description":"--strict-webjobs is set."},
      "continuous":{"type":"integer"},"triggered":{"type":"integer"},
      "queues":{"type":"integer"},"running":{"type":"integer"},
      "missing":{"type":"integer","description":"Jobs whose folders are missing."},
      "layers":{"$ref":"#/components/schemas/HostLayers"},
      "problems":{"type":"array","items":{"type":"string"},
        "description":"Folders and settings that cannot be read, watched or applied."}}})"},
    {"HostJob", R"({"type":"object","required":["type","name"],"properties":{
      "type":{"enum":["continuous","triggered","queue"]},"name":{"type":"string"},
      "directory":{"type":"string"},"run_file":{"type":"string"},
      "host":{"type":"string","description":"Script host, such as BashScriptHost."},
      "pool":{"type":"string"},"disabled":{"type":"boolean"},"frozen":{"type":"boolean"},
      "error":{"type":"string","description":"Why the job cannot run."},
      "missing":{"type":"object","description":"The folder is missing; its data is kept.",
        "properties":{"seen":{"type":"string","format":"date-time"},
          "kept_until":{"type":"string","format":"date-time"}}},
      "status":{"type":"string","description":"Of a continuous job."},
      "detailed_status":{"type":"string"},"port":{"type":"integer"},
      "latest_run":{"$ref":"#/components/schemas/HostRun"},
      "children":{"type":"integer","description":"Number of processes of a queue folder."},
      "job":{"type":"integer","format":"int64",
        "description":"Engine job of the current or last run."},
      "settings":{"$ref":"#/components/schemas/HostSettings"},
      "warnings":{"type":"array","items":{"type":"string"}}}})"},
    {"HostJobList", R"({"type":"object","required":["jobs"],"properties":{
      "jobs":{"type":"array","items":{"$ref":"#/components/schemas/HostJob"}}}})"},
    {"HostJobRemoved", R"({"type":"object","properties":{"type":{"type":"string"},
      "name":{"type":"string"},"removed":{"const":true}}})"},
    {"HostFiles", R"({"type":"string","format":"binary",
      "description":"A zip file, or with another content type a single file."})"},
    {"HostSettings", R"({"type":"object",
    "description":"The file settings.job. Unknown keys are kept."})"},
    {"HostRunRequest", R"({"type":"object","additionalProperties":false,"properties":{
      "arguments":{"type":"string","description":"Appended to the command. At most 64 KiB."}}})"},
    {"HostRunStarted", R"({"type":"object","required":["run"],"properties":{
      "run":{"type":"string","description":"Id of the run."},
      "job":{"type":"integer","description":"Engine job of the run."}}})"},
    {"HostRun", R"({"type":"object","required":["id","status","started"],"properties":{
      "id":{"type":"string"},
      "status":{"enum":["Initializing","Running","Success","Failed","Aborted","Stopped"]},
      "trigger":{"type":"string"},"started":{"type":"string","format":"date-time"},
      "ended":{"type":"string","format":"date-time","description":"Omitted while it runs."},
      "job":{"type":"integer","format":"int64"},
      "exit_code":{"type":"integer","description":"Omitted if a signal ended the run."},
      "peak_memory":{"type":"integer","format":"int64","description":"Bytes, if known."}}})"},
    {"HostHistory", R"({"type":"object","required":["runs"],"properties":{
      "runs":{"type":"array","items":{"$ref":"#/components/schemas/HostRun"}}}})"},
    {"HostLog", R"({"type":"object","required":["text","next","at_end","ended"],"properties":{
      "text":{"type":"string"},
      "next":{"type":"integer","format":"int64","description":"Pass as position."},
      "skipped":{"type":"integer","format":"int64",
        "description":"Number of bytes after position that are no longer kept."},
      "at_end":{"type":"boolean","description":"There is no more output yet."},
      "ended":{"type":"boolean","description":"There will be no more output."},
      "run":{"type":"string"}}})"},
};

}  // namespace mainspring::http
