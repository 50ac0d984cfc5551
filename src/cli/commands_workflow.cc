// The table of commands: workflows.
#include "cli/commands.h"
#include "cli/handlers.h"

namespace mainspring::cli {
namespace {

using Count = Argument::Count;

const ExitCode kMissingWorkflow = {66, "no such workflow"};
const ExitCode kConflict = {65, "not possible in its state"};
const std::vector<std::string> kStates = {"running", "undoing", "parked",   "completed",
                                          "failed",  "undone",  "cancelled"};

Command start_command() {
  return {
      .name = "start",
      .summary = "start a workflow",
      .description =
          "Start a workflow: steps that are all completed or all undone. FILE is its definition as "
          "JSON, as in POST /v1/workflows. Print its id; it is on disk when the command returns.",
      .arguments = {{"FILE", "the definition; - = standard input", Count::one}},
      .flags = {{.name = "key",
                 .value = "KEY",
                 .help = "one workflow per name and key; a repetition returns the first"},
                {.name = "key-for",
                 .value = "DURATION",
                 .help = "how long the key is remembered after the workflow ends [720h]"},
                {.name = "input",
                 .value = "JSON",
                 .help = "input instead of its own; JSON or "
                         "@FILE"},
                {.name = "wait",
                 .value = "[=TIME]",
                 .help = "wait for the end [1h], print the result, exit with the outcome"}},
      .scopes = kClient,
      .examples = {{"mainspring workflow start order.json --key order-7", ""},
                   {"mainspring workflow start order.json --input '{\"order\":7}' --wait=10m",
                    "wait for the result, as for a program"}},
      .exits = {{0, "started; with --wait: completed"},
                {1, "with --wait: failed, undone, cancelled or parked"},
                {64, "invalid definition; nothing was started"},
                {69, "the server is not reachable"},
                {75, "refused for now, try again; with --wait: not ended in time"}},
      .run = run_workflow_start};
}

Command show_command() {
  return {.name = "show",
          .summary = "show a workflow and its steps as a tree",
          .description =
              "Show a workflow. Each step is below the one that it waits for; jobs of a step with "
              "`each` are counted, failed ones are named. Steps of a child workflow are below its "
              "step. A running step shows its worker, attempt and remaining time.",
          .arguments = {{"ID", "the workflow's id", Count::one}},
          .flags = {{.name = "follow",
                     .value = "",
                     .help = "follow it until it has ended or is parked",
                     .letter = "f"}},
          .scopes = kClient,
          .examples = {{"mainspring workflow show 7", ""},
                       {"mainspring workflow show 7 --json | jq '.steps[].reason'", ""}},
          .exits = {{1, "with --follow: failed, undone, cancelled or parked"},
                    kMissingWorkflow,
                    {75, "with --follow: stopped by a signal before its end"}},
          .run = run_workflow_show};
}

Command retry_command() {
  return {
      .name = "retry",
      .summary = "retry a parked workflow",
      .description =
          "Run the failed step or the dead undo job of a parked workflow again. If you did its "
          "work by hand, report that with --by-hand. A workflow is parked when a step with "
          "on_failure \"park\" fails or an undo job dies.",
      .arguments = {{"ID", "the workflow's id", Count::one}},
      .flags = {{.name = "step", .value = "STEP", .help = "only this step [all that failed]"},
                {.name = "by-hand", .value = "", .help = "the step was done, or undone, by hand"},
                {.name = "result",
                 .value = "JSON",
                 .help = "with --by-hand: the step's result; @FILE or @- reads it"}},
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
      .summary = "start a new workflow from a step of an ended one",
      .description =
          "Start a new workflow of the same definition and print its id. STEP and the steps after "
          "it run again; other completed steps are kept with their results, and the new workflow "
          "never undoes them. The steps before STEP must be completed.",
      .arguments = {{"ID", "id of an ended workflow", Count::one}},
      .flags = {{.name = "from", .value = "STEP", .help = "the step to start with; required"},
                {.name = "input",
                 .value = "JSON",
                 .help = "input instead of the old one; JSON or @FILE"},
                {.name = "key",
                 .value = "KEY",
                 .help = "key of the new workflow; a repetition returns the first"},
                {.name = "key-for",
                 .value = "DURATION",
                 .help = "how long the key is remembered after the workflow ends [720h]"},
                {.name = "wait",
                 .value = "[=TIME]",
                 .help = "wait for the end [1h], print the result, exit with the outcome"}},
      .scopes = kClient,
      .examples = {{"mainspring workflow fork 7 --from ship", ""},
                   {"mainspring workflow fork 7 --from charge --input '{\"order\":8}' --wait", ""}},
      .exits = {{0, "started; with --wait: completed"},
                {1, "with --wait: failed, undone, cancelled or parked"},
                {64, "no such step; nothing was started"},
                {65, "it has not ended, or a step before STEP is not completed"},
                kMissingWorkflow,
                {75, "refused for now, try again; with --wait: not ended in time"}},
      .run = run_workflow_fork};
}

Command signal_command() {
  return {.name = "signal",
          .summary = "send a signal to a workflow",
          .description =
              "Send a signal. The step that waits for it, now or later, ends with the payload as "
              "its result.",
          .arguments = {{"ID", "the workflow's id", Count::one},
                        {"NAME", "the signal's name", Count::one}},
          .flags = {{.name = "payload", .value = "JSON", .help = "JSON, or @FILE [null]"},
                    {.name = "id",
                     .value = "ID",
                     .help = "id of the signal; a repetition changes "
                             "nothing"}},
          .scopes = kClient,
          .examples = {{"mainspring workflow signal 7 approved --payload '{\"by\":\"ann\"}'", ""}},
          .exits = {kConflict, kMissingWorkflow},
          .run = run_workflow_signal};
}

Command list_command() {
  return {
      .name = "list",
      .summary = "list workflows, newest first",
      .description = "List workflows, newest first.",
      .flags = {{.name = "name", .value = "NAME", .help = "only this name"},
                {.name = "state", .value = "STATE", .help = "only this state", .choices = kStates},
                {.name = "limit", .value = "N", .help = "maximum [50]"},
                {.name = "all", .value = "", .help = "all of them"}},
      .scopes = kClient,
      .examples = {{"mainspring workflow list --state parked", "these need a person"},
                   {"mainspring workflow list --name order --all --json | jq .id", ""}},
      .run = run_workflow_list};
}

}  // namespace

Command workflow_command() {
  const Argument ids{"ID", "ids of workflows", Count::many};
  return {
      .name = "workflow",
      .summary = "manage workflows",
      .description = "Start, show, signal, pause, retry and cancel workflows.",
      .children = {
          start_command(),
          list_command(),
          show_command(),
          signal_command(),
          {.name = "cancel",
           .summary = "stop workflows and undo what they did",
           .description =
               "Stop workflows and their children: no step starts, running jobs are asked to stop, "
               "and completed steps are undone.",
           .arguments = {ids},
           .flags = {{.name = "reason", .value = "TEXT", .help = "kept with it"}},
           .scopes = kClient,
           .examples = {{"mainspring workflow cancel 7 --reason 'customer called'", ""}},
           .exits = {kConflict, kMissingWorkflow},
           .run = run_workflow_cancel},
          {.name = "pause",
           .summary = "pause workflows",
           .description =
               "Pause workflows and their children, also across restarts. Running jobs continue.",
           .arguments = {ids},
           .scopes = kClient,
           .examples = {{"mainspring workflow pause 7", ""}},
           .exits = {kConflict, kMissingWorkflow},
           .run = run_workflow_pause},
          {.name = "resume",
           .summary = "resume workflows",
           .description = "Resume paused workflows.",
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
               "Check definitions: names, kinds of steps, jobs, references, cycles, depth, "
               "including children.",
           .arguments = {{"FILE", "definitions; - = standard input", Count::many}},
           .scopes = kEverywhere,
           .examples = {{"mainspring workflow check order.json", ""}},
           .exits = {{64, "invalid definition; the field is named"}},
           .run = run_workflow_check}}};
}

}  // namespace mainspring::cli
