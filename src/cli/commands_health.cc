// The table of commands: inspecting a server and its machine.
#include "cli/commands.h"
#include "cli/handlers.h"

namespace mainspring::cli {

std::vector<Command> health_commands() {
  return {
      {.name = "top",
       .summary = "watch queues as they work",
       .description =
           "Show rates, lag and running jobs of each queue, and refresh them until Ctrl-C. WAIT "
           "and "
           "RUN are the median and the 95th percentile of the last 5 minutes, for the first 32 "
           "queues. The queue whose oldest job waits longest comes first; a terminal shows those "
           "that fit. While a server restarts, it tries again. Without a terminal it prints two "
           "looks.",
       .flags = {{.name = "every", .value = "TIME", .help = "between two looks [2s]"},
                 {.name = "count", .value = "N", .help = "stop after this many looks"}},
       .scopes = kClientScope | kEverywhere,
       .examples = {{"mainspring top", ""}, {"mainspring top --every 10s --json", ""}},
       .run = run_top},
      {.name = "health",
       .summary = "check the server's health",
       .description = "Print one line: the state of the server, and each part that is not ok. "
                      "Use it as the health check of a container.",
       .flags = {{.name = "ready", .value = "", .help = "only: does it take requests?"},
                 {.name = "live", .value = "", .help = "only: do its loops turn?"},
                 {.name = "timeout", .value = "TIME", .help = "how long to wait [5s]"}},
       .scopes = kClientScope | kEverywhere,
       .examples = {{"mainspring health", ""},
                    {"mainspring health --ready", "as HEALTHCHECK of a container"}},
       .exits = {{0, "ok, or a minor part warns"}, {1, "it fails, or gives no answer"}},
       .run = run_health},
      {.name = "doctor",
       .summary = "check the machine and the settings",
       .description =
           "Check kernel, file system, disk, limits, clock, sandbox, certificates, database and "
           "server, and say what to change. Run it as the user that runs the server, with the "
           "same settings.",
       .scopes = kClientScope | kServeScope | kStoreScope | kHostScope | kEverywhere,
       .examples = {{"mainspring doctor", ""},
                    {"mainspring doctor --config /etc/mainspring/config.toml", ""}},
       .exits = {{0, "nothing fails"}, {1, "something fails"}},
       .run = run_doctor},
      {.name = "support-bundle",
       .summary = "collect what a report of a problem needs",
       .description =
           "Write a tar.gz with versions, settings, what the doctor found, facts about the "
           "system and the store, and health, queues, workers and metrics of the server. It has "
           "no args, results or errors of jobs, no tokens, keys or passwords.",
       .flags = {{.name = "output",
                  .value = "FILE",
                  .help = "where [mainspring-support-….tar.gz]"}},
       .scopes = kClientScope | kServeScope | kStoreScope | kHostScope | kEverywhere,
       .examples = {{"mainspring support-bundle --output bundle.tar.gz", ""}},
       .exits = {{74, "the file is there already, or cannot be written"}},
       .run = run_support_bundle},
      {.name = "complete",
       .summary = "names for the completion of shells",
       .description = "Print the names of queues or schedules, one per line.",
       .arguments = {{"WHAT", "queues or schedules", Argument::Count::one}},
       .scopes = kClientScope | kEverywhere,
       .run = run_complete,
       .hidden = true}};
}

}  // namespace mainspring::cli
