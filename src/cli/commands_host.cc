// The table of commands: host, jobs-host, logs.
#include "cli/commands.h"
#include "cli/handlers.h"

namespace mainspring::cli {
namespace {

using Count = Argument::Count;

const Argument kFolderName = {"NAME", "a job folder's name; TYPE/NAME if several types have it",
                              Count::one};
const ExitCode kNoJob = {66, "no such job folder, or the server runs none"};

Command host_command() {
  return {
      .name = "host",
      .summary = "run job folders for a remote server",
      .description =
          "Run the job folders in --jobs on this machine as jobs of a remote server. Several hosts "
          "can work for one server; a singleton runs on one of them, and another takes over if it "
          "dies.\n"
          "\n"
          "SIGTERM and Ctrl-C stop it cleanly: children are asked to stop and killed after their "
          "stopping_wait_time.",
      .scopes = kHostScope | kClient,
      .examples = {{"mainspring host --jobs /srv/jobs --server http://127.0.0.1:8080", ""},
                   {"mainspring host --jobs jobs --host-data /var/lib/mainspring-host", ""}},
      .exits = {{0, "stopped cleanly by a signal"},
                {64, "a setting breaks a rule"},
                {65, "another process uses the host's data directory"}},
      .run = run_host,
      .service = true};
}

std::vector<Command> looking() {
  return {{.name = "list",
           .summary = "list job folders with their status",
           .description = "List the job folders of the server.",
           .scopes = kClient,
           .examples = {{"mainspring jobs-host list", ""},
                        {"mainspring jobs-host list --json | jq -r .name", ""}},
           .exits = {kNoJob},
           .run = run_host_list},
          {.name = "show",
           .summary = "show a job folder",
           .description = "Show a job folder: script, status, settings.",
           .arguments = {kFolderName},
           .scopes = kClient,
           .examples = {{"mainspring jobs-host show report", ""}},
           .exits = {kNoJob},
           .run = run_host_show},
          {.name = "info",
           .summary = "show the job host: isolation, problems",
           .description = "Show the active isolation and the folders that cannot run.",
           .scopes = kClient,
           .examples = {{"mainspring jobs-host info", ""}},
           .exits = {kNoJob},
           .run = run_host_info},
          {.name = "history",
           .summary = "list the runs of a triggered job",
           .description = "List the kept runs of a triggered job, newest first.",
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
       .description = "Start a run of a triggered job and print its id. With --wait print the log "
                      "and exit with the outcome.",
       .arguments = {kFolderName, {"ARGUMENT", "arguments of the script, after --", Count::any}},
       .flags = {{.name = "wait", .value = "", .help = "wait for the end and print the log"}},
       .scopes = kClient,
       .examples = {{"mainspring jobs-host run report --wait -- --month 2026-01", ""}},
       .exits = {{0, "started; with --wait: it succeeded"},
                 {1, "with --wait: it failed, was stopped or aborted"},
                 {65, "it already runs"},
                 kNoJob},
       .run = run_host_run},
      {.name = "stop",
       .summary = "disable a continuous job, or stop a run",
       .description = "Stop a continuous job until it is started again, also across restarts; or "
                      "stop the current run of a triggered job.",
       .arguments = {kFolderName},
       .scopes = kClient,
       .examples = {{"mainspring jobs-host stop mailer", ""}},
       .exits = {{65, "it does not run"}, kNoJob},
       .run = run_host_stop},
      {.name = "start",
       .summary = "enable a continuous job, or restart it now",
       .description = "Enable a stopped continuous job. A job that waits for its restart starts at "
                      "once.",
       .arguments = {kFolderName},
       .scopes = kClient,
       .examples = {{"mainspring jobs-host start mailer", ""}},
       .exits = {kNoJob},
       .run = run_host_start},
      {.name = "settings",
       .summary = "show or replace settings.job",
       .description = "Print a job's settings.job, or replace the whole file and restart the job.",
       .arguments = {kFolderName,
                     {"JSON", "the new content; @FILE, - = standard input", Count::optional}},
       .scopes = kClient,
       .examples = {{"mainspring jobs-host settings report '{\"schedule\":\"0 30 2 * * *\"}'", ""}},
       .exits = {kNoJob},
       .run = run_host_settings},
      {.name = "deploy",
       .summary = "deploy a file, zip or directory as a job",
       .description = "Replace all files of a job in one step with a file, the content of a zip, "
                      "or a directory.",
       .arguments = {{"TYPE/NAME", "continuous/NAME, triggered/NAME or queue/NAME", Count::one},
                     {"SOURCE", "a script, a .zip or a directory", Count::one}},
       .flags = {},
       .scopes = kClient,
       .examples = {{"mainspring jobs-host deploy triggered/report report.sh", ""},
                    {"mainspring jobs-host deploy continuous/mailer ./mailer", ""}},
       .exits = {{64, "no runnable file, or an invalid zip; the old job is unchanged"}},
       .run = run_host_deploy},
      {.name = "remove",
       .summary = "delete a job folder and its data",
       .description = "Stop a job and delete its folder, logs and history.",
       .arguments = {kFolderName},
       .scopes = kClient,
       .examples = {{"mainspring jobs-host remove report", ""}},
       .exits = {kNoJob},
       .run = run_host_remove}};
}

Command jobs_host_command() {
  Command command{
      .name = "jobs-host",
      .summary = "manage job folders",
      .description = "Show and change the job folders of a server that runs with --jobs."};
  for (auto part : {looking(), doing()}) {
    command.children.insert(command.children.end(), part.begin(), part.end());
  }
  return command;
}

Command logs_command() {
  return {.name = "logs",
          .summary = "show a job folder's log",
          .description =
              "Print the log of a job folder: the latest run of a triggered job, the end of the "
              "log otherwise. With -f follow it until the run ends or you stop it. Control "
              "characters are escaped, also into a pipe. With --json print an object for each "
              "line: {\"run\"?, \"line\"}.",
          .arguments = {kFolderName},
          .flags = {{.name = "follow", .value = "", .help = "follow the log", .letter = "f"},
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
