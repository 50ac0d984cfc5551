// The table of commands: breakers.
#include "cli/commands.h"
#include "cli/handlers.h"

namespace mainspring::cli {
namespace {

using Count = Argument::Count;

const ExitCode kMissingBreaker = {66, "no such breaker"};
const Argument kBreakerName = {"NAME", "the breaker's name", Count::one};

Command breaker_set_command() {
  return {
      .name = "set",
      .summary = "create or change a breaker",
      .description =
          "Create or change a breaker. Attach it with `mainspring queues limit QUEUE --breaker "
          "NAME`. When --failures attempts fail within the period, it opens and jobs of its queues "
          "wait. Later it lets a few jobs start, and more as they succeed. Omitted settings and "
          "the state are unchanged.",
      .arguments = {kBreakerName},
      .flags = {{.name = "failures", .value = "N", .help = "failed attempts that open it [5]"},
                {.name = "within", .value = "TIME", .help = "period in which failures count [1m]"},
                {.name = "open-for",
                 .value = "TIME",
                 .help = "how long it is open; doubled after each failed probe [30s]"},
                {.name = "max-open-for",
                 .value = "TIME",
                 .help = "limit of the doubled time "
                         "[10m]"},
                {.name = "probes",
                 .value = "N",
                 .help = "jobs that run at once when it is half open [1]"}},
      .scopes = kClient,
      .examples = {{"mainspring breaker set geocoder", ""},
                   {"mainspring breaker set geocoder --failures 20 --open-for 2m", ""}},
      .exits = {{64, "a flag breaks a rule; nothing was set"}},
      .run = run_breaker_set};
}

}  // namespace

Command breakers_command() {
  return {
      .name = "breaker",
      .summary = "protect services that jobs depend on",
      .description = "Manage circuit breakers for the services that jobs depend on.",
      .children = {breaker_set_command(),
                   {.name = "list",
                    .summary = "list breakers",
                    .description = "List breakers with their state and queues.",
                    .scopes = kClient,
                    .examples = {{"mainspring breaker list", ""}},
                    .run = run_breaker_list},
                   {.name = "show",
                    .summary = "show a breaker",
                    .description = "Show a breaker: state, counts, settings.",
                    .arguments = {kBreakerName},
                    .scopes = kClient,
                    .examples = {{"mainspring breaker show geocoder", ""}},
                    .exits = {kMissingBreaker},
                    .run = run_breaker_show},
                   {.name = "open",
                    .summary = "open a breaker",
                    .description = "Open a breaker. Running jobs continue. Afterwards it is half "
                                   "open.",
                    .arguments = {kBreakerName},
                    .flags = {{.name = "for",
                               .value = "TIME",
                               .help = "how long: 1s to 24h [its open-for]"}},
                    .scopes = kClient,
                    .examples = {{"mainspring breaker open geocoder --for 10m", ""}},
                    .exits = {kMissingBreaker},
                    .run = run_breaker_open},
                   {.name = "close",
                    .summary = "close a breaker",
                    .description = "Close a breaker and reset its counts.",
                    .arguments = {kBreakerName},
                    .scopes = kClient,
                    .examples = {{"mainspring breaker close geocoder", ""}},
                    .exits = {kMissingBreaker},
                    .run = run_breaker_close},
                   {.name = "remove",
                    .summary = "remove a breaker",
                    .description = "Remove a breaker that no queue uses.",
                    .arguments = {kBreakerName},
                    .scopes = kClient,
                    .examples = {{"mainspring breaker remove geocoder", ""}},
                    .exits = {{65, "a queue uses it"}, kMissingBreaker},
                    .run = run_breaker_remove}}};
}

}  // namespace mainspring::cli
