// The table of commands: inspecting a server and its machine.
#include "cli/commands.h"
#include "cli/handlers.h"

namespace mainspring::cli {

std::vector<Command> health_commands() {
  return {
      {.name = "top",
       .summary = "show live rates of each queue",
       .description =
           "Show rates, lag and running jobs of each queue, and refresh them until Ctrl-C. WAIT "
           "and RUN are the median and the 95th percentile of the last 5 minutes, for the first 32 "
           "queues. The queue whose oldest job waits longest comes first; a terminal shows the "
           "queues that fit. While a server restarts, it tries again. Without a terminal, print "
           "two samples.",
       .flags = {{.name = "every", .value = "TIME", .help = "interval between samples [2s]"},
                 {.name = "count", .value = "N", .help = "stop after N samples"}},
       .scopes = kClientScope | kEverywhere,
       .examples = {{"mainspring top", ""}, {"mainspring top --every 10s --json", ""}},
       .run = run_top},
      {.name = "health",
       .summary = "check the server's health",
       .description = "Print one line: the state of the server, and each part that is not ok. "
                      "Use it as the health check of a container.",
       .flags = {{.name = "ready", .value = "", .help = "check only whether it accepts requests"},
                 {.name = "live", .value = "", .help = "check only whether its threads respond"},
                 {.name = "timeout", .value = "TIME", .help = "time limit [5s]"}},
       .scopes = kClientScope | kEverywhere,
       .examples = {{"mainspring health", ""},
                    {"mainspring health --ready", "as HEALTHCHECK of a container"}},
       .exits = {{0, "ok, or a minor part warns"}, {1, "it fails or does not answer"}},
       .run = run_health},
      {.name = "doctor",
       .summary = "check the machine and the settings",
       .description =
           "Check kernel, file system, disk, limits, clock, sandbox, certificates, database and "
           "server, and say what to change. Invalid settings are findings too. Run it as the user "
           "that runs the server, with the same settings.",
       .scopes = kClientScope | kServeScope | kStoreScope | kHostScope | kEverywhere,
       .examples = {{"mainspring doctor", ""},
                    {"mainspring doctor --config /etc/mainspring/config.toml", ""}},
       .exits = {{0, "nothing fails"}, {1, "something fails"}},
       .run = run_doctor,
       .any_settings = true},
      {.name = "support-bundle",
       .summary = "collect diagnostics for a problem report",
       .description =
           "Write a tar.gz with versions, settings, the findings of `mainspring doctor`, facts "
           "about the system and the store, and health, workers and metrics of the server, up to "
           "100,000 queues and 10,000 schedules. It contains no args, results or errors of jobs, "
           "and no limit keys, reasons of pauses, tokens, keys or passwords.",
       .flags = {{.name = "output",
                  .value = "FILE",
                  .help = "output file [mainspring-support-….tar.gz]"}},
       .scopes = kClientScope | kServeScope | kStoreScope | kHostScope | kEverywhere,
       .examples = {{"mainspring support-bundle --output bundle.tar.gz", ""}},
       .exits = {{74, "the file exists, or cannot be written"}},
       .run = run_support_bundle,
       .any_settings = true},
      {.name = "complete",
       .summary = "print names for shell completion",
       .description = "Print the names of queues or schedules, one per line.",
       .arguments = {{"WHAT", "queues or schedules", Argument::Count::one}},
       .scopes = kClientScope | kEverywhere,
       .run = run_complete,
       .hidden = true}};
}

}  // namespace mainspring::cli
