// The table of commands: workflows.
#include "cli/commands.h"
#include "cli/handlers.h"

namespace mainspring::cli {
namespace {

using Count = Argument::Count;

const ExitCode kMissingWorkflow = {66, "there is no such workflow"};
const ExitCode kConflict = {65, "its state does not allow it"};
const std::vector<std::string> kStates = {"running", "undoing", "parked",   "completed",
                                          "failed",  "undone",  "cancelled"};

Command start_command() {
  return {
      .name = "start",
      .summary = "start a workflow",
      .description =
          "Starts a workflow: steps that are finished, or undone, as a whole. FILE is its "
          "definition as JSON, as POST /v1/workflows takes it. When the command returns it is "
          "on disk. Prints its id.",
      .arguments = {{"FILE", "the definition; - = standard input", Count::one}},
      .flags = {{.name = "key",
                 .value = "KEY",
                 .help = "one workflow per name and key: again gives the same one"},
                {.name = "input", .value = "JSON", .help = "JSON, or @FILE: instead of its own"},
                {.name = "wait",
                 .value = "[=TIME]",
                 .help = "wait for the end [1h], print the result, exit with the outcome"}},
      .scopes = kClient,
      .examples = {{"mainspring workflow start order.json --key order-7", ""},
                   {"mainspring workflow start order.json --input '{\"order\":7}' --wait=10m",
                    "run it like a program"}},
      .exits = {{0, "started; with --wait: completed"},
                {1, "with --wait: failed, undone, cancelled, or parked for somebody to look"},
                {64, "the definition breaks a rule; nothing was started"},
                {69, "the server is not reachable"},
                {75, "refused for now, try again; with --wait: not ended in time"}},
      .run = run_workflow_start};
}

Command show_command() {
  return {.name = "show",
          .summary = "a workflow and its steps as a tree",
          .description =
              "Shows a workflow. Each step stands below the one that it waits for; jobs of a step "
              "with `each` are counted, and those that failed are named. Below a step that is a "
              "workflow stand the steps of that. One whose job lives says who has it, in which "
              "attempt, and how long it may take.",
          .arguments = {{"ID", "the workflow's number", Count::one}},
          .flags = {{.name = "follow",
                     .value = "",
                     .help = "show it again as it goes on, until it has ended or is parked",
                     .letter = "f"}},
          .scopes = kClient,
          .examples = {{"mainspring workflow show 7", ""},
                       {"mainspring workflow show 7 --json | jq '.steps[] | select(.state == "
                        "\"failed\")'",
                        ""}},
          .exits = {{1, "with --follow: failed, undone, cancelled or parked"},
                    kMissingWorkflow,
                    {75, "with --follow: stopped by a signal before its end"}},
          .run = run_workflow_show};
}

Command retry_command() {
  return {
      .name = "retry",
      .summary = "let a parked workflow go on",
      .description =
          "A workflow is parked when a step failed whose on_failure is \"park\", or when a job "
          "that undoes a step died. Somebody looks at it and has that job made again; or does by "
          "hand what it should have done, and says so by --by-hand.",
      .arguments = {{"ID", "the workflow's number", Count::one}},
      .flags = {{.name = "step", .value = "STEP", .help = "only this one [all that failed]"},
                {.name = "by-hand", .value = "", .help = "it has been done, or undone, by hand"},
                {.name = "result",
                 .value = "JSON",
                 .help = "by hand, what the step answered; @FILE or @- reads it"}},
      .scopes = kClient,
      .examples =
          {{"mainspring workflow retry 7", ""},
           {"mainspring workflow retry 7 --step charge --by-hand", ""},
           {"mainspring workflow retry 7 --step charge --by-hand --result '{\"id\":\"c1\"}'", ""}},
      .exits = {kConflict, kMissingWorkflow},
      .run = run_workflow_retry};
}

Command fork_command() {
  return {
      .name = "fork",
      .summary = "begin one that has ended anew from a step",
      .description =
          "Starts a new workflow of the same definition. STEP begins anew, and what is behind it; "
          "other steps that ended well are taken over with their results, and never undone by the "
          "new one. What STEP waits for has to have ended well. Prints the new id.",
      .arguments = {{"ID", "the number of one that has ended", Count::one}},
      .flags = {{.name = "from", .value = "STEP", .help = "the step to begin with; required"},
                {.name = "input",
                 .value = "JSON",
                 .help = "JSON, or @FILE: instead of the old one"},
                {.name = "key", .value = "KEY", .help = "of the new one: again gives the same one"},
                {.name = "wait",
                 .value = "[=TIME]",
                 .help = "wait for the end [1h], print the result, exit with the outcome"}},
      .scopes = kClient,
      .examples = {{"mainspring workflow fork 7 --from ship", ""},
                   {"mainspring workflow fork 7 --from charge --input '{\"order\":8}' --wait", ""}},
      .exits = {{0, "started; with --wait: completed"},
                {1, "with --wait: failed, undone, cancelled, or parked for somebody to look"},
                {64, "there is no such step; nothing was started"},
                {65, "it has not ended, or a step before STEP did not end well"},
                kMissingWorkflow,
                {75, "refused for now, try again; with --wait: not ended in time"}},
      .run = run_workflow_fork};
}

Command signal_command() {
  return {.name = "signal",
          .summary = "tell a workflow what a step of it waits for",
          .description =
              "Sends a signal. The step that waits for it, now or later, takes it; the payload is "
              "the step's result.",
          .arguments = {{"ID", "the workflow's number", Count::one},
                        {"NAME", "of the signal", Count::one}},
          .flags = {{.name = "payload", .value = "JSON", .help = "JSON, or @FILE [null]"},
                    {.name = "id", .value = "ID", .help = "the same one again changes nothing"}},
          .scopes = kClient,
          .examples = {{"mainspring workflow signal 7 approved --payload '{\"by\":\"ann\"}'", ""}},
          .exits = {kConflict, kMissingWorkflow},
          .run = run_workflow_signal};
}

Command list_command() {
  return {.name = "list",
          .summary = "workflows, newest first",
          .description = "Lists workflows, newest first.",
          .flags = {{.name = "name", .value = "NAME", .help = "only of this name"},
                    {.name = "state",
                     .value = "STATE",
                     .help = "only in this state",
                     .choices = kStates},
                    {.name = "limit", .value = "N", .help = "at most so many [50]"},
                    {.name = "all", .value = "", .help = "all of them"}},
          .scopes = kClient,
          .examples = {{"mainspring workflow list --state parked", "somebody has to look at these"},
                       {"mainspring workflow list --name order --all --json | jq .id", ""}},
          .run = run_workflow_list};
}

}  // namespace

Command workflow_command() {
  const Argument ids{"ID", "workflows' numbers", Count::many};
  return {
      .name = "workflow",
      .summary = "steps that are finished or undone as a whole",
      .description = "Starts workflows, looks at them, and tells them to go on, stop, or wait.",
      .children = {
          start_command(),
          list_command(),
          show_command(),
          signal_command(),
          {.name = "cancel",
           .summary = "stop workflows and undo what they did",
           .description =
               "Stops workflows: no step begins any more, jobs that run are told to stop, and what "
               "was done is undone; that of their sub-workflows too.",
           .arguments = {ids},
           .flags = {{.name = "reason", .value = "TEXT", .help = "kept with it"}},
           .scopes = kClient,
           .examples = {{"mainspring workflow cancel 7 --reason 'customer called'", ""}},
           .exits = {kConflict, kMissingWorkflow},
           .run = run_workflow_cancel},
          {.name = "pause",
           .summary = "begin no steps and undo nothing",
           .description =
               "Pauses workflows and their sub-workflows, also over a restart. Jobs that run go "
               "on.",
           .arguments = {ids},
           .scopes = kClient,
           .examples = {{"mainspring workflow pause 7", ""}},
           .exits = {kConflict, kMissingWorkflow},
           .run = run_workflow_pause},
          {.name = "resume",
           .summary = "undo pause",
           .description = "Lets paused workflows go on.",
           .arguments = {ids},
           .scopes = kClient,
           .examples = {{"mainspring workflow resume 7", ""}},
           .exits = {kConflict, kMissingWorkflow},
           .run = run_workflow_resume},
          retry_command(),
          fork_command(),
          {.name = "check",
           .summary = "check a definition, without a server",
           .description =
               "Holds definitions against the rules: names, kinds of steps, jobs, references, "
               "circles, depth. Steps of sub-workflows are counted too.",
           .arguments = {{"FILE", "definitions; - = standard input", Count::many}},
           .scopes = kEverywhere,
           .examples = {{"mainspring workflow check order.json", ""}},
           .exits = {{64, "it breaks a rule; the field is named"}},
           .run = run_workflow_check}}};
}

}  // namespace mainspring::cli
