// The table of commands: breakers.
#include "cli/commands.h"
#include "cli/handlers.h"

namespace mainspring::cli {
namespace {

using Count = Argument::Count;

const ExitCode kMissingBreaker = {66, "there is no such breaker"};
const Argument kBreakerName = {"NAME", "the breaker's name", Count::one};

Command breaker_set_command() {
  return {
      .name = "set",
      .summary = "make a breaker, or change it",
      .description =
          "Makes a breaker, which queues name: `mainspring queues limit QUEUE --breaker NAME`. "
          "When "
          "so many attempts of their jobs have failed in the time, it opens, and their jobs wait. "
          "Then it lets a few of them begin, and more as they succeed. What is not given stays as "
          "it is, and so does the state.",
      .arguments = {kBreakerName},
      .flags = {{.name = "failures", .value = "N", .help = "failed attempts that open it [5]"},
                {.name = "within", .value = "TIME", .help = "in so long [1m]"},
                {.name = "open-for",
                 .value = "TIME",
                 .help = "how long at first; twice after each failed probe [30s]"},
                {.name = "max-open-for", .value = "TIME", .help = "and no longer [10m]"},
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
      .summary = "hold back jobs while what they need is unwell",
      .description = "Breakers of what jobs depend on: made, shown, opened and closed by hand.",
      .children = {breaker_set_command(),
                   {.name = "list",
                    .summary = "all breakers",
                    .description = "Lists breakers with their state and the queues that name them.",
                    .scopes = kClient,
                    .examples = {{"mainspring breaker list", ""}},
                    .run = run_breaker_list},
                   {.name = "show",
                    .summary = "a breaker",
                    .description = "Shows a breaker: its state, what it has counted, its settings.",
                    .arguments = {kBreakerName},
                    .scopes = kClient,
                    .examples = {{"mainspring breaker show geocoder", ""}},
                    .exits = {kMissingBreaker},
                    .run = run_breaker_show},
                   {.name = "open",
                    .summary = "let jobs of its queues wait",
                    .description = "Opens a breaker. Jobs that run go on. Then it is half open.",
                    .arguments = {kBreakerName},
                    .flags = {{.name = "for",
                               .value = "TIME",
                               .help = "how long: 1s to 24h [its open-for]"}},
                    .scopes = kClient,
                    .examples = {{"mainspring breaker open geocoder --for 10m", ""}},
                    .exits = {kMissingBreaker},
                    .run = run_breaker_open},
                   {.name = "close",
                    .summary = "let jobs of its queues begin again",
                    .description = "Closes a breaker, and forgets what it has counted.",
                    .arguments = {kBreakerName},
                    .scopes = kClient,
                    .examples = {{"mainspring breaker close geocoder", ""}},
                    .exits = {kMissingBreaker},
                    .run = run_breaker_close},
                   {.name = "remove",
                    .summary = "remove a breaker",
                    .description = "Removes a breaker that no queue names.",
                    .arguments = {kBreakerName},
                    .scopes = kClient,
                    .examples = {{"mainspring breaker remove geocoder", ""}},
                    .exits = {{65, "a queue names it"}, kMissingBreaker},
                    .run = run_breaker_remove}}};
}

}  // namespace mainspring::cli
