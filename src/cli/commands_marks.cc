// The table of commands: history, marks and saved views.
#include "cli/commands.h"
#include "cli/handlers.h"

namespace mainspring::cli {
namespace {

using Count = Argument::Count;

Command history_command() {
  return {
      .name = "history",
      .summary = "show counts and times of jobs per period",
      .description =
          "Show how many jobs were enqueued (NEW), completed (DONE), dead or cancelled, how many "
          "attempts failed, and the 50th and 95th percentile of wait and run time, one row per "
          "step. Percentiles are at most 10 % off. --json adds started attempts and the 99th.",
      .flags = {{.name = "queue", .value = "QUEUE", .help = "only of this queue"},
                {.name = "kind", .value = "KIND", .help = "only of this kind"},
                {.name = "since",
                 .value = "TIME",
                 .help = "since this time: 2h, 2026-01-31T09:00 or an instant [24h]"},
                {.name = "step",
                 .value = "TIME",
                 .help = "a row's length: whole minutes below 1h, else whole hours [1h]"}},
      .scopes = kClient,
      .examples = {{"mainspring history", ""},
                   {"mainspring history --queue photos --since 1h --step 5m", ""},
                   {"mainspring history --since 30d --step 1d --json", ""}},
      .run = run_history};
}

Command mark_command() {
  return {.name = "mark",
          .summary = "mark a moment on all charts, for example a deploy",
          .description =
              "Add a mark, which the dashboard draws on its charts. The server adds one by itself "
              "when a worker reports a version for the first time. Needs the scope admin.",
          .arguments = {{"TEXT", "up to 200 bytes", Count::one}},
          .flags = {{.name = "at", .value = "TIME", .help = "when [now]"}},
          .scopes = kClient,
          .examples = {{"mainspring mark v1.4", ""},
                       {"mainspring mark \"database moved\" --at 2026-01-31T09:00:00Z", ""}},
          .run = run_mark};
}

Command marks_command() {
  return {
      .name = "marks",
      .summary = "list and remove marks",
      .description = "List and remove marks on charts.",
      .children = {{.name = "list",
                    .summary = "list marks, latest first",
                    .description = "List marks, latest first, with their author and time.",
                    .flags = {{.name = "since",
                               .value = "TIME",
                               .help = "since this time: 2h, 2026-01-31T09:00 or an instant [all]"},
                              {.name = "limit", .value = "N", .help = "up to N marks [100]"}},
                    .scopes = kClient,
                    .examples = {{"mainspring marks list --since 7d", ""}},
                    .run = run_marks_list},
                   {.name = "remove",
                    .summary = "remove marks",
                    .description = "Remove marks by their numbers.",
                    .arguments = {{"MARK", "numbers of marks", Count::many}},
                    .scopes = kClient,
                    .examples = {{"mainspring marks remove 7", ""}},
                    .exits = {{66, "there is no such mark"}},
                    .run = run_marks_remove}}};
}

Command views_command() {
  const Argument name = {"NAME", "the view's name", Count::one};
  return {
      .name = "views",
      .summary = "list, save and remove saved views",
      .description = "List, save and remove the dashboard views that all users share.",
      .children = {
          {.name = "list",
           .summary = "list saved views",
           .description = "List saved views by name, with their page and query.",
           .scopes = kClient,
           .examples = {{"mainspring views list", ""}},
           .run = run_views_list},
          {.name = "save",
           .summary = "save a view",
           .description = "Save a view, or replace the view of that name. Needs the scope admin.",
           .arguments = {name, {"PAGE", "path below /ui/", Count::one}},
           .flags = {{.name = "query", .value = "QUERY", .help = "query of the URL [none]"}},
           .scopes = kClient,
           .examples =
               {{"mainspring views save \"dead mails\" jobs --query 'state=dead&queue=mail'", ""}},
           .exits = {{64, "the name, page or query breaks a rule; nothing was saved"}},
           .run = run_views_save},
          {.name = "remove",
           .summary = "remove a saved view",
           .description = "Remove a saved view.",
           .arguments = {name},
           .scopes = kClient,
           .examples = {{"mainspring views remove \"dead mails\"", ""}},
           .exits = {{66, "there is no such view"}},
           .run = run_views_remove}}};
}

}  // namespace

std::vector<Command> chart_commands() {
  return {history_command(), mark_command(), marks_command(), views_command()};
}

}  // namespace mainspring::cli
