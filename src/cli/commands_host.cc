// The table of commands: host, jobs-host, logs.
#include "cli/commands.h"
#include "cli/handlers.h"

namespace mainspring::cli {
namespace {

using Count = Argument::Count;

const Argument kFolderName = {"NAME", "a job folder's name; TYPE/NAME if several types have it",
                              Count::one};
const ExitCode kNoJob = {66, "there is no such job folder, or the server has none at all"};

Command host_command() {
  return {
      .name = "host",
      .summary = "run job folders for a server elsewhere",
      .description =
          "Runs the job folders in --jobs on this machine, as jobs of the server: what `serve "
          "--jobs` does, without a server of its own. Several hosts may work for one server; of a "
          "singleton one of them runs it, and another takes over when that one dies.\n"
          "\n"
          "SIGTERM and Ctrl-C stop it in good order: children are told, get their "
          "stopping_wait_time, and are ended.",
      .scopes = kHostScope | kClient,
      .examples = {{"mainspring host --jobs /srv/jobs --server http://127.0.0.1:8080", ""},
                   {"mainspring host --jobs jobs --host-data /var/lib/mainspring-host", ""}},
      .exits = {{0, "stopped by a signal, in good order"},
                {64, "a setting breaks a rule"},
                {65, "another process has the host's data directory"}},
      .run = run_host};
}

std::vector<Command> looking() {
  return {
      {.name = "list",
       .summary = "job folders and how they are",
       .description = "Lists the job folders of the server.",
       .scopes = kClient,
       .examples = {{"mainspring jobs-host list", ""},
                    {"mainspring jobs-host list --json | jq -r .name", ""}},
       .exits = {kNoJob},
       .run = run_host_list},
      {.name = "show",
       .summary = "everything about a job folder",
       .description = "Shows a job folder: what is run and how, its status, its settings.",
       .arguments = {kFolderName},
       .scopes = kClient,
       .examples = {{"mainspring jobs-host show report", ""}},
       .exits = {kNoJob},
       .run = run_host_show},
      {.name = "info",
       .summary = "the job host itself: isolation, problems",
       .description = "Shows what the job host fences its children in with, and which folders it "
                      "cannot run.",
       .scopes = kClient,
       .examples = {{"mainspring jobs-host info", ""}},
       .exits = {kNoJob},
       .run = run_host_info},
      {.name = "history",
       .summary = "the runs of a triggered job",
       .description = "Lists the runs of a triggered job that are kept, newest first.",
       .arguments = {kFolderName},
       .scopes = kClient,
       .examples = {{"mainspring jobs-host history report", ""}},
       .exits = {kNoJob},
       .run = run_host_history}};
}

std::vector<Command> doing() {
  return {
      {.name = "run",
       .summary = "run a triggered job now",
       .description = "Starts a run of a triggered job and prints its id. With --wait it prints "
                      "the run's log as it comes and exits with its outcome.",
       .arguments = {kFolderName,
                     {"ARGUMENT", "handed to the script; write -- before them", Count::any}},
       .flags = {{.name = "wait", .value = "", .help = "wait for the end, and print the log"}},
       .scopes = kClient,
       .examples = {{"mainspring jobs-host run report --wait -- --month 2026-01", ""}},
       .exits = {{0, "started; with --wait: it succeeded"},
                 {1, "with --wait: it failed, was stopped or aborted"},
                 {65, "it is running already"},
                 kNoJob},
       .run = run_host_run},
      {.name = "stop",
       .summary = "disable a continuous job, or end a run",
       .description = "A continuous job is stopped and stays so, also over restarts, until it is "
                      "started. Of a triggered job the run under way is ended.",
       .arguments = {kFolderName},
       .scopes = kClient,
       .examples = {{"mainspring jobs-host stop mailer", ""}},
       .exits = {{65, "it does not run"}, kNoJob},
       .run = run_host_stop},
      {.name = "start",
       .summary = "enable a continuous job, or restart it now",
       .description = "Enables a continuous job that was stopped. One that waits for its restart "
                      "begins at once.",
       .arguments = {kFolderName},
       .scopes = kClient,
       .examples = {{"mainspring jobs-host start mailer", ""}},
       .exits = {kNoJob},
       .run = run_host_start},
      {.name = "settings",
       .summary = "show or replace settings.job",
       .description = "Prints a job's settings.job, or replaces the whole file. The job is then "
                      "started anew.",
       .arguments = {kFolderName,
                     {"JSON", "the new content; @FILE, - = standard input", Count::optional}},
       .scopes = kClient,
       .examples = {{"mainspring jobs-host settings report '{\"schedule\":\"0 30 2 * * *\"}'", ""}},
       .exits = {kNoJob},
       .run = run_host_settings},
      {.name = "deploy",
       .summary = "put a file, a zip or a directory there as a job",
       .description = "Replaces a job folder at once and as a whole by a file, the content of a "
                      "zip, or a directory.",
       .arguments = {{"TYPE/NAME", "continuous/NAME, triggered/NAME or queue/NAME", Count::one},
                     {"SOURCE", "a script, a .zip or a directory", Count::one}},
       .flags = {},
       .scopes = kClient,
       .examples = {{"mainspring jobs-host deploy triggered/report report.sh", ""},
                    {"mainspring jobs-host deploy continuous/mailer ./mailer", ""}},
       .exits = {{64, "nothing in it can be run, or a zip breaks a rule; the old job stays"}},
       .run = run_host_deploy},
      {.name = "remove",
       .summary = "delete a job folder and its data",
       .description = "Stops a job and deletes its folder, logs and history.",
       .arguments = {kFolderName},
       .scopes = kClient,
       .examples = {{"mainspring jobs-host remove report", ""}},
       .exits = {kNoJob},
       .run = run_host_remove}};
}

Command jobs_host_command() {
  Command command{.name = "jobs-host",
                  .summary = "job folders: list, run, stop, deploy",
                  .description =
                      "Looks at the job folders of a server that was started with "
                      "--jobs, and changes them."};
  for (auto part : {looking(), doing()}) {
    command.children.insert(command.children.end(), part.begin(), part.end());
  }
  return command;
}

Command logs_command() {
  return {.name = "logs",
          .summary = "what a job folder's script wrote",
          .description =
              "Prints the log of a job folder: of a triggered job its latest run, of the "
              "others the end of the log. With -f it goes on until the run has ended, or "
              "you end it.",
          .arguments = {kFolderName},
          .flags = {{.name = "follow", .value = "", .help = "go on with what comes", .letter = "f"},
                    {.name = "run", .value = "ID", .help = "of a triggered job: this run"},
                    {.name = "bytes", .value = "N", .help = "about the last N bytes [16384]"},
                    {.name = "all", .value = "", .help = "from the beginning"}},
          .scopes = kClient,
          .examples = {{"mainspring logs mailer -f", ""},
                       {"mainspring logs report --run 202601310930000000", ""}},
          .exits = {kNoJob},
          .run = run_logs};
}

}  // namespace

std::vector<Command> host_commands() {
  return {host_command(), jobs_host_command(), logs_command()};
}

}  // namespace mainspring::cli
