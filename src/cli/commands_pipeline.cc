// The table of commands: pipelines.
#include "cli/commands.h"
#include "cli/handlers.h"

namespace mainspring::cli {
namespace {

using Count = Argument::Count;

Command pipeline_run_command() {
  return {
      .name = "run",
      .summary = "run the filters of a pipeline",
      .description =
          "Run a program for each job of each filter's queue, like `work`. FILE is JSON: "
          "{\"name\", \"filters\": [{\"name\", \"exec\", \"queue\"?, \"kind\"?, \"slots\"?, "
          "\"directory\"?, \"timeout\"?, \"retry_after\"?, \"max_attempts\"?, \"args\"?}, …]}. A "
          "filter's queue is PIPELINE.FILTER by default; exec \"none\" leaves its jobs to other "
          "workers.\n"
          "\n"
          "The result of a program goes into the next filter's queue, in the transaction that "
          "completes its job: an object is one job, a list of objects many, nothing or null drops "
          "the item. The object is merged into the item's args; with \"args\": \"replace\" it "
          "replaces them. Exit code 65 rejects an item: it is dead, with the program's message.\n"
          "\n"
          "Several processes can run the same file; --filter runs some of its filters. SIGTERM and "
          "Ctrl-C let running jobs finish for --graceful-stop and release the others.",
      .arguments = {{"FILE", "the definition; - = standard input", Count::one}},
      .flags = {{.name = "filter",
                 .value = "NAME",
                 .help = "only this filter [all with a program]",
                 .repeated = true},
                {.name = "drain",
                 .value = "",
                 .help = "stop when no queue has an available, running or retryable job"}},
      .scopes = kClientScope | kWorkScope | kEverywhere,
      .examples = {{"mainspring pipeline run photos.json", ""},
                   {"mainspring pipeline run photos.json --filter shrink --slots 8", ""},
                   {"mainspring pipeline run photos.json --drain",
                    "run the waiting jobs, then "
                    "stop"}},
      .exits = {{0, "stopped by a signal or --drain"},
                {64, "invalid definition, or a missing program"},
                {69, "the server is not reachable at the start"},
                {75, "--drain: a program cannot be started"}},
      .run = run_pipeline_run,
      .service = true};
}

}  // namespace

Command pipeline_command() {
  return {
      .name = "pipeline",
      .summary = "run and inspect pipelines of filters",
      .description = "Run pipelines of filters and show their progress.",
      .children = {
          pipeline_run_command(),
          {.name = "show",
           .summary = "count the jobs of each filter",
           .description =
               "Show waiting, running, done and dead jobs of each filter. Done jobs count while "
               "they are kept.",
           .arguments = {{"FILE", "the definition; - = standard input", Count::one}},
           .scopes = kClientScope | kEverywhere,
           .examples = {{"mainspring pipeline show photos.json", ""}},
           .exits = {{64, "invalid definition"}},
           .run = run_pipeline_show},
          {.name = "check",
           .summary = "check a definition, without a server",
           .description = "Check definitions and print the order of filters.",
           .arguments = {{"FILE", "definitions; - = standard input", Count::many}},
           .scopes = kEverywhere,
           .examples = {{"mainspring pipeline check photos.json", ""}},
           .exits = {{64, "invalid definition; the field is named"}},
           .run = run_pipeline_check}}};
}

}  // namespace mainspring::cli
