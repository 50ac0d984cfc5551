// The table of commands: triggers.
#include "cli/commands.h"
#include "cli/handlers.h"

namespace mainspring::cli {
namespace {

using Count = Argument::Count;

const ExitCode kMissingTrigger = {66, "no such trigger"};
const Argument kTriggerName = {"NAME", "the trigger's name", Count::one};
const Argument kNames = {"NAME", "names of triggers", Count::many};

std::vector<Flag> set_flags() {
  std::vector<Flag> flags = {
      {.name = "http",
       .value = "AUTH",
       .help = "fire on POST /hooks/NAME, with a token or a signature",
       .choices = {"token", "signature"}},
      {.name = "event-id",
       .value = "REF",
       .help = "where the request has its id, such as headers.x-id [headers.webhook-id]"},
      {.name = "rate", .value = "N", .help = "requests per second and server [100]"},
      {.name = "secret-file",
       .value = "FILE",
       .help = "file with the secret of --http; - = standard input [created and shown]"},
      {.name = "folder", .value = "DIR", .help = "fire on files written or moved into this folder"},
      {.name = "pattern", .value = "GLOB", .help = "pattern of file names [*]"},
      {.name = "stable", .value = "TIME", .help = "time without changes of a file [2s]"},
      {.name = "node",
       .value = "HOST",
       .help = "host name of the server that watches [the "
               "leader]"},
      {.name = "ended",
       .value = "ENDS",
       .help = "fire on ends of jobs: any, or completed,cancelled,dead"},
      {.name = "of-queue", .value = "QUEUE", .help = "of the ended jobs [any]"},
      {.name = "of-kind", .value = "KIND", .help = "of the ended jobs [any]"},
      {.name = "schedule", .value = "CRON", .help = "not possible: see `mainspring schedule set`"},
      {.name = "queue", .value = "QUEUE", .help = "queue of its jobs [default]"},
      {.name = "kind", .value = "KIND", .help = "of its jobs"},
      {.name = "args",
       .value = "JSON",
       .help = "args of its jobs, with {\"$ref\": …}: JSON, @FILE or - [the body, file or job]"}};
  for (Flag& flag : job_flags(JobTimeout::flag)) flags.push_back(std::move(flag));
  flags.push_back({.name = "paused", .value = "", .help = "create it paused"});
  flags.push_back({.name = "file", .value = "FILE", .help = "read the definition as JSON"});
  return flags;
}

Command trigger_set_command() {
  return {
      .name = "set",
      .summary = "create or change a trigger",
      .description =
          "Create or change a trigger: the source of its events and the job that each creates. The "
          "same definition again changes nothing; another one is the next version. Omitted options "
          "get their default: `set` replaces the whole definition except the secret.\n"
          "\n"
          "In the args {\"$ref\": \"body.order.id\"} is replaced by a value of the event: body, "
          "headers and query of a request; file.path, file.name, file.size and file.modified_at of "
          "a file; job.id, job.queue, job.kind, job.outcome, job.attempt, job.result, job.error, "
          "job.reason and job.description of a job that ended; trigger.name and trigger.event.",
      .arguments = {kTriggerName},
      .flags = set_flags(),
      .scopes = kClient,
      .examples =
          {{"mainspring trigger set orders --http token --queue orders --kind import",
            "prints the secret"},
           {"mainspring trigger set pushed --http signature --secret-file key --queue ci "
            "--kind build --args '{\"branch\":{\"$ref\":\"body.ref\"}}'",
            ""},
           {"mainspring trigger set scans --folder /srv/scans --pattern '*.pdf' --queue "
            "docs --kind index",
            ""},
           {"mainspring trigger set alarm --ended dead --of-queue orders --queue mail --kind "
            "alert --args '{\"order\":{\"$ref\":\"job.id\"}}'",
            ""}},
      .exits = {{64, "an invalid flag or field; nothing was set"}},
      .run = run_trigger_set};
}

Command fire_command() {
  return {.name = "fire",
          .summary = "fire a trigger by hand",
          .description =
              "Create a job of the trigger's template and print its id. An event id that already "
              "fired creates nothing.",
          .arguments = {kTriggerName},
          .flags = {{.name = "event", .value = "ID", .help = "id of the event [none]"},
                    {.name = "body", .value = "JSON", .help = "JSON, or @FILE [null]"},
                    {.name = "headers", .value = "JSON", .help = "an object [{}]"},
                    {.name = "query", .value = "JSON", .help = "an object [{}]"},
                    {.name = "of-file", .value = "JSON", .help = "file of the event [null]"},
                    {.name = "of-job", .value = "JSON", .help = "ended job of the event [null]"}},
          .scopes = kClient,
          .examples = {{"mainspring trigger fire orders --body '{\"order\":{\"id\":7}}'", ""}},
          .exits = {{64, "args refer to a missing value of the event"},
                    {65, "it is paused"},
                    kMissingTrigger},
          .run = run_trigger_fire};
}

Command trigger_ledger_command() {
  return {.name = "ledger",
          .summary = "show the events that fired",
          .description =
              "Show events that fired, newest first, with the created job, or why none was "
              "created.",
          .arguments = {kTriggerName},
          .flags = {{.name = "limit", .value = "N", .help = "maximum [50]"},
                    {.name = "all", .value = "", .help = "all kept rows"}},
          .scopes = kClient,
          .examples = {{"mainspring trigger ledger orders", ""}},
          .exits = {kMissingTrigger},
          .run = run_trigger_ledger};
}

}  // namespace

Command triggers_command() {
  return {
      .name = "trigger",
      .summary = "manage triggers",
      .description = "Create, change, show and pause triggers.",
      .children = {
          trigger_set_command(),
          {.name = "list",
           .summary = "list triggers",
           .description = "List triggers with the time they last fired.",
           .scopes = kClient,
           .examples = {{"mainspring trigger list", ""}},
           .run = run_trigger_list},
          {.name = "show",
           .summary = "show a trigger",
           .description = "Show a trigger, without its secret.",
           .arguments = {kTriggerName},
           .scopes = kClient,
           .examples = {{"mainspring trigger show orders", ""}},
           .exits = {kMissingTrigger},
           .run = run_trigger_show},
          fire_command(),
          trigger_ledger_command(),
          {.name = "pause",
           .summary = "pause triggers",
           .description =
               "Pause triggers, also across restarts. Hooks answer 503, so that callers repeat; "
               "files of a folder fire when it is resumed.",
           .arguments = {kNames},
           .flags = {{.name = "reason", .value = "TEXT", .help = "kept with it"}},
           .scopes = kClient,
           .examples = {{"mainspring trigger pause orders --reason 'the shop is broken'", ""}},
           .exits = {kMissingTrigger},
           .run = run_trigger_pause},
          {.name = "resume",
           .summary = "resume triggers",
           .description = "Resume paused triggers.",
           .arguments = {kNames},
           .scopes = kClient,
           .examples = {{"mainspring trigger resume orders", ""}},
           .exits = {kMissingTrigger},
           .run = run_trigger_resume},
          {.name = "remove",
           .summary = "remove triggers",
           .description = "Remove triggers with their ledgers. Their jobs stay.",
           .arguments = {kNames},
           .scopes = kClient,
           .examples = {{"mainspring trigger remove orders", ""}},
           .exits = {kMissingTrigger},
           .run = run_trigger_remove}}};
}

}  // namespace mainspring::cli
