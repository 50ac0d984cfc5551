// The table of commands: jobs, why, bulk.
#include "cli/commands.h"
#include "cli/handlers.h"
#include "cli/job_search.h"

namespace mainspring::cli {
namespace {

const Argument kJobId = {"ID", "a job's number", Argument::Count::one};
const Argument kJobIds = {"ID", "jobs' numbers", Argument::Count::many};
const Argument kBulkId = {"ID", "the number of a bulk operation", Argument::Count::one};

const Flag kArgsFlag = {
    .name = "args", .value = "JSON", .help = "new args: JSON, @FILE or - (standard input)"};
const Flag kPriorityFlag = {.name = "priority", .value = "N", .help = "0 (first) to 9"};
const Flag kRunAtFlag = {.name = "run-at", .value = "TIME", .help = "earliest start"};

std::vector<Flag> jobs_list_flags() {
  std::vector<Flag> flags = search_flags();
  flags.push_back({.name = "limit", .value = "N", .help = "at most N [50]"});
  flags.push_back({.name = "all", .value = "", .help = "all of them"});
  return flags;
}

Command edit_command() {
  return {.name = "edit",
          .summary = "change jobs that are not running",
          .description =
              "Change args, priority, run_at or tags of jobs that are not running and have not "
              "ended. New args drop the checkpoint, the progress and the saved step results.",
          .arguments = {kJobIds},
          .flags = {kArgsFlag,
                    kPriorityFlag,
                    kRunAtFlag,
                    {.name = "tag", .value = "TAG", .help = "replace the tags", .repeated = true},
                    {.name = "no-tags", .value = "", .help = "remove all tags"}},
          .scopes = kClient,
          .examples = {{"mainspring jobs edit 42 --priority 0", ""},
                       {"mainspring jobs edit 42 --args '{\"order\":4712}'", ""}},
          .exits = {{65, "a job is running or has ended, or a rule forbids the change"},
                    {66, "there is no such job"}},
          .run = run_jobs_edit};
}

Command delete_command() {
  return {
      .name = "delete",
      .summary = "delete jobs that have ended",
      .description = "Delete completed, cancelled and dead jobs before their retention is over.",
      .arguments = {kJobIds},
      .scopes = kClient,
      .examples = {{"mainspring jobs delete 42 43", ""}},
      .exits = {{65, "a job has not ended"}, {66, "there is no such job"}},
      .run = run_jobs_delete};
}

Command clone_command() {
  return {.name = "clone",
          .summary = "run jobs again as new jobs",
          .description =
              "Enqueue a copy of each job, without its unique key, expiry and callback, and print "
              "the new id. The header cloned_from has the id of the original.",
          .arguments = {kJobIds},
          .flags = {kArgsFlag,
                    kPriorityFlag,
                    kRunAtFlag,
                    {.name = "queue", .value = "QUEUE", .help = "another queue"}},
          .scopes = kClient,
          .examples = {{"mainspring jobs clone 42", ""},
                       {"mainspring jobs clone 42 --args '{\"order\":4712}'", ""}},
          .exits = {{66, "there is no such job"}},
          .run = run_jobs_clone};
}

std::vector<Flag> bulk_flags(const Flag* own) {
  std::vector<Flag> flags = search_flags();
  if (own != nullptr) flags.push_back(*own);
  flags.push_back(
      {.name = "dry-run", .value = "", .help = "print the number of jobs; change nothing"});
  flags.push_back({.name = "rate", .value = "N/s", .help = "maximum speed; also N/m and N/h"});
  flags.push_back({.name = "canary",
                   .value = "N",
                   .help = "wait after N changes until `mainspring bulk continue`"});
  return flags;
}

// The summary as a sentence.
std::string sentence(std::string summary) {
  summary[0] = static_cast<char>(summary[0] - 'a' + 'A');
  return summary + ".";
}

Command bulk_action(std::string name, const std::string& summary, const Flag* own,
                    std::string example, Run run) {
  Command command{.name = std::move(name), .summary = summary};
  command.description =
      sentence(summary) +
      " The server works in the background and continues after a restart. Jobs that no longer "
      "match when it reaches them are skipped.";
  command.flags = bulk_flags(own);
  command.scopes = kClient;
  command.examples = {{std::move(example), ""}};
  command.run = run;
  return command;
}

Command bulk_on_one(std::string name, const std::string& summary, Run run) {
  Command command{.name = std::move(name), .summary = summary};
  command.description = sentence(summary);
  command.arguments = {kBulkId};
  command.scopes = kClient;
  command.examples = {{"mainspring bulk " + command.name + " 42", ""}};
  command.exits = {{66, "there is no such bulk operation"}};
  command.run = run;
  return command;
}

}  // namespace

Command why_command() {
  return {.name = "why",
          .summary = "explain why a job does not run",
          .description =
              "Explain what keeps a job from running: its start time, a pause or a limit of its "
              "queue, an earlier run of its schedule, or missing or busy workers.",
          .arguments = {kJobIds},
          .scopes = kClient,
          .examples = {{"mainspring why 42", ""}},
          .exits = {{66, "there is no such job"}},
          .run = run_jobs_why};
}

Command jobs_command() {
  return {
      .name = "jobs",
      .summary = "list, show, edit, cancel, retry, take back, clone and delete jobs",
      .description = "Show and change jobs.",
      .children = {
          {.name = "list",
           .summary = "list jobs, newest first",
           .description = "List jobs, newest first. All flags must match.",
           .flags = jobs_list_flags(),
           .scopes = kClient,
           .examples = {{"mainspring jobs list --queue photos --state retryable,dead", ""},
                        {"mainspring jobs list --search 'args.order=4711 timeout' --since 1d", ""},
                        {"mainspring jobs list --all --json | jq .id",
                         "with --json: one job per line"}},
           .run = run_jobs_list},
          {.name = "show",
           .summary = "show everything about a job",
           .description = "Show a job with its result, checkpoint and the error of each attempt.",
           .arguments = {kJobId},
           .scopes = kClient,
           .examples = {{"mainspring jobs show 42", ""},
                        {"mainspring jobs show 42 --json | jq .result", ""}},
           .exits = {{66, "there is no such job, or its retention has ended"}},
           .run = run_jobs_show},
          why_command(),
          {.name = "cancel",
           .summary = "stop jobs",
           .description = "Cancel jobs. Workers of running jobs are asked to stop.",
           .arguments = {kJobIds},
           .flags = {{.name = "reason", .value = "TEXT", .help = "kept with the job"}},
           .scopes = kClient,
           .examples = {{"mainspring jobs cancel 42 43 --reason 'wrong file'", ""}},
           .exits = {{65, "a job had ended"}, {66, "there is no such job"}},
           .run = run_jobs_cancel},
          {.name = "retry",
           .summary = "run jobs again, now",
           .description = "Make dead, cancelled, retryable and scheduled jobs available now. Dead "
                          "and cancelled jobs get their full number of attempts again.",
           .arguments = {kJobIds},
           .scopes = kClient,
           .examples = {{"mainspring jobs retry 42", ""}},
           .exits = {{65, "a job is running or completed"}, {66, "there is no such job"}},
           .run = run_jobs_retry},
          {.name = "take-back",
           .summary = "take running jobs from their workers",
           .description = "Make running jobs available at once, without counting the attempt: for "
                          "a worker that is dead or stuck while its lease lasts. What the worker "
                          "reports afterwards is refused.",
           .arguments = {kJobIds},
           .scopes = kClient,
           .examples = {{"mainspring jobs take-back 42", ""}},
           .exits = {{65, "a job is not running"}, {66, "there is no such job"}},
           .run = run_jobs_take_back},
          edit_command(),
          clone_command(),
          delete_command()}};
}

Command bulk_command() {
  static const Flag kReason = {.name = "reason", .value = "TEXT", .help = "kept with the jobs"};
  Command command{.name = "bulk", .summary = "change all jobs that match a search"};
  command.description =
      "Cancel, retry, delete or reprioritise all jobs that match. The server does this in the "
      "background and reports progress. Start with --dry-run.";
  command.children = {
      bulk_action("cancel", "cancel all jobs that match", &kReason,
                  "mainspring bulk cancel --search 'tag:import wait>1h' --dry-run",
                  run_bulk_cancel),
      bulk_action("retry",
                  "retry all jobs that match and are dead, cancelled, retryable or "
                  "scheduled",
                  nullptr,
                  "mainspring bulk retry --queue mail --state dead --canary 10 --rate 20/s",
                  run_bulk_retry),
      bulk_action("delete", "delete all jobs that match and have ended", nullptr,
                  "mainspring bulk delete --state completed --until 7d", run_bulk_delete),
      bulk_action("reprioritise", "give all jobs that match another priority", &kPriorityFlag,
                  "mainspring bulk reprioritise --queue mail --tag vip --priority 0",
                  run_bulk_reprioritise),
      {.name = "list",
       .summary = "list bulk operations, newest first",
       .description = "List bulk operations with their progress, newest first, at most 100.",
       .scopes = kClient,
       .examples = {{"mainspring bulk list", ""}},
       .run = run_bulk_list},
      bulk_on_one("show", "show a bulk operation with its progress", run_bulk_show),
      bulk_on_one("stop", "stop a bulk operation; jobs that it changed stay changed",
                  run_bulk_stop),
      bulk_on_one("continue", "continue a bulk operation that waits after its canary",
                  run_bulk_continue)};
  return command;
}

}  // namespace mainspring::cli
