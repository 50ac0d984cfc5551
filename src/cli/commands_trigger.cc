// The table of commands: triggers.
#include "cli/commands.h"
#include "cli/handlers.h"

namespace mainspring::cli {
namespace {

using Count = Argument::Count;

const ExitCode kMissingTrigger = {66, "there is no such trigger"};
const Argument kTriggerName = {"NAME", "the trigger's name", Count::one};
const Argument kNames = {"NAME", "triggers' names", Count::many};

std::vector<Flag> set_flags() {
  std::vector<Flag> flags = {
      {.name = "http",
       .value = "AUTH",
       .help = "POST /hooks/NAME fires it; who calls shows a token, or signs",
       .choices = {"token", "signature"}},
      {.name = "event-id",
       .value = "REF",
       .help = "where a request has its id, as headers.x-id [headers.webhook-id]"},
      {.name = "rate", .value = "N", .help = "requests per second that each node takes [100]"},
      {.name = "secret-file",
       .value = "FILE",
       .help = "the secret of --http; - = standard input [one is made and shown]"},
      {.name = "folder", .value = "DIR", .help = "files written or moved into it fire it"},
      {.name = "pattern", .value = "GLOB", .help = "of file names [*]"},
      {.name = "stable", .value = "TIME", .help = "a file is unchanged for so long [2s]"},
      {.name = "node", .value = "HOST", .help = "the node that watches [the leader]"},
      {.name = "ended",
       .value = "ENDS",
       .help = "jobs that end so fire it: any, or of completed,cancelled,dead"},
      {.name = "of-queue", .value = "QUEUE", .help = "of the jobs that end [every one]"},
      {.name = "of-kind", .value = "KIND", .help = "of the jobs that end [every one]"},
      {.name = "schedule", .value = "CRON", .help = "refused: see `mainspring schedule set`"},
      {.name = "queue", .value = "QUEUE", .help = "of its jobs [default]"},
      {.name = "kind", .value = "KIND", .help = "of its jobs"},
      {.name = "args",
       .value = "JSON",
       .help = "of its jobs, with {\"$ref\": …}: JSON, @FILE or - [the body, file or job]"}};
  for (Flag& flag : job_flags(JobTimeout::flag)) flags.push_back(std::move(flag));
  flags.push_back({.name = "paused", .value = "", .help = "paused from the start"});
  flags.push_back({.name = "file", .value = "FILE", .help = "the definition as JSON instead"});
  return flags;
}

Command trigger_set_command() {
  return {
      .name = "set",
      .summary = "define a trigger, or change it",
      .description =
          "Defines a trigger: where its events come from, and the job that each makes. The same "
          "definition again changes nothing; another one is its next version. What is not given "
          "has its default: `set` replaces the whole definition, but for the secret.\n"
          "\n"
          "In the args {\"$ref\": \"body.order.id\"} stands for what the event has: body, headers "
          "and query of a request; file.path, file.name, file.size and file.modified_at of a file; "
          "job.id, job.queue, job.kind, job.outcome, job.attempt, job.result, job.error, "
          "job.reason "
          "and job.description of a job that ended; trigger.name and trigger.event.",
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
      .exits = {{64, "a flag or a field breaks a rule; nothing was set"}},
      .run = run_trigger_set};
}

Command fire_command() {
  return {.name = "fire",
          .summary = "make a job as if an event had come",
          .description =
              "Makes a job of the trigger's template. An event with an id that has fired makes "
              "nothing again. Prints the job's id.",
          .arguments = {kTriggerName},
          .flags = {{.name = "event", .value = "ID", .help = "its id [none]"},
                    {.name = "body", .value = "JSON", .help = "JSON, or @FILE [null]"},
                    {.name = "headers", .value = "JSON", .help = "an object [{}]"},
                    {.name = "query", .value = "JSON", .help = "an object [{}]"},
                    {.name = "of-file", .value = "JSON", .help = "what a file would have [null]"},
                    {.name = "of-job", .value = "JSON", .help = "what a job would have [null]"}},
          .scopes = kClient,
          .examples = {{"mainspring trigger fire orders --body '{\"order\":{\"id\":7}}'", ""}},
          .exits = {{64, "args refer to what the event does not have"},
                    {65, "it is paused"},
                    kMissingTrigger},
          .run = run_trigger_fire};
}

Command trigger_ledger_command() {
  return {.name = "ledger",
          .summary = "the events that fired",
          .description =
              "Shows which events fired, newest first, and the job that each made, or why it "
              "made none.",
          .arguments = {kTriggerName},
          .flags = {{.name = "limit", .value = "N", .help = "at most so many [50]"},
                    {.name = "all", .value = "", .help = "all that are kept"}},
          .scopes = kClient,
          .examples = {{"mainspring trigger ledger orders", ""}},
          .exits = {kMissingTrigger},
          .run = run_trigger_ledger};
}

}  // namespace

Command triggers_command() {
  return {
      .name = "trigger",
      .summary = "jobs that events make",
      .description = "Defines triggers, looks at them, and tells them to rest.",
      .children = {
          trigger_set_command(),
          {.name = "list",
           .summary = "triggers by name",
           .description = "Lists triggers, with when they fired last.",
           .scopes = kClient,
           .examples = {{"mainspring trigger list", ""}},
           .run = run_trigger_list},
          {.name = "show",
           .summary = "a trigger",
           .description = "Shows a trigger. Its secret is never shown.",
           .arguments = {kTriggerName},
           .scopes = kClient,
           .examples = {{"mainspring trigger show orders", ""}},
           .exits = {kMissingTrigger},
           .run = run_trigger_show},
          fire_command(),
          trigger_ledger_command(),
          {.name = "pause",
           .summary = "let events make no jobs",
           .description =
               "Pauses triggers, also over a restart. Hooks answer 503, so that who calls comes "
               "again; files of a folder fire when it is resumed.",
           .arguments = {kNames},
           .flags = {{.name = "reason", .value = "TEXT", .help = "kept with it"}},
           .scopes = kClient,
           .examples = {{"mainspring trigger pause orders --reason 'the shop is broken'", ""}},
           .exits = {kMissingTrigger},
           .run = run_trigger_pause},
          {.name = "resume",
           .summary = "undo pause",
           .description = "Lets events make jobs again.",
           .arguments = {kNames},
           .scopes = kClient,
           .examples = {{"mainspring trigger resume orders", ""}},
           .exits = {kMissingTrigger},
           .run = run_trigger_resume},
          {.name = "remove",
           .summary = "remove triggers",
           .description = "Removes triggers with their ledgers. Their jobs stay.",
           .arguments = {kNames},
           .scopes = kClient,
           .examples = {{"mainspring trigger remove orders", ""}},
           .exits = {kMissingTrigger},
           .run = run_trigger_remove}}};
}

}  // namespace mainspring::cli
